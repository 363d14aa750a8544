//! The people of all sessions that this node knows of, in bounded memory.
//!
//! Every node holds the whole list, so that a new reader anywhere gets it at once. Seats that are over are dropped when
//! they are looked at, when others arrive, and at intervals while a stream shows them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::decide::{self, AccessLoss, PresenceCounts, PresenceSeat, PresenceWish};
use super::{PersonPresence, PresenceChange, PresenceList, PresentPerson};
use crate::error::Result;
use crate::ids::{Incarnation, TenantId};
use crate::limits;
use crate::time::Timestamp;

/// All sessions with people in them. One per hub.
#[derive(Debug, Default)]
pub struct PresenceBoard {
    rooms: Mutex<PresenceRooms>,
    audience: Mutex<PresenceAudience>,
}

#[derive(Debug, Default)]
struct PresenceRooms {
    by_session: HashMap<Incarnation, PresenceRoom>,
    seats: usize,
    seats_of_tenant: HashMap<TenantId, usize>,
    /// Numbers the states of all rooms, so that a room that was emptied and filled again is another.
    versions: u64,
    swept_at: Timestamp,
}

#[derive(Debug)]
struct PresenceRoom {
    tenant: TenantId,
    version: u64,
    seats: BTreeMap<PresentPerson, PresenceSeat>,
    shown: Option<Arc<PresenceList>>,
}

/// The streams of this node that show who is present.
#[derive(Debug, Default)]
struct PresenceAudience {
    readers: usize,
    is_swept: bool,
}

impl PresenceBoard {
    /// Renews a person's presence; returns what the other nodes are to be told, if anything.
    pub fn put(
        &self,
        tenant: &TenantId,
        incarnation: Incarnation,
        wish: PresenceWish,
        now: Timestamp,
    ) -> Result<Option<PresenceChange>> {
        let mut rooms = self.rooms.lock();
        rooms.sweep_if_due(now);
        rooms.sweep_room(incarnation, now);
        let mut made = rooms.decide(tenant, incarnation, &wish, now);
        if made.as_ref().is_err_and(|error| error.code() == "quota_exceeded") {
            rooms.sweep(now);
            made = rooms.decide(tenant, incarnation, &wish, now);
        }
        let Some(presence) = made? else { return Ok(None) };
        let seat = PresenceSeat { presence: presence.clone(), left_at: None, is_own: true };
        rooms.seat(tenant, incarnation, seat);
        Ok(Some(PresenceChange::Put { tenant: tenant.clone(), incarnation, presence }))
    }

    /// Ends a person's presence; returns what the other nodes are to be told, if the person was present.
    pub fn leave(
        &self,
        incarnation: Incarnation,
        person: &PresentPerson,
        at: Timestamp,
    ) -> Option<PresenceChange> {
        let mut rooms = self.rooms.lock();
        rooms.sweep_room(incarnation, at);
        let tenant = rooms.vacate(incarnation, person, at)?;
        Some(PresenceChange::Left { tenant, incarnation, person: person.clone(), at })
    }

    /// Takes a change of another node; returns the sessions whose list it has changed.
    pub fn heard(&self, change: PresenceChange) -> Vec<Incarnation> {
        let mut rooms = self.rooms.lock();
        match change {
            PresenceChange::Put { tenant, incarnation, presence } => {
                rooms.sweep_if_due(presence.renewed_at);
                let known = rooms.known(incarnation, &presence.person);
                let is_news = known.is_none_or(|seat| seat.yields_to(presence.renewed_at));
                let has_room = known.is_some() || rooms.seats < limits::PRESENCE_PEOPLE_MAX;
                let before = rooms.version(incarnation);
                if is_news && has_room {
                    let seat = PresenceSeat { presence, left_at: None, is_own: false };
                    rooms.seat(&tenant, incarnation, seat);
                }
                Vec::from_iter((rooms.version(incarnation) != before).then_some(incarnation))
            }
            PresenceChange::Left { incarnation, person, at, .. } => {
                Vec::from_iter(rooms.vacate(incarnation, &person, at).map(|_| incarnation))
            }
            PresenceChange::UserGone { tenant, user, at } => {
                rooms.vacate_all(&tenant, at, |presence| presence.person.as_ref() == Some(&user))
            }
            PresenceChange::CredentialGone { tenant, credential, at } => {
                rooms.vacate_all(&tenant, at, |presence| presence.credential == credential)
            }
        }
    }

