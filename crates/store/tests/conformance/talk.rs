//! Conversations: their state beside the session, the claims of turns, and which of them the keeper gets.

use std::time::Duration;

use sederunt_core::event::{AppendOutcome, NewEvent};
use sederunt_core::session::Status;
use sederunt_core::session::row::Turn;
use sederunt_core::store::{
    ChangePart, ClaimChange, DueSession, Fence, Guard, PartTarget, Record, Update, Write,
};
use sederunt_core::talk::Talk;
use sederunt_core::{Session, Timestamp};
use smallvec::smallvec;

use crate::builders::*;
use crate::record_builders::{fact, queued, seated};
use crate::stores::TestStore;

on_each_store! {
    a_session_without_a_talk_has_a_blank_one,
    a_talk_lands_with_the_sequences_and_the_time_of_its_commit,
    only_what_was_appended_before_it_lands_in_a_talk,
    a_talk_lands_in_a_session_that_is_made_with_it,
    a_message_that_was_there_before_lands_nowhere,
    writes_of_a_part_are_applied_in_the_order_given,
    a_turn_is_taken_under_a_new_epoch_and_fences_the_one_before,
    a_refused_change_leaves_the_talk_as_it_was,
    messages_wait_while_a_turn_runs_and_are_found_when_it_has_ended,
    silent_sittings_are_found_the_longest_silent_first,
    activity_counts_from_its_last_moment,
    a_sitting_that_is_ended_deleted_or_active_again_is_not_silent,
    a_deleted_session_takes_its_talk_and_leaves_what_is_remembered,
    talks_of_two_tenants_never_meet;
    durable: a_talk_and_the_key_of_the_installation_outlive_the_process,
    a_deleted_session_leaves_no_row_of_its_talk,
    a_copy_carries_talks_and_the_key_of_the_installation,
}

impl TestStore {
    async fn talking(&self, name: &str) -> (Session, Talk) {
        self.talk(&self.tenant, &id(name)).await.unwrap().unwrap_or_else(|| panic!("there is no {name:?}"))
    }

    async fn write_talk(&self, name: &str, talk: Talk) {
        self.write(on(name, Guard::default(), Write::Talk(Box::new(talk)))).await;
    }

    async fn silent(&self, before: Timestamp, limit: usize) -> Vec<String> {
        names(self.silent_sittings(before, limit).await.unwrap())
    }

    async fn waiting(&self) -> Vec<String> {
        let mut waiting = names(self.waiting_turns(100).await.unwrap());
        waiting.sort_unstable();
        waiting
    }
}

fn names(due: Vec<DueSession>) -> Vec<String> {
    due.into_iter().map(|due| format!("{}/{}", due.tenant, due.session)).collect()
}

fn opening() -> NewEvent {
    event("session.sitting_started")
}

fn all(name: &str, writes: impl IntoIterator<Item = Write>) -> ChangePart {
    ChangePart {
        on: PartTarget::Session(id(name)),
        guard: Guard::default(),
        writes: writes.into_iter().collect(),
    }
}

fn talk(talk: Talk) -> Write {
    Write::Talk(Box::new(talk))
}

fn update(update: Update) -> Write {
    Write::Update(Box::new(update))
}

/// A message that waits.
fn waiting() -> Talk {
    Talk { queue: vec![queued()], ..seated() }
}

async fn a_session_without_a_talk_has_a_blank_one(store: &TestStore) {
    assert!(store.talk(&store.tenant, &id("s")).await.unwrap().is_none());
    store.open("s").await;
    let (session, blank) = store.talking("s").await;
    assert_eq!((session, blank), (store.get("s").await, Talk::default()));
}

async fn a_talk_lands_with_the_sequences_and_the_time_of_its_commit(store: &TestStore) {
    store.open("s").await;
    store.append("s", messages(2)).await;
    let writes = [Write::Append(vec![opening(), message("hello")]), talk(waiting())];
    let done = store.commit(store.change(all("s", writes))).await.unwrap();
    let (session, landed) = store.talking("s").await;
    let sitting = landed.sitting.clone().unwrap();
    assert_eq!((sitting.opened_at, sitting.active_at), (Some(done.at), Some(done.at)));
    assert_eq!((sitting.first, landed.queue[0].sequence), (Some(3), Some(4)));
    assert_eq!(session.head.last_sequence, 4);
    let mut expected = waiting();
    expected.land(&done.parts[0].appended, done.at);
    assert_eq!(landed, expected, "nothing else is changed on the way");

    store.clock.advance(LEASE);
    let again = store.commit(store.change(all("s", [talk(landed.clone())]))).await.unwrap();
    let (_, later) = store.talking("s").await;
    let sitting = later.sitting.unwrap();
    assert_eq!((sitting.opened_at, sitting.active_at), (Some(done.at), Some(again.at)));
    assert_eq!(later.queue, landed.queue);
}

