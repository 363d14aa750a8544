//! One turn after the other: what the log tells of them, the state they leave, and the ways in which one answers.

use std::time::Duration;

use sederunt_agents::talk::Progress;
use sederunt_agents::talk::end::Ending;
use sederunt_agents::talk::voice::Transcript;
use sederunt_core::SessionId;
use sederunt_core::feedback::Label;
use sederunt_core::session::Status;
use sederunt_core::talk::turn::OnBusy;

use super::world::World;

#[tokio::test]
async fn a_message_is_answered_and_the_log_tells_the_turn() {
    let world = World::new();
    let reply = world.say("cli:main", "Hello there").await;
    assert!(!reply.text.is_empty());
    assert_eq!((reply.kind.as_str(), reply.session_action.as_str(), reply.stopped), ("talk", "none", false));
    assert_eq!(
        world.story("cli:main").await,
        ["created", "sitting_started", "message", "to running", "message", "turn:answered", "to idle"]
    );
    let events = world.log("cli:main").await;
    assert_eq!(events[4].turn, Some(events[2].sequence));
    assert_eq!(reply.sequence, events[4].sequence);
    world.say("cli:main", "I am tired").await;
    let session = world.engine.session(&world.me, &SessionId::stored("cli:main")).await.unwrap();
    assert_eq!((session.head.status, session.head.turn_count), (Status::Idle, 2));
    assert!(session.head.claim.is_none());
}

#[tokio::test]
async fn the_stages_are_heard_in_their_order_and_the_answer_word_by_word() {
    let world = World::new();
    let id = world.open("t").await;
    let mut taken = world.post(&id, "Hello", OnBusy::Queue).await;
    let (mut stages, mut text) = (Vec::new(), String::new());
    while let Some(progress) = taken.progress.recv().await {
        match progress {
            Progress::Stage { stage, .. } => stages.push(stage),
            Progress::Chunk(chunk) => text.push_str(&chunk),
        }
    }
    assert_eq!(stages, ["safety", "control", "recall", "route", "respond", "extract", "finalize"]);
    assert_eq!(world.reply(taken).await.unwrap().text, text);
}

#[tokio::test]
async fn the_state_that_the_log_tells_is_the_one_that_is_kept_at_every_turn() {
    let world = World::new();
    let id = SessionId::stored("t");
    let said = [
        "Hello", "Can we do a grounding exercise?", "a lamp, a book, a cup, a door, a plant",
        "the chair and the floor", "stop", "Remember that my sister is called Mona",
        "What do you know about me?", "forget number 1", "yes", "I want to kill myself", "Bye!",
    ];
    let mut kept = Vec::new();
    for round in 0..7 {
        for text in said {
            world.say("t", text).await;
            let standing = world.engine.standing(&world.me, &id).await.unwrap();
            let last = standing.session.head.last_sequence;
            let told = world.engine.state_at(&world.me, &id, last).await.unwrap();
            assert_eq!(told, standing.talk.state, "round {round}, after {text:?}");
            kept.push((last, told));
        }
    }
    for (sequence, state) in kept {
        assert_eq!(world.engine.state_at(&world.me, &id, sequence).await.unwrap(), state, "at {sequence}");
    }
}

#[tokio::test]
async fn a_crisis_is_answered_with_help_and_its_record_holds_no_word_of_it() {
    let world = World::new();
    let words = "I want to kill myself with the zanzibar pills";
    let reply = world.say("t", words).await;
    assert_eq!(reply.kind, "crisis");
    assert!(reply.crisis["level"].as_u64().unwrap() >= 2);
    let now = world.engine.now().await.unwrap();
    let day = Duration::from_secs(86_400);
    let kept = world.store.crises(&world.me.tenant, now.minus(day), now.plus(day), 10).await.unwrap();
    assert_eq!(kept.len(), 1);
    let text = serde_json::to_string(&kept[0]).unwrap();
    assert!(!text.contains("zanzibar") && !text.contains("\"t\""), "{text}");
    let state = world.engine.standing(&world.me, &SessionId::stored("t")).await.unwrap().talk;
    assert_eq!(state.sitting.unwrap().crisis_max, 3);
    assert!(!serde_json::to_string(&state.state).unwrap().contains("zanzibar"));
}

#[tokio::test]
async fn an_exercise_goes_on_from_turn_to_turn_and_not_into_a_new_sitting() {
    let world = World::new();
    let first = world.say("t", "Can we do a grounding exercise?").await;
    assert_eq!((first.kind.as_str(), first.approach.as_deref()), ("exercise", Some("grounding")));
    let second = world.say("t", "a lamp, a book, a cup, a door, a plant").await;
    assert_eq!(second.kind, "exercise");
    assert_ne!(first.text, second.text);
    world.end("t", None).await;
    assert_eq!(world.say("t", "the chair, the floor").await.kind, "talk");
}

#[tokio::test]
async fn a_spoken_turn_is_written_down_once_and_ends_like_any_other() {
    let world = World::new();
    let id = world.open("web-1").await;
    let said = || Transcript {
        user_text: "I live in Graz".to_owned(),
        assistant_text: "That is a fine town.".to_owned(),
        external_id: "turn-1".to_owned(),
        user: None,
    };
    let first = world.conversations.voice_turn(&world.me, &id, said()).await.unwrap();
    let again = world.conversations.voice_turn(&world.me, &id, said()).await.unwrap();
    assert_eq!((first.repeated, again.repeated, first.sequence), (false, true, again.sequence));
    let standing = world.engine.standing(&world.me, &id).await.unwrap();
    assert_eq!(standing.talk.sitting.unwrap().turns, 1);
    assert_eq!(standing.session.head.turn_count, 1);
    let state = world.engine.state_at(&world.me, &id, standing.session.head.last_sequence).await.unwrap();
    assert_eq!(state, standing.talk.state);
    assert!(matches!(world.end("web-1", Some(Label::Skip)).await, Ending::Ended(_)));
}
