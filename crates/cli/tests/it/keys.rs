use crate::world::{World, ran};

#[test]
fn a_key_is_made_listed_and_revoked() {
    let world = World::new();
    let made = world.json(&["keys", "create", "--user", "ada", "--role", "member", "--expires", "30d"]);
    assert!(made["key"].as_str().unwrap().starts_with("sdr_"));
    assert_eq!((made["tenant"].as_str(), made["role"].as_str()), (Some("default"), Some("member")));
    assert!(made["expires_at"].is_string());
    let id = made["id"].as_str().unwrap();

    let listed = world.json(&["keys", "ls"]);
    assert_eq!(listed[0]["id"], id);
    assert!(listed[0].get("key").is_none(), "a secret is shown once");
    let table = world.ok(&["keys", "ls"]);
    assert!(table.starts_with("ID") && table.contains(id) && table.contains("ada"), "{table}");

    assert_eq!(world.ok(&["keys", "revoke", id]), format!("revoked {id}\n"));
    assert!(world.json(&["keys", "ls"])[0]["revoked_at"].is_string());
    world.fails(&["keys", "revoke", "nothing"], 3);
}

#[test]
fn a_key_for_a_user_who_does_not_exist_is_made_and_said_once() {
    let world = World::new();
    world.ok(&["users", "create", "ada"]);
    for (user, said) in [("adda", 1), ("ada", 0)] {
        let made =
            ran(world.command(&["keys", "create", "--user", user, "--role", "member"]).output().unwrap());
        assert_eq!(made.code, 0, "{}", made.stderr);
        assert_eq!(made.stderr.matches("There is no user").count(), said, "{}", made.stderr);
        assert_eq!(made.stderr.matches("sederunt keys revoke ").count(), said, "{}", made.stderr);
    }
}

#[test]
fn a_key_that_makes_no_sense_is_refused() {
    let world = World::new();
    for args in [
        &["keys", "create", "--role", "king"][..],
        &["keys", "create", "--role", "member"],
        &["keys", "create", "--role", "channel"],
        &["keys", "create", "--role", "worker", "--act-as"],
        &["keys", "create", "--role", "owner", "--expires", "soon"],
        &["keys", "create"],
    ] {
        world.fails(args, 2);
    }
}
