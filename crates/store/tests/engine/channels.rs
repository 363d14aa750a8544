//! Channels: what a platform tells lands once, `/new` replaces a session for good, and an end of a turn is filed to be
//! sent by whoever holds the channel.

use std::time::Duration;

use sederunt_core::channel::inbound::{ChannelProfile, InboundMessage, InboundSender};
use sederunt_core::channel::{ConversationKey, DeliveryNote, DeliveryState, GiveUpReason};
use sederunt_core::engine::{ChannelHold, Engine, NewUser, ReceivedMessage, RunningTurn};
use sederunt_core::event::{EventQuery, EventType, NewEvent};
use sederunt_core::json::Json;
use sederunt_core::memory::candidate::Buffer;
use sederunt_core::people::Identity;
use sederunt_core::session::source::Company;
use sederunt_core::session::{Session, Status};
use sederunt_core::talk::route::ChannelRules;
use sederunt_core::talk::turn::{TurnOutcome, TurnOutcomeKind};
use sederunt_core::talk::{StateFields, TurnRecords};
use sederunt_core::{Role, limits};
use serde_json::json;

use crate::harness::{World, hold};
use crate::on_both_stores;

on_both_stores!(
    the_first_message_opens_a_session_and_the_next_ones_find_it,
    a_repeat_lands_nowhere_also_after_new_and_on_another_node,
    a_message_that_comes_twice_at_once_is_in_the_log_once,
    new_hides_the_session_and_the_conversation_goes_on_in_another,
    a_stranger_is_kept_and_wakes_nobody,
    a_stranger_in_a_direct_chat_is_told_once_that_nobody_answers,
    a_link_code_is_handed_out_and_neither_filed_nor_logged,
    in_a_group_an_owner_is_answered_always_and_a_member_when_spoken_to_the_agent,
    a_marker_of_silence_is_sent_to_nobody,
    a_session_that_fell_silent_goes_on,
    threads_and_channels_are_conversations_of_their_own,
    an_end_of_a_turn_is_filed_once_and_its_words_are_read_from_the_log,
    a_failed_turn_is_told_in_one_sentence_and_silence_in_none,
    what_is_given_up_is_told_in_the_log,
    a_node_that_lost_the_channel_notes_nothing,
    a_paused_channel_is_held_by_nobody,
    what_no_platform_repeats_any_more_is_forgotten,
);

fn profile(world: &World) -> ChannelProfile {
    ChannelProfile {
        tenant: world.tenant.clone(),
        name: "desk".into(),
        platform: "telegram",
        agent_slug: None,
        rules: ChannelRules::default(),
    }
}

fn said(update_key: &str, text: &str) -> InboundMessage {
    InboundMessage {
        update_key: update_key.into(),
        conversation: ConversationKey { channel: "desk".into(), chat: "7".into(), thread: "".into() },
        company: Company::Direct,
        chat_title: None,
        message_id: format!("m{update_key}").into(),
        text: text.into(),
        sender: InboundSender { external_id: Some("1001".into()), name: Some("Ann".into()) },
        is_directed: false,
        answered: None,
    }
}

/// A world that knows the person who speaks in [`said`].
async fn acquainted(world: &World) {
    let owner = world.owner();
    let ann = NewUser { id: Some("ann".into()), name: None, role: Some(Role::Member) };
    let ann = world.engine.create_user(&owner, ann, None).await.unwrap().id;
    let account = Identity { platform: "telegram".into(), external_id: "1001".into() };
    world.engine.link_identity(&owner, &ann, account, None).await.unwrap();
}

async fn receive(engine: &Engine, world: &World, inbound: &InboundMessage) -> ReceivedMessage {
    engine.receive(&profile(world), inbound, &hold("a")).await.unwrap()
}

async fn started(world: &World, inbound: &InboundMessage) -> Box<RunningTurn> {
    match receive(&world.engine, world, inbound).await {
        ReceivedMessage::Started(begun, _) => begun,
        other => panic!("{other:?}"),
    }
}

async fn held_in(world: &World, inbound: &InboundMessage) -> Session {
    let found = world.engine.conversation_of_key(&world.tenant, &inbound.conversation).await.unwrap();
    found.unwrap().0
}

