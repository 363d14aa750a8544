//! Two nodes patch documents while both are killed again and again: every acknowledged patch is in the log once, the log
//! applies without error, and every reader's value is the same.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use sederunt_core::document::patch::read_stored_ops;
use sederunt_core::document::{DocumentContent, StoredPatch, content};
use sederunt_core::json::Json;
use serde_json::{Value, json};

use crate::harness::{Client, Node, Place};

const WRITERS: u64 = 8;
const PATCHES: u64 = 500;
const DOC: &str = "/api/sessions/s/documents/scratch/doc";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_of_two_nodes_with_kills_make_one_document_on_postgres() {
    patches_with_kills_make_one_document(Place::postgres().await, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_with_kills_make_one_document_on_sqlite() {
    patches_with_kills_make_one_document(Place::sqlite(), 1).await;
}

/// Random numbers from a seed that a failure prints.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// An operation on places that writers share, with a mark by which its patch is found in the log.
fn some_ops(random: &mut Seeded, mark: &str) -> Value {
    let at = random.below(6);
    let op = match random.below(6) {
        0 => json!({"op": "add", "path": format!("/o/k{at}"), "value": mark}),
        1 => json!({"op": "remove", "path": format!("/o/k{at}")}),
        2 => json!({"op": "add", "path": "/list/-", "value": mark}),
        3 => json!({"op": "add", "path": format!("/list/{at}"), "value": mark}),
        4 => json!({"op": "replace", "path": format!("/list/{at}"), "value": mark}),
        _ => json!({"op": "copy", "from": format!("/o/k{at}"), "path": format!("/o/c{at}")}),
    };
    json!([op, {"op": "add", "path": format!("/marks/{mark}"), "value": 1}])
}

async fn patches_with_kills_make_one_document(place: Place, count: usize) {
    let seed =
        std::env::var("SEDERUNT_FAULTS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed);
    println!("SEDERUNT_FAULTS_SEED={seed}");
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(Node::start(&place).await);
    }
    let first = nodes[0].client();
    first.post("/api/sessions", json!({"id": "s", "session_type": "mixed"})).await.expect(201);
    let start = json!({"value": {"o": {"k0": 0}, "list": [0, 1, 2, 3, 4, 5], "marks": {}}});
    first.put(DOC, start).await.expect(201);

    let clients: Arc<Mutex<Vec<Client>>> = Arc::new(Mutex::new(nodes.iter().map(Node::client).collect()));
    let (is_over, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writers = (0..WRITERS).map(|writer| {
        let (clients, is_over, sent) = (clients.clone(), is_over.clone(), sent.clone());
        tokio::spawn(async move {
            let mut random = Seeded(seed ^ (writer + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
            let mut base = 0;
            for n in 0..PATCHES {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                sent.fetch_add(1, Ordering::Relaxed);
                let client = {
                    let clients = clients.lock().unwrap();
                    clients[(writer + n) as usize % clients.len()].clone()
                };
                let mark = format!("w{writer}n{n}");
                let body = json!({"base_sequence": base, "ops": some_ops(&mut random, &mark)});
                match client.send("POST", &format!("{DOC}/patch"), Some(&body), None).await {
                    Ok(answer) if answer.status == 201 => {
                        base = answer.body["sequence"].as_u64().unwrap();
                        acknowledged.insert(mark, base);
                    }
                    Ok(answer) if answer.status == 409 => {
                        base = answer.body["error"]["details"]["sequence"].as_u64().unwrap_or(base);
                    }
                    Ok(answer) => assert!(matches!(answer.status, 422 | 503), "{}", answer.body),
                    // The node was killed: whether the patch is there, the log tells.
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
            acknowledged
        })
    });
    let writers: Vec<_> = writers.collect();
    for round in 0..6 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let victim = round % nodes.len();
        nodes.remove(victim).kill_9();
        let fresh = Node::start(&place).await;
        clients.lock().unwrap()[victim] = fresh.client();
        nodes.insert(victim, fresh);
    }
    let acknowledged: BTreeMap<String, u64> =
        join_all(writers).await.into_iter().flat_map(Result::unwrap).collect();
    is_over.store(true, Ordering::Relaxed);
    assert!(
        acknowledged.len() > 100,
        "only {} of {} were accepted",
        acknowledged.len(),
        sent.load(Ordering::Relaxed)
    );

    let (folded, marks) = folded(&nodes[0].client()).await;
    for (mark, sequence) in &acknowledged {
        assert_eq!(marks.get(mark), Some(&vec![*sequence]), "{mark} was acknowledged (seed {seed})");
    }
    assert!(marks.values().all(|found| found.len() == 1), "a patch is in the log once (seed {seed})");
    for node in &nodes {
        let read = node.client().get(DOC).await.expect(200);
        assert_eq!(
            read["digest"],
            json!(content::digest(&folded)),
            "every reader has the same (seed {seed})"
        );
        assert_eq!(Json::of(&read["value"]).unwrap().value(), folded.value());
    }
}

/// The document as the log alone makes it, and the sequences of every mark.
async fn folded(client: &Client) -> (Json, BTreeMap<String, Vec<u64>>) {
    let (mut after, mut document, mut marks) =
        (0, None::<DocumentContent>, BTreeMap::<String, Vec<u64>>::new());
    loop {
        let path = format!("/api/sessions/s/events?types=state.patch&limit=1000&after_sequence={after}");
        let page = client.get(&path).await.expect(200);
        for event in page["events"].as_array().unwrap() {
            let sequence = event["sequence"].as_u64().unwrap();
            let content = event.get("content").filter(|content| !content.is_null());
            let patch = StoredPatch {
                sequence,
                content: content.map(|content| Json::of(content).unwrap()),
                metadata: Json::of(&event["metadata"]).unwrap(),
            };
            if let Some(value) = patch.opening() {
                document = Some(DocumentContent::stored(&value));
                continue;
            }
            let ops = read_stored_ops(&Json::of(&event["metadata"]["ops"]).unwrap()).unwrap();
            document
                .as_mut()
                .unwrap()
                .apply(&ops)
                .unwrap_or_else(|refused| panic!("{sequence}: {refused:?}"));
            let mark = ops.last().unwrap().path().as_str().rsplit('/').next().unwrap().to_owned();
            marks.entry(mark).or_default().push(sequence);
        }
        if page["has_more"] != true {
            return (document.unwrap().sorted_text(), marks);
        }
        after = page["next_after"].as_u64().unwrap();
    }
}
