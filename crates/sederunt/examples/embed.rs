//! A program with sessions of its own: open a store, talk, follow the log, work.
//!
//! Run it with `cargo run -p sederunt --example embed`.

use std::sync::Arc;

use sederunt::{
    Actor, Append, ClaimRequest, DraftEvent, Json, OpenSession, Post, Result, Settle, SourceKind, Status,
    StreamItem,
};
use sederunt::{SessionType, limits};

#[tokio::main]
pub async fn main() -> Result<()> {
    let directory = tempfile::tempdir().map_err(sederunt::Error::internal)?;
    let store = sederunt::open(&directory.path().join("store").to_string_lossy()).await?;
    let me = Arc::new(Actor::local(SourceKind::Api));

    // A conversation, and a reader of its log from the first event on.
    let talk = OpenSession {
        id: Some("cli:example".into()),
        session_type: Some(SessionType::Mixed),
        title: Some("A first talk".into()),
        ..OpenSession::default()
    };
    let talk = store.open(&me, talk, None).await?.session;
    let mut log = store.stream(me.clone(), &talk.id, None).await?;
    store.append(&me, &talk.id, said("user.message", "Are you there?", None)?, None).await?;
    'follow: loop {
        match log.next().await? {
            StreamItem::Frames(frames) => {
                for frame in frames {
                    let event = &frame.event;
                    println!(
                        "{} {} {}",
                        event.sequence,
                        event.kind.as_str(),
                        event.text().unwrap_or_default()
                    );
                    if event.kind.as_str() == "user.message" {
                        break 'follow;
                    }
                }
            }
            StreamItem::Ready | StreamItem::Gap { .. } | StreamItem::Reply(_) => {}
            StreamItem::Ended => break,
        }
    }

    // A turn: the built-in model answers, and both the message and the reply are in the log.
    let conversations = store.conversations()?;
    let chat = conversations.open(&me, "cli:turns", None).await?;
    let taken =
        conversations.post(&me, &chat, Post::text("Remember that my sister is called Mona")?, None).await?;
    println!("{}", conversations.reply_to(&me, taken).await?.text);

    // A piece of work: somebody queues it, a worker claims, reports and completes it.
    let work = OpenSession {
        session_type: Some(SessionType::Agent),
        status: Some(Status::Pending),
        input: Some(Json::of(&"Count the words of a text")?),
        ..OpenSession::default()
    };
    store.open(&me, work, None).await?;
    let request = ClaimRequest {
        worker: "example".into(),
        session_types: vec![SessionType::Agent],
        agent_slugs: Vec::new(),
        limit: 1,
        lease: limits::LEASE_DEFAULT,
        wait: limits::CLAIM_WAIT_MAX,
    };
    for claimed in store.claim(&me, request, None).await? {
        let id = &claimed.session.id;
        store.append(&me, id, said("agent.message", "There are six.", Some(claimed.epoch))?, None).await?;
        let done = Settle::Complete { result: Some(Json::of(&6)?), text: None, usage: None };
        let session = store.settle(&me, id, claimed.epoch, done, None).await?;
        println!("{id} is {}", session.head.status);
        assert_eq!(session.head.status, Status::Completed);
    }

    store.close().await;
    Ok(())
}

fn said(kind: &str, text: &str, epoch: Option<u64>) -> Result<Append> {
    let event = DraftEvent { kind: kind.into(), content: Some(Json::of(&text)?), ..DraftEvent::default() };
    Ok(Append { events: vec![event], epoch, ..Append::default() })
}