async fn messages(world: &World, session: &Session) -> Vec<String> {
    let query = EventQuery { limit: 100, ..EventQuery::default() }.of_messages();
    let page = world.store.events(&world.tenant, &session.id, query).await.unwrap();
    page.events.iter().filter_map(sederunt_core::Event::text).collect()
}

fn outcome(kind: TurnOutcomeKind, texts: &[&str]) -> TurnOutcome {
    let event = |text: &&str| NewEvent {
        content: Some(Json::of(&json!([{"type": "text", "text": text}])).unwrap()),
        ..NewEvent::engine(EventType::known("agent.message"), None)
    };
    TurnOutcome {
        kind,
        events: texts.iter().map(event).collect(),
        change: StateFields::default(),
        buffer: Buffer::default(),
        crisis: 0,
        records: TurnRecords::default(),
        usage: None,
    }
}

async fn answer(world: &World, begun: &RunningTurn, text: &str) {
    world.engine.finish_turn(begun, outcome(TurnOutcomeKind::Answered, &[text])).await.unwrap();
}

async fn held(world: &World, node: &str) -> Option<ChannelHold> {
    world.engine.hold_channel(&profile(world), node).await.unwrap()
}

async fn the_first_message_opens_a_session_and_the_next_ones_find_it(world: &World) {
    acquainted(world).await;
    let begun = started(world, &said("1", "Hello.")).await;
    let session = held_in(world, &said("1", "")).await;
    assert_eq!(session.id, begun.session.id);
    assert!(session.id.as_str().starts_with("telegram:"), "{}", session.id);
    assert_eq!(session.head.holder.as_ref().map(sederunt_core::UserId::as_str), Some("ann"));
    assert_eq!(session.head.status, Status::Running);
    assert_eq!(session.details.metadata.value()["telegram_chat_id"], "7");
    let waits = receive(&world.engine, world, &said("2", "Are you there?")).await;
    assert!(matches!(&waits, ReceivedMessage::Waits(id) if *id == session.id), "{waits:?}");
    answer(world, &begun, "Yes.").await;
    assert_eq!(messages(world, &session).await, ["Hello.", "Are you there?", "Yes."]);
}

async fn a_repeat_lands_nowhere_also_after_new_and_on_another_node(world: &World) {
    acquainted(world).await;
    let first = said("1", "Hello.");
    let begun = started(world, &first).await;
    answer(world, &begun, "Hello, Ann.").await;
    assert!(matches!(receive(&world.engine, world, &first).await, ReceivedMessage::Repeated));
    let fresh = world.engine.start_over(&profile(world), &said("2", "/new"), None).await.unwrap().unwrap();
    let node = world.other_node().await;
    assert!(matches!(receive(&node, world, &first).await, ReceivedMessage::Repeated));
    assert_eq!(world.engine.start_over(&profile(world), &said("2", "/new"), None).await.unwrap(), None);
    let session = held_in(world, &first).await;
    assert_eq!(session.id, fresh);
    assert_eq!(messages(world, &session).await, Vec::<String>::new());
}

async fn a_message_that_comes_twice_at_once_is_in_the_log_once(world: &World) {
    acquainted(world).await;
    let node = world.other_node().await;
    for n in 0..5 {
        let inbound = said(&n.to_string(), "Hello.");
        let (here, there) =
            tokio::join!(receive(&world.engine, world, &inbound), receive(&node, world, &inbound));
        let repeats = [&here, &there].iter().filter(|one| matches!(one, ReceivedMessage::Repeated)).count();
        assert_eq!(repeats, 1, "{here:?} {there:?}");
    }
    let session = held_in(world, &said("1", "")).await;
    assert_eq!(messages(world, &session).await.len(), 5);
}

