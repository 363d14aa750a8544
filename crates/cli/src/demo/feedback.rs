//! Demo feedback: two complaints and a thumb up about the demo's runs, and the lessons that are drawn from them.

use std::sync::Arc;

use sederunt::{Actor, Result, SessionId, SessionQuery, SessionType, TypeFilter};
use sederunt_agents::talk::Conversations;
use sederunt_core::engine::CaptureOutcome;
use sederunt_core::feedback::capture::{Capture, FeedbackText, Signal};

/// Titles of runs, and what is said about them.
const SAID: &[(&str, Signal, &str, &str)] = &[
    (
        "Tell customers about the new opening hours",
        Signal::Down,
        "It wanted to write to 312 customers without showing me the letter first.",
        "Show me the letter before you ask to send it to customers.",
    ),
    (
        "Reconcile November's invoices",
        Signal::Down,
        "It compared the boxes and not the prices of the invoices.",
        "Compare the price of every invoice with its order too.",
    ),
    (
        "Sort the inbox of last week",
        Signal::Up,
        "",
        "Only three messages were left, and they were the right ones.",
    ),
];

pub async fn give(conversations: &Conversations, me: &Arc<Actor>) -> Result<()> {
    let engine = conversations.engine();
    let all = SessionQuery::of(TypeFilter::Only(SessionType::Agent), 1000);
    let sessions = engine.sessions(me, all).await?.items;
    for (title, signal, wrong, text) in SAID {
        let about: Option<SessionId> = sessions
            .iter()
            .find(|session| session.details.title.as_deref() == Some(*title))
            .map(|session| session.id.clone());
        let text = Some((*text).to_owned());
        let words = match signal {
            Signal::Up => FeedbackText { what_worked: text, ..FeedbackText::default() },
            Signal::Down => FeedbackText {
                what_went_wrong: Some((*wrong).to_owned()),
                what_to_change: text,
                ..FeedbackText::default()
            },
        };
        let wish = Capture { signal: Some(*signal), words, session: about, ..Capture::default() };
        if let CaptureOutcome::Accepted { session, .. } = engine.capture_feedback(me, wish, None).await? {
            conversations.lesson_writer().finalize(me, &session.id).await?;
        }
    }
    Ok(())
}
