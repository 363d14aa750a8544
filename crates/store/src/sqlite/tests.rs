//! What only this store can get wrong: commit groups, files, locks, and the search file behind the log.
#![allow(clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod inline_commits;
mod inspect;
mod keys;
mod lists;
mod plans;
mod restart;
mod schema;
mod side_files;

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use sederunt_core::event::{AppendOutcome, EventQuery, EventType, NewEvent};
use sederunt_core::ids::{Incarnation, SessionId, UserId};
use sederunt_core::json::Json;
use sederunt_core::live::Hub;
use sederunt_core::people::{Audit, User};
use sederunt_core::session::decide::{self, OpenSession};
use sederunt_core::session::{SessionType, SourceKind};
use sederunt_core::store::{
    ChangePart, ClaimStore as _, CrisisStore as _, EventStore as _, Fork, Guard, MemoryStore as _,
    PartTarget, RatingStore as _, Record, SearchQuery, SearchStore as _, SessionListStore as _,
    SessionRowStore as _, SweepStore as _, TalkStore as _, TenantRowStore as _, Update, Write,
};
use sederunt_core::{Actor, Role};
use smallvec::smallvec;
use tempfile::TempDir;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn tenant() -> TenantId {
    TenantId::stored("default")
}

fn id(text: &str) -> SessionId {
    SessionId::stored(text)
}

fn open(place: Place) -> Result<Arc<SqliteStore>> {
    SqliteStore::open(SqliteOptions {
        place,
        clock: Arc::new(SystemClock::default()),
        hub: Arc::new(Hub::default()),
    })
}

fn in_memory() -> Arc<SqliteStore> {
    open(Place::Memory).unwrap()
}

fn in_directory(directory: &TempDir) -> Result<Arc<SqliteStore>> {
    open(Place::Directory(directory.path().join("store")))
}

fn message(text: &str) -> NewEvent {
    let content = Json::of(&serde_json::json!([{ "type": "text", "text": text }])).unwrap();
    NewEvent { content: Some(content), ..NewEvent::engine(EventType::known("user.message"), None) }
}

fn new_session(name: &str) -> ChangePart {
    let wish = OpenSession { session_type: Some(SessionType::Mixed), ..OpenSession::default() };
    let new =
        decide::open(&Actor::local(SourceKind::Api), id(name), wish, &sederunt_core::ids::RandomIds).unwrap();
    ChangePart { on: PartTarget::New(Box::new(new)), guard: Guard::default(), writes: smallvec![] }
}

fn on(name: &str, write: Write) -> ChangePart {
    ChangePart { on: PartTarget::Session(id(name)), guard: Guard::default(), writes: smallvec![write] }
}

fn change(parts: impl IntoIterator<Item = ChangePart>) -> Change {
    parts.into_iter().fold(Change::new(tenant()), Change::part)
}

fn appending(name: &str, texts: &[&str]) -> Change {
    change([on(name, Write::Append(texts.iter().map(|text| message(text)).collect()))])
}

/// Fails in the database, not in a check: both parts find the name free.
fn poisoned() -> Change {
    change([new_session("twin"), new_session("twin")])
}

impl SqliteStore {
    async fn made(self: &Arc<Self>, name: &str) -> Incarnation {
        self.commit(change([new_session(name)])).await.unwrap().parts[0].head.incarnation
    }

    async fn texts(&self, name: &str) -> Vec<String> {
        let page = self.events(&tenant(), &id(name), EventQuery::default()).await.unwrap();
        page.events.iter().map(|event| event.text().unwrap()).collect()
    }

