//! /api/tools, their sessions, and what runs them: a worker from outside, the executor, the engine itself, an agent

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::routing::any;
use sederunt_agents::executor::kit::Means;
use sederunt_agents::executor::{Executor, Kit, Settings as ExecutorSettings};
use sederunt_agents::model::Model;
use sederunt_agents::model::scripted::Scripted;
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::talk::{Conversations, Settings};
use sederunt_agents::tool::http::DeclaredSecret;
use sederunt_core::access::Role;
use sederunt_core::ids::TenantId;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::server::{Answer, Caller, StoreKind, TestServer, on_every_store, within};

on_every_store!(
    a_person_fills_in_a_tool_and_a_worker_runs_it,
    values_and_definitions_that_do_not_fit_are_refused_and_nothing_is_written,
    tool_sessions_belong_to_the_person_who_started_them,
    a_claim_that_names_no_types_gets_no_tools,
    the_claim_holder_writes_no_events_about_the_tool,
    a_tool_session_is_cancelled_at_once_and_fences_its_worker,
    steps_pass_values_on_and_end_their_parent,
    a_step_that_cannot_start_fails_the_whole,
    a_task_is_run_with_the_invokers_right_alone,
    the_executor_calls_a_server_once_under_its_key_and_keeps_secrets_to_itself,
    the_executor_asks_first_where_the_tool_says_so,
    an_agent_calls_a_tool_in_a_task_and_in_talk,
    a_link_shows_the_result_and_not_the_values,
    a_result_that_is_too_large_fails_the_invocation,
);

fn tool(slug: &str, url: &str) -> Value {
    json!({"slug": slug, "name": "Say it", "run": {"type": "http", "url": url}, "input_schema": {
        "type": "object", "required": ["word"], "additionalProperties": false,
        "properties": {"word": {"type": "string"}, "n": {"type": "integer"}}}})
}

const NOWHERE: &str = "http://127.0.0.1:1/";

async fn start(caller: &Caller<'_>, slug: &str, values: Value) -> Answer {
    caller.post(&format!("/api/tools/{slug}/sessions"), json!({"values": values})).await
}

async fn invoke(caller: &Caller<'_>, id: &str) -> Answer {
    caller.post(&format!("/api/tool-sessions/{id}/invoke"), json!({})).await
}

async fn shown(caller: &Caller<'_>, id: &str) -> Value {
    caller.get(&format!("/api/tool-sessions/{id}")).await.expect(200).body
}

