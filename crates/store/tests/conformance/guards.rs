//! Guards: each condition alone, met and not met, and a refusal that leaves no trace.

use std::sync::Arc;

use sederunt_core::access::ShareAccess;
use sederunt_core::event::{EventType, Kinds};
use sederunt_core::ids::RandomIds;
use sederunt_core::session::{SessionType, Status};
use sederunt_core::store::{
    AppendRule, ClaimChange, Fence, Guard, GuardRows, NewSession, Record, Refusal, Update, Write,
};
use sederunt_core::{Actor, Conflict, Error, Incarnation, Role};

use crate::builders::*;
use crate::stores::TestStore;

on_each_store! {
    each_condition_is_judged_alone,
    a_sequence_mismatch_names_the_actual_sequence,
    a_fence_holds_until_the_lease_lapses,
    a_heartbeat_in_between_saves_a_claim_from_the_sweeper,
    a_deadline_that_was_moved_is_not_overdue,
    a_released_claim_fences_its_holder,
    the_store_judges_appends_as_the_rule_does,
    a_participant_may_append_only_while_it_takes_part,
    a_change_is_refused_whole_when_its_second_part_is,
    conditions_hold_for_deletions_too,
}

/// A session with three events that credential `key` runs, under epoch 1, with a deadline in a day.
async fn running(store: &TestStore, name: &str) {
    store.create(work(name)).await;
    store.claim_one(name, "key").await;
    store.update(name, Update { deadline: Some(Some(DAY)), ..Update::default() }).await;
    store.append(name, messages(3)).await;
}

fn fence(by: &str, epoch: u64) -> Guard {
    Guard { fence: Some(Fence { credential: credential(by), epoch }), ..Guard::default() }
}

async fn each_condition_is_judged_alone(store: &TestStore) {
    running(store, "s").await;
    let head = store.get("s").await.head;
    let none = Guard::default;
    let cases: Vec<(&str, Guard, &str, &str)> = vec![
        ("nothing", none(), "ok", "ok"),
        ("incarnation", Guard { incarnation: Some(head.incarnation), ..none() }, "ok", "ok"),
        (
            "another life",
            Guard { incarnation: Some(Incarnation::drawn(&RandomIds)), ..none() },
            "stale",
            "stale",
        ),
        ("version", Guard { version: Some(head.version), ..none() }, "ok", "ok"),
        ("an older version", Guard { version: Some(head.version - 1), ..none() }, "stale", "stale"),
        ("a newer version", Guard { version: Some(head.version + 1), ..none() }, "stale", "stale"),
        (
            "an older sequence",
            Guard { sequence: Some(0), ..none() },
            "sequence_mismatch",
            "sequence_mismatch",
        ),
        (
            "a newer sequence",
            Guard { sequence: Some(9999), ..none() },
            "sequence_mismatch",
            "sequence_mismatch",
        ),
        ("the claim", fence("key", 1), "ok", "fenced"),
        ("an older epoch", fence("key", 0), "fenced", "fenced"),
        ("a newer epoch", fence("key", 2), "fenced", "fenced"),
        ("another credential", fence("other", 1), "fenced", "fenced"),
        ("lapsed", Guard { lapsed: true, ..none() }, "stale", "ok"),
        ("overdue", Guard { overdue: true, ..none() }, "stale", "ok"),
    ];
    for (days, late) in [false, true].into_iter().enumerate() {
        for (name, guard, in_time, too_late) in &cases {
            let expected = if late { too_late } else { in_time };
            let before = store.state("s").await;
            let outcome = store.append_under("s", guard.clone(), vec![event("external.event")]).await;
            assert_eq!(verdict(&outcome), *expected, "{name}, after {days} days");
            let (after, log) = store.state("s").await;
            if *expected == "ok" {
                assert_eq!(after.head.last_sequence, before.0.head.last_sequence + 1, "{name}");
            } else {
                assert_eq!((after, log), before, "{name}: a refusal leaves no trace");
            }
        }
        let exact = Guard { sequence: Some(store.get("s").await.head.last_sequence), ..none() };
        assert_eq!(verdict(&store.append_under("s", exact, messages(1)).await), "ok");
        store.clock.advance(DAY);
    }
}

