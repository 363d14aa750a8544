use serde_json::{Value, json};

use crate::world::World;

const ENTITY: &str = "0198c5d2-0000-7000-8000-000000000001";

/// Writes JSON to a file of this world.
fn file(world: &World, name: &str, body: &Value) {
    std::fs::write(world.path(name), body.to_string()).unwrap();
}

/// Defines an agent, an entity, a criteria set, a view and a task that needs an approval.
fn stage(world: &World) {
    file(world, "agent.json", &json!({"slug": "scribe", "name": "Scribe"}));
    file(world, "entity.json", &json!({"id": ENTITY, "type_slug": "city", "title": "Oban"}));
    let dimension = json!({"slug": "tone", "options": [{"value": "kind", "score": 1}, {"value": "cruel"}],
        "option_styles": {"cruel": {"hard_block": true}}});
    file(world, "criteria.json", &json!({"id": "tone", "name": "Tone", "dimensions": [dimension]}));
    let task = json!({"slug": "report", "name": "Report", "agent_slug": "scribe", "entity_id": ENTITY,
        "criteria_set_id": "tone", "requires_approval": true, "output": {"type": "entity"}});
    file(world, "task.json", &task);
    world.ok(&["agents", "create", "agent.json"]);
    world.ok(&["entities", "create", "entity.json"]);
    world.ok(&["criteria", "create", "criteria.json"]);
    let view = json!({"id": "where", "title": "Where?", "publish_config": {"gate": "lead"},
        "questions": [{"key": "place", "label": "A place"}]});
    file(world, "view.json", &view);
    world.ok(&["views", "create", "view.json"]);
    let tool = json!({"slug": "weather", "name": "Weather", "description": "Asks a service.", "timeout_ms": 5000,
        "requires_confirmation": true, "output": {"type": "object", "schema": {"type": "object"}},
        "input_schema": {"type": "object", "properties": {"key": {"type": "string", "writeOnly": true}}},
        "run": {"type": "http", "url": "https://example.org/", "method": "PUT", "headers": {"x-from": "here"}}});
    file(world, "tool.json", &tool);
    world.ok(&["tools", "create", "tool.json"]);
    world.ok(&["tasks", "create", "task.json"]);
}

