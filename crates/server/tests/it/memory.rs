//! /api/memory

use sederunt_core::access::Role;
use sederunt_core::engine::NewKey;
use serde_json::{Value, json};

use crate::server::{Caller, StoreKind, TestServer, on_every_store};

on_every_store!(
    what_is_remembered_can_be_listed_and_forgotten_by_its_id,
    recall_is_switched_for_its_owner,
    rules_are_listed_and_forgotten,
    a_page_of_facts_goes_on_where_the_last_one_ended,
    nobody_is_asked_about_in_general,
    nobody_hears_or_deletes_the_memory_of_somebody_else,
    a_sitting_ends_before_somebody_joins_whose_ears_are_not_meant,
    whoever_opens_a_session_with_somebody_learns_nothing_of_them,
    the_routes_of_the_memory_follow_the_rights_of_the_conversation,
    records_are_counted_for_whom_they_concern,
    a_users_memory_needs_that_user_or_a_key_that_acts_for_them,
);

async fn remember(guest: &Caller<'_>, thread: &str, what: &str) {
    let wish = json!({"thread_id": thread, "message": format!("Remember that {what}"), "user_id": "ada"});
    let answer = guest.post("/api/chat", wish).await.expect(200).body;
    assert_eq!(answer["response_type"], "memory", "{answer}");
}

async fn what_is_remembered_can_be_listed_and_forgotten_by_its_id(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    remember(&me, "t", "my sister is called Mona").await;
    let facts = me.get("/api/memory/facts?user_id=ada").await.expect(200).body;
    let fact = &facts["items"][0];
    assert!(fact["object"].as_str().unwrap().contains("Mona"), "{fact}");
    assert_eq!(fact["sources"][0]["session_id"], "t");
    assert_eq!(fact["sources"][0]["sequences"].as_array().unwrap().len(), 1);
    let id = fact["id"].as_str().unwrap();
    me.delete(&format!("/api/memory/facts/{id}?user_id=bob")).await.refused(404, "not_found");
    me.delete(&format!("/api/memory/arcs/{id}?user_id=ada")).await.refused(404, "not_found");
    me.delete(&format!("/api/memory/facts/{id}?user_id=ada")).await.expect(204);
    me.delete(&format!("/api/memory/facts/{id}?user_id=ada")).await.refused(404, "not_found");
    assert_eq!(me.get("/api/memory/facts?user_id=ada").await.expect(200).body["items"], json!([]));
}

async fn recall_is_switched_for_its_owner(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let status = async |user: &str| {
        me.get(&format!("/api/memory/status?user_id={user}")).await.expect(200).body["recall_enabled"].clone()
    };
    assert_eq!(status("ada").await, json!(false));
    me.patch("/api/memory/recall", json!({"enabled": true, "user_id": "ada"})).await.expect(200);
    assert_eq!((status("ada").await, status("bob").await), (json!(true), json!(false)));
    me.patch("/api/memory/recall", json!({"enabled": "yes", "user_id": "ada"})).await.refused(422, "invalid");
}

async fn rules_are_listed_and_forgotten(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    for text in ["Please always answer briefly", "Please always answer briefly"] {
        me.post("/api/chat", json!({"thread_id": "t", "message": text})).await.expect(200);
    }
    me.post("/api/threads/t/end", json!({})).await.expect(200);
    let rules = me.get("/api/memory/rules?thread_id=t").await.expect(200).body;
    assert_eq!(rules["items"].as_array().unwrap().len(), 1, "{rules}");
    let id = rules["items"][0]["id"].as_str().unwrap().to_owned();
    me.delete(&format!("/api/memory/rules/{id}?thread_id=t")).await.expect(204);
    me.delete(&format!("/api/memory/rules/{id}?thread_id=t")).await.refused(404, "not_found");
}

