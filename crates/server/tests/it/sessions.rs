//! /api/sessions

use std::time::Duration;

use sederunt_core::access::Role;
use sederunt_server::Auth;
use serde_json::json;

use crate::server::{StoreKind, TestServer, on_every_store};

on_every_store!(
    a_session_is_opened_and_opened_again,
    a_session_is_read_changed_and_deleted,
    a_groups_session_is_deleted_by_an_owner_who_says_so,
    lists_are_filtered_and_go_on_from_their_cursor,
    sessions_are_listed_by_their_ids_as_far_as_the_caller_may_see_them,
    the_state_follows_a_turn_and_a_run,
    the_state_says_why_a_run_failed,
    a_stranger_cannot_tell_missing_from_not_yours,
    only_the_listed_moves_are_made,
    a_failed_session_is_retried_in_a_new_one,
    a_fork_shares_the_beginning,
    an_export_holds_what_was_said_and_with_all_the_whole_log,
    children_are_listed_under_their_parent,
    camel_case_names_are_taken_where_they_come_from,
);

async fn a_session_is_opened_and_opened_again(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let wish =
        json!({"id": "cli:main", "session_type": "mixed", "title": "First", "metadata": {"team": "a"}});
    let made = owner.post("/api/sessions", wish.clone()).await.expect(201).body;
    assert_eq!(made["id"], "cli:main");
    assert_eq!(made["tenant_id"], "default");
    assert_eq!((&made["status"], &made["session_type"]), (&json!("idle"), &json!("mixed")));
    assert_eq!(
        made["source"],
        json!({"kind": "api", "interactive": made["source"]["interactive"],
        "platform": null, "trigger_id": null, "type": "direct"})
    );
    assert_eq!((&made["last_sequence"], &made["claim"]), (&json!(1), &json!(null)));
    assert!(made["created_at"].as_str().unwrap().ends_with('Z'));

    let again = json!({"id": "cli:main", "session_type": "mixed", "metadata": {"n": 1.50}});
    let opened = owner.post("/api/sessions", again).await.expect(200).body;
    assert_eq!(opened["metadata"], json!({"team": "a", "n": 1.5}));
    assert_eq!(opened["title"], "First");
    owner
        .post("/api/sessions", json!({"id": "cli:main", "session_type": "agent"}))
        .await
        .refused(409, "type_mismatch");
    let drawn = owner.post("/api/sessions", json!({"session_type": "agent"})).await.expect(201);
    assert_eq!(drawn.id().len(), 36);
    assert_eq!(drawn.body["status"], "draft");
}

async fn a_session_is_read_changed_and_deleted(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id =
        owner.session(json!({"session_type": "mixed", "title": "Old", "metadata": {"a": 1, "b": 2}})).await;
    let path = format!("/api/sessions/{id}");
    let changed = owner
        .patch(&path, json!({"title": "New", "description": "Mine", "metadata": {"a": null, "c": "x"}}))
        .await
        .expect(200)
        .body;
    assert_eq!((&changed["title"], &changed["description_source"]), (&json!("New"), &json!("user")));
    assert_eq!(changed["metadata"], json!({"b": 2, "c": "x"}));
    let cleared = owner.patch(&path, json!({"title": null})).await.expect(200).body;
    assert_eq!(cleared["title"], json!(null));
    assert_eq!(owner.get(&path).await.expect(200).body, cleared);
    assert_eq!(owner.delete(&path).await.expect(204).text, "");
    owner.get(&path).await.refused(404, "not_found");
    owner.delete(&path).await.refused(404, "not_found");
}

async fn a_groups_session_is_deleted_by_an_owner_who_says_so(store_kind: StoreKind) {
    let server = TestServer::open(store_kind, |config| config.auth = Auth::Keys).await;
    let (owner, ann) = (server.key(Role::Owner, "root").await, server.key(Role::Member, "ann").await);
    let id = ann.session(json!({"session_type": "mixed", "source": {"type": "group"}})).await;
    let path = format!("/api/sessions/{id}");
    let forced = format!("{path}?force=true");
    ann.delete(&path).await.refused(409, "group_session");
    ann.delete(&forced).await.refused(403, "denied");
    owner.delete(&path).await.refused(409, "group_session");
    owner.delete(&forced).await.expect(204);
    let trail = owner.get("/api/audit?limit=1").await.expect(200).body;
    assert_eq!(trail["items"][0]["action"], "session.delete_group");
    assert_eq!(trail["items"][0]["target"], id);
}

