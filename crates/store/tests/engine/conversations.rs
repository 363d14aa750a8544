//! What a caller is told of a conversation: of one that has not begun, and of a rated one.

use sederunt_core::engine::{CaptureOutcome, Post, PostFate, SittingRating};
use sederunt_core::feedback::{Label, Modality, RatingRequest, RatingSource};
use sederunt_core::memory::candidate::Buffer;
use sederunt_core::session::MemoryMode;
use sederunt_core::session::query::SessionQuery;
use sederunt_core::talk::sitting::EndReason;
use sederunt_core::talk::turn::{TurnOutcome, TurnOutcomeKind};
use sederunt_core::talk::{StateFields, TurnRecords};
use sederunt_core::{Role, SessionId, limits};

use crate::harness::{World, hold, wish};
use crate::on_both_stores;

on_both_stores!(
    a_conversation_that_has_not_begun_is_empty_and_anothers_looks_the_same,
    a_rating_counts_once_and_a_refused_comment_takes_nothing_from_it,
);

/// A conversation with one turn, whose sitting has ended.
async fn ended(world: &World, id: &SessionId) {
    world.talk(id.as_str()).await;
    let post = Post::text("Hello.").unwrap();
    let posted = world.engine.post(&world.owner(), id, post, &hold("a"), None).await.unwrap();
    let PostFate::Started(begun) = posted.fate else { panic!("{:?}", posted.fate) };
    let outcome = TurnOutcome {
        kind: TurnOutcomeKind::Answered,
        events: Vec::new(),
        change: StateFields::default(),
        buffer: Buffer::default(),
        crisis: 0,
        records: TurnRecords::default(),
        usage: None,
    };
    let done = world.engine.finish_turn(&begun, outcome).await.unwrap();
    let closed = world.engine.close_sitting(&done.session, &done.talk, EndReason::Asked, None);
    assert!(closed.await.unwrap().is_some());
}

async fn a_conversation_that_has_not_begun_is_empty_and_anothers_looks_the_same(world: &World) {
    let (owner, stranger) = (world.owner(), world.actor(Role::Member, "stranger"));
    let id = SessionId::stored("c");
    ended(world, &id).await;
    world.open(&owner, wish("work", sederunt_core::session::SessionType::Agent)).await;
    let missing = SessionId::stored("none");
    for (caller, id) in [(&owner, &missing), (&stranger, &id)] {
        assert!(world.engine.history(caller, id, 10).await.unwrap().is_empty());
        assert!(world.engine.standing_if_begun(caller, id).await.unwrap().is_none());
    }
    assert_eq!(world.engine.history(&owner, &id, 10).await.unwrap().len(), 1);
    assert!(world.engine.standing_if_begun(&owner, &id).await.unwrap().is_some());
    let listed = world.engine.sessions(&owner, SessionQuery::conversations(10)).await.unwrap().items;
    assert_eq!(listed.iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), ["c"]);
}

async fn a_rating_counts_once_and_a_refused_comment_takes_nothing_from_it(world: &World) {
    let owner = world.owner();
    let id = SessionId::stored("c");
    let wish = |comment: &str| SittingRating {
        rating: RatingRequest {
            label: Label::Negative,
            source: RatingSource::ApiEnd,
            modality: Modality::Text,
        },
        comment: Some(comment.to_owned()),
        memory_mode: None,
    };
    world.talk("c").await;
    let early = world.engine.rate_sitting(&owner, &id, wish("too long"), None).await;
    assert_eq!(early.unwrap_err().code(), "nothing_ended");
    ended(world, &id).await;
    let other_mode = SittingRating { memory_mode: Some(MemoryMode::Incognito), ..wish("too long") };
    assert_eq!(
        world.engine.rate_sitting(&owner, &id, other_mode, None).await.unwrap_err().code(),
        "type_mismatch"
    );
    let too_long = "x".repeat(limits::FEEDBACK_TEXT_CHARS_MAX + 1);
    assert!(world.engine.rate_sitting(&owner, &id, wish(&too_long), None).await.is_err());
    let secret = world
        .engine
        .rate_sitting(&owner, &id, wish("it said AKIAIOSFODNN7EXAMPLE to me"), None)
        .await
        .unwrap();
    assert!(secret.recorded, "the rating counts, whatever becomes of the comment");
    assert!(matches!(secret.comment, Some(Ok(CaptureOutcome::Blocked(_)))), "{:?}", secret.comment);
    let again =
        world.engine.rate_sitting(&owner, &id, wish("The answers are much too long"), None).await.unwrap();
    assert!(!again.recorded, "the first rating counts");
    assert!(matches!(again.comment, Some(Ok(CaptureOutcome::Accepted { .. }))), "{:?}", again.comment);
    assert_eq!(world.engine.ratings(&owner, &id).await.unwrap().len(), 1);
}
