//! Looking back: reads the messages since the last time once more for what is worth remembering and for what the
//! conversation is about, and gives a session without a description one. By rules; after a failure the next call
//! starts at the same message.

use std::sync::Arc;

use sederunt_core::access::Actor;
use sederunt_core::engine::LookbackResult;
use sederunt_core::event::Event;
use sederunt_core::ids::SessionId;
use sederunt_core::memory::{extract, summary};
use sederunt_core::safety::{self, Level};
use sederunt_core::talk::Talk;
use sederunt_core::{Error, Session, limits as core_limits};

use super::Conversations;
use crate::limits;

/// The result of looking back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    pub ran: bool,
    pub events_read: u64,
    pub wrote: Vec<&'static str>,
}

impl Conversations {
    /// Looks back over a conversation. Without new messages, nothing is done.
    pub async fn checkpoint(&self, actor: &Arc<Actor>, id: &SessionId) -> Result<Checkpoint, Error> {
        let (session, talk) = self.engine.sitting(actor, id).await?;
        let Some((found, events_read)) = self.looked_back(&session, &talk).await? else {
            return Ok(Checkpoint::default());
        };
        let wrote = self.engine.look_back(actor, id, found).await?;
        Ok(Checkpoint { ran: true, events_read, wrote })
    }

    /// What a look back over a conversation finds, and how many messages it has read; `None` without new messages.
    pub(super) async fn looked_back(
        &self,
        session: &Session,
        talk: &Talk,
    ) -> Result<Option<(LookbackResult, u64)>, Error> {
        let said =
            self.engine.said_after(session, talk.looked_back_to, core_limits::SITTING_MESSAGES_MAX).await?;
        let read = oldest_within(&said, limits::LOOK_BACK_CHARS_MAX);
        let Some(last) = read.last().map(|event| event.sequence) else { return Ok(None) };
        let texts: Vec<(&Event, String)> =
            read.iter().filter_map(|event| Some((event, event.shown_text()?))).collect();
        let calm = |text: &str| safety::check(text, &self.settings.safety, None).level == Level::Calm;
        let lines_from = |from: u64| -> Vec<(bool, &str)> {
            texts
                .iter()
                .filter(|(event, text)| event.sequence >= from && calm(text))
                .map(|(event, text)| (event.kind.as_str() == "user.message", text.as_str()))
                .collect()
        };
        let candidates = texts
            .iter()
            .filter(|(event, text)| event.kind.as_str() == "user.message" && calm(text))
            .filter(|(event, _)| is_the_holders(session, event))
            .flat_map(|(event, text)| extract::extract(text, event.sequence))
            .collect();
        let about = summary::summarise(&lines_from(talk.undecided_from()));
        let description = summary::summarise(&lines_from(0)).map(|made| made.summary);
        let found = LookbackResult { to: last, candidates, about, description };
        Ok(Some((found, read.len() as u64)))
    }
}

/// The oldest of these that together have at most `chars_max` characters; at least one, so that a long message does
/// not block those behind it.
fn oldest_within(said: &[Event], chars_max: usize) -> &[Event] {
    let mut chars = 0;
    let fits = |event: &Event| {
        chars += event.text().map_or(0, |text| text.chars().count());
        chars <= chars_max
    };
    let count = said.iter().map(fits).take_while(|fits| *fits).count();
    &said[..count.max(1).min(said.len())]
}

/// Whether a message may become a memory of the conversation's holder: in a direct one only their own words do.
fn is_the_holders(session: &Session, event: &Event) -> bool {
    match (&event.author, &session.head.holder) {
        (Some(author), Some(holder)) => session.head.is_group || **author == *holder.as_str(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use sederunt_core::Timestamp;
    use sederunt_core::event::EventType;
    use sederunt_core::json::Json;

    use super::*;

    #[test]
    fn one_look_back_reads_no_more_characters_than_the_bound_and_always_a_message() {
        let said = |sequence: u64, chars: usize| Event {
            session_id: SessionId::stored("s"),
            sequence,
            kind: EventType::known("user.message"),
            content: Some(
                Json::of(&serde_json::json!([{"type": "text", "text": "ä".repeat(chars)}])).unwrap(),
            ),
            metadata: None,
            subthread_id: None,
            external_event_id: None,
            turn: None,
            author: None,
            at: Timestamp::default(),
        };
        let read = |first: usize, second: usize| {
            oldest_within(&[said(1, first), said(2, second)], limits::LOOK_BACK_CHARS_MAX).len()
        };
        assert_eq!(read(1, limits::LOOK_BACK_CHARS_MAX - 1), 2);
        assert_eq!(read(1, limits::LOOK_BACK_CHARS_MAX), 1);
        assert_eq!(read(limits::LOOK_BACK_CHARS_MAX + 1, 1), 1, "a message that is too long is read alone");
    }
}
