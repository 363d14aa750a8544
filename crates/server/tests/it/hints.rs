//! /api/stream

use sederunt_core::access::Role;
use serde_json::json;

use crate::server::{StoreKind, TestServer, on_every_store};
use crate::tasks::trigger;

on_every_store!(
    hints_name_what_changed,
    hints_resume_from_their_cursor_or_are_reset,
    hints_show_only_what_the_caller_may_see,
    hints_follow_who_takes_part,
    counts_and_approvals_are_told_when_they_have_changed,
    figures_are_those_of_their_reader,
);

async fn hints_name_what_changed(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let mut hints = owner.follow("/api/stream?topics=sessions").await;
    hints.expect("ready").await;
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let hint = hints.expect("sessions").await;
    assert_eq!(hint["sessions"][0]["id"], json!(id));
    owner.get("/api/stream?topics=weather").await.refused(422, "invalid");
    owner.get("/api/stream?tz=Mars/Olympus").await.refused(422, "invalid");
}

async fn hints_resume_from_their_cursor_or_are_reset(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let mut hints = owner.follow("/api/stream?topics=sessions").await;
    hints.expect("ready").await;
    owner.session(json!({"id": "a", "session_type": "mixed"})).await;
    let cursor = hints.next().await.unwrap().id.unwrap();
    owner.session(json!({"id": "b", "session_type": "mixed"})).await;
    let mut resumed =
        owner.clone().with("last-event-id", &cursor).follow("/api/stream?topics=sessions").await;
    resumed.expect("ready").await;
    let hint = resumed.expect("sessions").await;
    assert_eq!(hint["sessions"].as_array().unwrap().last().unwrap()["id"], "b");
    let mut foreign = owner.follow("/api/stream?topics=sessions&cursor=elsewhere.5").await;
    foreign.expect("ready").await;
    foreign.expect("reset").await;
}

async fn hints_show_only_what_the_caller_may_see(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (ann, bob) = (server.key(Role::Member, "ann").await, server.key(Role::Member, "bob").await);
    let mut hints = bob.follow("/api/stream?topics=sessions").await;
    hints.expect("ready").await;
    ann.session(json!({"id": "private", "session_type": "mixed"})).await;
    ann.session(json!({"id": "common", "session_type": "mixed", "participants": ["bob"]})).await;
    let seen = hints.expect("sessions").await;
    assert!(seen["sessions"].as_array().unwrap().iter().all(|session| session["id"] == "common"), "{seen}");
}

async fn hints_follow_who_takes_part(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (ann, bob) = (server.key(Role::Member, "ann").await, server.key(Role::Member, "bob").await);
    let mut hints = bob.follow("/api/stream?topics=sessions").await;
    hints.expect("ready").await;
    let named = |hint: &serde_json::Value| hint["sessions"][0]["id"].as_str().unwrap().to_owned();
    ann.session(json!({"id": "first", "session_type": "mixed", "participants": ["bob"]})).await;
    assert_eq!(named(&hints.expect("sessions").await), "first");
    ann.patch("/api/sessions/first", json!({"participants": []})).await.expect(200);
    ann.say("first", "he is gone").await.expect(201);
    ann.session(json!({"id": "second", "session_type": "mixed"})).await;
    ann.say("second", "he is not here yet").await.expect(201);
    ann.patch("/api/sessions/second", json!({"participants": ["bob"]})).await.expect(200);
    assert_eq!(named(&hints.expect("sessions").await), "second");
}

async fn counts_and_approvals_are_told_when_they_have_changed(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let task = json!({"slug": "ask", "name": "Ask", "assigned_to": "ada"});
    owner.post("/api/tasks", task).await.expect(201);
    let counts = |needs_me: u64, done_today: u64| json!({"needs_me": needs_me, "running": 0, "delegatable": 0, "failed": 0, "done_today": done_today});
    let mut queue = owner.follow("/api/stream?topics=counts&tz=Europe/London").await;
    let mut inbox = owner.follow("/api/stream?topics=approvals").await;
    queue.expect("ready").await;
    inbox.expect("ready").await;
    assert_eq!(queue.expect("counts").await, counts(0, 0), "the first come unasked");
    assert_eq!(inbox.expect("approvals").await, json!({"pending": 0, "added": [], "removed": []}));

    for n in 0..5 {
        owner.session(json!({"session_type": "mixed", "title": format!("{n}")})).await;
    }
    let session = trigger(&owner, "ask").await;
    let pending = owner.get("/api/approvals?state=pending").await.expect(200).body["items"][0]["id"].clone();
    assert_eq!(queue.expect("counts").await, counts(1, 0), "other sessions change no count");
    assert_eq!(inbox.expect("approvals").await, json!({"pending": 1, "added": [pending], "removed": []}));
    let done = format!("/api/sessions/{session}/human-complete");
    owner.post(&done, json!({"text": "Done."})).await.expect(200);
    assert_eq!(queue.expect("counts").await, counts(0, 1));
    assert_eq!(inbox.expect("approvals").await, json!({"pending": 0, "added": [], "removed": [pending]}));
}

async fn figures_are_those_of_their_reader(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let owner = server.key(Role::Owner, "").await;
    let (ada, bob) = (server.key(Role::Member, "ada").await, server.key(Role::Member, "bob").await);
    let guest = server.key(Role::Guest, "eve").await;
    for (slug, who) in [("hers", "ada"), ("his", "bob")] {
        owner.post("/api/tasks", json!({"slug": slug, "name": slug, "assigned_to": who})).await.expect(201);
    }
    let mut hers = ada.follow("/api/stream?topics=approvals").await;
    let mut his = bob.follow("/api/stream?topics=approvals").await;
    let mut theirs = guest.follow("/api/stream?topics=approvals,counts").await;
    for stream in [&mut hers, &mut his] {
        stream.expect("ready").await;
        stream.expect("approvals").await;
    }
    theirs.expect("ready").await;
    trigger(&owner, "hers").await;
    let told = hers.expect("approvals").await;
    assert_eq!((&told["pending"], told["added"].as_array().unwrap().len()), (&json!(1), 1));
    trigger(&owner, "his").await;
    let told = his.expect("approvals").await;
    let mine = bob.get("/api/approvals?state=pending").await.expect(200).body["items"][0]["id"].clone();
    assert_eq!(told, json!({"pending": 1, "added": [mine], "removed": []}), "hers is not told to him");
    let guests = tokio::time::timeout(std::time::Duration::from_millis(300), theirs.next()).await;
    assert!(guests.is_err(), "a guest has no queue and no inbox: {guests:?}");
}
