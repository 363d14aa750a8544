use std::time::Duration;

use sederunt::{Sederunt, SessionId};
use sederunt_core::definitions::Task;
use sederunt_core::strict;
use sederunt_core::work::{ClaimRequest, Settle};
use serde_json::{Value, json};

use crate::world::{World, owner, ran, talk, until};

const CONTEXT: &str = "It edited the lock file by hand";
const CHANGE: &str = "Run the package manager instead of editing its files";

/// The same on a store that is opened for each command, and through a server that has it open.
fn both_ways(test: impl Fn(&World)) {
    let world = World::new();
    world.seed(async |store| drop(talk(store, "cli:main", 2).await));
    test(&world);
    let world = World::new();
    world.seed(async |store| drop(talk(store, "cli:main", 2).await));
    let server = world.serve(&["--workers", "0"]);
    test(&world);
    assert_eq!(server.stop("-TERM"), 0);
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// Gives feedback that a lesson can be drawn from, and answers with the id of its session.
fn given(world: &World) -> String {
    let given = world.json(&["feedback", "give", "down", CONTEXT, "--change", CHANGE, "--tag", "git"]);
    text(&given["feedback_session"]["session_id"]).to_owned()
}

#[test]
fn feedback_is_given_added_to_and_becomes_a_lesson() {
    both_ways(|world| {
        let words: Vec<&str> = CONTEXT.split(' ').collect();
        let mut args = vec!["feedback", "give", "down"];
        args.extend(words);
        args.extend(["--change", CHANGE, "--tag", "git,deps", "--skill", "Builder"]);
        args.extend(["--session", "cli:main", "--sequence", "1", "--sequence", "2"]);
        let given = world.json(&args);
        assert_eq!(given["status"], "accepted", "{given}");
        let event = text(&given["feedback_event_id"]);
        let session = text(&given["feedback_session"]["session_id"]);
        assert!(event.starts_with("fb_") && session.starts_with("fbs_"), "{given}");

        let added = world.json(&["feedback", "add", session, "You forgot to run the tests"]);
        assert_eq!((&added["status"], &added["message_count"]), (&json!("appended"), &json!(1)));
        let told = world.ok(&["feedback", "add", session, "I was not asked to", "--role", "assistant"]);
        assert!(told.starts_with("added message 2; open until 20"), "{told}");
        assert_eq!(world.json(&["feedback", "ls", "--open"])["items"][0]["session_id"], session);
        let shown = world.ok(&["feedback", "show", session]);
        for part in [event, "open until", CONTEXT, "user: You forgot", "assistant: I was", "(omission)"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }

        let done = world.json(&["feedback", "finalize", session]);
        assert_eq!((&done["status"], &done["learned"]), (&json!("finalized"), &json!("new")), "{done}");
        let lesson = &done["lesson"];
        assert_eq!((text(&lesson["text"]), &lesson["occurrences"]), (CHANGE, &json!(1)));
        assert_eq!(lesson["sources"][0]["sequences"], json!([1, 2]));
        let again = world.ok(&["feedback", "finalize", session]);
        assert!(again.starts_with("was finalized at 20") && again.contains(text(&lesson["id"])), "{again}");
        assert_eq!(world.json(&["feedback", "ls", "--open"])["items"], json!([]));
        let table = world.ok(&["feedback", "ls"]);
        assert!(table.starts_with("SESSION") && table.contains("finalized"), "{table}");

        let known =
            world.ok(&["feedback", "give", "down", "It was editing the files of the package manager again"]);
        assert!(known.contains(&format!("known already: after a thumb down: {CHANGE}")), "{known}");
        assert!(known.contains(" is open until 20"), "{known}");

        let stats = world.json(&["feedback", "stats"]);
        assert_eq!((&stats["down"], &stats["skills"][0]["name"]), (&json!(2), &json!("builder")));
        assert!(world.ok(&["feedback", "stats"]).contains("0 up, 2 down (0 % up)"));
        let page = world.ok(&["feedback", "summary", "--recent", "1"]);
        assert!(page.starts_with("# Feedback\n") && !page.contains(CHANGE), "{page}");
        assert!(text(&world.json(&["feedback", "summary"])["markdown"]).contains(CHANGE));
    });
}

#[test]
fn what_says_too_little_is_kept_as_a_thumb_and_asked_back_about() {
    both_ways(|world| {
        let asked = world.json(&["feedback", "give", "down", "wrong"]);
        assert_eq!(asked["status"], "clarification_required", "{asked}");
        let told = world.ok(&["feedback", "give", "up"]);
        assert!(told.contains("What worked") && told.contains("For example: "), "{told}");
        let event = text(&asked["feedback_event_id"]);
        let opened = world.json(&["feedback", "open", event, "down", CONTEXT]);
        assert_eq!(opened["status"], "open");
        let done = world.ok(&["feedback", "finalize", text(&opened["session_id"])]);
        assert!(done.starts_with("new: after a thumb down: ") && done.contains(CONTEXT), "{done}");
    });
}

#[test]
fn what_cannot_be_done_does_not_look_like_success() {
    both_ways(|world| {
        let session = given(world);
        let secret = "the password: hunter2hunter2";
        let vague = world.json(&["feedback", "give", "up"]);
        let event = text(&vague["feedback_event_id"]);
        for (args, code, word) in [
            (&["feedback", "give", "down", secret][..], 2, "(blocked)"),
            (&["feedback", "give", "down", CONTEXT, "--session", "nothing"], 2, "(invalid)"),
            (
                &["feedback", "give", "down", CONTEXT, "--session", "cli:main", "--sequence", "9"],
                2,
                "(invalid)",
            ),
            (&["feedback", "open", event, "up", secret], 2, "(blocked)"),
            (&["feedback", "open", event, "down"], 2, "(invalid)"),
            (&["feedback", "open", "fb_nothing", "up"], 3, "(not_found)"),
            (&["feedback", "add", &session, secret], 2, "(blocked)"),
            (&["feedback", "add", &session, "  "], 2, "(invalid)"),
            (&["feedback", "add", "fbs_nothing", "more"], 3, "(not_found)"),
            (&["feedback", "finalize", "fbs_nothing"], 3, "(not_found)"),
            (&["feedback", "show", "fbs_nothing"], 3, "(not_found)"),
            (&["feedback", "summary", "--recent", "0"], 2, "(invalid)"),
            (&["lessons", "show", "lesson_nothing"], 3, "(not_found)"),
            (&["lessons", "accept", "lesson_nothing"], 3, "(not_found)"),
        ] {
            let ran = world.run(&[args, &["--json"]].concat());
            assert_eq!(ran.code, code, "{args:?}: {}{}", ran.stdout, ran.stderr);
            let said = ran.stderr;
            assert!(said.starts_with("error: ") && said.contains(word), "{args:?}: {said}");
        }
        for args in [
            &["feedback", "give", "sideways"][..],
            &["feedback", "give", "down", "--sequence", "1"],
            &["feedback", "add", &session, "more", "--role", "system"],
            &["lessons", "ls", "--state", "forgotten"],
            &["lessons", "search"],
            &["lessons", "edit", "lesson_nothing"],
            &["lessons", "rules", "--min", "0"],
        ] {
            assert_eq!(world.run(args).code, 2, "{args:?}");
        }
        for message in 1..=20 {
            world.ok(&["feedback", "add", &session, &format!("message {message}")]);
        }
        let full = world.fails(&["feedback", "add", &session, "one more"], 4);
        assert!(!full.contains("(full)"), "{full}");
        world.ok(&["feedback", "finalize", &session]);
        let closed = world.run(&["feedback", "add", &session, "too late", "--json"]);
        assert_eq!(closed.code, 4, "{}", closed.stderr);
        let answer: Value = serde_json::from_str(&closed.stdout).unwrap();
        assert_eq!((&answer["status"], &answer["session_id"]), (&json!("closed"), &json!(session)));
    });
}

#[test]
fn lessons_are_found_accepted_reworded_and_retired() {
    both_ways(|world| {
        let mut ids = Vec::new();
        for _ in 0..3 {
            let done = world.json(&["feedback", "finalize", &given(world)]);
            ids.push(text(&done["lesson"]["id"]).to_owned());
        }
        let id = ids[0].as_str();
        assert!(ids.iter().all(|other| other == id), "{ids:?}");
        let table = world.ok(&["lessons", "ls", "--state", "active,proposed", "--tag", "git"]);
        assert!(
            table.starts_with("LESSON") && table.contains(&format!("after a thumb down: {CHANGE}")),
            "{table}"
        );
        assert_eq!(world.json(&["lessons", "ls", "--state", "retired"])["items"], json!([]));
        assert_eq!(world.json(&["lessons", "ls", "--tag", "css"])["items"], json!([]));
        assert_eq!(world.json(&["lessons", "search", "package", "manager"])["items"][0]["id"], id);
        assert_eq!(world.json(&["lessons", "search", "umbrella"])["items"], json!([]));
        let rules = world.ok(&["lessons", "rules"]);
        assert!(rules.contains(id) && rules.contains("WHEN"), "{rules}");
        assert!(text(&world.json(&["lessons", "rules"])["markdown"]).contains(CHANGE));
        assert_eq!(world.json(&["lessons", "rules", "--min", "4"])["items"], json!([]));

        let shown = world.ok(&["lessons", "show", id]);
        for part in [CHANGE, "came up     3", "shown       0", "fb_"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let edited = world.json(&["lessons", "edit", id, "--text", "Let npm do it", "--tag", "npm"]);
        assert_eq!((text(&edited["text"]), &edited["tags"]), ("Let npm do it", &json!(["npm"])));
        assert_eq!(world.json(&["lessons", "edit", id, "--tag", ""])["tags"], json!([]));
        world.fails(&["lessons", "edit", id, "--text", "password: hunter2hunter2"], 2);
        assert_eq!(world.json(&["lessons", "accept", id])["confidence"], 1.0);
        let retired = world.ok(&["lessons", "retire", id]);
        assert!(
            retired.starts_with("after a thumb down: Let npm do it (") && retired.contains("retired"),
            "{retired}"
        );
        assert_eq!(world.json(&["lessons", "rules"])["items"], json!([]));
    });
}

#[test]
fn what_people_wrote_cannot_steer_the_terminal() {
    let world = World::new();
    let words = "It \u{1b}[31mdeleted\u{9b} the\nnotes of the meeting";
    let given = world.json(&["feedback", "give", "down", words]);
    let session = text(&given["feedback_session"]["session_id"]).to_owned();
    let mut said = world.ok(&["feedback", "show", &session]);
    said += &world.ok(&["feedback", "ls"]);
    said += &world.ok(&["feedback", "summary"]);
    said += &world.ok(&["feedback", "finalize", &session]);
    said += &world.ok(&["lessons", "ls"]);
    assert!(said.contains("notes of the meeting"), "{said}");
    assert!(!said.contains('\u{1b}') && !said.contains('\u{9b}'), "{said:?}");
}

#[test]
fn silence_makes_a_lesson_with_a_server_and_without() {
    let quick = |world: &World, args: &[&str]| {
        let mut command = world.command(args);
        let ran = ran(command.env("SEDERUNT_FEEDBACK_SESSION_TIMEOUT", "1ms").output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        serde_json::from_str::<Value>(&ran.stdout).unwrap()
    };
    let world = World::new();
    quick(&world, &["feedback", "give", "down", CONTEXT, "--json"]);
    let lessons = until("a lesson", || {
        Some(quick(&world, &["lessons", "ls", "--json"])).filter(|page| page["items"][0].is_object())
    });
    assert!(text(&lessons["items"][0]["text"]).contains(CONTEXT), "{lessons}");

    let world = World::new();
    std::fs::write(world.path("conf.toml"), "[feedback]\nsession_timeout = \"1ms\"\n").unwrap();
    let _server = world.serve(&["--config", "conf.toml"]);
    let session = given(&world);
    let closed = until("the end of the feedback session", || {
        Some(world.json(&["feedback", "show", &session])).filter(|shown| shown["status"] == "finalized")
    });
    assert_eq!(closed["reason"], "silence");
    assert_eq!(world.json(&["lessons", "ls"])["items"][0]["id"], closed["lesson_id"]);
}

/// A run of the task `letter` that has failed.
async fn failed_run(store: &Sederunt) -> SessionId {
    let (engine, owner) = (store.engine(), owner());
    let task: Task =
        strict::read(r#"{"slug": "letter", "name": "Write a letter", "agent_slug": "eliza"}"#).unwrap();
    engine.define(&owner, None, task, None).await.unwrap();
    let run = engine.trigger(&owner, "letter", None, None).await.unwrap();
    let request = ClaimRequest {
        worker: "w".into(),
        session_types: Vec::new(),
        agent_slugs: Vec::new(),
        limit: 1,
        lease: Duration::from_secs(30),
        wait: Duration::ZERO,
    };
    let epoch = engine.claim(&owner, request, None).await.unwrap()[0].epoch;
    let error = "no \u{1b}[31mink".into();
    let how = Settle::Fail { error, retryable: false, reason: None, usage: None };
    engine.settle(&owner, &run.id, epoch, how, None).await.unwrap();
    run.id
}

#[test]
fn failed_runs_are_listed_by_task_and_session_and_counted_apart() {
    for served in [false, true] {
        let world = World::new();
        let run = world.seed(async |store| failed_run(store).await);
        let _server = served.then(|| world.serve(&["--workers", "0"]));
        let of_one = ["feedback", "failures", "--task", "letter", "--session", run.as_str()];
        for args in [&of_one[..2], &of_one[..]] {
            let listed = world.json(args);
            let failure = &listed["items"][0];
            assert_eq!(
                (&failure["code"], text(&failure["session_id"])),
                (&json!("run_failed"), run.as_str())
            );
            let table = world.ok(args);
            assert!(table.starts_with("WHEN") && table.contains("letter"), "{table}");
            assert!(!table.contains('\u{1b}'), "{table:?}");
        }
        world.fails(&["feedback", "failures", "--task", "nothing"], 3);
        world.fails(&["feedback", "failures", "--session", "a/b"], 2);
        assert!(world.ok(&["feedback", "stats"]).contains("1 in 7 days (run_failed 1)"));
        assert!(world.ok(&["feedback", "summary"]).contains("- Failed runs: 1 in all"));
    }
}
