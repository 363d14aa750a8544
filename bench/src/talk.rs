//! Conversations: the cost of storing a turn beside LangGraph's checkpoints, whole turns with the built-in model,
//! whether a turn grows with its conversation, how soon a word is heard, the cost of recall and of a sweep.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::BoxFuture;
use sederunt_agents::executor::Kit;
use sederunt_agents::model::{self, Delta, DeltaSink, Model, ModelReply, Request, StopReason, Usage};
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::talk::{Conversations, Progress, Settings};
use sederunt_core::engine::{Append, Engine, Post, PostFate};
use sederunt_core::event::{EventType, NewEvent};
use sederunt_core::ids::{CredentialId, SessionId, UserId};
use sederunt_core::json::Json;
use sederunt_core::memory::candidate::Buffer;
use sederunt_core::memory::{
    Category, Fact, Memory, MemoryBody, MemoryKind, MemorySource, Owner, SELF, derived_id,
};
use sederunt_core::session::SessionType;
use sederunt_core::session::decide::{self, OpenSession};
use sederunt_core::store::{Change, ChangePart, Guard, MemoryQuery, PartTarget, Record, Write};
use sederunt_core::talk::turn::{TurnHost, TurnOutcome, TurnOutcomeKind};
use sederunt_core::talk::{Sitting, StateFields, Talk, TurnRecords};
use serde_json::json;
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::payload::{Payloads, title};
use crate::peer::Peer;
use crate::report::Row;
use crate::rounds::{Latencies, Sample, interleave};
use crate::subject::{self, Embedded, Subject};

/// Sessions that talk at once.
const AT_ONCE: usize = 32;
/// Facts of the owner whose memory is searched.
const FACTS: usize = 10_000;
const OPEN_SITTINGS: usize = 100_000;
const EXPIRED: usize = 100;

/// The persistence part of a turn, by the length of the conversation before it.
pub fn turns(bench: &Bench) -> Result<Vec<Row>> {
    let file = bench.dir.join("langgraph.sqlite3");
    let peer = std::cell::RefCell::new(Peer::start(&bench.root, "checkpoints.py", &file)?);
    let seconds = if bench.quick { 0.5 } else { 2.0 };
    let mut rows = Vec::new();
    for (history, sessions, bar) in [(10, AT_ONCE, 2.0), (500, AT_ONCE, 8.0), (10, 1, 0.6), (500, 1, 1.5)] {
        let subject = Subject::on_disk(bench)?;
        subject.with_engine(async |engine| fill(engine, sessions, history).await)?;
        let [theirs, ours] = interleave(
            bench.rounds,
            [&mut || peer.borrow_mut().round(&format!("{seconds} {sessions} {history}")), &mut || {
                subject.with_engine(async |engine| kept(engine, sessions, seconds).await)
            }],
        )?;
        let who =
            if sessions == 1 { "one session".to_owned() } else { format!("{sessions} sessions at once") };
        let measure = format!("keeping a turn after {history} messages, {who} / LangGraph SqliteSaver");
        rows.push(Row::at_least(measure, ours.per_s, theirs.per_s, "turns", bar));
    }
    Ok(rows)
}

fn name(n: usize) -> String {
    format!("talk-{n}")
}

async fn fill(engine: &Embedded, sessions: usize, history: usize) -> Result<()> {
    let (owner, payloads) = (Arc::new(subject::owner()), Payloads::new());
    for n in 0..sessions {
        let wish = OpenSession {
            id: Some(name(n)),
            session_type: Some(SessionType::Mixed),
            ..OpenSession::default()
        };
        let id = engine.open(&owner, wish, None).await?.session.id;
        let events = (0..history as u64).map(|nth| subject::draft(&payloads, nth)).collect();
        engine.append(&owner, &id, Append { events, ..Append::default() }, None).await?;
    }
    Ok(())
}

fn hold() -> TurnHost {
    TurnHost {
        worker: "bench".into(),
        credential: CredentialId::stored("bench"),
        lease: Duration::from_secs(30),
    }
}

fn post(text: &str) -> Result<Post> {
    Ok(Post::of(Json::of(&json!([{"type": "text", "text": text}]))?))
}

/// The outcome of a turn with this answer.
fn outcome(text: &str) -> Result<TurnOutcome> {
    let content = Json::of(&json!([{"type": "text", "text": text}]))?;
    let message =
        NewEvent { content: Some(content), ..NewEvent::engine(EventType::known("agent.message"), None) };
    Ok(TurnOutcome {
        kind: TurnOutcomeKind::Answered,
        events: vec![message],
        change: StateFields::default()
            .with("route", "talk".into())
            .with("diagnostics", json!({"recalled": 0})),
        buffer: Buffer::default(),
        crisis: 0,
        records: TurnRecords::default(),
        usage: None,
    })
}

