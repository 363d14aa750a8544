//! Several nodes over one database: the others see what one of them commits, in order. Only PostgreSQL has nodes;
//! SQLite belongs to one process.

use std::collections::BTreeSet;

use sederunt_core::live::ReaderStep;
use sederunt_core::people::{Audit, SecretHash};
use sederunt_core::store::{Record, Update};

use crate::builders::*;
use crate::live::{follow, in_time};
use crate::people::a_key;
use crate::stores::TestStore;

mod postgres {
    macro_rules! on_two_nodes {
        ($($name:ident),* $(,)?) => {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::stores::with(crate::stores::Kind::Postgres, async |here| {
                    let there = here.another_node().await;
                    super::$name(here, &there).await;
                    there.close().await;
                })
                .await;
            })*
        };
    }

    on_two_nodes! {
        appends_of_two_nodes_leave_one_dense_log,
        a_reader_here_sees_what_is_appended_there,
        a_deletion_there_ends_the_readers_here,
        work_that_appears_there_wakes_those_who_wait_here,
        claims_of_two_nodes_share_the_work_without_a_tie,
        a_key_that_was_used_there_is_replayed_here,
        what_is_revoked_there_is_seen_here,
    }
}

/// Every second caller works on the other node.
fn either<'a>(here: &'a TestStore, there: &'a TestStore, n: usize) -> &'a TestStore {
    if n.is_multiple_of(2) { here } else { there }
}

async fn appends_of_two_nodes_leave_one_dense_log(here: &TestStore, there: &TestStore) {
    here.open("s").await;
    let there = there.clone();
    let answers = here
        .at_once(32, |here, n| {
            let node = either(&here, &there, n).clone();
            async move {
                let mut mine = Vec::new();
                for _ in 0..5 {
                    mine.extend(appended(&node.append("s", messages(1 + n % 3)).await));
                }
                assert!(mine.windows(2).all(|pair| pair[0] < pair[1]));
                mine
            }
        })
        .await;
    let answered: BTreeSet<_> = answers.iter().flatten().copied().collect();
    assert_eq!(answered.len(), answers.iter().flatten().count());
    let log = here.log("s").await;
    assert_eq!(sequences(&log), (1..=answered.len() as u64).collect::<Vec<_>>());
    assert!(log.windows(2).all(|pair| pair[0].at <= pair[1].at));
    assert_eq!(there.log("s").await, log);
}

async fn a_reader_here_sees_what_is_appended_there(here: &TestStore, there: &TestStore) {
    const EVENTS: u64 = 120;
    here.open("s").await;
    let incarnation = here.get("s").await.head.incarnation;
    let readers = [here.clone(), there.clone()].map(|node| {
        let reader = node.hub.listen(incarnation, 0);
        tokio::spawn(async move { in_time("the last event", follow(&node, "s", reader, EVENTS)).await.0 })
    });
    let other = there.clone();
    here.at_once(12, |here, n| {
        let node = either(&here, &other, n).clone();
        async move {
            for _ in 0..10 {
                node.append("s", messages(1)).await;
            }
        }
    })
    .await;
    for reader in readers {
        assert_eq!(reader.await.unwrap(), (1..=EVENTS).collect::<Vec<_>>());
    }
}

async fn a_deletion_there_ends_the_readers_here(here: &TestStore, there: &TestStore) {
    here.open("s").await;
    let mut reader = here.hub.listen(here.get("s").await.head.incarnation, 0);
    reader.read_to(0, true);
    there.delete("s").await;
    in_time("the end", async {
        while !matches!(reader.look(), ReaderStep::Deleted) {
            reader.wait().await;
        }
    })
    .await;
}

async fn work_that_appears_there_wakes_those_who_wait_here(here: &TestStore, there: &TestStore) {
    let mut woken = here.hub.work(&here.tenant);
    there.create(work("s")).await;
    in_time("work", woken.changed()).await.unwrap();
    here.claim_one("s", "key").await;
}

async fn claims_of_two_nodes_share_the_work_without_a_tie(here: &TestStore, there: &TestStore) {
    for n in 0..60 {
        here.create(work(&format!("s{n}"))).await;
    }
    let there = there.clone();
    let claims = here
        .at_once(8, |here, n| {
            let node = either(&here, &there, n).clone();
            async move {
                let mut mine = Vec::new();
                loop {
                    let batch = node.claim(node.order(&format!("key {n}"), 3)).await.unwrap();
                    if batch.is_empty() {
                        return mine;
                    }
                    mine.extend(batch.into_iter().map(|claim| claim.session.id));
                }
            }
        })
        .await;
    let distinct: BTreeSet<_> = claims.iter().flatten().collect();
    assert_eq!((claims.iter().flatten().count(), distinct.len()), (60, 60));
}

async fn a_key_that_was_used_there_is_replayed_here(here: &TestStore, there: &TestStore) {
    here.open("s").await;
    let there = there.clone();
    let replays = here
        .at_once(32, |here, n| {
            let node = either(&here, &there, n).clone();
            async move {
                let change = node.change(appending("s", messages(2))).keyed(Some(noted(key(1, 1))));
                node.commit(change).await.unwrap().replay
            }
        })
        .await;
    assert_eq!(replays.iter().filter(|replay| replay.is_none()).count(), 1);
    assert!(replays.iter().flatten().all(|replay| replay.sequences == [1, 2]));
    assert_eq!(here.log("s").await.len(), 2);
}

async fn what_is_revoked_there_is_seen_here(here: &TestStore, there: &TestStore) {
    let hash = SecretHash::of("secret");
    here.record(Record::AddKey { key: a_key(here, "key"), hash }).await;
    assert!(here.key_by_hash(hash).await.unwrap().is_some());
    there.record(Record::RevokeKey { id: credential("key") }).await;
    assert!(here.key_by_hash(hash).await.unwrap().unwrap().key.revoked_at.is_some());
    let audit = Audit { actor: "operator".into(), action: "tenant.suspend", target: "acme".into() };
    there.suspend_tenant(&there.tenant, true, audit).await.unwrap();
    assert!(here.key_by_hash(hash).await.unwrap().unwrap().tenant_suspended);
    here.open("s").await;
    there.update("s", Update { participants: Some(vec![user("ann")]), ..Update::default() }).await;
    assert_eq!(here.get("s").await.participants, [user("ann")]);
}