/// Starts the task, does its work over HTTP and gives the approval that waits.
fn staged(world: &World, url: &str, result: &Value) -> (String, String) {
    let session = world.json(&["tasks", "trigger", "report", "--input", r#"{"city":"Oban"}"#]);
    let id = session["id"].as_str().unwrap();
    assert_eq!(session["input"]["city"], "Oban");
    let claim = &world.json(&["claims", "take", "--worker", "w"])[0];
    assert_eq!((&claim["brief"]["task_slug"], &claim["session"]["id"]), (&json!("report"), &json!(id)));
    let key = std::fs::read_to_string(world.store().join("operator.key")).unwrap();
    let client = sederunt_api::client::Client::new(url, Some(key.trim().to_owned())).unwrap();
    let body = json!({"epoch": claim["epoch"], "result": result});
    let path = format!("/api/sessions/{id}/complete");
    tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(async { client.in_tenant("default").post::<Value>(&path, &body).await.unwrap() });
    let inbox = world.json(&["inbox"]);
    let waiting = inbox["items"].as_array().unwrap().iter().find(|one| one["session_id"] == id).unwrap();
    (id.to_owned(), waiting["id"].as_str().unwrap().to_owned())
}

#[test]
fn work_is_defined_started_and_approved_beside_a_server() {
    let world = World::new();
    // The work is done by hand here.
    let server = world.serve(&["--workers", "0"]);
    stage(&world);
    let (session, approval) =
        staged(&world, &server.url, &json!({"summary": "It \u{9b}rains.", "tone": "kind"}));
    assert_eq!(world.json(&["work", "counts"])["needs_me"], 1);
    let queue = world.ok(&["work", "ls", "needs_me", "--tz", "Europe/London"]);
    assert!(queue.contains("approval") && queue.contains("Report: summary, tone"), "{queue}");

    let table = world.ok(&["inbox"]);
    assert!(table.lines().next().unwrap().starts_with("ID") && table.contains("output"), "{table}");
    let shown = world.ok(&["inbox", "show", &approval]);
    assert!(shown.contains("\"tone\": \"kind\"") && shown.contains("digest"), "{shown}");
    assert!(!shown.contains('\u{9b}'), "what an agent wrote cannot steer the terminal");

    let unknown = world.fails(&["approve", &approval, "--output", r#"{"mood":"x"}"#], 2);
    assert!(unknown.contains("modified_output.mood"), "{unknown}");
    let blocked = world.fails(&["approve", &approval, "--output", r#"{"tone":"cruel"}"#], 2);
    assert!(blocked.contains("must not be written"), "{blocked}");
    world.fails(&["approve", &approval, "--output", "{"], 2);
    world.fails(&["approve", &approval, "--digest", "00"], 4);
    world.fails(&["approve", "nothing"], 3);
    let decided =
        world.json(&["approve", &approval, "--output", r#"{"summary":"Sun."}"#, "--reason", "it cleared"]);
    assert_eq!((&decided["state"], &decided["reason"]), (&json!("approved"), &json!("it cleared")));
    world.ok(&["approve", &approval]);
    let refused = world.fails(&["deny", &approval], 4);
    assert!(refused.contains("has approved it already"), "{refused}");

    let entity = world.json(&["entities", "show", ENTITY]);
    assert_eq!(entity["fields"], json!({"summary": "Sun.", "tone": "kind"}));
    assert_eq!(world.json(&["inbox"])["items"], json!([]));
    assert_eq!(world.json(&["inbox", "--all"])["items"].as_array().unwrap().len(), 1);
    let standing = world.json(&["tasks", "status", "report"]);
    assert_eq!((&standing["status"], &standing["session"]["id"]), (&json!("completed"), &json!(session)));
    world.fails(&["work", "ls", "yesterday"], 3);
    world.fails(&["work", "counts", "--tz", "Mars/Olympus"], 2);
}

#[test]
fn definitions_are_listed_edited_and_carried_over_without_a_server() {
    let world = World::new();
    stage(&world);
    for (noun, found) in [
        ("tasks", "report"),
        ("agents", "scribe"),
        ("entities", ENTITY),
        ("criteria", "tone"),
        ("views", "where"),
        ("tools", "weather"),
    ] {
        let table = world.ok(&[noun, "ls"]);
        assert!(table.lines().count() == 2 && table.contains(found), "{table}");
        assert_eq!(world.json(&[noun, "ls"])["items"].as_array().unwrap().len(), 1, "{noun}");
        assert!(world.ok(&[noun, "show", found]).contains(found), "{noun}");
        world.fails(&[noun, "show", "nothing"], 3);
        world.fails(&[noun, "create", "nothing.json"], 2);
        file(&world, "empty.json", &json!({}));
        world.fails(&[noun, "create", "empty.json"], 2);
        assert_eq!(world.json(&[noun, "edit", found, "empty.json"])["version"], 1, "{noun}");
    }
    file(&world, "patch.json", &json!({"requires_approval": false, "criteria_set_id": null}));
    let edited = world.json(&["tasks", "edit", "report", "patch.json"]);
    assert_eq!((&edited["requires_approval"], &edited["criteria_set_ids"]), (&json!(false), &json!([])));
    file(&world, "wrong.json", &json!({"steps": [{"key": "a", "colour": "red"}]}));
    let wrong = world.fails(&["tasks", "edit", "report", "wrong.json"], 2);
    assert!(wrong.contains("steps[0].colour"), "{wrong}");

    assert_eq!(world.json(&["tasks", "pause", "report"])["status"], "paused");
    let paused = world.fails(&["tasks", "trigger", "report"], 4);
    assert!(paused.contains("only active tasks are started"), "{paused}");
    assert_eq!(world.json(&["tasks", "ls", "--status", "active"])["items"], json!([]));
    assert_eq!(world.json(&["tasks", "resume", "report"])["status"], "active");

    assert_eq!(world.json(&["views", "answers", "where"])["items"], json!([]), "it was never published");
    assert_eq!(world.json(&["responses", "ls", "where"])["items"], json!([]));
    assert!(world.ok(&["views", "responses", "where"]).starts_with("ID "));
    let csv = world.ok(&["views", "responses", "where", "--csv"]);
    assert!(csv.starts_with("id,status,") && csv.ends_with("promoted_at,place\r\n"), "{csv}");
    world.fails(&["responses", "show", "nothing"], 3);
    world.fails(&["views", "responses", "where", "--csv", "--limit", "1"], 2);
    world.ok(&["bundle", "export", "bundle.json"]);
    let other = World::new();
    std::fs::copy(world.path("bundle.json"), other.path("bundle.json")).unwrap();
    assert_eq!(other.ok(&["bundle", "import", "bundle.json"]), "imported 6\n");
    let text = |world: &World| world.ok(&["bundle", "export"]);
    assert_eq!(text(&other), text(&world));
    file(&other, "wrong.json", &json!({"tasks": [{"id": "t", "slug": "t"}]}));
    let wrong = other.fails(&["bundle", "import", "wrong.json"], 2);
    assert!(wrong.contains("tasks[0].name"), "{wrong}");
}

#[test]
fn a_persons_step_is_done_and_a_question_answered() {
    let world = World::new();
    file(&world, "task.json", &json!({"slug": "look", "name": "Look", "assigned_to": "ada"}));
    world.ok(&["tasks", "create", "task.json"]);
    let session = world.json(&["tasks", "trigger", "look"]);
    let id = session["id"].as_str().unwrap();
    assert_eq!(session["status"], "waiting_human");
    let waiting = world.json(&["inbox"]);
    assert_eq!(waiting["items"][0]["kind"], "question");
    let refused = world.fails(&["sessions", "answer", id, "yes"], 2);
    assert!(refused.contains("no question of a run waits here"), "{refused}");
    world.fails(&["sessions", "answer", id], 2);
    world.fails(&["sessions", "done", id, "--result", "{"], 2);
    let done = world.json(&["sessions", "done", id, "--result", r#"{"seen":true}"#, "--text", "I looked."]);
    assert_eq!((&done["status"], &done["result"]), (&json!("completed"), &json!({"seen": true})));

    file(&world, "ask.json", &json!({"slug": "ask", "name": "Ask", "agent_slug": "eliza"}));
    world.ok(&["tasks", "create", "ask.json"]);
    let id = world.seed(async |store| {
        use sederunt::{ClaimRequest, Json, Pause, Settle, limits};
        let owner = crate::world::owner();
        store.trigger(&owner, "ask", None, None).await.unwrap();
        let request = ClaimRequest {
            worker: "w".into(),
            session_types: Vec::new(),
            agent_slugs: Vec::new(),
            limit: 1,
            lease: limits::LEASE_DEFAULT,
            wait: std::time::Duration::ZERO,
        };
        let claimed = store.claim(&owner, request, None).await.unwrap().pop().unwrap();
        let question = Json::of(&json!({"text": "How many?", "schema": {"type": "integer"}})).unwrap();
        let how = Settle::Yield { pause: Pause::Human { question: Some(question) }, usage: None };
        store.settle(&owner, &claimed.session.id, claimed.epoch, how, None).await.unwrap();
        claimed.session.id.to_string()
    });
    world.fails(&["sessions", "answer", &id, "three"], 2);
    assert_eq!(world.json(&["sessions", "answer", &id, "--value", "3"])["status"], "pending");
    let claim = &world.json(&["claims", "take", "--worker", "w"])[0];
    assert_eq!((&claim["resume"]["decision"], &claim["resume"]["reply"]), (&json!("answer"), &json!(3)));
}

#[test]
fn what_this_server_will_not_run_is_warned_about_beside_it_and_without_it() {
    let world = World::new();
    let agent = json!({"slug": "dear", "name": "Dear", "model": "openai:gpt", "limits": {"cost_micros": 1}});
    file(&world, "agent.json", &agent);
    file(&world, "limits.json", &json!({"limits": null}));
    file(&world, "bundle.json", &json!({"version": 1, "agents": [agent]}));
    for beside in [false, true] {
        let _server = beside.then(|| world.serve(&[]));
        if !beside {
            let made = world.run(&["agents", "create", "agent.json"]);
            assert!(
                made.stderr.contains("warning: agent `dear`: this server has no model `openai:gpt`"),
                "{}",
                made.stderr
            );
            assert!(made.stderr.contains("`[prices]`"), "{}", made.stderr);
        }
        let changed = world.json(&["agents", "edit", "dear", "limits.json"]);
        assert_eq!(changed["warnings"].as_array().unwrap().len(), 1, "{changed}");
        let imported = world.run(&["bundle", "import", "bundle.json"]);
        assert!(imported.stderr.contains("warning: agent `dear`"), "{}", imported.stderr);
    }
}
