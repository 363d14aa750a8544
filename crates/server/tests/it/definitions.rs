//! /api/agents, /api/entities, /api/criteria-sets, /api/bundle

use std::collections::BTreeMap;
use std::sync::Arc;

use sederunt_agents::executor::Kit;
use sederunt_agents::model::Model;
use sederunt_agents::model::scripted::Scripted;
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_core::access::Role;
use sederunt_core::limits;
use serde_json::{Value, json};

use crate::server::{StoreKind, TestServer, on_every_store};

on_every_store!(
    what_is_defined_is_shown_listed_and_changed,
    what_does_not_fit_is_refused_with_its_path,
    owners_define_and_others_read,
    a_repeat_defines_once,
    a_list_goes_on_where_it_ended,
    tasks_and_entities_are_found_by_their_words,
    a_bundle_goes_from_one_tenant_to_another_whole,
    a_bundle_lands_whole_or_not_at_all,
    what_this_server_will_not_run_is_warned_about_when_it_is_defined,
);

const ENTITY: &str = "0198c5d2-0000-7000-8000-000000000001";

fn nouns() -> [(&'static str, Value, Value, &'static str, Value); 3] {
    [
        (
            "/api/agents",
            json!({"slug": "scribe", "name": "Scribe", "instructions": "Write plainly.", "model": "external",
                "tools": [{"type": "http", "name": "look_up", "url": "https://example.org", "schema": {"type": "object"},
                    "requires_confirmation": true}, {"type": "builtin", "name": "request_input"}],
                "limits": {"steps": 5}}),
            json!({"instructions": null, "limits": {"steps": 6}}),
            "instructions",
            json!(null),
        ),
        (
            "/api/entities",
            json!({"id": ENTITY, "type_slug": "city", "title": "Oban", "fields": {"rain": 1.50, "b": null}}),
            json!({"fields": {"rain": true}}),
            "fields",
            json!({"rain": true}),
        ),
        (
            "/api/criteria-sets",
            json!({"id": "tone", "name": "Tone", "dimensions": [{"slug": "tone", "type": "select",
                "options": [{"value": "kind", "score": 1.0}, {"value": "cruel", "flag": "ouch"}],
                "option_styles": {"cruel": {"hard_block": true, "color": "red"}}}]}),
            json!({"name": "Manners"}),
            "name",
            json!("Manners"),
        ),
    ]
}

/// Whether everything of one value stands in another.
fn holds(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|kept| holds(kept, value)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| holds(whole, part))
        }
        (whole, part) => whole == part,
    }
}

async fn what_is_defined_is_shown_listed_and_changed(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    for (path, wish, patch, field, value) in nouns() {
        let made = owner.post(path, wish.clone()).await.expect(201).body;
        assert!(holds(&made, &wish), "{made} does not hold {wish}");
        assert_eq!((&made["version"], &made["created_at"]), (&json!(1), &made["updated_at"]), "{path}");
        let one = format!("{path}/{}", made["id"].as_str().unwrap());
        assert_eq!(owner.get(&one).await.expect(200).body, made);
        let list = owner.get(path).await.expect(200).body;
        assert_eq!(list, json!({"items": [made], "next_cursor": null}));
        let changed = owner.patch(&one, patch).await.expect(200).body;
        assert_eq!((&changed[field], &changed["version"]), (&value, &json!(2)), "{path}");
        assert_eq!(owner.get(&one).await.expect(200).body, changed);
        assert_eq!(owner.patch(&one, json!({})).await.expect(200).body["version"], 2, "nothing was changed");
        owner.post(path, wish).await.refused(409, "already_exists");
        owner.get(&format!("{path}/nothing")).await.refused(404, "not_found");
        owner.patch(&format!("{path}/nothing"), json!({})).await.refused(404, "not_found");
    }
    let drawn = owner.post("/api/entities", json!({"type_slug": "loch"})).await.expect(201).id();
    assert!(uuid::Uuid::parse_str(&drawn).is_ok());
    let lochs = owner.get("/api/entities?type_slug=loch").await.expect(200).body;
    assert_eq!((lochs["items"].as_array().unwrap().len(), &lochs["items"][0]["id"]), (1, &json!(drawn)));
}

