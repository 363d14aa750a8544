//! What comes too late or twice: a turn that has lost its conversation keeps nothing, and an end that is made again
//! names what it left by the same names.

use std::time::Duration;

use sederunt_core::SessionId;
use sederunt_core::engine::Post;
use sederunt_core::json::Json;
use sederunt_core::memory::{MemoryKind, derived_id};

use crate::talk::World;

#[tokio::test]
async fn a_turn_that_has_lost_its_conversation_keeps_nothing() {
    let (world, mut gate) = World::gated(false);
    let id = world.open("t").await;
    let taken =
        world.conversations.post(&world.me, &id, Post::text("I live in Graz").unwrap(), None).await.unwrap();
    gate.begins().await;
    // Nobody has heard of the turn for longer than it may be silent, and somebody else goes on.
    world.clock.advance(Duration::from_secs(3_600));
    assert_eq!(world.engine.sweep().await.unwrap().leases_lost, 1);
    gate.let_go();
    let lost = world.conversations.reply_to(&world.me, taken).await.unwrap_err();
    assert_eq!(lost.code(), "fenced");
    let session = world.engine.session(&world.me, &id).await.unwrap();
    assert!(session.head.claim.is_none(), "{session:?}");
    let story = world.story("t").await;
    assert!(story.contains(&"turn:interrupted".to_owned()) && !story.contains(&"turn:answered".to_owned()));
    assert_eq!(story.iter().filter(|line| *line == "message").count(), 1, "{story:?}");
    let standing = world.engine.standing(&world.me, &id).await.unwrap();
    assert!(standing.talk.sitting.unwrap().buffer.candidates.is_empty(), "nothing of it is held");
}

#[tokio::test]
async fn the_arc_of_a_sitting_has_the_name_that_follows_from_it() {
    let world = World::new();
    let id = SessionId::stored("t");
    for sitting in 1..=2 {
        for text in ["I think about the harvest", "The apples are ripe"] {
            world.say("t", text).await;
        }
        world.end("t", None).await;
        let incarnation = world.engine.session(&world.me, &id).await.unwrap().head.incarnation.0;
        let name = derived_id(&["arc", &incarnation.to_string(), &sitting.to_string()]);
        let log = world.log("t").await;
        let ended = log.iter().rfind(|event| event.kind.as_str() == "session.sitting_ended").unwrap();
        assert_eq!(ended.metadata.as_ref().map(Json::value).unwrap()["arc_id"], name.as_str());
        assert_eq!(world.remembered("t", None, MemoryKind::Arc).await.len(), sitting);
        assert!(world.store.memory(&world.me.tenant, &name).await.unwrap().is_some());
    }
}