async fn a_page_of_facts_goes_on_where_the_last_one_ended(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    for what in ["I own a red kayak", "the cellar is full of apples", "Tuesday is chess night"] {
        remember(&me, "t", what).await;
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = me.get(&format!("/api/memory/facts?user_id=ada&limit=2{cursor}")).await.expect(200).body;
        seen.extend(page["items"].as_array().unwrap().iter().map(|fact| fact["id"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen.len(), 3);
    seen.dedup();
    assert_eq!(seen.len(), 3);
}

async fn nobody_is_asked_about_in_general(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    for path in ["facts", "arcs", "rules"] {
        server.anyone().get(&format!("/api/memory/{path}")).await.refused(422, "invalid");
    }
    // An owner who is nobody in particular is told of the tenant's ratings and crises.
    let status = server.anyone().get("/api/memory/status").await.expect(200).body;
    assert_eq!((&status["facts"], &status["ratings"]["total"]), (&json!(0), &json!(0)));
}

/// What only alice has said, and only to herself.
const SECRET: &str = "Trofaiach";

/// Alice, with a fact and an earlier sitting in her memory.
async fn alice_remembers<'a>(server: &'a TestServer) -> Caller<'a> {
    let alice = server.key(Role::Member, "alice").await;
    for text in [
        &*format!("Remember that I keep bees in {SECRET}"),
        "I feel lonely since my dog died",
        "I miss my dog",
    ] {
        alice.post("/api/chat", json!({"thread_id": "private", "message": text})).await.expect(200);
    }
    alice.post("/api/threads/private/end", json!({})).await.expect(200);
    alice
}

/// The ids of everything that is in somebody's memory.
async fn ids(whose: &Caller<'_>) -> Vec<String> {
    let mut ids = Vec::new();
    for kind in ["facts", "arcs"] {
        let page = whose.get(&format!("/api/memory/{kind}")).await.expect(200).body;
        ids.extend(
            page["items"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()),
        );
    }
    ids
}

async fn nobody_hears_or_deletes_the_memory_of_somebody_else(store_kind: StoreKind) {
    for joined_first in [true, false] {
        let server = TestServer::keyed(store_kind).await;
        let alice = alice_remembers(&server).await;
        let hers = ids(&alice).await;
        assert_eq!(hers.len(), 2, "a fact and an arc");
        let say = async |who: &Caller<'_>, text: &str| {
            let asked = json!({"thread_id": "trip", "message": text});
            who.post("/api/chat", asked).await.expect(200).body["response_text"].as_str().unwrap().to_owned()
        };
        let with = json!(["ben", "gus"]);
        if joined_first {
            alice.session(json!({"id": "trip", "session_type": "mixed", "participants": with})).await;
            say(&alice, "Hello.").await;
        } else {
            alice.session(json!({"id": "trip", "session_type": "mixed"})).await;
            assert!(say(&alice, "Hello.").await.contains("Last time"), "alone, she is reminded");
            alice.patch("/api/sessions/trip", json!({"participants": with})).await.expect(200);
        }
        let before =
            alice.get("/api/sessions/trip").await.expect(200).body["last_sequence"].as_u64().unwrap();
        let before = if joined_first { 0 } else { before };
        let others = [
            (server.key(Role::Guest, "gus").await, false),
            (server.key(Role::Member, "ben").await, false),
            (server.key(Role::Owner, "boss").await, true),
        ];
        for (who, may) in others.iter().map(|(who, may)| (who, *may)).chain([(&alice, true)]) {
            for text in ["What do you know about me?", "Tell me about bees.", "Forget everything.", "yes"] {
                let reply = say(who, text).await;
                assert!(!reply.contains(SECRET) && !reply.contains("Last time"), "{text}: {reply}");
                let is_command = text != "Tell me about bees." && text != "yes";
                let refused = reply.contains("only the person who holds it");
                assert_eq!(refused, is_command && !may, "{text}: {reply}");
            }
        }
        let path = format!("/api/sessions/trip/events?limit=1000&after_sequence={before}");
        let log = alice.get(&path).await.expect(200).text;
        assert!(!log.contains(SECRET), "{log}");
        for id in &hers {
            assert!(!log.contains(id), "{id} stands in {log}");
        }
        assert_eq!(ids(&alice).await[..1], hers[..1], "nothing of hers was deleted");
    }
}