async fn what_does_not_fit_is_refused_with_its_path(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let option = |extra: Value| {
        let mut option = json!({"value": "v"});
        option.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"name": "C", "dimensions": [{"slug": "d", "options": [option]}]})
    };
    let table = [
        ("/api/agents", json!({"slug": "a"}), "name"),
        ("/api/agents", json!({"slug": "a", "name": "A", "id": "a"}), "id"),
        ("/api/agents", json!({"slug": "a/b", "name": "A"}), "slug"),
        ("/api/agents", json!({"slug": "a", "name": "A", "limits": {"step": 1}}), "limits.step"),
        (
            "/api/agents",
            json!({"slug": "a", "name": "A", "limits": {"concurrency": 0}}),
            "limits.concurrency",
        ),
        ("/api/agents", json!({"slug": "a", "name": "A", "tools": [{"type": "shell"}]}), "tools[0]"),
        (
            "/api/agents",
            json!({"slug": "a", "name": "A", "tools": [{"type": "http", "name": "t", "url": "file:///etc"}]}),
            "tools.url",
        ),
        ("/api/entities", json!({"title": "x"}), "type_slug"),
        ("/api/entities", json!({"type_slug": "x", "fields": []}), "fields"),
        ("/api/entities", json!({"type_slug": "x", "id": 5}), "id"),
        ("/api/entities", json!({"type_slug": "x", "y": 1}), "y"),
        ("/api/criteria-sets", option(json!({"x": 1})), "dimensions[0].options[0].x"),
        ("/api/criteria-sets", option(json!({"score": "high"})), "dimensions[0].options[0].score"),
        ("/api/bundle", json!({"schedules": []}), "schedules"),
        ("/api/views", json!({"title": "T"}), "questions"),
        ("/api/views", json!({"title": "T", "questions": [{"key": "a"}]}), "questions[0].label"),
        (
            "/api/views",
            json!({"title": "T", "questions": [{"key": "a", "label": "A", "type": "secret"}]}),
            "questions[0].type",
        ),
        ("/api/views", json!({"title": "T", "session_id": "s", "questions": []}), "epoch"),
        ("/api/views", json!({"title": "T", "epoch": 1, "questions": []}), "session_id"),
        ("/api/bundle", json!({"version": 7}), "version"),
        ("/api/bundle", json!({"entities": [{"id": "e", "type_slug": "x", "y": 1}]}), "entities[0].y"),
        ("/api/bundle", json!({"entities": [{"type_slug": "x"}]}), "entities[0].id"),
    ];
    for (path, body, field) in table {
        let refused = owner.post(path, body.clone()).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], field, "{path} {body}");
    }
    owner.post("/api/entities", json!([])).await.refused(422, "invalid");
    let long = json!({"type_slug": "x", "fields": {"x": "x".repeat(limits::DOCUMENT_BYTES_MAX)}});
    owner.post("/api/entities", long).await.refused(413, "too_large");
    for query in ["limit=0", "cursor=x", "nonsense=1"] {
        owner.get(&format!("/api/entities?{query}")).await.refused(422, "invalid");
    }
    assert_eq!(owner.get("/api/entities").await.expect(200).body["items"], json!([]), "nothing was written");
}

async fn owners_define_and_others_read(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    let (member, worker) = (server.key(Role::Member, "ada").await, server.key(Role::Worker, "").await);
    let guest = server.key(Role::Guest, "bob").await;
    for (path, wish, ..) in nouns() {
        let id = owner.post(path, wish.clone()).await.expect(201).id();
        for reader in [&member, &worker] {
            reader.get(path).await.expect(200);
            reader.get(&format!("{path}/{id}")).await.expect(200);
            reader.post(path, wish.clone()).await.refused(403, "denied");
            reader.patch(&format!("{path}/{id}"), json!({})).await.refused(403, "denied");
        }
        guest.get(path).await.refused(403, "denied");
        guest.get(&format!("{path}/{id}")).await.refused(403, "denied");
    }
    for caller in [&member, &worker, &guest] {
        caller.get("/api/bundle").await.refused(403, "denied");
        caller.post("/api/bundle", json!({})).await.refused(403, "denied");
    }
}

async fn a_repeat_defines_once(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone().with("idempotency-key", "k-1");
    let wish = json!({"type_slug": "city", "title": "Oban"});
    let first = owner.post("/api/entities", wish.clone()).await.expect(201).body;
    assert_eq!(owner.post("/api/entities", wish).await.expect(201).body, first);
    owner.post("/api/entities", json!({"type_slug": "x"})).await.refused(422, "idempotency_mismatch");
    let list = server.anyone().get("/api/entities").await.expect(200).body;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}