async fn new_hides_the_session_and_the_conversation_goes_on_in_another(world: &World) {
    acquainted(world).await;
    let begun = started(world, &said("1", "Hello.")).await;
    answer(world, &begun, "Hello, Ann.").await;
    let fresh = world.engine.start_over(&profile(world), &said("2", "/new"), None).await.unwrap().unwrap();
    let old = world.session(begun.session.id.as_str()).await;
    assert!(old.head.inactive);
    assert_eq!(old.details.metadata.value()["replaced_by"], fresh.as_str());
    let next = started(world, &said("3", "Another matter.")).await;
    assert_eq!(next.session.id, fresh);
    assert_eq!(world.session(old.id.as_str()).await.head.last_sequence, old.head.last_sequence);
    let stranger = InboundMessage {
        sender: InboundSender { external_id: Some("9".into()), name: None },
        ..said("4", "/new")
    };
    assert_eq!(world.engine.start_over(&profile(world), &stranger, None).await.unwrap(), None);
    assert_eq!(held_in(world, &said("1", "")).await.id, fresh);
}

async fn a_stranger_is_kept_and_wakes_nobody(world: &World) {
    let received = receive(&world.engine, world, &said("1", "Buy this.")).await;
    assert!(matches!(received, ReceivedMessage::Kept { .. }), "{received:?}");
    let session = held_in(world, &said("1", "")).await;
    assert_eq!(session.head.status, Status::Idle);
    assert_eq!(messages(world, &session).await, ["Buy this."]);
    let account = Identity { platform: "telegram".into(), external_id: "1001".into() };
    let guest = world.store.user_by_identity(&world.tenant, &account).await.unwrap().unwrap();
    assert_eq!((guest.role, guest.known_by, guest.name.as_deref()), (Role::Guest, None, Some("Ann")));
    assert_eq!(session.head.holder.as_ref(), Some(&guest.id), "the chat is this guest's");
    let bot = InboundMessage {
        sender: InboundSender { external_id: None, name: Some("Bot".into()) },
        is_directed: true,
        company: Company::Group,
        ..said("2", "I am a bot.")
    };
    assert!(matches!(receive(&world.engine, world, &bot).await, ReceivedMessage::Kept { .. }));
}

async fn a_stranger_in_a_direct_chat_is_told_once_that_nobody_answers(world: &World) {
    let channel = held(world, "n").await.unwrap();
    receive(&world.engine, world, &said("1", "Buy this.")).await;
    receive(&world.engine, world, &said("2", "Now!")).await;
    let due = world.engine.due_deliveries(&channel).await.unwrap();
    let [line] = &due[..] else { panic!("{due:?}") };
    let words = world.engine.delivery_words(&channel, line).await.unwrap().unwrap();
    assert!(words.contains("/link"), "{words}");
    world.engine.note_delivery(&channel, line, DeliveryNote::Sent).await.unwrap();
    assert!(world.engine.due_deliveries(&channel).await.unwrap().is_empty());
}

async fn a_link_code_is_handed_out_and_neither_filed_nor_logged(world: &World) {
    let channel = held(world, "n").await.unwrap();
    let received = receive(&world.engine, world, &said("1", "/link")).await;
    let ReceivedMessage::Kept { session, code: Some(told) } = received else { panic!("{received:?}") };
    assert!(world.engine.due_deliveries(&channel).await.unwrap().is_empty());
    let code = told.split_whitespace().find_map(|word| {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        (word.len() == 8 && word.chars().all(|c| !c.is_ascii_lowercase())).then_some(word)
    });
    let code = code.unwrap_or_else(|| panic!("no code in {told:?}"));
    let page =
        world.store.events(&world.tenant, &session, EventQuery { limit: 100, ..EventQuery::default() });
    assert!(!format!("{:?}", page.await.unwrap().events).contains(code));
    world.engine.link_by_code(&world.owner(), code, None, None).await.unwrap();
    started(world, &said("2", "Hello.")).await;
}

async fn in_a_group_an_owner_is_answered_always_and_a_member_when_spoken_to_the_agent(world: &World) {
    acquainted(world).await;
    let owner = world.owner();
    let bea = NewUser { id: Some("bea".into()), name: None, role: Some(Role::Owner) };
    let bea = world.engine.create_user(&owner, bea, None).await.unwrap().id;
    let account = Identity { platform: "telegram".into(), external_id: "2002".into() };
    world.engine.link_identity(&owner, &bea, account, None).await.unwrap();
    let among = |update_key: &str, account: &str, is_directed: bool| InboundMessage {
        company: Company::Group,
        sender: InboundSender { external_id: Some(account.into()), name: None },
        is_directed,
        ..said(update_key, "Lunch?")
    };
    let kept = receive(&world.engine, world, &among("1", "1001", false)).await;
    assert!(matches!(kept, ReceivedMessage::Kept { .. }), "{kept:?}");
    let begun = started(world, &among("2", "1001", true)).await;
    assert!(!begun.speaker.is_aside);
    answer(world, &begun, "At noon.").await;
    let begun = started(world, &among("3", "2002", false)).await;
    assert!(begun.speaker.is_aside && begun.speaker.is_owner);
}

