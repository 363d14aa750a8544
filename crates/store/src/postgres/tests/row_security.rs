//! Row-level security: what each role sees, and what it does not.

use sederunt_core::access::{ActingUser, ShareAccess};
use sederunt_core::definitions::DefinitionKind;
use sederunt_core::people::{Key, SecretHash, Share};
use sederunt_core::store::SearchQuery;
use tokio_postgres::error::SqlState;

use super::super::tenants::TENANT_TABLES;
use super::*;

/// Every table with rows of tenants, `tenants` among them.
pub(super) fn walled_tables() -> impl Iterator<Item = &'static str> {
    TENANT_TABLES.into_iter().chain(["tenants"])
}

/// Two tenants, each with a session, an event, a key, an audit trail and rows of every other table.
async fn two_tenants(scene: &Scene) -> (i32, i32) {
    let mut tks = Vec::new();
    for (n, name) in ["ours", "theirs"].into_iter().enumerate() {
        tks.push(scene.tenant_named(name).await);
        scene.open(name, "s").await;
        let mut said = message(&format!("said in {name}"));
        said.external_event_id = Some("x".into());
        scene.commit(append(name, "s", vec![said]).keyed(Some(key(1)))).await.unwrap();
        scene.commit(Change::new(tenant(name)).record(a_key(name, n))).await.unwrap();
        let defined = Change::new(tenant(name)).record(putting("d", &[("status", "active")]));
        scene.commit(defined.record(asking("a", "s", None))).await.unwrap();
        let talk = ChangePart {
            on: PartTarget::Session(id("s")),
            guard: Guard::default(),
            writes: smallvec![Write::Talk(Box::new(record_builders::seated()))],
        };
        let beside = Change::new(tenant(name))
            .part(talk)
            .record(Record::PutMemory(Box::new(record_builders::fact("m", "ann", "tea"))))
            .record(record_builders::thumb("fb_1"))
            .record(record_builders::adding("fbs_1", "fb_1", None))
            .record(record_builders::taught("lesson_1", "Keep answers short", None))
            .record(Record::AddRating(Box::new(record_builders::rating(1, "opaque", "2026-01-01T00:00:00Z"))))
            .record(Record::AddCrisis(Box::new(record_builders::crisis(
                1, "opaque", "2026-01-01T00:00:00Z",
            ))));
        scene.commit(beside).await.unwrap();
    }
    scene.index_now().await.unwrap();
    (tks[0], tks[1])
}

fn a_key(of: &str, n: usize) -> Record {
    let key = Key {
        id: CredentialId::stored(format!("key-{n}")),
        tenant: tenant(of),
        user: None,
        role: Role::Owner,
        prefix: None,
        rules: Default::default(),
        act_as: false,
        created_at: Timestamp::from_micros(1),
        expires_at: None,
        revoked_at: None,
    };
    Record::AddKey { key, hash: SecretHash::of(&format!("secret of {of}")) }
}

/// What happens to a statement under a role, with these settings, in a transaction of its own.
pub(super) async fn under(
    client: &Client,
    role: &str,
    settings: &[(&str, &str)],
    sql: &str,
) -> Result<u64, SqlState> {
    client.batch_execute(&format!("BEGIN; SET LOCAL ROLE {role}")).await.unwrap();
    for (name, value) in settings {
        client.execute("SELECT set_config($1, $2, true)", &[name, value]).await.unwrap();
    }
    let outcome = client.execute(sql, &[]).await;
    client.batch_execute("ROLLBACK").await.unwrap();
    outcome.map_err(|error| error.code().unwrap_or_else(|| panic!("{sql}: {error:?}")).clone())
}

