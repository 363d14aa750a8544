use serde_json::{Value, json};

use crate::world::World;

fn file(world: &World, name: &str, body: &Value) {
    std::fs::write(world.path(name), body.to_string()).unwrap();
}

fn tool(slug: &str, run: &Value) -> Value {
    json!({"slug": slug, "name": "Ask", "run": run, "input_schema": {"type": "object", "required": ["word"],
        "properties": {"word": {"type": "string"}, "n": {"type": "integer"},
            "key": {"type": "string", "writeOnly": true}}}})
}

#[test]
fn a_tool_is_run_listed_and_cancelled() {
    let world = World::new();
    file(&world, "tool.json", &tool("ask", &json!({"type": "http", "url": "http://127.0.0.1:1/"})));
    world.ok(&["tools", "create", "tool.json"]);
    let table = world.ok(&["tools", "ls"]);
    assert!(table.starts_with("SLUG") && table.contains("http"), "{table}");

    let missing = world.fails(&["tools", "run", "ask", "n=5"], 2);
    assert!(missing.contains("values.word"), "{missing}");
    let wrong = world.fails(&["tools", "run", "ask", "word"], 2);
    assert!(wrong.contains("write key=value"), "{wrong}");
    world.fails(&["tools", "run", "ask", "word=x", "n=five"], 2);
    world.fails(&["tools", "run", "nothing", "word=x"], 3);

    let run = world.json(&["tools", "run", "ask", "word=5", "n=5"]);
    assert_eq!(
        (&run["values"], &run["invocation"]["state"]),
        (&json!({"word": "5", "n": 5}), &json!("queued")),
        "a text stays a text"
    );
    let id = run["id"].as_str().unwrap();
    let history = world.json(&["tools", "history", "ask", "--status", "active", "--mine"]);
    assert!(history["items"].as_array().unwrap().iter().any(|one| one["id"] == *id), "{history}");
    let shown = world.ok(&["tools", "session", id]);
    assert!(shown.contains("queued") && shown.contains(id), "{shown}");
    assert_eq!(world.json(&["tools", "cancel", id])["status"], "cancelled");
    world.fails(&["tools", "cancel", id], 4);
    let again = world.json(&["tools", "run", "ask", "n=6", "--rerun-of", id]);
    assert_eq!((&again["values"], &again["retry_of"]), (&json!({"word": "5", "n": 6}), &json!(id)));
}

#[test]
fn a_run_is_waited_for() {
    let world = World::new();
    let _server = world.serve(&[]);
    file(&world, "agent.json", &json!({"slug": "talker", "name": "Talker", "model": "eliza"}));
    file(&world, "task.json", &json!({"slug": "talk", "name": "Talk", "agent_slug": "talker"}));
    world.ok(&["agents", "create", "agent.json"]);
    world.ok(&["tasks", "create", "task.json"]);
    let plain = json!({"slug": "ask", "name": "Ask", "run": {"type": "task", "task": "talk"},
        "input_schema": {"type": "object", "properties": {"word": {"type": "string"}}}});
    file(&world, "tool.json", &plain);
    world.ok(&["tools", "create", "tool.json"]);
    let done = world.json(&["tools", "run", "ask", "word=hello", "--wait"]);
    assert_eq!(
        (&done["status"], &done["invocation"]["state"], &done["steps"][0]["status"]),
        (&json!("completed"), &json!("completed"), &json!("completed")),
        "{done}"
    );
}

#[test]
fn documents_are_listed_shown_patched_and_applied() {
    const CITY: &str = "0198c5d2-0000-7000-8000-000000000001";
    let world = World::new();
    file(&world, "city.json", &json!({"id": CITY, "type_slug": "city", "fields": {"people": 1}}));
    world.ok(&["entities", "create", "city.json"]);
    world.seed(async |store| {
        let (owner, wish) = (
            crate::world::owner(),
            sederunt_core::session::decide::OpenSession {
                id: Some("trip".into()),
                session_type: Some(sederunt_core::session::SessionType::Mixed),
                ..Default::default()
            },
        );
        store.open(&owner, wish, None).await.unwrap();
    });
    assert_eq!(world.json(&["documents", "ls", "trip"]), json!({"documents": []}));
    file(&world, "note.json", &json!([{"op": "add", "path": "/to", "value": "Oban"}]));
    world.fails(&["documents", "show", "trip", "scratch/note"], 3);
    world.fails(&["documents", "show", "trip", "note"], 2);
    world.fails(&["documents", "patch", "trip", "scratch/note", "note.json"], 3);
    let first =
        world.json(&["documents", "patch", "trip", "scratch/note", "note.json", "--open", "--inverse"]);
    assert_eq!(
        (&first["rebased"], &first["inverse"]),
        (&json!(false), &json!([{"op": "remove", "path": "/to"}]))
    );
    let shown = world.json(&["documents", "show", "trip", "scratch/note"]);
    assert_eq!((&shown["value"], &shown["sequence"]), (&json!({"to": "Oban"}), &first["sequence"]));
    assert_eq!(world.ok(&["documents", "show", "trip", "scratch/note"]), "{\n  \"to\": \"Oban\"\n}\n");
    let opened = world.json(&["documents", "ls", "trip"])["documents"][0]["opened_sequence"].to_string();
    let before = world.json(&["documents", "show", "trip", "scratch/note", "--at", &opened]);
    assert_eq!(before["value"], json!({}));
    let stale =
        world.fails(&["documents", "patch", "trip", "scratch/note", "note.json", "--base", &opened], 4);
    assert!(stale.contains("/to"), "{stale}");
    let table = world.ok(&["documents", "ls", "trip"]);
    assert!(table.starts_with("DOCUMENT") && table.contains("scratch/note"), "{table}");

    let city = format!("entity/{CITY}");
    file(&world, "grow.json", &json!([{"op": "replace", "path": "/people", "value": 2}]));
    world.ok(&["documents", "patch", "trip", &city, "grow.json", "--open"]);
    let applied = world.json(&["documents", "apply", "trip", &city]);
    assert_eq!(applied["fields"], json!(["people"]), "{applied}");
    assert_eq!(world.json(&["entities", "show", CITY])["fields"], json!({"people": 2}));
    world.fails(&["documents", "apply", "trip", "scratch/note"], 4);
}
