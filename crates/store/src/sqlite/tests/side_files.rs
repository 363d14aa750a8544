//! The outbox and the side files: after a crash every entry arrives, once, and purged rows are gone to the last byte.

use sederunt_core::safety::codes::HoldReason;
use sederunt_core::store::{MemoryQuery, RecordsOf};

use super::*;
use crate::record_builders::{at, crisis, fact, owner, rating};

const OLD: &str = "2026-01-01T00:00:00Z";
const NEW: &str = "2026-11-16T08:00:00Z";

fn put(name: &str, object: &str) -> Record {
    Record::PutMemory(Box::new(fact(name, "ann", object)))
}

/// Records of every kind, in an order that matters.
fn records() -> Vec<Record> {
    let held = Record::HoldCrisis {
        id: uuid::Uuid::from_u128(1).to_string().into(),
        until: at(NEW),
        reason: HoldReason::Audit,
    };
    vec![
        put("replaced", "tea"),
        put("dropped", "tea"),
        put("replaced", "green coffee"),
        Record::DropMemory { id: "dropped".into() },
        Record::AddRating(Box::new(rating(1, "a", OLD))),
        Record::AddRating(Box::new(rating(2, "a", NEW))),
        Record::AddCrisis(Box::new(crisis(1, "a", OLD))),
        held,
    ]
}

impl SqliteStore {
    /// Commits without copying anything to the side files.
    async fn left_behind(&self, change: Change) {
        let done = self.writer.run(move |tx| apply::commit(tx, &change, &[])).await;
        done.map_err(|refusal: Refusal| format!("{refusal:?}")).unwrap();
    }

    async fn recalled(&self, words: &[&str]) -> Vec<String> {
        let query = MemoryQuery {
            owner: owner("ann"),
            kind: None,
            words: words.iter().map(|&word| word.to_owned()).collect(),
            since: None,
            dormant: true,
            after: None,
            limit: 100,
        };
        let page = self.memories(&tenant(), query).await.unwrap();
        page.items.into_iter().map(|memory| memory.id).collect()
    }

    /// Nothing but what [`records`] leaves, each once.
    async fn holds_the_records(&self) {
        assert_eq!(
            self.memory(&tenant(), "replaced").await.unwrap(),
            Some(fact("replaced", "ann", "green coffee"))
        );
        assert_eq!(self.recalled(&[]).await, ["replaced"]);
        assert_eq!(self.recalled(&["tea", "green"]).await, ["replaced"]);
        assert_eq!(self.ratings(&tenant(), "a").await.unwrap(), [rating(1, "a", OLD), rating(2, "a", NEW)]);
        let crises = self.crises(&tenant(), at(OLD), at(NEW), 10).await.unwrap();
        assert_eq!(crises.len(), 1);
        assert_eq!(crises[0].retention_extended_until, Some(at(NEW)));
        assert_eq!(self.count("memory_words").await, 4, "user, likes, green, coffee");
    }
}

