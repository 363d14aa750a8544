//! A stream delivers each sequence once, in order: backlog, then live.

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::SessionId;
use sederunt_core::engine::{Append, LogStream, StreamItem};

use crate::harness::{World, says};
use crate::on_both_stores;

on_both_stores!(
    backlog_and_live_meet_without_gap_or_duplicate,
    a_fork_is_streamed_through_its_prefix,
    a_deleted_session_ends_its_streams,
    an_unfinished_reply_is_shown_to_those_who_come_late,
    a_cursor_beyond_the_end_is_refused,
);

async fn next(stream: &mut LogStream) -> StreamItem {
    tokio::time::timeout(Duration::from_secs(20), stream.next()).await.expect("the stream is stuck").unwrap()
}

/// Reads until this sequence was delivered, checking that each comes once and in order.
async fn follow(stream: &mut LogStream, from: u64, to: u64) {
    let mut expected = from;
    while expected <= to {
        if let StreamItem::Frames(frames) = next(stream).await {
            for frame in frames {
                assert_eq!(frame.event.sequence, expected);
                expected += 1;
            }
        }
    }
}

async fn backlog_and_live_meet_without_gap_or_duplicate(world: &World) {
    let (owner, session) = (world.owner(), world.talk("s").await);
    for n in 0..5 {
        world.engine.append(&owner, &session.id, says("user.message", &n.to_string()), None).await.unwrap();
    }
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (engine, owner, id) = (world.engine.clone(), owner.clone(), session.id.clone());
        writers.spawn(async move {
            for n in 0..100 {
                engine.append(&owner, &id, says("user.message", &n.to_string()), None).await.unwrap();
            }
        });
    }
    let mut readers = tokio::task::JoinSet::new();
    for after in [0, 2, 5, 6, 0, 3, 1, 4] {
        let (engine, owner, id) = (world.engine.clone(), owner.clone(), session.id.clone());
        readers.spawn(async move {
            let mut stream = engine.stream(owner, &id, Some(after)).await.unwrap();
            follow(&mut stream, after + 1, 406).await;
        });
    }
    writers.join_all().await;
    readers.join_all().await;
}

async fn a_fork_is_streamed_through_its_prefix(world: &World) {
    let (owner, session) = (world.owner(), world.talk("s").await);
    for n in 0..4 {
        world.engine.append(&owner, &session.id, says("user.message", &n.to_string()), None).await.unwrap();
    }
    let fork = world.engine.fork(&owner, &session.id, 3, None).await.unwrap();
    world.engine.append(&owner, &fork.id, says("user.message", "mine"), None).await.unwrap();
    let mut stream = world.engine.stream(owner, &fork.id, None).await.unwrap();
    follow(&mut stream, 1, 5).await;
}

async fn a_deleted_session_ends_its_streams(world: &World) {
    let (owner, session) = (world.owner(), world.talk("s").await);
    let mut stream = world.engine.stream(owner.clone(), &session.id, None).await.unwrap();
    follow(&mut stream, 1, 1).await;
    world.engine.delete(&owner, &session.id).await.unwrap();
    while !matches!(next(&mut stream).await, StreamItem::Ended) {}
}

async fn an_unfinished_reply_is_shown_to_those_who_come_late(world: &World) {
    let worker = world.worker("w");
    let claim = world.claimed("s", &worker).await;
    let id = &claim.session.id;
    world.engine.delta(&worker, id, claim.epoch, "Hel").await.unwrap();
    world.engine.delta(&worker, id, claim.epoch, "lo").await.unwrap();
    let mut stream = world.engine.stream(world.owner(), id, None).await.unwrap();
    let shown = loop {
        if let StreamItem::Reply(shown) = next(&mut stream).await {
            break shown;
        }
    };
    assert_eq!((shown.offset, shown.text.as_str()), (0, "Hello"));
    let message = Append { epoch: Some(claim.epoch), ..says("agent.message", "Hello") };
    world.engine.append(&worker, id, message, None).await.unwrap();
    let mut late = world.engine.stream(world.owner(), id, None).await.unwrap();
    loop {
        match next(&mut late).await {
            StreamItem::Reply(_) => panic!("the finished reply is still shown"),
            StreamItem::Ready => break,
            _ => {}
        }
    }
}

async fn a_cursor_beyond_the_end_is_refused(world: &World) {
    let session = world.talk("s").await;
    let beyond = world.engine.stream(world.owner(), &session.id, Some(9)).await;
    assert_eq!(beyond.unwrap_err().code(), "invalid");
    let missing = SessionId::stored("missing");
    assert!(world.engine.stream(Arc::clone(&world.owner()), &missing, None).await.is_err());
}
