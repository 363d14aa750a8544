//! /api/turn, /api/chat, /api/chat/stream, /api/threads, /api/sessions/{id}/messages|checkpoint|replay

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use sederunt_core::access::Role;
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::server::{Answer, Caller, StoreKind, TestServer, on_every_store, within};

on_every_store!(
    a_conversation_is_opened_by_its_first_message_and_answered,
    a_stateless_turn_leaves_nothing,
    a_repeat_under_the_same_key_has_one_effect_and_the_first_answer,
    a_conversation_is_heard_while_it_is_said,
    a_listener_that_hangs_up_does_not_stop_the_turn,
    a_socket_says_what_is_wrong_and_closes,
    a_message_is_kept_and_answered_through_the_log,
    a_sitting_is_ended_rated_and_resumed,
    an_end_without_a_sitting_does_not_wait_for_a_worker,
    a_bad_rating_leaves_the_sitting_open,
    a_sitting_that_fell_silent_is_ended_by_the_server,
    conversations_are_listed_and_looked_into,
    the_log_proves_the_kept_state_at_any_sequence,
    looking_back_describes_a_session_once,
    looking_back_writes_what_a_sitting_is_about_until_it_is_discarded,
    what_is_only_kept_shows_a_hidden_session_again,
    strangers_find_nothing,
    what_cannot_be_said_is_refused,
    an_incognito_conversation_is_found_by_its_id_alone,
);

async fn chat(guest: &Caller<'_>, thread: &str, text: &str) -> Answer {
    guest.post("/api/chat", json!({"thread_id": thread, "message": text})).await
}

async fn a_conversation_is_opened_by_its_first_message_and_answered(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let first = chat(&me, "cli:main", "Hello there").await.expect(200).body;
    assert!(first["response_text"].as_str().is_some_and(|text| !text.is_empty()), "{first}");
    assert_eq!(
        (&first["response_type"], &first["session_action"], &first["crisis"]["level"]),
        (&json!("talk"), &json!("none"), &json!(0))
    );
    assert!(first["diagnostics"]["stages_us"]["respond"].is_u64(), "{first}");
    let log = me.get("/api/sessions/cli:main/events").await.expect(200).body;
    let answer =
        log["events"].as_array().unwrap().iter().find(|event| event["type"] == "agent.message").unwrap();
    assert_eq!((&answer["sequence"], &answer["turn"]), (&first["sequence"], &json!(3)));
    let bye = chat(&me, "cli:main", "Bye!").await.expect(200).body;
    assert_eq!(
        (&bye["session_action"], &bye["response_type"]),
        (&json!("suggest_end_session"), &json!("closing"))
    );
    let status = me.get("/api/threads/cli:main/session-status").await.expect(200).body;
    assert_eq!(
        (&status["has_active_session"], &status["status"], &status["turn_count"]),
        (&json!(true), &json!("active"), &json!(2))
    );
}

async fn a_stateless_turn_leaves_nothing(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let wish = json!({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "I am sad"}]});
    let answer = me.post("/api/turn", wish).await.expect(200).body;
    assert!(answer["response_text"].as_str().is_some_and(|text| !text.is_empty()));
    assert_eq!(answer["sequence"], json!(null));
    assert_eq!(me.get("/api/sessions").await.expect(200).body["items"], json!([]));
    me.post("/api/turn", json!({"messages": [{"role": "assistant", "content": "x"}]}))
        .await
        .refused(422, "invalid");
    me.post("/api/turn", json!({"messages": []})).await.refused(422, "invalid");
    let model = json!({"messages": [{"role": "user", "content": "Hi"}], "model": "openai:none"});
    me.post("/api/turn", model).await.refused(422, "invalid");
}

async fn a_repeat_under_the_same_key_has_one_effect_and_the_first_answer(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone().with("idempotency-key", "k-1");
    let first = chat(&me, "t", "Hello").await.expect(200).body;
    let again = chat(&me, "t", "Hello").await.expect(200).body;
    assert_eq!((&first["response_text"], &first["sequence"]), (&again["response_text"], &again["sequence"]));
    chat(&me, "t", "Something else").await.refused(422, "idempotency_mismatch");
    let session = server.anyone().get("/api/sessions/t").await.expect(200).body;
    assert_eq!((&session["turn_count"], &session["message_count"]), (&json!(1), &json!(2)));
}

pub type Socket =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

pub async fn socket(server: &TestServer) -> Socket {
    let request = format!("ws://{}/api/chat/stream", server.address).into_client_request().unwrap();
    within(connect_async(request)).await.unwrap().0
}

