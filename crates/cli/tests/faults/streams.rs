//! Readers that are cut and hop between nodes, while the nodes lose the connections by which they
//! hear of each other: every sequence once, in order, to the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::watch;

use crate::harness::{Client, Node, PATIENCE, Place, Said, connect, eventually, goes_on, within};
use crate::ledger::{self, Outcome, Writer};

const READERS: usize = 4;
const WRITERS: usize = 4;
const CUTS_MIN: usize = 8;
const SESSION: &str = "cli:hop";
/// A node that missed a notification finds out by itself: it polls every second or two.
const MISSED_MAX: Duration = Duration::from_secs(5);

/// Ends every connection that listens. Returns how many.
const CUT_LISTENERS: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND query ILIKE '%listen %'";

/// Follows one log over any number of connections.
pub struct Follower {
    nodes: Vec<Client>,
    /// Events that it reads from one connection before it hops; different each time.
    stride: usize,
    cursor: u64,
    pub hops: usize,
}

impl Follower {
    pub fn new(nodes: &[Client], number: usize) -> Self {
        Self { nodes: nodes.to_vec(), stride: 3 + 5 * number, cursor: 0, hops: number }
    }

    /// Reads until the log ends where `end` says. Fails on the first sequence that is not the next.
    pub async fn follow(mut self, session: &str, mut end: watch::Receiver<Option<u64>>) -> Self {
        while *end.borrow() != Some(self.cursor) {
            self.hops += 1;
            let node = &self.nodes[self.hops % self.nodes.len()];
            let Ok(mut stream) = node.stream(session, self.cursor).await else { continue };
            for _ in 0..1 + (self.hops * self.stride) % 29 {
                let said = tokio::select! {
                    said = stream.next() => said,
                    _ = end.wait_for(|end| *end == Some(self.cursor)) => break,
                };
                match said {
                    Said::Event { sequence, .. } => {
                        assert_eq!(sequence, self.cursor + 1, "out of turn on hop {}", self.hops);
                        self.cursor = sequence;
                    }
                    Said::Other(name) => assert_ne!(name, "gap", "nothing was removed"),
                    Said::Ready => {}
                    Said::End => break,
                }
            }
        }
        self
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_hop_between_nodes_see_every_event_once_and_in_order() {
    let place = Place::postgres().await;
    let nodes = [Node::start(&place).await, Node::start(&place).await];
    let clients: Vec<Client> = nodes.iter().map(Node::client).collect();
    clients[0].open(SESSION).await;

    let (tell_end, end) = watch::channel(None);
    let readers: Vec<_> = (0..READERS)
        .map(|number| tokio::spawn(Follower::new(&clients, number).follow(SESSION, end.clone())))
        .collect();
    let (posts, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let writers: Vec<_> = Writer::crew(WRITERS, &[SESSION])
        .into_iter()
        .enumerate()
        .map(|(number, mut writer)| {
            let client = clients[number % clients.len()].clone();
            let (posts, stop) = (posts.clone(), stop.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    assert!(matches!(writer.append(&client).await, Outcome::Acked));
                    posts.fetch_add(1, Ordering::Relaxed);
                }
                writer
            })
        })
        .collect();

    let database = connect(&place.store).await;
    let (start, mut cuts) = (Instant::now(), 0);
    while cuts < CUTS_MIN || goes_on(start) {
        let before = posts.load(Ordering::Relaxed);
        eventually("there are listeners to cut", PATIENCE, async || cut_listeners(&database).await).await;
        cuts += 1;
        eventually("writing goes on", PATIENCE, async || {
            (posts.load(Ordering::Relaxed) >= before + 25).then_some(())
        })
        .await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut crew = Vec::new();
    for task in writers {
        crew.push(within("the writers end", PATIENCE, task).await.unwrap());
    }
    let acked = ledger::check(&clients[0], &crew).await;
    assert!(acked >= 25 * CUTS_MIN, "only {acked} events were acknowledged");

    let last = clients[0].get(&format!("/api/sessions/{SESSION}")).await.expect(200);
    tell_end.send(last["last_sequence"].as_u64()).unwrap();
    let mut hops = 0;
    for reader in readers {
        hops += within("the readers reach the end", MISSED_MAX, reader).await.unwrap().hops;
    }
    assert!(hops >= 20 * READERS, "only {hops} hops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_hears_of_another_nodes_event_although_the_notification_was_lost() {
    let place = Place::postgres().await;
    let nodes = [Node::start(&place).await, Node::start(&place).await];
    let clients: Vec<Client> = nodes.iter().map(Node::client).collect();
    clients[0].open(SESSION).await;
    let database = connect(&place.store).await;
    let mut readers = Vec::new();
    for client in &clients {
        let mut stream = client.stream(SESSION, 0).await.unwrap();
        assert_eq!(stream.until_ready().await, [1]);
        readers.push(stream);
    }
    for round in 0..6 {
        eventually("there are listeners to cut", PATIENCE, async || cut_listeners(&database).await).await;
        // Nobody listens at this moment: the next event is announced to an empty room.
        let event = json!({"events": [{"type": "round.begun"}]});
        clients[round % 2].post(&format!("/api/sessions/{SESSION}/events"), event).await.expect(201);
        for reader in &mut readers {
            loop {
                match within("the event arrives", MISSED_MAX, reader.next()).await {
                    Said::Event { sequence, .. } => {
                        assert_eq!(sequence, 2 + round as u64);
                        break;
                    }
                    Said::Ready | Said::Other(_) => {}
                    Said::End => panic!("the stream ended in round {round}"),
                }
            }
        }
    }
}

async fn cut_listeners(database: &tokio_postgres::Client) -> Option<usize> {
    Some(database.query(CUT_LISTENERS, &[]).await.unwrap().len()).filter(|cut| *cut > 0)
}