async fn a_list_goes_on_where_it_ended(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    for n in 0..5 {
        owner.post("/api/entities", json!({"id": format!("e{n}"), "type_slug": "x"})).await.expect(201);
    }
    let (mut seen, mut path) = (Vec::new(), "/api/entities?limit=2".to_owned());
    loop {
        let page = owner.get(&path).await.expect(200).body;
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()),
        );
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/api/entities?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, ["e4", "e3", "e2", "e1", "e0"]);
}

async fn a_bundle_goes_from_one_tenant_to_another_whole(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let (owner, operator) = (server.anyone(), server.operator());
    for (path, wish, ..) in nouns() {
        owner.post(path, wish).await.expect(201);
    }
    let task = json!({"id": "t-1", "slug": "report", "name": "Report", "agent_slug": "scribe", "entity_id": ENTITY,
        "criteria_set_id": "tone", "requires_approval": true, "output": {"type": "entity", "schema": {}}});
    owner.post("/api/tasks", task).await.expect(201);
    let form = json!({"type": "object", "properties": {"key": {"type": "string", "writeOnly": true}}});
    for (slug, run) in [
        (
            "ask",
            json!({"type": "http", "url": "https://example.org/", "method": "PUT", "headers": {"x": "y"}}),
        ),
        ("call", json!({"type": "mcp", "server": "bank", "tool": "pay"})),
        ("run", json!({"type": "task", "task": "report"})),
        (
            "both",
            json!({"type": "steps", "steps": [{"key": "a", "tool": "ask", "input": {}, "depends_on": []},
            {"key": "b", "tool": "run", "input": {"x": {"$from": "/steps/a/result/y"}}, "depends_on": ["a"]}]}),
        ),
    ] {
        let form = if slug == "run" { json!({"type": "object"}) } else { form.clone() };
        let tool = json!({"slug": slug, "name": "T", "description": "D", "input_schema": form, "run": run,
            "output": {"type": "object", "schema": {"type": "object"}}, "requires_confirmation": true,
            "timeout_ms": 500});
        owner.post("/api/tools", tool).await.expect(201);
    }
    let caller = json!({"slug": "caller", "name": "C", "tools": [{"type": "tool", "slug": "both"}]});
    owner.post("/api/agents", caller).await.expect(201);
    let bundle = owner.get("/api/bundle").await.expect(200).body;
    assert_eq!(bundle["tools"].as_array().unwrap().len(), 4, "{bundle}");
    assert_eq!(bundle["criteria_sets"][0]["dimensions"][0]["option_styles"]["cruel"]["hard_block"], true);
    operator.post("/api/tenants", json!({"id": "acme"})).await.expect(201);
    let there = operator.with("x-sederunt-tenant", "acme");
    assert_eq!(
        there.post("/api/bundle", bundle.clone()).await.expect(200).body,
        json!({"imported": 9, "warnings": []})
    );
    assert_eq!(there.get("/api/bundle").await.expect(200).body, bundle);
    assert_eq!(
        there.post("/api/bundle", bundle.clone()).await.expect(200).body,
        json!({"imported": 9, "warnings": []})
    );
    let task = there.get("/api/tasks/report").await.expect(200).body;
    assert_eq!((&task["id"], &task["version"]), (&json!("t-1"), &json!(1)), "what is the same is left alone");
}

async fn a_bundle_lands_whole_or_not_at_all(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let bundle = json!({"entities": [{"id": "e", "type_slug": "x"}],
        "tasks": [{"id": "t", "slug": "t", "name": "T", "agent_slug": "nobody"}]});
    let refused = owner.post("/api/bundle", bundle).await.refused(422, "invalid");
    assert_eq!(refused.body["error"]["field"], "tasks.agent_slug");
    owner.get("/api/entities/e").await.refused(404, "not_found");
    let twice = json!({"entities": [{"id": "e", "type_slug": "x"}, {"id": "e", "type_slug": "y"}]});
    owner.post("/api/bundle", twice).await.refused(422, "invalid");
}

