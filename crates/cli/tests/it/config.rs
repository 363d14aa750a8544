use crate::world::{World, ran};

#[test]
fn a_misspelt_setting_is_refused_where_it_stands() {
    let world = World::new();
    std::fs::write(world.path("conf.toml"), "[work]\nleese = \"1m\"\n").unwrap();
    let said = world.fails(&["serve", "--config", "conf.toml"], 2);
    assert!(said.contains("`work.leese`") && said.contains("conf.toml"), "{said}");
    let output = world.command(&["config", "show"]).env("SEDERUNT_LISTEM", "x").output().unwrap();
    let ran = ran(output);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("SEDERUNT_LISTEM"), "{}", ran.stderr);
    world.fails(&["config", "show", "--config", "missing.toml"], 2);
    assert!(!world.store().exists());
}

#[test]
fn the_settings_in_force_are_shown_with_where_they_came_from() {
    let world = World::new();
    std::fs::write(world.path("conf.toml"), "auth = \"keys\"\n[work]\nmax_attempts = 5\n").unwrap();
    let output = world
        .command(&["config", "show", "--config", "conf.toml", "--store", "postgres://u:s3cret@h/d", "--json"])
        .env("SEDERUNT_WORK_LEASE", "45s")
        .env("SEDERUNT_FEEDBACK_SESSION_TIMEOUT", "2m")
        .output()
        .unwrap();
    let ran = ran(output);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!ran.stdout.contains("s3cret"), "{}", ran.stdout);
    let rows: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let row = |name: &str| {
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        (row["value"].as_str().unwrap_or_default().to_owned(), row["from"].as_str().unwrap().to_owned())
    };
    for (name, value, from) in [
        ("store", "postgres://u:***@h/d", "--store"),
        ("work.lease", "45s", "SEDERUNT_WORK_LEASE"),
        ("work.max_attempts", "5", "conf.toml"),
        ("feedback.session_timeout", "2m", "SEDERUNT_FEEDBACK_SESSION_TIMEOUT"),
        ("auth", "keys", "conf.toml"),
        ("listen", "127.0.0.1:7070", "default"),
    ] {
        assert_eq!(row(name), (value.to_owned(), from.to_owned()));
    }
}

#[test]
fn a_feedback_session_cannot_be_over_at_once() {
    let world = World::new();
    std::fs::write(world.path("conf.toml"), "[feedback]\nsession_timeout = \"0s\"\n").unwrap();
    let said = world.fails(&["feedback", "give", "up", "--config", "conf.toml"], 2);
    assert!(said.contains("`feedback.session_timeout`"), "{said}");
    std::fs::write(world.path("conf.toml"), "[feedback]\ntimeout = \"1s\"\n").unwrap();
    let said = world.fails(&["config", "show", "--config", "conf.toml"], 2);
    assert!(said.contains("`feedback.timeout`"), "{said}");
}

#[test]
fn a_setting_reaches_the_server() {
    let world = World::new();
    let conf = "listen = \"127.0.0.1:0\"\n[work]\nlease = \"7m\"\n[feedback]\nsession_timeout = \"3m\"\n";
    std::fs::write(world.path("conf.toml"), conf).unwrap();
    world.seed(async |store| drop(crate::world::queue(store, "job").await));
    let server = world.serve(&["--config", "conf.toml"]);
    let taken = world.json(&["claims", "take", "--worker", "me"]);
    let until = sederunt::Timestamp::parse(taken[0]["lease_until"].as_str().unwrap()).unwrap();
    let started =
        sederunt::Timestamp::parse(taken[0]["session"]["last_activity_at"].as_str().unwrap()).unwrap();
    assert_eq!((until.as_micros() - started.as_micros()) / 1_000_000, 7 * 60);
    let given = world.json(&["feedback", "give", "up", "It ran the tests first"]);
    let message = given["feedback_session"]["message"].as_str().unwrap();
    assert!(message.contains("180 s of silence"), "{message}");
    assert_eq!(server.stop("-TERM"), 0);
}
