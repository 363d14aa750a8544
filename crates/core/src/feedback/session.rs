//! Feedback sessions: what a person adds to a thumb while it is fresh. Opened on a feedback event, added to message
//! by message, closed by request or by silence. Owns the row and every decision on it.
//!
//! A refused addition is a result and no error ([`AdditionOutcome`]): the caller needs to know that the session is closed or
//! full, and goes on with its own work.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::capture::{Signal, Speaker};
use super::complaint::{self, Complaint};
use super::secret;
use crate::ids::UserId;
use crate::limits;
use crate::safety::codes::codes;
use crate::time::Timestamp;

codes!(FeedbackState { Open = "open", Finalized = "finalized" });

/// A feedback session as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedbackSession {
    /// `fbs_` and twelve hexadecimal digits.
    pub id: String,
    /// The feedback event that it adds to.
    pub event: String,
    pub signal: Signal,
    pub state: FeedbackState,
    pub opened_at: Timestamp,
    /// When silence closes it, or would have closed it.
    pub expires_at: Timestamp,
    pub author: Option<UserId>,
    /// Counts changes, from 1.
    pub version: u64,
    pub body: SessionBody,
}

/// The part of it that a store keeps as one text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionBody {
    pub initial_context: Option<String>,
    pub messages: Vec<Addition>,
    pub closed: Option<FeedbackClosure>,
}

/// A message that was added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Addition {
    pub role: Speaker,
    pub text: String,
    pub at: Timestamp,
}

/// How and with what it was closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeedbackClosure {
    pub at: Timestamp,
    pub reason: ClosingReason,
    pub complaints: Vec<Complaint>,
    /// The lesson that was drawn from it, new or known; `None` where there was nothing to learn from.
    pub lesson: Option<String>,
}

codes!(ClosingReason { Asked = "asked", Silence = "silence" });

/// The outcome of an attempt to add a message.
#[derive(Clone, Debug, PartialEq)]
pub enum AdditionOutcome {
    Appended { session: Box<FeedbackSession>, truncated: bool },
    NotFound,
    Closed { at: Timestamp },
    Full,
    Invalid { message: &'static str },
    Blocked(secret::SecretKind),
}

/// Adds a message, or says why not: closed is reported before full, and both before a fault of the message.
pub fn add(
    session: &FeedbackSession,
    role: Speaker,
    message: &str,
    now: Timestamp,
    timeout: Duration,
) -> AdditionOutcome {
    if let Some(closed) = &session.body.closed {
        return AdditionOutcome::Closed { at: closed.at };
    }
    if session.expires_at <= now {
        // Silence has closed it; the next sweep records that.
        return AdditionOutcome::Closed { at: session.expires_at };
    }
    if session.body.messages.len() >= limits::FEEDBACK_MESSAGES_MAX {
        return AdditionOutcome::Full;
    }
    let message = message.trim();
    if message.is_empty() {
        return AdditionOutcome::Invalid { message: "say something: the message is blank" };
    }
    if message.contains('\0') {
        return AdditionOutcome::Invalid { message: "a message is text: it must not contain NUL" };
    }
    if let Some(kind) = secret::found(message) {
        return AdditionOutcome::Blocked(kind);
    }
    let (text, truncated) = cut(message);
    let mut session = session.clone();
    session.body.messages.push(Addition { role, text, at: now });
    session.expires_at = now.plus(timeout);
    AdditionOutcome::Appended { session: Box::new(session), truncated }
}

/// A message cut to its limit, and whether it was cut.
fn cut(message: &str) -> (String, bool) {
    match message.char_indices().nth(limits::FEEDBACK_MESSAGE_CHARS_MAX) {
        Some((end, _)) => (message[..end].to_owned(), true),
        None => (message.to_owned(), false),
    }
}

impl FeedbackSession {
    pub fn is_open(&self) -> bool {
        self.state == FeedbackState::Open
    }

    /// Everything that the person said: the thumb's words, then what was added.
    pub fn enriched_context(&self) -> String {
        let added: Vec<&str> = self.said_by_user().map(|one| one.text.as_str()).collect();
        match self.body.initial_context.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
            Some(context) if added.is_empty() => context.to_owned(),
            Some(context) => format!("{context}\n\nFollow-up:\n{}", added.join("\n")),
            None => added.join("\n"),
        }
    }

    pub fn said_by_user(&self) -> impl Iterator<Item = &Addition> {
        self.body.messages.iter().filter(|one| one.role == Speaker::User)
    }

