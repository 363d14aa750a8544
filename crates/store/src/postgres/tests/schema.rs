//! The schema: created once by parallel starts, refused when it is newer, inspected without a change.

use sederunt_core::store::{SearchQuery, TenantRowStore as _, UpkeepStore as _};

use super::*;

fn options(schema: &str, migrate: bool) -> PostgresOptions {
    PostgresOptions { schema: schema.into(), migrate, ..PostgresOptions::new(url(), Arc::default()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_may_start_at_once_on_nothing() {
    let schemas: Vec<String> = (0..2).map(|_| fresh_schema()).collect();
    let mut starting = tokio::task::JoinSet::new();
    for n in 0..10 {
        let options = PostgresOptions { pool_size: 2, ..options(&schemas[n % 2], true) };
        starting.spawn(PostgresStore::open(options));
    }
    let mut started = Vec::new();
    while let Some(store) = in_time("the starts", starting.join_next()).await {
        started.push(store.unwrap().unwrap());
    }
    for store in &started {
        assert_eq!(store.tenants().await.unwrap().len(), 1, "the tenant `default`, once");
        store.close().await;
    }
    for schema in &schemas {
        drop_schema(schema).await;
    }
}

#[tokio::test]
async fn a_schema_that_a_newer_program_wrote_is_refused() {
    with_store(async |scene| {
        scene.admin().await.batch_execute("INSERT INTO schema_history VALUES (999, 'future')").await.unwrap();
        for migrate in [true, false] {
            let refused = PostgresStore::open(options(&scene.schema, migrate)).await.unwrap_err();
            let cause = std::error::Error::source(&refused).unwrap().to_string();
            assert!(cause.contains("999"), "{cause}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_schema_that_is_not_there_is_made_only_when_asked_for() {
    let schema = fresh_schema();
    let refused = PostgresStore::open(options(&schema, false)).await.unwrap_err();
    let cause = std::error::Error::source(&refused).unwrap().to_string();
    assert!(cause.contains("migrate"), "{cause}");
    let made = PostgresStore::open(options(&schema, true)).await.unwrap();
    made.close().await;
    let found = PostgresStore::open(options(&schema, false)).await.unwrap();
    assert_eq!(found.vitals().await.unwrap().schema_version, VERSION);
    found.close().await;
    drop_schema(&schema).await;
}

#[tokio::test]
async fn a_schema_of_the_first_version_is_brought_forward_with_what_it_holds() {
    first_version_brought_forward(url()).await;
}

/// The policies bind the owner of the tables too.
#[tokio::test]
async fn a_login_that_is_no_superuser_makes_the_schema_and_brings_it_forward() {
    with_store(async |_| {
        let (admin, name) = (admin("public").await, fresh_schema());
        let database: String = admin.query_one("SELECT current_database()::text", &[]).await.unwrap().get(0);
        admin
            .batch_execute(&format!(
                "CREATE ROLE {name} LOGIN NOSUPERUSER NOBYPASSRLS CREATEROLE; \
                 GRANT CREATE ON DATABASE {database} TO {name}"
            ))
            .await
            .unwrap();
        let address = url();
        let (_, place) = address.split_once('@').expect("a URL with a login");
        first_version_brought_forward(format!("postgres://{name}@{place}")).await;
        admin.batch_execute(&format!("DROP OWNED BY {name}; DROP ROLE {name}")).await.unwrap();
    })
    .await;
}

async fn first_version_brought_forward(url: String) {
    let schema = fresh_schema();
    let before = open_at(url.clone(), &schema).await;
    before.tenant_named("ours").await;
    before.open("ours", "s").await;
    before.index_now().await.unwrap();
    before.close().await;
    let client = admin(&schema).await;
    let apart = schemas(&schema)[1..].join(", ");
    let back = format!(
        "{WITHOUT_LINKS} DROP SCHEMA {apart} CASCADE; DROP POLICY app ON shares; CREATE POLICY app ON shares USING (true); \
         DROP TABLE docs, doc_facets, approvals, talks, installation, feedback_events, feedback_names, \
             feedback_sessions, lessons, lesson_words, reply_pieces, departures, responses, browser_sessions, link_codes, documents, document_patches, \
             channels, channel_updates, channel_conversations, channel_deliveries; \
         ALTER TABLE users DROP COLUMN known_by, DROP COLUMN told_at; ALTER TABLE api_keys DROP COLUMN who, DROP COLUMN threads; \
         ALTER TABLE sessions DROP COLUMN id; ALTER TABLE session_heads ADD UNIQUE (tk, id); \
         ALTER TABLE sessions DROP COLUMN run; ALTER TABLE shares DROP COLUMN view_id, DROP COLUMN user_id; DROP INDEX shares_time; \
         ALTER TABLE search_docs DROP COLUMN upto; ALTER TABLE session_heads DROP COLUMN bytes; \
         DROP INDEX one_running_bridge, bridges_of_holder; DROP POLICY human_insert ON events; DROP POLICY human_update ON events; DROP POLICY copy ON events; DELETE FROM schema_history WHERE version > 1"
    );
    client.batch_execute(&back).await.unwrap();

    let refused = PostgresStore::open(options(&schema, false)).await.unwrap_err();
    let cause = std::error::Error::source(&refused).unwrap().to_string();
    assert!(cause.contains("migrate"), "{cause}");
    let after = open_at(url, &schema).await;
    assert_eq!(after.vitals().await.unwrap().schema_version, VERSION);
    let kept = after.session(&tenant("ours"), &id("s")).await.unwrap().unwrap();
    assert_eq!((kept.details.title.as_deref(), kept.details.run), (Some("a title"), None));
    after.index_now().await.unwrap();
    let query = SearchQuery { words: vec!["title".into()], seen_by: None, after: None, limit: 10 };
    assert_eq!(after.search(&tenant("ours"), query).await.unwrap().items.len(), 1, "words are found again");
    let records = Change::new(tenant("ours")).record(putting("d", &[])).record(asking("a", "s", None));
    after.commit(records).await.unwrap();
    assert!(after.approval(&tenant("ours"), "a").await.unwrap().is_some());
    after.close().await;
    let sql = "SELECT count(*) FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
         WHERE s.nspname = current_schema() AND c.relrowsecurity AND NOT c.relforcerowsecurity";
    assert_eq!(count(&client, sql).await, 0, "every wall stands again");
    drop_schema(&schema).await;
}

#[tokio::test]
async fn an_address_or_schema_that_cannot_be_is_refused_with_its_field() {
    for (url, schema, field) in [
        ("postgres://localhost/x", "Upper", "schema"),
        ("postgres://localhost/x", "a;b", "schema"),
        ("postgres://localhost/x", "", "schema"),
        ("postgres://localhost/x", "pg_x", "schema"),
        ("not an address", "fine", "store"),
    ] {
        let refused = PostgresStore::open(PostgresOptions {
            schema: schema.into(),
            ..PostgresOptions::new(url, Arc::default())
        });
        match refused.await.unwrap_err() {
            sederunt_core::Error::Invalid { field: named, .. } => assert_eq!(named, field, "{url} {schema}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_database_that_cannot_be_reached_is_unavailable() {
    let options = PostgresOptions::new("postgres://postgres@127.0.0.1:1/postgres", Arc::default());
    assert_eq!(PostgresStore::open(options).await.unwrap_err().code(), "unavailable");
}