async fn lists_are_filtered_and_go_on_from_their_cursor(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    for n in 0..7 {
        let kind = if n % 2 == 0 { "mixed" } else { "agent" };
        let metadata = json!({"parity": n % 2, "n": n});
        owner.session(json!({"id": format!("s{n}"), "session_type": kind, "metadata": metadata})).await;
        server.clock.advance(Duration::from_secs(60));
    }
    let ids = |body: &serde_json::Value| -> Vec<String> {
        let items = body["items"].as_array().unwrap();
        items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    };
    let mut seen = Vec::new();
    let mut path = "/api/sessions?limit=3".to_owned();
    loop {
        let page = owner.get(&path).await.expect(200).body;
        seen.extend(ids(&page));
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/api/sessions?limit=3&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, ["s6", "s5", "s4", "s3", "s2", "s1", "s0"]);
    let table = [
        ("session_type=agent", vec!["s5", "s3", "s1"]),
        ("status=draft", vec!["s5", "s3", "s1"]),
        ("status=draft,idle", vec!["s6", "s5", "s4", "s3", "s2", "s1", "s0"]),
        ("status=draft,running&limit=2", vec!["s5", "s3"]),
        ("status=running,completed", vec![]),
        ("status=draft,completed&group=terminal", vec![]),
        ("status=idle,draft&session_type=mixed", vec!["s6", "s4", "s2", "s0"]),
        ("status=idle,draft&metadata.n=4", vec!["s4"]),
        ("group=live", vec![]),
        ("metadata.parity=0", vec!["s6", "s4", "s2", "s0"]),
        ("metadata.parity=0&metadata.n=4", vec!["s4"]),
        ("kind=api&limit=2", vec!["s6", "s5"]),
        ("kind=web", vec![]),
        ("user_id=nobody", vec![]),
        ("inactive=true", vec![]),
    ];
    for (query, expected) in table {
        assert_eq!(
            ids(&owner.get(&format!("/api/sessions?{query}")).await.expect(200).body),
            expected,
            "{query}"
        );
    }
    for (status, named) in [("draft,banana", "`banana`"), ("draft,,idle", "``"), ("", "``")] {
        let refused = owner.get(&format!("/api/sessions?status={status}")).await.refused(422, "invalid");
        assert_eq!(refused.body["error"]["field"], "status");
        let sentence = refused.body["error"]["message"].as_str().unwrap();
        assert!(sentence.contains(named) && sentence.contains("waiting_human"), "{sentence}");
    }
}

async fn sessions_are_listed_by_their_ids_as_far_as_the_caller_may_see_them(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (ann, bob) = (server.key(Role::Member, "ann").await, server.key(Role::Member, "bob").await);
    for id in ["a", "b", "c"] {
        ann.session(json!({"id": id, "session_type": "mixed"})).await;
    }
    bob.session(json!({"id": "bobs", "session_type": "mixed"})).await;
    ann.patch("/api/sessions/b", json!({"inactive": true})).await.expect(200);
    let listed = async |query: &str| {
        let page = ann.get(&format!("/api/sessions?{query}")).await.expect(200).body;
        let items = page["items"].as_array().unwrap();
        items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed("ids=a,bobs,c,gone,b,a").await, ["c", "a"], "newest first, and hidden ones are hidden");
    assert_eq!(listed("ids=a,b&inactive=false").await, ["b", "a"]);
    assert_eq!(listed("ids=bobs").await, [""; 0]);
    assert_eq!(listed("ids=").await, ["c", "a"], "no ids are no filter");
    let many = |count: usize| (0..count).map(|n| format!("s{n}")).collect::<Vec<_>>().join(",");
    assert_eq!(listed(&format!("ids={}", many(100))).await, [""; 0]);
    for wrong in [many(101), "a%2Fb".to_owned(), "x".repeat(201)] {
        ann.get(&format!("/api/sessions?ids={wrong}")).await.refused(422, "invalid");
    }
}