async fn kinds(caller: &Caller<'_>, id: &str) -> Vec<String> {
    let log = caller.get(&format!("/api/sessions/{id}/events?limit=1000")).await.expect(200).body;
    let events = log["events"].as_array().unwrap();
    events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

async fn claim(worker: &Caller<'_>, most: u64) -> Vec<Value> {
    let wish = json!({"worker": "w", "session_types": ["tool"], "limit": most, "lease_ms": 600_000});
    worker.post("/api/claims", wish).await.expect(200).body["claims"].as_array().unwrap().clone()
}

async fn complete(worker: &Caller<'_>, claim: &Value, result: Value) {
    let id = claim["session"]["id"].as_str().unwrap();
    let body = json!({"epoch": claim["epoch"], "result": result});
    worker.post(&format!("/api/sessions/{id}/complete"), body).await.expect(200);
}

async fn a_person_fills_in_a_tool_and_a_worker_runs_it(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, ada) = (server.key(Role::Owner, "olga").await, server.key(Role::Member, "ada").await);
    let worker = server.key(Role::Worker, "").await;
    owner.post("/api/tools", tool("say", NOWHERE)).await.expect(201);
    let started = ada.post("/api/tools/say/sessions", json!({})).await.expect(201);
    let id = started.id();
    assert_eq!(
        started.body,
        json!({"id": id, "tool_slug": "say", "status": "active", "values": {}, "version": 1, "invocation": null,
            "steps": [], "result": null, "error": null, "retry_of": null, "created_at": started.body["created_at"],
            "updated_at": started.body["updated_at"]})
    );
    let path = format!("/api/tool-sessions/{id}");
    let saved =
        ada.patch(&path, json!({"values": {"word": "hi", "n": 1}, "version": 1})).await.expect(200).body;
    assert_eq!((&saved["values"], &saved["status"]), (&json!({"word": "hi", "n": 1}), &json!("active")));
    ada.patch(&path, json!({"values": {"n": 2}, "version": 1})).await.refused(409, "stale_base");
    let same = ada.patch(&path, json!({"values": {"n": 1}})).await.expect(200).body;
    assert_eq!(same["version"], saved["version"], "what is there already changes nothing");
    let invoked = ada.post(&format!("{path}/invoke"), json!({"values": {"n": null}})).await.expect(202).body;
    let invocation = invoked["invocation"]["id"].clone();
    assert_eq!(invoked["invocation"], json!({"id": invocation, "state": "queued", "attempts": 0}));
    invoke(&ada, &id).await.refused(409, "session_running");
    ada.patch(&path, json!({"values": {"n": 3}})).await.refused(409, "session_running");
    let claims = claim(&worker, 5).await;
    assert_eq!(claims.len(), 1);
    assert_eq!(
        claims[0]["brief"]["tool"],
        json!({"slug": "say", "values": {"word": "hi"}, "invocation_id": invocation, "requires_confirmation": false})
    );
    assert_eq!(shown(&ada, &id).await["invocation"]["state"], "running");
    complete(&worker, &claims[0], json!({"said": "hi"})).await;
    let done = shown(&ada, &id).await;
    assert_eq!((&done["status"], &done["result"]), (&json!("completed"), &json!({"said": "hi"})));
    assert_eq!(done["invocation"], json!({"id": invocation, "state": "completed", "attempts": 1}));
    assert_eq!(
        kinds(&owner, &id).await,
        [
            "session.created", "tool.session_started", "session.status_change", "tool.field_changed",
            "tool.field_changed", "tool.field_changed", "session.status_change", "session.claimed",
            "session.status_change", "tool.invocation_started", "tool.invocation_completed",
            "session.status_change", "session.completed",
        ]
    );
    invoke(&ada, &id).await.refused(409, "session_closed");

    let again = json!({"rerun_of": id, "values": {"n": 7}});
    let again = ada.post("/api/tools/say/sessions", again).await.expect(201).body;
    assert_eq!((&again["values"], &again["retry_of"]), (&json!({"word": "hi", "n": 7}), &json!(id)));
    invoke(&ada, again["id"].as_str().unwrap()).await.expect(202);
    let claims = claim(&worker, 1).await;
    let (again, epoch) = (again["id"].as_str().unwrap(), &claims[0]["epoch"]);
    let failed = json!({"epoch": epoch, "error": "the line is dead", "reason": "dead"});
    worker.post(&format!("/api/sessions/{again}/fail"), failed).await.expect(200);
    let failed = shown(&ada, again).await;
    assert_eq!((&failed["status"], &failed["invocation"]["state"]), (&json!("cancelled"), &json!("failed")));
    assert_eq!(failed["error"]["message"], "the line is dead");
    let list = |query: &str| format!("/api/tools/say/sessions{query}");
    for (query, count) in
        [("", 2), ("?status=completed", 1), ("?status=cancelled&mine=true", 1), ("?status=active", 0)]
    {
        let page = ada.get(&list(query)).await.expect(200).body;
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{query}");
    }
    ada.get(&list("?status=draft")).await.refused(422, "invalid");
}