    /// Ends the presences of people who may no longer see a session. Returns what the other nodes are to be told, and
    /// the sessions whose list has changed here.
    pub fn lose(
        &self,
        tenant: &TenantId,
        loss: AccessLoss,
        at: Timestamp,
    ) -> (Vec<PresenceChange>, Vec<Incarnation>) {
        let tenant = tenant.clone();
        let changes = match loss {
            // Told even if the person is not known here: their renewal may still be on its way from another node.
            AccessLoss::Left(incarnation, user) => {
                vec![PresenceChange::Left { tenant, incarnation, person: Some(user), at }]
            }
            AccessLoss::OnlyParticipants(incarnation, participants) => self
                .list(incarnation, None)
                .people
                .iter()
                .filter(|one| one.takes_part)
                .filter(|one| one.person.as_ref().is_some_and(|user| !participants.contains(user)))
                .map(|one| PresenceChange::Left {
                    tenant: tenant.clone(),
                    incarnation,
                    person: one.person.clone(),
                    at,
                })
                .collect(),
            AccessLoss::User(user) => vec![PresenceChange::UserGone { tenant, user, at }],
            AccessLoss::Credential(credential) => {
                vec![PresenceChange::CredentialGone { tenant, credential, at }]
            }
        };
        let changed = changes.iter().flat_map(|change| self.heard(change.clone())).collect();
        (changes, changed)
    }

    /// Drops the presences that have lapsed; returns the sessions whose list has changed.
    pub fn lapse(&self, now: Timestamp) -> Vec<Incarnation> {
        self.rooms.lock().sweep(now)
    }

    /// Forgets a session that was deleted.
    pub fn close(&self, incarnation: Incarnation) {
        let mut rooms = self.rooms.lock();
        if let Some(room) = rooms.by_session.remove(&incarnation) {
            let PresenceRoom { tenant, seats, .. } = room;
            rooms.discount(&tenant, seats.len());
        }
    }

    /// Who is present. With a time, those who have lapsed by then are left out.
    pub fn list(&self, incarnation: Incarnation, now: Option<Timestamp>) -> Arc<PresenceList> {
        let mut rooms = self.rooms.lock();
        if let Some(now) = now {
            rooms.sweep_room(incarnation, now);
        }
        let Some(room) = rooms.by_session.get_mut(&incarnation) else { return Arc::default() };
        let present = room.seats.values().filter(|seat| seat.left_at.is_none());
        room.shown.get_or_insert_with(|| PresenceList::of(present.map(|seat| seat.presence.clone()))).clone()
    }

    /// The number of the state of a session's list: another one after every change that a reader would see.
    pub fn version(&self, incarnation: Incarnation) -> u64 {
        self.rooms.lock().version(incarnation)
    }

    /// The presences that were last renewed here, for a node that does not know them.
    pub fn own(&self) -> Vec<PresenceChange> {
        let rooms = self.rooms.lock();
        let own = rooms.by_session.iter().flat_map(|(incarnation, room)| {
            let seats = room.seats.values().filter(|seat| seat.is_own && seat.left_at.is_none());
            seats.map(|seat| PresenceChange::Put {
                tenant: room.tenant.clone(),
                incarnation: *incarnation,
                presence: seat.presence.clone(),
            })
        });
        own.collect()
    }

    pub fn is_empty(&self) -> bool {
        self.rooms.lock().seats == 0
    }

    /// Counts a stream that shows who is present; returns whether the caller must start the sweep.
    fn enter(&self) -> bool {
        let mut audience = self.audience.lock();
        audience.readers += 1;
        !std::mem::replace(&mut audience.is_swept, true)
    }

    fn exit(&self) {
        self.audience.lock().readers -= 1;
    }

