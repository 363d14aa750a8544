//! The end of a sitting: by a word, by silence, by the next turn; with its summary, its rating, or nothing at all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sederunt_agents::executor::Kit;
use sederunt_agents::model::Model;
use sederunt_agents::model::scripted::Scripted;
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::talk::end::Ending;
use sederunt_agents::talk::{Conversations, Settings};
use sederunt_core::SessionId;
use sederunt_core::feedback::{Label, Modality, RatingRequest, RatingSource};
use sederunt_core::memory::MemoryKind;
use sederunt_core::talk::Liveness;

use super::world::{IDLE, World, wish};

#[tokio::test]
async fn a_sitting_ends_with_a_summary_and_the_conversation_goes_on_in_a_fresh_one() {
    let world = World::new();
    assert!(matches!(
        world.conversations.end(&world.me, &world.open("t").await, wish(false)).await.unwrap(),
        Ending::Nothing
    ));
    world.say("t", "I had a terrible day at work and I am anxious about my boss").await;
    world.say("t", "My job makes me anxious, I will talk to my boss tomorrow").await;
    let Ending::Ended(farewell) = world.end("t", Some(Label::Positive)).await else {
        panic!("it did not end")
    };
    let summary = farewell.summary.unwrap();
    assert!(!summary.themes.is_empty() && !summary.summary.is_empty());
    assert_eq!(farewell.turn_count, 2);
    assert!(matches!(world.end("t", None).await, Ending::Nothing));
    assert_eq!(world.liveness("t").await, Liveness::Absent);
    assert_eq!(world.remembered("t", None, MemoryKind::Arc).await.len(), 1);
    let reply = world.say("t", "Hello again").await;
    assert!(reply.text.starts_with("Last time we talked about work and anxiety. "), "{}", reply.text);
    let standing = world.engine.standing(&world.me, &SessionId::stored("t")).await.unwrap();
    let open = standing.talk.sitting.unwrap();
    assert_eq!((open.number, open.turns, open.buffer.candidates.len()), (2, 1, 0));
}

#[tokio::test]
async fn a_person_who_says_so_before_anything_is_known_of_them_is_not_reminded_of_the_last_sitting() {
    let world = World::new();
    world.say("t", "I had a terrible day at work and I am anxious about my boss").await;
    world.say("t", "My job makes me anxious, I will talk to my boss tomorrow").await;
    world.say("t", "Please don't bring up the past").await;
    assert!(matches!(world.end("t", None).await, Ending::Ended(_)));
    assert_eq!(world.remembered("t", None, MemoryKind::Arc).await.len(), 1);
    let reply = world.say("t", "Hello again").await;
    assert!(!reply.text.contains("Last time"), "{}", reply.text);
}

fn rate(label: Label) -> RatingRequest {
    RatingRequest { label, source: RatingSource::WebEnd, modality: Modality::Text }
}

#[tokio::test]
async fn a_discarded_sitting_leaves_nothing_and_stays_discarded() {
    let world = World::new();
    let id = world.open("t").await;
    world.say("t", "My name is Ada and I live in Graz").await;
    world.say("t", "My name is Ada and I live in Graz").await;
    let ended = world.conversations.end(&world.me, &id, wish(true)).await.unwrap();
    assert!(matches!(ended, Ending::Ended(farewell) if farewell.summary.is_none()));
    world.clock.advance(2 * IDLE);
    assert_eq!(world.conversations.sweep().await.unwrap().ended, 0);
    for kind in MemoryKind::ALL {
        assert!(world.remembered("t", None, kind).await.is_empty(), "{kind:?}");
    }
    let rated = world.engine.rate_ended(&world.me, &id, rate(Label::Positive)).await;
    assert_eq!(rated.unwrap_err().code(), "nothing_ended");
}

#[tokio::test]
async fn silence_ends_a_sitting_and_another_word_does_not_let_it() {
    let world = World::new();
    world.say("t", "I feel lonely since my dog died").await;
    world.clock.advance(IDLE - Duration::from_secs(1));
    assert_eq!(world.conversations.sweep().await.unwrap().checked, 0);
    world.say("t", "I miss my dog").await;
    world.clock.advance(IDLE - Duration::from_secs(1));
    assert_eq!(world.conversations.sweep().await.unwrap().checked, 0);
    world.clock.advance(Duration::from_secs(2));
    assert_eq!(world.liveness("t").await, Liveness::Expired);
    assert_eq!(world.conversations.sweep().await.unwrap().ended, 1);
    assert_eq!(world.liveness("t").await, Liveness::Absent);
    assert_eq!(world.remembered("t", None, MemoryKind::Arc).await.len(), 1);
}

