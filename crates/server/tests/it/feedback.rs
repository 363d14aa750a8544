//! /api/feedback and /api/lessons

use std::time::Duration;

use sederunt_core::Role;
use serde_json::{Value, json};

use crate::server::{Caller, StoreKind, TestServer, on_every_store, within};

on_every_store!(
    a_thumb_down_becomes_a_lesson_that_can_be_found_accepted_and_retired,
    what_cannot_be_added_is_a_status_and_not_an_error,
    silence_finalizes_by_itself_and_the_session_stays_readable,
    bad_feedback_is_refused_by_field_and_leaves_nothing,
    the_figures_add_up_and_show_in_the_summary,
    three_alike_make_a_rule,
    roles_see_what_they_may_of_feedback_and_lessons,
    feedback_on_what_leaves_no_trace_is_refused,
    a_repeat_with_the_same_key_has_the_first_answer,
    a_run_that_fails_is_listed_and_counted_apart_from_thumbs,
);

fn down(context: &str) -> Value {
    json!({"signal": "down", "context": context})
}

/// Gives feedback; answers the ids of the event and of its session.
async fn give(guest: &Caller<'_>, wish: Value) -> (String, String) {
    let done = guest.post("/api/feedback", wish).await.expect(200).body;
    assert_eq!(done["status"], "accepted", "{done}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&done["feedback_event_id"]), text(&done["feedback_session"]["session_id"]))
}

async fn add(guest: &Caller<'_>, session: &str, message: &str) -> Value {
    let path = format!("/api/feedback/sessions/{session}/append");
    guest.post(&path, json!({"message": message})).await.expect(200).body
}

async fn finalize(guest: &Caller<'_>, session: &str) -> Value {
    guest.post(&format!("/api/feedback/sessions/{session}/finalize"), json!({})).await.expect(200).body
}

async fn a_thumb_down_becomes_a_lesson_that_can_be_found_accepted_and_retired(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    me.post("/api/chat", json!({"thread_id": "t", "message": "hello there"})).await.expect(200);
    let (event, session) = give(
        &me,
        json!({
            "signal": "down", "context": "It edited the lock file", "sessionId": "t", "tags": ["Git"]
        }),
    )
    .await;
    assert!(event.starts_with("fb_") && session.starts_with("fbs_") && session.len() == 16);
    let added = add(&me, &session, "Never touch the lock file").await;
    assert_eq!(
        (&added["status"], &added["message_count"], &added["truncated"]),
        (&json!("appended"), &json!(1), &json!(false))
    );
    assert!(added["expires_at"].is_string());
    let done = finalize(&me, &session).await;
    assert_eq!((&done["status"], &done["learned"]), (&json!("finalized"), &json!("new")));
    assert_eq!(
        done["session"]["enriched_context"],
        "It edited the lock file\n\nFollow-up:\nNever touch the lock file"
    );
    assert_eq!(done["session"]["complaints"][0]["type"], "constraint");
    let lesson = &done["lesson"];
    assert_eq!((&lesson["text"], &lesson["state"]), (&json!("Do not touch the lock file"), &json!("active")));
    assert_eq!(lesson["sources"][0]["session_id"], "t");
    assert_eq!(lesson["sources"][0]["sequences"].as_array().unwrap().len(), 2, "{lesson}");
    let id = lesson["id"].as_str().unwrap();
    let found = me.get("/api/lessons?q=lock&tags=git&state=active,proposed").await.expect(200).body;
    assert_eq!(found["items"][0]["id"], id);
    let told = me.get("/api/lessons/retrieve?q=edit%20the%20lock%20file").await.expect(200).body;
    assert_eq!(told["items"][0]["id"], id);
    let page = me.get("/api/lessons/recall?q=lock").await.expect(200).body;
    assert!(
        page["markdown"].as_str().unwrap().contains("after a thumb down: Do not touch the lock file"),
        "{page}"
    );
    let read = me.get(&format!("/api/lessons/{id}")).await.expect(200).body;
    assert_eq!(read["effect"]["shown"], 2);
    let path = format!("/api/lessons/{id}");
    let accepted =
        me.patch(&path, json!({"state": "active", "text": "Leave lock files alone"})).await.expect(200);
    assert_eq!(
        (&accepted.body["confidence"], &accepted.body["text"]),
        (&json!(1.0), &json!("Leave lock files alone"))
    );
    me.patch(&path, json!({"state": "retired"})).await.expect(200);
    let told = me.get("/api/lessons/retrieve?q=lock%20files").await.expect(200).body;
    assert_eq!(told["items"], json!([]));
    for bad in [json!({"state": "proposed"}), json!({"text": ""}), json!({"state": "gone"}), json!({"x": 1})]
    {
        me.patch(&path, bad).await.refused(422, "invalid");
    }
    me.patch("/api/lessons/lesson_000000000000", json!({"state": "active"})).await.refused(404, "not_found");
}

async fn what_cannot_be_added_is_a_status_and_not_an_error(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    assert_eq!(add(&me, "fbs_000000000000", "x").await["status"], "not_found");
    assert_eq!(finalize(&me, "fbs_000000000000").await["status"], "not_found");
    let (_, session) = give(&me, down("It edited the lock file")).await;
    for blank in ["", "  \n\t"] {
        assert_eq!(add(&me, &session, blank).await["status"], "invalid");
    }
    assert_eq!(add(&me, &session, "password: hunter2hunter2").await["status"], "blocked");
    let long = add(&me, &session, &"ü".repeat(1_001)).await;
    assert_eq!((&long["status"], &long["truncated"]), (&json!("appended"), &json!(true)));
    for n in 2..=20 {
        assert_eq!(add(&me, &session, "more").await["message_count"], n);
    }
    let full = add(&me, &session, "").await;
    assert_eq!(full["status"], "full");
    assert!(full["message"].as_str().unwrap().contains("20"));
    let path = format!("/api/feedback/sessions/{session}/append");
    me.post(&path, json!({"message": "x", "role": "system"})).await.refused(422, "invalid");
    me.post(&path, json!({"role": "user"})).await.refused(422, "invalid");
    me.post_text(&path, "{\"message\": \"a\\u0000b\"}").await.refused(422, "invalid");
    assert_eq!(finalize(&me, &session).await["status"], "finalized");
    let closed = add(&me, &session, "").await;
    assert_eq!(closed["status"], "closed");
    assert_eq!(finalize(&me, &session).await["status"], "already_finalized");
    let kept = me.get(&format!("/api/feedback/sessions/{session}")).await.expect(200).body;
    assert_eq!(kept["message_count"], 20);
    assert_eq!(kept["messages"][0]["text"].as_str().unwrap().chars().count(), 1_000);
}

async fn silence_finalizes_by_itself_and_the_session_stays_readable(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let (_, session) = give(&me, down("It edited the lock file")).await;
    let open = me.get("/api/feedback/sessions?state=open").await.expect(200).body;
    assert_eq!(open["items"].as_array().unwrap().len(), 1);
    server.clock.advance(Duration::from_secs(61));
    let path = format!("/api/feedback/sessions/{session}");
    let kept = within(async {
        loop {
            let kept = me.get(&path).await.expect(200).body;
            if kept["status"] == "finalized" {
                return kept;
            }
        }
    })
    .await;
    assert_eq!(kept["reason"], "silence");
    assert!(kept["lesson_id"].is_string());
    let open = me.get("/api/feedback/sessions?state=open").await.expect(200).body;
    assert_eq!(open["items"], json!([]));
}

async fn bad_feedback_is_refused_by_field_and_leaves_nothing(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let long = "x ".repeat(4_000);
    let table = [
        (json!({"context": "no thumb here"}), "signal"),
        (json!({"signal": "sideways", "context": "x y"}), "signal"),
        (json!({"signal": "down", "context": long}), "context"),
        (json!({"signal": "down", "context": "x y", "session_id": "none"}), "session_id"),
        (json!({"signal": "down", "context": "x y", "session_id": "a/b"}), "session_id"),
        (json!({"signal": "down", "context": "x y", "tags": ["t".repeat(51)]}), "tags"),
        (json!({"signal": "down", "context": "x y", "related_feedback_id": "fb_0"}), "related_feedback_id"),
        (
            json!({"signal": "down", "context": "x y", "rubric_scores": [{"criterion": "c", "score": 9}]}),
            "rubric_scores",
        ),
    ];
    for (bad, field) in table {
        let answer = me.post("/api/feedback", bad).await.refused(422, "invalid");
        assert!(answer.body["error"]["field"].as_str().unwrap().starts_with(field), "{}", answer.text);
    }
    me.post("/api/feedback", json!({"signal": "down", "unknown": 1})).await.refused(422, "invalid");
    let blocked =
        me.post("/api/feedback", down("it printed password: hunter2hunter2")).await.expect(200).body;
    assert_eq!(blocked, json!({"status": "blocked", "reason": "credential"}));
    let open = json!({"feedback_event_id": "fb_000000000000", "signal": "down"});
    me.post("/api/feedback/sessions", open).await.refused(404, "not_found");
    assert_eq!(me.get("/api/feedback/stats").await.expect(200).body["total"], 0);
    for bad in ["limit=0", "state=half", "cursor=x"] {
        me.get(&format!("/api/feedback/sessions?{bad}")).await.refused(422, "invalid");
    }
    for bad in
        ["lessons?state=half", "lessons?category=x", "lessons/rules?min_occurrences=0", "lessons/retrieve"]
    {
        me.get(&format!("/api/{bad}")).await.refused(422, "invalid");
    }
}

async fn the_figures_add_up_and_show_in_the_summary(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    for n in 0..3 {
        let wish = json!({"signal": "down", "context": format!("it broke {n} times"), "tags": ["git"], "skill": "ship"});
        give(&me, wish).await;
    }
    give(&me, json!({"signal": "up", "what_worked": "ran the tests first"})).await;
    let vague = me.post("/api/feedback", json!({"signal": "up", "context": "LGTM"})).await.expect(200).body;
    assert_eq!(vague["status"], "clarification_required");
    assert_eq!(vague["missing_fields"], json!(["what_worked"]));
    let stats = me.get("/api/feedback/stats").await.expect(200).body;
    assert_eq!((&stats["total"], &stats["up"], &stats["approval_rate"]), (&json!(5), &json!(2), &json!(0.4)));
    assert_eq!(
        stats["tags"][0],
        json!({"name": "git", "total": 3, "up": 0, "down": 3, "approval_rate": 0.0})
    );
    assert_eq!(stats["skills"][0]["name"], "ship");
    assert_eq!(stats["recommendations"][0]["name"], "ship");
    assert_eq!(stats["last_7_days"]["total"], 5);
    let page = me.get("/api/feedback/summary?recent=2").await.expect(200).body;
    let page = page["markdown"].as_str().unwrap();
    let thumbs = page.lines().filter(|line| line.starts_with("- 20")).count();
    assert_eq!(thumbs, 2, "{page}");
}

async fn three_alike_make_a_rule(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    for (n, learned) in ["new", "again", "again"].into_iter().enumerate() {
        let wish = json!({"signal": "down", "what_to_change": "Run the tests before you commit"});
        let (event, session) = give(&me, wish).await;
        assert_eq!(finalize(&me, &session).await["learned"], learned);
        let again = json!({"feedbackEventId": event, "signal": "down", "initialContext": "as I said"});
        let again = me.post("/api/feedback/sessions", again).await.expect(200).body;
        assert_eq!(finalize(&me, again["session_id"].as_str().unwrap()).await["learned"], "counted");
        let rules = me.get("/api/lessons/rules").await.expect(200).body;
        assert_eq!(rules["items"].as_array().unwrap().len(), usize::from(n == 2));
    }
    let rules = me.get("/api/lessons/rules").await.expect(200).body;
    assert_eq!(rules["items"][0]["confidence"], 0.8);
    assert!(
        rules["markdown"].as_str().unwrap().contains("THEN Run the tests before you commit (3×"),
        "{rules}"
    );
}

async fn roles_see_what_they_may_of_feedback_and_lessons(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, ann) = (server.key(Role::Owner, "boss").await, server.key(Role::Member, "ann").await);
    let (ben, guest) = (server.key(Role::Member, "ben").await, server.key(Role::Guest, "gil").await);
    let worker = server.key(Role::Worker, "w").await;
    let (_, session) = give(&ann, down("It edited the lock file")).await;
    let read = format!("/api/feedback/sessions/{session}");
    owner.get(&read).await.expect(200);
    for other in [&ben, &guest, &worker] {
        other.get(&read).await.refused(404, "not_found");
        assert_eq!(add(other, &session, "x").await["status"], "not_found");
        assert_eq!(finalize(other, &session).await["status"], "not_found");
    }
    let lesson = finalize(&ann, &session).await["lesson"]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/lessons/{lesson}");
    for (who, sees) in [(&owner, true), (&ann, true), (&ben, false), (&guest, false), (&worker, true)] {
        let listed = who.get("/api/lessons?q=lock").await.expect(200).body;
        assert_eq!(listed["items"].as_array().unwrap().len(), usize::from(sees));
        who.get(&path).await.expect(if sees { 200 } else { 404 });
    }
    assert_eq!(worker.get(&path).await.expect(200).body["sources"], json!([]), "not its to trace");
    worker.patch(&path, json!({"state": "retired"})).await.refused(403, "denied");
    ben.patch(&path, json!({"state": "retired"})).await.refused(404, "not_found");
    let (_, proposed) =
        give(&guest, json!({"signal": "down", "what_to_change": "Greet people by name"})).await;
    assert_eq!(finalize(&guest, &proposed).await["lesson"]["state"], "proposed");
    server.anyone().get("/api/lessons").await.refused(401, "unauthenticated");
}