#[tokio::test]
async fn without_a_tenant_the_app_role_sees_no_row() {
    with_store(async |scene| {
        two_tenants(scene).await;
        let admin = scene.admin().await;
        for table in walled_tables() {
            let all = format!("SELECT 1 FROM {table}");
            assert_eq!(under(&admin, &scene.role("app"), &[], &all).await, Ok(0), "{table}");
            // After a transaction the setting is empty, not missing.
            assert_eq!(under(&admin, &scene.role("app"), &[("app.tk", "")], &all).await, Ok(0), "{table}");
        }
        assert!(count(&admin, "SELECT count(*) FROM events").await > 0, "there is something to be seen");
    })
    .await;
}

#[tokio::test]
async fn one_tenant_neither_reads_nor_writes_the_rows_of_another() {
    with_store(async |scene| {
        let (ours, theirs) = two_tenants(scene).await;
        let admin = scene.admin().await;
        let as_ours = [("app.tk", &*ours.to_string())];
        for table in walled_tables() {
            for reached in [
                format!("SELECT 1 FROM {table} WHERE tk = {theirs}"),
                format!("UPDATE {table} SET tk = DEFAULT WHERE tk = {theirs}"),
                format!("DELETE FROM {table} WHERE tk = {theirs}"),
            ] {
                assert_eq!(under(&admin, &scene.role("app"), &as_ours, &reached).await, Ok(0), "{reached}");
            }
        }
        for planted in [
            format!("INSERT INTO events (tk, log, seq, type, at) VALUES ({theirs}, 1, 99, 'a.b', 0)"),
            format!("INSERT INTO participants VALUES ({theirs}, 1, 'eve')"),
            format!("UPDATE participants SET tk = {theirs}"),
            format!("INSERT INTO doc_facets VALUES ({theirs}, 'task', 'status', 'planted', 1)"),
            format!("UPDATE docs SET tk = {theirs}"),
            format!("UPDATE approvals SET tk = {theirs}"),
        ] {
            let outcome = under(&admin, &scene.role("app"), &as_ours, &planted).await;
            assert_eq!(outcome, Err(SqlState::INSUFFICIENT_PRIVILEGE), "{planted}");
        }
        assert_eq!(under(&admin, &scene.role("app"), &as_ours, "SELECT 1 FROM events").await, Ok(1));
    })
    .await;
}

#[tokio::test]
async fn the_append_role_cannot_read_what_was_said() {
    with_store(async |scene| {
        let (ours, theirs) = two_tenants(scene).await;
        let admin = scene.admin().await;
        let set = format!("{{{ours}}}");
        let as_ours = [("app.tks", &*set)];
        for hidden in [
            "SELECT content FROM events",
            "SELECT metadata FROM events",
            "SELECT seq FROM events",
            "SELECT preview FROM session_heads",
            "SELECT title FROM sessions",
            "SELECT metadata FROM sessions",
            "SELECT description FROM sessions",
            "SELECT 1 FROM api_keys",
            "SELECT 1 FROM users",
            "SELECT 1 FROM shares",
            "SELECT 1 FROM search_docs",
            "SELECT 1 FROM tenants",
            "SELECT 1 FROM docs",
            "SELECT 1 FROM doc_facets",
            "SELECT 1 FROM approvals",
            "DELETE FROM events",
            "DELETE FROM session_heads",
            "UPDATE events SET content = ''",
            "UPDATE session_heads SET status = 'idle'",
            "UPDATE session_heads SET epoch = 0",
            "UPDATE session_heads SET preview = preview || 'x'",
        ] {
            let outcome = under(&admin, &scene.role("append"), &as_ours, hidden).await;
            assert_eq!(outcome, Err(SqlState::INSUFFICIENT_PRIVILEGE), "{hidden}");
        }
        let heads = "SELECT sk FROM session_heads";
        assert_eq!(under(&admin, &scene.role("append"), &[], heads).await, Ok(0));
        assert_eq!(under(&admin, &scene.role("append"), &[("app.tks", "")], heads).await, Ok(0));
        assert_eq!(under(&admin, &scene.role("append"), &as_ours, heads).await, Ok(1));
        let insert = |tk: i32, kind: &str| {
            format!("INSERT INTO events (tk, log, seq, type, at) VALUES ({tk}, 1, 99, '{kind}', 0)")
        };
        assert_eq!(under(&admin, &scene.role("append"), &as_ours, &insert(ours, "a.b")).await, Ok(1));
        for planted in [insert(theirs, "a.b"), insert(ours, "human.marker")] {
            let outcome = under(&admin, &scene.role("append"), &as_ours, &planted).await;
            assert_eq!(outcome, Err(SqlState::INSUFFICIENT_PRIVILEGE), "{planted}");
        }
        let touched = format!("UPDATE session_heads SET last_sequence = 0 WHERE tk = {theirs}");
        assert_eq!(under(&admin, &scene.role("append"), &as_ours, &touched).await, Ok(0));
    })
    .await;
}

