//! What an embedder can rely on: a store is opened once, closes whole, and sweeps when asked.

use std::sync::Arc;
use std::time::Duration;

use sederunt::{
    Actor, ClaimRequest, OpenSession, Options, Place, Sederunt, SessionType, Settings, SourceKind, Status,
    StreamItem, SystemClock, limits,
};

fn queued() -> OpenSession {
    OpenSession {
        id: Some("job".into()),
        session_type: Some(SessionType::Agent),
        status: Some(Status::Pending),
        ..OpenSession::default()
    }
}

fn request() -> ClaimRequest {
    ClaimRequest {
        worker: "w".into(),
        session_types: Vec::new(),
        agent_slugs: Vec::new(),
        limit: 1,
        lease: limits::LEASE_DEFAULT,
        wait: Duration::ZERO,
    }
}

#[tokio::test]
async fn what_was_written_is_there_after_closing_and_opening_again() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", directory.path().join("store").display());
    let me = Actor::local(SourceKind::Api);
    let store = sederunt::open(&url).await.unwrap();
    let id = store.open(&me, queued(), None).await.unwrap().session.id;
    assert_eq!(sederunt::open(&url).await.unwrap_err().code(), "invalid", "a directory is opened once");
    store.close().await;
    let store = sederunt::open(&url).await.unwrap();
    assert_eq!(store.session(&me, &id).await.unwrap().head.status, Status::Pending);
    store.close().await;
}

#[tokio::test]
async fn the_sweeper_frees_the_work_of_a_dead_worker() {
    let clock = Arc::new(SystemClock::default());
    let settings = Settings { attempts_max: 2, ..Settings::default() };
    let options = Options { clock: clock.clone(), settings, ..Options::default() };
    let store = Sederunt::open(&Place::Memory, options).await.unwrap();
    let me = Arc::new(Actor::local(SourceKind::Api));
    let id = store.open(&me, queued(), None).await.unwrap().session.id;
    for freed_to in ["pending", "failed"] {
        assert_eq!(store.claim(&me, request(), None).await.unwrap().len(), 1);
        let after = store.session(&me, &id).await.unwrap().head.last_sequence;
        let mut log = store.stream(me.clone(), &id, Some(after)).await.unwrap();
        let freed = async {
            loop {
                if let StreamItem::Frames(frames) = log.next().await.unwrap()
                    && let Some(moved) =
                        frames.iter().find(|frame| frame.event.kind.as_str() == "session.status_change")
                {
                    assert!(moved.event.metadata.as_ref().unwrap().as_str().contains(freed_to));
                    return;
                }
            }
        };
        clock.advance(limits::LEASE_DEFAULT + Duration::from_secs(1));
        let swept = store.run_sweeper(Duration::from_millis(1), freed);
        tokio::time::timeout(Duration::from_secs(30), swept).await.unwrap();
    }
    store.close().await;
}

#[tokio::test]
async fn a_store_that_cannot_be_is_refused_with_a_reason() {
    for url in ["", "mysql://x", "/proc/none/store"] {
        let refused = sederunt::open(url).await.unwrap_err();
        assert_eq!(refused.code(), "invalid", "{url}: {refused}");
    }
}
