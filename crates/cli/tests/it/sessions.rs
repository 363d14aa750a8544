use std::io::BufRead;

use sederunt::{ClaimRequest, Settle, limits};

use crate::world::{Running, World, owner, queue, talk};

#[test]
fn sessions_are_a_table_for_people_and_json_for_programs() {
    let world = World::new();
    world.seed(async |store| {
        talk(store, "cli:main", 2).await;
        queue(store, "job").await;
    });
    let table = world.ok(&["sessions", "ls"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("ID") && lines[0].contains("STATUS"), "{table}");
    assert_eq!(lines.len(), 3, "{table}");
    let column = lines[0].find("STATUS").unwrap();
    let row = lines.iter().find(|line| line.starts_with("job")).unwrap();
    assert!(row[column..].starts_with("pending"), "{table}");

    let page = world.json(&["sessions", "ls"]);
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    assert!(page["next_cursor"].is_null());
    for (filter, found) in
        [(["--type", "agent"], "job"), (["--status", "idle"], "cli:main"), (["--group", "live"], "job")]
    {
        let page = world.json(&["sessions", "ls", filter[0], filter[1]]);
        let items = page["items"].as_array().unwrap();
        assert_eq!((items.len(), items[0]["id"].as_str()), (1, Some(found)), "{filter:?}");
    }
    for (statuses, count) in [("idle,pending", 2), ("running,pending", 1), ("failed,draft", 0)] {
        let page = world.json(&["sessions", "ls", "--status", statuses]);
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{statuses}");
    }
    let refused = world.fails(&["sessions", "ls", "--status", "idle,banana"], 2);
    assert!(refused.contains("`banana`"), "{refused}");
    let first = world.json(&["sessions", "ls", "--limit", "1"]);
    let rest = world.json(&["sessions", "ls", "--cursor", first["next_cursor"].as_str().unwrap()]);
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
    assert_ne!(first["items"][0]["id"], rest["items"][0]["id"]);
    for bad in [["--type", "x"], ["--status", "x"], ["--group", "x"], ["--limit", "0"], ["--cursor", "x"]] {
        world.fails(&["sessions", "ls", bad[0], bad[1]], 2);
    }
}

#[test]
fn a_log_is_followed_as_it_grows() {
    let world = World::new();
    world.seed(async |store| drop(talk(store, "cli:main", 1).await));
    let server = world.serve(&[]);
    let mut tail = Running::start(&mut world.command(&["sessions", "tail", "cli:main", "--json"]));
    let mut lines = tail.stdout().lines();
    let mut next = || -> serde_json::Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["sequence"], 1);
    assert_eq!(next()["content"][0]["text"], "message 1");
    let client = sederunt_api::client::Client::new(&server.url, None).unwrap();
    let body = serde_json::json!({ "events": [{ "type": "user.message", "content": "and now?" }] });
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        client.post::<serde_json::Value>("/api/sessions/cli:main/events", &body).await.unwrap();
    });
    let live = next();
    assert_eq!((&live["sequence"], &live["content"][0]["text"]), (&3.into(), &"and now?".into()));
}

#[test]
fn people_who_are_present_are_listed() {
    let world = World::new();
    world.seed(async |store| drop(talk(store, "cli:main", 1).await));
    let server = world.serve(&[]);
    assert_eq!(
        world.json(&["sessions", "present", "cli:main"]),
        serde_json::json!({"count": 0, "present": []})
    );
    let client = sederunt_api::client::Client::new(&server.url, None).unwrap();
    let body = serde_json::json!({"state": {"cursor": 14}});
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let path = "/api/sessions/cli:main/presence";
        client
            .request::<serde_json::Value>(reqwest::Method::PUT, path, Some(body.to_string()))
            .await
            .unwrap();
    });
    assert_eq!(world.json(&["sessions", "present", "cli:main"])["present"][0]["state"]["cursor"], 14);
    let table = world.ok(&["sessions", "present", "cli:main"]);
    assert!(table.starts_with("USER") && table.contains("14"), "{table}");
    world.fails(&["sessions", "present", "nothing"], 3);
}

#[test]
fn a_tail_without_following_ends_at_the_end() {
    let world = World::new();
    world.seed(async |store| drop(talk(store, "cli:main", 3).await));
    let all = world.ok(&["sessions", "tail", "cli:main", "--no-follow"]);
    assert_eq!(all.lines().count(), 4, "{all}");
    assert!(all.lines().last().unwrap().ends_with("message 3"), "{all}");
    let last = world.ok(&["sessions", "tail", "cli:main", "--no-follow", "--after", "3", "--json"]);
    let event: serde_json::Value = serde_json::from_str(last.trim()).unwrap();
    assert_eq!(event["sequence"], 4);
    world.fails(&["sessions", "tail", "cli:main", "--no-follow", "--after", "99"], 2);
    world.fails(&["sessions", "tail", "nothing", "--no-follow"], 3);
}

