//! How people leave: `/end`, `/exit`, and the keys that mean either.

use serde_json::{Value, json};

use crate::stub::Stub;
use crate::terminal::{CTRL_C, CTRL_D, ENTER, Home, PROMPT, Terminal};

const RATING: &str = "Did this help you? [y/n/s, Enter for no answer] ";
const RATING_AGAIN: &str = "[y/n/s] ";
const SAVING: &str = "[Y/n] ";

/// A chat in which something was said.
pub fn sitting(stub: &Stub, home: &Home) -> Terminal {
    let mut chat = home.chat(&["--server", &stub.url, "--thread-id", "sea"]);
    chat.expect(PROMPT);
    chat.line("hello");
    chat.expect("You said: hello.");
    chat.expect(PROMPT);
    chat
}

fn ends(stub: &Stub) -> Vec<Value> {
    stub.asked("POST", "/api/threads/sea/end")
}

#[test]
fn the_answer_to_end_is_the_rating_and_silence_is_none() {
    for (answers, rating) in [
        (&["y\r"][..], json!("positive")),
        (&["n\r"], json!("negative")),
        (&["s\r"], json!("skip")),
        (&["what?\r", "y\r"], json!("positive")),
        (&["what?\r", "no idea\r"], Value::Null),
        (&["what?\r", ENTER], Value::Null),
        (&[ENTER], Value::Null),
        (&[CTRL_C], Value::Null),
        (&[CTRL_D], Value::Null),
    ] {
        let (stub, home) = (Stub::start(), Home::new());
        let mut chat = sitting(&stub, &home);
        chat.line("/end");
        chat.expect(RATING);
        chat.send(answers[0]);
        for answer in &answers[1..] {
            chat.expect(RATING_AGAIN);
            chat.send(answer);
        }
        chat.expect("We talked about the sea.");
        chat.expect("Goodbye");
        chat.ended();
        assert_eq!(ends(&stub), [json!({"feedback": rating, "source": "cli_end"})], "{answers:?}");
    }
}

#[test]
fn exit_asks_whether_the_sitting_is_kept_before_anything_else() {
    for (answer, end) in [
        (ENTER, None),
        ("y\r", None),
        ("n\r", Some(json!({"discard": true, "source": "cli_exit"}))),
        (CTRL_D, Some(json!({"discard": true, "source": "cli_exit"}))),
    ] {
        let (stub, home) = (Stub::start(), Home::new());
        let mut chat = sitting(&stub, &home);
        chat.line("/exit");
        chat.expect(SAVING);
        chat.send(answer);
        if end.is_none() {
            chat.expect(RATING);
            chat.line("y");
            chat.expect("We talked about the sea.");
        }
        let rest = chat.ended();
        assert!(rest.contains("Goodbye"), "{rest}");
        let kept = json!({"feedback": "positive", "source": "cli_exit"});
        assert_eq!(ends(&stub), [end.unwrap_or(kept)], "{answer:?}");
    }
}

#[test]
fn ctrl_c_takes_the_leaving_back_and_unclear_words_do_too() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut chat = sitting(&stub, &home);
    chat.line("/quit");
    chat.expect(SAVING);
    chat.send(CTRL_C);
    chat.expect(PROMPT);
    chat.line("/exit");
    chat.expect(SAVING);
    chat.line("perhaps");
    chat.expect(SAVING);
    chat.line("perhaps");
    chat.expect(PROMPT);
    chat.line("still here");
    chat.expect("You said: still here.");
    assert_eq!(ends(&stub), [] as [Value; 0]);
}

#[test]
fn the_end_of_input_is_an_exit() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut chat = sitting(&stub, &home);
    chat.send(CTRL_D);
    chat.expect(SAVING);
    chat.line("n");
    chat.ended();
    assert_eq!(ends(&stub), [json!({"discard": true, "source": "cli_exit"})]);
}

#[test]
fn where_nothing_was_said_nothing_is_asked() {
    for leave in ["/end", "/exit"] {
        let (stub, home) = (Stub::start(), Home::new());
        let mut chat = home.chat(&["--server", &stub.url, "--thread-id", "sea"]);
        chat.expect(PROMPT);
        chat.line(leave);
        let rest = chat.ended();
        assert!(rest.contains("Goodbye") && !rest.contains('['), "{rest}");
        assert_eq!(ends(&stub), [] as [Value; 0]);
    }
}

#[test]
fn a_summary_that_fails_holds_nobody_up() {
    let (stub, home) = (Stub::broken(), Home::new());
    let mut chat = sitting(&stub, &home);
    chat.line("/end");
    chat.expect(RATING);
    chat.send(ENTER);
    chat.expect("It stays open");
    let rest = chat.ended();
    assert!(rest.contains("Goodbye"), "{rest}");
}

#[test]
fn it_can_go_on_in_a_new_conversation() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut chat = sitting(&stub, &home);
    chat.line("/end new lake");
    chat.expect(RATING);
    chat.line("s");
    chat.expect("This is conversation lake.");
    chat.expect(PROMPT);
    chat.line("hello again");
    chat.expect("You said: hello again.");
    let said = stub.asked("WS", "/api/chat/stream");
    assert_eq!(said.iter().map(|said| said["thread_id"].clone()).collect::<Vec<_>>(), ["sea", "lake"]);
    assert_eq!(ends(&stub).len(), 1);
}
