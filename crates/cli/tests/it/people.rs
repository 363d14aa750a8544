use crate::world::World;

#[test]
fn users_are_made_changed_linked_and_merged() {
    let world = World::new();
    world.ok(&["users", "create", "ada", "--name", "Ada"]);
    world.ok(&["users", "create", "a2", "--role", "guest"]);
    let refused = world.fails(&["users", "create", "ada"], 4);
    assert!(refused.contains("that name is taken"), "{refused}");

    assert_eq!(world.json(&["users", "role", "ada", "owner"])["role"], "owner");
    world.fails(&["users", "role", "ada", "worker"], 2);
    world.fails(&["users", "role", "nobody", "guest"], 3);

    world.ok(&["users", "link", "a2", "--platform", "slack", "--external-id", "T1:U1"]);
    world.fails(&["users", "link", "a2", "--platform", "pigeon", "--external-id", "T1:U1"], 2);
    let merged = world.json(&["users", "merge", "a2", "ada"]);
    assert_eq!(merged["identities"][0]["external_id"], "T1:U1");
    let table = world.ok(&["users", "ls"]);
    assert!(table.contains("slack:T1:U1") && table.contains("merged into ada"), "{table}");
}

#[test]
fn tenants_are_apart_and_go_only_when_it_is_meant() {
    let world = World::new();
    world.ok(&["tenants", "create", "acme"]);
    world.ok(&["users", "create", "ada", "--tenant", "acme"]);
    assert_eq!(world.json(&["users", "ls"]).as_array().unwrap().len(), 0);
    assert_eq!(world.json(&["users", "ls", "--tenant", "acme"])[0]["id"], "ada");
    let unknown = world.fails(&["users", "ls", "--tenant", "nobody"], 3);
    assert!(unknown.contains("tenants create nobody"), "{unknown}");

    assert_eq!(world.json(&["tenants", "suspend", "acme"])["suspended"], true);
    assert_eq!(world.json(&["tenants", "resume", "acme"])["suspended"], false);
    let asked = world.fails(&["tenants", "delete", "acme"], 2);
    assert!(asked.contains("--yes"), "{asked}");
    world.ok(&["tenants", "delete", "acme", "--yes"]);
    world.fails(&["tenants", "delete", "acme", "--yes"], 3);
    world.fails(&["tenants", "delete", "default", "--yes"], 4);
    let names: Vec<String> = world
        .json(&["tenants", "ls"])
        .as_array()
        .unwrap()
        .iter()
        .map(|tenant| tenant["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["default"]);
}

#[test]
fn crises_are_held_until_a_day() {
    let world = World::new();
    world.ok(&["users", "create", "ada"]);
    let held = world.json(&["safety", "hold", "--until", "2030-01-31", "--reason", "audit"]);
    assert_eq!(held["held"], 0);
    assert!(world.ok(&["safety", "hold", "--until", "2030-01-31"]).contains("0 crises are held"));
    world.fails(&["safety", "hold", "--until", "2001-01-31"], 2);
    world.fails(&["safety", "hold", "--until", "2030-01-31", "--reason", "because"], 2);
}