#[tokio::test]
async fn the_scan_role_sees_keys_and_states_alone() {
    with_store(async |scene| {
        two_tenants(scene).await;
        let admin = scene.admin().await;
        let seen =
            "SELECT tk, sk, status, priority, lease_until, deadline_at, last_sequence FROM session_heads";
        assert_eq!(under(&admin, &scene.role("scan"), &[], seen).await, Ok(2));
        assert_eq!(under(&admin, &scene.role("scan"), &[], "SELECT active_at FROM talks").await, Ok(2));
        let due = "SELECT tk, id, kind, state, expires_at FROM approvals";
        assert_eq!(under(&admin, &scene.role("scan"), &[], due).await, Ok(0), "only pending promotions");
        for hidden in [
            "SELECT holder FROM session_heads",
            "SELECT preview FROM session_heads",
            "SELECT title FROM sessions",
            "SELECT metadata FROM sessions",
            "SELECT 1 FROM events",
            "SELECT body FROM idempotency",
            "SELECT 1 FROM search_docs",
            "SELECT 1 FROM users",
            "SELECT 1 FROM api_keys",
            "SELECT 1 FROM docs",
            "SELECT 1 FROM doc_facets",
            "SELECT body FROM approvals",
            "SELECT assigned_to FROM approvals",
            "SELECT decided_by FROM approvals",
            "SELECT body FROM talks",
            "SELECT 1 FROM feedback_events",
            "SELECT 1 FROM feedback_names",
            "SELECT body FROM feedback_sessions",
            "SELECT author FROM feedback_sessions",
            "SELECT 1 FROM lessons",
            "SELECT 1 FROM lesson_words",
            "SELECT value FROM crisis_log",
            "SELECT id, session_id_opaque FROM session_feedback",
            "DELETE FROM session_feedback",
            &format!("SELECT body FROM {}_memory.memories", scene.schema),
            &format!("SELECT words FROM {}_memory.memories", scene.schema),
            &format!("SELECT owner FROM {}_memory.memories", scene.schema),
            &format!("SELECT vector FROM {}_memory.memories", scene.schema),
            &format!("SELECT 1 FROM {}_memory.memory_words", scene.schema),
            "UPDATE session_heads SET status = 'idle'",
            "DELETE FROM idempotency",
            "DELETE FROM tenants",
        ] {
            let outcome = under(&admin, &scene.role("scan"), &[], hidden).await;
            assert_eq!(outcome, Err(SqlState::INSUFFICIENT_PRIVILEGE), "{hidden}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_find_role_sees_numbers_and_words_alone_and_search_stays_in_its_tenant() {
    with_store(async |scene| {
        two_tenants(scene).await;
        let admin = scene.admin().await;
        assert!(under(&admin, &scene.role("find"), &[], "SELECT n FROM search_docs").await.unwrap() > 0);
        for hidden in ["SELECT seq FROM search_docs", "SELECT 1 FROM events", "SELECT 1 FROM session_heads"] {
            let outcome = under(&admin, &scene.role("find"), &[], hidden).await;
            assert_eq!(outcome, Err(SqlState::INSUFFICIENT_PRIVILEGE), "{hidden}");
        }
        for (of, hits) in [("ours", 1), ("theirs", 0)] {
            let words = vec!["ours".to_owned()];
            let query = SearchQuery { words, seen_by: None, after: None, limit: 10 };
            assert_eq!(scene.search(&tenant(of), query).await.unwrap().items.len(), hits, "{of}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_credential_is_found_by_its_hash_and_lends_only_its_own_tenant() {
    with_store(async |scene| {
        two_tenants(scene).await;
        let admin = scene.admin().await;
        let hash = hex::encode(SecretHash::of("secret of ours").0);
        let settings = [("app.hash", &*hash)];
        assert_eq!(under(&admin, &scene.role("app"), &settings, "SELECT 1 FROM api_keys").await, Ok(1));
        assert_eq!(under(&admin, &scene.role("app"), &settings, "SELECT 1 FROM tenants").await, Ok(0));
        assert_eq!(
            under(&admin, &scene.role("app"), &settings, "UPDATE api_keys SET role = 'owner'").await,
            Ok(0)
        );
        for of in ["ours", "theirs"] {
            let found = scene.key_by_hash(SecretHash::of(&format!("secret of {of}"))).await.unwrap().unwrap();
            assert_eq!(found.key.tenant, tenant(of));
        }
        assert!(scene.key_by_hash(SecretHash::of("no such secret")).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn every_table_of_a_tenant_is_walled_and_no_role_may_pass() {
    with_store(async |scene| {
        let admin = scene.admin().await;
        let rows = admin
            .query(
                "SELECT c.relname::text, c.relrowsecurity AND c.relforcerowsecurity
                 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 WHERE n.nspname = ANY ($1) AND c.relkind = 'r'
                     AND EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tk')",
                &[&schemas(&scene.schema).as_slice()],
            )
            .await
            .unwrap();
        let mut walled: Vec<String> = Vec::new();
        for row in rows {
            assert!(row.get::<_, bool>(1), "{} has no forced wall", row.get::<_, String>(0));
            walled.push(row.get(0));
        }
        let mut listed: Vec<_> = walled_tables().map(str::to_owned).collect();
        walled.sort_unstable();
        listed.sort_unstable();
        assert_eq!(walled, listed);
        let ours = format!("rolname LIKE '{}\\_%'", scene.schema.replace('_', "\\_"));
        let strong = format!(
            "SELECT count(*) FROM pg_roles WHERE {ours}
             AND (rolsuper OR rolbypassrls OR rolcanlogin OR rolcreaterole OR rolcreatedb)"
        );
        assert_eq!(count(&admin, &strong).await, 0);
        assert_eq!(count(&admin, &format!("SELECT count(*) FROM pg_roles WHERE {ours}")).await, 7);
        let owned = format!(
            "SELECT count(*) FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
             WHERE c.relnamespace = '{}'::regnamespace AND r.{ours}",
            scene.schema
        );
        assert_eq!(count(&admin, &owned).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_setting_does_not_outlive_its_transaction_on_a_pooled_connection() {
    with_store(async |scene| {
        two_tenants(scene).await;
        for _ in 0..20 {
            assert_eq!(scene.log("ours", "s").await.len(), 1);
        }
        for _ in 0..8 {
            let client = scene.store.context.app.get().await.unwrap();
            let rows = client.query("SELECT 1 FROM events", &[]).await.unwrap();
            assert!(rows.is_empty(), "a pooled connection remembers a tenant");
        }
    })
    .await;
}

#[tokio::test]
async fn a_removed_tenant_leaves_no_row() {
    with_store(async |scene| {
        let (ours, theirs) = two_tenants(scene).await;
        scene.delete_tenant(&tenant("theirs")).await.unwrap();
        let admin = scene.admin().await;
        for table in walled_tables() {
            let left = format!("SELECT count(*) FROM {table} WHERE tk = {theirs}");
            assert_eq!(count(&admin, &left).await, 0, "{table}");
        }
        assert_eq!(count(&admin, &format!("SELECT count(*) FROM events WHERE tk = {ours}")).await, 1);
        assert!(scene.key_by_hash(SecretHash::of("secret of theirs")).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_share_link_is_seen_by_its_maker_the_holder_owners_and_its_bearer() {
    with_store(async |scene| {
        let tk = scene.tenant_named("ours").await;
        let mut new = session("s");
        new.head.holder = Some(sederunt_core::UserId::stored("ann"));
        let part =
            ChangePart { on: PartTarget::New(Box::new(new)), guard: Guard::default(), writes: smallvec![] };
        scene.commit(Change::new(tenant("ours")).part(part)).await.unwrap();
        let hash = SecretHash::of("token");
        let share = Share {
            id: "link".into(),
            tenant: tenant("ours"),
            session: Some(id("s")),
            access: ShareAccess::Read,
            view: None,
            user: None,
            created_by: Some(sederunt_core::UserId::stored("o'bob")),
            created_at: Timestamp::from_micros(1),
            expires_at: Timestamp::from_micros(i64::MAX),
            revoked_at: None,
            tenant_suspended: false,
        };
        scene.commit(Change::new(tenant("ours")).record(Record::AddShare { share, hash })).await.unwrap();
        let user = |name: &str| ActingUser::User(sederunt_core::UserId::stored(name));
        for (by, seen) in [
            (user("o'bob"), true),
            (user("ann"), true),
            (user("eve"), false),
            (ActingUser::Owner, true),
            (ActingUser::Nobody, false),
        ] {
            let found = scene.share(&tenant("ours"), "link", &by).await.unwrap();
            assert_eq!(found.is_some(), seen, "{by:?}");
        }
        assert!(scene.share_by_hash(hash).await.unwrap().is_some());

        let admin = scene.admin().await;
        let (tk, hex) = (tk.to_string(), hex::encode(hash.0));
        let other = hex::encode(SecretHash::of("another token").0);
        for (settings, rows) in [
            (vec![], 0),
            (vec![("app.user", "o'bob")], 1),
            (vec![("app.user", "ann")], 1),
            (vec![("app.user", "eve")], 0),
            (vec![("app.user", "")], 0),
            (vec![("app.role", "owner")], 1),
            (vec![("app.role", "member")], 0),
            (vec![("app.hash", &*hex)], 1),
            (vec![("app.hash", &*other)], 0),
        ] {
            let settings: Vec<_> = [("app.tk", &*tk)].into_iter().chain(settings).collect();
            let seen = under(&admin, &scene.role("app"), &settings, "SELECT 1 FROM shares").await;
            assert_eq!(seen, Ok(rows), "{settings:?}");
            // The holder of the token may read what it opens, and no more.
            let changed = if settings.iter().any(|(name, _)| *name == "app.hash") { 0 } else { rows };
            for sql in ["DELETE FROM shares", "UPDATE shares SET access = 'submit'"] {
                let outcome = under(&admin, &scene.role("app"), &settings, sql).await;
                assert_eq!(outcome, Ok(changed), "{sql} {settings:?}");
            }
        }
        let planted =
            "INSERT INTO shares (tk, id, hash, sk, session_id, access, created_by, created_at, expires_at)
             SELECT tk, 'planted', 'x', sk, id, 'submit', 'o''bob', 0, 1 FROM session_heads";
        for (by, outcome) in [("eve", Err(SqlState::INSUFFICIENT_PRIVILEGE)), ("o'bob", Ok(1))] {
            let settings = [("app.tk", &*tk), ("app.user", by)];
            assert_eq!(under(&admin, &scene.role("app"), &settings, planted).await, outcome, "{by}");
        }

        let revoked = Record::RevokeShare { id: "link".into(), by: user("eve") };
        let outcome = scene.commit(Change::new(tenant("ours")).record(revoked)).await;
        assert_eq!(verdict(&outcome), "not_found");
        let revoked = Record::RevokeShare { id: "link".into(), by: user("ann") };
        scene.commit(Change::new(tenant("ours")).record(revoked)).await.unwrap();
        let gone = ChangePart {
            on: PartTarget::Session(id("s")),
            guard: Guard::default(),
            writes: smallvec![Write::Delete],
        };
        scene.commit(Change::new(tenant("ours")).part(gone)).await.unwrap();
        assert_eq!(count(&admin, "SELECT count(*) FROM shares").await, 0, "a link goes with its session");
    })
    .await;
}

#[tokio::test]
async fn a_link_to_a_view_alone_is_seen_by_its_maker_the_views_maker_owners_and_its_bearer() {
    with_store(async |scene| {
        let tk = scene.tenant_named("ours").await.to_string();
        let Record::PutDoc { mut doc, expects } = putting("form", &[]) else { unreachable!() };
        (doc.kind, doc.created_by) = (DefinitionKind::View, Some(sederunt_core::UserId::stored("ann")));
        scene.commit(Change::new(tenant("ours")).record(Record::PutDoc { doc, expects })).await.unwrap();
        let hash = SecretHash::of("token");
        let share = Share {
            id: "link".into(),
            tenant: tenant("ours"),
            session: None,
            access: ShareAccess::Submit,
            view: Some("form".into()),
            user: None,
            created_by: Some(sederunt_core::UserId::stored("bob")),
            created_at: Timestamp::from_micros(1),
            expires_at: Timestamp::from_micros(i64::MAX),
            revoked_at: None,
            tenant_suspended: false,
        };
        scene.commit(Change::new(tenant("ours")).record(Record::AddShare { share, hash })).await.unwrap();
        let admin = scene.admin().await;
        let hex = hex::encode(hash.0);
        for (setting, rows) in [
            (("app.user", "bob"), 1),
            (("app.user", "ann"), 1),
            (("app.user", "eve"), 0),
            (("app.user", ""), 0),
            (("app.role", "owner"), 1),
            (("app.hash", &*hex), 1),
        ] {
            let settings = [("app.tk", &*tk), setting];
            let seen = under(&admin, &scene.role("app"), &settings, "SELECT 1 FROM shares").await;
            assert_eq!(seen, Ok(rows), "{setting:?}");
            let changed = if setting.0 == "app.hash" { 0 } else { rows };
            let revoked =
                under(&admin, &scene.role("app"), &settings, "UPDATE shares SET revoked_at = 1").await;
            assert_eq!(revoked, Ok(changed), "{setting:?}");
        }
        let planted = "INSERT INTO shares (tk, id, hash, view_id, access, created_by, created_at, expires_at)
             SELECT tk, 'planted', 'x', id, 'submit', 'ann', 0, 1 FROM docs";
        for (by, outcome) in [("eve", Err(SqlState::INSUFFICIENT_PRIVILEGE)), ("ann", Ok(1))] {
            let settings = [("app.tk", &*tk), ("app.user", by)];
            assert_eq!(under(&admin, &scene.role("app"), &settings, planted).await, outcome, "{by}");
        }
        let nothing = "INSERT INTO shares (tk, id, hash, access, created_by, created_at, expires_at)
             SELECT tk, 'planted', 'x', 'submit', 'ann', 0, 1 FROM docs";
        let settings = [("app.tk", &*tk), ("app.user", "ann")];
        let outcome = under(&admin, &scene.role("app"), &settings, nothing).await;
        assert_eq!(outcome, Err(SqlState::CHECK_VIOLATION), "a link opens something");
    })
    .await;
}

/// Columns that name a user, in tables whose rows every user of the tenant may be shown as far as the database is concerned.
/// ADR 20 says why. A new column of this kind is put here and there, or its table is given a policy that knows the user.
const USERS_NAMED: [(&str, &str); 25] = [
    ("api_keys", "user_id"),
    ("browser_sessions", "user_id"),
    ("approvals", "assigned_to"),
    ("approvals", "decided_by"),
    ("audit", "actor"),
    ("departures", "user_id"),
    ("docs", "created_by"),
    ("events", "author"),
    ("feedback_events", "author"),
    ("feedback_names", "author"),
    ("feedback_sessions", "author"),
    ("identities", "external_id"),
    ("identities", "user_id"),
    ("lesson_words", "drawer"),
    ("memories", "drawer"),
    ("memories", "owner"),
    ("memory_words", "drawer"),
    ("lessons", "drawer"),
    ("participants", "user_id"),
    ("responses", "respondent_id"),
    ("session_feedback", "user_id_or_null"),
    ("session_heads", "holder"),
    ("users", "id"),
    ("users", "merged_into"),
    ("users", "name"),
];

#[tokio::test]
async fn the_tables_that_know_the_user_are_those_that_the_reasons_name() {
    with_store(async |scene| {
        let admin = scene.admin().await;
        let all = schemas(&scene.schema);
        let sql = "SELECT tablename || '/' || policyname FROM pg_policies WHERE schemaname = ANY ($1)
             AND coalesce(qual, '') ~ $2 ORDER BY 1";
        for (setting, policies) in [
            ("app[.]user", vec!["shares/app"]),
            ("app[.]role", vec!["shares/app"]),
            ("app[.]hash", vec!["api_keys/hashed", "browser_sessions/hashed", "shares/hashed", "shares/share"]),
            ("app[.]respondent", vec!["responses/share"]),
        ] {
            let rows = admin.query(sql, &[&all.as_slice(), &setting]).await.unwrap();
            let found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            assert_eq!(found, policies, "{setting}");
        }
        let sql = "SELECT c.relname::text, a.attname::text FROM pg_class c
             JOIN pg_namespace s ON s.oid = c.relnamespace
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
             WHERE c.relkind = 'r' AND s.nspname = ANY ($1) AND c.relname <> 'shares'
                 AND (a.attname ~ '(user|author|owner|holder|actor|merged_into|drawer|respondent_id)' OR a.attname ~ '_(by|to)$'
                     OR c.relname = 'users' AND a.attname IN ('id', 'name')
                     OR c.relname = 'identities' AND a.attname = 'external_id')
                 AND a.attname NOT IN ('done_to', 'embedded_by', 'known_by')";
        let rows = admin.query(sql, &[&all.as_slice()]).await.unwrap();
        let mut found: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let mut named = USERS_NAMED.map(|(table, column)| (table.to_owned(), column.to_owned())).to_vec();
        found.sort_unstable();
        named.sort_unstable();
        assert_eq!(found, named);

        // Roles that see several tenants at once are not shown users, but for what an append is judged by.
        let mut shown = Vec::new();
        for (table, column) in USERS_NAMED.into_iter().chain([("shares", "created_by"), ("shares", "user_id")]) {
            for part in ["append", "scan", "find", "relay", "share"] {
                let sql = format!("SELECT has_column_privilege($1, to_regclass('{table}'), '{column}', 'SELECT')");
                if admin.query_one(&sql, &[&scene.role(part)]).await.unwrap().get(0) {
                    shown.push((part, table, column));
                }
            }
        }
        shown.sort_unstable();
        assert_eq!(shown, [("append", "participants", "user_id"), ("append", "session_heads", "holder")]);
    })
    .await;
}

#[tokio::test]
async fn no_statement_of_one_user_reaches_the_share_links_of_another() {
    with_store(async |scene| {
        let tk = scene.tenant_named("ours").await.to_string();
        for (user, n) in [("ann", 1), ("eve", 2)] {
            let mut new = session(&format!("of {user}"));
            new.head.holder = Some(sederunt_core::UserId::stored(user));
            let part = ChangePart { on: PartTarget::New(Box::new(new)), guard: Guard::default(), writes: smallvec![] };
            let share = Share {
                id: format!("link of {user}"),
                tenant: tenant("ours"),
                session: Some(id(&format!("of {user}"))),
                access: ShareAccess::Read,
                view: None,
                user: None,
                created_by: Some(sederunt_core::UserId::stored(user)),
                created_at: Timestamp::from_micros(n),
                expires_at: Timestamp::from_micros(i64::MAX),
                revoked_at: None,
                tenant_suspended: false,
            };
            let hash = SecretHash::of(user);
            scene.commit(Change::new(tenant("ours")).part(part)).await.unwrap();
            scene.commit(Change::new(tenant("ours")).record(Record::AddShare { share, hash })).await.unwrap();
        }
        let admin = scene.admin().await;
        admin.batch_execute("ANALYZE shares").await.unwrap();
        let learned = format!(
            "SELECT count(*) FROM pg_stats WHERE schemaname = '{}' AND tablename = 'shares'",
            scene.schema
        );
        assert!(count(&admin, &learned).await > 0, "the planner has learned something");
        let settings = [("app.tk", &*tk), ("app.user", "eve")];
        let hers = "id = 'link of eve'";
        for (sql, outcome) in [
            ("SELECT 1 FROM shares".to_owned(), Ok(1)),
            (format!("SELECT 1 FROM shares WHERE NOT {hers}"), Ok(0)),
            ("SELECT 1 FROM session_heads h JOIN shares s USING (tk, sk)".to_owned(), Ok(1)),
            ("SELECT 1 FROM (SELECT count(*) AS n FROM shares) c WHERE n > 1".to_owned(), Ok(0)),
            (format!("UPDATE shares SET revoked_at = 1 WHERE NOT {hers} RETURNING id"), Ok(0)),
            (format!("DELETE FROM shares WHERE NOT {hers} RETURNING id"), Ok(0)),
            ("SELECT 1 FROM shares WHERE NOT (created_by = 'eve') FOR UPDATE".to_owned(), Ok(0)),
            // The planner's statistics on values are hidden from roles that do not see all rows.
            (format!("SELECT 1 FROM pg_stats WHERE schemaname = '{}' AND tablename = 'shares'", scene.schema), Ok(0)),
            (
                "INSERT INTO shares SELECT * FROM shares ON CONFLICT DO NOTHING".to_owned(),
                Ok(0),
            ),
            (
                "INSERT INTO shares (tk, id, hash, sk, session_id, access, created_by, created_at, expires_at)
                 SELECT tk, 'link of ann', 'x', sk, id, 'read', 'eve', 0, 1 FROM session_heads WHERE holder = 'eve'
                 ON CONFLICT (tk, id) DO UPDATE SET created_by = 'eve'"
                    .to_owned(),
                Err(SqlState::INSUFFICIENT_PRIVILEGE),
            ),
            ("UPDATE shares SET created_by = 'ann', sk = 0".to_owned(), Err(SqlState::INSUFFICIENT_PRIVILEGE)),
        ] {
            assert_eq!(under(&admin, &scene.role("app"), &settings, &sql).await, outcome, "{sql}");
        }
        for part in ["append", "scan", "find", "relay"] {
            let everybody = [("app.tk", &*tk), ("app.tks", &*format!("{{{tk}}}")), ("app.role", "owner")];
            let outcome = under(&admin, &scene.role(part), &everybody, "SELECT 1 FROM shares").await;
            assert_eq!(outcome, Err(SqlState::INSUFFICIENT_PRIVILEGE), "{part}");
        }
    })
    .await;
}