async fn values_and_definitions_that_do_not_fit_are_refused_and_nothing_is_written(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, ada) = (server.key(Role::Owner, "olga").await, server.key(Role::Member, "ada").await);
    let mut secret = tool("secret", NOWHERE);
    secret["input_schema"]["properties"]["key"] = json!({"type": "string", "writeOnly": true});
    owner.post("/api/tools", secret).await.expect(201);
    let id = start(&ada, "secret", json!({})).await.expect(201).id();
    let before = kinds(&owner, &id).await;
    let long = "x".repeat(64 * 1024);
    for (values, field) in [
        (json!({"n": "1"}), "values.n"),
        (json!({"other": 1}), "values.other"),
        (json!({"key": "by value"}), "values.key"),
        (json!({"key": {"secret": ""}}), "values.key"),
        (json!({"word": "x".repeat(12 * 1024 + 1)}), "values.word"),
        (json!({"word": long}), "values"),
        (json!([]), "values"),
    ] {
        let path = format!("/api/tool-sessions/{id}");
        let body = json!({"values": values});
        for answer in [
            ada.patch(&path, body.clone()).await,
            ada.post(&format!("{path}/invoke"), body.clone()).await,
            ada.post("/api/tools/secret/sessions", body).await,
        ] {
            let refused = answer.refused(422, "invalid");
            assert_eq!(refused.body["error"]["field"], field, "{}", refused.text);
            assert!(!refused.text.contains("by value"), "{}", refused.text);
        }
    }
    let missing = invoke(&ada, &id).await.refused(422, "invalid").body;
    assert_eq!(missing["error"]["field"], "values.word");
    assert_eq!(missing["error"]["details"]["complaints"].as_array().unwrap().len(), 1);
    assert_eq!(kinds(&owner, &id).await, before, "nothing was written");
    start(&ada, "nothing", json!({})).await.refused(404, "not_found");

    owner.post("/api/tools", tool("say", NOWHERE)).await.expect(201);
    let steps = |slug: &str, steps: Value| {
        json!({"slug": slug, "name": "S", "input_schema": {"type": "object", "properties": {"a": {}}},
            "run": {"type": "steps", "steps": steps}})
    };
    let step = |tool: &str| json!([{"key": "k", "tool": tool, "input": {}}]);
    for (body, field) in [
        (steps("s", step("nothing")), "run.steps[0].tool"),
        (steps("s", step("s")), "run.steps[0].tool"),
        (
            steps("s", json!([{"key": "k", "tool": "say", "input": {"x": {"$from": "/values/z"}}}])),
            "run.steps[0].input",
        ),
        (
            json!({"slug": "s", "name": "S", "input_schema": {"type": "object"}, "run": {"type": "task", "task": "no"}}),
            "run.task",
        ),
        (
            json!({"slug": "s", "name": "S", "input_schema": {"$ref": "https://example.org/x"}, "run": {"type": "task", "task": "no"}}),
            "input_schema",
        ),
    ] {
        let refused = owner.post("/api/tools", body).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field, "{}", refused.text);
    }
    for (slug, inner) in [("one", "say"), ("two", "one"), ("three", "two")] {
        owner.post("/api/tools", steps(slug, step(inner))).await.expect(201);
    }
    owner.post("/api/tools", steps("four", step("three"))).await.refused(422, "invalid");
    let turned = json!({"run": {"type": "steps", "steps": step("three")}});
    owner.patch("/api/tools/one", turned).await.refused(422, "invalid");
    owner
        .post("/api/agents", json!({"slug": "a", "name": "A", "tools": [{"type": "tool", "slug": "no"}]}))
        .await
        .refused(422, "invalid");
    let queued = json!({"session_type": "tool", "status": "pending"});
    owner.post("/api/sessions", queued).await.refused(422, "invalid");
}

async fn tool_sessions_belong_to_the_person_who_started_them(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, ada) = (server.key(Role::Owner, "olga").await, server.key(Role::Member, "ada").await);
    let bob = server.key(Role::Member, "bob").await;
    owner.post("/api/tools", tool("say", NOWHERE)).await.expect(201);
    ada.post("/api/tools", tool("mine", NOWHERE)).await.refused(403, "denied");
    let id = start(&ada, "say", json!({"word": "x"})).await.expect(201).id();
    let path = format!("/api/tool-sessions/{id}");
    bob.get(&path).await.refused(404, "not_found");
    bob.post(&format!("{path}/invoke"), json!({})).await.refused(404, "not_found");
    assert_eq!(bob.get("/api/tools/say/sessions").await.expect(200).body["items"], json!([]));
    owner.get(&path).await.expect(200);
    owner.patch(&path, json!({"values": {"n": 1}})).await.refused(403, "denied");
    owner.post(&format!("{path}/invoke"), json!({})).await.refused(403, "denied");
    for (role, user) in [(Role::Guest, "gil"), (Role::Worker, "")] {
        let other = server.key(role, user).await;
        other.post("/api/tools/say/sessions", json!({})).await.refused(403, "denied");
        other.get(&path).await.refused(403, "denied");
        other.get("/api/tools/say/sessions").await.refused(403, "denied");
    }
    let key = ada.with("idempotency-key", "k");
    key.post(&format!("{path}/invoke"), json!({})).await.expect(202);
    key.post(&format!("{path}/invoke"), json!({})).await.expect(202);
}

