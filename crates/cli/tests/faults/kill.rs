//! `kill -9` in the middle of writing, again and again: what was acknowledged is there, batches are
//! whole, and a retry after the restart is not a second event.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::Notify;

use crate::harness::{Node, PATIENCE, Place, goes_on, within};
use crate::ledger::{self, Outcome, Writer};

const WRITERS: usize = 16;
const SESSIONS: [&str; 3] = ["cli:a", "cli:b", "cli:c"];
const ROUNDS_MIN: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_loses_nothing_on_sqlite() {
    kill_9_loses_nothing(Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_loses_nothing_on_postgres() {
    kill_9_loses_nothing(Place::postgres().await).await;
}

async fn kill_9_loses_nothing(place: Place) {
    let mut writers = Writer::crew(WRITERS, &SESSIONS);
    let (start, mut round) = (Instant::now(), 0);
    while round < ROUNDS_MIN || goes_on(start) {
        let node = Node::start(&place).await;
        for session in SESSIONS {
            node.client().open(session).await;
        }
        // Another moment each time, and always just after an acknowledgement: an acknowledgement
        // that came before its commit has no time to be made good.
        writers = write_until_killed(node, writers, 40 + 61 * (round % 5)).await;
        for writer in writers.iter_mut().step_by(2) {
            writer.give_up_doubt();
        }
        round += 1;
    }
    let node = Node::start(&place).await;
    let acked = ledger::check(&node.client(), &writers).await;
    assert!(acked >= 40 * ROUNDS_MIN, "only {acked} events were acknowledged");
}

/// Lets all writers write until so many posts were acknowledged, and kills the server then.
async fn write_until_killed(node: Node, writers: Vec<Writer>, posts: usize) -> Vec<Writer> {
    let (acked, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let client = node.client();
    let tasks: Vec<_> = writers
        .into_iter()
        .map(|mut writer| {
            let (acked, enough, client) = (acked.clone(), enough.clone(), client.clone());
            tokio::spawn(async move {
                loop {
                    match writer.append(&client).await {
                        Outcome::Acked if acked.fetch_add(1, Ordering::Relaxed) + 1 == posts => {
                            enough.notify_one()
                        }
                        Outcome::Acked => {}
                        Outcome::Lost => return writer,
                        Outcome::Refused(answer) => panic!("a healthy server refused: {answer:?}"),
                    }
                }
            })
        })
        .collect();
    within("the writers get their answers", PATIENCE, enough.notified()).await;
    node.kill_9();
    let mut writers = Vec::new();
    for task in tasks {
        writers.push(within("the writers notice the end", PATIENCE, task).await.unwrap());
    }
    writers
}
