//! Conversations whose process is killed in the middle of a turn, and conversations that must leave nothing behind.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::harness::{Node, PATIENCE, Place, eventually, goes_on, sederunt, within};

/// A word that stands nowhere by chance.
const MARK: &str = "quagglefritz";
const ROUNDS_MIN: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_is_killed_is_closed_and_the_conversation_goes_on_on_sqlite() {
    a_killed_turn_is_closed(Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_is_killed_is_closed_and_the_conversation_goes_on_on_postgres() {
    a_killed_turn_is_closed(Place::postgres().await).await;
}

/// A model that takes requests and never answers, and the file that names it.
struct Silence {
    listener: TcpListener,
    directory: tempfile::TempDir,
}

impl Silence {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        std::fs::write(directory.path().join("key"), "none").unwrap();
        let file = format!("[openai]\nbase_url = \"{url}\"\nkey_file = \"key\"\n");
        std::fs::write(directory.path().join("agents.toml"), file).unwrap();
        Self { listener, directory }
    }

    fn command(&self) -> Command {
        let mut command = with_short_leases();
        command
            .env("SEDERUNT_AGENTS_FILE", self.directory.path().join("agents.toml"))
            .env("SEDERUNT_MODEL", "openai:silent");
        command
    }
}

fn with_short_leases() -> Command {
    let mut command = sederunt();
    command.env("SEDERUNT_TALK_LEASE", "500ms").env("SEDERUNT_TALK_SWEEP_EVERY", "100ms");
    command
}

async fn a_killed_turn_is_closed(place: Place) {
    let silence = Silence::new().await;
    let (start, mut round) = (Instant::now(), 0);
    while round < ROUNDS_MIN || goes_on(start) {
        let node = Node::launch(silence.command(), &place, "local").listening().await.unwrap();
        let client = node.client();
        client.open("cli:talk").await;
        // The turn of the first runs into the silence; the second waits for its own.
        for text in ["one", "two"] {
            let body = json!({"text": format!("{text} {round}")});
            assert_eq!(client.post("/api/sessions/cli:talk/messages", body).await.status, 202);
        }
        within("the model is asked", PATIENCE, silence.listener.accept()).await.unwrap();
        node.kill_9();

        let node = Node::launch(with_short_leases(), &place, "local").listening().await.unwrap();
        let client = node.client();
        let waits = eventually("what waited was answered", PATIENCE, async || {
            let status = client.get("/api/threads/cli:talk/session-status").await.expect(200);
            (status["waiting"] == 0 && status["status"] == "active").then_some(status)
        });
        waits.await;
        let answered = client.post("/api/chat", json!({"thread_id": "cli:talk", "message": "Hello"})).await;
        assert!(answered.clone().expect(200)["response_text"].is_string(), "{answered:?}");
        node.kill_9();
        round += 1;
    }
    let node = Node::start(&place).await;
    let log = node.client().get("/api/sessions/cli:talk/events?limit=1000").await.expect(200);
    let events = log["events"].as_array().unwrap();
    let outcomes: Vec<&str> = events
        .iter()
        .filter(|event| event["type"] == "session.turn")
        .map(|event| event["metadata"]["outcome"].as_str().unwrap())
        .collect();
    let count = |outcome: &str| outcomes.iter().filter(|one| **one == outcome).count();
    assert_eq!((count("interrupted"), count("answered")), (round, 2 * round), "{outcomes:?}");
    for event in events.iter().filter(|event| event["type"] == "agent.message") {
        let asked = events.iter().find(|asked| asked["sequence"] == event["turn"]).unwrap();
        assert_eq!(asked["type"], "user.message");
    }
    let replay = node.client().get("/api/sessions/cli:talk/replay").await.expect(200);
    assert_eq!(replay["matches"], true, "{replay}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_incognito_conversation_leaves_no_byte_on_disk() {
    let place = Place::sqlite();
    let (temporary, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = sederunt();
    command
        .env("TMPDIR", temporary.path())
        .env("HOME", home.path())
        .env("RUST_LOG", "debug")
        .current_dir(home.path());
    let mut node = Node::launch(command, &place, "local").listening().await.unwrap();
    let client = node.client();
    let thread = format!("secret-{MARK}");
    let say = async |text: String, mode: &str| {
        let body = json!({"thread_id": thread, "message": text, "memory_mode": mode, "user_id": MARK});
        client.post("/api/chat", body).await
    };
    for text in
        ["Remember that my {} is blue", "I live in {}", "I live in {}", "I want to kill myself with {}"]
    {
        say(text.replace("{}", MARK), "incognito").await.expect(200);
    }
    // Requests that are refused are logged, and must not say about whom.
    assert_eq!(say("hi".into(), "local").await.status, 409);
    assert_eq!(client.get(&format!("/api/sessions/{MARK}")).await.status, 404);
    let keyed = json!({"thread_id": thread, "message": MARK, "memory_mode": "incognito"});
    client.post_keyed("/api/chat", &keyed, MARK).await.expect(200);
    let path = |rest: &str| format!("/api/sessions/{thread}/{rest}");
    client.post(&path("share"), json!({"access": "read", "expires_in": 60})).await.expect(201);
    client.post(&path("fork"), json!({"at_sequence": 3})).await.expect(201);
    client.post(&path("checkpoint"), json!({})).await.expect(200);
    let ended = client.post(&format!("/api/threads/{thread}/end"), json!({"feedback": "positive"})).await;
    assert_eq!(ended.expect(200)["finalized"], true);
    let open = json!({"thread_id": "cli:open", "message": "This may be kept: blueberry"});
    client.post("/api/chat", open).await.expect(200);
    say(format!("again {MARK}"), "incognito").await.expect(200);

    node.terminate();
    eventually("the server ends", PATIENCE, async || node.ended()).await;
    assert!(!node.said().contains(MARK), "the log tells of it: {}", node.said());
    let store = Path::new(&place.store);
    assert!(found(store, "blueberry"), "what may be kept was not: the search looks at the wrong place");
    for directory in [store, temporary.path(), home.path()] {
        assert!(!found(directory, MARK), "{} holds a trace", directory.display());
    }
    let node = Node::start(&place).await;
    let gone: Value = node.client().get(&format!("/api/sessions/{thread}")).await.expect(404);
    assert_eq!(gone["error"]["code"], "not_found");
}

/// Whether any file under a directory holds these bytes, in its name or its content.
fn found(directory: &Path, mark: &str) -> bool {
    std::fs::read_dir(directory).unwrap().map(Result::unwrap).any(|entry| {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().contains(mark);
        name || if path.is_dir() {
            found(&path, mark)
        } else {
            let bytes = std::fs::read(&path).unwrap();
            bytes.windows(mark.len()).any(|window| window == mark.as_bytes())
        }
    })
}