/// The files as a process that is killed now would leave them.
fn killed(directory: &TempDir) -> TempDir {
    let left = TempDir::new().unwrap();
    let (from, to) = (directory.path().join("store"), left.path().join("store"));
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if !entry.file_name().to_str().unwrap().ends_with("-shm") {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
    left
}

fn files_with(directory: &TempDir, marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory.path().join("store")).unwrap() {
        let entry = entry.unwrap();
        let bytes = std::fs::read(entry.path()).unwrap();
        if bytes.windows(marker.len()).any(|window| window == marker.as_bytes()) {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found.sort_unstable();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn ratings_that_cannot_be_written_hold_no_memory_up_and_arrive_later() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    let rename = |from: &str, to: &str| {
        let file =
            rusqlite::Connection::open(directory.path().join("store/session_feedback.sqlite3")).unwrap();
        file.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).unwrap();
    };
    rename("session_feedback", "elsewhere");
    let mut told = change([new_session("s")]);
    told.records = records();
    store.commit(told).await.unwrap();
    assert_eq!(store.recalled(&[]).await, ["replaced"], "whoever reads memories does not wait for ratings");
    rename("elsewhere", "session_feedback");
    store.holds_the_records().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_between_the_files_loses_and_doubles_nothing() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    let mut told = change([new_session("s")]);
    told.records = records();
    store.left_behind(told).await;
    assert_eq!((store.count("memories").await, store.count("talk_outbox").await), (0, 8));
    let committed = killed(&directory);
    copy_side_files(&directory.path().join("store")).unwrap();
    assert_eq!((store.count("memories").await, store.count("talk_outbox").await), (1, 8));
    let carried_over = killed(&directory);
    store.close().await;
    let crossed_out = killed(&directory);

    for (state, directory) in
        [("committed", committed), ("carried over", carried_over), ("crossed out", crossed_out)]
    {
        for start in ["first", "second"] {
            let store = in_directory(&directory).unwrap_or_else(|error| panic!("{state}: {error}"));
            store.holds_the_records().await;
            assert!(store.session(&tenant(), &id("s")).await.unwrap().is_some());
            store.close().await;
            drop(store);
            let file = rusqlite::Connection::open(directory.path().join("store/threads.sqlite3")).unwrap();
            let left: i64 = file.query_row("SELECT count(*) FROM talk_outbox", [], |row| row.get(0)).unwrap();
            assert_eq!(left, 0, "{state}, {start} start");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_copies_what_is_still_in_the_outbox() {
    let store = in_memory();
    store.left_behind(Change { records: records(), ..Change::new(tenant()) }).await;
    assert!(store.side_files.is_behind());
    store.holds_the_records().await;
    assert!(!store.side_files.is_behind());
    store.until(|store| store.writer.waiting() == 0).await;
    store.commit(change([new_session("after")])).await.unwrap();
    assert_eq!(store.count("talk_outbox").await, 0, "and it is crossed out");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_copied_to_its_side_file_without_a_reader() {
    let store = in_memory();
    store.commit(Change { records: records(), ..Change::new(tenant()) }).await.unwrap();
    store.until(|store| !store.side_files.is_behind()).await;
    assert_eq!(store.count("memories").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_purged_leaves_no_byte_and_does_not_come_back() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    let (opaque, held) = ("the-opaque-id-of-a-session", "the-opaque-id-of-another");
    for (name, on) in [(opaque, OLD), (held, NEW)] {
        let n = u128::from(name == held);
        let change = Change::new(tenant())
            .record(Record::AddRating(Box::new(rating(n, name, on))))
            .record(Record::AddCrisis(Box::new(crisis(n, name, on))));
        store.commit(change).await.unwrap();
        assert_eq!(store.ratings(&tenant(), name).await.unwrap().len(), 1);
    }
    store.commit(Change::new(tenant()).record(put("m", "the-marmoset"))).await.unwrap();
    assert_eq!(store.recalled(&["marmoset"]).await, ["m"]);
    store.commit(Change::new(tenant()).record(Record::DropMemory { id: "m".into() })).await.unwrap();
    assert_eq!(store.recalled(&["marmoset"]).await, [""; 0]);
    assert!(!files_with(&directory, opaque).is_empty(), "it was there");
    assert_eq!(store.purge_ratings(at("2026-06-01T00:00:00Z")).await.unwrap(), 1);
    assert_eq!(store.purge_crises(at("2026-06-01T00:00:00Z"), at(NEW)).await.unwrap(), 1);
    for gone in [opaque, "marmoset"] {
        assert_eq!(files_with(&directory, gone), [""; 0], "{gone}");
    }
    assert_eq!(files_with(&directory, held), ["crisis.sqlite3", "session_feedback.sqlite3"]);
    let after_a_crash = killed(&directory);
    store.close().await;
    for store in [in_directory(&after_a_crash).unwrap(), in_directory(&directory).unwrap()] {
        assert_eq!(store.ratings(&tenant(), opaque).await.unwrap(), []);
        assert_eq!(store.ratings(&tenant(), held).await.unwrap().len(), 1);
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_tenant_leaves_the_other_files_even_after_a_crash() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    let beta = TenantId::stored("beta");
    let audit = Audit { actor: "operator".into(), action: "tenant.create", target: "beta".into() };
    store.create_tenant(&beta, audit).await.unwrap();
    for of in [tenant(), beta.clone()] {
        store.commit(Change { records: records(), ..Change::new(of.clone()) }).await.unwrap();
        assert_eq!(store.records_kept(&of, RecordsOf::Tenant).await.unwrap().ratings, 2);
    }
    // One of its records is still in the outbox when its name is removed.
    store.left_behind(Change::new(beta.clone()).record(put("late", "tea"))).await;
    let tk: Result<i64> = store.writer.run(move |tx| tenants::remove_name(tx, &beta)).await;
    let tk = tk.unwrap();
    let last: Result<bool> =
        store.writer.run(move |tx| tenants::remove_step(tx, tk, &TenantId::stored("beta"))).await;
    assert!(last.unwrap());
    let left = killed(&directory);
    let again = in_directory(&left).unwrap();
    again.holds_the_records().await;
    for table in ["memories", "crisis_log"] {
        assert_eq!(again.count(table).await, 1, "{table}");
    }
    assert_eq!(again.count("session_feedback").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_holds_every_file_and_what_was_on_its_way() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    store.commit(Change { records: records(), ..Change::new(tenant()) }).await.unwrap();
    store.holds_the_records().await;
    store.made("after").await;
    assert_eq!(store.count("talk_outbox").await, 0, "only the other files have them now");
    let late = Record::AddRating(Box::new(rating(3, "late", NEW)));
    store.left_behind(Change::new(tenant()).record(late)).await;
    // From outside, as beside a server that has the store open: nothing was copied.
    let home = directory.path();
    SqliteStore::restore(&home.join("store"), &home.join("beside")).unwrap();
    store.backup(&home.join("copy"), &mut |_, _| {}).unwrap();
    let key = store.installation_key().await.unwrap();
    for copy in ["beside", "copy"] {
        let restored = home.join(format!("{copy} restored"));
        SqliteStore::restore(&home.join(copy), &restored).unwrap();
        let again = open(Place::Directory(restored)).unwrap();
        again.holds_the_records().await;
        assert_eq!(again.ratings(&tenant(), "late").await.unwrap(), [rating(3, "late", NEW)], "{copy}");
        assert_eq!(again.installation_key().await.unwrap(), key, "{copy}");
        again.close().await;
    }
    store.close().await;
}