async fn a_claim_that_names_no_types_gets_no_tools(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "olga").await, server.key(Role::Worker, "").await);
    owner.post("/api/tools", tool("say", NOWHERE)).await.expect(201);
    let id = start(&owner, "say", json!({"word": "x"})).await.expect(201).id();
    invoke(&owner, &id).await.expect(202);
    let any = worker.post("/api/claims", json!({"worker": "w", "limit": 10})).await.expect(200).body;
    assert_eq!(any["claims"], json!([]));
    assert_eq!(claim(&worker, 10).await.len(), 1);
}

async fn the_claim_holder_writes_no_events_about_the_tool(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "olga").await, server.key(Role::Worker, "").await);
    owner.post("/api/tools", tool("say", NOWHERE)).await.expect(201);
    let id = start(&owner, "say", json!({"word": "x"})).await.expect(201).id();
    invoke(&owner, &id).await.expect(202);
    let claims = claim(&worker, 1).await;
    let epoch = &claims[0]["epoch"];
    let append = |kind: &str, metadata: Value| json!({"epoch": epoch, "events": [{"type": kind, "metadata": metadata}]});
    let path = format!("/api/sessions/{id}/events");
    let forged = append("tool.invocation_completed", json!({"invocation_id": "x"}));
    worker.post(&path, forged).await.refused(403, "denied");
    worker.post(&path, append("progress.made", json!({}))).await.expect(201);
    let delta = json!({"epoch": epoch, "text": "half"});
    worker.post(&format!("/api/sessions/{id}/delta"), delta).await.expect(204);
}

async fn a_tool_session_is_cancelled_at_once_and_fences_its_worker(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, ada) = (server.key(Role::Owner, "olga").await, server.key(Role::Member, "ada").await);
    let worker = server.key(Role::Worker, "").await;
    owner.post("/api/tools", tool("say", NOWHERE)).await.expect(201);
    for invoked in [false, true] {
        let id = start(&ada, "say", json!({"word": "x"})).await.expect(201).id();
        if invoked {
            invoke(&ada, &id).await.expect(202);
        }
        let path = format!("/api/tool-sessions/{id}/cancel");
        let gone = ada.post(&path, json!({})).await.expect(200).body;
        assert_eq!((&gone["status"], &gone["error"]["code"]), (&json!("cancelled"), &json!("cancelled")));
        assert!(!kinds(&owner, &id).await.iter().any(|kind| kind.starts_with("tool.invocation")));
        ada.post(&path, json!({})).await.refused(409, "session_closed");
    }
    let id = start(&ada, "say", json!({"word": "x"})).await.expect(201).id();
    invoke(&ada, &id).await.expect(202);
    let claims = claim(&worker, 1).await;
    ada.post(&format!("/api/tool-sessions/{id}/cancel"), json!({})).await.expect(200);
    let late = json!({"epoch": claims[0]["epoch"], "result": 1});
    worker.post(&format!("/api/sessions/{id}/complete"), late).await.refused(409, "fenced");
    let kinds = kinds(&owner, &id).await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "tool.invocation_started").count(), 1);
    assert_eq!(kinds.iter().filter(|kind| *kind == "tool.invocation_failed").count(), 1);
}

