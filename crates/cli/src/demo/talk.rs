//! A demo conversation with the built-in talker: a sitting that ended with a summary, and what the person had remembered.
//! It is held as the person whom the web app names in local mode, so that the app shows these facts.

use std::sync::Arc;

use sederunt::{Actor, Json, PatchSession, Result};
use sederunt_agents::talk::Conversations;
use sederunt_agents::talk::end::EndWish;
use sederunt_core::engine::Post;
use sederunt_core::feedback::{Label, Modality, RatingSource};
use serde_json::json;

const THREAD: &str = "demo:chat";
/// The name that the web app gives its person in local mode.
const PERSON: &str = "web-user";

const MESSAGES: &[&str] = &[
    "I have been putting off the plan for our trip to Mull.",
    "The ferry is what worries me: the crossing may be rough.",
    "Remember that my sister gets seasick.",
    "Remember that I prefer morning ferries.",
    "Perhaps we should simply book it and go.",
];

pub async fn hold(conversations: &Conversations, me: &Arc<Actor>) -> Result<()> {
    let id = conversations.open(me, THREAD, None).await?;
    for text in MESSAGES {
        let post = Post { user: Some(PERSON.to_owned()), ..Post::text(text)? };
        let taken = conversations.post(me, &id, post, None).await?;
        conversations.reply_to(me, taken).await?;
    }
    let rating = EndWish {
        rating: Some(Label::Positive),
        source: RatingSource::ApiEnd,
        modality: Modality::Text,
        discard: false,
    };
    conversations.end(me, &id, rating).await?;
    let mark = PatchSession {
        title: Some(Some("Worried about the ferry".to_owned())),
        metadata: Some(Json::of(&json!({ "demo": true }))?),
        ..PatchSession::default()
    };
    conversations.patch(me, &id, mark, None).await.map(drop)
}
