//! /api/tasks and /api/actions, their runs, and the sessions of an entity

use sederunt_core::access::Role;
use serde_json::{Value, json};

use crate::server::{Answer, Caller, StoreKind, TestServer, on_every_store};

on_every_store!(
    a_task_is_defined_found_and_changed_under_both_names,
    a_task_that_could_not_run_is_refused_with_its_path,
    a_member_has_its_own_tasks_and_no_others,
    a_member_does_not_loosen_what_it_made,
    a_run_is_handed_to_a_worker_with_its_brief,
    only_active_tasks_are_started,
    a_repeat_starts_one_run,
    a_result_is_repaired_once,
    steps_follow_each_other_through_people_and_agents,
    a_step_shows_its_place_as_it_was_when_the_run_was_started,
    a_failed_step_is_run_again_and_keeps_what_was_done,
    an_entity_shows_the_sessions_that_were_about_it,
);

pub const ENTITY: &str = "0198c5d2-0000-7000-8000-000000000001";

/// Defines an agent, an entity and a criteria set to work with.
pub async fn stage(owner: &Caller<'_>) {
    let agent = json!({"slug": "scribe", "name": "Scribe", "instructions": "Write plainly."});
    owner.post("/api/agents", agent).await.expect(201);
    let entity = json!({"id": ENTITY, "type_slug": "city", "title": "Oban", "fields": {"people": 8490}});
    owner.post("/api/entities", entity).await.expect(201);
    let criteria = json!({"id": "manners", "name": "Manners", "dimensions": [{"slug": "tone",
        "options": [{"value": "kind", "score": 1.0}, {"value": "blunt", "score": 0.4, "flag": true},
            {"value": "cruel", "score": 0.0}],
        "option_styles": {"cruel": {"hard_block": true}}}]});
    owner.post("/api/criteria-sets", criteria).await.expect(201);
}

/// A task whose output is written to the entity after somebody approved it.
pub fn judged() -> Value {
    json!({"slug": "report", "name": "Report on a city", "description": "Say how it is there.",
        "agent_slug": "scribe", "assigned_to": "ada", "entity_id": ENTITY, "input": {"length": "short"},
        "requires_approval": true, "criteria_set_id": "manners",
        "output": {"type": "entity", "schema": {"type": "object", "required": ["summary"],
            "properties": {"summary": {"type": "string"}, "tone": {"type": "string"}}}}})
}

pub async fn claim(worker: &Caller<'_>) -> Value {
    worker.post("/api/claims", json!({"worker": "w-1"})).await.expect(200).body["claims"][0].clone()
}

/// Completes what was claimed.
pub async fn complete(worker: &Caller<'_>, claimed: &Value, result: Value) -> Answer {
    let id = claimed["session"]["id"].as_str().unwrap();
    let body = json!({"epoch": claimed["epoch"], "result": result});
    worker.post(&format!("/api/sessions/{id}/complete"), body).await
}

pub async fn trigger(owner: &Caller<'_>, task: &str) -> String {
    owner.post(&format!("/api/tasks/{task}/trigger"), json!({})).await.expect(201).id()
}

async fn a_task_is_defined_found_and_changed_under_both_names(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    stage(&owner).await;
    let made = owner.post("/api/tasks", judged()).await.expect(201).body;
    assert_eq!((&made["status"], &made["criteria_set_ids"]), (&json!("active"), &json!(["manners"])));
    let id = made["id"].as_str().unwrap();
    for name in [id, "report"] {
        for noun in ["tasks", "actions"] {
            assert_eq!(owner.get(&format!("/api/{noun}/{name}")).await.expect(200).body, made);
        }
    }
    let changed = owner.patch("/api/actions/report", json!({"criteria_set_id": null, "priority": 5})).await;
    let changed = changed.expect(200).body;
    assert_eq!((&changed["criteria_set_ids"], &changed["priority"]), (&json!([]), &json!(5)));
    let other =
        owner.post("/api/actions", json!({"slug": "other", "name": "Other", "assigned_to": "bob"})).await;
    let other = other.expect(201).body;
    for (query, found) in [
        ("status=active", 2),
        ("status=paused", 0),
        ("agent_slug=scribe", 1),
        ("assigned_to=bob", 1),
        ("entity_id=nothing", 0),
        ("limit=1", 1),
    ] {
        let list = owner.get(&format!("/api/tasks?{query}")).await.expect(200).body;
        assert_eq!(list["items"].as_array().unwrap().len(), found, "{query}");
    }
    owner.get("/api/tasks?status=lost").await.refused(422, "invalid");
    let standing = owner.get("/api/actions/other/status").await.expect(200).body;
    assert_eq!((&standing["task_id"], &standing["session"]), (&other["id"], &json!(null)));
    owner.get("/api/tasks/nothing/status").await.refused(404, "not_found");
    owner.post("/api/tasks/nothing/trigger", json!({})).await.refused(404, "not_found");
}