#[test]
fn a_session_is_named_by_the_beginning_of_its_id_stopped_and_followed_to_its_end() {
    let world = World::new();
    world.seed(async |store| {
        queue(store, "job-alpha").await;
        queue(store, "job-beta").await;
    });
    assert_eq!(world.json(&["sessions", "show", "job-a"])["id"], "job-alpha");
    let several = world.fails(&["sessions", "show", "job-"], 2);
    assert!(several.contains("job-alpha") && several.contains("job-beta"), "{several}");
    let short = world.fails(&["sessions", "show", "job"], 3);
    assert!(short.contains("there is no session `job`, or it is not yours to see"), "{short}");
    assert_eq!(world.json(&["sessions", "stop", "job-b"])["status"], "abandoned");
    let log = world.ok(&["sessions", "tail", "job-b"]);
    assert!(log.lines().last().unwrap().contains("status_change"), "{log}");
    assert_eq!(world.ok(&["sessions", "rm", "job-b"]), "deleted job-beta\n");
    assert_eq!(world.json(&["sessions", "ls"])["items"].as_array().unwrap().len(), 1);
}

#[test]
fn a_purge_is_counted_before_it_is_done_and_work_alone_counts() {
    let world = World::new();
    world.seed(async |store| drop(talk(store, "cli:main", 1).await));
    let preview = world.ok(&["purge", "--ratings", "1"]);
    assert!(preview.contains("would delete 0 ratings and 0 crisis records of all tenants"), "{preview}");
    assert!(preview.contains("older than 1 day, crisis records older than 90 days"), "{preview}");
    assert_eq!(world.ok(&["purge", "--yes"]), "Deleted 0 ratings and 0 crisis records.\n");
    assert!(world.ok(&["work"]).contains("needs me"));
}

#[test]
fn an_export_holds_what_was_said_and_with_all_the_whole_log() {
    let world = World::new();
    world.seed(async |store| drop(talk(store, "cli:main", 1500).await));
    for format in ["md", "txt"] {
        let text = world.ok(&["sessions", "export", "cli:main", "--format", format]);
        assert!(text.contains("message 1\n") && text.contains("message 1500"), "{format}");
        assert!(!text.contains("session.created"), "{format}");
        let whole = world.ok(&["sessions", "export", "cli:main", "--format", format, "--all"]);
        assert!(whole.contains("session.created"), "{format}");
    }
    world.ok(&["sessions", "export", "cli:main", "--format", "json", "--output", "out.json"]);
    let text = std::fs::read_to_string(world.path("out.json")).unwrap();
    let export: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(export["events"].as_array().unwrap().len(), 1501);
    world.fails(&["sessions", "export", "nothing", "--output", "none.json"], 3);
    assert!(!world.path("none.json").exists());
}

#[test]
fn a_failed_session_is_run_again_and_deleted() {
    let world = World::new();
    world.seed(async |store| {
        queue(store, "job").await;
        let request = ClaimRequest {
            worker: "w".into(),
            session_types: Vec::new(),
            agent_slugs: Vec::new(),
            limit: 1,
            lease: limits::LEASE_DEFAULT,
            wait: std::time::Duration::ZERO,
        };
        let claimed = store.claim(&owner(), request, None).await.unwrap().pop().unwrap();
        let how = Settle::Fail { error: "it broke".into(), retryable: false, reason: None, usage: None };
        store.settle(&owner(), &claimed.session.id, claimed.epoch, how, None).await.unwrap();
    });
    let shown = world.ok(&["sessions", "show", "job"]);
    assert!(shown.contains("it broke") && shown.contains("failed"), "{shown}");
    let again = world.json(&["sessions", "retry", "job"]);
    assert_eq!((again["status"].as_str(), again["retry_of"].as_str()), (Some("pending"), Some("job")));
    let twice = world.fails(&["sessions", "retry", again["id"].as_str().unwrap()], 4);
    assert!(twice.contains("only failed, expired or abandoned sessions are retried"), "{twice}");
    assert_eq!(world.ok(&["sessions", "rm", "job"]), "deleted job\n");
    world.fails(&["sessions", "rm", "job"], 3);
}

#[test]
fn a_title_cannot_steer_the_terminal() {
    let world = World::new();
    world.seed(async |store| {
        let wish = sederunt::OpenSession {
            id: Some("x".into()),
            session_type: Some(sederunt::SessionType::Mixed),
            title: Some("red \u{1b}[31m\nline".into()),
            ..sederunt::OpenSession::default()
        };
        store.open(&owner(), wish, None).await.unwrap();
    });
    let table = world.ok(&["sessions", "ls"]);
    assert_eq!(table.lines().count(), 2, "{table:?}");
    assert!(!table.contains('\u{1b}'), "{table:?}");
}