    /// Whether the sweep is to end, because no stream is left.
    pub fn ends_sweep(&self) -> bool {
        let mut audience = self.audience.lock();
        audience.is_swept = audience.readers > 0;
        !audience.is_swept
    }
}

impl PresenceRooms {
    fn known(&self, incarnation: Incarnation, person: &PresentPerson) -> Option<&PresenceSeat> {
        self.by_session.get(&incarnation)?.seats.get(person)
    }

    /// A session without people has the version 0, whether or not it is still known.
    fn version(&self, incarnation: Incarnation) -> u64 {
        let room = self.by_session.get(&incarnation);
        room.filter(|room| room.seats.values().any(|seat| seat.left_at.is_none()))
            .map_or(0, |room| room.version)
    }

    fn decide(
        &self,
        tenant: &TenantId,
        incarnation: Incarnation,
        wish: &PresenceWish,
        now: Timestamp,
    ) -> Result<Option<PersonPresence>> {
        let room = self.by_session.get(&incarnation);
        let is_present = |seat: &&PresenceSeat| seat.left_at.is_none();
        let counts = PresenceCounts {
            in_session: room.map_or(0, |room| room.seats.values().filter(is_present).count()),
            in_tenant: self.seats_of_tenant.get(tenant).copied().unwrap_or_default(),
            in_all: self.seats,
        };
        decide::put(self.known(incarnation, &wish.person), counts, wish.clone(), now)
    }

    fn seat(&mut self, tenant: &TenantId, incarnation: Incarnation, seat: PresenceSeat) {
        self.versions += 1;
        let version = self.versions;
        let room = self.by_session.entry(incarnation).or_insert_with(|| PresenceRoom {
            tenant: tenant.clone(),
            version,
            seats: BTreeMap::new(),
            shown: None,
        });
        let shown =
            |seat: &PresenceSeat| (seat.left_at.is_none(), seat.presence.state.clone(), seat.presence.since);
        let after = shown(&seat);
        let before = room.seats.insert(seat.presence.person.clone(), seat);
        if before.as_ref().map(shown) != Some(after) {
            room.changed(version);
        } else {
            // A list that is made later shows the renewal; readers need not be told of it.
            room.shown = None;
        }
        if before.is_none() {
            self.seats += 1;
            *self.seats_of_tenant.entry(tenant.clone()).or_default() += 1;
        }
    }

    /// Marks a person as having left; the tenant, if they were present and this is newer.
    fn vacate(
        &mut self,
        incarnation: Incarnation,
        person: &PresentPerson,
        at: Timestamp,
    ) -> Option<TenantId> {
        let room = self.by_session.get_mut(&incarnation)?;
        let seat = room.seats.get_mut(person)?;
        if seat.left_at.is_some() || !seat.yields_to(at) {
            return None;
        }
        seat.left_at = Some(at);
        self.versions += 1;
        room.changed(self.versions);
        Some(room.tenant.clone())
    }

    fn vacate_all(
        &mut self,
        tenant: &TenantId,
        at: Timestamp,
        is_gone: impl Fn(&PersonPresence) -> bool,
    ) -> Vec<Incarnation> {
        let gone: Vec<(Incarnation, PresentPerson)> = self
            .by_session
            .iter()
            .filter(|(_, room)| room.tenant == *tenant)
            .flat_map(|(incarnation, room)| {
                let seats = room.seats.values().filter(|seat| is_gone(&seat.presence));
                seats.map(|seat| (*incarnation, seat.presence.person.clone()))
            })
            .collect();
        let left = gone
            .into_iter()
            .filter_map(|(incarnation, person)| self.vacate(incarnation, &person, at).map(|_| incarnation));
        left.collect()
    }

    fn sweep_if_due(&mut self, now: Timestamp) {
        if now >= self.swept_at.plus(limits::PRESENCE_SWEPT_EVERY) {
            self.sweep(now);
        }
    }

    fn sweep(&mut self, now: Timestamp) -> Vec<Incarnation> {
        self.swept_at = now;
        let rooms: Vec<Incarnation> = self.by_session.keys().copied().collect();
        rooms.into_iter().filter(|incarnation| self.sweep_room(*incarnation, now)).collect()
    }

