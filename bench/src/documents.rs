//! Shared documents: patches beside plain events of the same bytes on the same route, opening after many patches, and
//! readers that follow by the stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use sederunt_core::access::Role;
use sederunt_core::document::patch::read_stored_ops;
use sederunt_core::document::{DocumentContent, DocumentKey};
use sederunt_core::engine::{Append, DraftEvent, Engine, NewKey, PatchRequest};
use sederunt_core::ids::SessionId;
use sederunt_core::json::Json;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::limits;
use crate::load::{Connection, Target, single_threaded};
use crate::report::Row;
use crate::rounds::{Latencies, Sample, interleave, median};
use crate::sse::Subscriber;
use crate::subject::{self, Node, Subject};

const DOCUMENTS: usize = 50;
const DOCUMENT_BYTES: usize = 100_000;
const CONNECTIONS: usize = 64;
const WRITERS: usize = 16;
const ROUNDS: usize = 5;
/// A round ends here if the disk is slow.
const ROUND_MAX: Duration = Duration::from_secs(6);

/// Connections that write to documents, each to a place of its own.
#[derive(Clone, Copy)]
struct Shape {
    documents: usize,
    connections: usize,
    count: u64,
    /// Whether patches are sent, or custom events with the same metadata.
    patches: bool,
}

/// Patches of fifty documents, and of one, beside plain events.
pub fn patched(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (store, many, one) in [("SQLite", 0.5, 0.15), ("PostgreSQL", 0.5, 0.05)] {
        for (documents, connections, bar) in [(DOCUMENTS, CONNECTIONS, many), (1, WRITERS, one)] {
            let subject = match store {
                "SQLite" => Subject::on_disk(bench)?,
                _ => Subject::on_postgres(bench)?,
            };
            open_documents(&subject, documents)?;
            subject.settle()?;
            let node = subject.serve()?;
            let count = bench.some(if documents == 1 { 5_000 } else { 20_000 });
            let shape = |patches| Shape { documents, connections, count, patches };
            let rounds = if bench.quick { 1 } else { ROUNDS };
            let [ours, plain] = interleave(
                rounds,
                [&mut || write_all(&node, shape(true)), &mut || write_all(&node, shape(false))],
            )?;
            let which = if documents == 1 { "one document" } else { "50 documents of 100 kB" };
            rows.push(Row::at_least(
                format!(
                    "{store}: patches of {which}, {connections} connections / plain events of the same bytes"
                ),
                ours.per_s,
                plain.per_s,
                "events",
                bar,
            ));
        }
    }
    Ok(rows)
}

fn document() -> Result<DocumentKey> {
    Ok(DocumentKey::parse("scratch", "doc")?)
}

/// A value of the size that is measured, with a place for every connection.
fn value() -> Result<Json> {
    let places: serde_json::Map<String, Value> =
        (0..CONNECTIONS).map(|nth| (format!("w{nth}"), json!({"n": 0}))).collect();
    let rows: Vec<Value> =
        (0..DOCUMENT_BYTES / 100).map(|nth| json!({"row": nth, "text": "x".repeat(75)})).collect();
    Ok(Json::of(&json!({"places": places, "rows": rows}))?)
}

/// Opens a document in each of the sessions `s0`, `s1` ….
fn open_documents(subject: &Subject, documents: usize) -> Result<()> {
    subject.with_engine(async |engine| {
        subject::make_sessions(engine, documents, subject::talk).await?;
        let (owner, key, value) = (Arc::new(subject::owner()), document()?, value()?);
        for nth in 0..documents {
            let id = SessionId::parse(&subject::name(nth))?;
            engine.open_document(&owner, &id, &key, Some(&value), None).await?;
        }
        Ok(())
    })
}

fn ops(place: usize, number: u64) -> Value {
    json!([{"op": "replace", "path": format!("/places/w{place}/n"), "value": number}])
}

#[derive(Deserialize)]
struct Appended {
    last_sequence: u64,
}

#[derive(Deserialize)]
struct Read {
    sequence: u64,
    digest: String,
}

