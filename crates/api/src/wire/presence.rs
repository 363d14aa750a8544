//! Who is present in a session, on the wire.

use sederunt_core::Timestamp;
use sederunt_core::json::Json;
use sederunt_core::presence::PresenceList;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Raw;

/// What the caller shows of themselves while they are present.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"state": {"cursor": 14}}))]
pub struct Attend<'a> {
    /// An object of at most 1 KiB, such as a cursor or a selection; the others see it as it is.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Object>)]
    pub state: Option<&'a RawValue>,
}

impl Attend<'_> {
    pub fn into_core(self) -> Option<Json> {
        self.state.map(|raw| Json::stored(raw.get()))
    }
}

/// Who is present in a session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Presence {
    /// How many people are present.
    pub count: usize,
    /// The people, in the order in which they came. A share link is shown the count alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub present: Option<Vec<PresentUser>>,
}

/// A person who is present in a session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PresentUser {
    /// Null for the one person of a server without authentication.
    pub user_id: Option<String>,
    #[schema(value_type = Option<Object>)]
    pub state: Option<Raw>,
    /// Since when the person has been present without a break.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
}

impl Presence {
    /// The list, as far as the caller may see it.
    pub fn of(list: &PresenceList, shows_people: bool) -> Self {
        let people = list.people.iter().map(|one| PresentUser {
            user_id: one.person.as_ref().map(ToString::to_string),
            state: one.state.clone().map(Raw),
            since: one.since,
        });
        Self { count: list.people.len(), present: shows_people.then(|| people.collect()) }
    }
}