async fn a_sequence_mismatch_names_the_actual_sequence(store: &TestStore) {
    store.open("s").await;
    store.append("s", messages(4)).await;
    let guard = Guard { sequence: Some(2), ..Guard::default() };
    let Err(Refusal::Rejected(Error::Conflict(conflict))) = store.append_under("s", guard, messages(1)).await
    else {
        panic!("the log has moved on");
    };
    assert_eq!(conflict, Conflict::SequenceMismatch { last_sequence: 4 });
}

async fn a_fence_holds_until_the_lease_lapses(store: &TestStore) {
    running(store, "s").await;
    let renew = |name| {
        let update = Update { claim: Some(ClaimChange::Renew(LEASE)), ..Update::default() };
        on(name, fence("key", 1), Write::Update(update.into()))
    };
    for _ in 0..3 {
        store.clock.advance(LEASE / 2);
        assert_eq!(verdict(&store.commit(store.change(renew("s"))).await), "ok");
    }
    store.clock.advance(LEASE);
    assert_eq!(verdict(&store.commit(store.change(renew("s"))).await), "fenced");
    assert_eq!(verdict(&store.append_under("s", fence("key", 1), messages(1)).await), "fenced");
}

async fn a_heartbeat_in_between_saves_a_claim_from_the_sweeper(store: &TestStore) {
    running(store, "s").await;
    store.clock.advance(2 * LEASE);
    let requeue = || {
        let update =
            Update { status: Some(Status::Pending), claim: Some(ClaimChange::Release), ..Update::default() };
        store.change(on("s", Guard { lapsed: true, ..Guard::default() }, Write::Update(update.into())))
    };
    store.update("s", Update { claim: Some(ClaimChange::Renew(LEASE)), ..Update::default() }).await;
    assert_eq!(verdict(&store.commit(requeue()).await), "stale");
    assert!(store.get("s").await.head.claim.is_some());
    store.clock.advance(LEASE);
    assert_eq!(verdict(&store.commit(requeue()).await), "ok");
    let head = store.get("s").await.head;
    assert_eq!((head.status, head.claim, head.epoch), (Status::Pending, None, 1));
    assert_eq!(verdict(&store.commit(requeue()).await), "stale", "nothing is left to lapse");
}

async fn a_deadline_that_was_moved_is_not_overdue(store: &TestStore) {
    store.open("s").await;
    store.update("s", Update { deadline: Some(Some(LEASE)), ..Update::default() }).await;
    store.clock.advance(LEASE);
    store.update("s", Update { deadline: Some(Some(LEASE)), ..Update::default() }).await;
    let expire = || {
        let update = Update { status: Some(Status::Expired), deadline: Some(None), ..Update::default() };
        store.change(on("s", Guard { overdue: true, ..Guard::default() }, Write::Update(update.into())))
    };
    assert_eq!(verdict(&store.commit(expire()).await), "stale");
    store.clock.advance(LEASE);
    assert_eq!(verdict(&store.commit(expire()).await), "ok");
    assert_eq!(verdict(&store.commit(expire()).await), "stale", "no deadline is left");
}

async fn a_released_claim_fences_its_holder(store: &TestStore) {
    running(store, "s").await;
    store.update("s", Update { claim: Some(ClaimChange::Release), ..Update::default() }).await;
    assert_eq!(verdict(&store.append_under("s", fence("key", 1), messages(1)).await), "fenced");
}

fn by(actor: &Actor, kind: &str, epoch: Option<u64>) -> Guard {
    let kinds = Kinds::of(&[EventType::parse(kind).unwrap()]);
    Guard { append: Some(AppendRule { actor: Arc::new(actor.clone()), kinds, epoch }), ..Guard::default() }
}

