//! SIGTERM in the middle of streams and appends: it ends by itself, soon, with success, and what it
//! acknowledged on the way is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::harness::{Node, PATIENCE, Place, Said, eventually, within};
use crate::ledger::{self, Outcome, Writer};

const SESSIONS: [&str; 2] = ["cli:a", "cli:b"];
const WRITERS: usize = 8;
const STREAMS: usize = 6;
const POSTS: usize = 80;
const ENDS_WITHIN: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_told_to_end_does_so_and_keeps_its_word_on_sqlite() {
    a_server_that_is_told_to_end_keeps_its_word(Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_told_to_end_does_so_and_keeps_its_word_on_postgres() {
    a_server_that_is_told_to_end_keeps_its_word(Place::postgres().await).await;
}

async fn a_server_that_is_told_to_end_keeps_its_word(place: Place) {
    let mut node = Node::start(&place).await;
    let client = node.client();
    for session in SESSIONS {
        client.open(session).await;
    }
    let mut streams = Vec::new();
    for number in 0..STREAMS {
        let mut stream = client.stream(SESSIONS[number % 2], 0).await.unwrap();
        stream.until_ready().await;
        streams.push(tokio::spawn(async move {
            let mut told = 0;
            loop {
                match stream.next().await {
                    Said::Event { .. } => told += 1,
                    Said::End => return told,
                    Said::Ready | Said::Other(_) => {}
                }
            }
        }));
    }
    let claimer = client.clone();
    let waiting = tokio::spawn(async move {
        let order = json!({"worker": "patient", "wait_ms": 60_000});
        let _ = claimer.send("POST", "/api/claims", Some(&order), None).await;
    });
    let acked = Arc::new(AtomicUsize::new(0));
    let writers: Vec<_> = Writer::crew(WRITERS, &SESSIONS)
        .into_iter()
        .map(|mut writer| {
            let (client, acked) = (client.clone(), acked.clone());
            tokio::spawn(async move {
                loop {
                    match writer.append(&client).await {
                        Outcome::Acked => acked.fetch_add(1, Ordering::Relaxed),
                        Outcome::Lost => return writer,
                        Outcome::Refused(answer) if answer.is_unavailable() => return writer,
                        Outcome::Refused(answer) => panic!("{answer:?}"),
                    };
                }
            })
        })
        .collect();
    eventually("the writers are at work", PATIENCE, async || {
        (acked.load(Ordering::Relaxed) >= POSTS).then_some(())
    })
    .await;

    node.terminate();
    let status = eventually("the process ends", ENDS_WITHIN, async || node.ended()).await;
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(!node.said().contains("panicked"), "{}", node.said());
    within("the waiting claim ends", PATIENCE, waiting).await.unwrap();
    let mut crew = Vec::new();
    for task in writers {
        crew.push(within("the writers end", PATIENCE, task).await.unwrap());
    }
    for stream in streams {
        let told: usize = within("the streams end", PATIENCE, stream).await.unwrap();
        assert!(told > 0, "a stream told nothing");
    }

    let node = Node::start(&place).await;
    let kept = ledger::check(&node.client(), &crew).await;
    assert!(kept >= POSTS, "only {kept} events were acknowledged");
    assert_eq!(kept, crew.iter().map(Writer::acked).sum::<usize>());
}
