//! What is to be sent to a platform. Owns the row that the commit which ends a turn files, the rule that says which
//! ends file one, and how long a failed attempt waits. Refuses to know what a part looks like: the adapters split and
//! render.

use std::time::Duration;

use super::ConversationKey;
use crate::event::{AppendOutcome, NewEvent};
use crate::ids::SessionId;
use crate::limits;
use crate::session::Session;
use crate::store::Record;
use crate::time::Timestamp;

/// The event that ends a turn.
const TURN_END: &str = "session.turn";

/// Something that a conversation is to be told: what a turn has said, or a fixed sentence. The deliveries of a
/// conversation are sent one after the other, in the order of their commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Follows from what it is about, so that the same thing is filed once.
    pub id: Box<str>,
    pub key: ConversationKey,
    pub session: SessionId,
    /// The turn whose words are sent; 0 for a fixed sentence.
    pub turn: u64,
    /// The event that ended that turn. Set by the store, see [`Delivery::land`].
    pub sequence: u64,
    /// The fixed sentence.
    pub text: Option<Box<str>>,
    pub state: DeliveryState,
    /// Parts that the platform has taken.
    pub parts_sent: u32,
    /// The messages of the platform that show it, in order. One more than there are parts sent: the last one shows a part
    /// that is still being written.
    pub message_ids: Vec<Box<str>>,
    /// Attempts that failed since the last part.
    pub attempts: u32,
    /// When it may be sent; set by the store, as `filed_at` is.
    pub due_at: Timestamp,
    pub filed_at: Timestamp,
    /// Why the last attempt failed.
    pub reason: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// It is to be sent.
    Waiting,
    /// It will never be sent.
    GivenUp,
}

impl DeliveryState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::GivenUp => "given_up",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Waiting, Self::GivenUp].into_iter().find(|state| state.as_str() == text)
    }
}

/// What the holder of a channel notes of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryNote {
    /// The platform has taken parts, or shows a part that is still being written, as these messages.
    Shown { parts_sent: u32, message_ids: Vec<Box<str>> },
    /// An attempt failed; the next one comes after this time.
    Later { after: Duration, reason: Box<str> },
    /// Everything is sent: the row goes.
    Sent,
    /// It will never be sent.
    GivenUp { reason: GiveUpReason },
}

/// Why something will never be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUpReason {
    /// The person has blocked the bot.
    Blocked,
    /// The bot was removed from the chat.
    Removed,
    /// The platform knows no such chat.
    ChatNotFound,
    /// The platform does not accept the bot's token.
    TokenRefused,
    /// The platform refuses this message, also as plain text.
    MessageRefused,
}

impl GiveUpReason {
    pub const ALL: [Self; 5] =
        [Self::Blocked, Self::Removed, Self::ChatNotFound, Self::TokenRefused, Self::MessageRefused];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Removed => "removed",
            Self::ChatNotFound => "chat_not_found",
            Self::TokenRefused => "token_refused",
            Self::MessageRefused => "message_refused",
        }
    }
}

impl Delivery {
    /// A fixed sentence to a conversation. `about` names the occasion: the same one is filed once.
    pub fn sentence(key: &ConversationKey, session: &SessionId, about: &str, text: &str) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::blank(format!("{}:{about}", key.channel).into(), key.clone(), session.clone())
        }
    }

    fn blank(id: Box<str>, key: ConversationKey, session: SessionId) -> Self {
        Self {
            id,
            key,
            session,
            turn: 0,
            sequence: 0,
            text: None,
            state: DeliveryState::Waiting,
            parts_sent: 0,
            message_ids: Vec::new(),
            attempts: 0,
            due_at: Timestamp::default(),
            filed_at: Timestamp::default(),
            reason: None,
        }
    }

    /// Sets what only the committing store knows. Both stores call this, after the events of the same change have got
    /// their numbers.
    pub fn land<'a>(&mut self, appended: impl Iterator<Item = &'a AppendOutcome>, now: Timestamp) {
        self.filed_at = now;
        self.due_at = now;
        for slot in appended {
            if let AppendOutcome::New(event) = slot
                && event.kind.as_str() == TURN_END
            {
                self.sequence = event.sequence;
            }
        }
    }
}

/// The delivery that goes into a change which appends these events: there is one if they end a turn of a conversation
/// on a platform.
pub fn filed(session: &Session, events: &[NewEvent]) -> Option<Record> {
    let end = events.iter().rfind(|event| event.kind.as_str() == TURN_END)?;
    let turn = end.metadata.as_ref()?.value()["turn"].as_u64()?;
    let key = ConversationKey::of(session)?;
    let id = format!("{}:{turn}", session.head.incarnation.0.simple());
    let delivery = Delivery { turn, ..Delivery::blank(id.into(), key, session.id.clone()) };
    Some(Record::AddDelivery(Box::new(delivery)))
}

/// How long a delivery waits after so many failed attempts, where the platform does not say: 1, 2, 4 … 60 seconds.
pub fn wait_after(attempts: u32) -> Duration {
    let doubled = 1_u64.checked_shl(attempts.saturating_sub(1)).unwrap_or(u64::MAX);
    Duration::from_secs(doubled).min(limits::DELIVERY_WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::EventType;
    use crate::json::Json;
    use crate::session::SourceKind;
    use crate::session::Status;
    use crate::session::decide::tests::session_in;

    fn of_a_channel() -> Session {
        let mut session = session_in(Status::Running);
        session.details.source.kind = SourceKind::Channel;
        session.details.source.platform = Some("telegram".into());
        session.details.source.trigger_id = Some("desk".into());
        session.details.metadata = Json::of(&json!({"telegram_chat_id": "7"})).unwrap();
        session
    }

    fn end(turn: serde_json::Value) -> NewEvent {
        let metadata = Json::of(&json!({"turn": turn, "outcome": "answered"})).unwrap();
        NewEvent::engine(EventType::known(TURN_END), Some(metadata))
    }

    #[test]
    fn an_end_of_a_turn_on_a_platform_files_one_delivery_and_nothing_else_does() {
        let session = of_a_channel();
        let Some(Record::AddDelivery(delivery)) = filed(&session, &[end(json!(3))]) else { panic!() };
        assert_eq!((&*delivery.key.channel, &*delivery.key.chat, delivery.turn), ("desk", "7", 3));
        assert!(filed(&session, &[]).is_none());
        assert!(filed(&session, &[end(json!(null))]).is_none(), "a turn that was recorded, not held here");
        assert!(filed(&session_in(Status::Running), &[end(json!(3))]).is_none());
    }

    #[test]
    fn the_same_turn_is_filed_under_the_same_id() {
        let session = of_a_channel();
        let id = |turn: u64| match filed(&session, &[end(json!(turn))]) {
            Some(Record::AddDelivery(delivery)) => delivery.id,
            _ => panic!(),
        };
        assert_eq!(id(3), id(3));
        assert_ne!(id(3), id(4));
    }

    #[test]
    fn waits_double_up_to_a_minute() {
        let waits: Vec<u64> = (1..=9).map(|attempts| wait_after(attempts).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(wait_after(u32::MAX), limits::DELIVERY_WAIT_MAX);
    }
}