async fn a_task_that_could_not_run_is_refused_with_its_path(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let step = |key: &str, after: &[&str]| json!({"key": key, "agent_slug": "eliza", "depends_on": after});
    let table = [
        (json!({"name": "T"}), "slug"),
        (json!({"name": " "}), "name"),
        (json!({"colour": "red"}), "colour"),
        (json!({"agent_slug": "nobody"}), "agent_slug"),
        (json!({"entity_id": "nothing"}), "entity_id"),
        (json!({"criteria_set_id": "nothing"}), "criteria_set_ids"),
        (json!({"criteria_set_id": 5}), "criteria_set_id"),
        (json!({"steps": [step("a", &["b"]), step("b", &["a"])]}), "steps.depends_on"),
        (json!({"steps": [{"key": "a"}]}), "steps"),
        (json!({"steps": [{"key": "a", "agent_slug": "eliza", "colour": "red"}]}), "steps[0].colour"),
        (json!({"output": {"type": "picture"}}), "output.type"),
        (json!({"output": {"type": "entity", "schema": {"type": "nonsense"}}}), "output.schema"),
        (json!({"output": {"type": "relation-entity"}}), "output"),
        (json!({"approval": {"expires_in_s": 0}}), "approval.expires_in_s"),
        (json!({"priority": 1001}), "priority"),
    ];
    for (wrong, field) in table {
        let mut body = json!({"slug": "t", "name": "T"});
        if field == "slug" {
            body.as_object_mut().unwrap().remove("slug");
        }
        body.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        let refused = owner.post("/api/tasks", body.clone()).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field, "{body}");
    }
    let schema = json!({"title": "x".repeat(70_000)});
    let large = json!({"slug": "t", "name": "T", "output": {"type": "text", "schema": schema}});
    owner.post("/api/tasks", large).await.refused(413, "too_large");
    owner.post("/api/tasks", json!({"slug": "t", "name": "T"})).await.expect(201);
    owner.post("/api/tasks", json!({"slug": "t", "name": "T"})).await.refused(409, "already_exists");
    let refused = owner.patch("/api/tasks/t", json!({"agent_slug": "nobody"})).await.refused(422, "invalid");
    assert_eq!(refused.body["error"]["field"], "agent_slug");
    let input = json!({"input": "x".repeat(300 * 1024)});
    owner.post("/api/tasks/t/trigger", input).await.refused(413, "too_large");
}

async fn a_member_has_its_own_tasks_and_no_others(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    let (ada, bob) = (server.key(Role::Member, "ada").await, server.key(Role::Member, "bob").await);
    let (guest, worker) = (server.key(Role::Guest, "eve").await, server.key(Role::Worker, "").await);
    let own = json!({"slug": "own", "name": "Own", "agent_slug": "eliza"});
    let made = ada.post("/api/tasks", own).await.expect(201).body;
    assert_eq!(made["created_by"], "ada");
    let assigned =
        json!({"slug": "assigned", "name": "Assigned", "agent_slug": "eliza", "assigned_to": "ada"});
    owner.post("/api/tasks", assigned).await.expect(201);
    owner
        .post("/api/tasks", json!({"slug": "foreign", "name": "Foreign", "agent_slug": "eliza"}))
        .await
        .expect(201);
    let count = async |who: &Caller<'_>| {
        let list = who.get("/api/tasks").await.expect(200).body;
        list["items"].as_array().unwrap().len()
    };
    assert_eq!(
        (count(&owner).await, count(&ada).await, count(&bob).await, count(&worker).await),
        (3, 2, 0, 3)
    );
    for (task, triggers, changes) in [("own", 201, 200), ("assigned", 201, 403), ("foreign", 404, 404)] {
        ada.post(&format!("/api/tasks/{task}/trigger"), json!({})).await.expect(triggers);
        ada.patch(&format!("/api/tasks/{task}"), json!({"name": "New"})).await.expect(changes);
        bob.get(&format!("/api/tasks/{task}")).await.refused(404, "not_found");
        bob.get(&format!("/api/tasks/{task}/status")).await.refused(404, "not_found");
        worker.post(&format!("/api/tasks/{task}/trigger"), json!({})).await.refused(403, "denied");
    }
    guest.get("/api/tasks").await.refused(403, "denied");
    guest.post("/api/tasks", json!({"slug": "x", "name": "X"})).await.refused(403, "denied");
    guest.post("/api/tasks/own/trigger", json!({})).await.refused(403, "denied");
    worker.post("/api/tasks", json!({"slug": "x", "name": "X"})).await.refused(403, "denied");
}