/// The frames of a socket up to its close, and the code of that.
pub async fn frames(socket: &mut Socket) -> (Vec<Value>, u16) {
    let mut frames = Vec::new();
    loop {
        match within(socket.next()).await {
            Some(Ok(Message::Text(text))) => frames.push(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Close(close))) => return (frames, close.map_or(0, |close| close.code.into())),
            Some(Ok(_)) => {}
            other => panic!("the socket broke off: {other:?}, after {frames:?}"),
        }
    }
}

async fn a_conversation_is_heard_while_it_is_said(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let mut socket = socket(&server).await;
    let wish = json!({"thread_id": "web-1", "message": "Hello there"});
    socket.send(Message::text(wish.to_string())).await.unwrap();
    let (frames, code) = frames(&mut socket).await;
    assert_eq!(code, 1000);
    let stages: Vec<&str> = frames
        .iter()
        .filter(|frame| frame["type"] == "status")
        .map(|frame| frame["stage"].as_str().unwrap())
        .collect();
    assert_eq!(stages, ["safety", "control", "recall", "route", "respond", "extract", "finalize"]);
    let heard: String = frames
        .iter()
        .filter(|frame| frame["type"] == "chunk")
        .map(|frame| frame["text"].as_str().unwrap())
        .collect();
    let done = frames.last().unwrap();
    assert_eq!((&done["type"], &done["response"]["response_text"]), (&json!("done"), &json!(heard)));
}

async fn a_listener_that_hangs_up_does_not_stop_the_turn(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let mut socket = socket(&server).await;
    socket.send(Message::text(json!({"thread_id": "t", "message": "Hello"}).to_string())).await.unwrap();
    // The first frame says that the message was kept; then nobody listens any more.
    within(socket.next()).await.unwrap().unwrap();
    drop(socket);
    let mut log = me.follow("/api/sessions/t/stream").await;
    loop {
        let message = log.next().await.unwrap_or_else(|| panic!("the turn did not end"));
        if message.data.contains("\"session.turn\"") {
            assert!(message.data.contains("answered"), "{message:?}");
            break;
        }
    }
}