async fn a_sitting_ends_before_somebody_joins_whose_ears_are_not_meant(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let alice = server.key(Role::Member, "alice").await;
    let ends = async |id: &str| {
        let path = format!("/api/sessions/{id}/events?limit=1000&types=session.sitting_ended");
        let events = alice.get(&path).await.expect(200).body["events"].clone();
        let reason = |event: &Value| event["metadata"]["reason"].as_str().unwrap().to_owned();
        events.as_array().unwrap().iter().map(reason).collect::<Vec<_>>()
    };
    let invite = async |id: &str, who: Value| {
        alice.patch(&format!("/api/sessions/{id}"), json!({"participants": who})).await.expect(200);
    };
    for text in ["I live in Graz", "It rains a lot. I live in Graz."] {
        alice.post("/api/chat", json!({"thread_id": "own", "message": text})).await.expect(200);
    }
    invite("own", json!(["alice"])).await;
    assert_eq!(ends("own").await, [""; 0], "nobody was added");
    invite("own", json!(["gus"])).await;
    assert_eq!(ends("own").await, ["memory_owner_changed"]);
    assert_eq!(ids(&alice).await.len(), 2, "what the sitting left is hers");
    // Where the memory is the conversation's already, nothing ends.
    alice.post("/api/chat", json!({"thread_id": "own", "message": "Hello both"})).await.expect(200);
    invite("own", json!(["gus", "ben"])).await;
    assert_eq!(ends("own").await, ["memory_owner_changed"]);
    alice.session(json!({"id": "group", "session_type": "mixed", "source": {"type": "group"}})).await;
    alice.post("/api/chat", json!({"thread_id": "group", "message": "Hello all"})).await.expect(200);
    invite("group", json!(["gus", "ben"])).await;
    assert_eq!(ends("group").await, [""; 0]);
    // Whoever is alone again has their own memory back, in a sitting of its own.
    invite("own", json!([])).await;
    alice.post("/api/chat", json!({"thread_id": "own", "message": "Hello again"})).await.expect(200);
    assert_eq!(ends("own").await, ["memory_owner_changed"; 2]);
}

async fn whoever_opens_a_session_with_somebody_learns_nothing_of_them(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let alice = alice_remembers(&server).await;
    let mallory = server.key(Role::Member, "mallory").await;
    mallory.session(json!({"id": "bait", "session_type": "mixed", "participants": ["alice"]})).await;
    let say = async |who: &Caller<'_>, text: &str| {
        who.post("/api/chat", json!({"thread_id": "bait", "message": text})).await.expect(200).text
    };
    for (who, text) in [
        (&alice, "I hate Mondays. Tell me about bees."),
        (&mallory, "What do you know about me?"),
        (&mallory, "Tell me about bees."),
        (&mallory, "Forget everything."),
        (&mallory, "yes"),
    ] {
        let reply = say(who, text).await;
        assert!(!reply.contains(SECRET) && !reply.contains("Last time"), "{text}: {reply}");
    }
    mallory.post("/api/threads/bait/end", json!({})).await.expect(200);
    assert_eq!(ids(&alice).await.len(), 2);
}

async fn the_routes_of_the_memory_follow_the_rights_of_the_conversation(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let alice = alice_remembers(&server).await;
    let (gus, boss) = (server.key(Role::Guest, "gus").await, server.key(Role::Owner, "boss").await);
    alice.session(json!({"id": "trip", "session_type": "mixed", "participants": ["gus"]})).await;
    let wish = json!({"thread_id": "trip", "message": "Remember that the train leaves at noon"});
    alice.post("/api/chat", wish).await.expect(200);
    let fact = alice.get("/api/memory/facts?thread_id=trip").await.expect(200).body["items"][0].clone();
    let fact = format!("/api/memory/facts/{}?thread_id=trip", fact["id"].as_str().unwrap());
    let paths = ["status", "facts", "arcs", "rules"];
    for path in paths {
        let path = format!("/api/memory/{path}?thread_id=trip");
        boss.get(&path).await.expect(200);
        gus.get(&path).await.refused(403, "denied");
    }
    let switch = |thread: &str| json!({"enabled": true, "thread_id": thread});
    gus.patch("/api/memory/recall", switch("trip")).await.refused(403, "denied");
    gus.delete(&fact).await.refused(403, "denied");
    // A conversation of somebody else and one that does not exist are one answer.
    for path in paths {
        let ask = async |thread: &str| {
            gus.get(&format!("/api/memory/{path}?thread_id={thread}")).await.expect(200).body
        };
        assert_eq!(ask("private").await, ask("nope").await, "{path}");
    }
    for thread in ["private", "nope"] {
        gus.patch("/api/memory/recall", switch(thread)).await.expect(200);
        gus.delete(&format!("/api/memory/facts/x?thread_id={thread}")).await.refused(404, "not_found");
    }
    assert_eq!(alice.get("/api/memory/status").await.expect(200).body["recall_enabled"], json!(false));
    alice.delete(&fact).await.expect(204);
    assert_eq!(ids(&alice).await.len(), 2, "the fact of the conversation was none of her own");
}

