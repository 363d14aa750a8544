//! /mcp: giving feedback, and being told what it taught

use sederunt_core::access::Role;
use sederunt_core::engine::NewKey;
use sederunt_core::limits;
use serde_json::{Value, json};

use crate::mcp::{Line, call, given, keyed, line, line_of, new, read, refused};
use crate::server::{OPERATOR, StoreKind, TestServer, on_every_store, within};

on_every_store!(
    a_thumb_down_comes_back_as_a_lesson,
    what_cannot_be_added_is_said_and_no_error,
    a_thumb_without_words_is_asked_back_about,
    everything_that_callers_send_is_taken,
    a_thumb_on_a_session_says_where_its_lesson_came_up,
    only_sessions_that_the_caller_may_read_are_named,
    what_does_not_fit_is_named_as_it_was_written,
    what_comes_up_often_is_a_rule,
    a_repeated_thumb_is_one_thumb,
    lessons_stay_with_those_they_came_from,
    what_tools_take_and_give_fits_their_schemas,
);

fn thumb_down() -> Value {
    json!({"signal": "down", "context": "It edited the lock file by hand",
        "whatToChange": "Run the package manager instead of editing the lock file", "tags": ["packages"]})
}

/// Gives a thumb down and lets it teach: the lesson's id.
async fn taught(line: &Line) -> String {
    let captured = given(call(line, "capture_feedback", thumb_down()).await);
    let session = &captured["feedback_session"]["session_id"];
    let done = given(call(line, "finalize_feedback_session", json!({"sessionId": session})).await);
    done["lesson"]["id"].as_str().unwrap().to_owned()
}

/// What a tool gave that answers with a page: the page, which is also its text.
async fn page(line: &Line, tool: &'static str, arguments: Value) -> String {
    let result = call(line, tool, arguments).await;
    let markdown = result.structured_content.as_ref().unwrap()["markdown"].as_str().unwrap();
    assert_eq!(result.content[0].as_text().unwrap().text, markdown);
    markdown.to_owned()
}

async fn a_thumb_down_comes_back_as_a_lesson(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let line = line(&server, &[], new()).await;
    let captured = given(call(&line, "capture_feedback", thumb_down()).await);
    assert_eq!(
        (&captured["status"], &captured["feedback_session"]["status"]),
        (&json!("accepted"), &json!("open"))
    );
    let id = captured["feedback_session"]["session_id"].as_str().unwrap();
    assert!(id.starts_with("fbs_"), "{captured}");
    let more = json!({"sessionId": id, "message": "You never ran the tests."});
    let appended = given(call(&line, "append_feedback_context", more).await);
    assert_eq!((&appended["status"], &appended["message_count"]), (&json!("appended"), &json!(1)));
    let done = given(call(&line, "finalize_feedback_session", json!({"sessionId": id})).await);
    assert_eq!(
        (&done["status"], &done["learned"], &done["follow_up_count"]),
        (&json!("finalized"), &json!("new"), &json!(1))
    );
    let (lesson, text) = (done["lesson"]["id"].as_str().unwrap(), done["lesson"]["text"].as_str().unwrap());

    let found =
        given(call(&line, "search_lessons", json!({"query": "lock file", "tags": ["packages"]})).await);
    assert_eq!((found["items"].as_array().unwrap().len(), &found["items"][0]["id"]), (1, &json!(lesson)));
    let none = given(call(&line, "search_lessons", json!({"category": "preference"})).await);
    assert_eq!(none["items"], json!([]));
    let action = json!({"toolName": "edit", "actionContext": "the lock file of the package manager"});
    let given_for = given(call(&line, "retrieve_lessons", action).await);
    assert_eq!(given_for["items"][0]["id"], json!(lesson));
    let recalled =
        page(&line, "recall", json!({"query": "edit the lock file", "repoPath": "/home/me"})).await;
    assert!(recalled.contains(text), "{recalled}");
    let shown = given(call(&line, "search_lessons", json!({})).await);
    assert_eq!(shown["items"][0]["effect"]["shown"], 2, "looking is not showing");
    assert_eq!(shown, server.anyone().get("/api/lessons?state=active").await.expect(200).body);

    let stats = given(call(&line, "feedback_stats", json!({})).await);
    assert_eq!((&stats["down"], &stats["tags"][0]["name"]), (&json!(1), &json!("packages")));
    assert_eq!(stats, server.anyone().get("/api/feedback/stats").await.expect(200).body);
    let summary = page(&line, "feedback_summary", json!({"recent": 5})).await;
    assert!(summary.contains("lock file"), "{summary}");

    let listed = within(line.list_all_resources()).await.unwrap();
    let uri = format!("sederunt://lessons/{lesson}");
    assert_eq!((&listed[0].uri, listed[0].description.as_deref()), (&uri, Some(text)));
    let (_, body) = read(&line, &uri).await.unwrap();
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body, server.anyone().get(&format!("/api/lessons/{lesson}")).await.expect(200).body);
}