async fn only_what_was_appended_before_it_lands_in_a_talk(store: &TestStore) {
    store.open("s").await;
    let writes = [Write::Append(vec![opening()]), talk(waiting()), Write::Append(vec![message("later")])];
    store.write(all("s", writes)).await;
    let (_, landed) = store.talking("s").await;
    assert_eq!((landed.sitting.unwrap().first, landed.queue[0].sequence), (Some(1), None));
    assert_eq!(store.waiting().await, [""; 0], "what has no number cannot be waited for");
}

async fn a_talk_lands_in_a_session_that_is_made_with_it(store: &TestStore) {
    let mut part = creating(a_session("s", |_| {}));
    part.writes = smallvec![Write::Append(vec![opening(), message("hello")]), talk(waiting())];
    store.write(part).await;
    let (session, landed) = store.talking("s").await;
    assert_eq!((landed.sitting.unwrap().first, landed.queue[0].sequence), (Some(1), Some(2)));
    assert_eq!(session.head.last_sequence, 2);
}

async fn a_message_that_was_there_before_lands_nowhere(store: &TestStore) {
    store.open("s").await;
    let sent = || NewEvent { external_event_id: Some("x".into()), ..message("hello") };
    store.append("s", vec![sent()]).await;
    let done = store.write(all("s", [Write::Append(vec![sent()]), talk(waiting())])).await;
    assert!(matches!(done.appended[0], AppendOutcome::Repeat(1)));
    assert_eq!(store.talking("s").await.1.queue[0].sequence, None);
}

async fn writes_of_a_part_are_applied_in_the_order_given(store: &TestStore) {
    let opens = || update(Update { turn: Some(1), ..Update::default() });
    let says = || Write::Append(vec![saying("agent.message", "well")]);
    for (name, writes, answered, turn) in
        [("before", [opens(), says()], true, Some(1)), ("after", [says(), opens()], false, Some(2))]
    {
        store.open(name).await;
        store.append(name, messages(2)).await;
        store.write(all(name, writes)).await;
        let (session, log) = store.state(name).await;
        assert_eq!(session.head.turn, Some(Turn { sequence: 1, answered }), "{name}");
        assert_eq!(log[2].turn, turn, "{name}");
    }
    store.open("alone").await;
    store.append("alone", messages(3)).await;
    store.update("alone", Update { turn: Some(2), ..Update::default() }).await;
    assert_eq!(store.get("alone").await.head.turn, Some(Turn { sequence: 2, answered: false }));
    let done = store.append("alone", vec![saying("agent.message", "yes")]).await;
    assert_eq!(done.head.turn, Some(Turn { sequence: 2, answered: true }), "a later commit sees it too");
}