async fn a_marker_of_silence_is_sent_to_nobody(world: &World) {
    acquainted(world).await;
    let channel = held(world, "n").await.unwrap();
    let begun = started(world, &said("1", "Hello.")).await;
    answer(world, &begun, "<NO_REPLY>").await;
    let due = world.engine.due_deliveries(&channel).await.unwrap();
    assert_eq!(world.engine.delivery_words(&channel, &due[0]).await.unwrap(), None);
}

async fn a_session_that_fell_silent_goes_on(world: &World) {
    acquainted(world).await;
    let begun = started(world, &said("1", "Hello.")).await;
    answer(world, &begun, "Hello.").await;
    let hide = sederunt_core::session::decide::PatchSession {
        inactive: Some(true),
        ..sederunt_core::session::decide::PatchSession::default()
    };
    world.engine.patch(&world.owner(), &begun.session.id, hide, None).await.unwrap();
    let group_talk = InboundMessage {
        sender: InboundSender { external_id: None, name: None },
        ..said("2", "Somebody says something.")
    };
    receive(&world.engine, world, &group_talk).await;
    let session = held_in(world, &said("1", "")).await;
    assert_eq!((session.id, session.head.inactive), (begun.session.id.clone(), false));
}

async fn threads_and_channels_are_conversations_of_their_own(world: &World) {
    acquainted(world).await;
    let begun = started(world, &said("1", "Hello.")).await;
    let topic = InboundMessage {
        conversation: ConversationKey { thread: "5".into(), ..said("2", "").conversation },
        ..said("2", "In a topic.")
    };
    assert_ne!(started(world, &topic).await.session.id, begun.session.id);
    let other = ChannelProfile { name: "other".into(), ..profile(world) };
    let there = InboundMessage {
        conversation: ConversationKey { channel: "other".into(), ..said("1", "").conversation },
        ..said("1", "To another bot.")
    };
    let received = world.engine.receive(&other, &there, &hold("a")).await.unwrap();
    let ReceivedMessage::Started(elsewhere, _) = received else { panic!("{received:?}") };
    assert_ne!(elsewhere.session.id, begun.session.id);
}

async fn an_end_of_a_turn_is_filed_once_and_its_words_are_read_from_the_log(world: &World) {
    acquainted(world).await;
    let begun = started(world, &said("1", "Hello.")).await;
    let channel = held(world, "n").await.unwrap();
    assert!(world.engine.due_deliveries(&channel).await.unwrap().is_empty());
    let spoken = outcome(TurnOutcomeKind::Answered, &["Let me see.", "It is four."]);
    world.engine.finish_turn(&begun, spoken).await.unwrap();
    let due = world.engine.due_deliveries(&channel).await.unwrap();
    let [delivery] = &due[..] else { panic!("{due:?}") };
    assert_eq!((delivery.turn, &delivery.session), (begun.turn, &begun.session.id));
    let words = world.engine.delivery_words(&channel, delivery).await.unwrap();
    assert_eq!(words.as_deref(), Some("Let me see.\n\nIt is four."));
    world.engine.note_delivery(&channel, delivery, DeliveryNote::Sent).await.unwrap();
    assert!(world.engine.due_deliveries(&channel).await.unwrap().is_empty());
}