/// Every kind of caller, of session and of event: the store must come to the verdict of
/// [`Guard::check`] on the row that it holds.
async fn the_store_judges_appends_as_the_rule_does(store: &TestStore) {
    let with_people = |new: &mut NewSession| {
        new.head.holder = Some(user("holder"));
        new.participants = vec![user("holder"), user("participant")];
    };
    store.create(a_session("tg:talk", with_people)).await;
    store
        .create(a_session("tg:closed", |new| {
            with_people(new);
            new.head.session_type = SessionType::Agent;
            new.head.status = Status::Completed;
        }))
        .await;
    store
        .create(a_session("tg:external", |new| {
            with_people(new);
            new.head.is_external = true;
        }))
        .await;
    store
        .create(a_session("tg:bridge", |new| {
            with_people(new);
            new.head.is_bridge = true;
            new.head.status = Status::Running;
        }))
        .await;
    let mut claimed = work("tg:claimed");
    with_people(&mut claimed);
    store.create(claimed).await;
    store.claim_one("tg:claimed", "worker").await;

    let mut channel = actor(Role::Channel, None, "channel");
    channel.prefix = Some("tg:".into());
    let mut other_channel = channel.clone();
    other_channel.prefix = Some("slack:".into());
    let mut share = actor(Role::Share, None, "share");
    share.shared = Some((id("tg:talk"), ShareAccess::Submit));
    let actors = [
        actor(Role::Owner, None, "owner"),
        actor(Role::Owner, Some("holder"), "owner"),
        actor(Role::Member, Some("holder"), "holder"),
        actor(Role::Member, Some("participant"), "participant"),
        actor(Role::Member, Some("stranger"), "stranger"),
        actor(Role::Member, None, "nobody"),
        actor(Role::Guest, Some("participant"), "guest"),
        actor(Role::Guest, Some("stranger"), "guest"),
        actor(Role::Worker, None, "worker"),
        actor(Role::Worker, None, "other worker"),
        channel,
        other_channel,
        share,
    ];
    let kinds = [
        "user.message", "agent.message", "session.completed", "human.marker", "external.event",
        "billing.charged",
    ];
    let mut verdicts = std::collections::BTreeMap::new();
    for name in ["tg:talk", "tg:closed", "tg:external", "tg:bridge", "tg:claimed"] {
        // Appends move nothing that the rule looks at, and the lease outlives the test.
        let (session, now) = (store.get(name).await, store.now().await.unwrap());
        for actor in &actors {
            for kind in kinds {
                for epoch in [None, Some(1), Some(2)] {
                    let guard = by(actor, kind, epoch);
                    let asked = guard.asks_participants(&session.head);
                    let participants = asked.filter(|user| session.participants.contains(user)).cloned();
                    let rows = GuardRows { participants: participants.collect(), ..GuardRows::default() };
                    let expected = guard.check(&session.id, &session.head, &rows, now);
                    let outcome = store.append_under(name, guard, vec![saying(kind, "text")]).await;
                    assert_eq!(
                        verdict(&outcome),
                        verdict(&expected),
                        "{kind} on {name} with epoch {epoch:?} by {actor:?}"
                    );
                    if name == "tg:closed" && epoch.is_some() && actor.role == Role::Owner {
                        let only = if kind == "session.completed" { "denied" } else { "fenced" };
                        assert_eq!(verdict(&outcome), only, "an old epoch has one answer: {kind}");
                    }
                    *verdicts.entry(verdict(&outcome)).or_insert(0) += 1;
                }
            }
        }
    }
    for code in ["ok", "denied", "not_found", "fenced", "session_closed"] {
        assert!(verdicts.get(code).is_some_and(|&count| count > 5), "the table is too narrow: {verdicts:?}");
    }
}