/// Every connection writes to its document as soon as its last event was acknowledged, on what it has seen of it.
fn write_all(node: &Node, shape: Shape) -> Result<Sample> {
    single_threaded()?.block_on(async {
        let each = shape.count / shape.connections as u64;
        let mut writers = JoinSet::new();
        let mut ready = Vec::new();
        for place in 0..shape.connections {
            let session = subject::name(place % shape.documents);
            let mut connection = node.target.connect().await?;
            let base = read(&node.target, &mut connection, &session).await?.sequence;
            let kind = if shape.patches { "state.patch" } else { "app.patched" };
            ready.push((Writer { place, session, kind, base }, connection));
        }
        let start = Instant::now();
        for (writer, connection) in ready {
            let target = node.target.clone();
            writers.spawn(async move { writer.write(&target, connection, each, start).await });
        }
        let (mut done, mut latencies) = (0, Latencies::default());
        while let Some(written) = writers.join_next().await {
            let written: Latencies = written??;
            done += written.len() as u64;
            latencies.join(written);
        }
        Ok(Sample::new(done, start.elapsed(), &mut latencies))
    })
}

/// One connection's part of the load.
struct Writer {
    /// The place in the document that no other connection writes to.
    place: usize,
    session: String,
    kind: &'static str,
    /// The last patch that it has seen.
    base: u64,
}

impl Writer {
    async fn write(
        mut self,
        target: &Target,
        mut connection: Connection,
        count: u64,
        start: Instant,
    ) -> Result<Latencies> {
        let path = format!("/api/sessions/{}/events", self.session);
        let (mut latencies, mut request) = (Latencies::default(), Vec::new());
        for number in 0..count {
            if start.elapsed() > ROUND_MAX {
                break;
            }
            let document = json!({"kind": "scratch", "id": "doc"});
            let ops = ops(self.place, number);
            let metadata = json!({"document": document, "base_sequence": self.base, "ops": ops});
            let body = json!({"events": [{"type": self.kind, "metadata": metadata}]}).to_string();
            request.clear();
            target.post(&path, body.as_bytes(), &mut request);
            let sent = Instant::now();
            let appended: Appended = connection.ask(&request).await?.json(201)?;
            latencies.add(sent.elapsed());
            self.base = appended.last_sequence;
        }
        Ok(latencies)
    }
}

async fn read(target: &Target, connection: &mut Connection, session: &str) -> Result<Read> {
    let mut request = Vec::new();
    target.get(&format!("/api/sessions/{session}/documents/scratch/doc"), &mut request);
    connection.ask(&request).await?.json(200)
}

/// Opening a document in a process that does not hold it: after many patches, and among many other events.
pub fn opened(bench: &Bench) -> Result<Vec<Row>> {
    let many = bench.stored(100_000);
    let subject = Subject::on_disk(bench)?;
    eprintln!("  writing {many} patches and as many other events");
    subject.with_engine(async |engine| {
        subject::make_sessions(engine, 3, subject::talk).await?;
        let (owner, key, value) = (Arc::new(subject::owner()), document()?, value()?);
        for (nth, patches) in [(0, 100), (1, 100), (2, many)] {
            let id = SessionId::parse(&subject::name(nth))?;
            let base = engine.open_document(&owner, &id, &key, Some(&value), None).await?.sequence;
            // Foreign events lie between the opening and the patches.
            if nth == 1 {
                append_others(engine, &id, many).await?;
            }
            patch_many(engine, &id, base, patches).await?;
        }
        Ok(())
    })?;
    let rounds = if bench.quick { 3 } else { 15 };
    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..rounds {
        for (nth, times) in times.iter_mut().enumerate() {
            times.push(first_read_ms(&subject, &subject::name(nth))?);
        }
    }
    let [few, foreign, patched] = times.map(|times| median(times.into_iter()));
    Ok(vec![
        Row::at_most_times(
            format!("opening a document after {many} patches / after 100"),
            patched,
            few,
            "ms",
            1.5,
        ),
        Row::at_most_times(
            format!("opening a document among {many} other events / among none"),
            foreign,
            few,
            "ms",
            1.2,
        ),
    ])
}

