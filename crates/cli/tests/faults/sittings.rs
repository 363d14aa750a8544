//! `kill -9` in every stage of a turn and of the end of a sitting, at moments chosen by a seed: before the model is
//! asked, while it is silent, when half a reply is out, around the commit that keeps the reply; while the summary is
//! made, around the commit that ends the sitting, and before what it leaves has reached the files of its own. Nothing
//! that was acknowledged is lost, and nothing is kept twice.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::harness::{Client, Node, PATIENCE, Place, eventually, goes_on, sederunt, within};
use crate::stand_in::{drawn, hung_up, request};

const ROUNDS_MIN: usize = 2 * STAGES.len();
/// What is left to chance around a commit: enough for the commit to fall before, into and behind it.
const PAUSE_MS_MAX: u64 = 24;
/// Said twice, so that it is worth keeping.
const HOME: &str = "I live in Graz.";
const DANGER: &str = "I want to kill myself.";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_in_any_stage_loses_nothing_and_keeps_nothing_twice_on_sqlite() {
    killed_in_every_stage(Place::sqlite(), 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_in_any_stage_loses_nothing_and_keeps_nothing_twice_on_postgres() {
    killed_in_every_stage(Place::postgres().await, 4).await;
}

/// Where a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A message was acknowledged.
    Posted,
    /// One that leaves a record of a crisis was.
    Endangered,
    /// The model was asked, and is silent.
    Asked,
    /// Half a reply is out, and no more comes.
    Half,
    /// The model has answered.
    Answered,
    /// The summary is asked for, and does not come.
    Summing,
    /// The summary was given.
    Summed,
}

const STAGES: [Stage; 7] = [
    Stage::Posted,
    Stage::Summing,
    Stage::Half,
    Stage::Summed,
    Stage::Asked,
    Stage::Endangered,
    Stage::Answered,
];

impl Stage {
    /// The edge of a commit, where the moment of the kill is left to chance.
    fn is_edge(self) -> bool {
        matches!(self, Self::Posted | Self::Endangered | Self::Answered | Self::Summed)
    }
}

/// A conversation, and what was promised of it.
struct Thread {
    id: String,
    user: String,
    /// Messages that were acknowledged.
    said: Vec<&'static str>,
    /// Answers that were.
    answered: usize,
    /// Its end was.
    ended: bool,
}

async fn killed_in_every_stage(place: Place, mut seed: u64) {
    println!("the seed is {seed}");
    let model = Model::start().await;
    let mut threads = Vec::new();
    let (start, mut round) = (Instant::now(), 0);
    while round < ROUNDS_MIN || goes_on(start) {
        let stage = STAGES[round % STAGES.len()];
        let node = model.serve(&place).await;
        let mut thread = Thread {
            id: format!("cli:sitting-{round}"),
            user: format!("user-{round}"),
            said: Vec::new(),
            answered: 0,
            ended: false,
        };
        let pause = Duration::from_millis(drawn(&mut seed) % PAUSE_MS_MAX);
        thread.is_cut_off_in(stage, pause, node, &model).await;
        threads.push(thread);
        round += 1;
    }
    let node = model.serve(&place).await;
    for thread in &threads {
        thread.is_whole(&node.client()).await;
    }
}

impl Thread {
    /// Talks until this stage is reached, and is killed there.
    async fn is_cut_off_in(&mut self, stage: Stage, pause: Duration, node: Node, model: &Model) {
        let client = node.client();
        model.holds_at(None);
        self.chat(&client, HOME).await;
        let calm = matches!(stage, Stage::Endangered | Stage::Summing | Stage::Summed);
        if calm {
            self.chat(&client, HOME).await;
        }
        model.holds_at(Some(stage));
        let asked = match stage {
            Stage::Posted | Stage::Endangered => {
                let text = if calm { DANGER } else { HOME };
                let path = format!("/api/sessions/{}/messages", self.id);
                client.post(&path, json!({"text": text})).await.expect(202);
                self.said.push(text);
                None
            }
            Stage::Asked | Stage::Half | Stage::Answered => {
                Some(("/api/chat".to_owned(), self.message(HOME)))
            }
            Stage::Summing | Stage::Summed => Some((self.end_path(), json!({"feedback": "positive"}))),
        };
        let asked = asked.map(|(path, body)| {
            tokio::spawn(async move { client.send("POST", &path, Some(&body), None).await })
        });
        if asked.is_some() {
            model.reached(stage).await;
        }
        if stage.is_edge() {
            tokio::time::sleep(pause).await;
        }
        node.kill_9();
        let Some(asked) = asked else { return };
        // The model was asked, so the message was kept, whoever heard of it.
        if !calm {
            self.said.push(HOME);
        }
        if let Ok(answer) = asked.await.unwrap() {
            let done = answer.expect(200);
            self.answered += usize::from(!calm);
            self.ended = calm;
            assert!(!calm || done["finalized"] == true, "{done}");
        }
    }

    fn message(&self, text: &str) -> Value {
        json!({"thread_id": self.id, "user_id": self.user, "message": text})
    }

    fn end_path(&self) -> String {
        format!("/api/threads/{}/end", self.id)
    }

    async fn chat(&mut self, client: &Client, text: &'static str) {
        client.post("/api/chat", self.message(text)).await.expect(200);
        self.said.push(text);
        self.answered += 1;
    }

    /// Ends the sitting once more and looks at everything that is left of it.
    async fn is_whole(&self, client: &Client) {
        let id = &self.id;
        let ended = client.post(&self.end_path(), json!({"feedback": "positive"})).await.expect(200);
        assert!(!(self.ended && ended["finalized"] == true), "{id} was ended twice");
        let events = eventually("every turn is closed", PATIENCE, async || {
            let page = client.get(&format!("/api/sessions/{id}/events?limit=1000")).await.expect(200);
            let events = page["events"].as_array().unwrap().clone();
            (of(&events, "session.turn").len() >= of(&events, "user.message").len()).then_some(events)
        })
        .await;
        let messages = of(&events, "user.message");
        let texts: Vec<&str> = messages.iter().map(|event| text(event)).collect();
        assert_eq!(texts, self.said, "what was said in {id}");
        let (mut answered, mut crises) = (0, 0);
        for message in &messages {
            let belongs = |event: &&&Value| event["turn"] == message["sequence"];
            let closed: Vec<_> = of(&events, "session.turn")
                .into_iter()
                .filter(|event| event["metadata"]["turn"] == message["sequence"])
                .collect();
            assert_eq!(closed.len(), 1, "{id}: {message} was closed so often: {closed:?}");
            let is_answered = closed[0]["metadata"]["outcome"] == "answered";
            let replies = of(&events, "agent.message").iter().filter(belongs).count();
            assert_eq!(replies, usize::from(is_answered), "{id}: replies to {message}");
            answered += usize::from(is_answered);
            crises += u64::from(is_answered && text(message) == DANGER);
        }
        assert!(answered >= self.answered, "{id} has lost an answer");
        for kind in ["session.sitting_started", "session.sitting_ended"] {
            assert_eq!(of(&events, kind).len(), 1, "{id}: {kind}");
        }
        let replay = client.get(&format!("/api/sessions/{id}/replay")).await.expect(200);
        assert_eq!(replay["matches"], true, "{id}: {replay}");
        self.is_remembered_once(client, crises).await;
    }

    async fn is_remembered_once(&self, client: &Client, crises: u64) {
        let (id, user) = (&self.id, &self.user);
        let whose = format!("thread_id={id}&user_id={user}");
        let status = client.get(&format!("/api/memory/status?{whose}")).await.expect(200);
        let counts =
            ["facts", "arcs", "session_feedback_count", "crisis_log_count"].map(|name| &status[name]);
        assert_eq!(counts, [&json!(1), &json!(1), &json!(1), &json!(crises)], "{id}: {status}");
        let facts = client.get(&format!("/api/memory/facts?{whose}")).await.expect(200);
        let fact = &facts["items"][0];
        assert_eq!((&fact["object"], &fact["support"]), (&json!("Graz"), &json!(2)), "{id}: {fact}");
    }
}

fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

fn text(event: &Value) -> &str {
    event["content"][0]["text"].as_str().unwrap()
}

/// A model that answers, or stops at a stage. It speaks as OpenAI's does.
struct Model {
    directory: TempDir,
    holds_at: Arc<Mutex<Option<Stage>>>,
    reached: tokio::sync::Mutex<mpsc::UnboundedReceiver<Stage>>,
}

impl Model {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let directory = TempDir::with_prefix("sederunt-faults-").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        std::fs::write(directory.path().join("key"), "none").unwrap();
        let file = format!("[openai]\nbase_url = \"{url}\"\nkey_file = \"key\"\n");
        std::fs::write(directory.path().join("agents.toml"), file).unwrap();
        let holds_at = Arc::new(Mutex::new(None));
        let (tell, reached) = mpsc::unbounded_channel();
        let at = holds_at.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (at, tell) = (at.clone(), tell.clone());
                tokio::spawn(async move { answer(stream, &at, &tell).await });
            }
        });
        Self { directory, holds_at, reached: tokio::sync::Mutex::new(reached) }
    }

    /// A server that talks by this model, and whose dead turns are soon free.
    async fn serve(&self, place: &Place) -> Node {
        self.holds_at(None);
        let mut command = sederunt();
        command
            .env("SEDERUNT_AGENTS_FILE", self.directory.path().join("agents.toml"))
            .env("SEDERUNT_MODEL", "openai:stand-in")
            .env("SEDERUNT_TALK_EXTRACT_BY_MODEL", "false")
            .env("SEDERUNT_TALK_LEASE", "500ms")
            .env("SEDERUNT_TALK_SWEEP_EVERY", "100ms");
        Node::launch(command, place, "local").listening().await.unwrap()
    }

    /// Stops at this stage from now on; what was reached before is forgotten.
    fn holds_at(&self, stage: Option<Stage>) {
        if let Ok(mut reached) = self.reached.try_lock() {
            while reached.try_recv().is_ok() {}
        }
        *self.holds_at.lock().unwrap() = stage;
    }

    async fn reached(&self, stage: Stage) {
        let mut reached = self.reached.lock().await;
        within("the stage", PATIENCE, async { while reached.recv().await.unwrap() != stage {} }).await;
    }
}

