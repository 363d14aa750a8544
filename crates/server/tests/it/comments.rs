//! POST /api/threads/{id}/feedback with a comment

use sederunt_core::access::Role;
use serde_json::{Value, json};

use crate::server::{Caller, StoreKind, TestServer, on_every_store};

on_every_store!(
    a_comment_beside_a_rating_is_a_feedback_of_its_own,
    a_comment_that_cannot_be_taken_leaves_the_rating,
    a_comment_that_is_no_comment_writes_nothing,
    ratings_are_listed_without_words_and_counted_by_label,
);

/// A conversation whose sitting has ended.
async fn ended(me: &Caller<'_>, thread: &str, mode: &str) {
    let said = json!({"thread_id": thread, "message": "How do I cook rice?", "memory_mode": mode});
    me.post("/api/chat", said).await.expect(200);
    me.post(&format!("/api/threads/{thread}/end"), json!({})).await.expect(200);
}

async fn rate(me: &Caller<'_>, thread: &str, body: Value) -> Value {
    me.post(&format!("/api/threads/{thread}/feedback"), body).await.expect(200).body
}

async fn thumbs(me: &Caller<'_>) -> (Value, Value) {
    let stats = me.get("/api/feedback/stats").await.expect(200).body;
    (stats["up"].clone(), stats["down"].clone())
}

async fn ratings(me: &Caller<'_>, thread: &str) -> Value {
    let path = format!("/api/memory/status?thread_id={thread}");
    me.get(&path).await.expect(200).body["session_feedback_count"].clone()
}

async fn ratings_are_listed_without_words_and_counted_by_label(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let [ann, bob, owner] = [
        server.key(Role::Member, "ann").await,
        server.key(Role::Member, "bob").await,
        server.key(Role::Owner, "o").await,
    ];
    for (guest, thread, label) in [(&ann, "a", "positive"), (&bob, "b", "negative")] {
        ended(guest, thread, "local").await;
        let words = "It was short and it was right";
        rate(guest, thread, json!({"feedback": label, "comment": words})).await;
    }
    let listed = ann.get("/api/threads/a/ratings").await.expect(200).body;
    let item = &listed["items"][0];
    assert_eq!(
        (&item["label"], &item["source"], &item["modality"]),
        (&json!("positive"), &json!("api_end"), &json!("text"))
    );
    assert_eq!(listed["counts"], json!({"positive": 1, "negative": 0, "skip": 0, "total": 1}));
    assert!(!listed.to_string().contains("short") && !listed.to_string().contains("ann"), "{listed}");
    bob.get("/api/threads/a/ratings").await.refused(404, "not_found");
    assert_eq!(owner.get("/api/threads/a/ratings").await.expect(200).body, listed);
    let counted = async |guest: &Caller<'_>| {
        let stats = guest.get("/api/feedback/stats").await.expect(200).body;
        ["positive", "negative", "total"].map(|label| stats["ratings"][label].as_u64().unwrap())
    };
    assert_eq!(counted(&owner).await, [1, 1, 2]);
    assert_eq!(counted(&ann).await, [1, 0, 1]);
    assert_eq!(counted(&bob).await, [0, 1, 1]);
}

async fn a_comment_beside_a_rating_is_a_feedback_of_its_own(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    ended(&me, "t", "local").await;
    let comment = "Do not answer with a question";
    let done = rate(&me, "t", json!({"feedback": "negative", "comment": comment})).await;
    assert_eq!(
        (&done["recorded"], &done["follow_up"]["status"]),
        (&json!(true), &json!("accepted")),
        "{done}"
    );
    let session = done["follow_up"]["feedback_session"]["session_id"].as_str().unwrap();
    let shown = me.get(&format!("/api/feedback/sessions/{session}")).await.expect(200).body;
    assert_eq!((&shown["signal"], &shown["initial_context"]), (&json!("down"), &json!(comment)));
    let path = format!("/api/feedback/sessions/{session}/finalize");
    let taught = me.post(&path, json!({})).await.expect(200).body;
    let lesson = &taught["lesson"];
    assert_eq!(
        (&lesson["text"], &lesson["sources"][0]["session_id"]),
        (&json!(comment), &json!("t")),
        "{taught}"
    );

    let again =
        rate(&me, "t", json!({"feedback": "positive", "comment": "It was short and it was right"})).await;
    assert_eq!((&again["recorded"], &again["follow_up"]["status"]), (&json!(false), &json!("accepted")));
    assert_eq!((thumbs(&me).await, ratings(&me, "t").await), ((json!(1), json!(1)), json!(1)));
    let vague = rate(&me, "t", json!({"feedback": "negative", "comment": "bad"})).await;
    assert_eq!(vague["follow_up"]["status"], "clarification_required");

    let same = me.with("idempotency-key", "once");
    let body = json!({"feedback": "negative", "comment": "It forgot the salt in the water"});
    let first = rate(&same, "t", body.clone()).await;
    let second = rate(&same, "t", body).await;
    assert_eq!(first["follow_up"]["feedback_event_id"], second["follow_up"]["feedback_event_id"]);
}

async fn a_comment_that_cannot_be_taken_leaves_the_rating(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let me = server.key(Role::Owner, "ada").await;
    ended(&me, "t", "local").await;
    let secret = json!({"feedback": "negative", "comment": "it wrote password: hunter2hunter2 into the log"});
    let done = rate(&me, "t", secret).await;
    assert_eq!(
        (&done["recorded"], &done["follow_up"]["status"]),
        (&json!(true), &json!("blocked")),
        "{done}"
    );

    ended(&me, "quiet", "incognito").await;
    let done = rate(&me, "quiet", json!({"feedback": "positive", "comment": "It was short and right"})).await;
    assert_eq!(
        (&done["recorded"], &done["follow_up"]["status"]),
        (&json!(true), &json!("refused")),
        "{done}"
    );
    assert!(done["follow_up"]["reason"].as_str().unwrap().contains("is incognito"), "{done}");
    assert_eq!((ratings(&me, "t").await, ratings(&me, "quiet").await), (json!(1), json!(1)));
    assert_eq!(thumbs(&me).await, (json!(0), json!(0)));
}

async fn a_comment_that_is_no_comment_writes_nothing(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    ended(&me, "t", "local").await;
    for (label, comment) in [("skip", "It was short and right"), ("negative", &"x".repeat(4001))] {
        let body = json!({"feedback": label, "comment": comment});
        me.post("/api/threads/t/feedback", body).await.refused(422, "invalid");
    }
    assert_eq!(ratings(&me, "t").await, json!(0));
    let open = json!({"thread_id": "open", "message": "Hello"});
    me.post("/api/chat", open).await.expect(200);
    let early = json!({"feedback": "negative", "comment": "It was too long for me"});
    me.post("/api/threads/open/feedback", early).await.refused(409, "nothing_ended");
    assert_eq!(thumbs(&me).await, (json!(0), json!(0)));
    assert_eq!(rate(&me, "t", json!({"feedback": "skip", "comment": " "})).await, json!({"recorded": true}));
}
