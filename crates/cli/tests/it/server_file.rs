use crate::world::{World, queue, talk};

#[test]
fn commands_beside_a_server_go_through_it_and_say_the_same() {
    let world = World::new();
    world.seed(async |store| {
        talk(store, "cli:main", 3).await;
        queue(store, "job").await;
    });
    let commands: &[&[&str]] = &[
        &["sessions", "ls"],
        &["sessions", "show", "cli:main"],
        &["sessions", "tail", "cli:main", "--no-follow"],
        &["sessions", "tail", "cli:main", "--no-follow", "--after", "2", "--json"],
        &["sessions", "export", "cli:main", "--format", "json"],
        &["sessions", "export", "cli:main", "--format", "md"],
        &["keys", "ls"],
        &["users", "ls"],
        &["tenants", "ls"],
        &["claims", "ls"],
    ];
    let direct: Vec<String> = commands.iter().map(|args| world.ok(args)).collect();
    let server = world.serve(&[]);
    for (args, before) in commands.iter().zip(direct) {
        assert_eq!(world.ok(args), before, "{args:?}");
    }
    assert_eq!(server.stop("-TERM"), 0);
}

#[test]
fn orders_beside_a_server_reach_the_store() {
    let world = World::new();
    world.seed(async |store| drop(queue(store, "job").await));
    let server = world.serve(&[]);

    let taken = world.json(&["claims", "take", "--worker", "me", "--lease", "10m"]);
    assert_eq!(taken[0]["session"]["id"], "job");
    let claims = world.json(&["claims", "ls"]);
    assert_eq!((&claims[0]["id"], &claims[0]["claim"]["worker"]), (&"job".into(), &"me".into()));

    world.ok(&["tenants", "create", "acme"]);
    world.ok(&["users", "create", "ada", "--tenant", "acme"]);
    let key = world.json(&["keys", "create", "--tenant", "acme", "--user", "ada", "--role", "member"]);
    assert_eq!((key["tenant"].as_str(), key["user"].as_str()), (Some("acme"), Some("ada")));
    world.ok(&["keys", "revoke", key["id"].as_str().unwrap(), "--tenant", "acme"]);
    world.fails(&["sessions", "show", "nothing"], 3);
    world.fails(&["sessions", "rm", "job"], 4);
    assert_eq!(server.stop("-TERM"), 0);

    assert_eq!(world.json(&["claims", "ls"]), claims, "the store says the same without its server");
    assert!(!world.json(&["keys", "ls", "--tenant", "acme"])[0]["revoked_at"].is_null());
}

#[test]
fn what_a_killed_server_left_behind_is_not_believed() {
    let world = World::new();
    let server = world.serve(&[]);
    let stale = std::fs::read_to_string(world.store().join("server.json")).unwrap();
    drop(server);
    assert_eq!(std::fs::read_to_string(world.store().join("server.json")).unwrap(), stale);
    world.ok(&["sessions", "ls"]);
    assert!(!world.store().join("server.json").exists(), "whoever holds the store takes it back");
}