async fn a_turn_is_taken_under_a_new_epoch_and_fences_the_one_before(store: &TestStore) {
    let take = |by: &str| Update {
        status: Some(Status::Running),
        claim: Some(ClaimChange::Take {
            worker: format!("worker of {by}").into(),
            credential: credential(by),
            lease: LEASE,
        }),
        ..Update::default()
    };
    let fenced = |by: &str, epoch| Guard {
        fence: Some(Fence { credential: credential(by), epoch }),
        ..Guard::default()
    };
    store.open("s").await;
    let before = store.get("s").await.head;
    let done = store.update("s", take("one")).await;
    let now = store.now().await.unwrap();
    let head = store.get("s").await.head;
    assert_eq!(head, done.head);
    assert_eq!(
        (head.epoch, head.version, head.status),
        (before.epoch + 1, before.version + 1, Status::Running)
    );
    let claim = head.claim.clone().unwrap();
    assert_eq!((&*claim.worker, &claim.credential), ("worker of one", &credential("one")));
    assert!(
        claim.lease_until <= now.plus(LEASE) && claim.lease_until > now.plus(LEASE - Duration::from_secs(5))
    );

    let epoch = head.epoch;
    let reply = || vec![saying("agent.message", "well")];
    assert_eq!(verdict(&store.append_under("s", fenced("one", epoch), reply()).await), "ok");
    for (by, epoch) in [("one", epoch - 1), ("one", epoch + 1), ("two", epoch)] {
        assert_eq!(
            verdict(&store.append_under("s", fenced(by, epoch), reply()).await),
            "fenced",
            "{by} {epoch}"
        );
    }
    store.clock.advance(LEASE);
    let lapsed = store.due(Timestamp::from_micros(0), 10).await.unwrap();
    assert_eq!(names(lapsed), ["acme/s"], "the sweeper sees that it died");
    assert_eq!(verdict(&store.append_under("s", fenced("one", epoch), reply()).await), "fenced");
    store.update("s", take("two")).await;
    assert_eq!(verdict(&store.append_under("s", fenced("one", epoch), reply()).await), "fenced");
    assert_eq!(verdict(&store.append_under("s", fenced("two", epoch + 1), reply()).await), "ok");
    let release =
        Update { status: Some(Status::Idle), claim: Some(ClaimChange::Release), ..Update::default() };
    store.update("s", release).await;
    let head = store.get("s").await.head;
    assert_eq!((head.claim, head.epoch), (None, epoch + 1));
}

async fn a_refused_change_leaves_the_talk_as_it_was(store: &TestStore) {
    store.open("s").await;
    store.write_talk("s", seated()).await;
    let before = store.talking("s").await;
    store.clock.advance(LEASE);
    let stale = Guard { version: Some(99), ..Guard::default() };
    let change = store
        .change(on("s", stale, talk(waiting())))
        .record(Record::PutMemory(Box::new(fact("m", "ann", "tea"))));
    assert_eq!(verdict(&store.commit(change).await), "stale");
    assert_eq!(store.talking("s").await, before);
    assert_eq!(store.memory(&store.tenant, "m").await.unwrap(), None);
}

async fn messages_wait_while_a_turn_runs_and_are_found_when_it_has_ended(store: &TestStore) {
    let taken = ClaimChange::Take { worker: "w".into(), credential: credential("w"), lease: LEASE };
    for (name, status, claim) in [
        ("idle", Status::Idle, None),
        ("running", Status::Running, Some(taken)),
        ("nobody's", Status::Running, None),
        ("asking", Status::AwaitingTool, None),
        ("empty", Status::Idle, None),
    ] {
        store.open(name).await;
        let queue = if name == "empty" { seated() } else { waiting() };
        let writes = [
            Write::Append(vec![message("hello")]),
            update(Update { status: Some(status), claim, ..Update::default() }),
            talk(queue),
        ];
        store.write(all(name, writes)).await;
    }
    let other = store.tenant_named("other").await;
    other.open("theirs").await;
    other.write(all("theirs", [Write::Append(vec![message("hello")]), talk(waiting())])).await;
    assert_eq!(store.waiting().await, ["acme/idle", "acme/nobody's", "other/theirs"]);
    assert_eq!(store.waiting_turns(1).await.unwrap().len(), 1);
    let ended = Some(ClaimChange::Release);
    store.update("running", Update { status: Some(Status::Idle), claim: ended, ..Update::default() }).await;
    store.write_talk("idle", seated()).await;
    store.write_talk("nobody's", seated()).await;
    assert_eq!(store.waiting().await, ["acme/running", "other/theirs"]);
}

async fn silent_sittings_are_found_the_longest_silent_first(store: &TestStore) {
    let other = store.tenant_named("other").await;
    for (of, name) in [(store, "a"), (&other, "b"), (store, "c")] {
        of.open(name).await;
        of.write_talk(name, seated()).await;
        store.clock.advance(LEASE);
    }
    store.open("never").await;
    let first = store.talking("a").await.1.active_at().unwrap();
    assert_eq!(store.silent(first, 10).await, [""; 0], "active at this moment, not before it");
    assert_eq!(store.silent(first.plus(Duration::from_micros(1)), 10).await, ["acme/a"]);
    let now = store.now().await.unwrap();
    assert_eq!(store.silent(now, 10).await, ["acme/a", "other/b", "acme/c"]);
    assert_eq!(store.silent(now, 2).await, ["acme/a", "other/b"]);
}

