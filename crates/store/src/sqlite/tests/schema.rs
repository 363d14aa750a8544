//! The schema: brought forward, and refused when it is newer.

use sederunt_core::access::ActingUser;
use sederunt_core::session::Status;
use sederunt_core::session::query::{SessionQuery, TypeFilter};
use sederunt_core::store::ShareStore as _;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn every_table_of_the_threads_goes_with_its_tenant_or_its_session() {
    let directory = TempDir::new().unwrap();
    in_directory(&directory).unwrap().close().await;
    let file = rusqlite::Connection::open(directory.path().join("store/threads.sqlite3")).unwrap();
    let mut found: Vec<String> = file
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<rusqlite::Result<_>>()
        .unwrap();
    // With the log, the metadata or the lesson that they are of; and what belongs to no tenant.
    let otherwise = [
        "events", "event_external", "document_patches", "session_ranges", "session_metadata", "lesson_words",
    ];
    let of_nobody = ["installation", "search_outbox", "talk_outbox"];
    let mut known: Vec<&str> =
        [&tenants::TENANT_TABLES[..], &sessions::SESSION_TABLES, &otherwise, &of_nobody].concat();
    found.sort_unstable();
    known.sort_unstable();
    // Share links belong to a session, or to a view of the tenant.
    known.dedup();
    assert_eq!(found, known);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_from_the_future_is_refused_and_left_alone() {
    let directory = TempDir::new().unwrap();
    in_directory(&directory).unwrap().close().await;
    let path = directory.path().join("store/threads.sqlite3");
    let newer = migrate::THREADS.len() + 1;
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch(&format!("PRAGMA user_version = {newer}")).unwrap();
    let refused = in_directory(&directory).unwrap_err();
    assert!(refused.to_string().contains("newer"), "{refused}");
    assert_eq!(migrate::version(&file).unwrap() as usize, newer);
}

/// Takes a closed store's file back to the first schema.
fn take_back(directory: &TempDir) {
    let file = rusqlite::Connection::open(directory.path().join("store/threads.sqlite3")).unwrap();
    file.execute_batch(
        "DROP TABLE approvals; DROP TABLE doc_facets; DROP TABLE docs; ALTER TABLE session_details DROP COLUMN run; \
         DROP TABLE talks; DROP TABLE talk_outbox; DROP TABLE installation; \
         DROP TABLE feedback_names; DROP TABLE feedback_sessions; DROP TABLE feedback_events; \
         DROP TABLE lesson_words; DROP TABLE lessons; DROP TABLE shares; CREATE TABLE shares ( \
            hk INTEGER PRIMARY KEY AUTOINCREMENT, tk INTEGER NOT NULL REFERENCES tenants (tk), id TEXT NOT NULL, \
            sk INTEGER NOT NULL REFERENCES session_heads (sk), hash BLOB NOT NULL UNIQUE, access TEXT NOT NULL, \
            created_by TEXT, created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, revoked_at INTEGER, \
            UNIQUE (tk, id)); \
         CREATE INDEX shares_by_session ON shares (sk); \
         INSERT INTO shares SELECT 7, tk, 'link', sk, x'01', 'read', 'ann', 1, 2, NULL FROM session_heads WHERE id = 's'; \
         DROP TABLE departures; DROP TABLE responses; DROP TABLE browser_sessions; DROP TABLE link_codes; DROP TABLE documents; DROP TABLE document_patches; \
         DROP TABLE channels; DROP TABLE channel_updates; DROP TABLE channel_conversations; DROP TABLE channel_deliveries; \
         DROP INDEX idempotency_by_scope; ALTER TABLE idempotency DROP COLUMN filed; \
         CREATE INDEX idempotency_by_scope ON idempotency (scope_head); DROP INDEX running; \
         ALTER TABLE session_heads DROP COLUMN counted; \
         CREATE INDEX running ON session_heads (tk, agent_slug) WHERE status = 'running'; \
         DROP INDEX sessions_by_work; DROP INDEX sessions_in_work; ALTER TABLE sessions DROP COLUMN in_work; \
         CREATE INDEX sessions_by_work ON sessions (tk, task_id, status, active_minute) WHERE task_id IS NOT NULL; \
         DROP INDEX one_running_bridge; DROP INDEX bridges_of_holder; \
         ALTER TABLE users DROP COLUMN known_by; ALTER TABLE users DROP COLUMN told_at; \
         ALTER TABLE keys DROP COLUMN who; ALTER TABLE keys DROP COLUMN threads; \
         ALTER TABLE session_tails DROP COLUMN bytes; PRAGMA user_version = 1",
    )
    .unwrap();
    let words = rusqlite::Connection::open(directory.path().join("store/search.sqlite3")).unwrap();
    let tables = "CREATE TABLE was_done AS SELECT sk FROM done; \
        DROP TABLE docs; DROP TABLE words; DROP TABLE done; DROP TABLE progress";
    words
        .execute_batch(&format!(
            "{tables}; {}; INSERT INTO done SELECT sk, 99 FROM was_done; DROP TABLE was_done; \
             UPDATE progress SET read_to = 4000000000000000; PRAGMA user_version = 1",
            migrate::SEARCH[0]
        ))
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_first_schema_is_brought_forward_with_what_it_holds() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    store.made("s").await;
    for status in [Status::Draft, Status::Pending] {
        let wish = OpenSession {
            session_type: Some(SessionType::Agent),
            status: Some(status),
            task_id: Some("t".into()),
            ..OpenSession::default()
        };
        let new = decide::open(
            &Actor::local(SourceKind::Api),
            id(status.as_str()),
            wish,
            &sederunt_core::ids::RandomIds,
        )
        .unwrap();
        let part =
            ChangePart { on: PartTarget::New(Box::new(new)), guard: Guard::default(), writes: smallvec![] };
        store.commit(change([part])).await.unwrap();
    }
    let under_a_key = || {
        let key = IdemKey { scope: [7; 16], body: [7; 16], note: None };
        appending("s", &["kept"]).keyed(Some(key))
    };
    store.commit(under_a_key()).await.unwrap();
    store.close().await;
    drop(store);
    take_back(&directory);
    let (copy, restored) = (directory.path().join("copy"), directory.path().join("restored"));
    SqliteStore::restore(&directory.path().join("store"), &copy).unwrap();
    SqliteStore::restore(&copy, &restored).unwrap();
    for place in [directory.path().join("store"), restored] {
        let store = open(Place::Directory(place)).unwrap();
        assert_eq!(store.vitals().await.unwrap().schema_version as usize, migrate::THREADS.len());
        assert!(store.commit(under_a_key()).await.unwrap().replay.is_some());
        assert_eq!(store.texts("s").await, ["kept"]);
        assert_eq!(store.hits("kept").await, [("s".to_owned(), Some(1))], "words are found again");
        let kept = store.share(&tenant(), "link", &ActingUser::Owner).await.unwrap().unwrap();
        assert_eq!(
            (kept.session, kept.view, kept.user),
            (Some(id("s")), None, None),
            "a link stays a session's"
        );
        let run = Update { run: Some(Json::empty_object()), ..Update::default() };
        store.commit(change([on("s", Write::Update(Box::new(run)))])).await.unwrap();
        let session = store.session(&tenant(), &id("s")).await.unwrap().unwrap();
        assert_eq!(session.details.run, Some(Json::empty_object()));
        assert_eq!((store.count("docs").await, store.count("approvals").await), (0, 0));
        let of_task = SessionQuery { task_id: Some("t".into()), ..SessionQuery::of(TypeFilter::All, 10) };
        let listed = store.sessions(&tenant(), of_task).await.unwrap().items;
        assert_eq!(listed.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["pending", "draft"]);
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_allows_one_running_bridge_of_a_person() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    for name in ["a", "b"] {
        store.made(name).await;
    }
    store.close().await;
    drop(store);
    let file = rusqlite::Connection::open(directory.path().join("store/threads.sqlite3")).unwrap();
    for holder in ["NULL", "'ada'"] {
        let run = |name: &str| {
            let sql = format!(
                "UPDATE session_heads SET is_bridge = 1, holder = {holder}, status = 'running' WHERE id = '{name}'"
            );
            file.execute(&sql, []).map_err(|error| error.sqlite_error_code())
        };
        assert_eq!(run("a"), Ok(1), "{holder}");
        assert_eq!(run("b"), Err(Some(rusqlite::ErrorCode::ConstraintViolation)), "{holder}");
        file.execute("UPDATE session_heads SET status = 'completed'", []).unwrap();
    }
}
