//! Concurrent callers: sequences stay dense, and every race has one winner.

use std::collections::BTreeSet;

use sederunt_core::definitions::{DefinitionDoc, DefinitionKind};
use sederunt_core::event::AppendOutcome;
use sederunt_core::session::Status;
use sederunt_core::store::{Change, Guard, Record, Update, Write};

use crate::builders::*;
use crate::definitions::a_doc;
use crate::people::a_user;
use crate::stores::TestStore;

on_each_store! {
    sixty_four_appenders_on_one_session_leave_a_dense_log,
    an_external_id_sent_by_many_at_once_is_taken_once,
    one_of_many_creators_of_an_id_wins,
    a_record_that_many_make_at_once_is_made_once_and_the_others_learn_it,
    one_of_many_decisions_on_a_version_wins,
    one_of_many_appends_at_a_sequence_wins,
    changes_of_several_sessions_in_crossing_order_all_land,
    a_refused_change_among_many_takes_no_other_with_it,
    appends_race_a_deletion_without_leaving_anything_behind,
}

async fn sixty_four_appenders_on_one_session_leave_a_dense_log(store: &TestStore) {
    store.open("s").await;
    let answers = store
        .at_once(64, |store, n| async move {
            let mut mine = Vec::new();
            for round in 0..4 {
                let events = (0..1 + n % 3).map(|_| message(&format!("{n}.{round}"))).collect();
                let done = store.append("s", events).await;
                let sequences = appended(&done);
                assert!(sequences.windows(2).all(|pair| pair[1] == pair[0] + 1), "a batch is not torn apart");
                mine.extend(sequences.into_iter().map(|sequence| (sequence, format!("{n}.{round}"))));
            }
            assert!(mine.windows(2).all(|pair| pair[0].0 < pair[1].0), "a later append has a later number");
            mine
        })
        .await;
    let answered: BTreeSet<_> = answers.into_iter().flatten().collect();
    let log = store.log("s").await;
    let stored: BTreeSet<_> = log.iter().map(|event| (event.sequence, event.text().unwrap())).collect();
    assert_eq!(answered, stored);
    assert_eq!(sequences(&log), (1..=log.len() as u64).collect::<Vec<_>>());
    assert!(log.windows(2).all(|pair| pair[0].at <= pair[1].at));
    let head = store.get("s").await.head;
    assert_eq!((head.last_sequence, head.message_count), (log.len() as u64, log.len() as u64));
}

async fn an_external_id_sent_by_many_at_once_is_taken_once(store: &TestStore) {
    store.open("s").await;
    let answers = store
        .at_once(32, |store, n| async move {
            store.append("s", vec![external("same"), external(&format!("own {n}"))]).await.appended
        })
        .await;
    let firsts = answers.iter().filter(|slots| matches!(slots[0], AppendOutcome::New(_))).count();
    assert_eq!(firsts, 1);
    let same: BTreeSet<_> = answers.iter().map(|slots| slots[0].sequence()).collect();
    assert_eq!(same.len(), 1);
    assert_eq!(sequences(&store.log("s").await), (1..=33).collect::<Vec<_>>());
}

async fn one_of_many_creators_of_an_id_wins(store: &TestStore) {
    let outcomes = store
        .at_once(16, |store, n| async move {
            let new = a_session("s", |new| new.details.title = Some(format!("{n}").into()));
            let mut part = creating(new);
            part.writes.push(Write::Append(vec![event("session.created")]));
            (n, verdict(&store.commit(store.change(part)).await))
        })
        .await;
    let winners: Vec<_> = outcomes.iter().filter(|(_, outcome)| *outcome == "ok").collect();
    assert_eq!(winners.len(), 1, "{outcomes:?}");
    assert!(outcomes.iter().all(|(_, outcome)| ["ok", "stale"].contains(outcome)), "{outcomes:?}");
    let (session, log) = store.state("s").await;
    assert_eq!(session.details.title, Some(winners[0].0.to_string().into()));
    assert_eq!(log.len(), 1);
}

async fn a_record_that_many_make_at_once_is_made_once_and_the_others_learn_it(store: &TestStore) {
    let verdicts = |make: fn(usize) -> Record| async move {
        let mut verdicts = store
            .at_once(16, move |store, n| async move {
                let change = Change::new(store.tenant.clone()).record(make(n));
                verdict(&store.commit(change).await)
            })
            .await;
        verdicts.sort_unstable_by_key(|verdict| *verdict != "ok");
        verdicts
    };
    let one_and = |other| std::iter::once("ok").chain([other; 15]).collect::<Vec<_>>();
    assert_eq!(verdicts(|_| Record::AddUser(a_user("ann"))).await, one_and("already_exists"));
    let same_doc = |_| Record::PutDoc { doc: Box::new(a_doc(DefinitionKind::Entity, "d")), expects: None };
    assert_eq!(verdicts(same_doc).await, one_and("stale"));
    let same_slug = |n| {
        let doc =
            DefinitionDoc { slug: Some("taken".into()), ..a_doc(DefinitionKind::Task, &format!("d{n}")) };
        Record::PutDoc { doc: Box::new(doc), expects: None }
    };
    assert_eq!(verdicts(same_slug).await, one_and("already_exists"));
    let same_lesson = |_| crate::record_builders::taught("lesson_1", "Keep answers short", None);
    assert_eq!(verdicts(same_lesson).await, one_and("stale"));
}

