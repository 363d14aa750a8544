//! A program with sessions of its own: open a store, talk, follow the log, work.
//!
//! Run it with `cargo run -p sederunt --example embed`.

use std::sync::Arc;

use futures_util::StreamExt;
use sederunt::{
    Actor, Append, ClaimRequest, DraftEvent, Json, OpenSession, Result, SessionType, Settle, SourceKind,
    Status, limits,
};

#[tokio::main]
pub async fn main() -> Result<()> {
    let directory = tempfile::tempdir().map_err(sederunt::Error::internal)?;
    let store = sederunt::open(&directory.path().join("store").to_string_lossy()).await?;
    let me = Arc::new(Actor::local(SourceKind::Api));

    // A session, and a reader of its log from the first event on.
    let session = store.start(&me, SessionType::Mixed).await?;
    let mut log = store.follow(&me, &session.id, 0).await?;
    store.append_text(&me, &session.id, "user.message", "Are you there?").key("first question").await?;
    while let Some(event) = log.next().await.transpose()? {
        println!("{} {} {}", event.sequence, event.kind.as_str(), event.text().unwrap_or_default());
        if event.kind.as_str() == "user.message" {
            break;
        }
    }

    // A conversation: the built-in model answers, and both the message and the reply are in the log.
    let reply = store.say(&me, "cli:turns", "Remember that my sister is called Mona").await?;
    println!("{}", reply.text);

    // Work for a worker of your own: queue it, claim it, report, complete it.
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
