//! What is Telegram's own: its refusals, its patience, and one poll at a time.

use std::time::{Duration, Instant};

use sederunt_core::limits;
use sederunt_stand_ins::telegram::ScriptedAnswer;
use serde_json::json;

use crate::desk::{ANN, Desk};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_reply_comes_in_parts_one_after_the_other() {
    let lines: Vec<String> = (0..700).map(|n| format!("- line {n} 👍")).collect();
    let desk = Desk::answering(&lines.join("\n")).await;
    desk.platform.say(ANN, "Tell me everything.");
    let sent = desk.hears(3).await;
    assert!(sent.iter().all(|(_, text)| text.encode_utf16().count() <= 4096));
    let joined: Vec<&str> = sent.iter().flat_map(|(_, text)| text.lines()).collect();
    assert_eq!(joined.len(), 700);
    assert_eq!((joined[0], joined[699]), ("• line 0 👍", "• line 699 👍"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_waits_for_as_long_as_telegram_asks() {
    let desk = Desk::unheld("Here you are.").await;
    let flood = json!({"ok": false, "error_code": 429, "parameters": {"retry_after": 2}});
    desk.platform.script("sendMessage", ScriptedAnswer::Refuse(429, flood));
    desk.node("first");
    desk.platform.say(ANN, "Hello.");
    desk.until("the first try", || desk.sent().len() == 1).await;
    let refused = Instant::now();
    desk.until("the second try", || desk.sent().len() == 2).await;
    assert!(refused.elapsed() >= Duration::from_millis(1_900), "{:?}", refused.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_formatting_is_sent_plain_once() {
    let desk = Desk::answering("**bold** words").await;
    let refused = json!({"ok": false, "error_code": 400, "description": "Bad Request: can't parse entities"});
    desk.platform.script("sendMessage", ScriptedAnswer::Refuse(400, refused));
    desk.platform.say(ANN, "Hello.");
    desk.hears(2).await;
    let calls = desk.platform.calls("sendMessage");
    assert_eq!(calls[0]["entities"][0]["type"], "bold");
    assert_eq!((&calls[1]["entities"], &calls[1]["text"]), (&json!([]), &json!("bold words")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_to_somebody_who_has_blocked_the_bot_is_given_up_and_told_in_the_log() {
    let desk = Desk::answering("Here you are.").await;
    let blocked =
        json!({"ok": false, "error_code": 403, "description": "Forbidden: bot was blocked by the user"});
    desk.platform.script("sendMessage", ScriptedAnswer::Refuse(403, blocked));
    desk.platform.say(ANN, "Hello.");
    desk.hears(1).await;
    let session = &desk.sessions().await[0];
    let told = desk.events(session, "external.event").await;
    assert_eq!((&told[0]["kind"], &told[0]["reason"]), (&json!("delivery_failed"), &json!("blocked")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_nodes_polls_and_sends() {
    let desk = Desk::unheld("Here you are.").await;
    desk.node("first");
    desk.node("second");
    for n in 0..3 {
        desk.platform.say(ANN, &format!("Hello {n}."));
    }
    desk.hears(3).await;
    assert_eq!(desk.platform.calls("getMe").len(), 1, "the other node waits for the lease");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_sends_what_a_dead_one_left() {
    let desk = Desk::unheld("Here you are.").await;
    let away = json!({"ok": false, "error_code": 502, "description": "Bad Gateway"});
    desk.platform.script("sendMessage", ScriptedAnswer::Refuse(502, away));
    desk.node("first");
    desk.platform.say(ANN, "Hello.");
    desk.until("the first try", || desk.sent().len() == 1).await;
    desk.crash();
    desk.platform.say(ANN, "Are you there?");
    tokio::time::sleep(Duration::from_millis(300)).await;
    desk.clock.advance(limits::CHANNEL_LEASE + Duration::from_secs(1));
    desk.node("second");
    desk.until("both replies", || desk.sent().len() == 3).await;
    assert_eq!(desk.sessions().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_lets_go_of_the_channel() {
    let desk = Desk::answering("Here you are.").await;
    desk.platform.say(ANN, "Hello.");
    desk.hears(1).await;
    desk.stop().await;
    desk.platform.say(ANN, "Are you there?");
    desk.node("second");
    desk.hears(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_in_other_chats_is_not_kept() {
    let desk = Desk::answering("Here you are.").await;
    desk.platform.say_in(-9_999, ANN, "@desk_bot hello.");
    desk.platform.say(ANN, "Hello.");
    desk.hears(1).await;
    assert_eq!(desk.sessions().await.len(), 1);
}
