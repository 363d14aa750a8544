//! Lessons: how soon one is found among many, the cost of closing silent feedback, and what the standard streams add
//! to a call.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use sederunt_agents::executor::Kit;
use sederunt_agents::lesson_writer::LessonWriter;
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_core::engine::{Engine, LessonSearch};
use sederunt_core::feedback::capture::Signal;
use sederunt_core::feedback::session::{FeedbackSession, FeedbackState, SessionBody};
use sederunt_core::lesson::{EffectCounts, Lesson, LessonBody, LessonCategory, LessonState, Polarity, id_of};
use sederunt_core::store::{Change, Record};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::child;
use crate::load::single_threaded;
use crate::payload::title;
use crate::report::Row;
use crate::rounds::Latencies;
use crate::subject::{self, Embedded, Node, Subject};

const LESSONS: usize = 10_000;
const SILENT: usize = 1_000;
const ASKED: usize = 200;
/// Rows that one change inserts.
const FILLED: usize = 200;

/// Searching and retrieving among many lessons, and one sweep over silent feedback, on both stores.
pub fn found(bench: &Bench) -> Result<Vec<Row>> {
    let (lessons, silent) = (bench.some(LESSONS as u64) as usize, bench.some(SILENT as u64) as usize);
    let mut rows = Vec::new();
    for (store, subject) in
        [("SQLite", Subject::on_disk(bench)?), ("PostgreSQL", Subject::on_postgres(bench)?)]
    {
        subject.with_engine(async |engine| teach(engine, lessons).await)?;
        subject.settle()?;
        let (mut searched, mut retrieved) = subject.with_engine(async |engine| ask(engine, lessons).await)?;
        let measure = |what: &str| format!("{store}: {what} over {lessons} lessons, p50");
        rows.push(Row::at_most(measure("a search"), searched.at(0.5), 0.0, "ms", 5.0));
        rows.push(Row::at_most(measure("a retrieval, counted"), retrieved.at(0.5), 0.0, "ms", 5.0));
        let took = subject.with_engine(async |engine| sweep(engine, silent).await)?;
        let measure = format!("{store}: finalizing silent feedback, {silent} in one sweep");
        rows.push(Row::alone(measure, silent as f64 / took, "sessions"));
    }
    Ok(rows)
}

/// A tool call over the standard streams beside the same call over HTTP.
pub fn piped(bench: &Bench) -> Result<Vec<Row>> {
    let subject = Subject::on_disk(bench)?;
    let lessons = bench.some(1_000) as usize;
    subject.with_engine(async |engine| teach(engine, lessons).await)?;
    let node = subject.serve()?;
    let key = subject.key_file()?;
    let mut pipe = Pipe::start(&node, key.path())?;
    let (mut by_pipe, mut by_http) = (Latencies::default(), Latencies::default());
    let direct = single_threaded()?;
    let mut connection = direct.block_on(node.target.connect())?;
    for n in 0..ASKED + 20 {
        let words = title(n * 31 % lessons);
        let start = Instant::now();
        let done = pipe.call("search_lessons", &json!({"query": words, "limit": 5}))?;
        let over_pipe = start.elapsed();
        ensure!(done["isError"] != true && done["structuredContent"].is_object(), "{done}");
        let mut request = Vec::new();
        let words: String = words.split(' ').collect::<Vec<_>>().join("%20");
        node.target.get(&format!("/api/lessons?q={words}&limit=5"), &mut request);
        let start = Instant::now();
        direct.block_on(async { connection.ask(&request).await?.json::<Value>(200) })?;
        // The first calls warm up both sides.
        if n >= 20 {
            by_pipe.add(over_pipe);
            by_http.add(start.elapsed());
        }
    }
    pipe.end()?;
    let added = by_pipe.at(0.5) - by_http.at(0.5);
    Ok(vec![
        Row::at_most("an MCP tool call over stdio, beyond the same HTTP call, p50", added, 0.0, "ms", 2.0),
        Row::alone("an MCP tool call over stdio, one at a time", 1_000.0 / by_pipe.at(0.5), "calls"),
    ])
}

fn lesson(n: usize, now: sederunt_core::Timestamp) -> Lesson {
    let text = format!("Do not forget {}", title(n));
    Lesson {
        id: id_of(&subject::owner().tenant, Polarity::Negative, None, &format!("{n} {text}")),
        polarity: Polarity::Negative,
        state: LessonState::Active,
        occurrences: 1 + n as u64 % 4,
        created_at: now,
        updated_at: now,
        version: 0,
        effect: EffectCounts::default(),
        body: LessonBody {
            text,
            category: LessonCategory::Error,
            trigger: None,
            action: None,
            tags: vec![format!("tag{}", n % 50)],
            agent: None,
            grounds: Vec::new(),
            sources: Vec::new(),
            accepted: None,
            edited: None,
            retired: None,
        },
    }
}

async fn teach(engine: &Embedded, lessons: usize) -> Result<()> {
    let now = engine.now().await?;
    fill(engine, lessons, |n| Record::PutLesson { lesson: Box::new(lesson(n, now)), expects: None }).await
}