/// Turns without a model: the state is read, the message is stored, the reply is stored.
async fn kept(engine: &Engine, sessions: usize, seconds: f64) -> Result<Sample> {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for n in 0..sessions {
        let engine = engine.clone();
        tasks.spawn(async move {
            let (owner, hold, id) = (Arc::new(subject::owner()), hold(), SessionId::parse(&name(n))?);
            let text = words();
            let mut done = 0;
            while Instant::now() < until {
                let posted = engine.post(&owner, &id, post(&text)?, &hold, None).await?;
                let PostFate::Started(begun) = posted.fate else { anyhow::bail!("a turn did not start") };
                engine.finish_turn(&begun, outcome(&text)?).await?;
                done += 1;
            }
            anyhow::Ok(done)
        });
    }
    let mut done = 0;
    while let Some(more) = tasks.join_next().await {
        done += more??;
    }
    Ok(Sample::rate(done, start.elapsed()))
}

fn words() -> String {
    "the quick brown fox jumps over the lazy dog ".repeat(7)[..300].to_owned()
}

/// A model that says one word and notes when.
#[derive(Debug, Default)]
struct Ticking(parking_lot::Mutex<Option<Instant>>);

impl Model for Ticking {
    fn run<'a>(
        &'a self,
        _: &'a Request,
        heard: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, model::Error>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            *self.0.lock() = Some(Instant::now());
            heard(Delta::Text("tick".to_owned()));
            tokio::time::sleep(Duration::from_millis(2)).await;
            let usage = Usage::default();
            Ok(ModelReply {
                text: "tick".to_owned(),
                thinking: String::new(),
                calls: Vec::new(),
                bad_calls: Vec::new(),
                usage,
                stop: StopReason::End,
            })
        })
    }
}

