use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::world::{World, talk};

fn level(findings: &Value, what: &str) -> String {
    let found = findings.as_array().unwrap().iter().find(|finding| finding["what"] == what);
    found.unwrap_or_else(|| panic!("{what}: {findings}"))["level"].as_str().unwrap().to_owned()
}

#[test]
fn a_sound_store_is_found_sound_with_and_without_its_server() {
    let world = World::new();
    world.seed(async |store| drop(talk(store, "cli:main", 1).await));
    for server in [None, Some(world.serve(&[]))] {
        let findings = world.json(&["doctor"]);
        for what in [
            "sqlite", "server", "directory", "threads.sqlite3", "memory.sqlite3", "crisis.sqlite3",
            "session_feedback.sqlite3", "disk", "write-ahead log", "schema", "outbox", "clock", "memories",
            "crises", "ratings",
        ] {
            assert_eq!(level(&findings, what), "ok", "{what}: {findings}");
        }
        drop(server);
    }
    assert!(world.ok(&["doctor"]).contains("CHECK"));
    assert_eq!(level(&world.json(&["doctor"]), "crisis region"), "warn", "no region is set");
}

#[test]
fn what_is_wrong_is_said_with_what_to_do_and_fails() {
    let world = World::new();
    let missing = world.run(&["doctor", "--json"]);
    assert_eq!(missing.code, 1);
    assert!(missing.stdout.contains("--store"), "{}", missing.stdout);

    assert_eq!(world.serve(&[]).stop("-TERM"), 0);
    let key = world.store().join("operator.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::set_permissions(world.store(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let ran = world.run(&["doctor", "--json"]);
    assert_eq!(ran.code, 1);
    let findings: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (level(&findings, "operator.key"), level(&findings, "directory")),
        ("fail".into(), "warn".into())
    );

    std::fs::write(world.store().join("memory.sqlite3"), b"this is no database, however long it may be")
        .unwrap();
    let ran = world.run(&["doctor", "--json"]);
    let findings: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, level(&findings, "memories")), (1, "fail".into()));

    std::fs::write(world.store().join("threads.sqlite3"), b"this is no database, however long it may be")
        .unwrap();
    let ran = world.run(&["doctor", "--json"]);
    let findings: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, level(&findings, "store")), (1, "fail".into()));
}

#[test]
fn a_database_that_does_not_answer_is_a_failure() {
    let world = World::new();
    let ran = world.run(&["doctor", "--store", "postgres://nobody@127.0.0.1:1/x"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("fail"), "{}", ran.stdout);
}
