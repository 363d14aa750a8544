use super::*;

fn command(line: &str) -> Option<Command> {
    match read(line) {
        Said::Command(command) => Some(command),
        _ => None,
    }
}

#[test]
fn every_command_is_read_with_its_arguments() {
    let text = |text: &str| text.to_owned();
    for (line, expected) in [
        ("/help", Command::Help),
        ("/help me", Command::Help),
        ("/status", Command::Status),
        ("/doctor", Command::Doctor),
        ("/history", Command::History(6)),
        ("/history 20", Command::History(20)),
        ("/context", Command::Context),
        ("/search history two words", Command::Search { scope: Scope::History, text: text("two words") }),
        ("/search all all", Command::Search { scope: Scope::All, text: text("all") }),
        ("/search memory  x", Command::Search { scope: Scope::Memory, text: text("x") }),
        ("/summary", Command::Summary(Length::Short)),
        ("/summary short", Command::Summary(Length::Short)),
        ("/summary full", Command::Summary(Length::Full)),
        ("/export md", Command::Export { format: "md", all: false, file: None }),
        ("/export md --all", Command::Export { format: "md", all: true, file: None }),
        ("/export txt --all a b", Command::Export { format: "txt", all: true, file: Some(text("a b")) }),
        ("/export txt --allied", Command::Export { format: "txt", all: false, file: Some(text("--allied")) }),
        (
            "/export json my talk.json",
            Command::Export { format: "json", all: false, file: Some(text("my talk.json")) },
        ),
        ("/keys", Command::Keys),
        ("/memory", Command::Memory(Memory::Status)),
        ("/memory status", Command::Memory(Memory::Status)),
        ("/memory list", Command::Memory(Memory::List(None))),
        ("/memory list facts", Command::Memory(Memory::List(Some(Kind::Fact)))),
        ("/memory list arc", Command::Memory(Memory::List(Some(Kind::Arc)))),
        ("/memory recall", Command::Memory(Memory::Recall(None))),
        ("/memory recall off", Command::Memory(Memory::Recall(Some(false)))),
        ("/memory forget fact 2", Command::Memory(Memory::Forget(Kind::Fact, 2))),
        ("/memory forget rules 1", Command::Memory(Memory::Forget(Kind::Rule, 1))),
        ("/memory clear all", Command::Memory(Memory::Clear(None))),
        ("/memory clear arcs", Command::Memory(Memory::Clear(Some(Kind::Arc)))),
        ("/feedback up", Command::Feedback(Feedback::Give(Signal::Up, None))),
        (
            "/feedback down it rambles  on",
            Command::Feedback(Feedback::Give(Signal::Down, Some(text("it rambles  on")))),
        ),
        ("/feedback up down", Command::Feedback(Feedback::Give(Signal::Up, Some(text("down"))))),
        ("/feedback more of it", Command::Feedback(Feedback::More(text("of it")))),
        ("/threads", Command::Threads(12)),
        ("/threads 3", Command::Threads(3)),
        ("/resume cli:main", Command::Resume(text("cli:main"))),
        ("/new", Command::New(None)),
        ("/new trip", Command::New(Some(text("trip")))),
        ("/clear", Command::Clear),
        ("/mode", Command::Mode),
        ("/tier", Command::Tier(None)),
        ("/tier quality", Command::Tier(Some(Tier::Quality))),
        ("/verbosity quiet", Command::Verbosity(Some(Verbosity::Quiet))),
        ("/trace on", Command::Trace(Some(true))),
        ("/debug state", Command::DebugState),
        ("/end", Command::End(Afterwards::Leave)),
        ("/end new", Command::End(Afterwards::New(None))),
        ("/end new trip", Command::End(Afterwards::New(Some(text("trip"))))),
        ("/exit", Command::Exit),
        ("/quit", Command::Exit),
        ("  /EXIT  ", Command::Exit),
        ("/h", Command::Help),
        ("/s", Command::Status),
        ("/m list rules", Command::Memory(Memory::List(Some(Kind::Rule)))),
        ("/k", Command::Keys),
        ("/t 5", Command::Threads(5)),
        ("/q", Command::Exit),
        ("/c", Command::Clear),
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
        let Said::Misread(Misread::Usage(entry)) = read(line) else { panic!("{line}") };
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
        let Said::Misread(Misread::Unknown { nearest, .. }) = read(line) else { panic!("{line}") };
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
        let Said::Message(message) = read(line) else { panic!("{line}") };
        assert_eq!(message, expected);
    }
    for line in ["", "   ", "\n", "\\\n"] {
        assert!(matches!(read(line), Said::Nothing), "{line:?}");
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