async fn what_this_server_will_not_run_is_warned_about_when_it_is_defined(store_kind: StoreKind) {
    let server = TestServer::open_over(store_kind, |engine, _| {
        let model: Arc<dyn Model> = Arc::new(Scripted::parse(r#"{"steps":[{"say":"Yes."}]}"#).unwrap());
        let mut kit = Kit::plain(Outbound::new(Allow::default()).unwrap());
        kit.named = BTreeMap::from([("scripted:known".to_owned(), model)]);
        engine.declare_models(Arc::new(kit));
    })
    .await;
    let owner = server.anyone();
    let no_model = "this server has no model `openai:gpt`: set `[openai] key_file` in the agents file";
    let no_price = "the limit `cost_micros` cannot be kept: this server has no price for the model \
        `scripted:known`; add one under `[prices]` in the agents file, or take the limit away";
    let agent = |slug: &str, model: &str, limits: Value| json!({"slug": slug, "name": "A", "model": model, "limits": limits});
    for (slug, model, limits, expected) in [
        ("fits", "scripted:known", json!({"steps": 3}), json!(null)),
        ("free", "eliza", json!({"cost_micros": 1}), json!(null)),
        ("elsewhere", "external", json!({"cost_micros": 1}), json!(null)),
        ("absent", "openai:gpt", json!({}), json!([format!("agent `absent`: {no_model}")])),
        ("dear", "scripted:known", json!({"cost_micros": 1}), json!([format!("agent `dear`: {no_price}")])),
    ] {
        let made = owner.post("/api/agents", agent(slug, model, limits)).await.expect(201).body;
        assert_eq!(made["warnings"], expected, "{slug}");
        let read = owner.get(&format!("/api/agents/{slug}")).await.expect(200).body;
        assert!(read.get("warnings").is_none(), "{read}");
    }
    let mended = owner.patch("/api/agents/dear", json!({"limits": null})).await.expect(200).body;
    assert_eq!(mended["warnings"], json!(null));
    let worse = owner.patch("/api/agents/dear", json!({"model": "openai:gpt"})).await.expect(200).body;
    assert_eq!(worse["warnings"], json!([format!("agent `dear`: {no_model}")]));

    let task = json!({"slug": "t", "name": "T", "agent_slug": "fits", "limits": {"cost_micros": 5}});
    let made = owner.post("/api/tasks", task.clone()).await.expect(201).body;
    assert_eq!(made["warnings"], json!([format!("task `t`, agent `fits`: {no_price}")]));
    let mended = owner.patch("/api/tasks/t", json!({"limits": null})).await.expect(200).body;
    assert_eq!(mended["warnings"], json!(null));

    let bundle = json!({"version": 1, "agents": [agent("absent", "openai:gpt", json!({}))],
        "tasks": [{"id": made["id"], "slug": "t", "name": "T", "agent_slug": "fits", "limits": {"cost_micros": 5}}]});
    let imported = owner.post("/api/bundle", bundle).await.expect(200).body;
    let expected =
        json!([format!("agent `absent`: {no_model}"), format!("task `t`, agent `fits`: {no_price}")]);
    assert_eq!(imported["warnings"], expected, "{imported}");
    assert_eq!(owner.get("/api/bundle").await.expect(200).body["agents"][0].get("warnings"), None);
}

async fn tasks_and_entities_are_found_by_their_words(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, ada) = (server.key(Role::Owner, "").await, server.key(Role::Member, "ada").await);
    for (slug, name) in [("weekly", "Reconcile the invoices"), ("yearly", "Close the books")] {
        owner.post("/api/tasks", json!({"slug": slug, "name": name})).await.expect(201);
    }
    let entity = json!({"id": ENTITY, "type_slug": "company", "title": "Acme Café"});
    owner.post("/api/entities", entity).await.expect(201);
    let found = async |who: &crate::server::Caller<'_>, path: &str| {
        let page = who.get(path).await.expect(200).body;
        page["items"].as_array().unwrap().len()
    };
    for (path, count) in [
        ("/api/tasks?q=recon", 1),
        ("/api/tasks?q=the", 2),
        ("/api/tasks?q=yearly+books", 1),
        ("/api/tasks?q=the&status=paused", 0),
        ("/api/tasks?q=", 2),
        ("/api/tasks?q=!", 0),
        ("/api/entities?q=cafe", 1),
        ("/api/entities?q=cafe&type_slug=place", 0),
        ("/api/entities?q=0198c5d2", 1),
    ] {
        assert_eq!(found(&owner, path).await, count, "{path}");
    }
    assert_eq!(found(&ada, "/api/tasks?q=recon").await, 0, "it is not hers to see");
    assert_eq!(found(&ada, "/api/entities?q=acme").await, 1);
    let long = "a".repeat(501);
    owner.get(&format!("/api/tasks?q={long}")).await.refused(422, "invalid");
    owner.get("/api/agents?q=a").await.refused(422, "invalid");
}