async fn a_member_does_not_loosen_what_it_made(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let ada = server.key(Role::Member, "ada").await;
    let owner = server.key(Role::Owner, "").await;
    let task = json!({"slug": "t", "name": "T", "agent_slug": "eliza", "requires_approval": true});
    ada.post("/api/tasks", task).await.expect(201);
    ada.patch("/api/tasks/t", json!({"requires_approval": false})).await.refused(403, "denied");
    owner.patch("/api/tasks/t", json!({"requires_approval": false})).await.expect(200);
}

async fn a_run_is_handed_to_a_worker_with_its_brief(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "").await, server.key(Role::Worker, "").await);
    stage(&owner).await;
    let task = owner.post("/api/tasks", judged()).await.expect(201).id();
    let wish = json!({"input": {"city": "Oban"}});
    let session = owner.post("/api/tasks/report/trigger", wish).await.expect(201).body;
    assert_eq!((&session["status"], &session["task_id"]), (&json!("pending"), &json!(task)));
    assert_eq!(session["input"], json!({"length": "short", "city": "Oban"}));
    let claimed = claim(&worker).await;
    assert_eq!((&claimed["session"]["id"], &claimed["resume"]), (&session["id"], &json!(null)));
    let brief = &claimed["brief"];
    assert_eq!((&brief["task_slug"], &brief["agent"]["slug"]), (&json!("report"), &json!("scribe")));
    assert_eq!(
        (&brief["entity"]["id"], &brief["entity"]["fields"]["people"]),
        (&json!(ENTITY), &json!(8490))
    );
    assert_eq!((&brief["output"]["type"], &brief["denials"]), (&json!("entity"), &json!([])));
    assert_eq!((&brief["description"], &brief["results"]), (&json!("Say how it is there."), &json!({})));
    let standing = owner.get("/api/tasks/report/status").await.expect(200).body;
    assert_eq!((&standing["status"], &standing["session"]["id"]), (&json!("running"), &session["id"]));
    assert!(standing["duration_ms"].is_number() && standing["events"].as_array().unwrap().len() >= 2);
    // A session of no task and no agent has nothing to be told.
    owner.session(json!({"session_type": "agent", "status": "pending"})).await;
    assert_eq!(claim(&worker).await["brief"], json!(null));
}

async fn only_active_tasks_are_started(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let task = json!({"slug": "t", "name": "T", "agent_slug": "eliza", "status": "paused"});
    owner.post("/api/tasks", task).await.expect(201);
    let refused = owner.post("/api/tasks/t/trigger", json!({})).await.refused(409, "task_not_active");
    assert_eq!(refused.body["error"]["details"], json!({"status": "paused"}));
    owner.patch("/api/tasks/t", json!({"status": "active"})).await.expect(200);
    owner.post("/api/actions/t/trigger", json!({})).await.expect(201);
    owner.post("/api/tasks/t/trigger", json!({"inputs": 1})).await.refused(422, "invalid");
}

async fn a_repeat_starts_one_run(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone().with("idempotency-key", "k-1");
    server
        .anyone()
        .post("/api/tasks", json!({"slug": "t", "name": "T", "agent_slug": "eliza"}))
        .await
        .expect(201);
    let first = owner.post("/api/tasks/t/trigger", json!({})).await.expect(201).id();
    assert_eq!(owner.post("/api/tasks/t/trigger", json!({})).await.expect(201).id(), first);
    owner.post("/api/tasks/t/trigger", json!({"input": 1})).await.refused(422, "idempotency_mismatch");
    let runs = server.anyone().get("/api/sessions").await.expect(200).body;
    assert_eq!(runs["items"].as_array().unwrap().len(), 1);
}