async fn steps_pass_values_on_and_end_their_parent(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "olga").await, server.key(Role::Worker, "").await);
    owner.post("/api/tools", tool("say", NOWHERE)).await.expect(201);
    let both = |slug: &str, inner: &str| {
        json!({"slug": slug, "name": "Both", "output": {"type": "object"},
            "input_schema": {"type": "object", "required": ["word"], "properties": {"word": {"type": "string"}}},
            "run": {"type": "steps", "steps": [
                {"key": "first", "tool": "say", "input": {"word": {"$from": "/values/word"}, "n": 1}},
                {"key": "then", "tool": inner, "input": {"word": {"$from": "/steps/first/result/said"}}}]}})
    };
    owner.post("/api/tools", both("inner", "say")).await.expect(201);
    owner.post("/api/tools", both("outer", "inner")).await.expect(201);
    let id = start(&owner, "outer", json!({"word": "a"})).await.expect(201).id();
    let invoked = invoke(&owner, &id).await.expect(202).body;
    assert_eq!(invoked["invocation"]["state"], "running");
    let mut said = Vec::new();
    for word in ["b", "c", "d"] {
        let claims = claim(&worker, 10).await;
        assert_eq!(claims.len(), 1, "{word}");
        said.push(claims[0]["brief"]["tool"]["values"]["word"].as_str().unwrap().to_owned());
        complete(&worker, &claims[0], json!({"said": word})).await;
    }
    assert_eq!(said, ["a", "b", "c"]);
    let done = shown(&owner, &id).await;
    assert_eq!((&done["status"], &done["result"]), (&json!("completed"), &json!({"said": "d"})));
    let steps: Vec<(&Value, &Value)> =
        done["steps"].as_array().unwrap().iter().map(|step| (&step["key"], &step["status"])).collect();
    assert_eq!(steps, [(&json!("first"), &json!("completed")), (&json!("then"), &json!("completed"))]);
    let inner = done["steps"][1]["session_id"].as_str().unwrap();
    let row = owner.get(&format!("/api/sessions/{inner}")).await.expect(200).body;
    assert_eq!((&row["parent_id"], &row["root_id"]), (&json!(id), &json!(id)));
    for of in [&id, inner] {
        let kinds = kinds(&owner, of).await;
        let told: Vec<&str> =
            kinds.iter().map(String::as_str).filter(|kind| kind.starts_with("tool.")).collect();
        let told: Vec<&str> = told.into_iter().filter(|kind| *kind != "tool.field_changed").collect();
        assert_eq!(
            told,
            [
                "tool.session_started", "tool.invocation_started", "tool.composition_step.started",
                "tool.composition_step.completed", "tool.composition_step.started",
                "tool.composition_step.completed", "tool.invocation_completed",
            ]
        );
    }
    let id = start(&owner, "outer", json!({"word": "a"})).await.expect(201).id();
    invoke(&owner, &id).await.expect(202);
    owner.post(&format!("/api/tool-sessions/{id}/cancel"), json!({})).await.expect(200);
    assert_eq!(claim(&worker, 10).await.len(), 0, "its steps are cancelled with it");
    let gone = shown(&owner, &id).await;
    assert!(gone["steps"].as_array().unwrap().iter().all(|step| step["status"] == "cancelled"), "{gone}");
}

async fn a_step_that_cannot_start_fails_the_whole(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "olga").await, server.key(Role::Worker, "").await);
    owner.post("/api/tools", tool("say", NOWHERE)).await.expect(201);
    let inner = json!({"slug": "inner", "name": "I", "input_schema": {"type": "object", "properties": {"w": {}}},
        "run": {"type": "steps", "steps": [
            {"key": "a", "tool": "say", "input": {"word": "x"}},
            {"key": "b", "tool": "say", "input": {"word": {"$from": "/steps/a/result/missing"}}}]}});
    owner.post("/api/tools", inner).await.expect(201);
    let outer = json!({"slug": "outer", "name": "O", "input_schema": {"type": "object"},
        "run": {"type": "steps", "steps": [{"key": "k", "tool": "inner", "input": {}}]}});
    owner.post("/api/tools", outer).await.expect(201);
    let id = start(&owner, "outer", json!({})).await.expect(201).id();
    invoke(&owner, &id).await.expect(202);
    let claims = claim(&worker, 1).await;
    complete(&worker, &claims[0], json!({"said": 1})).await;
    let failed = shown(&owner, &id).await;
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("cancelled"), &json!("child_failed")));
    assert!(failed["error"]["message"].as_str().unwrap().contains("/steps/a/result/missing"), "{failed}");
    assert_eq!(kinds(&owner, &id).await.iter().filter(|kind| *kind == "tool.invocation_failed").count(), 1);
}

