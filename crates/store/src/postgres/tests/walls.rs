//! Walls inside a tenant, as statements under the roles meet them: each list says who gets through and who does not.

use sederunt_core::UserId;
use sederunt_core::access::ShareAccess;
use sederunt_core::definitions::DefinitionKind;
use sederunt_core::event::EventPage;
use sederunt_core::people::{LinkReach, SecretHash, Share};
use sederunt_core::response::{ResponseRow, ResponseState};
use sederunt_core::store::Fork;
use sederunt_core::view::Respondent;
use tokio_postgres::error::SqlState;

use super::row_security::{under, walled_tables};
use super::*;

impl Scene {
    /// A bridge of a person, in this status. Returns the number of its log.
    async fn bridge(&self, of: &str, name: &str, holder: Option<&str>, status: Status) -> i64 {
        let mut new = session(name);
        new.head = Head {
            is_bridge: true,
            ..Head::blank(
                Incarnation::drawn(&RandomIds),
                SessionType::Mixed,
                status,
                holder.map(UserId::stored),
            )
        };
        let part =
            ChangePart { on: PartTarget::New(Box::new(new)), guard: Guard::default(), writes: smallvec![] };
        self.commit(Change::new(tenant(of)).part(part)).await.unwrap();
        let log = format!("SELECT sk FROM sessions WHERE id = '{name}'");
        count(&self.admin().await, &log).await
    }
}

#[tokio::test]
async fn what_a_person_records_goes_into_their_own_running_bridge_alone() {
    with_store(async |scene| {
        let (ours, theirs) = (scene.tenant_named("ours").await, scene.tenant_named("theirs").await);
        scene.open("ours", "talk").await;
        let admin = scene.admin().await;
        let talk = count(&admin, "SELECT sk FROM sessions WHERE id = 'talk'").await;
        let ada = scene.bridge("ours", "ada", Some("ada"), Status::Running).await;
        let ended = scene.bridge("ours", "ended", Some("ada"), Status::Completed).await;
        let bea = scene.bridge("ours", "bea", Some("bea"), Status::Running).await;
        let nobodys = scene.bridge("ours", "nobodys", None, Status::Running).await;
        let foreign = scene.bridge("theirs", "foreign", Some("ada"), Status::Running).await;
        let insert = |tk: i32, log: i64, kind: &str| {
            format!("INSERT INTO events (tk, log, seq, type, at) VALUES ({tk}, {log}, 99, '{kind}', 0)")
        };
        let (app, tk) = (scene.role("app"), ours.to_string());
        let as_ada = [("app.tk", &*tk), ("app.user", "ada")];
        let (as_nobody, unset) = ([("app.tk", &*tk), ("app.user", "")], [("app.tk", &*tk)]);
        for (who, log) in [(&as_ada[..], ada), (&as_nobody, nobodys), (&unset, nobodys)] {
            assert_eq!(under(&admin, &app, who, &insert(ours, log, "human.marker")).await, Ok(1), "{who:?}");
        }
        let refused = Err(SqlState::INSUFFICIENT_PRIVILEGE);
        for (who, log) in [
            (&as_ada[..], ended),
            (&as_ada, bea),
            (&as_ada, nobodys),
            (&as_ada, talk),
            (&as_ada, foreign),
            (&as_nobody, ada),
            (&unset, ada),
            (&unset, talk),
        ] {
            let outcome = under(&admin, &app, who, &insert(ours, log, "human.navigate")).await;
            assert_eq!(outcome, refused, "{who:?} {log}");
        }
        let outcome = under(&admin, &app, &as_ada, &insert(theirs, foreign, "human.marker")).await;
        assert_eq!(outcome, refused, "another tenant's");
        // Other events are not asked, and none becomes one of these.
        admin.batch_execute(&insert(ours, talk, "a.b")).await.unwrap();
        assert_eq!(under(&admin, &app, &unset, &insert(ours, bea, "a.b")).await, Ok(1));
        let forged = format!("UPDATE events SET type = 'human.marker' WHERE log = {talk}");
        assert_eq!(under(&admin, &app, &as_ada, &forged).await, refused);
        let plain = format!("UPDATE events SET type = 'a.c' WHERE log = {talk}");
        assert_eq!(under(&admin, &app, &as_ada, &plain).await, Ok(1));
    })
    .await;
}

