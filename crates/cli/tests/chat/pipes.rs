//! Chats that a program leads.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::stub::Stub;
use crate::terminal::Home;

pub fn piped(home: &Home, args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sederunt"))
        .arg("chat")
        .args(args)
        .current_dir(home.path())
        .env_clear()
        .env("XDG_STATE_HOME", home.path().join("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn every_line_is_answered_and_nothing_else_is_written() {
    let (stub, home) = (Stub::start(), Home::new());
    let ran = piped(&home, &["--server", &stub.url, "--thread-id", "sea"], "hello\n\none\\\ntwo\n");
    assert_eq!(text(&ran.stdout), "You said: hello.\nYou said: one\ntwo.\n");
    assert_eq!((text(&ran.stderr).as_str(), ran.status.code()), ("", Some(0)));
    assert!(stub.asked("POST", "/end").is_empty(), "the sitting is left open");
    assert!(home.files().is_empty());
}

#[test]
fn replies_are_one_object_each_for_programs_that_want_that() {
    let (stub, home) = (Stub::start(), Home::new());
    let ran = piped(&home, &["--server", &stub.url, "--thread-id", "sea", "--json"], "hello\ngoodbye\n");
    let replies: Vec<Value> =
        text(&ran.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(replies.len(), 2);
    assert_eq!(replies[0]["response_text"], "You said: hello.");
    assert_eq!(replies[0]["thread_id"], "sea");
    assert_eq!(replies[1]["session_action"], "suggest_end_session");
}

#[test]
fn a_program_is_not_asked_anything() {
    let (stub, home) = (Stub::start(), Home::new());
    let input = "hello\n/memory list facts\n/memory forget fact 1\n/end\ny\n/exit\nnever said\n";
    let ran = piped(&home, &["--server", &stub.url, "--thread-id", "sea"], input);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert!(stub.paths("DELETE").is_empty());
    assert!(!text(&ran.stdout).contains("[y"), "{}", text(&ran.stdout));
    assert!(!text(&ran.stdout).contains("never said"));
}

#[test]
fn a_reply_that_fails_ends_it_with_a_code() {
    let (stub, home) = (Stub::start(), Home::new());
    let ran = piped(&home, &["--server", &stub.url], "break\nhello\n");
    assert_eq!((text(&ran.stdout).as_str(), ran.status.code()), ("", Some(5)));
    assert!(text(&ran.stderr).contains("the model could not be reached"));
    let ran = piped(&home, &["--server", "http://127.0.0.1:1"], "hello\n");
    assert_eq!(ran.status.code(), Some(5), "{}", text(&ran.stderr));
}
