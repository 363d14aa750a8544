//! The same chat with the real server: one that it starts itself, and one that runs already.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::pipes::{piped, text};
use crate::terminal::{CTRL_C, Home, PROMPT, Terminal};

/// A chat in which something was said that only a test says.
fn sitting(home: &Home, args: &[&str]) -> Terminal {
    let mut chat = home.chat(args);
    chat.expect(PROMPT);
    chat.line("Hello, I dream of heliotropes");
    chat.expect("?");
    chat.expect(PROMPT);
    chat
}

/// What a command of a chat says to a program.
fn asked(home: &Home, command: &str) -> Value {
    let ran = piped(home, &["--thread-id", "sea", "--json"], &format!("{command}\n"));
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{command}: {}", text(&ran.stdout)))
}

/// A server that runs in a home.
struct Served(Child);

impl Served {
    fn start(home: &Home) -> Self {
        let mut server = Command::new(env!("CARGO_BIN_EXE_sederunt"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .current_dir(home.path())
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "{line}");
        Self(server)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_sitting_that_ends_with_a_rating_leaves_one() {
    let home = Home::new();
    let mut chat = sitting(&home, &["--thread-id", "sea"]);
    assert!(home.path().join(".store/server.json").exists(), "commands beside the chat find its server");
    chat.line("/status");
    chat.expect("open");
    chat.expect(PROMPT);
    chat.line("/end");
    chat.expect("[y/n/s, Enter for no answer] ");
    chat.line("y");
    chat.expect("Goodbye");
    chat.ended();
    assert!(!home.path().join(".store/server.json").exists());
    assert_eq!(asked(&home, "/memory status")["session_feedback_count"], 1);
    assert_eq!(asked(&home, "/status")["has_active_session"], false);
    let history = asked(&home, "/history 2");
    assert_eq!(history[0]["text"], "Hello, I dream of heliotropes");
}

#[test]
fn a_terminal_that_is_closed_ends_the_sitting_in_order() {
    for signal in [Signal::HUP, Signal::TERM] {
        let home = Home::new();
        let mut chat = sitting(&home, &["--thread-id", "sea"]);
        chat.line("I dream of heliotropes again");
        chat.expect(PROMPT);
        chat.is_told(signal);
        assert!(chat.raw().contains("a signal ended this chat; the conversation is kept"), "{}", chat.raw());
        assert!(!home.path().join(".store/server.json").exists());
        assert_eq!(asked(&home, "/status")["has_active_session"], false);
        assert_eq!(asked(&home, "/memory status")["arcs"], 1);
    }
}

#[test]
fn a_user_that_cannot_be_is_refused_before_anything_is_made() {
    let home = Home::new();
    let ran = piped(&home, &["--thread-id", "sea", "--user-id", ""], "hello\n");
    assert_eq!(ran.status.code(), Some(2), "{}", text(&ran.stderr));
    assert_eq!(text(&ran.stderr), "error: `--user-id` must not be empty\n");
    assert!(!home.path().join(".store").exists());
}

#[test]
fn a_sitting_that_is_discarded_leaves_no_summary_and_no_rating() {
    let home = Home::new();
    let mut chat = sitting(&home, &["--thread-id", "sea"]);
    chat.line("/exit");
    chat.expect("[Y/n] ");
    chat.send(CTRL_C);
    chat.expect(PROMPT);
    chat.line("/exit");
    chat.expect("[Y/n] ");
    chat.line("n");
    chat.expect("No summary was kept.");
    chat.ended();
    let status = asked(&home, "/memory status");
    assert_eq!((&status["session_feedback_count"], &status["arcs"]), (&0.into(), &0.into()));
    assert_eq!(asked(&home, "/status")["has_active_session"], false);
}

#[test]
fn a_person_who_leaves_is_told_commands_that_lead_to_the_same_place() {
    let home = Home::new();
    let mut chat = sitting(&home, &["--store", "./other", "--user-id", "al", "--thread-id", "the sea"]);
    chat.line("/threads");
    chat.expect("TITLE");
    chat.expect("Hello, I dream of heliotropes");
    chat.expect(PROMPT);
    chat.line("/exit");
    chat.expect("[Y/n] ");
    chat.line("n");
    chat.expect("delete it with:");
    chat.expect("  sederunt sessions rm --store ./other 'the sea'");
    chat.expect("sederunt chat --store ./other --user-id al --thread-id 'the sea'");
    chat.ended();
}

#[test]
fn what_is_remembered_is_forgotten_by_its_number() {
    let home = Home::new();
    let mut chat = home.chat(&["--thread-id", "sea", "--user-id", "alice"]);
    chat.expect(PROMPT);
    chat.line("Remember this: I live in Oslo");
    chat.expect(PROMPT);
    chat.line("/memory list facts");
    chat.expect("facts (1)");
    chat.expect(PROMPT);
    chat.line("/memory forget fact 1");
    chat.expect("[y/N] ");
    chat.line("y");
    chat.expect("The fact is forgotten.");
    chat.expect(PROMPT);
    chat.line("/memory list facts");
    chat.expect("facts (0)");
}

#[test]
fn what_is_said_about_a_chat_becomes_a_lesson() {
    let home = Home::new();
    let mut chat = sitting(&home, &["--thread-id", "sea"]);
    chat.line("/feedback down wrong");
    chat.expect("What went wrong, and what should be done instead?");
    chat.line("It asks back instead of answering");
    chat.expect("Thank you. If there is more to say, add it within a minute: /feedback more WORDS");
    chat.expect(PROMPT);
    chat.line("/feedback more Do not answer with a question");
    chat.expect("Added.");
    chat.expect(PROMPT);
    chat.line("/exit");
    chat.expect("[Y/n] ");
    chat.line("n");
    chat.ended();

    let run = |args: &[&str]| -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sederunt"));
        let ran = command.args(args).arg("--json").current_dir(home.path()).env_clear().output().unwrap();
        assert!(ran.status.success(), "{args:?}: {}", text(&ran.stderr));
        serde_json::from_slice(&ran.stdout).unwrap()
    };
    let open = run(&["feedback", "ls", "--open"]);
    let done = run(&["feedback", "finalize", open["items"][0]["session_id"].as_str().unwrap()]);
    assert_eq!(done["lesson"]["text"], "Do not answer with a question");
    assert_eq!(done["lesson"]["sources"][0]["session_id"], "sea");
    assert_eq!(run(&["feedback", "stats"])["down"], 1, "one thumb, however often it was asked about");
}

#[test]
fn a_guest_leaves_no_byte() {
    let home = Home::new();
    let mut chat = sitting(&home, &["--incognito", "--thread-id", "sea"]);
    chat.line("/memory status");
    chat.expect("facts");
    chat.expect(PROMPT);
    chat.line("/feedback down It asks back");
    chat.expect("nothing of this conversation is kept");
    chat.expect(PROMPT);
    chat.line("/end");
    chat.expect("[y/n/s, Enter for no answer] ");
    chat.line("y");
    chat.expect("Nothing of this was kept.");
    chat.ended();
    assert_eq!(home.files(), [] as [std::path::PathBuf; 0]);
}

#[test]
fn a_guest_who_leaves_is_not_told_that_anything_stays() {
    let home = Home::new();
    let mut chat = sitting(&home, &["--incognito", "--thread-id", "sea"]);
    chat.line("/exit");
    let rest = chat.ended();
    assert!(rest.contains("Goodbye. Nothing of this was kept."), "{rest}");
    assert!(!rest.contains("stays") && !rest.contains("sessions rm"), "{rest}");
}

#[test]
fn beside_a_server_a_chat_goes_through_it() {
    let home = Home::new();
    let served = Served::start(&home);
    let mut chat = sitting(&home, &["--thread-id", "sea"]);
    chat.line("/doctor");
    chat.expect("ok    conversations are served");
    chat.expect(PROMPT);
    assert_eq!(asked(&home, "/status")["has_active_session"], true, "both see the same sitting");
    drop(served);
    chat.line("Hello again");
    chat.expect("does not answer");
    chat.expect(PROMPT);
}

#[test]
fn what_a_program_leaves_open_its_next_call_goes_on_with() {
    let home = Home::new();
    for line in ["Hello\n", "Hello again\n"] {
        let ran = piped(&home, &["--thread-id", "sea"], line);
        assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
        assert!(!ran.stdout.is_empty());
    }
    let status = asked(&home, "/status");
    assert_eq!((&status["has_active_session"], &status["turn_count"]), (&true.into(), &2.into()));
}

#[test]
fn a_model_is_for_a_server_that_is_started() {
    let home = Home::new();
    let ran = piped(&home, &["--server", "http://127.0.0.1:1", "--model", "eliza"], "Hello\n");
    assert_eq!(ran.status.code(), Some(2), "{}", text(&ran.stderr));
    let ran = piped(&home, &["--model", "eliza"], "Hello\n");
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
}
