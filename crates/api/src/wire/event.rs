//! Events on the wire: as they are sent in, and as they are read.

use std::borrow::Cow;

use sederunt_core::engine::{Append as CoreAppend, DraftEvent as CoreDraft};
use sederunt_core::event::{self as core, EventQuery};
use sederunt_core::json::Json;
use sederunt_core::{Error, Timestamp, limits};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::{Count, Raw};
use crate::query::params;
use sederunt_core::strict::Object;

/// Who speaks in an event. Follows from its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventRole {
    User,
    Agent,
    System,
}

/// One immutable line of a session's log.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Event {
    pub session_id: String,
    /// Dense within the session, from 1.
    #[schema(minimum = 1)]
    pub sequence: u64,
    #[serde(rename = "type")]
    #[schema(example = "user.message")]
    pub kind: String,
    pub role: EventRole,
    /// Parts such as `{"type": "text", "text": "…"}`.
    #[schema(value_type = Option<Vec<Object>>)]
    pub content: Option<Raw>,
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Raw>,
    pub subthread_id: Option<String>,
    pub external_event_id: Option<String>,
    /// The sequence of the user's message that this answers.
    pub turn: Option<u64>,
    pub author: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

impl From<&core::Event> for Event {
    fn from(event: &core::Event) -> Self {
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        Self {
            session_id: event.session_id.to_string(),
            sequence: event.sequence,
            kind: event.kind.as_str().to_owned(),
            role: match event.kind.role() {
                core::EventRole::User => EventRole::User,
                core::EventRole::Agent => EventRole::Agent,
                core::EventRole::System => EventRole::System,
            },
            content: event.content.clone().map(Raw),
            metadata: event.metadata.clone().map(Raw),
            subthread_id: text(&event.subthread_id),
            external_event_id: text(&event.external_event_id),
            turn: event.turn,
            author: text(&event.author),
            at: event.at,
        }
    }
}

/// Events to append: all of them, in this order, or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"events": [{"type": "user.message", "content": "hello"}]}))]
pub struct Append<'a> {
    #[serde(borrow)]
    #[schema(value_type = Vec<DraftEvent>, min_items = 1, max_items = 500)]
    pub events: Vec<Object<DraftEvent<'a>>>,
    /// The last sequence that the caller has seen; another one is 409 `sequence_mismatch`.
    pub expected_sequence: Option<Count>,
    /// The epoch of the caller's claim; needed for `agent.*` and `tool.*`.
    pub epoch: Option<Count>,
}

/// An event to append.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DraftEvent<'a> {
    /// A known type, or a dotted custom name such as `billing.charged`.
    #[serde(rename = "type", borrow)]
    #[schema(value_type = String, min_length = 3, max_length = 200, pattern = "^[a-z][a-z0-9_-]*(\\.[a-z][a-z0-9_-]*)+$")]
    pub kind: Cow<'a, str>,
    /// May be left out: it follows from the type, and a contradicting one is refused.
    pub role: Option<EventRole>,
    /// Text, or an array of parts.
    #[serde(borrow)]
    #[schema(value_type = Option<Content>)]
    pub content: Option<&'a RawValue>,
    /// At most 16 KiB.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<&'a RawValue>,
    #[serde(alias = "thread_id")]
    #[schema(min_length = 1, max_length = 200)]
    pub subthread_id: Option<String>,
    /// A second event with the same one is not written: the first is returned.
    #[schema(min_length = 1, max_length = 200)]
    pub external_event_id: Option<String>,
}

/// What an event says: text, or an array of parts. Only for the API document.
#[derive(Debug)]
pub struct Content;

impl PartialSchema for Content {
    fn schema() -> RefOr<Schema> {
        let text =
            ObjectBuilder::new().schema_type(Type::String).description(Some("Stored as one text part"));
        let part = ObjectBuilder::new().schema_type(Type::Object);
        let parts = ArrayBuilder::new()
            .items(part)
            .description(Some("Such as `{\"type\": \"text\", \"text\": \"…\"}`"));
        OneOfBuilder::new().item(text).item(parts).into()
    }
}

impl ToSchema for Content {}

impl Append<'_> {
    pub fn into_core(self) -> CoreAppend {
        CoreAppend {
            events: self.events.into_iter().map(|Object(draft)| draft.into_core()).collect(),
            expected_sequence: self.expected_sequence.map(|count| count.0),
            epoch: self.epoch.map(|count| count.0),
        }
    }
}

impl DraftEvent<'_> {
    fn into_core(self) -> CoreDraft {
        let role = self.role.map(|role| match role {
            EventRole::User => "user",
            EventRole::Agent => "agent",
            EventRole::System => "system",
        });
        CoreDraft {
            kind: self.kind.into_owned(),
            role: role.map(str::to_owned),
            content: self.content.map(|raw| Json::stored(raw.get())),
            metadata: self.metadata.map(|raw| Json::stored(raw.get())),
            subthread_id: self.subthread_id,
            external_event_id: self.external_event_id,
        }
    }
}

/// The appended events.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Appended {
    pub events: Vec<Event>,
    pub last_sequence: u64,
    /// A stop of the session was requested. Only the holder of its claim is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub stop_requested: Option<bool>,
    /// Events of the caller's activity that are not recorded: repeated views of an entity, and excluded paths. Only in
    /// the answer to `human.*` events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub dropped: Option<usize>,
}

/// A page of a log.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    pub events: Vec<Event>,
    /// The end of the log.
    pub last_sequence: u64,
    pub has_more: bool,
    /// Where the next page starts: `after_sequence`, or `before_sequence` with `order=desc`.
    pub next_after: u64,
}

params! {
    /// What to read of a log.
    pub struct EventsQuery {
        /// Only events after this one.
        after_sequence | "afterSequence": u64 = number().min(0).or(0),
        /// Only events before this one.
        before_sequence | "beforeSequence": Option<u64> = number().min(0),
        /// Only these types, separated by commas.
        types | "event_types" | "eventTypes": Vec<String> = text().example("user.message,agent.message").list(),
        order: Option<Order> = word(),
        limit: usize = page_limit(),
        /// A share link's token, instead of a key.
        share: () = ShareToken,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    Asc,
    Desc,
}

impl TryFrom<EventsQuery> for EventQuery {
    type Error = Error;

    fn try_from(query: EventsQuery) -> Result<Self, Error> {
        if query.types.len() > limits::PAGE_ROWS_DEFAULT {
            return Err(Error::invalid("types", format!("names more than {}", limits::PAGE_ROWS_DEFAULT)));
        }
        Ok(Self {
            after: query.after_sequence,
            before: query.before_sequence,
            types: query.types,
            newest_first: query.order == Some(Order::Desc),
            limit: query.limit,
            ..Self::default()
        })
    }
}

params! {
    /// Where to start following a log.
    pub struct StreamQuery {
        /// Events after this one. `Last-Event-ID` wins, since a browser sends it when it comes back.
        after: Option<u64> = number().min(0),
        /// Also who is present: `event: presence` at once and after every change.
        presence: bool = switch().says_default(),
        /// A share link's token, instead of a key.
        share: () = ShareToken,
    }
}
