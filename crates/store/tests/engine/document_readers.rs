//! Many readers of many documents: each folds the stream of the log, on either node, and has what the server has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sederunt_core::document::patch::read_stored_ops;
use sederunt_core::document::{DocumentContent, DocumentKey, StoredPatch, content};
use sederunt_core::engine::{Engine, LogStream, PatchRequest, StreamItem};
use sederunt_core::event::Event;
use sederunt_core::json::Json;
use sederunt_core::{Actor, SessionId, limits};
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout};

use crate::harness::World;
use crate::on_both_stores;

on_both_stores!(twenty_readers_of_fifty_documents_see_the_same);

const READERS: usize = 20;
const WRITERS: usize = 8;
const ROUNDS: usize = 3;
/// Patches of all writers in a round, and how often they are sent in a second.
const PATCHES: usize = 400;
const RATE: u32 = 1_000;
/// How long a busy machine may take to show the last patch to the last reader.
const PATIENCE: Duration = Duration::from_secs(60);

/// A reader that knows nothing but the stream.
struct FoldingReader {
    stream: LogStream,
    documents: BTreeMap<DocumentKey, DocumentContent>,
    last: u64,
}

impl FoldingReader {
    async fn of(engine: &Engine, owner: &Arc<Actor>, id: &SessionId) -> Self {
        let stream = engine.stream(owner.clone(), id, None).await.unwrap();
        Self { stream, documents: BTreeMap::new(), last: 0 }
    }

    fn fold(&mut self, event: &Event) {
        assert_eq!(event.sequence, self.last + 1, "each sequence once and in order");
        self.last = event.sequence;
        let Some(metadata) = event.metadata.clone().filter(|_| event.kind.is_patch()) else { return };
        let key = DocumentKey::of_metadata(&metadata).unwrap();
        let patch = StoredPatch { sequence: event.sequence, content: event.content.clone(), metadata };
        match patch.opening() {
            Some(value) => drop(self.documents.insert(key, DocumentContent::stored(&value))),
            None => {
                let ops = Json::of(&patch.metadata.value()["ops"]).unwrap();
                let document = self.documents.get_mut(&key).unwrap();
                document.apply(&read_stored_ops(&ops).unwrap()).unwrap();
            }
        }
    }

    /// Reads up to a sequence, and returns the digests of all documents.
    async fn digests_at(&mut self, sequence: u64) -> BTreeMap<DocumentKey, String> {
        while self.last < sequence {
            if let StreamItem::Frames(frames) = timeout(PATIENCE, self.stream.next()).await.unwrap().unwrap()
            {
                frames.iter().for_each(|frame| self.fold(&frame.event));
            }
        }
        let digest = |document: &DocumentContent| content::digest(&document.sorted_text());
        self.documents.iter().map(|(key, document)| (key.clone(), digest(document))).collect()
    }
}

/// One writer's share of a round: appends and overwrites, on the newest patch that it has seen or on an older one.
async fn write(engine: Engine, owner: Arc<Actor>, id: SessionId, writer: usize, round: usize) -> usize {
    let (started, mut accepted) = (Instant::now(), 0);
    let mut bases: BTreeMap<usize, u64> = BTreeMap::new();
    for n in 0..PATCHES / WRITERS {
        let due = Duration::from_secs(1) / RATE * u32::try_from(n * WRITERS).unwrap();
        sleep_until(started + due).await;
        let nth = (n * 7 + writer * 13) % limits::DOCUMENTS_PER_SESSION_MAX;
        let op = match n % 3 {
            0 => json!({"op": "add", "path": "/list/-", "value": format!("{writer}-{round}-{n}")}),
            1 => json!({"op": "add", "path": format!("/at/{writer}"), "value": n}),
            _ => json!({"op": "replace", "path": "/who", "value": writer}),
        };
        let base_sequence = bases.get(&nth).copied().unwrap_or(0);
        let ops = Json::of(&json!([op])).unwrap();
        let request = PatchRequest { base_sequence, ops, epoch: None, wants_inverse: false };
        match engine.patch_document(&owner, &id, &document(nth), request, None).await {
            Ok(done) => {
                bases.insert(nth, done.sequence);
                accepted += 1;
            }
            Err(refused) => assert_eq!(refused.code(), "stale_base", "{refused}"),
        }
    }
    accepted
}

fn document(nth: usize) -> DocumentKey {
    DocumentKey::parse("scratch", &format!("d{nth}")).unwrap()
}

async fn twenty_readers_of_fifty_documents_see_the_same(world: &World) {
    let (owner, id) = (world.owner(), world.talk("s").await.id);
    let nodes = [world.engine.clone(), world.other_node().await];
    let start = Json::of(&json!({"list": [], "at": {}, "who": null})).unwrap();
    for nth in 0..limits::DOCUMENTS_PER_SESSION_MAX {
        world.engine.open_document(&owner, &id, &document(nth), Some(&start), None).await.unwrap();
    }
    let mut readers = Vec::new();
    for nth in 0..READERS {
        readers.push(FoldingReader::of(&nodes[nth % nodes.len()], &owner, &id).await);
    }
    for round in 0..ROUNDS {
        let writers = (0..WRITERS).map(|writer| {
            let engine = nodes[writer % nodes.len()].clone();
            tokio::spawn(write(engine, owner.clone(), id.clone(), writer, round))
        });
        let writers = join_all(writers);
        let accepted: usize = writers.await.into_iter().map(Result::unwrap).sum();
        assert!(accepted > PATCHES / 4, "only {accepted} were accepted");
        let last = world.session(id.as_str()).await.head.last_sequence;
        let read = join_all(readers.iter_mut().map(|reader| reader.digests_at(last))).await;
        for node in &nodes {
            let mut shown = BTreeMap::new();
            for nth in 0..limits::DOCUMENTS_PER_SESSION_MAX {
                let found = node.shared_document(&owner, &id, &document(nth), None).await.unwrap();
                shown.insert(found.key, found.digest);
            }
            assert!(read.iter().all(|digests| *digests == shown), "round {round}");
        }
    }
}