async fn one_of_many_decisions_on_a_version_wins(store: &TestStore) {
    store.open("s").await;
    for round in 0..5 {
        let seen = store.get("s").await;
        let outcomes = store
            .at_once(16, |store, n| {
                let guard = Guard::seen(&seen);
                async move {
                    let update = Update {
                        status: Some(Status::Running),
                        title: Some(Some(format!("{n}").into())),
                        ..Update::default()
                    };
                    let mut part = on("s", guard, Write::Update(update.into()));
                    part.writes.push(Write::Append(vec![event("session.status_change")]));
                    (n, verdict(&store.commit(store.change(part)).await))
                }
            })
            .await;
        let winners: Vec<_> = outcomes.iter().filter(|(_, outcome)| *outcome == "ok").collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        assert!(outcomes.iter().all(|(_, outcome)| ["ok", "stale"].contains(outcome)), "{outcomes:?}");
        let after = store.get("s").await;
        assert_eq!(after.details.title, Some(winners[0].0.to_string().into()));
        assert_eq!((after.head.version, after.head.last_sequence), (seen.head.version + 1, round + 1));
    }
}

async fn one_of_many_appends_at_a_sequence_wins(store: &TestStore) {
    store.open("s").await;
    for sequence in 0..5 {
        let outcomes = store
            .at_once(16, |store, _| async move {
                let guard = Guard { sequence: Some(sequence), ..Guard::default() };
                verdict(&store.append_under("s", guard, messages(1)).await)
            })
            .await;
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == "ok").count(), 1, "{outcomes:?}");
        assert_eq!(
            outcomes.iter().filter(|outcome| **outcome == "sequence_mismatch").count(),
            15,
            "{outcomes:?}"
        );
    }
    assert_eq!(sequences(&store.log("s").await), [1, 2, 3, 4, 5]);
}

async fn changes_of_several_sessions_in_crossing_order_all_land(store: &TestStore) {
    let names = ["a", "b", "c", "d"];
    for name in names {
        store.open(name).await;
    }
    store
        .at_once(24, |store, n| async move {
            for round in 0..4 {
                let first = (n + round) % 4;
                let second = (first + 1 + n % 3) % 4;
                let mut change = store.change(appending(names[first], messages(1)));
                change.parts.push(appending(names[second], messages(1)));
                let outcome = store.commit(change).await;
                assert_eq!(verdict(&outcome), "ok", "{outcome:?}");
                store.append(names[second], messages(1)).await;
            }
        })
        .await;
    let mut total = 0;
    for name in names {
        let log = store.log(name).await;
        assert_eq!(sequences(&log), (1..=log.len() as u64).collect::<Vec<_>>());
        total += log.len();
    }
    assert_eq!(total, 24 * 4 * 3);
}

async fn a_refused_change_among_many_takes_no_other_with_it(store: &TestStore) {
    store.open("s").await;
    store.open("t").await;
    let outcomes = store
        .at_once(60, |store, n| async move {
            let name = if n % 2 == 0 { "s" } else { "t" };
            let guard = match n % 3 {
                0 => Guard { version: Some(999), ..Guard::default() },
                _ => Guard::default(),
            };
            let name = if n % 10 == 7 { "missing" } else { name };
            verdict(&store.append_under(name, guard, messages(1)).await)
        })
        .await;
    let count = |code| outcomes.iter().filter(|outcome| **outcome == code).count();
    assert_eq!(count("not_found") + count("stale") + count("ok"), 60, "{outcomes:?}");
    assert!(count("not_found") >= 4);
    let written = store.log("s").await.len() + store.log("t").await.len();
    assert_eq!(written, count("ok"));
    assert!(written >= 30);
}

async fn appends_race_a_deletion_without_leaving_anything_behind(store: &TestStore) {
    for round in 0..5 {
        store.open("s").await;
        let outcomes = store
            .at_once(17, |store, n| async move {
                if n == 8 {
                    store.delete("s").await;
                    return "deleted";
                }
                verdict(&store.append_under("s", Guard::default(), vec![external("x")]).await)
            })
            .await;
        assert!(outcomes.iter().all(|code| ["ok", "not_found", "deleted"].contains(code)), "{outcomes:?}");
        assert!(store.find("s").await.is_none(), "{round}");
        store.open("s").await;
        assert!(store.log("s").await.is_empty());
        assert!(matches!(store.append("s", vec![external("x")]).await.appended[0], AppendOutcome::New(_)));
        store.delete("s").await;
    }
}