    /// Drops the seats of a session that are over; returns whether its list has changed.
    fn sweep_room(&mut self, incarnation: Incarnation, now: Timestamp) -> bool {
        let Some(room) = self.by_session.get_mut(&incarnation) else { return false };
        let (seats, mut lapsed) = (room.seats.len(), false);
        room.seats.retain(|_, seat| {
            lapsed |= seat.left_at.is_none() && !seat.is_live(now);
            !seat.is_over(now)
        });
        if lapsed {
            self.versions += 1;
            room.changed(self.versions);
        }
        let (tenant, dropped) = (room.tenant.clone(), seats - room.seats.len());
        if room.seats.is_empty() {
            self.by_session.remove(&incarnation);
        }
        self.discount(&tenant, dropped);
        lapsed
    }

    fn discount(&mut self, tenant: &TenantId, seats: usize) {
        self.seats -= seats;
        if let Some(left) = self.seats_of_tenant.get_mut(tenant) {
            *left -= seats;
            if *left == 0 {
                self.seats_of_tenant.remove(tenant);
            }
        }
    }
}

impl PresenceRoom {
    fn changed(&mut self, version: u64) {
        self.version = version;
        self.shown = None;
    }
}

/// A stream that shows who is present in a session.
#[derive(Debug)]
pub struct PresenceReader {
    hub: Arc<crate::live::Hub>,
    incarnation: Incarnation,
    seen: Option<u64>,
    told_at: Option<Instant>,
}

/// What a presence reader does next.
#[derive(Debug)]
pub enum PresenceStep {
    /// The list has changed.
    Show(Arc<PresenceList>),
    /// It has changed, and the reader was told of another change a moment ago.
    Later(Instant),
    Nothing,
}

impl PresenceReader {
    /// A reader, and whether its caller must start the sweep of this node.
    pub fn new(hub: Arc<crate::live::Hub>, incarnation: Incarnation) -> (Self, bool) {
        let is_first = hub.presence().enter();
        (Self { hub, incarnation, seen: None, told_at: None }, is_first)
    }

    pub fn look(&mut self, now: Instant) -> PresenceStep {
        let board = self.hub.presence();
        let version = board.version(self.incarnation);
        if self.seen == Some(version) {
            return PresenceStep::Nothing;
        }
        if let Some(next) = self.told_at.map(|told| told + limits::PRESENCE_TOLD_EVERY)
            && now < next
        {
            return PresenceStep::Later(next);
        }
        (self.seen, self.told_at) = (Some(version), Some(now));
        PresenceStep::Show(board.list(self.incarnation, None))
    }
}

