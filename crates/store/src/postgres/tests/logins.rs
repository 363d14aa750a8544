//! Two logins: one that owns the tables and migrates, one that serves and owns nothing; and what that is good for.

use tokio_postgres::error::SqlState;

use super::*;
use crate::postgres::connect;
use crate::postgres::inspect::inspect;

/// An installation with two logins, set up as OPERATING.md says.
struct Installation {
    schema: String,
}

impl Installation {
    async fn set_up() -> Self {
        let schema = fresh_schema();
        let (all, roles) = (connect::DbRole::names(&schema), connect::DbRole::serving_names(&schema));
        let mut sql = String::new();
        for role in &all {
            sql.push_str(&format!("CREATE ROLE {role} NOLOGIN NOINHERIT; "));
        }
        sql.push_str(&format!(
            "CREATE ROLE {schema}_owner LOGIN; CREATE ROLE {schema}_serve LOGIN NOINHERIT; GRANT {} TO {schema}_serve; ",
            roles.join(", ")
        ));
        let admin = admin("public").await;
        admin.batch_execute(&sql).await.unwrap();
        let database: String = admin.query_one("SELECT current_database()::text", &[]).await.unwrap().get(0);
        admin.batch_execute(&format!("GRANT CREATE ON DATABASE {database} TO {schema}_owner")).await.unwrap();
        Self { schema }
    }

    fn url(&self, login: &str) -> String {
        let address = url();
        let (_, place) = address.split_once('@').expect("a URL with a login");
        format!("postgres://{}_{login}@{place}", self.schema)
    }

    async fn migrate(&self) {
        assert_eq!(crate::postgres::migrate(&self.url("owner"), &self.schema).await.unwrap(), VERSION);
    }

    fn options(&self) -> PostgresOptions {
        let plain = PostgresOptions::new(self.url("serve"), Arc::default());
        PostgresOptions { schema: self.schema.clone(), pool_size: 4, ..plain }
    }

    /// A connection of the login that serves, as an attacker would have who got a statement into it.
    async fn serving_client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url("serve"), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("SET search_path TO {}", self.schema)).await.unwrap();
        client
    }

    async fn drop(self) {
        let (schema, roles) = (&self.schema, connect::DbRole::names(&self.schema).join(", "));
        let sql = format!(
            "DROP OWNED BY {schema}_owner, {schema}_serve, {roles} CASCADE;
             DROP ROLE {schema}_owner, {schema}_serve, {roles}"
        );
        admin("public").await.batch_execute(&sql).await.unwrap();
    }
}

async fn refusal(client: &Client, sql: &str) -> SqlState {
    let refused = client.batch_execute(sql).await.expect_err(sql);
    refused.code().unwrap_or_else(|| panic!("{sql}: {refused:?}")).clone()
}

#[tokio::test]
async fn a_login_that_owns_nothing_serves_and_cannot_lift_row_security() {
    let installation = Installation::set_up().await;
    let early = PostgresStore::open(installation.options()).await.unwrap_err();
    assert_eq!(early.code(), "denied");
    assert!(early.to_string().contains("sederunt migrate --migrate-store"), "{early}");
    installation.migrate().await;

    let scene = open_at(installation.url("serve"), &installation.schema).await;
    scene.tenant_named("ours").await;
    scene.open("ours", "s").await;
    scene.say("ours", "s", "hi").await;
    scene.index_now().await.unwrap();
    assert_eq!(scene.texts("ours", "s").await, ["hi"]);
    scene.delete_tenant(&tenant("ours")).await.unwrap();
    scene.tenant_named("ours").await;
    scene.open("ours", "s").await;
    scene.say("ours", "s", "hi").await;

    let client = installation.serving_client().await;
    for attack in [
        "ALTER TABLE events NO FORCE ROW LEVEL SECURITY",
        "ALTER TABLE events DISABLE ROW LEVEL SECURITY",
        "DROP POLICY app ON events",
        "CREATE POLICY mine ON events USING (true)",
        "SELECT content FROM events",
        "SELECT key FROM installation",
        "INSERT INTO schema_history VALUES (99, 'x')",
        "DROP TABLE events",
        &format!("SET ROLE {}_owner", installation.schema),
        &format!("GRANT {0}_owner TO {0}_serve", installation.schema),
        "SET ROLE postgres",
    ] {
        client.batch_execute("RESET ROLE").await.unwrap();
        // Without a role it does not even see the tables.
        let state = refusal(&client, attack).await;
        let told = [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_OBJECT];
        assert!(told.contains(&state), "{attack}: {state:?}");
        let as_app = format!("SET ROLE {}_app", installation.schema);
        client.batch_execute(&as_app).await.unwrap();
        match client.query(attack, &[]).await {
            Ok(rows) => assert!(rows.is_empty(), "{attack}"),
            Err(refused) => assert!(refused.as_db_error().is_some(), "{attack}"),
        }
    }
    assert_eq!(scene.texts("ours", "s").await, ["hi"], "and the store is whole");
    scene.close().await;

    let found = inspect(&installation.url("serve"), &installation.schema).await.unwrap();
    assert_eq!(found.schema_version, VERSION);
    assert!(found.login.excess().is_empty() && found.login.roles_untaken.is_empty(), "{:?}", found.login);
    let found = inspect(&installation.url("owner"), &installation.schema).await.unwrap();
    assert!(found.login.is_owner, "{:?}", found.login);

    // A newer program finds the schema older than it needs, and may not touch it.
    let admin = admin(&installation.schema).await;
    admin
        .execute("DELETE FROM schema_history WHERE version = $1", &[&i32::try_from(VERSION).unwrap()])
        .await
        .unwrap();
    let older = PostgresStore::open(installation.options()).await.unwrap_err();
    assert!(older.to_string().contains(&format!("has version {}", VERSION - 1)), "{older}");
    assert!(older.to_string().contains("sederunt migrate --migrate-store"), "{older}");

    installation.drop().await;
}

