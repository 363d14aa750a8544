use super::*;

fn command(line: &str) -> Option<ChatCommand> {
    match read(line) {
        ChatLine::Command(command) => Some(command),
        _ => None,
    }
}

#[test]
fn every_command_is_read_with_its_arguments() {
    let text = |text: &str| text.to_owned();
    for (line, expected) in [
        ("/help", ChatCommand::Help),
        ("/help me", ChatCommand::Help),
        ("/status", ChatCommand::Status),
        ("/doctor", ChatCommand::Doctor),
        ("/history", ChatCommand::History(6)),
        ("/history 20", ChatCommand::History(20)),
        ("/context", ChatCommand::Context),
        ("/search history two words", ChatCommand::Search { scope: Scope::History, text: text("two words") }),
        ("/search all all", ChatCommand::Search { scope: Scope::All, text: text("all") }),
        ("/search memory  x", ChatCommand::Search { scope: Scope::Memory, text: text("x") }),
        ("/summary", ChatCommand::Summary(Length::Short)),
        ("/summary short", ChatCommand::Summary(Length::Short)),
        ("/summary full", ChatCommand::Summary(Length::Full)),
        ("/export md", ChatCommand::Export { format: "md", all: false, file: None }),
        ("/export md --all", ChatCommand::Export { format: "md", all: true, file: None }),
        ("/export txt --all a b", ChatCommand::Export { format: "txt", all: true, file: Some(text("a b")) }),
        (
            "/export txt --allied",
            ChatCommand::Export { format: "txt", all: false, file: Some(text("--allied")) },
        ),
        (
            "/export json my talk.json",
            ChatCommand::Export { format: "json", all: false, file: Some(text("my talk.json")) },
        ),
        ("/keys", ChatCommand::Keys),
        ("/memory", ChatCommand::Memory(MemoryRequest::Status)),
        ("/memory status", ChatCommand::Memory(MemoryRequest::Status)),
        ("/memory list", ChatCommand::Memory(MemoryRequest::List(None))),
        ("/memory list facts", ChatCommand::Memory(MemoryRequest::List(Some(MemoryKind::Fact)))),
        ("/memory list arc", ChatCommand::Memory(MemoryRequest::List(Some(MemoryKind::Arc)))),
        ("/memory recall", ChatCommand::Memory(MemoryRequest::Recall(None))),
        ("/memory recall off", ChatCommand::Memory(MemoryRequest::Recall(Some(false)))),
        ("/memory forget fact 2", ChatCommand::Memory(MemoryRequest::Forget(MemoryKind::Fact, 2))),
        ("/memory forget rules 1", ChatCommand::Memory(MemoryRequest::Forget(MemoryKind::Rule, 1))),
        ("/memory clear all", ChatCommand::Memory(MemoryRequest::Clear(None))),
        ("/memory clear arcs", ChatCommand::Memory(MemoryRequest::Clear(Some(MemoryKind::Arc)))),
        ("/feedback up", ChatCommand::Feedback(FeedbackRequest::Give(Signal::Up, None))),
        (
            "/feedback down it rambles  on",
            ChatCommand::Feedback(FeedbackRequest::Give(Signal::Down, Some(text("it rambles  on")))),
        ),
        ("/feedback up down", ChatCommand::Feedback(FeedbackRequest::Give(Signal::Up, Some(text("down"))))),
        ("/feedback more of it", ChatCommand::Feedback(FeedbackRequest::More(text("of it")))),
        ("/threads", ChatCommand::Threads(12)),
        ("/threads 3", ChatCommand::Threads(3)),
        ("/resume cli:main", ChatCommand::Resume(text("cli:main"))),
        ("/new", ChatCommand::New(None)),
        ("/new trip", ChatCommand::New(Some(text("trip")))),
        ("/clear", ChatCommand::Clear),
        ("/mode", ChatCommand::Mode),
        ("/tier", ChatCommand::Tier(None)),
        ("/tier quality", ChatCommand::Tier(Some(Tier::Quality))),
        ("/verbosity quiet", ChatCommand::Verbosity(Some(Verbosity::Quiet))),
        ("/trace on", ChatCommand::Trace(Some(true))),
        ("/debug state", ChatCommand::DebugState),
        ("/end", ChatCommand::End(Afterwards::Leave)),
        ("/end new", ChatCommand::End(Afterwards::New(None))),
        ("/end new trip", ChatCommand::End(Afterwards::New(Some(text("trip"))))),
        ("/exit", ChatCommand::Exit),
        ("/quit", ChatCommand::Exit),
        ("  /EXIT  ", ChatCommand::Exit),
        ("/h", ChatCommand::Help),
        ("/s", ChatCommand::Status),
        ("/m list rules", ChatCommand::Memory(MemoryRequest::List(Some(MemoryKind::Rule)))),
        ("/k", ChatCommand::Keys),
        ("/t 5", ChatCommand::Threads(5)),
        ("/q", ChatCommand::Exit),
        ("/c", ChatCommand::Clear),
    ] {
        assert_eq!(command(line), Some(expected), "{line}");
    }
}

