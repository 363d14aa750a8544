use std::time::Duration;

use sederunt::{Append, DraftEvent, IdemKey, Json, PatchSession, SessionId, ShareAccess};
use serde_json::json;

use crate::world::{World, owner, queue, talk};

/// Everything that a store says of itself.
pub fn everything(world: &World, store: &str, more: &[&str]) -> Vec<String> {
    let ask = |args: &[&str]| world.ok(&[args, &["--json", "--store", store], more].concat());
    let mut all = vec![
        ask(&["sessions", "ls", "--all", "--limit", "1000"]),
        ask(&["keys", "ls"]),
        ask(&["users", "ls"]),
        ask(&["users", "ls", "--tenant", "acme"]),
        ask(&["claims", "ls"]),
        ask(&["tenants", "ls"]),
    ];
    let page: serde_json::Value = serde_json::from_str(&all[0]).unwrap();
    for session in page["items"].as_array().unwrap() {
        let id = session["id"].as_str().unwrap();
        all.push(ask(&["sessions", "tail", id, "--no-follow"]));
    }
    all
}

/// The key of a request that was made before the store was copied.
pub const KEY: IdemKey = IdemKey { scope: [7; 16], body: [8; 16], note: None };

/// A store with some of everything in it.
pub fn filled() -> World {
    let world = World::new();
    world.seed(async |store| {
        let me = owner();
        talk(store, "cli:main", 700).await;
        let odd = DraftEvent {
            kind: "user.message".into(),
            content: Some(Json::of(&"quote \" slash \\ tab \t line \n Ünïcödé 日本 🚀").unwrap()),
            metadata: Some(Json::parse(br#"{"n":1.50,"big":12345678901234567890}"#).unwrap()),
            external_event_id: Some("outside-1".into()),
            subthread_id: Some("thread".into()),
            ..DraftEvent::default()
        };
        let wish = Append { events: vec![odd], ..Append::default() };
        store.append(&me, &talk(store, "cli:other", 3).await, wish, Some(KEY)).await.unwrap();

        // A fork outlives the session that it began in.
        let origin = talk(store, "cli:origin", 5).await;
        store.fork(&me, &origin, 4, None).await.unwrap();
        store.delete(&me, &origin).await.unwrap();

        let main = SessionId::parse("cli:main").unwrap();
        store.share(&me, &main, ShareAccess::Read, Duration::from_secs(3600), None).await.unwrap();
        let patch = PatchSession {
            metadata: Some(Json::of(&serde_json::json!({ "colour": "red", "deep": { "a": [1] } })).unwrap()),
            participants: Some(vec!["ada".into(), "ben".into()]),
            ..PatchSession::default()
        };
        store.patch(&me, &main, patch, None).await.unwrap();
        // What a person recorded stays after its session has ended.
        store.define_task(&me, &json!({"slug": "review", "name": "Review"})).await.unwrap();
        let bridge = store.start_bridge(&me, Some("review"), None).await.unwrap().session.id;
        let marker = DraftEvent {
            kind: "human.marker".into(),
            content: Some(Json::of(&"drafting").unwrap()),
            ..DraftEvent::default()
        };
        let wish = Append { events: vec![marker], ..Append::default() };
        store.append(&me, &bridge, wish, None).await.unwrap();
        store.stop_bridge(&me, Some(bridge.as_str()), None).await.unwrap();
        queue(store, "job").await;
        queue(store, "taken").await;
    });
    world.ok(&["claims", "take", "--worker", "w", "--lease", "10m"]);
    world.ok(&["users", "create", "ada"]);
    world.ok(&["users", "link", "ada", "--platform", "slack", "--external-id", "T1:U1"]);
    world.ok(&["keys", "create", "--user", "ada", "--role", "member"]);
    world.ok(&["tenants", "create", "acme"]);
    world.ok(&["users", "create", "ada", "--tenant", "acme", "--name", "Another Ada"]);
    world.ok(&["tenants", "suspend", "acme"]);
    world
}

/// The newest line of the audit trail: who, what, on what.
fn last_act(world: &World) -> [String; 3] {
    let page = world.json(&["audit", "--limit", "1"]);
    ["actor", "action", "target"].map(|field| page["items"][0][field].as_str().unwrap().to_owned())
}

#[test]
fn a_backup_restores_to_the_same_store() {
    let world = filled();
    let before = everything(&world, ".store", &[]);
    world.ok(&["backup", "copy"]);
    assert_eq!(last_act(&world), ["operator", "store.backup", "copy"]);
    world.ok(&["restore", "copy", "--store", "fresh"]);
    assert_eq!(everything(&world, "fresh", &[]), before);
    let found = world.json(&["sessions", "ls", "--search", "message 699", "--store", "fresh"]);
    assert_eq!(found["items"].as_array().unwrap().len(), 1, "{found}");

    let again = world.fails(&["backup", "copy"], 2);
    assert!(again.contains("not empty"), "{again}");
    world.fails(&["restore", "copy", "--store", "fresh"], 4);
    world.fails(&["restore", "nothing", "--store", "other"], 2);
    world.fails(&["backup", "b", "--store", "nothing"], 3);
}

#[test]
fn a_backup_is_taken_beside_a_running_server() {
    let world = filled();
    let before = everything(&world, ".store", &[]);
    let server = world.serve(&[]);
    world.ok(&["backup", "copy"]);
    assert_eq!(last_act(&world), ["operator", "store.backup", "copy"]);
    world.ok(&["purge", "--yes"]);
    assert_eq!(last_act(&world)[..2], ["operator", "records.purge"]);
    assert_eq!(server.stop("-TERM"), 0);
    assert_eq!(everything(&world, "copy", &[]), before);
}

#[test]
fn what_is_remembered_and_rated_is_counted_with_and_without_a_server() {
    let world = World::new();
    world.seed(async |store| queue(store, "s").await);
    let counted = || {
        let status = world.json(&["memory", "status"]);
        assert_eq!(status["ratings"], json!({"positive": 0, "negative": 0, "skip": 0, "total": 0}));
        status
    };
    let alone = counted();
    let _server = world.serve(&[]);
    assert_eq!(counted(), alone);
    assert!(world.ok(&["memory", "status", "--thread", "s"]).contains("ratings"));
}

#[test]
fn a_migration_says_from_where_to_where() {
    let world = World::new();
    let made = world.json(&["migrate"]);
    assert_eq!(made["from"], 0);
    assert!(made["to"].as_u64().unwrap() >= 1);
    let again = world.json(&["migrate"]);
    assert_eq!(again["from"], again["to"]);
    let server = world.serve(&[]);
    world.fails(&["migrate"], 5);
    drop(server);
}
