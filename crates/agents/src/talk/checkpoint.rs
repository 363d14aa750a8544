//! Looking back: what was said since the last time is read once more for what is worth remembering, and a session
//! that nobody described gets a description. By rules; a failure moves no cursor.

use std::sync::Arc;

use sederunt_core::Error;
use sederunt_core::access::Actor;
use sederunt_core::ids::SessionId;
use sederunt_core::memory::{extract, summary};

use super::Talker;
use crate::limits;

/// What looking back came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    pub ran: bool,
    pub events_read: u64,
    pub wrote: Vec<&'static str>,
}

impl Talker {
    /// Looks back over a conversation. Nothing new since the last time: nothing is done.
    pub async fn checkpoint(&self, actor: &Arc<Actor>, id: &SessionId) -> Result<Checkpoint, Error> {
        let (session, talk) = self.engine.sitting(actor, id).await?;
        let said = self
            .engine
            .said_since(&session, Some(talk.looked_back_to + 1), limits::SITTING_MESSAGES_MAX)
            .await?;
        let Some(last) = said.last().map(|event| event.sequence) else { return Ok(Checkpoint::default()) };
        let mut chars = 0;
        let read: Vec<_> = said
            .iter()
            .rev()
            .filter_map(|event| Some((event, event.text()?)))
            .take_while(|(_, text)| {
                chars += text.chars().count();
                chars <= limits::LOOK_BACK_CHARS_MAX
            })
            .collect();
        let lines: Vec<(bool, &str)> = read
            .iter()
            .rev()
            .map(|(event, text)| (event.kind.as_str() == "user.message", text.as_str()))
            .collect();
        let found = read
            .iter()
            .rev()
            .filter(|(event, _)| event.kind.as_str() == "user.message")
            .flat_map(|(event, text)| extract::extract(text, event.sequence))
            .collect();
        let description = summary::summarise(&lines).map(|made| made.summary);
        let wrote = self.engine.look_back(actor, id, last, found, description).await?;
        Ok(Checkpoint { ran: true, events_read: read.len() as u64, wrote })
    }
}
