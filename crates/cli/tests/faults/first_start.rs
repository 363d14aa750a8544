//! First starts: many at once, killed in the middle, or on a schema from the future.

use std::time::Instant;

use futures_util::future::join_all;
use serde_json::json;

use crate::harness::{Ended, Node, PATIENCE, Place, connect, goes_on, sederunt};
use crate::ledger::read_log;

const AT_ONCE: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_nodes_may_start_at_once_on_a_fresh_postgres() {
    for round in 0..2 {
        let place = Place::postgres().await;
        let nodes: Vec<Node> = starts_at_once(&place).await.into_iter().map(Result::unwrap).collect();
        nodes[0].client().open("cli:main").await;
        for node in &nodes {
            let event = json!({"events": [{"type": "node.started"}]});
            node.client().post("/api/sessions/cli:main/events", event).await.expect(201);
        }
        let log = read_log(&nodes[AT_ONCE - 1].client(), "cli:main").await;
        assert_eq!(log.len(), 1 + AT_ONCE, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_six_starts_on_one_directory_one_serves_and_the_others_say_why_not() {
    let place = Place::sqlite();
    let (mut serving, mut refused) = (Vec::new(), Vec::new());
    for start in starts_at_once(&place).await {
        match start {
            Ok(node) => serving.push(node),
            Err(ended) => refused.push(ended),
        }
    }
    assert_eq!((serving.len(), refused.len()), (1, AT_ONCE - 1), "{refused:?}");
    for Ended { status, said } in refused {
        assert!(!status.success() && status.code().is_some(), "{status}: {said}");
        assert!(said.contains("another process") && said.contains(&place.store), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    serving[0].client().open("cli:main").await;
    drop(serving);
    let node = Node::start(&place).await;
    assert_eq!(read_log(&node.client(), "cli:main").await.len(), 1);
}

async fn starts_at_once(place: &Place) -> Vec<Result<Node, Ended>> {
    let starting: Vec<_> = (0..AT_ONCE).map(|_| Node::launch(sederunt(), place, "local")).collect();
    join_all(starting.into_iter().map(crate::harness::Starting::listening)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_start_may_be_killed_at_any_moment_on_sqlite() {
    a_first_start_may_be_killed_at_any_moment(async || Place::sqlite(), 12).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_start_may_be_killed_at_any_moment_on_postgres() {
    a_first_start_may_be_killed_at_any_moment(Place::postgres, 5).await;
}

/// Kills first starts at moments spread over the time that one takes, each on a place of its own
/// and twice, and starts there again.
async fn a_first_start_may_be_killed_at_any_moment(fresh: impl AsyncFn() -> Place, moments: u32) {
    let place = fresh().await;
    let begun = Instant::now();
    Node::start(&place).await.kill_9();
    let takes = begun.elapsed();
    let (mut unready, mut starts) = (0, 0);
    while starts < moments || goes_on(begun) {
        let moment = starts % moments;
        let place = fresh().await;
        for _ in 0..2 {
            let starting = Node::launch(sederunt(), &place, "local");
            let listened = starting.kill_9_after(takes * (2 * moment + 1) / (2 * moments)).await;
            unready += u32::from(!listened);
        }
        let node = Node::start(&place).await;
        node.client().open("cli:main").await;
        assert_eq!(read_log(&node.client(), "cli:main").await.len(), 1);
        starts += 1;
    }
    assert!(unready >= starts / 2, "{unready} of {} kills came before the server was ready", 2 * starts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_from_the_future_is_refused_on_sqlite() {
    let place = Place::sqlite();
    Node::start(&place).await.kill_9();
    let file = rusqlite::Connection::open(format!("{}/threads.sqlite3", place.store)).unwrap();
    let version: i64 = file.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    file.pragma_update(None, "user_version", 99).unwrap();
    is_refused_as_newer(&place).await;
    file.pragma_update(None, "user_version", version).unwrap();
    drop(file);
    Node::start(&place).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_from_the_future_is_refused_on_postgres() {
    let place = Place::postgres().await;
    Node::start(&place).await.kill_9();
    let database = connect(&place.store).await;
    let history = "sederunt.schema_history";
    database.batch_execute(&format!("INSERT INTO {history} VALUES (99, 'future')")).await.unwrap();
    is_refused_as_newer(&place).await;
    database.batch_execute(&format!("DELETE FROM {history} WHERE version = 99")).await.unwrap();
    Node::start(&place).await;
}

async fn is_refused_as_newer(place: &Place) {
    let start = Node::launch(sederunt(), place, "local").listening();
    let Ended { status, said } =
        crate::harness::within("the start is refused", PATIENCE, start).await.err().unwrap();
    assert!(!status.success() && status.code().is_some(), "{status}: {said}");
    assert!(said.contains("99") && said.contains("newer") && !said.contains("panicked"), "{said}");
}
