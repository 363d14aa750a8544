//! Decides who may be present, what a renewal changes, and whose presence a change of rights ends.

use super::{PersonPresence, PresentPerson};
use crate::access::{Actor, Role};
use crate::error::{Error, Result};
use crate::ids::{CredentialId, Incarnation, UserId};
use crate::json::Json;
use crate::limits;
use crate::quota::Quota;
use crate::store::{Change, Record, Update, Write};
use crate::time::Timestamp;

/// What a person says about their own presence.
#[derive(Clone, Debug)]
pub struct PresenceWish {
    pub person: PresentPerson,
    pub credential: CredentialId,
    pub takes_part: bool,
    pub state: Option<Json>,
}

impl PresenceWish {
    /// The wish of a caller who may be present; refuses a state that is no small object.
    pub fn of(actor: &Actor, state: Option<Json>) -> Result<Self> {
        Ok(Self {
            person: person(actor)?,
            credential: actor.credential.clone(),
            takes_part: actor.role != Role::Owner,
            state: state.map(checked_state).transpose()?.flatten(),
        })
    }
}

/// The person that a caller is. A credential without a user is nobody, except where there is no authentication.
pub fn person(actor: &Actor) -> Result<PresentPerson> {
    match &actor.user {
        Some(user) => Ok(Some(user.clone())),
        None if actor.is_local() => Ok(None),
        None => Err(Error::denied("this credential names no user; only people are present in a session")),
    }
}

fn checked_state(state: Json) -> Result<Option<Json>> {
    if state.as_str() == "null" {
        return Ok(None);
    }
    if !state.is_object() {
        return Err(Error::invalid("state", "must be an object"));
    }
    if state.len() > limits::PRESENCE_STATE_BYTES_MAX {
        return Err(Error::TooLarge { what: "state", limit: limits::PRESENCE_STATE_BYTES_MAX });
    }
    Ok(Some(state))
}

/// What is known of a person in a session: their presence, also for a short time after they left, so that leaving
/// and coming back is no way around the limit on changes.
#[derive(Clone, Debug)]
pub struct PresenceSeat {
    pub presence: PersonPresence,
    pub left_at: Option<Timestamp>,
    /// The presence was renewed on this node, which tells new nodes of it.
    pub is_own: bool,
}

impl PresenceSeat {
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.left_at.is_none() && self.presence.is_live(now)
    }

    /// Whether the seat can be forgotten.
    pub fn is_over(&self, now: Timestamp) -> bool {
        match self.left_at {
            None => !self.presence.is_live(now),
            Some(left_at) => now >= left_at.plus(limits::PRESENCE_LEFT_KEPT),
        }
    }

    /// Whether a change of this time is newer than what is known.
    pub fn yields_to(&self, at: Timestamp) -> bool {
        at >= self.left_at.unwrap_or(self.presence.renewed_at)
    }
}

/// How many people there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PresenceCounts {
    /// Present in the session.
    pub in_session: usize,
    /// Seats of the tenant's sessions, and of all sessions, on this node.
    pub in_tenant: usize,
    pub in_all: usize,
}

/// Decides a renewal: the presence that it makes, or `None` if it says nothing new within a second.
pub fn put(
    known: Option<&PresenceSeat>,
    counts: PresenceCounts,
    wish: PresenceWish,
    now: Timestamp,
) -> Result<Option<PersonPresence>> {
    let PresenceWish { person, credential, takes_part, state } = wish;
    let made = PersonPresence {
        person,
        credential,
        takes_part,
        state,
        since: now,
        changed_at: now,
        renewed_at: now,
    };
    let live = known.filter(|seat| seat.is_live(now)).map(|seat| &seat.presence);
    if let Some(live) = live
        && live.state == made.state
    {
        let same_caller = live.credential == made.credential && live.takes_part == made.takes_part;
        if same_caller && now < live.renewed_at.plus(limits::PRESENCE_CHANGE_EVERY) {
            return Ok(None);
        }
        return Ok(Some(PersonPresence { since: live.since, changed_at: live.changed_at, ..made }));
    }
    if let Some(seat) = known {
        let next = seat.presence.changed_at.plus(limits::PRESENCE_CHANGE_EVERY);
        if now < next {
            let wait = u64::try_from(next.as_micros() - now.as_micros()).unwrap_or_default();
            return Err(Error::RateLimited(std::time::Duration::from_micros(wait)));
        }
    }
    if live.is_none() {
        let full = [
            (Quota::SessionPresence, counts.in_session, limits::PRESENCE_SESSION_PEOPLE_MAX),
            (Quota::TenantPresence, counts.in_tenant, limits::PRESENCE_TENANT_PEOPLE_MAX),
            (Quota::NodePresence, counts.in_all, limits::PRESENCE_PEOPLE_MAX),
        ];
        if let Some((quota, _, limit)) = full.into_iter().find(|(_, used, limit)| used >= limit) {
            return Err(Error::QuotaExceeded { quota, limit: limit as u64 });
        }
    }
    Ok(Some(PersonPresence { since: live.map_or(now, |live| live.since), ..made }))
}

