//! The worker in another language that the examples show, beside a real server.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::world::{World, ran, until};

#[test]
fn a_worker_in_python_asks_for_leave_and_goes_on_as_decided() {
    let world = World::new();
    let server = world.serve(&[]);
    let file = |name: &str, value: Value| std::fs::write(world.path(name), value.to_string()).unwrap();
    file("agent.json", json!({"slug": "mailer", "name": "Mailer", "model": "external"}));
    file("task.json", json!({"slug": "mail", "name": "Send a mail", "agent_slug": "mailer"}));
    world.ok(&["agents", "create", "agent.json"]);
    world.ok(&["tasks", "create", "task.json"]);
    let session = world.json(&["tasks", "trigger", "mail", "--input", r#"{"to":"ada"}"#]);

    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/worker.py");
    let text = std::fs::read_to_string(&example).unwrap();
    assert!(text.lines().count() <= 60, "an example that is too long to read at a glance");
    let mut python = Command::new("python3");
    python.arg(&example).args([&server.url, "mailer", "2"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let worker = python.stderr(Stdio::piped()).spawn().unwrap();

    let waiting = until("the question", || world.json(&["inbox"])["items"].get(0).cloned());
    world.ok(&["approve", waiting["id"].as_str().unwrap(), "--args", r#"{"to":"bob"}"#]);
    let ran = ran(worker.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let session = world.json(&["sessions", "show", session["id"].as_str().unwrap()]);
    assert_eq!(session["status"], "completed");
    assert_eq!(session["result"], json!({"sent_to": "bob"}));
}
