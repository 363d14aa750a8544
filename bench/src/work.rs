//! Work: how soon a waiting worker gets what was triggered or decided, and how many sessions the built-in workers
//! complete.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rand::RngExt as _;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::load::{Connection, Drive, Target, drive, single_threaded};
use crate::raw;
use crate::report::Row;
use crate::rounds::{Latencies, Sample, interleave};
use crate::subject::{Node, Subject};

/// Workers of one node, and of the baseline.
const WORKERS: usize = 8;
const SESSIONS: u64 = 10_000;
const CLAIM_WITHIN: Duration = Duration::from_secs(20);
const ALL_DONE_WITHIN: Duration = Duration::from_secs(60);
/// The text of every session, about as long as the events of the other measures.
const WORDS: &str = "The report of the morning is written: nine letters came in, four of them were answered at \
    once, three went to the people who know more, and two wait for a word from the harbour office. Nothing was lost, \
    nothing was sent twice, and whoever asks will find each of them where it belongs, with the hour of its answer.";

/// What a worker waits for.
#[derive(Clone, Copy)]
enum News {
    Trigger,
    Decision,
}

/// How soon a waiting worker gets new work.
pub fn handed_over(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut row = |news: News, store: &str, mut times: Latencies, bar: f64| {
        let what = match news {
            News::Trigger => "trigger to a waiting worker",
            News::Decision => "decision to a resumed worker",
        };
        eprintln!("  p50 {:.1} ms, p99 {:.1} ms", times.at(0.5), times.at(0.99));
        // Two commits lie in between: the trigger or decision, and the claim.
        let disk = 2.0 * bench.disk.p50_ms;
        rows.push(Row::at_most(format!("{what}, {store}, p50"), times.at(0.5), disk, "ms", bar));
    };
    let subject = Subject::on_disk(bench)?;
    let node = subject.serve()?;
    define(&node.target, Some("external"))?;
    for (news, bar) in [(News::Trigger, 5.0), (News::Decision, 30.0)] {
        row(news, "SQLite", wait_for(news, &node.target, &node.target, bench.some(300))?, bar);
    }
    drop(node);
    let subject = Subject::on_postgres(bench)?;
    let (here, there) = (subject.serve()?, subject.serve()?);
    define(&here.target, Some("external"))?;
    for news in [News::Trigger, News::Decision] {
        let times = wait_for(news, &here.target, &there.target, bench.some(200))?;
        row(news, "two nodes on PostgreSQL", times, 30.0);
    }
    Ok(rows)
}

/// An agent with this model, or the server's default, and a task for it.
fn define(target: &Target, model: Option<&str>) -> Result<()> {
    single_threaded()?.block_on(async {
        let mut caller = Caller::to(target).await?;
        let agent = json!({"slug": "scribe", "name": "Scribe", "instructions": "Report.", "model": model});
        caller.post("/api/agents", &agent, 201).await?;
        let task = json!({"slug": "report", "name": "Report", "agent_slug": "scribe"});
        caller.post("/api/tasks", &task, 201).await?;
        Ok(())
    })
}

/// Triggers something while a worker waits, repeatedly with uneven pauses, and times from the request to the moment
/// when the worker has its session.
fn wait_for(news: News, person: &Target, worker: &Target, count: u64) -> Result<Latencies> {
    single_threaded()?.block_on(async {
        let (mut person, mut worker) = (Caller::to(person).await?, Caller::to(worker).await?);
        let mut times = Latencies::default();
        for _ in 0..count {
            let (path, wish, status) = match news {
                News::Trigger => ("/api/tasks/report/trigger".to_owned(), json!({}), 201),
                News::Decision => {
                    let approval = pause(&mut person, &mut worker).await?;
                    (format!("/api/approvals/{approval}/decide"), json!({"decision": "approve"}), 200)
                }
            };
            let ask = async {
                let pause = rand::rng().random_range(5..30);
                tokio::time::sleep(Duration::from_millis(pause)).await;
                let sent = Instant::now();
                person.post(&path, &wish, status).await?;
                anyhow::Ok(sent)
            };
            let hear = async {
                let claim = claim(&mut worker).await?;
                anyhow::Ok((Instant::now(), claim))
            };
            let (sent, (heard, claim)) = tokio::try_join!(ask, hear)?;
            times.add(heard - sent);
            ensure!(
                claim["resume"].is_object() == matches!(news, News::Decision),
                "handed out otherwise: {claim}"
            );
            settle(&mut worker, &claim, "complete", json!({"text": "done"})).await?;
        }
        Ok(times)
    })
}

/// A run that waits for approval of a tool call; returns its approval.
async fn pause(person: &mut Caller, worker: &mut Caller) -> Result<String> {
    person.post("/api/tasks/report/trigger", &json!({}), 201).await?;
    let claim = claim(worker).await?;
    let call = json!({"id": "c1", "name": "send", "args": {"to": "the harbour office"}});
    settle(worker, &claim, "yield", json!({"kind": "tool", "tool_call": call})).await?;
    let session = claim["session"]["id"].as_str().context("a claim of nothing")?;
    let asked = person.get(&format!("/api/approvals?session_id={session}&state=pending")).await?;
    Ok(asked["items"][0]["id"].as_str().with_context(|| format!("nothing waits: {asked}"))?.to_owned())
}