/// Answers one request, as far as the stage lets it.
async fn answer(
    mut stream: TcpStream,
    holds_at: &Mutex<Option<Stage>>,
    tell: &mpsc::UnboundedSender<Stage>,
) -> Option<()> {
    let sums_up = request(&mut stream).await?.contains("summarise the conversation");
    let stage = *holds_at.lock().unwrap();
    let words = match sums_up {
        true => json!({"summary": "They talked about Graz.", "themes": ["Graz"]}).to_string(),
        false => "Graz is a fine town to live in.".to_owned(),
    };
    let silent = if sums_up { Stage::Summing } else { Stage::Asked };
    if stage == Some(silent) {
        let _ = tell.send(silent);
        hung_up(&mut stream).await;
        return None;
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.ok()?;
    let (first, second) = words.split_at(words.len() / 2);
    stream.write_all(frame(json!({"content": first}), None).as_bytes()).await.ok()?;
    if stage == Some(Stage::Half) {
        let _ = tell.send(Stage::Half);
        hung_up(&mut stream).await;
        return None;
    }
    let end = [
        frame(json!({"content": second}), None),
        frame(json!({}), Some("stop")),
        "data: [DONE]\n\n".to_owned(),
    ];
    stream.write_all(end.concat().as_bytes()).await.ok()?;
    let _ = tell.send(if sums_up { Stage::Summed } else { Stage::Answered });
    Some(())
}

fn frame(delta: Value, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    format!("data: {}\n\n", json!({"choices": [choice]}))
}