async fn a_result_is_repaired_once(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let task = json!({"slug": "t", "name": "T", "agent_slug": "eliza",
        "output": {"type": "entity", "entity_type": "number", "schema": schema}});
    owner.post("/api/tasks", task).await.expect(201);
    for (second, ends) in [(json!({"n": 5}), "completed"), (json!({}), "failed")] {
        trigger(&owner, "t").await;
        let claimed = claim(&owner).await;
        let refused = complete(&owner, &claimed, json!({"n": "five"})).await.refused(422, "output_invalid");
        let complaints = refused.body["error"]["details"]["complaints"].as_array().unwrap().clone();
        assert!(complaints[0].as_str().unwrap().contains("/n"), "{complaints:?}");
        assert_eq!(complete(&owner, &claimed, second).await.expect(200).body["status"], ends);
    }
    let made = owner.get("/api/entities?type_slug=number").await.expect(200).body;
    assert_eq!((made["items"].as_array().unwrap().len(), &made["items"][0]["fields"]), (1, &json!({"n": 5})));
}

/// A draft by an agent, a look by a person, a last step by an agent that needs both.
fn graph() -> Value {
    json!({"slug": "letter", "name": "Write a letter", "steps": [
        {"key": "draft", "agent_slug": "scribe"},
        {"key": "check", "name": "Check the draft", "assigned_to": "ada", "depends_on": ["draft"],
            "output": {"type": "text"}},
        {"key": "send", "agent_slug": "scribe", "depends_on": ["draft", "check"]}]})
}

/// Brings a run of the graph to its last step.
async fn up_to_the_last_step(owner: &Caller<'_>, worker: &Caller<'_>, ada: &Caller<'_>) -> (String, Value) {
    stage(owner).await;
    owner.post("/api/tasks", graph()).await.expect(201);
    let run = trigger(owner, "letter").await;
    let draft = claim(worker).await;
    assert_eq!(draft["session"]["parent_id"], json!(run));
    assert_eq!(claim(worker).await, Value::Null, "the others wait");
    complete(worker, &draft, json!({"text": "Dear all"})).await.expect(200);
    let inbox = ada.get("/api/approvals?state=pending&mine=true").await.expect(200).body;
    let asked = &inbox["items"][0];
    assert_eq!((&asked["kind"], &asked["staged"]["text"]), (&json!("question"), &json!("Check the draft")));
    let step = asked["session_id"].as_str().unwrap();
    let done = format!("/api/sessions/{step}/human-complete");
    ada.post(&done, json!({})).await.refused(422, "output_invalid");
    ada.post(&done, json!({"note": 1})).await.refused(422, "invalid");
    let keyed = ada.clone().with("idempotency-key", "done-1");
    assert_eq!(
        keyed.post(&done, json!({"text": "It is fine."})).await.expect(200).body["status"],
        "completed"
    );
    assert_eq!(
        keyed.post(&done, json!({"text": "It is fine."})).await.expect(200).body["status"],
        "completed"
    );
    let last = claim(worker).await;
    assert_eq!(last["brief"]["results"], json!({"draft": {"text": "Dear all"}, "check": "It is fine."}));
    (run, last)
}

async fn steps_follow_each_other_through_people_and_agents(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "").await, server.key(Role::Worker, "").await);
    let (ada, bob) = (server.key(Role::Member, "ada").await, server.key(Role::Member, "bob").await);
    let (run, last) = up_to_the_last_step(&owner, &worker, &ada).await;
    complete(&worker, &last, json!({"sent": true})).await.expect(200);
    let parent = owner.get(&format!("/api/sessions/{run}")).await.expect(200).body;
    assert_eq!((&parent["status"], &parent["result"]), (&json!("completed"), &json!({"sent": true})));
    let children = owner.get(&format!("/api/sessions/{run}/children")).await.expect(200).body;
    assert_eq!(children["items"].as_array().unwrap().len(), 3);
    bob.post(&format!("/api/sessions/{run}/human-complete"), json!({})).await.refused(404, "not_found");
}

async fn a_step_shows_its_place_as_it_was_when_the_run_was_started(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    stage(&owner).await;
    owner.post("/api/tasks", graph()).await.expect(201);
    let run = trigger(&owner, "letter").await;
    let steps = json!([{"key": "other", "name": "Another", "agent_slug": "scribe"}]);
    owner.patch("/api/tasks/letter", json!({"steps": steps})).await.expect(200);
    assert_eq!(owner.get(&format!("/api/sessions/{run}")).await.expect(200).body["step"], Value::Null);
    let children = owner.get(&format!("/api/sessions/{run}/children")).await.expect(200).body;
    let mut places: Vec<Value> =
        children["items"].as_array().unwrap().iter().map(|child| child["step"].clone()).collect();
    places.sort_by_key(|place| place["key"].as_str().unwrap().to_owned());
    assert_eq!(
        Value::from(places),
        json!([{"key": "check", "name": "Check the draft", "depends_on": ["draft"]},
            {"key": "draft", "name": "draft", "depends_on": []},
            {"key": "send", "name": "send", "depends_on": ["draft", "check"]}])
    );
    let child = &children["items"][0];
    let one = owner.get(&format!("/api/sessions/{}", child["id"].as_str().unwrap())).await.expect(200).body;
    assert_eq!(one["step"], child["step"]);
}