/// The first read of a document in an engine of its own, after a read of another session has warmed it.
fn first_read_ms(subject: &Subject, session: &str) -> Result<f64> {
    subject.with_engine(async |engine| {
        let (owner, id) = (subject::owner(), SessionId::parse(session)?);
        engine.documents(&owner, &id).await?;
        let start = Instant::now();
        let read = engine.shared_document(&owner, &id, &document()?, None).await?;
        let took = start.elapsed();
        ensure!(read.value.len() > DOCUMENT_BYTES / 2, "a document of {} bytes", read.value.len());
        Ok(took.as_secs_f64() * 1e3)
    })
}

async fn append_others(engine: &Engine, id: &SessionId, count: u64) -> Result<()> {
    let owner = Arc::new(subject::owner());
    for _ in 0..count.div_ceil(500) {
        let event = || DraftEvent {
            kind: "app.noted".into(),
            content: Some(Json::stored(r#""something else""#.to_owned())),
            ..DraftEvent::default()
        };
        let events = (0..500).map(|_| event()).collect();
        engine.append(&owner, id, Append { events, ..Append::default() }, None).await?;
    }
    Ok(())
}

/// Sends as many patches at once as are gathered into one commit.
async fn patch_many(engine: &Engine, id: &SessionId, mut base: u64, count: u64) -> Result<()> {
    let (owner, key) = (Arc::new(subject::owner()), document()?);
    let mut done = 0;
    while done < count {
        let some = (count - done).min(50);
        let requests = (0..some).map(|nth| {
            let request = Json::of(&ops(nth as usize, done + nth)).map(|ops| PatchRequest {
                base_sequence: base,
                ops,
                epoch: None,
                wants_inverse: false,
            });
            let (owner, key) = (&owner, &key);
            async move { anyhow::Ok(engine.patch_document(owner, id, key, request?, None).await?.sequence) }
        });
        for sequence in futures_util::future::join_all(requests).await {
            base = base.max(sequence?);
        }
        done += some;
    }
    Ok(())
}

/// An event as a reader of the stream needs it.
#[derive(Deserialize)]
struct Followed {
    #[serde(rename = "type")]
    kind: String,
    metadata: FollowedPatch,
}

#[derive(Deserialize)]
struct FollowedPatch {
    ops: Value,
}

const READERS_EACH: usize = 20;
const READERS_OF_A_KEY: usize = 200;
const PATCHES_PER_S: u64 = 1_000;

/// Twenty readers on each of fifty documents, while a thousand patches a second are written: the last patch is with the
/// last reader within a second, and what each reader has made of its stream has the digest of the server's document.
pub fn followed(bench: &Bench) -> Result<Vec<Row>> {
    limits::raise_open_files(4 * (READERS_EACH * DOCUMENTS) as u64)?;
    let subject = Subject::on_disk(bench)?;
    open_documents(&subject, DOCUMENTS)?;
    // A key has so many streams, and there are more readers.
    let keys = subject.with_engine(async |engine| {
        let mut keys = Vec::new();
        for _ in 0..READERS_EACH * DOCUMENTS / READERS_OF_A_KEY {
            let wish = NewKey { role: Some(Role::Owner), user: Some("bench".into()), ..NewKey::default() };
            let made = engine.create_key(&subject::owner(), wish, None).await?;
            keys.push(made.secret.context("a key without a secret")?);
        }
        Ok(keys)
    })?;
    let node = subject.serve()?;
    let readers: Vec<Target> = keys.iter().map(|key| Target::new(node.listening.addr, Some(key))).collect();
    let seconds = if bench.quick { 2 } else { 8 };
    let (late, differing) = single_threaded()?.block_on(follow(&node.target, &readers, seconds))?;
    Ok(vec![
        Row::at_most(
            format!(
                "{} readers of {DOCUMENTS} documents at {PATCHES_PER_S} patches/s: the last patch reaches the last reader after",
                READERS_EACH * DOCUMENTS
            ),
            late.as_secs_f64() * 1e3,
            0.0,
            "ms",
            1_000.0,
        ),
        Row::none_of("readers whose document differs from the server's", differing),
    ])
}

async fn follow(target: &Target, by: &[Target], seconds: u64) -> Result<(Duration, u64)> {
    let mut asking = target.connect().await?;
    let mut bases = Vec::new();
    for nth in 0..DOCUMENTS {
        bases.push(read(target, &mut asking, &subject::name(nth)).await?.sequence);
    }
    let mut streams = Vec::new();
    for nth in 0..DOCUMENTS * READERS_EACH {
        let (session, base) = (subject::name(nth % DOCUMENTS), bases[nth % DOCUMENTS]);
        let path = format!("/api/sessions/{session}/stream?after={base}");
        let mut stream = Subscriber::open(&by[nth / READERS_OF_A_KEY], &path, base).await?;
        stream.keep_events();
        streams.push(stream);
    }
    let total = PATCHES_PER_S * seconds;
    let each = total / DOCUMENTS as u64;
    let mut readers = JoinSet::new();
    for (nth, mut stream) in streams.into_iter().enumerate() {
        let end = bases[nth % DOCUMENTS] + each;
        readers.spawn(async move {
            let mut at = Instant::now();
            while stream.last() < end {
                at = stream.take().await?.0;
            }
            anyhow::Ok((nth % DOCUMENTS, at, stream.kept_events()))
        });
    }
    let acknowledged = write_paced(target, &bases, each, seconds).await?;
    let mut kept = Vec::new();
    let mut late = Duration::ZERO;
    while let Some(reader) = readers.join_next().await {
        let (document, at, events) = reader??;
        late = late.max(at.saturating_duration_since(acknowledged));
        kept.push((document, events));
    }
    let mut digests = Vec::new();
    for nth in 0..DOCUMENTS {
        digests.push(read(target, &mut asking, &subject::name(nth)).await?.digest);
    }
    let mut differing = 0;
    for (document, events) in kept {
        differing += u64::from(folded(&events)? != digests[document]);
    }
    Ok((late, differing))
}

/// Writes to every document in turn, at an even pace. Returns when the last patch was acknowledged.
async fn write_paced(target: &Target, bases: &[u64], each: u64, seconds: u64) -> Result<Instant> {
    let mut writers = JoinSet::new();
    let pause = Duration::from_secs(seconds) / u32::try_from(each)?;
    for (nth, base) in bases.iter().copied().enumerate() {
        let target = target.clone();
        writers.spawn(async move {
            let (session, mut connection, mut base) = (subject::name(nth), target.connect().await?, base);
            let (mut request, mut tick) = (Vec::new(), tokio::time::interval(pause));
            for number in 1..=each {
                tick.tick().await;
                let body = json!({"base_sequence": base, "ops": ops(nth, number)}).to_string();
                request.clear();
                let path = format!("/api/sessions/{session}/documents/scratch/doc/patch");
                target.post(&path, body.as_bytes(), &mut request);
                let patched: Patched = connection.ask(&request).await?.json(201)?;
                base = patched.sequence;
            }
            anyhow::Ok(Instant::now())
        });
    }
    let mut last = Instant::now();
    while let Some(written) = writers.join_next().await {
        last = last.max(written??);
    }
    Ok(last)
}

#[derive(Deserialize)]
struct Patched {
    sequence: u64,
}

/// The digest of the document that a reader has made of its events.
fn folded(events: &[Vec<u8>]) -> Result<String> {
    let mut content = DocumentContent::stored(&value()?);
    for event in events {
        let event: Followed = serde_json::from_slice(event)?;
        ensure!(event.kind == "state.patch", "a {} among the patches", event.kind);
        let ops = read_stored_ops(&Json::of(&event.metadata.ops)?)?;
        content.apply(&ops).ok().context("a patch of the log does not apply")?;
    }
    Ok(sederunt_core::document::content::digest(&content.sorted_text()))
}
