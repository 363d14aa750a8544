//! Which thread commits, and how long the write-ahead log becomes.

use std::thread;

use tokio::task::LocalSet;

use super::*;

impl SqliteStore {
    /// The name of the thread on which a piece of work was done.
    async fn written_by(&self) -> Option<String> {
        let name = |_: &mut writer::WriteTransaction<'_>| {
            Ok::<_, fault::WorkError<Error>>(thread::current().name().map(str::to_owned))
        };
        self.writer.run(name).await.unwrap()
    }
}

fn this_thread() -> Option<String> {
    thread::current().name().map(str::to_owned)
}

#[tokio::test]
async fn a_lone_caller_writes_on_its_own_thread() {
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
        .run(|_: &mut writer::WriteTransaction<'_>| -> Result<(), fault::WorkError<Error>> {
            panic!("planted")
        })
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
    let path = directory.path().join("store/threads.sqlite3-wal");
    let mut sizes = vec![0];
    // How long the log becomes before it is written over depends on how quickly the checkpointer is given the processor.
    for _ in 0..20 {
        for _ in 0..200 {
            store.commit(appending("s", &[&long])).await.unwrap();
        }
        sizes.push(std::fs::metadata(&path).unwrap().len());
        if sizes[sizes.len() - 2] == sizes[sizes.len() - 1] {
            break;
        }
    }
    let grew = sizes.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(!grew, "the log grew with every round of writes: {sizes:?}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_uses_an_idle_writer_and_does_not_wait_for_a_busy_one() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    store.made("s").await;
    store.commit(appending("s", &["one"])).await.unwrap();
    let last = async || store.session(&tenant(), &id("s")).await.unwrap().unwrap().head.last_sequence;
    assert_eq!(last().await, 1);
    {
        // A read on the writer's connection leaves no transaction open, whatever it met.
        let talk = store.talk(&tenant(), &id("nobody")).await.unwrap();
        assert!(talk.is_none() && store.writer.idle_connection().unwrap().is_autocommit());
    }
    let (release, held) = mpsc::channel::<()>();
    let (started, waits) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let writing = tokio::spawn({
        let store = store.clone();
        async move {
            let append = move |tx: &mut writer::WriteTransaction<'_>| {
                let _ = started.send(());
                let _ = held.lock().recv_timeout(PATIENCE);
                apply::commit(tx, &appending("s", &["two"]), &[])
            };
            store.writer.run(append).await
        }
    });
    tokio::task::spawn_blocking(move || waits.recv_timeout(PATIENCE)).await.unwrap().unwrap();
    assert!(store.writer.idle_connection().is_none());
    assert_eq!(last().await, 1, "as it was before what is being written");
    release.send(()).unwrap();
    writing.await.unwrap().unwrap();
    assert_eq!(last().await, 2);
    store.close().await;
}