impl Drop for PresenceReader {
    fn drop(&mut self) {
        self.hub.presence().exit();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ids::{CredentialId, UserId};
    use crate::json::Json;

    const T0: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
    const ROOM: Incarnation = Incarnation(uuid::Uuid::from_u128(1));

    fn at(seconds: u64) -> Timestamp {
        T0.plus(Duration::from_secs(seconds))
    }

    fn acme() -> TenantId {
        TenantId::stored("acme")
    }

    fn wish(name: &str, state: &str) -> PresenceWish {
        PresenceWish {
            person: Some(UserId::stored(name)),
            credential: CredentialId::stored(format!("key-{name}")),
            takes_part: name != "owner",
            state: Some(Json::stored(state)),
        }
    }

    fn names(board: &PresenceBoard) -> Vec<String> {
        let list = board.list(ROOM, None);
        list.people.iter().map(|one| one.person.as_ref().unwrap().to_string()).collect()
    }

    fn put(board: &PresenceBoard, name: &str, state: &str, now: Timestamp) -> PresenceChange {
        board.put(&acme(), ROOM, wish(name, state), now).unwrap().unwrap()
    }

    #[test]
    fn a_second_node_shows_what_the_first_was_told_in_whatever_order_it_hears_it() {
        let (here, there) = (PresenceBoard::default(), PresenceBoard::default());
        let ann = put(&here, "ann", "{}", at(0));
        let moved = put(&here, "ann", r#"{"at":2}"#, at(2));
        let left = here.leave(ROOM, &Some(UserId::stored("ann")), at(3)).unwrap();
        assert_eq!(here.leave(ROOM, &Some(UserId::stored("ann")), at(3)), None, "nothing to tell twice");
        assert_eq!(there.heard(moved.clone()), [ROOM]);
        assert_eq!(there.heard(ann.clone()), [], "an older change");
        assert_eq!(there.list(ROOM, None).people[0].state, Some(Json::stored(r#"{"at":2}"#)));
        assert_eq!(there.heard(left), [ROOM]);
        assert_eq!(there.heard(moved), [], "a renewal that leaving has overtaken");
        assert!(names(&there).is_empty() && names(&here).is_empty());
        assert!(there.own().is_empty(), "a node tells others of its own people only");
        put(&there, "bob", "{}", at(4));
        assert_eq!(there.own().len(), 1);
    }

    #[test]
    fn people_lapse_after_thirty_seconds_and_leave_no_memory_behind() {
        let board = PresenceBoard::default();
        let told = put(&board, "ann", "{}", at(0));
        put(&board, "bob", "{}", at(10));
        assert_eq!(board.lapse(at(29)), []);
        assert_eq!(board.lapse(at(30)), [ROOM]);
        assert_eq!(names(&board), ["bob"]);
        assert_eq!(board.list(ROOM, Some(at(40))).people.len(), 0, "a look drops what has lapsed");
        let dead_node = PresenceBoard::default();
        assert_eq!(dead_node.heard(told), [ROOM]);
        assert_eq!(dead_node.lapse(at(30)), [ROOM]);
        let rooms = dead_node.rooms.lock();
        assert!(rooms.by_session.is_empty() && rooms.seats_of_tenant.is_empty());
        assert_eq!(rooms.seats, 0);
    }

    #[test]
    fn a_renewal_changes_no_list_and_a_list_is_made_once() {
        let board = PresenceBoard::default();
        put(&board, "ann", "{}", at(0));
        let (version, list) = (board.version(ROOM), board.list(ROOM, None));
        assert!(Arc::ptr_eq(&list, &board.list(ROOM, Some(at(1)))));
        let renewed = put(&board, "ann", "{}", at(20));
        assert_eq!(board.version(ROOM), version);
        let other = PresenceBoard::default();
        other.heard(renewed.clone());
        assert_eq!(other.heard(renewed), []);
        assert_eq!(board.lapse(at(49)), []);
        put(&board, "ann", r#"{"a":1}"#, at(49));
        assert_ne!(board.version(ROOM), version);
        board.leave(ROOM, &Some(UserId::stored("ann")), at(50));
        assert_eq!(board.version(ROOM), 0);
        board.lapse(at(90));
        assert_eq!(board.version(ROOM), 0, "an empty list is not shown again when it is forgotten");
    }

    #[test]
    fn whoever_loses_access_is_gone_and_an_owner_who_takes_no_part_stays() {
        let user = |name: &str| UserId::stored(name);
        let table = [
            (AccessLoss::Left(ROOM, user("ann")), vec!["bob", "owner"], 1),
            (AccessLoss::Left(ROOM, user("eve")), vec!["ann", "bob", "owner"], 1),
            (AccessLoss::OnlyParticipants(ROOM, vec![user("bob")]), vec!["bob", "owner"], 1),
            (AccessLoss::OnlyParticipants(ROOM, Vec::new()), vec!["owner"], 2),
            (AccessLoss::User(user("owner")), vec!["ann", "bob"], 1),
            (AccessLoss::Credential(CredentialId::stored("key-bob")), vec!["ann", "owner"], 1),
        ];
        for (loss, left, told) in table {
            let (here, there) = (PresenceBoard::default(), PresenceBoard::default());
            for name in ["ann", "bob", "owner"] {
                there.heard(put(&here, name, "{}", at(0)));
            }
            if matches!(loss, AccessLoss::User(_) | AccessLoss::Credential(_)) {
                here.lose(&TenantId::stored("other"), loss.clone(), at(1));
                assert_eq!(names(&here).len(), 3, "a name of another tenant");
            }
            let (changes, changed) = here.lose(&acme(), loss.clone(), at(2));
            assert_eq!(changes.len(), told, "{loss:?}");
            assert_eq!(names(&here), left, "{loss:?}");
            assert_eq!(changed.is_empty(), left.len() == 3, "{loss:?}");
            for change in changes {
                there.heard(change);
            }
            assert_eq!(names(&there), left, "{loss:?}");
        }
    }

    #[test]
    fn memory_is_bounded_by_session_tenant_and_node_and_freed_by_those_who_lapse() {
        let board = PresenceBoard::default();
        let room = |n: usize| Incarnation(uuid::Uuid::from_u128(n as u128));
        let people = |tenant: &TenantId, first: usize, rooms: usize| {
            (0..rooms).flat_map(move |n| (0..100).map(move |m| (room(first + n), m))).try_for_each(
                |(incarnation, m)| {
                    board.put(tenant, incarnation, wish(&format!("u{m}"), "{}"), at(0)).map(drop)
                },
            )
        };
        people(&acme(), 0, limits::PRESENCE_TENANT_PEOPLE_MAX / 100).unwrap();
        let refused = |tenant: &TenantId, incarnation, now| {
            let error = board.put(tenant, incarnation, wish("one more", "{}"), now).unwrap_err();
            error.to_string()
        };
        assert!(refused(&acme(), room(0), at(0)).contains("`presence.session_people` of 100"));
        assert!(refused(&acme(), room(999), at(0)).contains("`presence.tenant_people`"));
        for n in 1..5 {
            let tenant = TenantId::stored(format!("t{n}"));
            people(&tenant, n * 1_000, limits::PRESENCE_TENANT_PEOPLE_MAX / 100).unwrap();
        }
        let other = TenantId::stored("other");
        assert!(refused(&other, room(9_999), at(0)).contains("`presence.node_people`"));
        let elsewhere = PresenceBoard::default();
        let heard = elsewhere.put(&other, room(9_999), wish("far", "{}"), at(0)).unwrap().unwrap();
        assert_eq!(board.heard(heard), [], "a full node takes nobody of another node either");
        assert_eq!(board.rooms.lock().seats, limits::PRESENCE_PEOPLE_MAX);
        board.put(&other, room(9_999), wish("one more", "{}"), at(30)).unwrap().unwrap();
        assert_eq!(board.rooms.lock().seats, 1);
    }

    #[test]
    fn a_deleted_session_has_nobody() {
        let board = PresenceBoard::default();
        put(&board, "ann", "{}", at(0));
        board.close(ROOM);
        assert!(board.is_empty() && names(&board).is_empty());
        assert!(board.rooms.lock().seats_of_tenant.is_empty());
    }

    #[test]
    fn a_stream_is_shown_the_list_at_once_and_then_several_changes_together() {
        let hub = Arc::new(crate::live::Hub::default());
        let (mut reader, starts_sweep) = PresenceReader::new(hub.clone(), ROOM);
        assert!(starts_sweep);
        assert!(!PresenceReader::new(hub.clone(), ROOM).1, "one sweep for all streams");
        let now = Instant::now();
        assert!(matches!(reader.look(now), PresenceStep::Show(list) if list.people.is_empty()));
        assert!(matches!(reader.look(now), PresenceStep::Nothing));
        put(hub.presence(), "ann", "{}", at(0));
        put(hub.presence(), "bob", "{}", at(0));
        let PresenceStep::Later(next) = reader.look(now) else { panic!("told twice at once") };
        assert_eq!(next, now + limits::PRESENCE_TOLD_EVERY);
        assert!(matches!(reader.look(next), PresenceStep::Show(list) if list.people.len() == 2));
        assert!(limits::PRESENCE_TOLD_EVERY + limits::PRESENCE_LOOK_AGAIN < Duration::from_secs(1));
        assert!(limits::PRESENCE_SWEPT_EVERY < limits::PRESENCE_LIFE);
        assert!(!hub.presence().ends_sweep());
        drop(reader);
        assert!(hub.presence().ends_sweep());
    }
}
