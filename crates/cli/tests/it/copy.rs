use std::process::{Command, Stdio};

use sederunt::{Append, DraftEvent, Json, OpenSession, Sederunt, SessionId, SessionType};

use crate::whole::{KEY, everything, filled};
use crate::world::{World, owner, talk};

/// A schema of its own in the database of the tests.
struct Schema {
    url: String,
    name: String,
}

impl Schema {
    fn new(world: &World, name: &str) -> Self {
        let url = std::env::var("SEDERUNT_TEST_POSTGRES").unwrap_or_else(|_| {
            panic!("SEDERUNT_TEST_POSTGRES is not set: run this through scripts/with-postgres")
        });
        let name = format!("cli_{name}_{}", std::process::id());
        std::fs::write(world.path("pg.toml"), format!("[postgres]\nschema = \"{name}\"\n")).unwrap();
        let schema = Self { url, name };
        schema.drop_it();
        schema
    }

    fn drop_it(&self) {
        let all =
            ["", "_memory", "_crisis", "_feedback"].map(|apart| format!("{}{apart}", self.name)).join(", ");
        self.execute(&format!("DROP SCHEMA IF EXISTS {all} CASCADE"));
    }

    fn execute(&self, sql: &str) {
        execute(&self.url, sql);
    }

    /// The address of a database of this server for a login.
    fn url_of(&self, login: &str, database: &str) -> String {
        let (_, place) = self.url.split_once('@').unwrap();
        let (server, _) = place.split_once('/').unwrap();
        format!("postgres://{login}@{server}/{database}")
    }

    /// A login that is nothing beside this, with a database of its own. Returns the database's address.
    fn ordinary_login(&self, part: &str, rights: &str) -> String {
        let name = format!("{}_{part}", self.name);
        self.execute(&format!("CREATE ROLE {name} LOGIN NOSUPERUSER NOBYPASSRLS {rights}"));
        self.execute(&format!("CREATE DATABASE {name} OWNER {name}"));
        self.url_of(&name, &name)
    }

    fn drop_login(&self, part: &str) {
        let name = format!("{}_{part}", self.name);
        self.execute(&format!("DROP DATABASE {name} WITH (FORCE)"));
        self.execute(&format!("DROP ROLE {name}"));
    }

    fn roles(&self, parts: &[&str]) -> String {
        parts.iter().map(|part| format!("{}_{part}", self.name)).collect::<Vec<_>>().join(", ")
    }
}

/// The roles that a login takes to serve.
const SERVING: [&str; 6] = ["app", "append", "scan", "find", "relay", "share"];

fn execute(url: &str, sql: &str) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        let driven = tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
        drop(client);
        driven.await.unwrap().unwrap();
    });
}

/// How many rows a query counts.
fn count(url: &str, sql: &str) -> i64 {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.query_one(sql, &[]).await.unwrap().get(0)
    })
}

#[test]
fn a_store_is_copied_to_postgresql_whole() {
    let world = filled();
    let schema = Schema::new(&world, "copy");
    let before = everything(&world, ".store", &[]);
    let config = ["--config", "pg.toml"];
    let said = world.ok(&["copy", "--from", ".store", "--to", &schema.url, config[0], config[1]]);
    assert!(said.contains("sessions"), "{said}");
    assert_eq!(everything(&world, &schema.url, &config), before);
    let found =
        world.json(&["sessions", "ls", "--search", "日本", "--store", &schema.url, config[0], config[1]]);
    assert_eq!(found["items"][0]["id"], "cli:other");
    repeats_and_goes_on(&schema);

    let findings = world.ok(&["doctor", "--store", &schema.url, config[0], config[1]]);
    assert!(findings.contains("row security") && !findings.contains("fail"), "{findings}");

    let again = world.fails(&["copy", "--from", ".store", "--to", &schema.url, config[0], config[1]], 4);
    assert!(again.contains("empty"), "{again}");
    schema.drop_it();
}

/// The policies bind such a login, also where it owns the tables: what was recorded in bridges that have ended is copied
/// all the same.
#[test]
fn a_login_that_is_no_superuser_copies_and_restores_whole_stores() {
    let world = filled();
    let schema = Schema::new(&world, "plain");
    let before = everything(&world, ".store", &[]);
    assert!(before.iter().any(|told| told.contains("human.marker")), "something was recorded");
    let config = ["--config", "pg.toml"];
    let first = schema.ordinary_login("first", "CREATEROLE");
    world.ok(&["copy", "--from", ".store", "--to", &first, config[0], config[1]]);
    assert_eq!(everything(&world, &first, &config), before);
    let may_copy = format!(
        "SELECT count(*) FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid WHERE r.rolname = '{}'
         AND m.member::regrole::text = '{0}_first' AND coalesce((to_jsonb(m) ->> 'set_option')::boolean, true)",
        schema.roles(&["copy"]),
    )
    .replace("{0}", &schema.name);
    assert_eq!(count(&first, &may_copy), 0, "the login keeps nothing that it does not need to serve");

    // From one database to another by the means of PostgreSQL: read past the policies, restored by such a login.
    let second = schema.ordinary_login("second", "");
    schema.execute(&format!("GRANT {} TO {}_second", schema.roles(&SERVING), schema.name));
    let from = schema.url_of("postgres", &format!("{}_first", schema.name));
    let mut dump = Command::new("pg_dump")
        .args(["--no-owner", "--schema", &format!("{}*", schema.name), "--dbname", &from])
        .stdout(Stdio::piped())
        .spawn()
        .expect("pg_dump, which comes with the client of PostgreSQL");
    let restored = Command::new("psql")
        .args(["--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", &second])
        .stdin(dump.stdout.take().unwrap())
        .output()
        .unwrap();
    assert!(dump.wait().unwrap().success());
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    assert_eq!(everything(&world, &second, &config), before);
    let findings = world.ok(&["doctor", "--store", &second, config[0], config[1]]);
    assert!(findings.contains("row security") && !findings.contains("fail"), "{findings}");
    schema.drop_login("second");
    schema.drop_login("first");
}