#[tokio::test]
async fn the_role_of_copies_adds_events_of_one_tenant_and_does_nothing_else() {
    with_store(async |scene| {
        let (ours, theirs) = (scene.tenant_named("ours").await, scene.tenant_named("theirs").await);
        let ended = scene.bridge("ours", "ended", Some("ada"), Status::Completed).await;
        let (admin, role, tk) = (scene.admin().await, scene.role("copy"), ours.to_string());
        let insert = |tk: i32, kind: &str| {
            format!("INSERT INTO events (tk, log, seq, type, at) VALUES ({tk}, {ended}, 99, '{kind}', 0)")
        };
        let one = [("app.tk", &*tk)];
        for kind in ["human.marker", "a.b"] {
            assert_eq!(under(&admin, &role, &one, &insert(ours, kind)).await, Ok(1), "{kind}");
            for (settings, tk) in [(&one[..], theirs), (&[], ours), (&[("app.tk", "")], ours)] {
                let outcome = under(&admin, &role, settings, &insert(tk, kind)).await;
                assert_eq!(outcome, Err(SqlState::INSUFFICIENT_PRIVILEGE), "{kind} {settings:?}");
            }
        }
        for table in walled_tables() {
            let column = if table == "tenants" { "id" } else { "tk" };
            for sql in [
                format!("SELECT {column} FROM {table}"),
                format!("UPDATE {table} SET {column} = {column}"),
                format!("DELETE FROM {table}"),
                format!("INSERT INTO {table} DEFAULT VALUES"),
            ] {
                let outcome = under(&admin, &role, &one, &sql).await;
                // An empty event has no log, and tables in schemas of their own are not even found.
                let is_refused =
                    [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::UNDEFINED_TABLE].map(Err).contains(&outcome)
                        || (table == "events" && sql.starts_with("INSERT") && outcome.is_err());
                assert!(is_refused, "{sql}: {outcome:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn the_database_allows_one_running_bridge_of_a_person() {
    with_store(async |scene| {
        scene.tenant_named("ours").await;
        scene.tenant_named("theirs").await;
        let admin = scene.admin().await;
        for holder in [Some("ada"), None] {
            let name = holder.unwrap_or("nobody");
            scene.bridge("ours", name, holder, Status::Running).await;
            scene
                .bridge("theirs", &format!("{name}'s elsewhere").replace('\'', ""), holder, Status::Running)
                .await;
            let ended = format!("{name}-ended");
            scene.bridge("ours", &ended, holder, Status::Completed).await;
            let second = format!("UPDATE session_heads SET status = 'running' WHERE id = '{ended}'");
            let outcome = admin.execute(&second, &[]).await.map_err(|error| error.code().cloned());
            assert_eq!(outcome, Err(Some(SqlState::UNIQUE_VIOLATION)), "{holder:?}");
        }
    })
    .await;
}

/// What the role of links may read at all: the columns by table. It writes nothing.
const LINK_READS: [(&str, &[&str]); 6] = [
    ("events", &["at", "content", "log", "seq", "tk", "type"]),
    ("responses", &["sk", "state", "tk", "view_id"]),
    ("session_heads", &["id", "incarnation", "last_sequence", "sk", "status", "tk"]),
    ("session_ranges", &["from_seq", "log", "sk", "tk", "to_seq"]),
    ("sessions", &["id", "result", "sk", "title", "tk"]),
    ("shares", &["sk", "tk", "view_id"]),
];

/// The types of the events that it reads.
const LINK_EVENTS: [&str; 2] = ["agent.message", "user.message"];

fn hash(token: &str) -> String {
    hex::encode(SecretHash::of(token).0)
}

/// A link; `token` is its id too.
fn link(token: &str, session: Option<&str>, view: Option<&str>) -> Share {
    Share {
        id: token.into(),
        tenant: tenant("ours"),
        session: session.map(id),
        access: ShareAccess::Submit,
        view: view.map(Into::into),
        user: None,
        created_by: None,
        created_at: Timestamp::from_micros(1),
        expires_at: Timestamp::from_micros(i64::MAX),
        revoked_at: None,
        tenant_suspended: false,
    }
}

async fn share(scene: &Scene, of: &str, share: Share) {
    let hash = SecretHash::of(&share.id);
    let share = Share { tenant: tenant(of), ..share };
    scene.commit(Change::new(tenant(of)).record(Record::AddShare { share, hash })).await.unwrap();
}

/// A session with events of several types, of which two are messages.
async fn spoken(scene: &Scene, of: &str, name: &str) {
    scene.open(of, name).await;
    let kinds = ["user.message", "agent.message", "agent.thinking", "agent.tool_call", "a.b"];
    let events =
        kinds.map(|kind| NewEvent { kind: EventType::known(kind), ..message(&format!("{kind} in {name}")) });
    scene.commit(append(of, name, events.to_vec())).await.unwrap();
}

async fn view(scene: &Scene, of: &str, name: &str) {
    let Record::PutDoc { mut doc, expects } = putting(name, &[]) else { unreachable!() };
    doc.kind = DefinitionKind::View;
    scene.commit(Change::new(tenant(of)).record(Record::PutDoc { doc, expects })).await.unwrap();
}

async fn respond(scene: &Scene, of: &str, name: &str, view: &str, who: &str, is_anonymous: bool) {
    let mut new = session(name);
    (new.head.session_type, new.head.is_talk) = (SessionType::Response, false);
    let part =
        ChangePart { on: PartTarget::New(Box::new(new)), guard: Guard::default(), writes: smallvec![] };
    let form = Json::stored(
        r#"{"title":"T","questions":[{"key":"a","label":"A"}],"response":{},"gate":"none","view_version":1,"entity_id":null}"#,
    );
    let row = ResponseRow {
        session: id(name),
        view_id: view.into(),
        respondent: Respondent::cookie(who.to_owned()),
        respondent_name: format!("view:{who}"),
        ordinal: 1,
        is_anonymous,
        once: true,
        state: ResponseState::Open,
        saved_at: Timestamp::default(),
        form: form.read().unwrap(),
    };
    let change = Change::new(tenant(of)).part(part).record(Record::AddResponse(Box::new(row)));
    scene.commit(change).await.unwrap();
}

/// What a link sees of a column: its values, in order.
async fn seen(client: &Client, role: &str, settings: &[(&str, &str)], sql: &str) -> Vec<String> {
    client.batch_execute(&format!("BEGIN; SET LOCAL ROLE {role}")).await.unwrap();
    for (name, value) in settings {
        client.execute("SELECT set_config($1, $2, true)", &[name, value]).await.unwrap();
    }
    let rows = client.query(sql, &[]).await.unwrap();
    client.batch_execute("ROLLBACK").await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn the_role_of_links_reads_these_columns_and_writes_nothing() {
    with_store(async |scene| {
        let admin = scene.admin().await;
        let role = scene.role("share");
        let sql = "SELECT table_name::text, column_name::text FROM information_schema.column_privileges
             WHERE grantee = $1 AND privilege_type = 'SELECT' ORDER BY 1, 2";
        let rows = admin.query(sql, &[&role]).await.unwrap();
        let found: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let may = |(table, columns): (&str, &[&str])| {
            columns.iter().map(|column| (table.to_owned(), (*column).to_owned())).collect::<Vec<_>>()
        };
        let mut expected: Vec<_> = LINK_READS.into_iter().flat_map(may).collect();
        expected.extend(["name", "version"].map(|column| ("schema_history".to_owned(), column.to_owned())));
        expected.sort_unstable();
        assert_eq!(found, expected);

        share_everything(scene).await;
        let settings = [
            ("app.hash", &*hash("link")),
            ("app.tk", "1"),
            ("app.role", "owner"),
            ("app.respondent", "view:c"),
        ];
        // Tables in schemas of their own are not even found.
        let is_refused = |outcome: Result<u64, SqlState>| {
            [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::UNDEFINED_TABLE].map(Err).contains(&outcome)
        };
        for table in walled_tables() {
            let columns = LINK_READS.iter().find(|(known, _)| *known == table).map(|(_, columns)| *columns);
            let all = under(&admin, &role, &settings, &format!("SELECT * FROM {table}")).await;
            // Ranges are keys of logs, and nothing else.
            assert!(is_refused(all) || table == "session_ranges", "{table}");
            let mut statements =
                vec![format!("DELETE FROM {table}"), format!("INSERT INTO {table} DEFAULT VALUES")];
            let first = columns.map_or(if table == "tenants" { "id" } else { "tk" }, |columns| columns[0]);
            statements.push(format!("UPDATE {table} SET {first} = {first}"));
            statements.push(format!("SELECT {first} FROM {table} FOR UPDATE"));
            if columns.is_none() {
                statements.push(format!("SELECT count(*) FROM {table}"));
            }
            for sql in statements {
                assert!(is_refused(under(&admin, &role, &settings, &sql).await), "{sql}");
            }
        }
    })
    .await;
}

/// Two tenants with sessions, forms and responses, and links of every kind in the first.
async fn share_everything(scene: &Scene) {
    for of in ["ours", "theirs"] {
        scene.tenant_named(of).await;
        spoken(scene, of, "s").await;
        spoken(scene, of, "t").await;
        for name in ["form", "other"] {
            view(scene, of, name).await;
        }
        respond(scene, of, "mine", "form", "c", true).await;
        respond(scene, of, "of another", "form", "d", true).await;
        respond(scene, of, "elsewhere", "other", "c", true).await;
        respond(scene, of, "a member's", "form", "m", false).await;
    }
    share(scene, "ours", link("link", Some("s"), None)).await;
    share(scene, "ours", link("published", Some("s"), Some("form"))).await;
    share(scene, "ours", link("alone", None, Some("form"))).await;
    let expired = Share { expires_at: Timestamp::from_micros(1), ..link("expired", Some("s"), None) };
    share(scene, "ours", expired).await;
    let expired =
        Share { expires_at: Timestamp::from_micros(1), ..link("expired alone", None, Some("form")) };
    share(scene, "ours", expired).await;
    for revoked in [link("revoked", Some("s"), None), link("revoked alone", None, Some("form"))] {
        let (id, by) = (revoked.id.clone(), sederunt_core::access::ActingUser::Owner);
        share(scene, "ours", revoked).await;
        scene.commit(Change::new(tenant("ours")).record(Record::RevokeShare { id, by })).await.unwrap();
    }
}

#[tokio::test]
async fn a_link_to_a_session_reads_its_row_and_what_was_said_in_it() {
    with_store(async |scene| {
        share_everything(scene).await;
        let admin = scene.admin().await;
        let role = scene.role("share");
        let by = |token: &str| vec![("app.hash".to_owned(), hash(token))];
        for (token, rows, messages) in [
            ("link", 1, 2),
            ("published", 0, 0),
            ("alone", 0, 0),
            ("expired", 0, 0),
            ("revoked", 0, 0),
            ("unknown", 0, 0),
        ] {
            let given = by(token);
            let settings: Vec<(&str, &str)> = given.iter().map(|(name, value)| (&**name, &**value)).collect();
            for table in ["session_heads", "sessions"] {
                let found = seen(&admin, &role, &settings, &format!("SELECT id FROM {table}")).await;
                assert_eq!(found, vec!["s"; rows], "{token} {table}");
            }
            let found = seen(&admin, &role, &settings, "SELECT type FROM events ORDER BY type").await;
            assert_eq!(found, LINK_EVENTS[..messages], "{token}");
            let said = seen(&admin, &role, &settings, "SELECT content FROM events").await;
            assert!(said.iter().all(|text| text.ends_with(" in s\"}]")), "{said:?}");
            assert_eq!(
                seen(&admin, &role, &settings, "SELECT state FROM responses").await,
                [""; 0],
                "{token}"
            );
        }
        for settings in
            [&[][..], &[("app.hash", "")], &[("app.tk", "1"), ("app.role", "owner"), ("app.user", "ann")]]
        {
            for (table, columns) in LINK_READS {
                let sql = format!("SELECT {} FROM {table}", columns[0]);
                assert_eq!(under(&admin, &role, settings, &sql).await, Ok(0), "{table} {settings:?}");
            }
        }
        let (ours, s, token) = (tenant("ours"), id("s"), SecretHash::of("link"));
        let shown = scene.shared_session(&ours, token, &s).await.unwrap().unwrap();
        assert_eq!(
            (shown.title.as_deref(), shown.status, shown.last_sequence),
            (Some("a title"), Status::Idle, 5)
        );
        assert_eq!(scene.shared_session(&ours, token, &id("t")).await.unwrap(), None);
        assert_eq!(scene.shared_session(&tenant("theirs"), token, &s).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_link_to_a_fork_reads_the_shared_beginning_and_no_more_of_the_other_log() {
    with_store(async |scene| {
        scene.tenant_named("ours").await;
        scene.open("ours", "s").await;
        for text in ["one", "two", "three"] {
            scene.say("ours", "s", text).await;
        }
        let incarnation = scene.session(&tenant("ours"), &id("s")).await.unwrap().unwrap().head.incarnation;
        let fork_of = Some(Fork { session: id("s"), incarnation, at_sequence: 2 });
        let fork = NewSession { fork_of, ..session("fork") };
        let part =
            ChangePart { on: PartTarget::New(Box::new(fork)), guard: Guard::default(), writes: smallvec![] };
        scene.commit(Change::new(tenant("ours")).part(part)).await.unwrap();
        scene.say("ours", "fork", "four").await;
        share(scene, "ours", link("link", Some("fork"), None)).await;
        let admin = scene.admin().await;
        let settings = [("app.hash", &*hash("link"))];
        let said =
            seen(&admin, &scene.role("share"), &settings, "SELECT content FROM events ORDER BY seq").await;
        let texts: Vec<bool> =
            ["one", "two", "four"].iter().zip(&said).map(|(text, said)| said.contains(text)).collect();
        assert_eq!((said.len(), texts), (3, vec![true; 3]), "{said:?}");
        let page = scene
            .shared_events(&tenant("ours"), SecretHash::of("link"), &id("fork"), EventQuery::default())
            .await
            .unwrap();
        let whole = scene.events(&tenant("ours"), &id("fork"), EventQuery::default()).await.unwrap();
        let contents =
            |page: &EventPage| page.events.iter().map(|event| event.content.clone()).collect::<Vec<_>>();
        assert_eq!((contents(&page), page.last_sequence), (contents(&whole), whole.last_sequence));
    })
    .await;
}

#[tokio::test]
async fn a_link_to_a_view_reads_the_anonymous_responses_of_its_respondent() {
    with_store(async |scene| {
        share_everything(scene).await;
        let admin = scene.admin().await;
        let role = scene.role("share");
        for (token, respondent, found) in [
            ("alone", "view:c", &["mine"][..]),
            ("alone", "view:d", &["of another"]),
            ("alone", "view:m", &[]),
            ("alone", "", &[]),
            ("alone", "view:x", &[]),
            ("link", "view:c", &["s"]),
            ("published", "view:c", &[]),
            ("expired alone", "view:c", &[]),
            ("revoked alone", "view:c", &[]),
            ("", "view:c", &[]),
        ] {
            let hash = if token.is_empty() { String::new() } else { hash(token) };
            let settings = [("app.hash", &*hash), ("app.respondent", respondent)];
            for table in ["session_heads", "sessions"] {
                let ids = seen(&admin, &role, &settings, &format!("SELECT id FROM {table}")).await;
                assert_eq!(ids, found, "{token} {respondent} {table}");
            }
            let (ours, token_hash, mine) = (tenant("ours"), SecretHash::of(token), id("mine"));
            let reach = scene.link_reach(&ours, token_hash, "form", respondent, Some(&mine)).await.unwrap();
            let expected = match (token, found) {
                ("alone", ["mine"]) => LinkReach::Response,
                ("alone", _) => LinkReach::View,
                _ => LinkReach::Nothing,
            };
            assert_eq!(reach, expected, "{token} {respondent}");
        }
    })
    .await;
}