    /// Everything that is committed by `queue` lands in one group: the writer is held until then.
    async fn in_one_group<T: Send + 'static>(
        self: &Arc<Self>,
        queue: impl IntoIterator<Item = BoxFuture<'static, T>>,
    ) -> Vec<T> {
        let (release, held) = mpsc::channel::<()>();
        let (started, waits) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        let store = self.clone();
        let hold = tokio::spawn(async move {
            let held = move |_: &mut writer::WriteTransaction<'_>| {
                let _ = started.send(());
                let _ = held.lock().recv_timeout(PATIENCE);
                Ok::<(), fault::WorkError<Error>>(())
            };
            store.writer.run(held).await
        });
        tokio::task::spawn_blocking(move || waits.recv_timeout(PATIENCE)).await.unwrap().unwrap();
        let mut running = Vec::new();
        for (n, one) in queue.into_iter().enumerate() {
            running.push(tokio::spawn(one));
            self.until(|store| store.writer.waiting() > n).await;
        }
        release.send(()).unwrap();
        drop(release);
        hold.await.unwrap().unwrap();
        let mut answers = Vec::new();
        for one in running {
            answers.push(one.await.unwrap());
        }
        answers
    }

    async fn until(self: &Arc<Self>, true_of: impl Fn(&Self) -> bool) {
        let begun = std::time::Instant::now();
        while !true_of(self) {
            assert!(begun.elapsed() < PATIENCE, "waited for too long");
            tokio::task::yield_now().await;
        }
    }

    fn committing(self: &Arc<Self>, change: Change) -> BoxFuture<'static, Result<CommitResult, Refusal>> {
        let store = self.clone();
        async move { store.commit(change).await }.boxed()
    }

    async fn hits(&self, word: &str) -> Vec<(String, Option<u64>)> {
        self.index_now().await.unwrap();
        let query = SearchQuery { words: vec![word.into()], seen_by: None, after: None, limit: 10 };
        let page = self.search(&tenant(), query).await.unwrap();
        page.items.into_iter().map(|hit| (hit.session.to_string(), hit.sequence)).collect()
    }

    async fn count(&self, table: &'static str) -> i64 {
        self.read_inline(|db| db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)))
            .await
            .unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_the_database_refuses_fails_alone() {
    let store = in_memory();
    store.made("s").await;
    let answers = store
        .in_one_group([
            store.committing(appending("s", &["one"])),
            store.committing(poisoned()),
            store.committing(appending("s", &["two"])),
        ])
        .await;
    assert!(matches!(&answers[1], Err(Refusal::Rejected(Error::Internal(_)))), "{:?}", answers[1]);
    for (answer, sequence) in [(&answers[0], 1), (&answers[2], 2)] {
        assert_eq!(answer.as_ref().unwrap().parts[0].appended[0].sequence(), sequence);
    }
    assert_eq!(store.texts("s").await, ["one", "two"]);
    assert!(store.session(&tenant(), &id("twin")).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_one_change_harms_no_other() {
    let store = in_memory();
    store.made("s").await;
    let panics = {
        let store = store.clone();
        async move {
            let boom =
                |_: &mut writer::WriteTransaction<'_>| -> Result<CommitResult, fault::WorkError<Refusal>> {
                    panic!("a planted panic")
                };
            store.writer.run(boom).await
        }
        .boxed()
    };
    let answers = store.in_one_group([store.committing(appending("s", &["one"])), panics]).await;
    assert!(answers[0].is_ok());
    assert!(matches!(answers[1], Err(Refusal::Rejected(Error::Internal(_)))));
    store.commit(appending("s", &["two"])).await.unwrap();
    assert_eq!(store.texts("s").await, ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_writes_resume_by_themselves() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    store.made("s").await;
    let limit_pages = async |pages: &'static str| {
        let set = move |tx: &mut writer::WriteTransaction<'_>| {
            tx.db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
            Ok::<(), fault::WorkError<Error>>(())
        };
        store.writer.run(set).await.unwrap();
    };
    limit_pages("1").await;
    let long = "x".repeat(200_000);
    let refused = store.commit(appending("s", &[&long])).await;
    assert!(matches!(refused, Err(Refusal::Rejected(Error::Unavailable(_)))), "{refused:?}");
    assert_eq!(store.texts("s").await, Vec::<String>::new(), "reads go on");
    limit_pages("1000000").await;
    store.commit(appending("s", &[&long])).await.unwrap();
    assert_eq!(store.texts("s").await, [long]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_used_twice_in_one_group_has_one_effect() {
    let store = in_memory();
    store.made("s").await;
    let key = IdemKey { scope: [7; 16], body: [1; 16], note: None };
    let other_body = IdemKey { body: [2; 16], ..key };
    let keyed = |key| store.committing(appending("s", &["once"]).keyed(Some(key)));
    let answers = store.in_one_group([keyed(key), keyed(key), keyed(other_body)]).await;
    assert!(answers[0].as_ref().unwrap().replay.is_none());
    assert_eq!(answers[1].as_ref().unwrap().replay.as_ref().unwrap().sequences, [1]);
    assert!(matches!(answers[2], Err(Refusal::Rejected(Error::IdempotencyMismatch))));
    assert_eq!(store.texts("s").await, ["once"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_lives_as_long_as_something_refers_to_it() {
    let store = in_memory();
    let mut incarnation = store.made("trunk").await;
    store.commit(appending("trunk", &["1", "2", "3", "4"])).await.unwrap();
    for (from, name, at_sequence, text) in
        [("trunk", "branch", 3, "branch 4"), ("branch", "twig", 4, "twig 5")]
    {
        let mut part = new_session(name);
        if let PartTarget::New(new) = &mut part.on {
            new.fork_of = Some(Fork { session: id(from), incarnation, at_sequence });
        }
        incarnation = store.commit(change([part])).await.unwrap().parts[0].head.incarnation;
        store.commit(appending(name, &[text])).await.unwrap();
    }
    let twig = ["1", "2", "3", "branch 4", "twig 5"];
    assert_eq!(store.texts("twig").await, twig);
    assert_eq!(store.count("events").await, 6);

    store.commit(change([on("trunk", Write::Delete)])).await.unwrap();
    assert_eq!(store.count("events").await, 5, "what nobody refers to is gone");
    assert_eq!(store.texts("branch").await, ["1", "2", "3", "branch 4"]);
    store.commit(change([on("branch", Write::Delete)])).await.unwrap();
    assert_eq!(store.texts("twig").await, twig);
    store.commit(change([on("twig", Write::Delete)])).await.unwrap();
    assert_eq!((store.count("events").await, store.count("session_ranges").await), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_id_in_the_shared_beginning_counts() {
    let store = in_memory();
    let incarnation = store.made("trunk").await;
    let named = |text: &str, name: &str| {
        let event = NewEvent { external_event_id: Some(name.into()), ..message(text) };
        Write::Append(vec![event])
    };
    store.commit(change([on("trunk", named("1", "a"))])).await.unwrap();
    store.commit(change([on("trunk", named("2", "b"))])).await.unwrap();
    let mut part = new_session("fork");
    if let PartTarget::New(new) = &mut part.on {
        new.fork_of = Some(Fork { session: id("trunk"), incarnation, at_sequence: 1 });
    }
    store.commit(change([part])).await.unwrap();
    let again = store.commit(change([on("fork", named("again", "a"))])).await.unwrap();
    assert!(matches!(again.parts[0].appended[0], AppendOutcome::Repeat(1)));
    let beyond = store.commit(change([on("fork", named("new", "b"))])).await.unwrap();
    assert_eq!(beyond.parts[0].appended[0].sequence(), 2, "what came after the fork is not its past");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_writer_remembers_of_a_session_follows_a_merge_of_its_holder() {
    let store = in_memory();
    let user = |name: &str| User {
        id: UserId::stored(name),
        name: None,
        role: Role::Member,
        suspended: false,
        merged_into: None,
        known_by: None,
        told_at: None,
        created_at: Timestamp::default(),
        identities: Vec::new(),
    };
    let merge = Record::MergeUser { from: UserId::stored("ann"), into: UserId::stored("bob") };
    let mut part = new_session("s");
    if let PartTarget::New(new) = &mut part.on {
        new.head.holder = Some(UserId::stored("ann"));
    }
    let people = [user("ann"), user("bob")].map(Record::AddUser);
    store.commit(people.into_iter().fold(change([part]), Change::record)).await.unwrap();
    store.commit(appending("s", &["hers"])).await.unwrap();
    store.commit(change([]).record(merge)).await.unwrap();
    let done = store.commit(appending("s", &["his"])).await.unwrap();
    assert_eq!(done.parts[0].head.holder, Some(UserId::stored("bob")));
    assert_eq!(store.session(&tenant(), &id("s")).await.unwrap().unwrap().head, done.parts[0].head);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_opened_once_at_a_time() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    let refused = in_directory(&directory).unwrap_err();
    assert!(refused.to_string().contains("another process"), "{refused}");
    store.close().await;
    assert!(matches!(store.ready().await, Err(Error::Unavailable(_))), "a closed store says so");
    in_directory(&directory).unwrap();
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn no_other_user_may_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    store.made("s").await;
    let home = directory.path().join("store");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home), 0o700);
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(&home).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(mode(&entry.path()), 0o600, "{:?}", entry.path());
        names.push(entry.file_name().into_string().unwrap());
    }
    for name in ["threads.sqlite3-wal", "memory.sqlite3", "crisis.sqlite3", "session_feedback.sqlite3"] {
        assert!(names.contains(&name.to_owned()), "{name}: {names:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn words_are_found_again_after_a_stop_and_after_the_loss_of_their_file() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    store.made("s").await;
    store.made("gone").await;
    store.commit(appending("s", &["an okapi"])).await.unwrap();
    store.commit(appending("gone", &["another okapi"])).await.unwrap();
    assert_eq!(store.hits("okapi").await.len(), 2);
    let renamed = Update { title: Some(Some("quagga".into())), ..Update::default() };
    store.commit(change([on("s", Write::Update(Box::new(renamed)))])).await.unwrap();
    store.commit(change([on("gone", Write::Delete)])).await.unwrap();
    store.commit(appending("s", &["a second okapi"])).await.unwrap();
    store.close().await;

    let okapis = [("s".to_owned(), Some(2)), ("s".to_owned(), Some(1))];
    let store = in_directory(&directory).unwrap();
    assert_eq!(store.hits("okapi").await, okapis);
    assert_eq!(store.hits("quagga").await, [("s".to_owned(), None)]);
    assert_eq!(store.count("search.docs").await, 3, "nothing is kept of a deleted session");
    store.close().await;
    drop(store);

    for name in ["search.sqlite3", "search.sqlite3-wal", "search.sqlite3-shm"] {
        let _ = std::fs::remove_file(directory.path().join("store").join(name));
    }
    let store = in_directory(&directory).unwrap();
    assert_eq!(store.hits("okapi").await, okapis);
    assert_eq!(store.hits("quagga").await, [("s".to_owned(), None)]);
    store.close().await;
    drop(store);

    std::fs::write(directory.path().join("store/search.sqlite3"), "not a database at all".repeat(500))
        .unwrap();
    let store = in_directory(&directory).unwrap();
    assert_eq!(store.hits("okapi").await, okapis);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn the_index_stands_back_behind_those_who_write() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    store.made("s").await;
    // A round of the index is over, so its thread has begun.
    store.hits("okapi").await;
    let nice_of = |name: &str| {
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let stats =
            threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok());
        stats
            .filter_map(|stat| {
                let (names, numbers) = stat.split_once(") ")?;
                let nice = numbers.split(' ').nth(16)?.parse::<i32>().ok()?;
                names.split_once('(')?.1.starts_with(name).then_some(nice)
            })
            .collect::<Vec<_>>()
    };
    // Stores of other tests may be starting in this process; their indexers have not lowered their priority yet.
    let (index, writer) = (nice_of("sederunt-indexe"), nice_of("sederunt-writer"));
    assert!(index.iter().any(|index| *index > writer[0] || *index == 19), "{index:?} {writer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_words_of_a_deleted_session_are_gone_from_the_file() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    store.made("s").await;
    store.made("other").await;
    store.commit(appending("s", &["xylophagous wombats", "more wombats"])).await.unwrap();
    store.commit(appending("other", &["plain words"])).await.unwrap();
    assert_eq!(store.hits("xylophagous").await.len(), 1);
    store.commit(change([on("s", Write::Delete)])).await.unwrap();
    assert_eq!(store.hits("xylophagous").await.len(), 0);
    store.close().await;
    drop(store);
    for name in ["threads.sqlite3", "search.sqlite3"] {
        let bytes = std::fs::read(directory.path().join("store").join(name)).unwrap();
        let holds = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
        assert!(holds(b"plain"), "{name}");
        assert!(!holds(b"xylophagous") && !holds(b"wombats"), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_taken_under_load_is_whole_and_can_be_opened() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    store.made("s").await;
    store.commit(appending("s", &["an okapi"])).await.unwrap();
    let load = tokio::spawn({
        let store = store.clone();
        async move {
            for _ in 0..200 {
                store.commit(appending("s", &[&"x".repeat(5_000)])).await.unwrap();
            }
        }
    });
    let (copy, restored) = (directory.path().join("copy"), directory.path().join("restored"));
    let mut seen = (0, 0);
    store.backup(&copy, &mut |done, total| seen = (done, total)).unwrap();
    assert!(seen.0 == seen.1 && seen.1 > 0);
    load.await.unwrap();
    assert!(store.backup(&copy, &mut |_, _| {}).is_err(), "a copy is never written over another");

    SqliteStore::restore(&copy, &restored).unwrap();
    assert!(SqliteStore::restore(&copy, &restored).is_err(), "nor a store over another");
    let again = open(Place::Directory(restored)).unwrap();
    let page =
        again.events(&tenant(), &id("s"), EventQuery { limit: 1000, ..EventQuery::default() }).await.unwrap();
    let sequences: Vec<u64> = page.events.iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, (1..=page.last_sequence).collect::<Vec<_>>());
    assert_eq!(again.hits("okapi").await, [("s".to_owned(), Some(1))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_that_was_cut_short_is_finished_at_the_next_start() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    let beta = TenantId::stored("beta");
    let audit = Audit { actor: "operator".into(), action: "tenant.create", target: "beta".into() };
    store.create_tenant(&beta, audit).await.unwrap();
    for n in 0..60 {
        let mut made = change([new_session(&format!("s{n}"))]);
        made.tenant = beta.clone();
        store.commit(made).await.unwrap();
    }
    store.made("mine").await;
    let tk = store.writer.run(move |tx| tenants::remove_name(tx, &TenantId::stored("beta"))).await;
    let tk: i64 = tk.map_err(|error: Error| error).unwrap();
    let step = store.writer.run(move |tx| tenants::remove_step(tx, tk, &TenantId::stored("beta"))).await;
    assert!(!step.unwrap(), "the first step is not the last");
    store.close().await;

    let store = in_directory(&directory).unwrap();
    assert_eq!((store.count("session_heads").await, store.count("tenants").await), (1, 1));
}
