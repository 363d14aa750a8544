//! What every platform promises: a message is answered once, where it was said, and nobody is answered who must not be.

use sederunt_core::limits;

use crate::desk::{ANN, Desk, GROUP, STRANGER};

on_each_platform!(
    a_direct_message_is_answered_once,
    a_mention_in_a_group_is_answered_once,
    talk_among_others_in_a_group_is_kept_and_not_answered,
    a_stranger_is_kept_and_told_once_that_nobody_answers,
    a_person_who_asks_is_told_a_code_to_link_the_account_with,
    a_stranger_who_sends_too_much_holds_nobody_up,
    an_update_that_comes_again_is_answered_once_also_after_new,
    new_begins_a_conversation_and_says_so,
);

async fn a_direct_message_is_answered_once(desk: Desk) {
    desk.platform.say(ANN, "Hello.");
    assert_eq!(desk.hears(1).await, [(ANN, "Here you are.".to_owned())]);
    let sessions = desk.sessions().await;
    assert_eq!(sessions.len(), 1);
    assert_eq!(desk.messages(&sessions[0]).await, ["Hello.", "Here you are."]);
}

async fn a_mention_in_a_group_is_answered_once(desk: Desk) {
    desk.platform.say_in(GROUP, ANN, "@desk_bot what is it?");
    assert_eq!(desk.hears(1).await, [(GROUP, "Here you are.".to_owned())]);
}

async fn talk_among_others_in_a_group_is_kept_and_not_answered(desk: Desk) {
    desk.platform.say_in(GROUP, ANN, "Lunch?");
    desk.platform.say_in(GROUP, ANN, "@somebody_else Lunch?");
    desk.platform.say(ANN, "Hello.");
    assert_eq!(desk.hears(1).await[0].0, ANN);
    let sessions = desk.sessions().await;
    let group = sessions.iter().find(|session| session.head.is_group).unwrap();
    assert_eq!(desk.messages(group).await, ["Lunch?", "@somebody_else Lunch?"]);
}

async fn a_stranger_is_kept_and_told_once_that_nobody_answers(desk: Desk) {
    desk.platform.say(STRANGER, "Buy this.");
    desk.platform.say(STRANGER, "Buy it now.");
    desk.platform.say_in(GROUP, STRANGER, "@desk_bot buy this.");
    desk.platform.say(ANN, "Hello.");
    let mut sent = desk.hears(2).await;
    sent.sort();
    assert_eq!((sent[0].0, sent[1].0), (ANN, STRANGER));
    assert!(sent[1].1.contains("/link"), "{sent:?}");
    assert_eq!(desk.sessions().await.len(), 3);
}

async fn a_person_who_asks_is_told_a_code_to_link_the_account_with(desk: Desk) {
    desk.platform.say(STRANGER, "/link");
    let sent = desk.hears(1).await;
    assert_eq!(sent[0].0, STRANGER);
    assert!(sent[0].1.contains("Your code is "), "{sent:?}");
}

async fn a_stranger_who_sends_too_much_holds_nobody_up(desk: Desk) {
    for n in 0..limits::STRANGER_MESSAGES_MAX + 5 {
        desk.platform.say(STRANGER, &format!("Buy this, {n}."));
    }
    desk.platform.say(ANN, "Hello.");
    let sent = desk.hears(2).await;
    assert_eq!(sent.iter().filter(|(chat, _)| *chat == ANN).count(), 1, "{sent:?}");
    let sessions = desk.sessions().await;
    let chat = STRANGER.to_string();
    let strangers =
        sessions.iter().find(|session| session.details.metadata.value()["telegram_chat_id"] == chat.as_str());
    let kept = desk.messages(strangers.unwrap()).await.len();
    assert_eq!(kept, limits::STRANGER_MESSAGES_MAX as usize);
}

async fn an_update_that_comes_again_is_answered_once_also_after_new(desk: Desk) {
    let hello = sederunt_stand_ins::telegram::message(ANN, ANN, "private", "Hello.");
    let first = desk.platform.push("message", hello.clone());
    desk.platform.push_again(first, "message", hello.clone());
    desk.hears(1).await;
    desk.platform.say(ANN, "/new");
    desk.hears(2).await;
    desk.platform.push_again(first, "message", hello);
    desk.platform.say(ANN, "And now?");
    desk.hears(3).await;
    let sessions = desk.sessions().await;
    let fresh = sessions.iter().find(|session| !session.head.inactive).unwrap();
    assert_eq!(desk.messages(fresh).await, ["And now?", "Here you are."]);
}

async fn new_begins_a_conversation_and_says_so(desk: Desk) {
    desk.platform.say(ANN, "Hello.");
    desk.hears(1).await;
    desk.platform.say(ANN, "/new");
    let sent = desk.hears(2).await;
    assert_eq!(sent[1], (ANN, "A new conversation has begun.".to_owned()));
    let sessions = desk.sessions().await;
    let old = sessions.iter().find(|session| session.head.inactive).unwrap();
    let fresh = sessions.iter().find(|session| !session.head.inactive).unwrap();
    assert_eq!(old.details.metadata.value()["replaced_by"], fresh.id.as_str());
    let checkpoints = desk.events(old, "session.introspection").await;
    assert_eq!(checkpoints.len(), 1);
    assert_eq!(checkpoints[0]["reason"], "new_session");
    desk.platform.say(STRANGER, "/new");
    desk.hears(2).await;
    assert_eq!(desk.sessions().await.len(), 2, "a stranger begins nothing");
}