/// Whole turns with the built-in model, reported; and how soon a word is forwarded.
pub fn whole_turns(bench: &Bench) -> Result<Vec<Row>> {
    let subject = Subject::on_disk(bench)?;
    let count = bench.some(2_000);
    let whole = subject.with_engine(async |engine| {
        fill(engine, AT_ONCE, 2).await?;
        let kit = Kit::plain(Outbound::new(Allow::default())?);
        let conversations = Conversations::new(engine.engine.clone(), Arc::new(kit), Settings::default());
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for n in 0..AT_ONCE {
            let conversations = conversations.clone();
            tasks.spawn(async move {
                let (owner, id) = (Arc::new(subject::owner()), SessionId::parse(&name(n))?);
                for nth in 0..count / AT_ONCE as u64 {
                    let text = format!("I thought about my garden again, and about {nth} other things");
                    let taken = conversations.post(&owner, &id, post(&text)?, None).await?;
                    conversations.reply_to(&owner, taken).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(Sample::rate(count / AT_ONCE as u64 * AT_ONCE as u64, start.elapsed()))
    })?;
    let heard = subject.with_engine(async |engine| {
        let ticking = Arc::new(Ticking::default());
        let mut kit = Kit::plain(Outbound::new(Allow::default())?);
        kit.named.insert("scripted:ticking".to_owned(), ticking.clone());
        kit.default_model = "scripted:ticking".to_owned();
        let conversations = Conversations::new(engine.engine.clone(), Arc::new(kit), Settings::default());
        let (owner, id) = (Arc::new(subject::owner()), SessionId::parse(&name(0))?);
        let mut times = Latencies::default();
        for _ in 0..bench.some(200) {
            let mut taken = conversations.post(&owner, &id, post("and then?")?, None).await?;
            while let Some(progress) = taken.progress.recv().await {
                if matches!(progress, Progress::Chunk(_)) {
                    times.add(ticking.0.lock().context("nothing was said")?.elapsed());
                }
            }
            conversations.reply_to(&owner, taken).await?;
        }
        Ok(times)
    });
    let mut heard = heard?;
    Ok(vec![
        Row::alone("whole turns of eliza, 32 sessions at once", whole.per_s, "turns"),
        Row::at_most("a word of the model to its listener, p50", heard.at(0.5), 0.0, "ms", 5.0),
    ])
}

/// Recall over the facts of one owner, and a sweep over open sittings.
pub fn recall(bench: &Bench) -> Result<Vec<Row>> {
    let (facts, sittings) = (bench.some(FACTS as u64) as usize, bench.some(OPEN_SITTINGS as u64) as usize);
    let mut rows = Vec::new();
    for (store, subject) in
        [("SQLite", Subject::on_disk(bench)?), ("PostgreSQL", Subject::on_postgres(bench)?)]
    {
        subject.with_engine(async |engine| remember(engine, facts).await)?;
        subject.settle()?;
        let mut times = subject.with_engine(async |engine| ask(engine, facts).await)?;
        let measure = format!("{store}: recall over {facts} facts, p50");
        rows.push(Row::at_most(measure, times.at(0.5), 0.0, "ms", 5.0));
    }
    let subject = Subject::on_disk(bench)?;
    let took = subject.with_engine(async |engine| sweep(engine, sittings).await)?;
    let measure = format!("finding {EXPIRED} expired among {sittings} open sittings");
    rows.push(Row::at_most(measure, took, 0.0, "ms", 200.0));
    Ok(rows)
}

fn asked_about() -> Owner {
    Owner::user(&UserId::stored("bench"))
}

async fn remember(engine: &Embedded, facts: usize) -> Result<()> {
    let (tenant, now) = (subject::owner().tenant, engine.now().await?);
    for first in (0..facts).step_by(200) {
        let mut change = Change::new(tenant.clone());
        for n in first..(first + 200).min(facts) {
            let object = title(n);
            let fact = Fact {
                subject: SELF.to_owned(),
                predicate: "likes".to_owned(),
                object,
                quote: format!("I like number {n}"),
                category: Category::Preference,
                confidence: 0.9,
                sources: vec![MemorySource { session: "s".to_owned(), sequences: vec![n as u64 + 1] }],
                support: 0,
                superseded_by: None,
            };
            let memory = Memory {
                id: derived_id(&["bench", &n.to_string()]),
                owner: asked_about(),
                body: MemoryBody::Fact(fact),
                created_at: now,
                last_referenced_at: now,
                dormant_at: None,
            };
            change = change.record(Record::PutMemory(Box::new(memory)));
        }
        engine.store.commit(change).await.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
    }
    Ok(())
}

async fn ask(engine: &Embedded, facts: usize) -> Result<Latencies> {
    let tenant = subject::owner().tenant;
    let mut times = Latencies::default();
    for n in 0..200 {
        let text = title(n * 31 % facts);
        let words = sederunt_core::memory::words::set(&text).into_iter().collect();
        let query = MemoryQuery {
            owner: asked_about(),
            kind: Some(MemoryKind::Fact),
            words,
            since: None,
            dormant: false,
            after: None,
            limit: 20,
        };
        let start = Instant::now();
        let found = engine.store.memories(&tenant, query).await?;
        times.add(start.elapsed());
        ensure!(!found.items.is_empty(), "nothing was recalled of {text:?}");
    }
    Ok(times)
}

async fn sweep(engine: &Embedded, sittings: usize) -> Result<f64> {
    open_sittings(engine, 0..EXPIRED).await?;
    let then = engine.now().await?;
    open_sittings(engine, EXPIRED..sittings).await?;
    let mut times = Latencies::default();
    for _ in 0..20 {
        let start = Instant::now();
        let due = engine.store.silent_sittings(then, 1_000).await?;
        times.add(start.elapsed());
        ensure!(due.len() == EXPIRED, "{} of {EXPIRED} were found", due.len());
    }
    Ok(times.at(0.5))
}

/// Sessions with an open sitting each, a hundred to a change.
async fn open_sittings(engine: &Embedded, numbers: std::ops::Range<usize>) -> Result<()> {
    let owner = subject::owner();
    let all: Vec<usize> = numbers.collect();
    for some in all.chunks(100) {
        let mut change = Change::new(owner.tenant.clone());
        for &n in some {
            let wish = subject::talk(n);
            let id = SessionId::parse_new(&subject::name(n))?;
            let new = decide::open(&owner, id.clone(), wish, &sederunt_core::ids::RandomIds)?;
            let events = vec![decide::created_event(&new)?];
            let sitting = Sitting {
                number: 1,
                opened_at: None,
                active_at: None,
                first: None,
                turns: 1,
                owner: Owner::session(&id),
                user: None,
                opened_by: None,
                crisis_max: 0,
                crisis_turns: Vec::new(),
                rated: false,
                buffer: Buffer::default(),
            };
            let talk = Talk { sitting: Some(sitting), sittings: 1, ..Talk::default() };
            change = change.part(ChangePart {
                on: PartTarget::New(Box::new(new)),
                guard: Guard::default(),
                writes: [Write::Append(events), Write::Talk(Box::new(talk))].into_iter().collect(),
            });
        }
        engine.store.commit(change).await.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
    }
    Ok(())
}

/// One turn without a model, for counting instructions.
pub async fn turn(engine: &Engine, id: &SessionId) -> Result<()> {
    let text = words();
    let posted = engine.post(&Arc::new(subject::owner()), id, post(&text)?, &hold(), None).await?;
    let PostFate::Started(begun) = posted.fate else { anyhow::bail!("a turn did not start") };
    engine.finish_turn(&begun, outcome(&text)?).await?;
    Ok(())
}