async fn activity_counts_from_its_last_moment(store: &TestStore) {
    store.open("s").await;
    let moment = Duration::from_micros(1);
    for step in [Duration::from_secs(1), Duration::from_secs(20), Duration::from_secs(70)] {
        store.write_talk("s", seated()).await;
        let before = store.talking("s").await.1.active_at().unwrap();
        assert_eq!(store.silent(before.plus(moment), 10).await, ["acme/s"], "{step:?}");
        store.clock.advance(step);
        store.write_talk("s", seated()).await;
        assert_eq!(store.silent(before.plus(moment), 10).await, [""; 0], "{step:?}");
    }
}

async fn a_sitting_that_is_ended_deleted_or_active_again_is_not_silent(store: &TestStore) {
    for name in ["again", "deleted", "ended", "silent"] {
        store.open(name).await;
        store.write_talk(name, seated()).await;
    }
    let other = store.tenant_named("other").await;
    other.open("removed").await;
    other.write_talk("removed", seated()).await;
    store.clock.advance(LEASE);
    let since = store.now().await.unwrap();
    store.clock.advance(LEASE);
    store.write_talk("again", store.talking("again").await.1).await;
    store.write_talk("ended", Talk { sittings: 1, ..Talk::default() }).await;
    store.delete("deleted").await;
    store.delete_tenant(&other.tenant).await.unwrap();
    assert_eq!(store.silent(since, 10).await, ["acme/silent"]);
}

async fn a_deleted_session_takes_its_talk_and_leaves_what_is_remembered(store: &TestStore) {
    store.open("s").await;
    store.write_talk("s", seated()).await;
    let remembered = fact("m", "ann", "tea");
    store.record(Record::PutMemory(Box::new(remembered.clone()))).await;
    store.delete("s").await;
    assert!(store.talk(&store.tenant, &id("s")).await.unwrap().is_none());
    store.open("s").await;
    assert_eq!(store.talking("s").await.1, Talk::default());
    assert_eq!(store.memory(&store.tenant, "m").await.unwrap(), Some(remembered));
}

async fn a_deleted_session_leaves_no_row_of_its_talk(store: &TestStore) {
    for name in ["deleted", "kept"] {
        store.open(name).await;
        store.write_talk(name, seated()).await;
    }
    store.delete("deleted").await;
    assert_eq!(store.rows_kept().await["talks"], 1);
}

async fn talks_of_two_tenants_never_meet(store: &TestStore) {
    let other = store.tenant_named("other").await;
    for (of, sittings) in [(store, 1), (&other, 2)] {
        of.open("s").await;
        of.write_talk("s", Talk { sittings, ..Talk::default() }).await;
    }
    assert_eq!((store.talking("s").await.1.sittings, other.talking("s").await.1.sittings), (1, 2));
    store.delete("s").await;
    assert_eq!(other.talking("s").await.1.sittings, 2);
}

async fn a_talk_and_the_key_of_the_installation_outlive_the_process(store: &TestStore) {
    let key = store.installation_key().await.unwrap();
    assert_eq!(store.installation_key().await.unwrap(), key);
    assert_ne!(key, [0; 32]);
    store.open("s").await;
    store.write(all("s", [Write::Append(vec![message("hello")]), talk(waiting())])).await;
    let before = store.talking("s").await;
    let after = store.reopened().await;
    assert_eq!(after.talking("s").await, before);
    assert_eq!(after.installation_key().await.unwrap(), key);
    assert_eq!(after.waiting().await, ["acme/s"]);
    after.close().await;
}

async fn a_copy_carries_talks_and_the_key_of_the_installation(store: &TestStore) {
    store.open("s").await;
    store.write(all("s", [Write::Append(vec![message("hello")]), talk(waiting())])).await;
    let Some(copy) = store.copied().await else { return };
    assert_eq!(copy.talking("s").await, store.talking("s").await);
    assert_eq!(copy.waiting().await, ["acme/s"]);
    assert_eq!(copy.installation_key().await.unwrap(), store.installation_key().await.unwrap());
    copy.remove().await;
}