#[test]
fn a_login_that_may_not_copy_is_told_what_it_lacks() {
    let world = World::new();
    world.seed(async |store| drop(talk(store, "cli:main", 1).await));
    let schema = Schema::new(&world, "lacks");
    let owner = schema.ordinary_login("owner", "");
    let copy = ["copy", "--from", ".store", "--to", &owner, "--config", "pg.toml"];
    let refused = world.fails(&copy, 4);
    for role in SERVING.iter().chain(&["copy"]) {
        assert!(refused.contains(&schema.roles(&[role])), "{role}: {refused}");
    }
    let all = [&SERVING[..], &["copy"]].concat();
    for part in &all {
        schema.execute(&format!("CREATE ROLE {} NOLOGIN NOINHERIT", schema.roles(&[part])));
    }
    schema.execute(&format!("GRANT {} TO {}_owner", schema.roles(&SERVING), schema.name));
    world.fails(&copy, 4);
    schema.execute(&format!("GRANT {} TO {}_owner", schema.roles(&["copy"]), schema.name));
    world.ok(&copy);
    schema.drop_login("owner");
}

#[test]
fn a_copy_that_reads_back_differently_leaves_nothing() {
    let world = filled();
    let schema = Schema::new(&world, "differs");
    let on = ["--store", &schema.url, "--config", "pg.toml"];
    world.ok(&[&["migrate"], &on[..]].concat());
    schema.execute(&format!(
        "SET search_path TO {}; \
         CREATE FUNCTION forge() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN IF NEW.seq = 5 THEN NEW.content := replace(NEW.content, ''4'', ''five''); END IF; RETURN NEW; END'; \
         CREATE TRIGGER forge BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION forge()",
        schema.name
    ));
    let refused = world.fails(&["copy", "--from", ".store", "--to", &schema.url, on[2], on[3]], 1);
    assert!(refused.contains("`events` reads back"), "{refused}");
    let left = world.json(&[&["sessions", "ls", "--all"], &on[..]].concat());
    assert_eq!(left["items"].as_array().unwrap().len(), 0);
    schema.drop_it();
}

/// What was asked before the copy is answered as before, and the log goes on where it was.
fn repeats_and_goes_on(schema: &Schema) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let options = sederunt::Options { schema: schema.name.clone(), ..sederunt::Options::default() };
        let store = Sederunt::builder().options(options).open(&schema.url).await.unwrap();
        let (me, id) = (owner(), SessionId::parse("cli:other").unwrap());
        let said = |text: &str| DraftEvent {
            kind: "user.message".into(),
            content: Some(Json::of(&text).unwrap()),
            ..DraftEvent::default()
        };
        let wish = Append { events: vec![said("again")], ..Append::default() };
        let again = store.append(&me, &id, wish.clone(), Some(KEY)).await.unwrap();
        assert_eq!(
            (again.last_sequence, again.events[0].external_event_id.as_deref()),
            (5, Some("outside-1"))
        );
        let next = store.append(&me, &id, wish, None).await.unwrap();
        assert_eq!(next.last_sequence, 6);
        let wish = OpenSession { session_type: Some(SessionType::Mixed), ..OpenSession::default() };
        let fresh = store.open(&me, wish, None).await.unwrap();
        assert!(fresh.created);
        store.close().await;
    });
}

#[test]
fn a_database_is_migrated_and_served() {
    let world = World::new();
    let schema = Schema::new(&world, "serve");
    let on = ["--store", &schema.url, "--config", "pg.toml"];
    let with = |args: &[&str]| [args, &on].concat().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let run = |args: &[&str]| {
        let args = with(args);
        world.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_ne!(run(&["sessions", "ls"]).code, 0, "an empty database is no store");
    let migrated: serde_json::Value = serde_json::from_str(&run(&["migrate", "--json"]).stdout).unwrap();
    assert_eq!(migrated["from"], 0);
    assert_eq!(run(&["doctor"]).code, 0);
    assert_eq!(run(&["tenants", "create", "acme"]).code, 0);
    let server = world.serve(&on);
    assert!(run(&["tenants", "ls"]).stdout.contains("acme"));
    assert_eq!(server.stop("-TERM"), 0);
    schema.drop_it();
}