async fn what_cannot_be_added_is_said_and_no_error(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let line = line(&server, &[], new()).await;
    let captured = given(call(&line, "capture_feedback", thumb_down()).await);
    let event = &captured["feedback_event_id"];
    let open = json!({"feedbackEventId": event, "signal": "down", "initialContext": "In the build"});
    let opened = given(call(&line, "open_feedback_session", open).await);
    let id = opened["session_id"].as_str().unwrap();
    let append = async |session: &str, message: &str| {
        let arguments = json!({"sessionId": session, "message": message, "role": "assistant"});
        let answer = given(call(&line, "append_feedback_context", arguments).await);
        answer["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(append("fbs_000000000000", "hello").await, "not_found");
    assert_eq!(append(id, "  ").await, "invalid");
    assert_eq!(append(id, &format!("the key is sk-{}", "a1B2c3D4e5F6g7H8".repeat(3))).await, "blocked");
    for _ in 0..limits::FEEDBACK_MESSAGES_MAX {
        assert_eq!(append(id, "and another thing").await, "appended");
    }
    assert_eq!(append(id, "one more").await, "full");
    let finalize = async |session: &str| {
        let done = given(call(&line, "finalize_feedback_session", json!({"sessionId": session})).await);
        done["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(finalize(id).await, "finalized");
    assert_eq!(finalize(id).await, "already_finalized");
    assert_eq!(finalize("fbs_000000000000").await, "not_found");
    assert_eq!(append(id, "too late").await, "closed");
}

async fn a_thumb_without_words_is_asked_back_about(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let line = line(&server, &[], new()).await;
    let vague = given(call(&line, "capture_feedback", json!({"signal": "down"})).await);
    assert_eq!(vague["status"], "clarification_required");
    assert!(vague["prompt"].is_string() && vague.get("feedback_session").is_none(), "{vague}");
    let secret =
        json!({"signal": "up", "context": format!("it used sk-{} well", "a1B2c3D4e5F6g7H8".repeat(3))});
    let blocked = given(call(&line, "capture_feedback", secret).await);
    assert_eq!((&blocked["status"], blocked.get("feedback_event_id")), (&json!("blocked"), None));
    let stats = given(call(&line, "feedback_stats", json!({})).await);
    assert_eq!((&stats["down"], &stats["up"]), (&json!(1), &json!(0)), "a secret is not kept, a thumb is");
}

/// A thumb with everything that can be said about it.
fn everything(related: &Value) -> Value {
    json!({
        "signal": "down", "failureType": "execution", "context": "It deleted the branch of a colleague",
        "relatedFeedbackId": related, "whatWentWrong": "It did not ask first",
        "whatToChange": "Ask before you delete a branch", "whatWorked": null,
        "chatHistory": [{"author": "Ada", "text": "Tidy the branches", "timestamp": "2026-01-01", "source": "chat"},
            {"author": "Assistant", "text": "I deleted old-work", "timestamp": null}],
        "tags": ["git"], "skill": "tidy",
        "conversationWindow": [{"role": "user", "content": "Why?", "timestamp": "2026-01-01"},
            {"role": "assistant", "content": "It looked old."}],
        "rubricScores": [{"criterion": "care", "score": 1, "evidence": "none", "judge": "Ada"}],
        "guardrails": {"testsPassed": true, "pathSafety": false, "budgetCompliant": null},
        "sessionId": null, "sequences": []})
}

/// A thumb down on a session, and on places in its log.
fn thumb_on(session: &str, sequences: &[u64]) -> Value {
    let mut thumb = thumb_down();
    thumb["sessionId"] = session.into();
    if !sequences.is_empty() {
        thumb["sequences"] = sequences.into();
    }
    thumb
}

async fn a_thumb_on_a_session_says_where_its_lesson_came_up(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let line = line(&server, &[], new()).await;
    let chat = json!({"thread_id": "t", "message": "Update the dependencies"});
    server.anyone().post("/api/chat", chat).await.expect(200);
    let log = server.anyone().get("/api/sessions/t/events").await.expect(200).body;
    let said = |kind: &str| {
        let events = log["events"].as_array().unwrap();
        events.iter().find(|event| event["type"] == kind).unwrap()["sequence"].as_u64().unwrap()
    };
    let turn = [said("user.message"), said("agent.message")];
    for (sequences, kept) in [(&[][..], &turn[..]), (&turn[1..], &turn[1..])] {
        let captured = given(call(&line, "capture_feedback", thumb_on("t", sequences)).await);
        let id = &captured["feedback_session"]["session_id"];
        let done = given(call(&line, "finalize_feedback_session", json!({"sessionId": id})).await);
        let source = done["lesson"]["sources"].as_array().unwrap().last().unwrap();
        assert_eq!((&source["session_id"], &source["sequences"]), (&json!("t"), &json!(kept)), "{done}");
    }
}

async fn only_sessions_that_the_caller_may_read_are_named(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (ada, bob) = (member_line(&server, "ada").await, member_line(&server, "bob").await);
    let hers = server.key(Role::Member, "ada").await.session(json!({"session_type": "mixed"})).await;
    let field = async |line: &Line, thumb: Value| {
        let result = call(line, "capture_feedback", thumb).await;
        let (code, field) = refused(&result);
        (code.to_owned(), field.map(str::to_owned))
    };
    let named = |name: &str| ("invalid".to_owned(), Some(name.to_owned()));
    // What is not his to see and what is not there look the same.
    for session in [hers.as_str(), "nothing", "a/b"] {
        assert_eq!(field(&bob, thumb_on(session, &[])).await, named("sessionId"), "{session}");
    }
    let mut nowhere = thumb_down();
    nowhere["sequences"] = json!([1]);
    assert_eq!(field(&ada, nowhere).await, named("sequences"));
    for places in [&[0][..], &[9_999], &[1; limits::SOURCE_SEQUENCES_MAX + 1]] {
        assert_eq!(field(&ada, thumb_on(&hers, places)).await, named("sequences"), "{places:?}");
    }
    let stats = given(call(&ada, "feedback_stats", json!({})).await);
    assert_eq!(stats["total"], 0, "nothing of it was kept");
    assert_eq!(given(call(&ada, "capture_feedback", thumb_on(&hers, &[1])).await)["status"], "accepted");
}

/// A line of a member's.
async fn member_line(server: &TestServer, user: &str) -> Line {
    let wish = NewKey { role: Some(Role::Member), user: Some(user.to_owned()), ..NewKey::default() };
    line_of(server, &server.new_key(wish).await.0).await
}

async fn everything_that_callers_send_is_taken(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let line = line(&server, &[], new()).await;
    let first = given(call(&line, "capture_memory_feedback", thumb_down()).await);
    let captured = given(call(&line, "capture_feedback", everything(&first["feedback_event_id"])).await);
    assert_eq!(captured["status"], "accepted", "{captured}");
    let stats = given(call(&line, "feedback_stats", json!({})).await);
    assert_eq!((&stats["down"], &stats["skills"][0]["name"]), (&json!(2), &json!("tidy")));
}

async fn what_tools_take_and_give_fits_their_schemas(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let line = line(&server, &[], new()).await;
    let run = crate::mcp::failed_run(&server.anyone()).await;
    taught(&line).await;
    let captured = given(call(&line, "capture_feedback", thumb_down()).await);
    let (event, session) = (&captured["feedback_event_id"], &captured["feedback_session"]["session_id"]);
    let calls = [
        ("getTaskStatus", vec![json!({"taskId": "letter"})]),
        ("retrySession", vec![json!({"sessionId": run})]),
        (
            "capture_feedback",
            vec![everything(event), json!({"signal": "up"}), thumb_down(), thumb_on(&run, &[1])],
        ),
        (
            "open_feedback_session",
            vec![json!({"feedbackEventId": event, "signal": "down", "initialContext": null})],
        ),
        ("append_feedback_context", vec![json!({"sessionId": session, "message": "more", "role": "user"})]),
        (
            "finalize_feedback_session",
            vec![json!({"sessionId": session}), json!({"sessionId": "fbs_nothing"})],
        ),
        ("feedback_summary", vec![json!({}), json!({"recent": 1})]),
        ("feedback_stats", vec![json!({})]),
        ("recall", vec![json!({"query": "lock file", "limit": 3, "repoPath": "."})]),
        (
            "search_lessons",
            vec![json!({}), json!({"query": "lock", "limit": 5, "category": "error", "tags": []})],
        ),
        (
            "retrieve_lessons",
            vec![json!({"toolName": "edit", "actionContext": "the lock file", "maxResults": 2})],
        ),
        ("prevention_rules", vec![json!({"minOccurrences": 1, "outputPath": ""})]),
    ];
    let tools = within(line.list_all_tools()).await.unwrap();
    assert_eq!(tools.len(), calls.len());
    for (tool, (name, samples)) in tools.iter().zip(calls) {
        assert_eq!(tool.name, name);
        let takes = jsonschema::validator_for(&json!(tool.input_schema)).unwrap();
        let gives = jsonschema::validator_for(&json!(tool.output_schema)).unwrap();
        assert!(!takes.is_valid(&json!({"colour": "red"})), "{name}");
        for arguments in samples {
            takes.validate(&arguments).unwrap_or_else(|misfit| panic!("{name} {arguments}: {misfit}"));
            let value = given_any(call(&line, name, arguments).await);
            gives.validate(&value).unwrap_or_else(|misfit| panic!("{name} {value}: {misfit}"));
        }
        let refusal = call(&line, name, json!({"colour": "red"})).await.structured_content.unwrap();
        gives.validate(&refusal).unwrap_or_else(|misfit| panic!("{name} {refusal}: {misfit}"));
    }
}

/// What a tool gave, as programs see it.
fn given_any(result: rmcp::model::CallToolResult) -> Value {
    assert_eq!(result.is_error, Some(false), "{result:?}");
    result.structured_content.unwrap()
}

async fn what_does_not_fit_is_named_as_it_was_written(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let line = line(&server, &[], new()).await;
    let event = given(call(&line, "capture_feedback", thumb_down()).await)["feedback_event_id"].clone();
    let score = |score: f64| json!({"signal": "up", "rubricScores": [{"criterion": "care", "score": score}]});
    let said = json!({"role": "user", "content": "x".repeat(limits::EXTRACT_CHARS_MAX + 1)});
    let table = [
        ("capture_feedback", json!({}), "signal"),
        ("capture_feedback", json!({"signal": "sideways"}), "signal"),
        ("capture_feedback", json!({"signal": "up", "what_worked": "it"}), "what_worked"),
        ("capture_feedback", json!({"signal": "up", "failureType": "luck"}), "failureType"),
        ("capture_feedback", json!({"signal": "up", "relatedFeedbackId": "fb_nothing"}), "relatedFeedbackId"),
        (
            "capture_feedback",
            json!({"signal": "up", "chatHistory": [{"author": "a"}]}),
            "chatHistory[0].text",
        ),
        ("capture_feedback", json!({"signal": "up", "conversationWindow": [said]}), "conversationWindow"),
        ("capture_feedback", score(6.0), "rubricScores"),
        ("open_feedback_session", json!({"feedbackEventId": event, "signal": "up"}), "signal"),
        ("open_feedback_session", json!({"feedbackEventId": event}), "signal"),
        ("append_feedback_context", json!({"sessionId": "x", "message": "y", "role": "system"}), "role"),
        ("finalize_feedback_session", json!({"session_id": "x"}), "session_id"),
        ("feedback_summary", json!({"recent": 0}), "recent"),
        ("feedback_stats", json!({"recent": 1}), "recent"),
        ("recall", json!({}), "query"),
        ("recall", json!({"query": "x", "limit": 0}), "limit"),
        ("search_lessons", json!({"limit": 0}), "limit"),
        ("search_lessons", json!({"limit": -1}), "limit"),
        ("search_lessons", json!({"query": "x".repeat(limits::QUERY_CHARS_MAX + 1)}), "query"),
        ("search_lessons", json!({"category": "wisdom"}), "category"),
        ("retrieve_lessons", json!({"actionContext": "x"}), "toolName"),
        ("retrieve_lessons", json!({"toolName": "x", "maxResults": 0}), "maxResults"),
        ("prevention_rules", json!({"minOccurrences": 0}), "minOccurrences"),
        ("prevention_rules", json!({"outputPath": "rules.md"}), "outputPath"),
        ("get_reliability_rules", json!({"outputPath": "/etc/rules"}), "outputPath"),
    ];
    for (name, arguments, field) in table {
        let result = call(&line, name, arguments.clone()).await;
        assert_eq!(refused(&result), ("invalid", Some(field)), "{name} {arguments}");
    }
    let unknown = json!({"feedbackEventId": "fb_nothing", "signal": "up"});
    assert_eq!(refused(&call(&line, "open_feedback_session", unknown).await), ("not_found", None));
    given(call(&line, "prevention_rules", json!({"outputPath": ""})).await);
    given(call(&line, "search_lessons", json!({"limit": 1000})).await);
}

async fn what_comes_up_often_is_a_rule(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let line = line(&server, &[], new()).await;
    let lesson = taught(&line).await;
    assert_eq!(given(call(&line, "prevention_rules", json!({})).await)["items"], json!([]));
    for _ in 1..limits::RULE_OCCURRENCES {
        assert_eq!(taught(&line).await, lesson);
    }
    for name in ["prevention_rules", "get_reliability_rules"] {
        let rules = given(call(&line, name, json!({})).await);
        assert_eq!(rules["items"][0]["lesson"]["id"], json!(lesson));
        assert!(rules["markdown"].as_str().unwrap().contains("lock file"), "{rules}");
    }
    let suggestions = given(call(&line, "capture_feedback", thumb_down()).await)["suggestions"].clone();
    assert_eq!(suggestions[0]["id"], json!(lesson), "what is known is said");
}

async fn a_repeated_thumb_is_one_thumb(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let line = line(&server, &[], new()).await;
    let first = given(keyed(&line, "capture_feedback", thumb_down(), "k-1").await);
    let again = given(keyed(&line, "capture_feedback", thumb_down(), "k-1").await);
    assert_eq!(first["feedback_event_id"], again["feedback_event_id"]);
    assert_eq!(first["feedback_session"]["session_id"], again["feedback_session"]["session_id"]);
    let id = &first["feedback_session"]["session_id"];
    for _ in 0..2 {
        let more = json!({"sessionId": id, "message": "and slowly"});
        let appended = given(keyed(&line, "append_feedback_context", more, "k-2").await);
        assert_eq!((&appended["status"], &appended["message_count"]), (&json!("appended"), &json!(1)));
    }
    assert_eq!(given(call(&line, "feedback_stats", json!({})).await)["down"], 1);
}

async fn lessons_stay_with_those_they_came_from(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (ada, bob) = (member_line(&server, "ada").await, member_line(&server, "bob").await);
    server.operator().post("/api/tenants", json!({"id": "acme"})).await.expect(201);
    let bearer = format!("Bearer {OPERATOR}");
    let there = [("authorization", bearer.as_str()), ("x-sederunt-tenant", "acme")];
    let elsewhere = line(&server, &there, new()).await;
    let lesson = taught(&ada).await;
    let uri = format!("sederunt://lessons/{lesson}");
    assert!(read(&ada, &uri).await.is_ok());
    for stranger in [&bob, &elsewhere] {
        assert!(read(stranger, &uri).await.is_err());
        assert_eq!(within(stranger.list_all_resources()).await.unwrap(), []);
        let found = given(call(stranger, "search_lessons", json!({"query": "lock file"})).await);
        assert_eq!(found["items"], json!([]));
        let recalled = page(stranger, "recall", json!({"query": "edit the lock file"})).await;
        assert!(!recalled.contains("package manager"), "{recalled}");
    }
}