async fn fill(engine: &Embedded, count: usize, record: impl Fn(usize) -> Record) -> Result<()> {
    for first in (0..count).step_by(FILLED) {
        let mut change = Change::new(subject::owner().tenant);
        for n in first..(first + FILLED).min(count) {
            change = change.record(record(n));
        }
        engine.store.commit(change).await.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
    }
    Ok(())
}

async fn ask(engine: &Engine, lessons: usize) -> Result<(Latencies, Latencies)> {
    let owner = subject::owner();
    let (mut searched, mut retrieved) = (Latencies::default(), Latencies::default());
    for n in 0..ASKED {
        let about = title(n * 31 % lessons);
        let search = LessonSearch { query: Some(about.clone()), limit: 10, ..LessonSearch::default() };
        let start = Instant::now();
        let found = engine.search_lessons(&owner, search).await?;
        searched.add(start.elapsed());
        ensure!(!found.items.is_empty(), "nothing was found about {about:?}");
        let start = Instant::now();
        let found = engine.retrieve_lessons(&owner, &about, 5).await?;
        retrieved.add(start.elapsed());
        ensure!(!found.is_empty(), "nothing was retrieved about {about:?}");
    }
    Ok((searched, retrieved))
}

/// Seconds that one sweep takes to close silent feedback.
async fn sweep(engine: &Embedded, silent: usize) -> Result<f64> {
    let owner = subject::owner();
    let now = engine.now().await?;
    let words = |n: usize| format!("You forgot {}", title(n));
    let thumb = |n: usize| {
        let wish = sederunt_core::feedback::capture::Capture {
            signal: Some(Signal::Down),
            words: sederunt_core::feedback::capture::FeedbackText {
                context: Some(words(n)),
                ..Default::default()
            },
            ..Default::default()
        };
        let (signal, judged) = sederunt_core::feedback::capture::judge(&owner, wish, None)?;
        let sederunt_core::feedback::capture::CaptureJudgement::Accepted(body) = judged else {
            anyhow::bail!("a vague thumb")
        };
        let (id, author) = (format!("fb_{n}"), None);
        Ok(sederunt_core::feedback::capture::FeedbackEvent {
            id,
            at: now,
            signal,
            author,
            session: None,
            body: *body,
        })
    };
    let thumbs = (0..silent).map(thumb).collect::<Result<Vec<_>>>()?;
    fill(engine, silent, |n| Record::AddFeedback(Box::new(thumbs[n].clone()))).await?;
    let session = |n: usize| FeedbackSession {
        id: format!("fbs_{n}"),
        event: format!("fb_{n}"),
        signal: Signal::Down,
        state: FeedbackState::Open,
        opened_at: now,
        expires_at: now,
        author: None,
        version: 0,
        body: SessionBody { initial_context: Some(words(n)), ..SessionBody::default() },
    };
    fill(engine, silent, |n| Record::PutFeedbackSession { session: Box::new(session(n)), expects: None })
        .await?;
    let outbound = Outbound::new(Allow::default()).context("no outbound client")?;
    let lesson_writer = LessonWriter::new(engine.engine.clone(), std::sync::Arc::new(Kit::plain(outbound)));
    let start = Instant::now();
    let taught = lesson_writer.finalize_silent().await?;
    ensure!(taught.finalized == silent, "{} of {silent} were finalized", taught.finalized);
    Ok(start.elapsed().as_secs_f64())
}

/// An MCP client that writes lines and reads lines.
struct Pipe {
    child: Child,
    asks: ChildStdin,
    hears: BufReader<ChildStdout>,
    calls: u64,
}

impl Pipe {
    fn start(node: &Node, key: &std::path::Path) -> Result<Self> {
        let mut command = child::command(subject::server_program()?);
        command.args(["mcp", "--server", &format!("http://{}", node.listening.addr), "--key-file"]).arg(key);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("`sederunt mcp` did not start")?;
        let asks = child.stdin.take().context("no stdin")?;
        let hears = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut pipe = Self { child, asks, hears, calls: 0 };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "bench", "version": "0"}
        });
        pipe.ask("initialize", &hello)?;
        writeln!(pipe.asks, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(pipe)
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.calls += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.calls, "method": method, "params": params});
        let mut line = request.to_string();
        line.push('\n');
        self.asks.write_all(line.as_bytes())?;
        self.asks.flush()?;
        let mut answer = String::new();
        loop {
            answer.clear();
            ensure!(self.hears.read_line(&mut answer)? > 0, "the pipe has ended");
            let mut answer: Value = serde_json::from_str(&answer)?;
            if answer["id"] == self.calls {
                ensure!(answer["error"].is_null(), "{answer}");
                return Ok(answer["result"].take());
            }
        }
    }

    /// Closes its input, upon which it ends.
    fn end(self) -> Result<()> {
        let Self { mut child, asks, .. } = self;
        drop(asks);
        let start = Instant::now();
        while child.try_wait()?.is_none() {
            if start.elapsed() > Duration::from_secs(10) {
                child.kill()?;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}