async fn a_participant_may_append_only_while_it_takes_part(store: &TestStore) {
    store.open("s").await;
    let bob = actor(Role::Member, Some("bob"), "bob");
    let outcome = store.append_under("s", by(&bob, "user.message", None), messages(1)).await;
    assert_eq!(verdict(&outcome), "not_found");
    store.update("s", Update { add_participant: Some(user("bob")), ..Update::default() }).await;
    let outcome = store.append_under("s", by(&bob, "user.message", None), messages(1)).await;
    assert_eq!(verdict(&outcome), "ok");
    store.update("s", Update { participants: Some(vec![user("ann")]), ..Update::default() }).await;
    let outcome = store.append_under("s", by(&bob, "user.message", None), messages(1)).await;
    assert_eq!(verdict(&outcome), "not_found");
    assert_eq!(store.log("s").await.len(), 1);
}

async fn a_change_is_refused_whole_when_its_second_part_is(store: &TestStore) {
    for name in ["a", "b", "c"] {
        store.open(name).await;
        store.append(name, messages(1)).await;
    }
    let before = [store.state("a").await, store.state("b").await, store.state("c").await];
    let bad = [
        ("sequence_mismatch", Guard { sequence: Some(7), ..Guard::default() }),
        ("stale", Guard { version: Some(99), ..Guard::default() }),
        ("fenced", fence("key", 1)),
    ];
    // The refused part is first, in the middle and last in the order of ids.
    for (refused, others) in [("a", ["b", "c"]), ("b", ["a", "c"]), ("c", ["a", "b"])] {
        for (code, guard) in bad.clone() {
            let mut parts = vec![
                appending(others[0], messages(2)),
                updating(others[1], Update { title: Some(Some("changed".into())), ..Update::default() }),
                on(refused, guard, Write::Append(messages(1))),
                creating(a_session("new", |_| {})),
            ];
            parts.sort_by_key(|part| match &part.on {
                sederunt_core::store::PartTarget::Session(id) => id.clone(),
                sederunt_core::store::PartTarget::New(new) => new.id.clone(),
            });
            let mut change = store.change(parts.remove(0));
            change.parts.extend(parts);
            let change = change
                .record(Record::AddUser(crate::people::a_user("ann")))
                .keyed(Some(key(1, 1)))
                .audited(sederunt_core::people::Audit {
                    actor: "ann".into(),
                    action: "refused",
                    target: "a".into(),
                });
            assert_eq!(verdict(&store.commit(change).await), code, "{refused}");
        }
    }
    assert_eq!([store.state("a").await, store.state("b").await, store.state("c").await], before);
    assert!(store.find("new").await.is_none());
    assert!(store.user(&store.tenant, &user("ann")).await.unwrap().is_none());
    assert!(
        store.audit(&store.tenant, None, 10).await.unwrap().items.iter().all(|line| line.action != "refused")
    );

    let mut change = store.change(appending("a", messages(2))).keyed(Some(key(1, 1)));
    change.parts.push(appending("b", messages(1)));
    change.parts.push(updating("c", Update { title: Some(Some("changed".into())), ..Update::default() }));
    let committed = store.commit(change).await.unwrap();
    assert!(committed.replay.is_none(), "a refusal does not spend the key");
    assert_eq!(committed.parts.len(), 3);
    assert_eq!(appended(&committed.parts[0]), [2, 3]);
    assert_eq!(appended(&committed.parts[1]), [2]);
    assert_eq!(committed.parts[2].head, store.get("c").await.head);
}

async fn conditions_hold_for_deletions_too(store: &TestStore) {
    store.open("s").await;
    let seen = store.get("s").await;
    store.update("s", Update { status: Some(Status::Running), ..Update::default() }).await;
    let delete = |guard| store.change(on("s", guard, Write::Delete));
    assert_eq!(verdict(&store.commit(delete(Guard::seen(&seen))).await), "stale");
    assert!(store.find("s").await.is_some());
    let seen = store.get("s").await;
    assert_eq!(verdict(&store.commit(delete(Guard::seen(&seen))).await), "ok");
    assert!(store.find("s").await.is_none());
}