async fn the_state_follows_a_turn_and_a_run(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "agent"})).await;
    let path = format!("/api/sessions/{id}/state");
    let drafted = owner.get(&path).await.expect(200).body;
    for (field, value) in [
        ("session_id", json!(id)),
        ("status", json!("draft")),
        ("inactive", json!(false)),
        ("last_sequence", json!(1)),
        ("message_count", json!(0)),
        ("turn_count", json!(0)),
        ("open_turn", json!(null)),
        ("claim", json!(null)),
        ("stop_requested", json!(false)),
        ("error_message", json!(null)),
        ("usage", json!(null)),
        ("deadline_at", json!(null)),
    ] {
        assert_eq!(drafted[field], value, "{field}");
    }

    owner.say(&id, "What is the weather?").await.expect(201);
    owner.post(&format!("/api/sessions/{id}/transition"), json!({"to": "pending"})).await.expect(200);
    let claimed = owner.post("/api/claims", json!({"worker": "w"})).await.expect(200).body;
    let epoch = &claimed["claims"][0]["epoch"];
    owner.post(&format!("/api/sessions/{id}/stop"), json!({})).await.expect(200);
    let running = owner.get(&path).await.expect(200).body;
    assert_eq!((&running["status"], &running["open_turn"]), (&json!("running"), &json!(2)));
    let lease_until = &claimed["claims"][0]["lease_until"];
    let claim = json!({"worker": "w", "epoch": epoch, "lease_until": lease_until, "attempts": 1});
    assert_eq!((&running["claim"], &running["stop_requested"]), (&claim, &json!(true)));
    let session = owner.get(&format!("/api/sessions/{id}")).await.expect(200).body;
    for field in ["version", "last_sequence", "last_activity_at", "message_count", "claim", "deadline_at"] {
        assert_eq!(running[field], session[field], "{field} is that of the row");
    }

    let reply = json!({"epoch": epoch, "events": [{"type": "agent.message", "content": "Rain."}]});
    owner.post(&format!("/api/sessions/{id}/events"), reply).await.expect(201);
    let done = json!({"epoch": epoch, "usage": {"output_tokens": 2}});
    owner.post(&format!("/api/sessions/{id}/complete"), done).await.expect(200);
    let ended = owner.get(&path).await.expect(200).body;
    assert_eq!((&ended["open_turn"], &ended["turn_count"]), (&json!(null), &json!(1)));
    assert_eq!((&ended["claim"], &ended["usage"]), (&json!(null), &json!({"output_tokens": 2})));
}

async fn the_state_says_why_a_run_failed(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "agent", "status": "pending"})).await;
    let claimed = owner.post("/api/claims", json!({"worker": "w"})).await.expect(200).body;
    let failed = json!({"epoch": claimed["claims"][0]["epoch"], "error": "it broke"});
    owner.post(&format!("/api/sessions/{id}/fail"), failed).await.expect(200);
    let state = owner.get(&format!("/api/sessions/{id}/state")).await.expect(200).body;
    assert_eq!((&state["status"], &state["error_message"]), (&json!("failed"), &json!("it broke")));
    owner.get("/api/sessions/nope/state").await.refused(404, "not_found");
}

async fn a_stranger_cannot_tell_missing_from_not_yours(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (ann, bob) = (server.key(Role::Member, "ann").await, server.key(Role::Member, "bob").await);
    let id = ann.session(json!({"session_type": "mixed"})).await;
    let body = json!({"events": [{"type": "user.message", "content": "hi"}]});
    for suffix in ["", "/events", "/state", "/stream", "/children", "/export"] {
        let strange = bob.get(&format!("/api/sessions/{id}{suffix}")).await.refused(404, "not_found");
        let missing = bob.get(&format!("/api/sessions/nope{suffix}")).await.refused(404, "not_found");
        let told = |body: &serde_json::Value, name: &str| {
            body["error"]["message"].as_str().unwrap().replace(name, "NAME")
        };
        assert_eq!(told(&strange.body, &id), told(&missing.body, "nope"), "{suffix}");
        assert_eq!(
            strange.body["error"].as_object().unwrap().len(),
            missing.body["error"].as_object().unwrap().len()
        );
    }
    for (suffix, body) in [
        ("events", body),
        ("retry", json!({})),
        ("stop", json!({})),
        ("fork", json!({"at_sequence": 1})),
        ("share", json!({"access": "read", "expires_in": 60})),
        ("transition", json!({"to": "abandoned"})),
    ] {
        bob.post(&format!("/api/sessions/{id}/{suffix}"), body.clone()).await.refused(404, "not_found");
        bob.post(&format!("/api/sessions/nope/{suffix}"), body).await.refused(404, "not_found");
    }
    bob.delete(&format!("/api/sessions/{id}")).await.refused(404, "not_found");
    bob.post("/api/sessions", json!({"id": id, "session_type": "mixed"})).await.refused(404, "not_found");
    assert_eq!(bob.get("/api/sessions").await.expect(200).body["items"], json!([]));
    ann.patch(&format!("/api/sessions/{id}"), json!({"participants": ["bob"]})).await.expect(200);
    bob.get(&format!("/api/sessions/{id}")).await.expect(200);
}

