//! Who writes, and where the log of what was written ends.

use std::thread;

use tokio::task::LocalSet;

use super::*;

impl SqliteStore {
    /// The name of the thread on which a piece of work was done.
    async fn written_by(&self) -> Option<String> {
        let name = |_: &mut writer::Ledger<'_>| {
            Ok::<_, fault::Trouble<Error>>(thread::current().name().map(str::to_owned))
        };
        self.writer.ask(name).await.unwrap()
    }
}

fn this_thread() -> Option<String> {
    thread::current().name().map(str::to_owned)
}

#[tokio::test]
async fn whoever_comes_alone_writes_on_its_own_thread() {
    let store = in_memory();
    assert_eq!(store.written_by().await, this_thread());
    assert_eq!(store.written_by().await, this_thread());
}

#[tokio::test]
async fn those_who_come_together_are_written_together_on_one_thread_too() {
    let store = in_memory();
    let together = futures_util::future::join_all((0..8).map(|_| store.written_by())).await;
    assert!(together[..7].iter().all(|name| name.as_deref() == Some("sederunt-writer")), "{together:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_bound_to_its_thread_may_write() {
    let store = in_memory();
    let local = LocalSet::new();
    local.run_until(async { store.made("bound").await }).await;
    store.commit(appending("bound", &["one"])).await.unwrap();
    assert_eq!(store.texts("bound").await, ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_on_the_callers_thread_is_an_error_and_nothing_else() {
    let store = in_memory();
    store.made("s").await;
    let refused = store
        .writer
        .ask(|_: &mut writer::Ledger<'_>| -> Result<(), fault::Trouble<Error>> { panic!("planted") })
        .await;
    assert!(matches!(refused, Err(Error::Internal(_))), "{refused:?}");
    store.commit(appending("s", &["one"])).await.unwrap();
    assert_eq!(store.texts("s").await, ["one"]);
}

#[tokio::test]
async fn a_quiet_log_is_written_over_instead_of_growing() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    store.made("s").await;
    let long = "word ".repeat(6_000);
    for _ in 0..600 {
        store.commit(appending("s", &[&long])).await.unwrap();
    }
    let log = std::fs::metadata(directory.path().join("store/threads.sqlite3-wal")).unwrap().len();
    let written = 600 * long.len() as u64;
    assert!(log < written / 2, "{written} bytes of events have left a log of {log}");
    store.close().await;
}