async fn a_socket_says_what_is_wrong_and_closes(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    for (said, code) in [
        ("{", "bad_json"),
        (r#"{"message":"hi"}"#, "invalid"),
        (r#"{"message":" ","thread_id":"t"}"#, "invalid"),
        (r#"{"message":"hi","thread_id":"t","more":1}"#, "invalid"),
        (r#"{"message":"hi","thread_id":""}"#, "invalid"),
    ] {
        let mut socket = socket(&server).await;
        socket.send(Message::text(said)).await.unwrap();
        let (frames, close) = frames(&mut socket).await;
        assert_eq!(
            (close, frames[0]["type"].as_str(), frames[0]["code"].as_str()),
            (1008, Some("error"), Some(code)),
            "{said}"
        );
    }
    server.anyone().get("/api/sessions/t").await.refused(404, "not_found");
    server.anyone().get("/api/chat/stream").await.refused(426, "upgrade_required");
}

async fn a_message_is_kept_and_answered_through_the_log(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let id = me.session(json!({"session_type": "mixed"})).await;
    let path = format!("/api/sessions/{id}/messages");
    let kept = me.post(&path, json!({"text": "note this", "append_only": true})).await.expect(200).body;
    assert_eq!((&kept["triggered"], &kept["reply"]), (&json!(false), &json!(null)));
    let posted = me.post(&path, json!({"text": "Hello"})).await.expect(202).body;
    assert_eq!((&posted["triggered"], &posted["session_id"]), (&json!(true), &json!(id)));
    let answered =
        me.post(&format!("{path}?wait=true"), json!({"text": "I am tired"})).await.expect(200).body;
    assert!(answered["reply"]["response_text"].is_string(), "{answered}");
    let log = me.get(&format!("/api/sessions/{id}/events?types=agent.message")).await.expect(200).body;
    let turns: Vec<&Value> = log["events"].as_array().unwrap().iter().map(|event| &event["turn"]).collect();
    assert_eq!(turns, [&posted["sequence"], &answered["sequence"]]);
    me.post(&path, json!({})).await.refused(422, "invalid");
    me.post(&path, json!({"text": "a", "content": "b"})).await.refused(422, "invalid");
    me.post(&path, json!({"content": [{"type": "tool-call"}]})).await.refused(422, "invalid");
    let work = me.session(json!({"session_type": "agent"})).await;
    me.post(&format!("/api/sessions/{work}/messages"), json!({"text": "hi"})).await.refused(422, "invalid");
}

async fn a_sitting_is_ended_rated_and_resumed(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let nothing = me.post("/api/threads/t/end", json!({})).await.expect(200).body;
    assert_eq!((&nothing["finalized"], nothing["detail"].is_string()), (&json!(false), true));
    chat(&me, "t", "My job makes me anxious").await.expect(200);
    chat(&me, "t", "I will talk to my boss about my job tomorrow").await.expect(200);
    me.post("/api/threads/t/feedback", json!({"feedback": "positive"})).await.refused(409, "nothing_ended");
    let ended = me.post_text("/api/threads/t/end", "").await.expect(200).body;
    assert_eq!((&ended["finalized"], &ended["turn_count"]), (&json!(true), &json!(2)));
    assert!(ended["summary"].is_string() && ended["themes"].is_array(), "{ended}");
    for key in ["mood_opened", "mood_closed", "open_loops", "resolved_threads", "detail"] {
        assert!(ended.get(key).is_some(), "{key}");
    }
    let rate =
        async |label| me.post("/api/threads/t/feedback", json!({"feedback": label})).await.expect(200).body;
    assert_eq!(rate("negative").await, json!({"recorded": true}));
    assert_eq!(rate("positive").await, json!({"recorded": false}));
    let memory = me.get("/api/memory/status?thread_id=t").await.expect(200).body;
    assert_eq!((&memory["session_feedback_count"], &memory["arcs"]), (&json!(1), &json!(1)));
    let again = chat(&me, "t", "Hello").await.expect(200).body;
    assert!(again["response_text"].as_str().unwrap().contains("Last time"), "{again}");
    let older =
        me.post("/threads/t/end", json!({"feedback": "skip", "source": "web_end"})).await.expect(200).body;
    assert_eq!(older["finalized"], json!(true));
    let memory = me.get("/api/memory/status?thread_id=t").await.expect(200).body;
    assert_eq!(memory["session_feedback_count"], json!(2));
}

async fn an_end_without_a_sitting_does_not_wait_for_a_worker(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let id = me.session(json!({"session_type": "mixed", "status": "pending"})).await;
    let claims =
        me.post("/api/claims", json!({"worker": "w", "session_types": ["mixed"]})).await.expect(200).body;
    assert_eq!(claims["claims"][0]["session"]["id"], json!(id), "{claims}");
    let path = format!("/api/threads/{id}/end");
    let nothing = within(me.post(&path, json!({}))).await.expect(200).body;
    assert_eq!(nothing["finalized"], json!(false));
}

async fn a_bad_rating_leaves_the_sitting_open(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    chat(&me, "t", "Hello").await.expect(200);
    for bad in [
        json!({"feedback": "great"}),
        json!({"feedback": 1}),
        json!({"source": "elsewhere"}),
        json!({"text": "x"}),
    ] {
        me.post("/api/threads/t/end", bad).await.refused(422, "invalid");
    }
    let status = me.get("/api/threads/t/session-status").await.expect(200).body;
    assert_eq!(status["has_active_session"], json!(true));
    let null = me.post_text("/api/threads/t/end", "null").await.expect(200).body;
    assert_eq!(null["finalized"], json!(true));
    let kept = me.get("/api/memory/status?thread_id=t").await.expect(200).body;
    assert_eq!(kept["session_feedback_count"], json!(0));
}

async fn a_sitting_that_fell_silent_is_ended_by_the_server(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    chat(&me, "t", "I miss my dog").await.expect(200);
    chat(&me, "t", "I feel lonely without my dog").await.expect(200);
    let mut log = me.follow("/api/sessions/t/stream?after=5").await;
    server.clock.advance(Duration::from_secs(20 * 60 + 1));
    loop {
        let message = log.next().await.unwrap_or_else(|| panic!("nobody ended it"));
        if message.data.contains("session.sitting_ended") {
            assert!(message.data.contains("silence"), "{message:?}");
            break;
        }
    }
    let arcs = me.get("/api/memory/arcs?thread_id=t").await.expect(200).body;
    assert_eq!(arcs["items"].as_array().unwrap().len(), 1);
}

async fn conversations_are_listed_and_looked_into(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    for thread in ["one", "two"] {
        chat(&me, thread, &format!("Hello from {thread}")).await.expect(200);
    }
    me.session(json!({"session_type": "agent"})).await;
    let list = me.get("/api/threads?limit=10").await.expect(200).body;
    let mut ids: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|item| item["thread_id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["one", "two"]);
    assert_eq!(
        (&list["items"][0]["turn_count"], &list["items"][0]["has_context"]),
        (&json!(1), &json!(true))
    );
    let history = me.get("/api/threads/one/history").await.expect(200).body;
    let said: Vec<&str> =
        history["items"].as_array().unwrap().iter().map(|item| item["role"].as_str().unwrap()).collect();
    assert_eq!(said, ["user", "assistant"]);
    assert_eq!(me.get("/api/threads/none/history").await.expect(200).body, json!({"items": []}));
    let state = me.get("/api/threads/one/state").await.expect(200).body;
    assert_eq!(state["state"]["session_progress"]["turn_count"], json!(1));
    me.get("/api/threads/none/state").await.refused(404, "not_found");
    me.get("/api/threads?limit=101").await.refused(422, "invalid");
}

async fn the_log_proves_the_kept_state_at_any_sequence(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let first = chat(&me, "t", "Can we do a breathing exercise?").await.expect(200).body;
    chat(&me, "t", "stop").await.expect(200);
    let now = me.get("/api/sessions/t/replay").await.expect(200).body;
    assert_eq!((&now["matches"], &now["state"]["exercise_state"]), (&json!(true), &json!(null)));
    // The state is said after the reply.
    let at = first["sequence"].as_u64().unwrap() + 1;
    let then = me.get(&format!("/api/sessions/t/replay?at_sequence={at}")).await.expect(200).body;
    assert_eq!(
        (&then["matches"], &then["state"]["exercise_state"]["exercise"]),
        (&json!(null), &json!("breathing"))
    );
}

async fn looking_back_describes_a_session_once(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    chat(&me, "t", "I live in Graz").await.expect(200);
    chat(&me, "t", "My garden in Graz is full of snails").await.expect(200);
    let done = me.post("/api/sessions/t/checkpoint", json!({"reason": "manual"})).await.expect(200).body;
    assert_eq!((&done["ran"], &done["events_read"]), (&json!(true), &json!(4)));
    let again = me.post("/api/sessions/t/checkpoint", json!({})).await.expect(200).body;
    assert_eq!((&again["ran"], &again["wrote"]), (&json!(false), &json!([])));
    let session = me.get("/api/sessions/t").await.expect(200).body;
    assert_eq!(session["description_source"], "introspection");
    me.post("/api/sessions/t/checkpoint", json!({"reason": "idle"})).await.refused(422, "invalid");
}

async fn looking_back_writes_what_a_sitting_is_about_until_it_is_discarded(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let checkpoint = async || {
        let done = me.post("/api/sessions/t/checkpoint", json!({})).await.expect(200).body;
        done["wrote"].as_array().unwrap().contains(&json!("session_memory"))
    };
    let kept = async || {
        let proven = me.get("/api/sessions/t/replay").await.expect(200).body;
        assert_eq!(proven["matches"], json!(true), "the log proves the state");
        proven["state"]["session_memory"].clone()
    };
    chat(&me, "t", "My garden in Graz is full of snails").await.expect(200);
    assert!(!checkpoint().await, "one message is about nothing yet");
    for text in ["The snails in my garden eat everything", "I still have to buy a fence for the garden"] {
        chat(&me, "t", text).await.expect(200);
    }
    assert!(checkpoint().await);
    let about = kept().await;
    assert!(about["summary"].as_str().is_some_and(|text| text.contains("garden")), "{about}");
    assert!(about["active_concerns"].as_array().is_some_and(|all| !all.is_empty()), "{about}");
    assert!(about["open_loops"].is_array(), "{about}");
    me.post("/api/threads/t/end", json!({"discard": true})).await.expect(200);
    assert_eq!(kept().await, json!(null), "nothing of a discarded sitting is kept");

    for text in ["My boat needs paint", "The paint for my boat is blue", "Don't save this"] {
        chat(&me, "t", text).await.expect(200);
    }
    assert!(!checkpoint().await, "nothing is kept of what somebody wants kept nowhere");
    assert_eq!(kept().await, json!(null));
    me.post("/api/threads/t/end", json!({})).await.expect(200);

    for text in ["My boat needs paint", "The paint for my boat is blue"] {
        chat(&me, "t", text).await.expect(200);
    }
    assert!(checkpoint().await);
    chat(&me, "t", "Don't save this").await.expect(200);
    me.post("/api/threads/t/end", json!({})).await.expect(200);
    assert_eq!(kept().await, json!(null), "what was looked back at before goes with the sitting");
}

async fn what_is_only_kept_shows_a_hidden_session_again(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let id = me.session(json!({"session_type": "mixed"})).await;
    let path = format!("/api/sessions/{id}");
    let listed = async || me.get("/api/sessions").await.expect(200).body["items"].as_array().unwrap().len();
    me.patch(&path, json!({"inactive": true})).await.expect(200);
    assert_eq!(listed().await, 0);
    let note = json!({"text": "note this", "append_only": true});
    let kept = me.post(&format!("{path}/messages"), note).await.expect(200).body;
    assert_eq!(kept["triggered"], json!(false));
    let session = me.get(&path).await.expect(200).body;
    assert_eq!((&session["inactive"], &session["message_count"]), (&json!(false), &json!(1)));
    assert_eq!(listed().await, 1);
}

async fn strangers_find_nothing(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let (ada, bob) = (server.key(Role::Member, "ada").await, server.key(Role::Member, "bob").await);
    chat(&ada, "t", "Remember that my cat is called Tom").await.expect(200);
    chat(&bob, "t", "Hello").await.refused(404, "not_found");
    bob.get("/api/threads/t/state").await.refused(404, "not_found");
    assert_eq!(bob.get("/api/threads/t/history").await.expect(200).body, json!({"items": []}));
    assert_eq!(bob.post("/api/threads/t/end", json!({})).await.expect(200).body["finalized"], json!(false));
    bob.post("/api/threads/t/feedback", json!({"feedback": "positive"})).await.refused(404, "not_found");
    assert_eq!(bob.get("/api/memory/facts?thread_id=t").await.expect(200).body["items"], json!([]));
    bob.get("/api/memory/facts?user_id=ada").await.refused(403, "denied");
    assert_eq!(bob.get("/api/memory/facts").await.expect(200).body["items"], json!([]));
    let asked = json!({"thread_id": "b", "message": "hi", "user_id": "ada"});
    bob.post("/api/chat", asked).await.refused(403, "denied");
    let own = ada.get("/api/memory/facts").await.expect(200).body;
    assert_eq!(own["items"].as_array().unwrap().len(), 1);
    let found = ada.get("/api/search?q=cat").await.expect(200).body;
    assert_eq!(found["memories"][0]["kind"], "fact", "{found}");
    assert_eq!(bob.get("/api/search?q=cat").await.expect(200).body["memories"], json!([]));
    let worker = server.key(Role::Worker, "").await;
    chat(&worker, "w", "Hello").await.refused(403, "denied");
    worker.get("/api/memory/facts?thread_id=t").await.refused(403, "denied");
}

async fn what_cannot_be_said_is_refused(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    for bad in [
        json!({"message": "hi"}),
        json!({"thread_id": "t"}),
        json!({"thread_id": "", "message": "hi"}),
        json!({"thread_id": "a/b", "message": "hi"}),
        json!({"thread_id": "human", "message": "hi"}),
        json!({"thread_id": "t", "message": "   "}),
        json!({"thread_id": "t", "message": "hi", "response_model_tier": "best"}),
        json!({"thread_id": "t", "message": "hi", "memory_mode": "none"}),
        json!({"thread_id": "t", "message": "hi", "more": 1}),
        json!({"thread_id": "t", "message": "hi\u{0}"}),
    ] {
        me.post("/api/chat", bad.clone()).await.refused(422, "invalid");
    }
    let long = "x".repeat(300 * 1024);
    me.post("/api/chat", json!({"thread_id": "t", "message": long})).await.refused(413, "too_large");
    me.get("/api/sessions/t/events").await.expect(200);
    assert_eq!(me.get("/api/threads/t/history").await.expect(200).body, json!({"items": []}));
}

async fn an_incognito_conversation_is_found_by_its_id_alone(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let me = server.anyone();
    let wish = json!({"thread_id": "quiet", "message": "Remember that I collect zanzibars", "memory_mode": "incognito", "user_id": "ada"});
    me.post("/api/chat", wish).await.expect(200);
    let ended =
        me.post("/api/threads/quiet/end", json!({"feedback": "positive", "memory_mode": "incognito"})).await;
    assert_eq!(ended.expect(200).body["finalized"], json!(true));
    let status = me.get("/api/memory/status?thread_id=quiet").await.expect(200).body;
    assert_eq!((&status["facts"], &status["session_feedback_count"]), (&json!(1), &json!(1)));
    assert_eq!(me.get("/api/sessions/quiet").await.expect(200).body["memory_mode"], "incognito");
    assert_eq!(me.get("/api/threads").await.expect(200).body["items"], json!([]));
    assert_eq!(me.get("/api/search?q=zanzibars").await.expect(200).body["items"], json!([]));
    assert_eq!(me.get("/api/memory/facts?user_id=ada").await.expect(200).body["items"], json!([]));
    let other = json!({"thread_id": "quiet", "message": "hi", "memory_mode": "local"});
    me.post("/api/chat", other).await.refused(409, "type_mismatch");
}
