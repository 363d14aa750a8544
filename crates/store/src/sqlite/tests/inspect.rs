//! Inspecting a store from outside.

use super::*;
use crate::sqlite::inspect::{SIDE_FILES, inspect, schema_version};

#[tokio::test(flavor = "multi_thread")]
async fn a_look_from_outside_finds_what_is_there_and_changes_nothing() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store");
    assert_eq!(schema_version(&path).unwrap(), 0, "there is none yet");
    assert!(SIDE_FILES.iter().all(|file| file.records(&path).unwrap().is_none()));
    let store = in_directory(&directory).unwrap();
    let found = inspect(&path).unwrap();
    assert_eq!(found.schema_version as usize, migrate::THREADS.len(), "beside the writer, too");
    let contents = found.contents.unwrap();
    assert_eq!((contents.sessions, contents.outbox), (0, 0));
    assert!(SIDE_FILES.iter().all(|file| file.records(&path).unwrap() == Some(0)));
    store.close().await;

    let file = rusqlite::Connection::open(path.join("threads.sqlite3")).unwrap();
    file.execute_batch("PRAGMA user_version = 1").unwrap();
    let older = inspect(&path).unwrap();
    assert_eq!((older.schema_version, older.contents.is_none()), (1, true), "an older one is not counted");
    assert_eq!(schema_version(&path).unwrap(), 1);
}
