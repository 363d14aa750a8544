//! Who is present in a session: people that have it open now, each with a small state of their own such as a cursor.
//!
//! Owns the decisions ([`decide`]) and the bounded list in memory ([`board`]). Nothing of it is logged or stored: a
//! presence lapses [`limits::PRESENCE_LIFE`] after its last renewal, on every node, and so do those of a node that has
//! died. Incognito sessions have none.

pub mod board;
pub mod decide;
mod store;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

pub use board::{PresenceBoard, PresenceReader};
pub use store::PresenceStore;

use crate::ids::{CredentialId, Incarnation, TenantId, UserId};
use crate::json::Json;
use crate::limits;
use crate::time::Timestamp;

/// A person in a session. `None` is the one person of an installation without authentication.
pub type PresentPerson = Option<UserId>;

/// One person's presence in one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonPresence {
    pub person: PresentPerson,
    /// The credential of the last renewal: when it is revoked, the presence ends.
    pub credential: CredentialId,
    /// Whether the person is here as a participant. An owner may be present without taking part.
    pub takes_part: bool,
    pub state: Option<Json>,
    /// Since when the person has been present without a break.
    pub since: Timestamp,
    /// When the state was last changed.
    pub changed_at: Timestamp,
    pub renewed_at: Timestamp,
}

impl PersonPresence {
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.renewed_at.plus(limits::PRESENCE_LIFE)
    }
}

/// A change of who is present, for the other nodes. The newer of two changes of the same person counts, by the time of
/// the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PresenceChange {
    Put {
        tenant: TenantId,
        incarnation: Incarnation,
        presence: PersonPresence,
    },
    Left {
        tenant: TenantId,
        incarnation: Incarnation,
        person: PresentPerson,
        at: Timestamp,
    },
    /// The user may no longer be present in the tenant's sessions.
    UserGone {
        tenant: TenantId,
        user: UserId,
        at: Timestamp,
    },
    CredentialGone {
        tenant: TenantId,
        credential: CredentialId,
        at: Timestamp,
    },
}

/// The people of one session at one moment, in the order in which they came.
#[derive(Debug, Default)]
pub struct PresenceList {
    pub people: Vec<PersonPresence>,
    wire: OnceLock<Bytes>,
}

impl PresenceList {
    fn of(people: impl Iterator<Item = PersonPresence>) -> Arc<Self> {
        let mut people: Vec<PersonPresence> = people.collect();
        people.sort_by(|a, b| (a.since, &a.person).cmp(&(b.since, &b.person)));
        Arc::new(Self { people, wire: OnceLock::new() })
    }

    /// The encoded form; the first stream that needs it encodes it for all.
    pub fn wire(&self, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        self.wire.get_or_init(|| encode(self)).clone()
    }

    /// The size of the list on a stream, roughly.
    pub fn bytes(&self) -> usize {
        const AROUND_STATE: usize = 120;
        self.people.iter().map(|one| one.state.as_ref().map_or(0, Json::len) + AROUND_STATE).sum()
    }
}