#[tokio::test]
async fn a_login_that_may_not_take_the_roles_is_told_the_grant() {
    let installation = Installation::set_up().await;
    installation.migrate().await;
    let schema = &installation.schema;
    let sql = format!("REVOKE {schema}_append FROM {schema}_serve");
    admin("public").await.batch_execute(&sql).await.unwrap();
    let refused = PostgresStore::open(installation.options()).await.unwrap_err();
    assert_eq!(refused.code(), "denied");
    assert!(refused.to_string().contains(&format!("GRANT {schema}_append TO {schema}_serve")), "{refused}");
    installation.drop().await;
}

#[tokio::test]
async fn the_login_of_one_installation_reads_nothing_of_another() {
    with_store(async |first| {
        let tk = first.tenant_named("ours").await;
        first.open("ours", "s").await;
        first.say("ours", "s", "hi").await;
        let second = Installation::set_up().await;
        second.migrate().await;
        let client = second.serving_client().await;
        for role in connect::DbRole::names(&first.schema) {
            let state = refusal(&client, &format!("SET ROLE {role}")).await;
            assert_eq!(state, SqlState::INSUFFICIENT_PRIVILEGE, "{role}");
        }
        for role in connect::DbRole::serving_names(&second.schema) {
            let sql = format!("SET ROLE {role}; SET app.tk TO '{tk}'; SET app.tks TO '{{{tk}}}'");
            client.batch_execute(&sql).await.unwrap();
            let state = refusal(&client, &format!("SELECT content FROM {}.events", first.schema)).await;
            assert_eq!(state, SqlState::INSUFFICIENT_PRIVILEGE, "{role}");
        }
        second.drop().await;
    })
    .await;
}

/// Until version 15 all installations of a server shared their roles.
#[tokio::test]
async fn a_store_whose_roles_were_shared_is_given_its_own() {
    with_store(async |scene| {
        scene.tenant_named("ours").await;
        scene.open("ours", "s").await;
        scene.say("ours", "s", "hi").await;
        let admin = scene.admin().await;
        for part in ["app", "scan", "append", "find"] {
            // Other tests of this server may be making them too.
            let made = admin.batch_execute(&format!("CREATE ROLE sederunt_{part} NOLOGIN")).await;
            if let Err(error) = made {
                assert!(error.as_db_error().is_some(), "{error}");
            }
        }
        // The step itself, the other way round.
        let step = include_str!("../migrations/V15__roles.sql");
        let back = step
            .replace("'sederunt_' || part", "'OURS' || part")
            .replace("'{schema}_' || part", "'sederunt_' || part")
            .replace("'OURS' || part", "'{schema}_' || part")
            .replace("{schema}", &scene.schema);
        admin.batch_execute(&back).await.unwrap();
        // What later steps made goes, so that they are taken again.
        let undone = "DROP TABLE departures, responses, browser_sessions, link_codes, documents, document_patches, channels, channel_updates,
                 channel_conversations, channel_deliveries;
             ALTER TABLE shares DROP COLUMN user_id; ALTER TABLE users DROP COLUMN known_by, DROP COLUMN told_at;
             ALTER TABLE api_keys DROP COLUMN who, DROP COLUMN threads;
             ALTER TABLE shares DROP CONSTRAINT shares_opens; DROP INDEX shares_view, shares_time;
             DROP INDEX one_running_bridge, bridges_of_holder; DROP POLICY human_insert ON events;
             DROP POLICY human_update ON events; DROP POLICY copy ON events;
             DROP INDEX approvals_expiry; DROP POLICY scan ON approvals;
             DELETE FROM schema_history WHERE version >= 15";
        admin.batch_execute(&format!("{WITHOUT_LINKS} {undone}")).await.unwrap();
        let policies = |of: &str| {
            format!(
                "SELECT count(*) FROM pg_policies WHERE schemaname LIKE '{}%' AND roles::text LIKE '%{of}\\_app%'",
                scene.schema
            )
        };
        let grants = "SELECT count(*) FROM information_schema.role_column_grants WHERE grantee LIKE 'sederunt\\_%'
             AND table_schema LIKE current_schema() || '%'";
        assert!(count(&admin, &policies("sederunt")).await > 0 && count(&admin, grants).await > 0);

        let again = open_at(url(), &scene.schema).await;
        assert_eq!(count(&admin, &policies("sederunt")).await, 0);
        assert!(count(&admin, &policies(&scene.schema)).await > 0);
        assert_eq!(count(&admin, grants).await, 0, "the shared roles keep nothing");
        again.say("ours", "s", "after").await;
        assert_eq!(again.texts("ours", "s").await, ["hi", "after"]);
        again.close().await;
    })
    .await;
}
