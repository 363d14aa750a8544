//! What an embedder can rely on: a store is opened once, looks after itself, closes whole, and streams go on.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt};
use sederunt::agents::background::Periods;
use sederunt::{
    Actor, ClaimRequest, Event, EventStream, OpenSession, Options, Sederunt, SessionId, SessionType,
    Settings, SourceKind, Status, SystemClock, limits,
};

fn owner() -> Arc<Actor> {
    Arc::new(Actor::local(SourceKind::Api))
}

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

/// A store in memory whose background work looks without pause, if it runs, and the clock that it goes by.
async fn quick(background: bool) -> (Sederunt, Arc<SystemClock>) {
    let clock = Arc::new(SystemClock::default());
    let settings = Settings { attempts_max: 2, ..Settings::default() };
    let often = Duration::from_millis(1);
    let store = Sederunt::builder()
        .options(Options { clock: clock.clone(), settings, ..Options::default() })
        .periods(Periods { sweep: often, conversations: often })
        .background(background)
        .open("memory:");
    (store.await.unwrap(), clock)
}

/// Waits for the next event of a kind.
async fn next_of(log: &mut EventStream, kind: &str) -> Arc<Event> {
    let found = async {
        loop {
            let event = log.next().await.unwrap().unwrap();
            if event.kind.as_str() == kind {
                return event;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), found).await.unwrap_or_else(|_| panic!("no {kind}"))
}

#[tokio::test]
async fn what_was_written_is_there_after_closing_and_opening_again() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", directory.path().join("store").display());
    let me = owner();
    let store = sederunt::open(&url).await.unwrap();
    let id = store.open_session(&me, queued()).await.unwrap().id;
    let refused = sederunt::open(&url).await.unwrap_err();
    assert_eq!(refused.code(), "invalid", "a directory is opened once");
    assert!(refused.to_string().contains("open"), "{refused}");
    store.close().await;
    let store = sederunt::open(&url).await.unwrap();
    assert_eq!(store.session(&me, &id).await.unwrap().head.status, Status::Pending);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_there_after_a_drop() {
    let directory = tempfile::tempdir().unwrap();
    let url = directory.path().join("store").display().to_string();
    let me = owner();
    let store = sederunt::open(&url).await.unwrap();
    let id = store.start(&me, SessionType::Mixed).await.unwrap().id;
    let written = store.append_text(&me, &id, "user.message", "kept").await.unwrap().sequence;
    drop(store);
    let since = Instant::now();
    let store = loop {
        match sederunt::open(&url).await {
            Ok(store) => break store,
            Err(error) => assert!(since.elapsed() < Duration::from_secs(30), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(store.session(&me, &id).await.unwrap().head.last_sequence, written);
    store.close().await;
}

#[tokio::test]
async fn the_work_of_a_dead_worker_is_freed_without_being_asked_for() {
    let (store, clock) = quick(true).await;
    let me = owner();
    let id = store.open_session(&me, queued()).await.unwrap().id;
    for freed_to in ["pending", "failed"] {
        assert_eq!(store.claim(&me, request(), None).await.unwrap().len(), 1);
        let after = store.session(&me, &id).await.unwrap().head.last_sequence;
        let mut log = store.follow(&me, &id, after).await.unwrap();
        clock.advance(limits::LEASE_DEFAULT + Duration::from_secs(1));
        let moved = next_of(&mut log, "session.status_change").await;
        assert!(moved.metadata.as_ref().unwrap().as_str().contains(freed_to), "{moved:?}");
    }
    store.close().await;
}

#[tokio::test]
async fn a_silent_conversation_ends_without_being_asked_to() {
    let (store, clock) = quick(true).await;
    let me = owner();
    store.say(&me, "talk", "Hello.").await.unwrap();
    let id = SessionId::parse("talk").unwrap();
    let mut log = store.follow(&me, &id, 0).await.unwrap();
    clock.advance(Duration::from_secs(21 * 60));
    next_of(&mut log, "session.sitting_ended").await;
    store.close().await;
}

#[tokio::test]
async fn without_background_work_nothing_moves_by_itself() {
    let (store, clock) = quick(false).await;
    let me = owner();
    let id = store.open_session(&me, queued()).await.unwrap().id;
    store.claim(&me, request(), None).await.unwrap();
    clock.advance(limits::LEASE_DEFAULT + Duration::from_secs(1));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(store.session(&me, &id).await.unwrap().head.status, Status::Running);
    assert_eq!(store.sweep().await.unwrap().leases_lost, 1, "it is there to be swept");
    store.close().await;
}

#[tokio::test]
async fn a_command_under_a_key_has_one_effect() {
    let (store, _) = quick(false).await;
    let me = owner();
    let id = store.start(&me, SessionType::Mixed).key("the session").await.unwrap().id;
    assert_eq!(store.start(&me, SessionType::Mixed).key("the session").await.unwrap().id, id);
    assert_ne!(store.start(&me, SessionType::Mixed).await.unwrap().id, id);
    let say = |text: &'static str| store.append_text(&me, &id, "user.message", text);
    let first = say("once").key("k").await.unwrap();
    assert_eq!(say("once").key("k").await.unwrap().sequence, first.sequence);
    assert_eq!(say("twice").key("k").await.unwrap_err().code(), "idempotency_mismatch");
    assert_eq!(say("once").await.unwrap().sequence, first.sequence + 1, "without a key it is said again");
    store.close().await;
}

#[tokio::test]
async fn a_reader_that_was_interrupted_goes_on_after_the_last_event_that_it_saw() {
    fn is_usable_anywhere(stream: impl Stream<Item = sederunt::Result<Arc<Event>>> + Send + Unpin) {
        drop(stream);
    }
    let (store, _) = quick(false).await;
    let me = owner();
    let id = store.start(&me, SessionType::Mixed).await.unwrap().id;
    let mut seen = 0;
    for round in 0..3 {
        let text = format!("round {round}");
        let mut log = store.follow(&me, &id, seen).await.unwrap();
        let written = store.append_text(&me, &id, "user.message", &text).await.unwrap();
        let heard = next_of(&mut log, "user.message").await;
        assert_eq!((heard.sequence, heard.text().as_deref()), (written.sequence, Some(text.as_str())));
        seen = heard.sequence;
        is_usable_anywhere(log);
    }
    let mut log = store.follow(&me, &id, seen).await.unwrap();
    store.delete(&me, &id).await.unwrap();
    assert!(log.next().await.is_none(), "the stream of a deleted session ends");
    store.close().await;
}

#[tokio::test]
async fn a_store_that_cannot_be_is_refused_with_a_reason() {
    for url in ["", "mysql://x", "/proc/none/store"] {
        let refused = sederunt::open(url).await.unwrap_err();
        assert_eq!(refused.code(), "invalid", "{url}: {refused}");
    }
}
