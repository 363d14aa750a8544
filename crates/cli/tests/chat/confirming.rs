//! What a person is asked before something is done for them.

use serde_json::json;

use crate::stub::Stub;
use crate::terminal::{CTRL_C, ENTER, Home, PROMPT};

#[test]
fn a_person_agrees_refuses_or_changes_what_is_to_be_done() {
    for (keys, decided) in [
        (vec!["y"], json!({"decision": "approve", "digest": "d-1"})),
        (vec!["n"], json!({"decision": "deny", "digest": "d-1"})),
        (vec!["what?", "yes"], json!({"decision": "approve", "digest": "d-1"})),
        (
            vec!["e", r#"{"to": "y"}"#],
            json!({"decision": "approve", "digest": "d-1", "modified_args": {"to": "y"}}),
        ),
    ] {
        let (stub, home) = (Stub::start(), Home::new());
        let mut chat = home.chat(&["--server", &stub.url]);
        chat.expect(PROMPT);
        chat.line("send it");
        chat.expect("Let me see.");
        chat.expect(r#"send {"to":"x"}"#);
        for key in &keys {
            chat.expect("] ");
            chat.line(key);
        }
        chat.expect("So be it.");
        chat.expect(PROMPT);
        assert_eq!(stub.asked("POST", "/api/approvals/ap-1/decide"), [decided], "{keys:?}");
    }
}

#[test]
fn silence_decides_nothing_and_says_what_else_can_be_done() {
    for key in [ENTER, CTRL_C] {
        let (stub, home) = (Stub::start(), Home::new());
        let mut chat = home.chat(&["--server", &stub.url]);
        chat.expect(PROMPT);
        chat.line("send it");
        chat.expect("Do it?");
        chat.send(key);
        chat.expect("sederunt approve ap-1");
        chat.expect(PROMPT);
        assert!(stub.asked("POST", "/api/approvals/ap-1/decide").is_empty());
    }
}
