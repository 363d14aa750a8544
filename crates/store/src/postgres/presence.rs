//! Tells the other nodes who is present in sessions. A presence is never stored: it goes into sealed notifications
//! (`notify`, `seal`), and lapses where no renewal arrives. A node that starts to listen asks the others for theirs.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use sederunt_core::ids::{CredentialId, Incarnation, TenantId, UserId};
use sederunt_core::json::Json;
use sederunt_core::presence::{PersonPresence, PresenceChange, PresenceStore, PresentPerson};
use sederunt_core::{Timestamp, limits};

use super::PostgresStore;

/// Bytes of presence in one batch of notifications; the rest follows in the next.
const BATCH_BYTES_MAX: usize = 256 * 1024;
/// Changes that wait to be sent; more are dropped, and those presences lapse elsewhere until they are renewed.
const WAITING_MAX: usize = 2 * limits::PRESENCE_PEOPLE_MAX;

impl PresenceStore for PostgresStore {
    fn spread_presence(&self, change: PresenceChange) {
        self.context.notify_queue.put_presence([change]);
    }
}

/// What a change is about: a newer change of the same replaces it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum PresenceSubject {
    Person(Incarnation, PresentPerson),
    User(TenantId, UserId),
    Credential(TenantId, CredentialId),
}

impl PresenceSubject {
    fn of(change: &PresenceChange) -> Self {
        match change {
            PresenceChange::Put { incarnation, presence, .. } => {
                Self::Person(*incarnation, presence.person.clone())
            }
            PresenceChange::Left { incarnation, person, .. } => Self::Person(*incarnation, person.clone()),
            PresenceChange::UserGone { tenant, user, .. } => Self::User(tenant.clone(), user.clone()),
            PresenceChange::CredentialGone { tenant, credential, .. } => {
                Self::Credential(tenant.clone(), credential.clone())
            }
        }
    }
}

/// The changes that the other nodes have not been told of, in order.
#[derive(Debug, Default)]
pub(super) struct PresenceQueue(Mutex<PendingPresence>);

#[derive(Debug, Default)]
struct PendingPresence {
    changes: HashMap<PresenceSubject, PresenceChange>,
    order: VecDeque<PresenceSubject>,
    /// This node does not know who is present on the others.
    asks: bool,
}

/// What one batch of notifications tells.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PresenceBatch {
    changes: Vec<PresenceChange>,
    asks: bool,
    pub(super) has_more: bool,
}

impl PresenceQueue {
    pub(super) fn put(&self, changes: impl IntoIterator<Item = PresenceChange>) {
        let mut pending = self.0.lock();
        for change in changes {
            let subject = PresenceSubject::of(&change);
            if pending.changes.len() >= WAITING_MAX && !pending.changes.contains_key(&subject) {
                continue;
            }
            if pending.changes.insert(subject.clone(), change).is_none() {
                pending.order.push_back(subject);
            }
        }
    }

    pub(super) fn ask(&self) {
        self.0.lock().asks = true;
    }

    pub(super) fn take(&self) -> PresenceBatch {
        let mut pending = self.0.lock();
        let mut batch = PresenceBatch { asks: std::mem::take(&mut pending.asks), ..PresenceBatch::default() };
        let mut bytes = 0;
        while bytes < BATCH_BYTES_MAX
            && let Some(subject) = pending.order.pop_front()
        {
            let Some(change) = pending.changes.remove(&subject) else { continue };
            bytes += encode(&change).len();
            batch.changes.push(change);
        }
        batch.has_more = !pending.order.is_empty();
        batch
    }

    /// Takes back a batch that could not be sent; what is newer stays.
    pub(super) fn put_back(&self, batch: PresenceBatch) {
        let mut pending = self.0.lock();
        pending.asks |= batch.asks;
        for change in batch.changes {
            let subject = PresenceSubject::of(&change);
            if !pending.changes.contains_key(&subject) {
                pending.changes.insert(subject.clone(), change);
                pending.order.push_back(subject);
            }
        }
    }
}

impl PresenceBatch {
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.changes.iter().map(encode)
    }

    pub(super) fn asks(&self) -> bool {
        self.asks
    }
}

/// One change as a line. Names hold no control characters and JSON is compact, so these separate the fields.
fn encode(change: &PresenceChange) -> String {
    let name = |person: &PresentPerson| person.as_ref().map_or(String::new(), ToString::to_string);
    match change {
        PresenceChange::Put { tenant, incarnation, presence } => {
            let PersonPresence { person, credential, takes_part, state, since, changed_at, renewed_at } =
                presence;
            format!(
                "p\t{}\t{tenant}\t{}\t{credential}\t{}\t{}\t{}\t{}\t{}",
                incarnation.0.simple(),
                name(person),
                u8::from(*takes_part),
                since.as_micros(),
                changed_at.as_micros(),
                renewed_at.as_micros(),
                state.as_ref().map_or("", Json::as_str),
            )
        }
        PresenceChange::Left { tenant, incarnation, person, at } => {
            format!("l\t{}\t{tenant}\t{}\t{}", incarnation.0.simple(), name(person), at.as_micros())
        }
        PresenceChange::UserGone { tenant, user, at } => format!("u\t{tenant}\t{user}\t{}", at.as_micros()),
        PresenceChange::CredentialGone { tenant, credential, at } => {
            format!("k\t{tenant}\t{credential}\t{}", at.as_micros())
        }
    }
}