#[tokio::test]
async fn several_keepers_of_one_store_end_a_sitting_once() {
    let world = World::new();
    for n in 0..20 {
        world.say(&format!("t{n}"), "I feel lonely since my dog died").await;
        world.say(&format!("t{n}"), "I miss my dog").await;
    }
    world.clock.advance(IDLE);
    let nodes: Vec<Conversations> = (0..4)
        .map(|_| {
            let kit = Kit::plain(Outbound::new(Allow::default()).unwrap());
            Conversations::new(world.engine.clone(), Arc::new(kit), Settings::default())
        })
        .collect();
    let kept = futures_util::future::join_all(nodes.iter().map(Conversations::sweep)).await;
    let ended: usize = kept.into_iter().map(|kept| kept.unwrap().ended).sum();
    assert_eq!(ended, 20);
    for n in 0..20 {
        let thread = format!("t{n}");
        let ends = world.story(&thread).await.iter().filter(|said| *said == "sitting_ended").count();
        assert_eq!((ends, world.remembered(&thread, None, MemoryKind::Arc).await.len()), (1, 1), "{thread}");
    }
}

#[tokio::test]
async fn a_turn_that_finds_its_sitting_expired_ends_it_first() {
    let world = World::new();
    world.say("t", "I feel lonely since my dog died").await;
    world.say("t", "I miss my dog").await;
    world.clock.advance(IDLE);
    world.say("t", "Hello").await;
    let story = world.story("t").await;
    let ended = story.iter().position(|said| said == "sitting_ended").unwrap();
    assert_eq!(story[ended + 1], "sitting_started");
    assert_eq!(world.remembered("t", None, MemoryKind::Arc).await.len(), 1);
}

#[tokio::test]
async fn a_sitting_that_cannot_be_summarised_stays_open_for_another_try() {
    let (world, gate) = World::gated(true);
    let id = world.open("t").await;
    for text in ["Remember that I have a cat", "What do you know about me?"] {
        world.say("t", text).await;
    }
    gate.let_go();
    let failed = world.conversations.end(&world.me, &id, wish(false)).await.unwrap();
    assert!(matches!(failed, Ending::Failed(farewell) if farewell.turn_count == 2));
    assert_eq!(world.liveness("t").await, Liveness::Active);
}

#[tokio::test]
async fn a_script_is_not_asked_to_sum_a_sitting_up() {
    let script = Scripted::parse(r#"{"steps":[{"say":"So it is."},{"say":"So it is."}]}"#).unwrap();
    let model: Arc<dyn Model> = Arc::new(script);
    let world = World::with(BTreeMap::from([("scripted:brief".to_owned(), model)]), "scripted:brief");
    for text in ["I feel lonely since my dog died", "I miss my dog"] {
        world.say("t", text).await;
    }
    let Ending::Ended(farewell) = world.end("t", None).await else { panic!("the sitting stays open") };
    assert!(farewell.summary.is_some(), "rules sum it up");
    assert_eq!(world.remembered("t", None, MemoryKind::Arc).await.len(), 1);
}

#[tokio::test]
async fn a_rating_is_kept_once_for_each_sitting_and_names_nobody() {
    let world = World::new();
    let id = world.open("t").await;
    let rate = async |label| world.engine.rate_ended(&world.me, &id, rate(label)).await;
    assert_eq!(rate(Label::Skip).await.unwrap_err().code(), "nothing_ended");
    world.say("t", "Hello").await;
    world.end("t", Some(Label::Negative)).await;
    assert!(!rate(Label::Positive).await.unwrap());
    world.say("t", "Hello").await;
    world.end("t", None).await;
    assert!(rate(Label::Positive).await.unwrap());
    let opaque = world.engine.opaque().await.unwrap().of(&world.me.tenant, "t");
    let kept = world.store.ratings(&world.me.tenant, opaque.as_str()).await.unwrap();
    let labels: Vec<_> = kept.iter().map(|rating| (rating.label, rating.turn_count_at_end)).collect();
    assert_eq!(labels, [(Label::Negative, 1), (Label::Positive, 1)]);
    assert!(kept.iter().all(|rating| !serde_json::to_string(rating).unwrap().contains("\"t\"")));
}
