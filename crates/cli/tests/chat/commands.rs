//! Commands that look, and commands that delete.

use crate::stub::Stub;
use crate::terminal::{CTRL_C, CTRL_D, ENTER, Home, PROMPT, Terminal};

fn chat(stub: &Stub, home: &Home) -> Terminal {
    let mut chat = home.chat(&["--server", &stub.url, "--thread-id", "sea"]);
    chat.expect(PROMPT);
    chat
}

#[test]
fn nothing_is_forgotten_without_a_clear_yes() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut chat = chat(&stub, &home);
    chat.line("/memory list facts");
    chat.expect("2  user · lives in · Bergen");
    chat.expect(PROMPT);
    for answer in [ENTER, "n\r", "perhaps\r", CTRL_C, CTRL_D] {
        chat.line("/memory forget fact 2");
        chat.expect("user · lives in · Bergen");
        chat.expect("“I live in Bergen”");
        chat.expect("[y/N] ");
        chat.send(answer);
        chat.expect("Nothing was deleted.");
        chat.expect(PROMPT);
    }
    assert!(stub.paths("DELETE").is_empty());
    chat.line("/memory forget fact 2");
    chat.expect("[y/N] ");
    chat.line("y");
    chat.expect("The fact is forgotten.");
    assert_eq!(stub.paths("DELETE"), ["/api/memory/facts/f-2"]);
}

#[test]
fn a_position_is_one_in_the_list_that_was_shown() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut chat = chat(&stub, &home);
    chat.line("/memory forget fact 1");
    chat.expect("/memory list facts shows them");
    chat.expect(PROMPT);
    chat.line("/memory list");
    chat.expect("2  user · lives in · Bergen");
    chat.expect("1  Be brief");
    chat.expect(PROMPT);
    stub.lose_first_fact();
    chat.line("/memory forget fact 1");
    chat.expect("user · lives in · Oslo");
    chat.expect("[y/N] ");
    chat.line("y");
    chat.expect("not yours to see");
    assert_eq!(stub.paths("DELETE"), ["/api/memory/facts/f-1"], "what had moved up is safe");
}

#[test]
fn many_things_go_only_by_the_exact_word() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut chat = chat(&stub, &home);
    for word in [ENTER, "y\r", "CLEAR\r", CTRL_C, CTRL_D] {
        chat.line("/memory clear all");
        chat.expect("This deletes 2 facts, 1 rule for good.");
        chat.send(word);
        chat.expect("Nothing was deleted.");
        chat.expect(PROMPT);
    }
    assert!(stub.paths("DELETE").is_empty());
    chat.line("/memory clear all");
    chat.expect("Type the word \"clear\" to confirm: ");
    chat.line("clear");
    chat.expect("Deleted: 3.");
    let paths = ["/api/memory/facts/f-1", "/api/memory/facts/f-2", "/api/memory/rules/r-1"];
    assert_eq!(stub.paths("DELETE"), paths);
}

#[test]
fn commands_say_what_they_found() {
    let (stub, home) = (Stub::start(), Home::new());
    let mut chat = chat(&stub, &home);
    for (line, expected) in [
        ("/help", "/memory [status"),
        ("/keys", "Alt-Enter"),
        ("/status", "none open"),
        ("/doctor", "ok    conversations are served"),
        ("/history", "indeed"),
        ("/search memory oslo", "user · lives in · Oslo"),
        ("/memory recall off", "Recall is off"),
        ("/mode", "persistent"),
        (
            "/tier quality",
            "The quality model answers; a server without one answers with the model that it has.",
        ),
        ("/trace on", "Replies are traced."),
        ("hello", "safety 0.1 ms"),
        ("/context", "carries nothing along yet"),
        ("/summary", "No sitting was summed up yet."),
        ("/new lake", "This is conversation lake."),
        ("/resume nowhere", "not yours to see"),
        ("/hlep", "did you mean /help?"),
        ("/tier slow", "\nUsage: /tier [fast|quality]"),
    ] {
        chat.line(line);
        chat.expect(expected);
        chat.expect(PROMPT);
    }
}