async fn feedback_on_what_leaves_no_trace_is_refused(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let chat = json!({"thread_id": "secret", "message": "hello", "memory_mode": "incognito"});
    me.post("/api/chat", chat).await.expect(200);
    let wish = json!({"signal": "down", "context": "it was rude to me", "session_id": "secret"});
    me.post("/api/feedback", wish).await.refused(422, "invalid");
    assert_eq!(me.get("/api/feedback/stats").await.expect(200).body["total"], 0);
}

async fn a_run_that_fails_is_listed_and_counted_apart_from_thumbs(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (owner, ann) = (server.key(Role::Owner, "boss").await, server.key(Role::Member, "ann").await);
    give(&owner, json!({"signal": "up", "what_worked": "ran the tests first"})).await;
    let run = crate::mcp::failed_run(&owner).await;
    let listed = owner.get("/api/feedback/failures").await.expect(200).body;
    let [failure] = &listed["items"].as_array().unwrap()[..] else { panic!("{listed}") };
    assert_eq!((&failure["code"], &failure["message"]), (&json!("run_failed"), &json!("no ink")));
    assert_eq!((&failure["task_slug"], &failure["agent_slug"]), (&json!("letter"), &json!("eliza")));
    assert_eq!((&failure["session_id"], &failure["step"]), (&json!(run), &json!(null)));
    let log = owner.get(&format!("/api/sessions/{run}/events?types=session.error")).await.expect(200).body;
    assert_eq!(failure["sequence"], log["events"][0]["sequence"]);
    for (query, found) in [
        (format!("session_id={run}"), 1),
        (format!("sessionId={run}&task_id=letter"), 1),
        (format!("taskId={}", failure["task_id"].as_str().unwrap()), 1),
        ("task_id=letter&limit=1".to_owned(), 1),
    ] {
        let page = owner.get(&format!("/api/feedback/failures?{query}")).await.expect(200).body;
        assert_eq!(page["items"].as_array().unwrap().len(), found, "{query}");
    }
    for bad in ["limit=0", "cursor=x", "session_id=a/b", "state=open"] {
        owner.get(&format!("/api/feedback/failures?{bad}")).await.refused(422, "invalid");
    }
    for missing in ["session_id=nothing", "task_id=nothing"] {
        owner.get(&format!("/api/feedback/failures?{missing}")).await.refused(404, "not_found");
    }
    ann.get("/api/feedback/failures").await.refused(403, "denied");
    ann.get(&format!("/api/feedback/failures?session_id={run}")).await.refused(404, "not_found");
    ann.get("/api/feedback/failures?task_id=letter").await.refused(404, "not_found");
    let stats = owner.get("/api/feedback/stats").await.expect(200).body;
    assert_eq!((&stats["total"], &stats["approval_rate"]), (&json!(1), &json!(1.0)));
    assert_eq!(stats["failures"]["codes"], json!([{"code": "run_failed", "total": 1}]));
    assert_eq!((&stats["failures"]["total"], &stats["failures"]["last_7_days"]), (&json!(1), &json!(1)));
    let page = owner.get("/api/feedback/summary").await.expect(200).body;
    assert!(page["markdown"].as_str().unwrap().contains("- Failed runs: 1 in all"), "{page}");
    let open = json!({"feedback_event_id": failure["feedback_event_id"], "signal": "down"});
    owner.post("/api/feedback/sessions", open).await.refused(422, "invalid");
}

async fn a_repeat_with_the_same_key_has_the_first_answer(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone().with("Idempotency-Key", "once");
    let first = me.post("/api/feedback", down("It edited the lock file")).await.expect(200).body;
    let again = me.post("/api/feedback", down("It edited the lock file")).await.expect(200).body;
    assert_eq!(first["feedback_event_id"], again["feedback_event_id"]);
    assert_eq!(first["feedback_session"]["session_id"], again["feedback_session"]["session_id"]);
    me.post("/api/feedback", down("Something else went wrong")).await.refused(422, "idempotency_mismatch");
    assert_eq!(server.anyone().get("/api/feedback/stats").await.expect(200).body["total"], 1);
}