async fn a_failed_turn_is_told_in_one_sentence_and_silence_in_none(world: &World) {
    acquainted(world).await;
    let channel = held(world, "n").await.unwrap();
    let words = async |key: &str, ended: TurnOutcome| {
        let begun = started(world, &said(key, "Hello.")).await;
        world.engine.finish_turn(&begun, ended).await.unwrap();
        let due = world.engine.due_deliveries(&channel).await.unwrap();
        let words = world.engine.delivery_words(&channel, &due[0]).await.unwrap();
        world.engine.note_delivery(&channel, &due[0], DeliveryNote::Sent).await.unwrap();
        words
    };
    let failed = words("1", outcome(TurnOutcomeKind::Failed, &[])).await.unwrap();
    assert!(failed.starts_with("Something went wrong"), "{failed}");
    assert_eq!(words("2", outcome(TurnOutcomeKind::Answered, &[])).await, None);
}

async fn what_is_given_up_is_told_in_the_log(world: &World) {
    acquainted(world).await;
    let begun = started(world, &said("1", "Hello.")).await;
    answer(world, &begun, "Hello.").await;
    let channel = held(world, "n").await.unwrap();
    let due = world.engine.due_deliveries(&channel).await.unwrap();
    let given_up = DeliveryNote::GivenUp { reason: GiveUpReason::Blocked };
    world.engine.note_delivery(&channel, &due[0], given_up).await.unwrap();
    let types = vec!["external.event".to_owned()];
    let query = EventQuery { types, limit: 10, ..EventQuery::default() };
    let told = world.store.events(&world.tenant, &begun.session.id, query).await.unwrap().events;
    let said = told[0].metadata.as_ref().unwrap().value();
    assert_eq!((&said["kind"], &said["reason"]), (&json!("delivery_failed"), &json!("blocked")));
    let kept = world.store.deliveries(&world.tenant, "desk", DeliveryState::GivenUp, 10).await.unwrap();
    assert_eq!(kept.len(), 1);
}

async fn a_node_that_lost_the_channel_notes_nothing(world: &World) {
    acquainted(world).await;
    let begun = started(world, &said("1", "Hello.")).await;
    answer(world, &begun, "Hello.").await;
    let old = held(world, "old").await.unwrap();
    assert_eq!(held(world, "new").await, None, "somebody holds it");
    assert!(world.engine.renew_channel(&old).await.unwrap());
    world.clock.advance(limits::CHANNEL_LEASE + Duration::from_secs(1));
    let new = held(world, "new").await.unwrap();
    let due = world.engine.due_deliveries(&new).await.unwrap();
    let late = world.engine.note_delivery(&old, &due[0], DeliveryNote::Sent).await.unwrap_err();
    assert_eq!(late.code(), "fenced");
    assert!(!world.engine.renew_channel(&old).await.unwrap());
    world.engine.note_delivery(&new, &due[0], DeliveryNote::Sent).await.unwrap();
    world.engine.release_channel(&new).await.unwrap();
    assert!(held(world, "old").await.is_some(), "it was let go");
}

async fn what_no_platform_repeats_any_more_is_forgotten(world: &World) {
    acquainted(world).await;
    let first = said("1", "Hello.");
    answer(world, &*started(world, &first).await, "Hello.").await;
    world.clock.advance(limits::CHANNEL_UPDATE_KEPT - Duration::from_secs(60));
    let channel = held(world, "n").await.unwrap();
    assert_eq!(world.engine.forget_channel_updates(&channel, 10).await.unwrap(), 0);
    assert!(matches!(receive(&world.engine, world, &first).await, ReceivedMessage::Repeated));
    world.clock.advance(Duration::from_secs(61));
    assert_eq!(world.engine.forget_channel_updates(&channel, 10).await.unwrap(), 1);
}

async fn a_paused_channel_is_held_by_nobody(world: &World) {
    let channel = held(world, "n").await.unwrap();
    let (owner, member) = (world.owner(), world.actor(Role::Member, "ann"));
    assert_eq!(world.engine.pause_channel(&member, "desk", true).await.unwrap_err().code(), "denied");
    world.engine.pause_channel(&owner, "desk", true).await.unwrap();
    assert!(!world.engine.renew_channel(&channel).await.unwrap());
    assert_eq!(held(world, "n").await, None);
    let (state, _) = world.engine.channel_standing(&owner, "desk").await.unwrap();
    assert!(state.paused && state.lease.is_none());
    world.engine.pause_channel(&owner, "desk", false).await.unwrap();
    assert!(held(world, "n").await.is_some());
}
