//! /api/voice

use serde_json::json;

use crate::server::{StoreKind, TestServer, on_every_store};

on_every_store!(
    a_spoken_conversation_is_told_how_somebody_wants_to_be_talked_to,
    a_spoken_turn_is_written_down_once,
    a_tool_of_a_spoken_conversation_recalls,
    a_spoken_sitting_ends_and_is_rated_as_one,
);

async fn a_spoken_conversation_is_told_how_somebody_wants_to_be_talked_to(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    for _ in 0..2 {
        let wish = json!({"thread_id": "t", "message": "Please always answer briefly", "user_id": "ada"});
        me.post("/api/chat", wish).await.expect(200);
    }
    me.post("/api/threads/t/end", json!({})).await.expect(200);
    let told =
        me.post("/api/voice/session", json!({"thread_id": "v", "user_id": "ada"})).await.expect(200).body;
    assert!(told["memory_text"].as_str().unwrap().contains("briefly"), "{told}");
    assert!(told["memory_text"].as_str().unwrap().chars().count() <= 2000);
    assert_eq!((&told["tools"][0]["name"], &told["client_secret"]), (&json!("recall"), &json!(null)));
    let secret = json!({"thread_id": "q", "user_id": "ada", "memory_mode": "incognito"});
    let told = me.post("/api/voice/session", secret).await.expect(200).body;
    assert_eq!(told["memory_text"], "");
    me.post("/api/voice/session", json!({})).await.refused(422, "invalid");
}

async fn a_spoken_turn_is_written_down_once(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let turn = |text: &str| json!({"thread_id": "v", "user_text": text, "assistant_text": "I see.", "external_id": "t-1"});
    let first = me.post("/api/voice/turn", turn("Hello")).await.expect(200).body;
    let again = me.post("/api/voice/turn", turn("Hello")).await.expect(200).body;
    assert_eq!(
        (&first["repeated"], &again["repeated"], &first["sequence"]),
        (&json!(false), &json!(true), &again["sequence"])
    );
    me.post("/api/voice/turn", turn("Something else")).await.refused(422, "idempotency_mismatch");
    let session = me.get("/api/sessions/v").await.expect(200).body;
    assert_eq!((&session["turn_count"], &session["message_count"]), (&json!(1), &json!(2)));
    let mut silent = turn("Hello");
    silent["assistant_text"] = json!(" ");
    me.post("/api/voice/turn", silent).await.refused(422, "invalid");
}

async fn a_tool_of_a_spoken_conversation_recalls(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let wish = json!({"thread_id": "v", "message": "Remember that my sister is called Mona"});
    me.post("/api/chat", wish).await.expect(200);
    let call = json!({"thread_id": "v", "name": "recall", "arguments": {"query": "my sister"}});
    let found = me.post("/api/voice/tools", call).await.expect(200).body;
    assert!(found["result"]["memories"].to_string().contains("Mona"), "{found}");
    me.post("/api/voice/tools", json!({"thread_id": "v", "name": "launch"})).await.refused(422, "invalid");
    me.post("/api/voice/tools", json!({"thread_id": "v", "name": "recall"})).await.refused(422, "invalid");
}

async fn a_spoken_sitting_ends_and_is_rated_as_one(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let turn = json!({"thread_id": "v", "user_text": "I want to kill myself", "assistant_text": "I see.", "external_id": "t-1"});
    me.post("/api/voice/turn", turn).await.expect(200);
    let ended =
        me.post("/api/voice/end", json!({"thread_id": "v", "feedback": "positive"})).await.expect(200).body;
    assert_eq!(ended["finalized"], json!(true));
    let status = me.get("/api/memory/status?thread_id=v").await.expect(200).body;
    assert_eq!((&status["session_feedback_count"], &status["crisis_log_count"]), (&json!(1), &json!(1)));
}