async fn only_the_listed_moves_are_made(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "agent"})).await;
    let path = format!("/api/sessions/{id}/transition");
    let refused = owner.post(&path, json!({"to": "completed"})).await.refused(409, "invalid_transition");
    assert_eq!(refused.body["error"]["details"], json!({"from": "draft", "to": "completed"}));
    owner.post(&path, json!({"to": "pending", "expected": "idle"})).await.refused(409, "invalid_transition");
    assert_eq!(
        owner.post(&path, json!({"to": "pending", "expected": "draft"})).await.expect(200).body["status"],
        "pending"
    );
    let ended = owner.post(&path, json!({"to": "abandoned", "reason": "no need"})).await.expect(200).body;
    assert_eq!((&ended["status"], &ended["end_reason"]), (&json!("abandoned"), &json!("no need")));
}

async fn a_failed_session_is_retried_in_a_new_one(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "agent", "status": "pending", "input": {"x": 1}})).await;
    owner.post(&format!("/api/sessions/{id}/retry"), json!({})).await.refused(409, "invalid_transition");
    let stopped = owner.post(&format!("/api/sessions/{id}/stop"), json!({})).await.expect(200).body;
    assert_eq!(stopped["status"], "abandoned");
    let again =
        owner.send(http::Method::POST, &format!("/api/sessions/{id}/retry"), None).await.expect(201).body;
    assert_eq!(
        (&again["retry_of"], &again["status"], &again["input"]),
        (&json!(id), &json!("pending"), &json!({"x": 1}))
    );
}

async fn a_fork_shares_the_beginning(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed"})).await;
    for text in ["one", "two", "three"] {
        owner.say(&id, text).await.expect(201);
    }
    let fork =
        owner.post(&format!("/api/sessions/{id}/fork"), json!({"at_sequence": 2})).await.expect(201).id();
    owner.say(&fork, "other").await.expect(201);
    let log = owner.get(&format!("/api/sessions/{fork}/events?types=user.message")).await.expect(200).body;
    let texts: Vec<_> =
        log["events"].as_array().unwrap().iter().map(|e| e["content"][0]["text"].clone()).collect();
    assert_eq!(texts, ["one", "other"]);
    owner.post(&format!("/api/sessions/{id}/fork"), json!({"at_sequence": 99})).await.refused(422, "invalid");
}

async fn an_export_holds_what_was_said_and_with_all_the_whole_log(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let id = owner.session(json!({"session_type": "mixed", "title": "Minutes"})).await;
    owner.say(&id, "the budget is agreed").await.expect(201);
    for (format, kind) in [
        ("md", "text/markdown; charset=utf-8"),
        ("txt", "text/plain; charset=utf-8"),
        ("json", "application/json"),
    ] {
        let path = format!("/api/sessions/{id}/export?format={format}");
        let said = owner.get(&path).await.expect(200).text;
        assert!(said.contains("the budget is agreed"), "{said}");
        assert_eq!(said.contains("session.created"), format == "json", "{said}");
        let paper = owner.get(&format!("{path}&all=true")).await.expect(200);
        assert_eq!(paper.headers["content-type"], kind);
        assert!(
            paper.text.contains("the budget is agreed") && paper.text.contains("session.created"),
            "{}",
            paper.text
        );
    }
    owner.get(&format!("/api/sessions/{id}/export?format=pdf")).await.refused(422, "invalid");
}

async fn children_are_listed_under_their_parent(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let parent = owner.session(json!({"session_type": "agent"})).await;
    let child = owner.session(json!({"session_type": "agent", "parent_id": parent})).await;
    let list = owner.get(&format!("/api/sessions/{parent}/children")).await.expect(200).body;
    assert_eq!(list["items"][0]["id"], json!(child));
    assert_eq!(list["items"][0]["root_id"], json!(parent));
    let parents = owner.get("/api/sessions?parentsOnly=true").await.expect(200).body;
    assert_eq!(parents["items"].as_array().unwrap().len(), 1);
}

async fn camel_case_names_are_taken_where_they_come_from(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    owner.post("/api/tasks", json!({"id": "t", "slug": "t", "name": "T"})).await.expect(201);
    let wish = json!({"sessionId": "s", "session_type": "agent", "taskId": "t", "entityId": "e"});
    let made = owner.post("/api/sessions", wish).await.expect(201).body;
    assert_eq!((&made["id"], &made["task_id"], &made["entity_id"]), (&json!("s"), &json!("t"), &json!("e")));
    assert_eq!(
        owner.get("/api/sessions?taskId=t").await.expect(200).body["items"].as_array().unwrap().len(),
        1
    );
    let log =
        owner.get("/api/sessions/s/events?afterSequence=0&eventTypes=session.created").await.expect(200).body;
    assert_eq!(log["events"].as_array().unwrap().len(), 1);
}