async fn claim(worker: &mut Caller) -> Result<Value> {
    let order = json!({"worker": "bench", "wait_ms": CLAIM_WITHIN.as_millis() as u64});
    let mut answer = worker.post("/api/claims", &order, 200).await?;
    ensure!(answer["claims"][0].is_object(), "nothing was handed out");
    Ok(answer["claims"][0].take())
}

async fn settle(worker: &mut Caller, claim: &Value, verb: &str, mut how: Value) -> Result<()> {
    how["epoch"] = claim["epoch"].clone();
    let session = claim["session"]["id"].as_str().context("a claim of nothing")?;
    worker.post(&format!("/api/sessions/{session}/{verb}"), &how, 200).await?;
    Ok(())
}

/// Sessions of one step each, from the trigger to their end, beside the same written by hand.
pub fn runs(bench: &Bench) -> Result<Vec<Row>> {
    let count = bench.some(SESSIONS);
    let script = bench.dir.join("script.json");
    std::fs::write(&script, json!({"steps": [{"say": WORDS}]}).to_string())?;
    let model = format!("scripted:{}", script.to_str().context("the path is not UTF-8")?);
    let subjects = [Subject::on_postgres(bench)?, Subject::on_disk(bench)?];
    let nodes = [serve(&subjects[0], &model)?, serve(&subjects[1], &model)?];
    let by_hand = raw::work::Tables::prepare(bench.postgres()?)?;
    let [theirs, ours, sqlite] = interleave(
        bench.rounds,
        [&mut || by_hand.run(WORKERS, count, WORDS), &mut || run(&nodes[0], count), &mut || {
            run(&nodes[1], count)
        }],
    )?;
    let measure = format!("{count} scripted sessions of one step, {WORKERS} workers");
    let by_hand = "a transaction per step, by hand";
    Ok(vec![
        Row::at_least(
            format!("PostgreSQL: {measure} / {by_hand}"),
            ours.per_s,
            theirs.per_s,
            "sessions",
            1.5,
        ),
        Row::beside(
            format!("SQLite: {measure} / {by_hand} on PostgreSQL"),
            sqlite.per_s,
            theirs.per_s,
            "sessions",
            "–",
        ),
    ])
}

/// A node whose workers run the script.
fn serve(subject: &Subject, model: &str) -> Result<Node> {
    let node = subject.serve_with(&["--workers", &WORKERS.to_string(), "--model", model])?;
    define(&node.target, None)?;
    Ok(node)
}

/// Triggers `count` sessions over as many connections as there are workers, and waits until the last one is done.
fn run(node: &Node, count: u64) -> Result<Sample> {
    let before = done(node)?;
    let start = Instant::now();
    let target = node.target.clone();
    let how = Drive { connections: WORKERS, count, cap: ALL_DONE_WITHIN, expect: 201 };
    let triggered =
        drive(&node.target, how, move |_, out| target.post("/api/tasks/report/trigger", b"{}", out))?;
    ensure!(triggered.sample(1)?.per_s > 0.0, "nothing was triggered");
    single_threaded()?.block_on(async {
        let mut caller = Caller::to(&node.target).await?;
        while start.elapsed() < ALL_DONE_WITHIN {
            let live = caller.get("/api/sessions?group=live&limit=1").await?;
            if live["items"].as_array().is_some_and(Vec::is_empty) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        anyhow::bail!("the sessions did not come to their end")
    })?;
    let took = start.elapsed();
    let ended = done(node)? - before;
    ensure!(ended == count, "{ended} of {count} sessions were completed");
    Ok(Sample::rate(count, took))
}

/// Sessions that were completed so far, by the list of them.
fn done(node: &Node) -> Result<u64> {
    single_threaded()?.block_on(async {
        let mut caller = Caller::to(&node.target).await?;
        let (mut found, mut after) = (0, String::new());
        loop {
            let page = caller.get(&format!("/api/sessions?status=completed&limit=1000{after}")).await?;
            found += page["items"].as_array().map_or(0, Vec::len) as u64;
            match page["next_cursor"].as_str() {
                Some(cursor) => after = format!("&cursor={cursor}"),
                None => return Ok(found),
            }
        }
    })
}

/// A caller of one node, one request after the other.
pub struct Caller {
    target: Target,
    connection: Connection,
}

impl Caller {
    pub async fn to(target: &Target) -> Result<Self> {
        Ok(Self { target: target.clone(), connection: target.connect().await? })
    }

    pub async fn post(&mut self, path: &str, body: &Value, status: u16) -> Result<Value> {
        let mut request = Vec::new();
        self.target.post(path, body.to_string().as_bytes(), &mut request);
        self.connection.ask(&request).await?.json(status)
    }

    /// Posts a request whose answer has no body.
    pub async fn tell(&mut self, path: &str, body: &Value) -> Result<()> {
        let mut request = Vec::new();
        self.target.post(path, body.to_string().as_bytes(), &mut request);
        let answer = self.connection.ask(&request).await?;
        ensure!(answer.status == 204, "status {}: {}", answer.status, answer.text());
        Ok(())
    }

    async fn get(&mut self, path: &str) -> Result<Value> {
        let mut request = Vec::new();
        self.target.get(path, &mut request);
        self.connection.ask(&request).await?.json(200)
    }
}