async fn a_task_is_run_with_the_invokers_right_alone(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, ada) = (server.key(Role::Owner, "olga").await, server.key(Role::Member, "ada").await);
    let worker = server.key(Role::Worker, "").await;
    for (slug, assigned) in [("hers", json!("ada")), ("other", Value::Null)] {
        let task = json!({"slug": slug, "name": "T", "agent_slug": "external", "assigned_to": assigned});
        owner.post("/api/tasks", task).await.expect(201);
        let run = json!({"slug": format!("run-{slug}"), "name": "R", "run": {"type": "task", "task": slug},
            "input_schema": {"type": "object", "properties": {"x": {}}}});
        owner.post("/api/tools", run).await.expect(201);
        let inside = json!({"slug": format!("in-{slug}"), "name": "I", "input_schema": {"type": "object"},
            "run": {"type": "steps", "steps": [
                {"key": "k", "tool": format!("run-{slug}"), "input": {"x": 2}}]}});
        owner.post("/api/tools", inside).await.expect(201);
    }
    for slug in ["run-other", "in-other"] {
        let id = start(&ada, slug, json!({})).await.expect(201).id();
        let before = kinds(&owner, &id).await;
        invoke(&ada, &id).await.refused(403, "denied");
        assert_eq!(kinds(&owner, &id).await, before);
    }
    for slug in ["run-hers", "in-hers"] {
        let id = start(&ada, slug, json!({})).await.expect(201).id();
        invoke(&ada, &id).await.expect(202);
        let wish = json!({"worker": "w", "session_types": ["agent"], "lease_ms": 600_000});
        let claims = worker.post("/api/claims", wish).await.expect(200).body["claims"].clone();
        if slug == "in-hers" {
            assert_eq!(claims[0]["session"]["root_id"], json!(id));
        } else {
            assert_eq!(claims[0]["session"]["parent_id"], json!(id));
        }
        complete(&worker, &claims[0], json!({"y": 1})).await;
        let done = shown(&ada, &id).await;
        assert_eq!((&done["status"], &done["result"]), (&json!("completed"), &json!({"y": 1})), "{slug}");
    }
}

/// What a tool's server was sent: path with query, idempotency key, body.
type Sent = Arc<Mutex<Vec<(String, String, String)>>>;

async fn stand_in(answer: String) -> (String, Sent) {
    let sent = Sent::default();
    let app = Router::new()
        .fallback(any(
            move |State(sent): State<Sent>, uri: Uri, headers: HeaderMap, body: String| async move {
                let key = headers.get("idempotency-key").unwrap().to_str().unwrap().to_owned();
                sent.lock().unwrap().push((uri.to_string(), key, body));
                answer.clone()
            },
        ))
        .with_state(sent.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, sent)
}

fn kit(script: &str) -> Arc<Kit> {
    let model: Arc<dyn Model> = Arc::new(Scripted::parse(script).unwrap());
    let mut kit = Kit::plain(Outbound::new(Allow::parse(["127.0.0.1"]).unwrap()).unwrap());
    kit.named = BTreeMap::from([("scripted:s".to_owned(), model)]);
    let hosts = vec!["127.0.0.1".to_owned()];
    let secret = DeclaredSecret { value: "s3cr\"et".to_owned().into(), hosts };
    let elsewhere = DeclaredSecret { value: "x".to_owned().into(), hosts: vec!["example.org".to_owned()] };
    let secrets = BTreeMap::from([("crm".to_owned(), secret), ("far".to_owned(), elsewhere)]);
    kit.means = BTreeMap::from([(TenantId::stored("default"), Means { secrets, ..Means::default() })]);
    Arc::new(kit)
}

/// A server with an executor that has one slot.
async fn served(store_kind: StoreKind, script: &str) -> (TestServer, watch::Sender<bool>) {
    let kit = kit(script);
    let talks = kit.clone();
    let server = TestServer::open_over(store_kind, move |engine, config| {
        config.conversations = Some(Conversations::new(engine.clone(), talks, Settings::default()));
    })
    .await;
    server.engine.declare_secrets(kit.secret_hosts());
    let settings = ExecutorSettings {
        worker: "w".to_owned(),
        runs_max: 1,
        lease: Duration::from_secs(30),
        base_url: "http://localhost".to_owned(),
    };
    let executor = Executor::new(server.engine.clone(), kit, settings);
    let (leave, leaving) = watch::channel(false);
    tokio::spawn(async move { executor.serve(leaving).await });
    (server, leave)
}