#[test]
fn what_a_command_cannot_take_is_answered_with_its_usage() {
    for line in [
        "/history 0", "/history many", "/history 1 2", "/search", "/search history", "/search everything x",
        "/export", "/export pdf", "/memory forget fact", "/memory forget fact 0", "/memory forget fact -1",
        "/memory forget all 1", "/memory clear", "/memory clear ALL", "/memory recall maybe", "/resume",
        "/feedback", "/feedback more", "/feedback sideways", "/feedback UP", "/resume a b", "/new a b",
        "/tier slow", "/trace yes", "/debug", "/debug log", "/end now", "/end new a b", "/exit now",
    ] {
        let ChatLine::Misread(BadLine::Usage(entry)) = read(line) else { panic!("{line}") };
        assert!(line.starts_with(&format!("/{}", entry.name)), "{line}: {}", entry.name);
        assert!(entry.usage.starts_with(&format!("/{}", entry.name)), "{}", entry.usage);
    }
}

#[test]
fn an_unknown_command_is_answered_with_the_nearest() {
    for (line, expected) in [
        ("/hlep", Some("help")),
        ("/stat", Some("status")),
        ("/exti", Some("exit")),
        ("/qiut", Some("quit")),
        ("/mem", Some("memory")),
        ("/fedback", Some("feedback")),
        ("/treads", Some("threads")),
        ("/serach", Some("search")),
        ("/nope", None),
        ("/frobnicate", None),
        ("/", None),
        ("/z", None),
    ] {
        let ChatLine::Misread(BadLine::Unknown { nearest, .. }) = read(line) else { panic!("{line}") };
        assert_eq!(nearest, expected, "{line}");
    }
}

#[test]
fn everything_else_is_a_message() {
    for (line, expected) in [
        ("hello", "hello"),
        ("  hello  ", "hello"),
        ("one\\\ntwo", "one\ntwo"),
        ("pasted\nlines", "pasted\nlines"),
        ("//etc/hosts is odd", "/etc/hosts is odd"),
        ("a \\ b", "a \\ b"),
        ("see /help", "see /help"),
    ] {
        let ChatLine::Message(message) = read(line) else { panic!("{line}") };
        assert_eq!(message, expected);
    }
    for line in ["", "   ", "\n", "\\\n"] {
        assert!(matches!(read(line), ChatLine::Nothing), "{line:?}");
    }
}

#[test]
fn names_and_aliases_are_told_apart() {
    let mut names: Vec<&str> =
        COMMANDS.iter().flat_map(|entry| entry.alias.into_iter().chain([entry.name])).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn every_phrase_that_is_offered_is_understood_so_far() {
    for entry in COMMANDS {
        for phrase in entry.phrases {
            let more = ["", " 1", " new"].map(|more| format!("/{} {phrase}{more}", entry.name));
            assert!(more.iter().any(|line| command(line).is_some()), "/{} {phrase}", entry.name);
        }
    }
}
