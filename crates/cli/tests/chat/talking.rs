//! What is typed and what is answered.

use std::os::unix::fs::PermissionsExt;

use crate::stub::Stub;
use crate::terminal::{ALT_ENTER, CTRL_C, ENTER, Home, PROMPT, TAB, Terminal, UP};

fn chat(stub: &Stub, home: &Home, args: &[&str]) -> Terminal {
    let mut all = vec!["--server", &stub.url];
    all.extend(args);
    let mut chat = home.chat(&all);
    chat.expect(PROMPT);
    chat
}

fn said(stub: &Stub) -> Vec<String> {
    let said = stub.asked("WS", "/api/chat/stream");
    said.iter().map(|said| said["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_conversation_has_a_name_and_belongs_to_whom_was_named() {
    let (stub, home) = (Stub::start(), Home::new());
    for args in [&[][..], &["--thread-id", "sea", "--user-id", "alice", "--tier", "quality"]] {
        let mut chat = chat(&stub, &home, args);
        chat.line("hello");
        chat.expect("You said: hello.");
        chat.expect(PROMPT);
    }
    let said = stub.asked("WS", "/api/chat/stream");
    let drawn = said[0]["thread_id"].as_str().unwrap().strip_prefix("local-").unwrap();
    assert!(drawn.len() == 12 && drawn.chars().all(|c| c.is_ascii_hexdigit()), "{drawn}");
    assert_eq!(said[0].get("user_id"), None);
    assert_eq!(said[0].get("memory_mode"), None);
    assert_eq!((&said[1]["thread_id"], &said[1]["user_id"]), (&"sea".into(), &"alice".into()));
    assert_eq!(
        (&said[0]["response_model_tier"], &said[1]["response_model_tier"]),
        (&"fast".into(), &"quality".into())
    );
}

#[test]
fn a_message_can_have_several_lines() {
    for (keys, message) in [
        (vec!["one\\", ENTER, "two", ENTER], "one\ntwo"),
        (vec!["one", ALT_ENTER, "two", ENTER], "one\ntwo"),
        (vec!["\x1b[200~one\rtwo\r\nthree\x1b[201~", ENTER], "one\ntwo\nthree"),
    ] {
        let (stub, home) = (Stub::start(), Home::new());
        let mut chat = chat(&stub, &home, &[]);
        keys.iter().for_each(|key| chat.send(key));
        chat.expect("You said: one");
        chat.expect(PROMPT);
        assert_eq!(said(&stub), [message], "{keys:?}");
    }
}

#[test]
fn commands_and_their_words_are_completed() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut chat = chat(&stub, &home, &[]);
    chat.send("/mem");
    chat.send(TAB);
    chat.send("sta");
    chat.send(TAB);
    chat.send(ENTER);
    chat.expect("ratings");
    chat.expect(PROMPT);
    chat.line("/threads");
    chat.expect("trip-to-rome");
    chat.expect(PROMPT);
    chat.send("/res");
    chat.send(TAB);
    chat.send("tr");
    chat.send(TAB);
    chat.send(ENTER);
    chat.expect("This is conversation trip-to-rome.");
    chat.expect("indeed");
}

#[test]
fn ctrl_c_stops_a_reply_and_not_the_chat() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut chat = chat(&stub, &home, &["--thread-id", "sea"]);
    chat.line("tell me a long story");
    chat.expect("Once upon a");
    chat.send(CTRL_C);
    chat.expect("(stopped)");
    chat.expect(PROMPT);
    assert_eq!(stub.asked("POST", "/api/sessions/sea/stop").len(), 1);
    chat.line("thank you");
    chat.expect("You said: thank you.");
}

#[test]
fn a_reply_in_a_crisis_is_shown_whole_and_set_apart() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut chat = chat(&stub, &home, &[]);
    chat.line("i am in danger");
    chat.expect("┃ Please call 112. You are not alone.");
    let rest = chat.expect(PROMPT);
    assert!(!rest.contains("/end"), "nobody in danger is shown the door: {rest}");
}

#[test]
fn a_goodbye_ends_nothing_and_says_how_to() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut chat = chat(&stub, &home, &["--thread-id", "sea"]);
    chat.line("goodbye");
    chat.expect("Take care.");
    chat.expect("/end closes the sitting");
    chat.expect(PROMPT);
    assert!(stub.asked("POST", "/end").is_empty());
}

#[test]
fn a_reply_that_fails_is_said_so_and_the_chat_goes_on() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut chat = chat(&stub, &home, &[]);
    chat.line("break");
    chat.expect("the model could not be reached");
    chat.expect(PROMPT);
    chat.line("hello");
    chat.expect("You said: hello.");
}

#[test]
fn what_was_typed_comes_back_and_only_its_owner_can_read_it() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut first = chat(&stub, &home, &[]);
    first.line("remember the milk");
    first.expect("You said: remember the milk.");
    first.expect(PROMPT);
    drop(first);
    assert_eq!(std::fs::metadata(home.history()).unwrap().permissions().mode() & 0o777, 0o600);
    let mut second = chat(&stub, &home, &[]);
    second.send(UP);
    second.send(ENTER);
    second.expect("You said: remember the milk.");
}

#[test]
fn a_guest_leaves_no_file_and_is_nobody() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut chat = chat(&stub, &home, &["--incognito", "--user-id", "alice", "--thread-id", "sea"]);
    chat.line("hello");
    chat.expect("You said: hello.");
    chat.expect(PROMPT);
    chat.line("/exit");
    chat.expect("Nothing of this was kept.");
    chat.ended();
    let said = stub.asked("WS", "/api/chat/stream");
    assert_eq!(said[0].get("user_id"), None);
    assert_eq!(said[0]["memory_mode"], "incognito");
    assert_eq!(home.files(), [] as [std::path::PathBuf; 0]);
}

#[test]
fn colours_are_left_out_on_demand() {
    let (stub, home) = (Stub::start(), Home::new());
    let colour = "\x1b[1;36m";
    assert!(chat(&stub, &home, &[]).raw().contains(colour));
    assert!(!chat(&stub, &home, &["--no-color"]).raw().contains(colour));
}