const SILENT: &str = r#"{"steps":[{"say":"Nothing."}]}"#;

async fn ended(caller: &Caller<'_>, id: &str) -> Value {
    within(async {
        loop {
            let now = shown(caller, id).await;
            if now["status"] != "active" {
                return now;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

async fn the_executor_calls_a_server_once_under_its_key_and_keeps_secrets_to_itself(store_kind: StoreKind) {
    let (server, _leave) = served(store_kind, SILENT).await;
    let me = server.anyone();
    let (url, sent) = stand_in(r#"{"heard":"s3cr\"et"}"#.to_owned()).await;
    let mut told = tool("say", &url);
    told["run"]["method"] = json!("GET");
    told["input_schema"]["properties"]["key"] = json!({"type": "string", "writeOnly": true});
    me.post("/api/tools", told).await.expect(201);
    for secret in ["unknown", "far"] {
        let values = json!({"word": "x", "key": {"secret": secret}});
        let refused = start(&me, "say", values).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], "values.key");
    }
    let id = start(&me, "say", json!({"word": "x", "key": {"secret": "crm"}})).await.expect(201).id();
    let invoked = invoke(&me, &id).await.expect(202).body;
    let done = ended(&me, &id).await;
    assert_eq!(
        (&done["status"], &done["result"]),
        (&json!("completed"), &json!({"heard": "[secret crm]"})),
        "{done}"
    );
    let sent = sent.lock().unwrap().clone();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].0.as_str(), json!(sent[0].1)), ("/", invoked["invocation"]["id"].clone()));
    assert_eq!(serde_json::from_str::<Value>(&sent[0].2).unwrap(), json!({"word": "x", "key": "s3cr\"et"}));
    for path in [format!("/api/sessions/{id}"), format!("/api/sessions/{id}/export?format=json")] {
        let shown = me.get(&path).await.expect(200).text;
        assert!(!shown.contains("s3cr"), "{shown}");
    }
}

async fn the_executor_asks_first_where_the_tool_says_so(store_kind: StoreKind) {
    let (server, _leave) = served(store_kind, SILENT).await;
    let me = server.anyone();
    let (url, sent) = stand_in("\"done\"".to_owned()).await;
    let mut careful = tool("careful", &url);
    careful["requires_confirmation"] = json!(true);
    me.post("/api/tools", careful).await.expect(201);
    for (decision, word, status) in [("deny", "no", "cancelled"), ("approve", "yes", "completed")] {
        let id = start(&me, "careful", json!({"word": "x"})).await.expect(201).id();
        invoke(&me, &id).await.expect(202);
        within(async {
            while shown(&me, &id).await["invocation"]["state"] != "waiting" {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let asked = me.get(&format!("/api/approvals?session_id={id}")).await.expect(200).body;
        let approval = asked["items"][0]["id"].as_str().unwrap();
        let mut decided = json!({"decision": decision});
        if decision == "approve" {
            decided["modified_args"] = json!({"word": word});
        }
        me.post(&format!("/api/approvals/{approval}/decide"), decided).await.expect(200);
        assert_eq!(ended(&me, &id).await["status"], status);
        let kinds = kinds(&me, &id).await;
        assert_eq!(kinds.iter().filter(|kind| *kind == "tool.invocation_started").count(), 1);
    }
    let sent = sent.lock().unwrap();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].2.contains("yes"), "{sent:?}");
}

async fn an_agent_calls_a_tool_in_a_task_and_in_talk(store_kind: StoreKind) {
    let script = r#"{"steps":[{"call":{"name":"say","args":{"word":"hi"}}},{"call":{"name":"slow","args":{"word":"hi"}}},
        {"say":"Too slow."}]}"#;
    let (server, _leave) = served(store_kind, script).await;
    let me = server.anyone();
    let (url, sent) = stand_in("\"heard\"".to_owned()).await;
    me.post("/api/tools", tool("say", &url)).await.expect(201);
    let mut slow = tool("slow", NOWHERE);
    slow["timeout_ms"] = json!(50);
    slow["requires_confirmation"] = json!(true);
    me.post("/api/tools", slow).await.expect(201);
    let agent = json!({"slug": "a", "name": "A", "model": "scripted:s",
        "tools": [{"type": "tool", "slug": "say"}, {"type": "tool", "slug": "slow"}]});
    me.post("/api/agents", agent).await.expect(201);
    me.post("/api/tasks", json!({"slug": "t", "name": "T", "agent_slug": "a"})).await.expect(201);
    let run = me.post("/api/tasks/t/trigger", json!({})).await.expect(201).id();
    within(async {
        while me.get(&format!("/api/sessions/{run}")).await.body["status"] != "completed" {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let children = me.get(&format!("/api/sessions/{run}/children")).await.expect(200).body;
    let children = children["items"].as_array().unwrap();
    assert!(
        children.len() == 2 && children.iter().all(|child| child["session_type"] == "tool"),
        "{children:?}"
    );
    let said = me.get("/api/tools/say/sessions").await.expect(200).body["items"][0].clone();
    assert_eq!((&said["status"], &said["result"]), (&json!("completed"), &json!("heard")));
    assert_eq!(sent.lock().unwrap().len(), 1);

    me.post("/api/sessions", json!({"id": "talk", "session_type": "mixed", "agent_slug": "a"}))
        .await
        .expect(201);
    let said =
        me.post("/api/chat", json!({"thread_id": "talk", "message": "Call it."})).await.expect(200).body;
    assert_eq!(said["response_text"], "Too slow.", "{said}");
    let log = me.get("/api/sessions/talk/events?limit=1000").await.expect(200);
    assert!(log.text.contains("did not answer within 0.05 s"), "{}", log.text);
    assert!(!log.text.contains("\"to\":\"pending\""), "a conversation is never queued");
    let history = me.get("/api/tools/slow/sessions?status=cancelled").await.expect(200).body;
    assert_eq!(history["items"].as_array().unwrap().len(), 2, "{history}");
    assert!(history["items"][0]["error"]["code"] == "timed_out", "{history}");
    assert_eq!(sent.lock().unwrap().len(), 2);
}

async fn a_link_shows_the_result_and_not_the_values(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, worker) = (server.key(Role::Owner, "olga").await, server.key(Role::Worker, "").await);
    owner.post("/api/tools", tool("say", NOWHERE)).await.expect(201);
    let id = start(&owner, "say", json!({"word": "whispered"})).await.expect(201).id();
    invoke(&owner, &id).await.expect(202);
    let claims = claim(&worker, 1).await;
    complete(&worker, &claims[0], json!({"said": 1})).await;
    let share = json!({"access": "read", "expires_in": 60});
    let link = owner.post(&format!("/api/sessions/{id}/share"), share).await.expect(201).body;
    let token = link["token"].as_str().unwrap();
    let anyone = server.anyone();
    let seen = anyone.get(&format!("/api/sessions/{id}?share={token}")).await.expect(200);
    assert_eq!((&seen.body["title"], &seen.body["result"]), (&json!("Say it"), &json!({"said": 1})));
    let log = anyone.get(&format!("/api/sessions/{id}/events?share={token}")).await.expect(200);
    assert!(
        !seen.text.contains("whispered") && !log.text.contains("whispered"),
        "{} {}",
        seen.text,
        log.text
    );
    anyone.get(&format!("/api/tool-sessions/{id}?share={token}")).await.refused(403, "denied");
}

async fn a_result_that_is_too_large_fails_the_invocation(store_kind: StoreKind) {
    let (server, _leave) = served(store_kind, SILENT).await;
    let me = server.anyone();
    let (url, _) = stand_in(format!("\"{}\"", "x".repeat(10 << 20))).await;
    me.post("/api/tools", tool("say", &url)).await.expect(201);
    let id = start(&me, "say", json!({"word": "x"})).await.expect(201).id();
    invoke(&me, &id).await.expect(202);
    assert_eq!(ended(&me, &id).await["error"]["code"], "result_too_large");
}