async fn records_are_counted_for_whom_they_concern(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (alice, gus) = (server.key(Role::Member, "alice").await, server.key(Role::Guest, "gus").await);
    let boss = server.key(Role::Owner, "boss").await;
    alice.post("/api/chat", json!({"thread_id": "a", "message": "I want to kill myself"})).await.expect(200);
    alice.post("/api/threads/a/end", json!({"feedback": "positive"})).await.expect(200);
    let counts = async |who: &Caller<'_>, query: &str| {
        let status = who.get(&format!("/api/memory/status{query}")).await.expect(200).body;
        ["session_feedback_count", "crisis_log_count"].map(|count| status[count].as_u64().unwrap())
    };
    assert_eq!(counts(&gus, "").await, [0, 0]);
    assert_eq!(counts(&gus, "?thread_id=a").await, [0, 0]);
    assert_eq!(counts(&alice, "").await, [1, 1]);
    assert_eq!(counts(&alice, "?thread_id=a").await, [1, 1]);
    assert_eq!(counts(&boss, "").await, [1, 1], "an owner sees the tenant's");
    for (who, thread, label) in [(&alice, "a2", "negative"), (&boss, "b", "skip"), (&boss, "b2", "negative")]
    {
        who.post("/api/chat", json!({"thread_id": thread, "message": "Hello"})).await.expect(200);
        who.post(&format!("/api/threads/{thread}/end"), json!({"feedback": label})).await.expect(200);
    }
    let labels = async |who: &Caller<'_>, query: &str| {
        let status = who.get(&format!("/api/memory/status{query}")).await.expect(200).body;
        let counted = ["positive", "negative", "skip", "total"].map(|label| status["ratings"][label].clone());
        assert_eq!(status["session_feedback_count"], counted[3]);
        counted.map(|count| count.as_u64().unwrap())
    };
    assert_eq!(labels(&gus, "").await, [0, 0, 0, 0]);
    assert_eq!(labels(&alice, "").await, [1, 1, 0, 2], "others see their own");
    assert_eq!(labels(&alice, "?thread_id=a2").await, [0, 1, 0, 1]);
    assert_eq!(labels(&boss, "").await, [1, 2, 1, 4], "an owner sees the tenant's");
    let local = TestServer::local(store_kind).await;
    let me = local.anyone();
    me.post("/api/chat", json!({"thread_id": "a", "message": "I want to kill myself", "user_id": "ada"}))
        .await
        .expect(200);
    assert_eq!(counts(&me, "?user_id=ada").await, [0, 1]);
    assert_eq!(counts(&me, "?user_id=nobody-at-all").await, [0, 0]);
}

async fn a_users_memory_needs_that_user_or_a_key_that_acts_for_them(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    server.operator().post("/api/users", json!({"id": "alice"})).await.expect(201);
    alice_remembers(&server).await;
    let nobody = server.key(Role::Owner, "").await;
    let boss = server.key(Role::Owner, "boss").await;
    for path in ["status", "facts", "arcs", "rules"] {
        for who in [&nobody, &boss] {
            who.get(&format!("/api/memory/{path}?user_id=alice")).await.refused(403, "denied");
        }
    }
    let wish = json!({"thread_id": "mine", "message": "What do you know about me?", "user_id": "alice"});
    nobody.post("/api/chat", wish.clone()).await.refused(403, "denied");
    let lends = NewKey { role: Some(Role::Owner), act_as: true, ..NewKey::default() };
    let lender = server.bearer(&server.new_key(lends).await.0);
    assert!(lender.get("/api/memory/facts?user_id=alice").await.expect(200).text.contains(SECRET));
    assert!(lender.post("/api/chat", wish).await.expect(200).text.contains(SECRET));
}