async fn a_failed_step_is_run_again_and_keeps_what_was_done(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "").await, server.key(Role::Worker, "").await);
    let ada = server.key(Role::Member, "ada").await;
    let (run, last) = up_to_the_last_step(&owner, &worker, &ada).await;
    let step = last["session"]["id"].as_str().unwrap();
    let failure = json!({"epoch": last["epoch"], "error": "no stamps"});
    worker.post(&format!("/api/sessions/{step}/fail"), failure).await.expect(200);
    let parent = owner.get(&format!("/api/sessions/{run}")).await.expect(200).body;
    assert_eq!((&parent["status"], &parent["end_reason"]), (&json!("failed"), &json!("child_failed")));
    let again = owner.post(&format!("/api/sessions/{step}/retry"), json!({})).await.expect(201).body;
    let again = again["id"].as_str().unwrap();
    let last = claim(&worker).await;
    assert_eq!(last["session"]["parent_id"], json!(again), "a new run takes over what was done");
    assert_eq!(last["brief"]["results"], json!({"draft": {"text": "Dear all"}, "check": "It is fine."}));
    complete(&worker, &last, json!({"sent": true})).await.expect(200);
    assert_eq!(owner.get(&format!("/api/sessions/{again}")).await.expect(200).body["status"], "completed");
}

async fn an_entity_shows_the_sessions_that_were_about_it(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "").await, server.key(Role::Worker, "").await);
    let guest = server.key(Role::Guest, "eve").await;
    stage(&owner).await;
    let mut task = graph();
    task["entity_id"] = json!(ENTITY);
    owner.post("/api/tasks", task).await.expect(201);
    owner.post("/api/tasks", judged()).await.expect(201);
    let run = trigger(&owner, "letter").await;
    let single = trigger(&owner, "report").await;
    let path = format!("/api/entities/{ENTITY}/sessions");
    let all = owner.get(&path).await.expect(200).body;
    assert_eq!(all["items"].as_array().unwrap().len(), 5, "two runs, one with three steps");
    for query in ["includeChildren=true", "include_children=true&parents_only=false"] {
        let with_children = owner.get(&format!("{path}?{query}")).await.expect(200).body;
        assert_eq!(with_children["items"].as_array().unwrap().len(), 5, "{query}");
    }
    owner.get(&format!("{path}?includeChildren=true&parentsOnly=true")).await.refused(422, "invalid");
    for query in ["parents_only=true", "parentsOnly=true&limit=5000", "includeChildren=false"] {
        let parents = owner.get(&format!("{path}?{query}")).await.expect(200).body;
        let rows = parents["items"].as_array().unwrap();
        assert_eq!(rows.len(), 2, "{query}");
        let row = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap();
        assert_eq!((&row(&run)["child_count"], &row(&single)["child_count"]), (&json!(3), &json!(0)));
        assert_eq!(row(&single)["task_name"], "Report on a city");
        assert_eq!(row(&single)["task_output_config"]["type"], "entity");
        let mut names: Vec<&String> = row(&single).as_object().unwrap().keys().collect();
        names.sort();
        assert_eq!(
            names,
            [
                "child_count", "completed_at", "duration_ms", "error_message", "id", "parent_id",
                "started_at", "status", "task_id", "task_name", "task_output_config", "task_slug"
            ]
        );
    }
    let first = owner.get(&format!("{path}?limit=2")).await.expect(200).body;
    let next = first["next_cursor"].as_str().unwrap();
    let rest = owner.get(&format!("{path}?cursor={next}")).await.expect(200).body;
    assert_eq!(rest["items"].as_array().unwrap().len(), 3);
    owner.get(&format!("{path}?limit=0")).await.refused(422, "invalid");
    owner.get("/api/entities/nothing/sessions").await.refused(404, "not_found");
    guest.get(&path).await.refused(403, "denied");
    let mine = worker.get(&path).await.expect(200).body;
    assert_eq!(mine["items"], json!([]), "a worker sees what it claimed");
}
