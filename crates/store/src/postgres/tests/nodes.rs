//! Two stores on one schema, as two nodes are: what one does, the other hears of, whatever becomes of its ears.

use sederunt_core::live::hints::Batch;
use sederunt_core::live::{Delta, Next, Reader};

use super::*;

/// Follows a log as a stream does, until it has seen this many events.
async fn follow(scene: &Scene, of: &str, name: &str, reader: &mut Reader, upto: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    while reader.cursor() < upto {
        match reader.look() {
            Next::Frames(frames) => seen.extend(frames.iter().map(|frame| frame.event.sequence)),
            Next::ReadStore => {
                let query = EventQuery { after: reader.cursor(), limit: 1000, ..EventQuery::default() };
                let page = scene.events(&tenant(of), &id(name), query).await.unwrap();
                seen.extend(page.events.iter().map(|event| event.sequence));
                reader.read_to(page.events.last().map_or(0, |event| event.sequence), !page.has_more);
            }
            Next::Wait | Next::Reply(_) => reader.wait().await,
            Next::Deleted => panic!("{name} was deleted"),
        }
    }
    seen
}

pub(super) async fn with_two_nodes(test: impl AsyncFnOnce(&Scene, &Scene)) {
    with_store(async |here| {
        let there = open_at(url(), &here.schema).await;
        let outcome = AssertUnwindSafe(test(here, &there)).catch_unwind().await;
        there.close().await;
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    })
    .await;
}

async fn listening(scene: &Scene, of: &str, name: &str) -> Reader {
    let session = scene.session(&tenant(of), &id(name)).await.unwrap().unwrap();
    scene.hub.listen(session.head.incarnation, 0)
}

/// Ends the connections that listen for this schema; how many there were.
async fn deafen(scene: &Scene) -> i64 {
    let sql = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%LISTEN {}_wake%'
             AND pid <> pg_backend_pid()",
        scene.schema
    );
    count(&scene.admin().await, &sql).await
}

#[tokio::test]
async fn an_append_there_wakes_a_reader_here() {
    with_two_nodes(async |here, there| {
        here.tenant_named("ours").await;
        here.open("ours", "s").await;
        let mut reader = listening(here, "ours", "s").await;
        let mut hints = here.hub.hints(&tenant("ours"), None);
        for _ in 0..10 {
            there.say("ours", "s", "hi").await;
        }
        let seen = in_time("ten events", follow(here, "ours", "s", &mut reader, 10)).await;
        assert_eq!(seen, (1..=10).collect::<Vec<_>>());
        in_time("a hint", async {
            loop {
                match hints.take() {
                    Some(Batch::Hints(hints, _)) if hints[0].last_sequence == 10 => return,
                    Some(_) => {}
                    None => hints.wait().await,
                }
            }
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_listener_that_is_cut_off_comes_back_and_doubts_everything() {
    with_two_nodes(async |here, there| {
        here.tenant_named("ours").await;
        here.open("ours", "s").await;
        let mut reader = listening(here, "ours", "s").await;
        assert!(follow(here, "ours", "s", &mut reader, 0).await.is_empty());
        let mut upto = 0;
        for _ in 0..3 {
            assert_eq!(deafen(here).await, 2, "both nodes were listening");
            // Said into deaf ears: the poll, or the doubt after the return, must find it.
            there.say("ours", "s", "hi").await;
            upto += 1;
            let seen = in_time("what was said meanwhile", follow(here, "ours", "s", &mut reader, upto)).await;
            assert_eq!(seen, [upto]);
            let sql = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%LISTEN {}_wake%' AND pid <> pg_backend_pid()",
                here.schema
            );
            let admin = here.admin().await;
            until("both to listen again", async || count(&admin, &sql).await == 2).await;
        }
        there.say("ours", "s", "hi").await;
        assert_eq!(in_time("a notification", follow(here, "ours", "s", &mut reader, upto + 1)).await, [upto + 1]);
    })
    .await;
}

#[tokio::test]
async fn the_poll_finds_what_no_notification_told() {
    with_store(async |scene| {
        let tk = scene.tenant_named("ours").await;
        scene.open("ours", "s").await;
        let mut reader = listening(scene, "ours", "s").await;
        scene.say("ours", "s", "hi").await;
        assert_eq!(follow(scene, "ours", "s", &mut reader, 1).await, [1]);
        let planted = format!(
            "INSERT INTO events (tk, log, seq, type, at) SELECT tk, sk, 2, 'a.b', 0 FROM session_heads WHERE tk = {tk};
             UPDATE session_heads SET last_sequence = 2 WHERE tk = {tk}"
        );
        scene.admin().await.batch_execute(&planted).await.unwrap();
        assert_eq!(in_time("the poll", follow(scene, "ours", "s", &mut reader, 2)).await, [2]);
        let gone = format!("DELETE FROM session_heads WHERE tk = {tk}");
        scene.admin().await.batch_execute(&gone).await.unwrap();
        in_time("the end", async {
            while !matches!(reader.look(), Next::Deleted) {
                reader.wait().await;
            }
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_reply_that_is_written_there_is_shown_here() {
    with_two_nodes(async |here, there| {
        here.tenant_named("ours").await;
        here.open("ours", "s").await;
        let incarnation = here.session(&tenant("ours"), &id("s")).await.unwrap().unwrap().head.incarnation;
        let mut reader = listening(here, "ours", "s").await;
        follow(here, "ours", "s", &mut reader, 0).await;
        let whole = "Grüße\t\n".repeat(3_000);
        let mut offset = 0;
        for piece in whole.split_inclusive('\n') {
            there.spread_delta(Delta { incarnation, epoch: 1, offset, text: piece.into() });
            offset += piece.len();
        }
        let mut shown = String::new();
        in_time("the reply", async {
            while shown.len() < whole.len() {
                match reader.look() {
                    Next::Reply(piece) => {
                        assert_eq!(piece.offset, shown.len());
                        shown.push_str(&piece.text);
                    }
                    Next::ReadStore => reader.read_to(0, true),
                    _ => reader.wait().await,
                }
            }
        })
        .await;
        assert_eq!(shown, whole);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_two_nodes_on_the_same_sessions_never_wait_in_a_circle() {
    const SESSIONS: usize = 30;
    with_two_nodes(async |here, there| {
        here.tenant_named("ours").await;
        for n in 0..SESSIONS {
            here.open("ours", &format!("s{n}")).await;
        }
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..200usize {
            let store = if task % 2 == 0 { here.store.clone() } else { there.store.clone() };
            tasks.spawn(async move {
                for round in 0..10usize {
                    let name = format!("s{}", (task * 7 + round * 13) % SESSIONS);
                    let outcome = store.commit(append("ours", &name, vec![message("hi")])).await;
                    assert_eq!(verdict(&outcome), "ok", "{outcome:?}");
                }
            });
        }
        while let Some(done) = in_time("the appends", tasks.join_next()).await {
            done.unwrap();
        }
        let admin = here.admin().await;
        let dense = "SELECT count(*) FROM session_heads h WHERE last_sequence <>
             (SELECT count(*) FROM events e WHERE e.tk = h.tk AND e.log = h.sk)";
        assert_eq!(count(&admin, dense).await, 0);
        assert_eq!(count(&admin, "SELECT count(*) FROM events").await, 2_000);
    })
    .await;
}