pub(super) fn decode(line: &str) -> Option<PresenceChange> {
    let mut fields = line.split('\t');
    let time = |text: &str| text.parse().ok().map(Timestamp::from_micros);
    let person = |text: &str| (!text.is_empty()).then(|| UserId::stored(text));
    match fields.next()? {
        "p" => Some(PresenceChange::Put {
            incarnation: Incarnation(fields.next()?.parse().ok()?),
            tenant: TenantId::stored(fields.next()?),
            presence: PersonPresence {
                person: person(fields.next()?),
                credential: CredentialId::stored(fields.next()?),
                takes_part: fields.next()? == "1",
                since: time(fields.next()?)?,
                changed_at: time(fields.next()?)?,
                renewed_at: time(fields.next()?)?,
                state: fields.next().filter(|text| !text.is_empty()).map(Json::stored),
            },
        }),
        "l" => Some(PresenceChange::Left {
            incarnation: Incarnation(fields.next()?.parse().ok()?),
            tenant: TenantId::stored(fields.next()?),
            person: person(fields.next()?),
            at: time(fields.next()?)?,
        }),
        "u" => Some(PresenceChange::UserGone {
            tenant: TenantId::stored(fields.next()?),
            user: UserId::stored(fields.next()?),
            at: time(fields.next()?)?,
        }),
        "k" => Some(PresenceChange::CredentialGone {
            tenant: TenantId::stored(fields.next()?),
            credential: CredentialId::stored(fields.next()?),
            at: time(fields.next()?)?,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::seal::SEALED_TEXT_MAX;
    use super::*;

    fn put(person: Option<&str>, state: Option<&str>, at: i64) -> PresenceChange {
        let time = Timestamp::from_micros;
        PresenceChange::Put {
            tenant: TenantId::stored("t"),
            incarnation: Incarnation(uuid::Uuid::from_u128(7)),
            presence: PersonPresence {
                person: person.map(UserId::stored),
                credential: CredentialId::stored("c"),
                takes_part: at % 2 == 0,
                state: state.map(|text| Json::parse(text.as_bytes()).unwrap()),
                since: time(at - 2),
                changed_at: time(at - 1),
                renewed_at: time(at),
            },
        }
    }

    #[test]
    fn a_change_is_read_as_it_was_written() {
        let (tenant, at) = (TenantId::stored("t ü"), Timestamp::from_micros(12));
        let incarnation = Incarnation(uuid::Uuid::from_u128(9));
        for change in [
            put(Some("ann"), Some(r#"{"a":"x\ty\nz","b":[1.50,null]}"#), 10),
            put(None, None, 11),
            PresenceChange::Left { tenant: tenant.clone(), incarnation, person: None, at },
            PresenceChange::Left {
                tenant: tenant.clone(),
                incarnation,
                person: Some(UserId::stored("ann")),
                at,
            },
            PresenceChange::UserGone { tenant: tenant.clone(), user: UserId::stored("ann"), at },
            PresenceChange::CredentialGone { tenant, credential: CredentialId::stored("c"), at },
        ] {
            let line = encode(&change);
            assert_eq!(line.matches('\n').count(), 0);
            assert_eq!(decode(&line), Some(change));
        }
        for broken in ["", "p", "x\ty", "l\tz", "u\tt\tann\tlater"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }

    #[test]
    fn the_longest_presence_fits_into_one_notification() {
        let long = "\u{10348}".repeat(limits::NAME_CHARS_MAX);
        let state = format!(r#"{{"a":"{}"}}"#, "x".repeat(limits::PRESENCE_STATE_BYTES_MAX - 8));
        let PresenceChange::Put { incarnation, mut presence, .. } = put(Some(&long), Some(&state), 10) else {
            unreachable!()
        };
        presence.credential = CredentialId::stored(long.as_str());
        let change = PresenceChange::Put { tenant: TenantId::stored(long.as_str()), incarnation, presence };
        assert!(encode(&change).len() + "p\n".len() <= SEALED_TEXT_MAX);
    }

    #[test]
    fn the_newest_change_of_a_person_is_told_once_in_batches_and_put_back_if_it_was_not_sent() {
        let queue = PresenceQueue::default();
        queue.put([put(Some("ann"), None, 10), put(Some("bob"), None, 10), put(Some("ann"), Some("{}"), 12)]);
        let batch = queue.take();
        assert_eq!(batch.changes, [put(Some("ann"), Some("{}"), 12), put(Some("bob"), None, 10)]);
        queue.put([put(Some("bob"), None, 20)]);
        queue.put_back(batch);
        let again = queue.take();
        assert_eq!(again.changes, [put(Some("bob"), None, 20), put(Some("ann"), Some("{}"), 12)]);

        let state = format!(r#"{{"a":"{}"}}"#, "x".repeat(1_000));
        let people: Vec<_> = (0..1_000).map(|n| put(Some(&format!("u{n}")), Some(&state), 10)).collect();
        queue.put(people.clone());
        let (mut told, mut batches) = (Vec::new(), 0);
        loop {
            let batch = queue.take();
            assert!(batch.lines().map(|line| line.len()).sum::<usize>() < BATCH_BYTES_MAX + 2_000);
            (told, batches) = ([told, batch.changes].concat(), batches + 1);
            if !batch.has_more {
                break;
            }
        }
        assert_eq!(told, people);
        assert!(batches > 3);
    }

    #[test]
    fn changes_that_nobody_can_be_told_of_do_not_pile_up() {
        let queue = PresenceQueue::default();
        queue.put((0..=WAITING_MAX).map(|n| put(Some(&format!("u{n}")), None, 10)));
        assert_eq!(queue.0.lock().changes.len(), WAITING_MAX);
    }
}
