//! The guides say what happens: their commands are run as they stand, against a real server.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::world::{Ran, World, ran};

/// The commands of a guide, in their order.
fn commands(guide: &str) -> String {
    commands_of(&format!("docs/guides/{guide}"))
}

fn commands_of(page: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.collect::<Vec<_>>().join("\n")
}

/// The guide to lessons: what is done by hand, and what an agent does.
fn lessons() -> (String, String) {
    let guide = commands("lessons.md");
    let (by_hand, by_agent) = guide.split_once("tool() {").unwrap();
    (by_hand.to_owned(), format!("tool() {{{by_agent}"))
}

/// Runs the commands of a guide as somebody who has the binary would.
fn run(world: &World, guide: &str) -> Ran {
    let bin = Path::new(env!("CARGO_BIN_EXE_sederunt")).parent().unwrap().display();
    let script = format!("set -eu\nPATH=\"{bin}:$PATH\"\n{guide}");
    // A guide may wait for something, and must not do so for ever.
    let mut shell = Command::new("timeout");
    shell.args(["120", "bash", "-c", &script]).current_dir(world.directory.path()).stdin(Stdio::null());
    let ran = ran(shell.output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    ran
}

#[test]
fn the_first_sixty_seconds_run_beside_the_demo_as_the_readme_says() {
    let world = World::new();
    let server = world.serve(&["--demo"]);
    let readme = commands_of("README.md");
    assert!(readme.contains("make run") && readme.contains("/stream?after=0"), "{readme}");
    let commands: Vec<&str> = readme.lines().filter(|line| !line.starts_with("make run")).collect();
    let commands = commands
        .join("\n")
        .replace("localhost:7070", &server.url)
        // A reader ends the stream by hand.
        .replace("curl -sN ", "timeout 2 curl -sN ")
        .replace("/stream?after=0\"", "/stream?after=0\" || test $? = 124");
    let ran = run(&world, &commands);
    for part in [
        "Is anybody sitting?", "event: ready", "I will remember that.",
        "You told me: my sister is called Mona.",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let last = ran.stdout.trim().lines().last().unwrap_or_default();
    let done: serde_json::Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{}", ran.stdout));
    assert_eq!(done["input"], serde_json::json!({"city": "Oban"}), "the worker is handed its own work");
    assert_eq!((&done["status"], &done["result"]), (&"completed".into(), &serde_json::json!({"rain": true})));
    assert_eq!(server.stop("-TERM"), 0);
}

#[test]
fn the_first_task_runs_as_the_guide_says() {
    let world = World::new();
    let server = world.serve(&[]);
    let guide = commands("first-task.md").replace("http://localhost:7070", &server.url);
    assert!(guide.contains("post claims") && guide.contains("/decide"), "{guide}");
    let ran = run(&world, &guide);
    let last = ran.stdout.trim().lines().last().unwrap_or_default();
    let entity: serde_json::Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{}", ran.stdout));
    assert_eq!(entity["fields"], serde_json::json!({"rain": true, "summary": "Rain until five, then sun."}));
}

#[test]
fn tools_are_run_as_the_guide_says() {
    let world = World::new();
    let server = world.serve(&[]);
    let guide = commands("tools.md").replace("http://localhost:7070", &server.url);
    assert!(guide.contains("tools run") && guide.contains("/invoke"), "{guide}");
    let ran = run(&world, &guide);
    assert!(ran.stdout.contains("values.city"), "a value that is missing is named: {}", ran.stdout);
    let last = ran.stdout.trim().lines().last().unwrap_or_default();
    let done: serde_json::Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{}", ran.stdout));
    assert_eq!(
        (&done["status"], &done["result"]),
        (&"completed".into(), &serde_json::json!({"headline": "Rain"}))
    );
    let history = world.json(&["tools", "history", "weather"]);
    assert_eq!(history["items"].as_array().unwrap().len(), 4, "{history}");
}

#[test]
fn people_are_asked_as_the_guide_says() {
    let world = World::new();
    let server = world.serve(&[]);
    let guide = commands("ask-people.md").replace("http://localhost:7070", &server.url);
    assert!(guide.contains("post views") && guide.contains("submit-interaction"), "{guide}");
    let ran = run(&world, &guide);
    assert!(ran.stdout.contains("values.place"), "{}", ran.stdout);
    let lines: Vec<&str> = ran.stdout.trim().lines().collect();
    let said = [r#""values":{"place":"Oban","why":"The ferry."}"#, r#""values":{"place":"Mull"}"#];
    assert_eq!(lines[lines.len() - 2..], said, "the answer that was waited for, then the others");
    let views = world.json(&["views", "ls"]);
    let view = views["items"][0]["id"].as_str().unwrap();
    let table = world.ok(&["views", "answers", view]);
    assert!(table.lines().count() == 3 && table.contains("cookie") && table.contains("Mull"), "{table}");
    assert!(world.json(&["views", "show", view])["url"].as_str().unwrap().contains("?share="));
}

#[test]
fn a_group_is_talked_in_as_the_guide_says() {
    let world = World::new();
    let server = world.serve(&["--auth", "keys"]);
    let guide = commands("groups.md").replace("http://localhost:7070", &server.url);
    assert!(
        guide.contains("keys create --role channel") && guide.contains("users link mia --code"),
        "{guide}"
    );
    let ran = run(&world, &guide);
    let said: Vec<&str> = ran.stdout.lines().filter(|line| matches!(*line, "true" | "false")).collect();
    assert_eq!(said, ["true", "false", "true", "false", "true"], "{}", ran.stdout);
    assert!(ran.stdout.contains("Send /link for a code"), "{}", ran.stdout);
    let users = world.json(&["users", "ls"]);
    let mia = users["items"].as_array().or(users.as_array()).unwrap();
    let mia = mia.iter().find(|user| user["id"] == "mia").unwrap();
    assert_eq!(mia["identities"].as_array().map(Vec::len), Some(2), "{mia}");
}

#[test]
fn agents_know_what_a_person_works_on_as_the_guide_says() {
    let world = World::new();
    let server = world.serve(&[]);
    let guide = commands("working-on.md").replace("http://localhost:7070", &server.url);
    assert!(guide.contains("post sessions/human/start") && guide.contains("sederunt human block"), "{guide}");
    let ran = run(&world, &guide);
    for part in [
        "Working on: **Q2 portfolio review** (started at ",
        " viewed **Acme Corp** (companies)\n",
        " marker \"drafting outreach to Acme\"\n",
        " navigate /chat\n</recent-activity>\n",
        "You are working on nothing.\ndeleted 1 session",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("navigate /t/") && !ran.stdout.contains("tab=notes"), "{}", ran.stdout);
    let answers: Vec<serde_json::Value> =
        ran.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let injected: Vec<&serde_json::Value> = answers
        .iter()
        .map(|answer| &answer["events"][0]["metadata"])
        .filter(|told| !told.is_null())
        .collect();
    let [talk, work] = &injected[..] else { panic!("{}", ran.stdout) };
    assert_eq!((&talk["kind"], talk), (&"activity".into(), work), "{}", ran.stdout);
}

#[test]
fn responses_are_collected_and_promoted_as_the_guide_says() {
    let world = World::new();
    let server = world.serve(&[]);
    let guide = commands("collect-responses.md").replace("http://localhost:7070", &server.url);
    assert!(guide.contains("/submit") && guide.contains("/decide"), "{guide}");
    let ran = run(&world, &guide);
    assert!(ran.stdout.contains("name, size → new exhibitor"), "the inbox says what waits: {}", ran.stdout);
    assert!(ran.stdout.contains("size:large"), "the flag of the large stand: {}", ran.stdout);
    let lines: Vec<&str> = ran.stdout.trim().lines().collect();
    let said: Vec<&str> =
        lines.iter().copied().filter(|line| !line.contains(' ') && !line.is_empty()).collect();
    for word in ["draft", "submitted", "approved", "promoted"] {
        assert!(said.contains(&word), "{word}: {}", ran.stdout);
    }
    let last = lines.last().copied().unwrap_or_default();
    let page: serde_json::Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{}", ran.stdout));
    let made = &page["items"][0];
    assert_eq!(made["fields"], serde_json::json!({"name": "Acme", "size": "small"}));
    assert_eq!((&made["title"], &made["type_slug"]), (&"Acme".into(), &"exhibitor".into()));
}

#[test]
fn one_document_is_edited_together_as_the_guide_says() {
    let world = World::new();
    let server = world.serve(&[]);
    let guide = commands("shared-document.md").replace("http://localhost:7070", &server.url);
    assert!(guide.contains("/patch") && guide.contains("documents apply"), "{guide}");
    let ran = run(&world, &guide);
    for part in [
        r#""rebased":true"#, r#""code":"stale_base""#, r#""conflicts":["/to"]"#, r#""to":"Iona""#,
        r#""from": "Oban""#, r#""days": 4"#,
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let last = ran.stdout.trim().lines().last().unwrap_or_default();
    let entity: serde_json::Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{}", ran.stdout));
    assert_eq!(entity["fields"], serde_json::json!({"name": "Acme", "size": 12}));
    let all = world.json(&["documents", "ls", "trip"]);
    assert_eq!(all["documents"].as_array().map(Vec::len), Some(2), "{all}");
}

#[test]
fn a_thumb_down_by_hand_comes_back_as_the_guide_says() {
    let world = World::new();
    let server = world.serve(&[]);
    let (guide, _) = lessons();
    assert!(guide.contains("post feedback") && guide.contains("sederunt feedback finalize"), "{guide}");
    let ran = run(&world, &guide.replace("http://localhost:7070", &server.url));
    for part in [
        "new: after a thumb down: Take the version from the newest tag (lesson_",
        "complaint (omission): looked at the tags",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let answers: Vec<serde_json::Value> =
        ran.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let [.., log, lesson] = &answers[..] else { panic!("{}", ran.stdout) };
    assert_eq!(log["events"][0]["metadata"], serde_json::json!({"kind": "lessons", "ids": [lesson["id"]]}));
    assert_eq!((&lesson["effect"]["shown"], &lesson["agent_slug"]), (&1.into(), &"writer".into()));
}

#[test]
fn a_thumb_down_comes_back_as_the_guide_says() {
    let world = World::new();
    let (_, guide) = lessons();
    assert!(guide.contains("tool recall") && guide.contains("tool prevention_rules"), "{guide}");
    let ran = run(&world, &guide);
    let answers: Vec<serde_json::Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{}", ran.stdout)))
        .collect();
    let [given, added, drawn, recalled, second, third, rules] = &answers[..] else {
        panic!("{}", ran.stdout)
    };
    let of = |answer: &serde_json::Value| answer["result"]["structuredContent"].clone();
    assert_eq!((&of(given)["status"], &of(added)["status"]), (&"accepted".into(), &"appended".into()));
    assert_eq!(
        (&of(drawn)["learned"], &of(drawn)["session"]["complaints"][0]["type"]),
        (&"new".into(), &"omission".into())
    );
    assert!(of(recalled)["markdown"].as_str().unwrap().contains("package manager"), "{recalled}");
    assert_eq!((&of(second)["learned"], &of(third)["learned"]), (&"again".into(), &"again".into()));
    assert_eq!(of(rules)["items"][0]["lesson"]["occurrences"], 3, "{rules}");
}
