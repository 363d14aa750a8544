//! `/feedback`: words about a conversation, while it goes on.

use serde_json::{Value, json};

use crate::leaving::sitting;
use crate::pipes::{piped, text};
use crate::stub::Stub;
use crate::terminal::{CTRL_C, CTRL_D, ENTER, Home, PROMPT, TAB};

fn nothing() -> [Value; 0] {
    []
}

#[test]
fn feedback_is_given_on_this_conversation_and_added_to() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut chat = sitting(&stub, &home);
    chat.line("/feedback more of it");
    chat.expect("there is no feedback to add to");
    chat.expect(PROMPT);
    chat.line("/feedback down it rambles on");
    chat.expect("Known already: after a thumb down: Be brief");
    chat.expect("add it within a minute: /feedback more WORDS");
    chat.expect(PROMPT);
    let given = json!({"signal": "down", "context": "it rambles on", "session_id": "sea"});
    assert_eq!(stub.asked("POST", "/api/feedback"), [given]);

    chat.line("/feedback more and it guesses");
    chat.expect("Added.");
    chat.expect(PROMPT);
    chat.line("/feedback more too late");
    chat.expect("it was finalized a while ago");
    chat.expect(PROMPT);
    chat.line("/feedback more again");
    chat.expect("there is no feedback to add to");
    chat.expect(PROMPT);
    let added = ["and it guesses", "too late"].map(|message| json!({ "message": message }));
    assert_eq!(stub.asked("POST", "/api/feedback/sessions/fbs_1/append"), added);

    chat.line("/feedback up it waited for me");
    chat.expect("Thank you");
    chat.expect(PROMPT);
    chat.line("/new lake");
    chat.expect(PROMPT);
    chat.line("/feedback more");
    chat.expect("Usage: /feedback up|down [WORDS] | more WORDS");
    chat.expect(PROMPT);
    chat.line("/feedback more of it");
    chat.expect("there is no feedback to add to");
    chat.expect(PROMPT);
    chat.line("/feedback up it is deep");
    chat.expect("nothing was said in this conversation yet");
    chat.expect(PROMPT);
    assert_eq!(stub.asked("POST", "/api/feedback").len(), 2);
}

#[test]
fn what_says_too_little_is_asked_about_once() {
    for (answer, sent) in [
        ("it guessed my name\r", Some("it guessed my name")),
        ("wrong\r", Some("wrong")),
        (ENTER, None),
        ("   \r", None),
        (CTRL_C, None),
        (CTRL_D, None),
    ] {
        let (stub, home) = (Stub::start(), Home::new());
        let mut chat = sitting(&stub, &home);
        chat.line("/feedback down wrong");
        chat.expect("For example: It guessed.");
        chat.expect("What went wrong? [Enter for no answer] ");
        chat.send(answer);
        chat.expect(if sent.is_some() { "Thank you" } else { "The thumb is kept without words." });
        chat.expect(PROMPT);
        let opened = stub.asked("POST", "/api/feedback/sessions");
        let expected = sent
            .map(|words| json!({"feedback_event_id": "fb_1", "signal": "down", "initial_context": words}));
        assert_eq!(opened, Vec::from_iter(expected), "{answer:?}");
        assert_eq!(stub.asked("POST", "/api/feedback").len(), 1);
        chat.line("still here");
        chat.expect("You said: still here.");
    }
}

#[test]
fn what_is_refused_is_said_and_the_chat_goes_on() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut chat = sitting(&stub, &home);
    chat.line("/feedback down my password");
    chat.expect("it carries a secret (credential)");
    chat.expect(PROMPT);
    chat.line("/help");
    chat.expect("/feedback up|down [WORDS] | more WORDS");
    chat.expect(PROMPT);
    chat.send("/fee");
    chat.send(TAB);
    chat.expect("/feedback ");
    chat.send("up");
    chat.send(ENTER);
    chat.expect("What went wrong?");
}

#[test]
fn an_incognito_conversation_takes_no_feedback() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut chat = home.chat(&["--server", &stub.url, "--thread-id", "sea", "--incognito"]);
    chat.expect(PROMPT);
    chat.line("hello");
    chat.expect("You said: hello.");
    chat.expect(PROMPT);
    for line in ["/feedback down it rambles on", "/feedback more of it"] {
        chat.line(line);
        chat.expect("nothing of this conversation is kept");
        chat.expect(PROMPT);
    }
    assert_eq!(stub.asked("POST", "/api/feedback"), nothing());
}

#[test]
fn a_program_is_told_and_not_asked() {
    let (stub, home) = (Stub::start(), Home::new());
    let chat = |line: &str, json: bool| {
        let mut args = vec!["--server", &stub.url, "--thread-id", "sea"];
        args.extend(json.then_some("--json"));
        piped(&home, &args, &format!("hello\n{line}\n"))
    };
    let given = chat("/feedback down it rambles on", true);
    assert_eq!(given.status.code(), Some(0), "{}", text(&given.stderr));
    let answer: Value = serde_json::from_str(text(&given.stdout).lines().last().unwrap()).unwrap();
    assert_eq!(answer["status"], "accepted");
    let vague = chat("/feedback down wrong", false);
    assert_eq!(vague.status.code(), Some(0));
    assert!(text(&vague.stderr).contains("What went wrong?"), "{}", text(&vague.stderr));
    assert_eq!(stub.asked("POST", "/api/feedback/sessions"), nothing());
    assert_eq!(chat("/feedback down my password", false).status.code(), Some(2));
}