/// A change of rights that ends presences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLoss {
    /// The user has left the session.
    Left(Incarnation, UserId),
    /// Only these users still take part in the session.
    OnlyParticipants(Incarnation, Vec<UserId>),
    User(UserId),
    Credential(CredentialId),
}

/// Whose access a committed change ends.
pub fn losses(change: &Change) -> Vec<AccessLoss> {
    let mut losses = Vec::new();
    for part in &change.parts {
        let Some(incarnation) = part.guard.incarnation else { continue };
        for write in &part.writes {
            let Write::Update(update) = write else { continue };
            let Update { leaves, participants, .. } = &**update;
            losses.extend(leaves.iter().map(|user| AccessLoss::Left(incarnation, user.clone())));
            losses.extend(
                participants.iter().map(|users| AccessLoss::OnlyParticipants(incarnation, users.clone())),
            );
        }
    }
    for record in &change.records {
        match record {
            Record::RevokeKey { id } => losses.push(AccessLoss::Credential(id.clone())),
            Record::MergeUser { from, .. } => losses.push(AccessLoss::User(from.clone())),
            Record::UpdateUser { id, role, suspended, .. } => {
                let is_demoted = role.is_some_and(|role| role != Role::Owner);
                if *suspended == Some(true) || is_demoted {
                    losses.push(AccessLoss::User(id.clone()));
                }
            }
            _ => {}
        }
    }
    losses
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::session::SourceKind;

    const T0: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    fn at(ms: u64) -> Timestamp {
        T0.plus(Duration::from_millis(ms))
    }

    fn ann(state: Option<&str>) -> PresenceWish {
        PresenceWish {
            person: Some(UserId::stored("ann")),
            credential: CredentialId::stored("key"),
            takes_part: true,
            state: state.map(|text| Json::parse(text.as_bytes()).unwrap()),
        }
    }

    fn seat(state: Option<&str>, since: u64, changed: u64, renewed: u64) -> PresenceSeat {
        let PresenceWish { person, credential, takes_part, state } = ann(state);
        let presence = PersonPresence {
            person,
            credential,
            takes_part,
            state,
            since: at(since),
            changed_at: at(changed),
            renewed_at: at(renewed),
        };
        PresenceSeat { presence, left_at: None, is_own: true }
    }

    #[test]
    fn a_state_changes_once_a_second_and_is_renewed_as_often_as_its_owner_likes() {
        let (one, two) = (Some(r#"{"at":1}"#), Some(r#"{"at":2}"#));
        let left = |ms| PresenceSeat { left_at: Some(at(ms)), ..seat(one, 0, 0, 0) };
        // Known, wish, now; the expected `since` and `changed_at`, nothing to tell, or the wait in milliseconds.
        let table = [
            (None, one, 5_000, Ok(Some((5_000, 5_000)))),
            (Some(seat(one, 0, 0, 0)), one, 999, Ok(None)),
            (Some(seat(one, 0, 0, 0)), one, 1_000, Ok(Some((0, 0)))),
            (Some(seat(one, 0, 0, 0)), two, 999, Err(1)),
            (Some(seat(one, 0, 0, 0)), None, 400, Err(600)),
            (Some(seat(one, 0, 0, 0)), two, 1_000, Ok(Some((0, 1_000)))),
            // A renewal does not put off a change.
            (Some(seat(one, 0, 0, 20_000)), two, 20_100, Ok(Some((0, 20_100)))),
            // Leaving and coming back is a change too.
            (Some(left(500)), one, 900, Err(100)),
            (Some(left(500)), one, 1_000, Ok(Some((1_000, 1_000)))),
            (Some(seat(one, 0, 0, 10_000)), one, 39_999, Ok(Some((0, 0)))),
            (Some(seat(one, 0, 0, 10_000)), one, 40_000, Ok(Some((40_000, 40_000)))),
        ];
        for (known, wish, now, expected) in table {
            let made = put(known.as_ref(), PresenceCounts::default(), ann(wish), at(now));
            let case = format!("{known:?} {wish:?} {now}");
            match (made, expected) {
                (Ok(None), Ok(None)) => {}
                (Ok(Some(made)), Ok(Some((since, changed)))) => {
                    assert_eq!((made.since, made.changed_at), (at(since), at(changed)), "{case}");
                    assert_eq!(made.renewed_at, at(now), "{case}");
                }
                (Err(Error::RateLimited(wait)), Err(ms)) => {
                    assert_eq!(wait, Duration::from_millis(ms), "{case}");
                }
                (made, _) => panic!("{case}: {made:?}"),
            }
        }
        assert_eq!(limits::PRESENCE_CHANGE_EVERY, Duration::from_secs(1));
        assert_eq!(limits::PRESENCE_LIFE, Duration::from_secs(30));
    }

    #[test]
    fn one_person_past_each_limit_is_refused_by_its_name_and_those_who_are_present_stay() {
        let full = PresenceCounts {
            in_session: limits::PRESENCE_SESSION_PEOPLE_MAX,
            in_tenant: limits::PRESENCE_TENANT_PEOPLE_MAX,
            in_all: limits::PRESENCE_PEOPLE_MAX,
        };
        let room = PresenceCounts {
            in_session: full.in_session - 1,
            in_tenant: full.in_tenant - 1,
            in_all: full.in_all - 1,
        };
        assert!(put(None, room, ann(None), T0).unwrap().is_some());
        for (counts, expected) in [
            (PresenceCounts { in_session: full.in_session, ..room }, Quota::SessionPresence),
            (PresenceCounts { in_tenant: full.in_tenant, ..room }, Quota::TenantPresence),
            (PresenceCounts { in_all: full.in_all, ..room }, Quota::NodePresence),
        ] {
            match put(None, counts, ann(None), T0) {
                Err(Error::QuotaExceeded { quota, .. }) => assert_eq!(quota, expected),
                other => panic!("{expected:?}: {other:?}"),
            }
        }
        let renewed = put(Some(&seat(None, 0, 0, 0)), full, ann(Some("{}")), at(2_000)).unwrap();
        assert_eq!(renewed.unwrap().since, T0);
    }

    #[test]
    fn a_state_is_a_small_object() {
        let sized = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 8));
        let actor = Actor::local(SourceKind::Web);
        let table = [
            ("null".to_owned(), Ok(None)),
            ("{}".to_owned(), Ok(Some(2))),
            (sized(limits::PRESENCE_STATE_BYTES_MAX), Ok(Some(1024))),
            (sized(limits::PRESENCE_STATE_BYTES_MAX + 1), Err("too_large")),
            ("[]".to_owned(), Err("invalid")),
            ("\"x\"".to_owned(), Err("invalid")),
            ("3".to_owned(), Err("invalid")),
        ];
        for (text, expected) in table {
            let wish = PresenceWish::of(&actor, Some(Json::parse(text.as_bytes()).unwrap()));
            let length = wish.map(|wish| wish.state.map(|state| state.len())).map_err(|error| error.code());
            assert_eq!(length, expected, "{text}");
        }
    }

    #[test]
    fn only_a_user_or_the_one_local_person_is_present() {
        let local = Actor::local(SourceKind::Web);
        assert_eq!(person(&local).unwrap(), None);
        let named = Actor { user: Some(UserId::stored("ann")), ..local.clone() };
        assert_eq!(person(&named).unwrap(), Some(UserId::stored("ann")));
        let key = Actor { credential: CredentialId::stored("key"), ..local };
        assert_eq!(person(&key).unwrap_err().code(), "denied");
    }

    #[test]
    fn a_seat_is_kept_for_a_moment_after_its_person_left() {
        let mut seat = seat(None, 0, 0, 0);
        assert!(seat.is_live(at(29_999)) && !seat.is_over(at(29_999)));
        assert!(!seat.is_live(at(30_000)) && seat.is_over(at(30_000)));
        seat.left_at = Some(at(5_000));
        let kept = u64::try_from(limits::PRESENCE_LEFT_KEPT.as_millis()).unwrap();
        assert!(!seat.is_live(at(5_000)) && !seat.is_over(at(5_000 + kept - 1)));
        assert!(seat.is_over(at(5_000 + kept)));
        assert!(limits::PRESENCE_LEFT_KEPT > limits::PRESENCE_CHANGE_EVERY);
        assert!(seat.yields_to(at(5_000)) && !seat.yields_to(at(4_999)));
    }

    #[test]
    fn a_change_of_rights_ends_the_presence_of_those_who_lose_them() {
        let user = || UserId::stored("ann");
        let update = |role, suspended| Record::UpdateUser { id: user(), role, name: None, suspended };
        let table = [
            (Record::RevokeKey { id: CredentialId::stored("k") }, 1),
            (Record::MergeUser { from: user(), into: UserId::stored("bob") }, 1),
            (update(None, Some(true)), 1),
            (update(None, Some(false)), 0),
            (update(Some(Role::Guest), None), 1),
            (update(Some(Role::Owner), None), 0),
            (update(None, None), 0),
        ];
        for (record, expected) in table {
            let change = Change::new(crate::TenantId::stored("t")).record(record.clone());
            assert_eq!(losses(&change).len(), expected, "{record:?}");
        }
    }
}