    /// The person's complaints, in the thumb's words and in what was added.
    pub fn complaints(&self) -> Vec<Complaint> {
        let first = self.body.initial_context.iter().map(|text| (text.as_str(), self.opened_at));
        let later = self.said_by_user().map(|one| (one.text.as_str(), one.at));
        first.chain(later).flat_map(|(text, at)| complaint::complaints(text, at)).collect()
    }

    /// The session with its end.
    #[must_use]
    pub fn closed(&self, closed: FeedbackClosure) -> Self {
        let body = SessionBody { closed: Some(closed), ..self.body.clone() };
        Self { state: FeedbackState::Finalized, body, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);
    const TIMEOUT: Duration = Duration::from_secs(60);

    fn session(messages: usize) -> FeedbackSession {
        let said = Addition { role: Speaker::User, text: "more".into(), at: NOW };
        FeedbackSession {
            id: "fbs_0".into(),
            event: "fb_0".into(),
            signal: Signal::Down,
            state: FeedbackState::Open,
            opened_at: NOW,
            expires_at: NOW.plus(TIMEOUT),
            author: None,
            version: 1,
            body: SessionBody {
                initial_context: Some("It broke.".into()),
                messages: vec![said; messages],
                closed: None,
            },
        }
    }

    fn closed(session: &FeedbackSession) -> FeedbackSession {
        session.closed(FeedbackClosure {
            at: NOW,
            reason: ClosingReason::Asked,
            complaints: Vec::new(),
            lesson: None,
        })
    }

    #[test]
    fn a_message_is_added_and_puts_the_end_off() {
        let later = NOW.plus(Duration::from_secs(59));
        let AdditionOutcome::Appended { session, truncated } =
            add(&session(0), Speaker::User, " more ", later, TIMEOUT)
        else {
            panic!("not added")
        };
        assert_eq!(session.expires_at, later.plus(TIMEOUT));
        assert_eq!(session.body.messages, [Addition { role: Speaker::User, text: "more".into(), at: later }]);
        assert!(!truncated);
    }

    #[test]
    fn over_comes_before_full_and_full_before_a_bad_message() {
        let full = session(limits::FEEDBACK_MESSAGES_MAX);
        let at =
            |session: &FeedbackSession, message: &str| add(session, Speaker::User, message, NOW, TIMEOUT);
        assert_eq!(at(&closed(&full), ""), AdditionOutcome::Closed { at: NOW });
        assert_eq!(at(&full, ""), AdditionOutcome::Full);
        assert!(matches!(
            at(&session(limits::FEEDBACK_MESSAGES_MAX - 1), "x"),
            AdditionOutcome::Appended { .. }
        ));
        for blank in ["", "  \n", "a\0b"] {
            assert!(matches!(at(&session(0), blank), AdditionOutcome::Invalid { .. }), "{blank:?}");
        }
        assert_eq!(
            at(&session(0), "password: hunter2hunter2"),
            AdditionOutcome::Blocked(secret::SecretKind::Credential)
        );
        let silent = add(&session(0), Speaker::User, "x", NOW.plus(TIMEOUT), TIMEOUT);
        assert_eq!(silent, AdditionOutcome::Closed { at: NOW.plus(TIMEOUT) });
    }

    #[test]
    fn a_message_is_cut_at_a_character_and_the_cut_is_reported() {
        let cases =
            [(limits::FEEDBACK_MESSAGE_CHARS_MAX, false), (limits::FEEDBACK_MESSAGE_CHARS_MAX + 1, true)];
        for (chars, cut) in cases {
            let message = "ä".repeat(chars);
            let AdditionOutcome::Appended { session, truncated } =
                add(&session(0), Speaker::User, &message, NOW, TIMEOUT)
            else {
                panic!("not added")
            };
            assert_eq!(truncated, cut);
            assert_eq!(session.body.messages[0].text.chars().count(), limits::FEEDBACK_MESSAGE_CHARS_MAX);
        }
    }

    #[test]
    fn what_the_person_said_is_gathered_and_what_the_agent_said_is_not() {
        let mut one = session(0);
        assert_eq!(one.enriched_context(), "It broke.");
        for (role, text) in [(Speaker::User, "You forgot the tests"), (Speaker::Assistant, "You never asked")]
        {
            one.body.messages.push(Addition { role, text: text.into(), at: NOW });
        }
        assert_eq!(one.enriched_context(), "It broke.\n\nFollow-up:\nYou forgot the tests");
        assert_eq!(one.complaints().len(), 1);
        one.body.initial_context = None;
        assert_eq!(one.enriched_context(), "You forgot the tests");
    }
}
