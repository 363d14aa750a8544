//! What only PostgreSQL promises: row-level security, batches, notifications between nodes, and a database that goes
//! away and comes back.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expects by failing")]

mod batches;
mod head_cache;
mod indexer;
mod logins;
mod lost_connections;
mod nodes;
mod plans;
mod row_security;
mod schema;
mod tls;
mod walls;

use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use sederunt_core::access::{Actor, Role};
use sederunt_core::approval::{self, Approval};
use sederunt_core::clock::SystemClock;
use sederunt_core::definitions::{self, DefinitionDoc};
use sederunt_core::event::{Event, EventQuery, EventType, NewEvent};
use sederunt_core::ids::{CredentialId, Incarnation, RandomIds, SessionId, TenantId};
use sederunt_core::json::Json;
use sederunt_core::live::Hub;
use sederunt_core::people::Audit;
use sederunt_core::session::{Details, Head, SessionSource, SessionType, SourceKind, Status};
use sederunt_core::store::{
    Change, ChangePart, CommitResult, Guard, IdemKey, NewSession, PartTarget, Record, Refusal, Store, Write,
};
use sederunt_core::time::Timestamp;
use smallvec::smallvec;
use tokio_postgres::{Client, NoTls};

use super::connect::schemas;
use super::migrate::VERSION;
use super::{PostgresOptions, PostgresStore};
use crate::record_builders;

/// No wait in these tests needs longer than this unless something is lost.
const PATIENCE: Duration = Duration::from_secs(30);

async fn in_time<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// Polls until the condition holds.
async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    in_time(what, async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

fn url() -> String {
    std::env::var("SEDERUNT_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!("SEDERUNT_TEST_POSTGRES is not set: run this through scripts/with-postgres, or name a server's URL")
    })
}

fn fresh_schema() -> String {
    format!("only_{}", uuid::Uuid::now_v7().simple())
}

/// A store in a schema of its own.
struct Scene {
    store: Arc<PostgresStore>,
    hub: Arc<Hub>,
    schema: String,
}

impl Deref for Scene {
    type Target = dyn Store;

    fn deref(&self) -> &(dyn Store + 'static) {
        &*self.store
    }
}

async fn open_at(url: String, schema: &str) -> Scene {
    let hub = Arc::new(Hub::default());
    let options = PostgresOptions {
        url,
        schema: schema.into(),
        clock: Arc::new(SystemClock::default()),
        hub: hub.clone(),
        migrate: true,
        pool_size: 4,
    };
    Scene { store: PostgresStore::open(options).await.unwrap(), hub, schema: schema.into() }
}

/// Runs a test on a store of its own and drops its schema, whether or not the test fails.
async fn with_store(test: impl AsyncFnOnce(&Scene)) {
    with_store_at(url(), test).await;
}

async fn with_store_at(url: String, test: impl AsyncFnOnce(&Scene)) {
    let schema = fresh_schema();
    let scene = open_at(url, &schema).await;
    let outcome = AssertUnwindSafe(test(&scene)).catch_unwind().await;
    scene.close().await;
    drop_schema(&schema).await;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

/// Takes the policies of the role of links away, so that the tables they are on can be taken back to earlier steps.
const WITHOUT_LINKS: &str =
    "DROP POLICY share ON shares; DROP POLICY share ON session_heads; DROP POLICY share ON sessions;
     DROP POLICY share ON session_ranges; DROP POLICY share ON events; DROP POLICY share ON responses;
     DROP POLICY share_response ON session_heads; DROP POLICY share_response ON sessions;";

async fn drop_schema(schema: &str) {
    let (all, roles) = (schemas(schema).join(", "), super::connect::DbRole::names(schema).join(", "));
    let sql = format!("DROP SCHEMA IF EXISTS {all} CASCADE; DROP ROLE IF EXISTS {roles}");
    admin("public").await.batch_execute(&sql).await.unwrap();
}

/// A connection as the superuser, whom no policy binds.
async fn admin(schema: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(&url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("SET search_path TO {}", schemas(schema).join(", "))).await.unwrap();
    client
}

async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

fn id(text: &str) -> SessionId {
    SessionId::stored(text)
}

fn tenant(text: &str) -> TenantId {
    TenantId::stored(text)
}

fn session(name: &str) -> NewSession {
    let incarnation = Incarnation::drawn(&RandomIds);
    NewSession {
        id: id(name),
        head: Head { is_talk: true, ..Head::blank(incarnation, SessionType::Mixed, Status::Idle, None) },
        details: Details {
            metadata: Json::stored("{\"a\":1}"),
            title: Some("a title".into()),
            ..Details::blank(SessionSource::direct(SourceKind::Api, false))
        },
        participants: vec![sederunt_core::UserId::stored("ann")],
        fork_of: None,
    }
}

fn message(text: &str) -> NewEvent {
    NewEvent {
        kind: EventType::known("user.message"),
        content: Some(Json::of(&serde_json::json!([{"type": "text", "text": text}])).unwrap()),
        metadata: None,
        subthread_id: None,
        external_event_id: None,
        author: None,
    }
}

fn key(scope: u8) -> IdemKey {
    IdemKey { scope: [scope; 16], body: [1; 16], note: None }
}

fn owner(of: &str) -> Actor {
    Actor {
        tenant: tenant(of),
        credential: CredentialId::stored("key"),
        role: Role::Owner,
        ..Actor::local(SourceKind::Api)
    }
}

fn append(to: &str, name: &str, events: Vec<NewEvent>) -> Change {
    let part = ChangePart {
        on: PartTarget::Session(id(name)),
        guard: Guard::default(),
        writes: smallvec![Write::Append(events)],
    };
    Change::new(tenant(to)).part(part)
}

/// Makes a task with these facets.
fn putting(name: &str, facets: &[(&'static str, &str)]) -> Record {
    let unset = Timestamp::default();
    let doc = DefinitionDoc {
        kind: definitions::DefinitionKind::Task,
        id: name.into(),
        slug: Some(format!("slug of {name}").into()),
        body: Json::empty_object(),
        facets: facets.iter().map(|&(key, value)| (key, value.into())).collect(),
        version: 0,
        created_by: None,
        created_at: unset,
        updated_at: unset,
    };
    Record::PutDoc { doc: Box::new(doc), expects: None }
}

/// Adds an approval for a session's task of the same name.
fn asking(name: &str, session: &str, assigned_to: Option<&str>) -> Record {
    Record::AddApproval(Box::new(Approval {
        id: name.into(),
        kind: approval::ApprovalKind::Tool,
        session: id(session),
        task_id: Some(format!("task of {session}").into()),
        state: approval::ApprovalState::Pending,
        assigned_to: assigned_to.map(sederunt_core::UserId::stored),
        expires_at: None,
        created_at: Timestamp::default(),
        decided_by: None,
        decided_at: None,
        body: approval::ApprovalBody {
            staged: Some(Json::empty_object()),
            ..approval::ApprovalBody::default()
        },
    }))
}

fn verdict<T>(outcome: &Result<T, Refusal>) -> &'static str {
    match outcome {
        Ok(_) => "ok",
        Err(Refusal::Stale) => "stale",
        Err(Refusal::Rejected(error)) => error.code(),
    }
}

impl Scene {
    async fn tenant_named(&self, name: &str) -> i32 {
        let audit = Audit { actor: "operator".into(), action: "tenant.create", target: name.into() };
        self.create_tenant(&tenant(name), audit).await.unwrap();
        self.store.context.tk(&tenant(name)).await.unwrap().unwrap()
    }

    async fn open(&self, of: &str, name: &str) -> CommitResult {
        let part = ChangePart {
            on: PartTarget::New(Box::new(session(name))),
            guard: Guard::default(),
            writes: smallvec![],
        };
        self.commit(Change::new(tenant(of)).part(part)).await.unwrap()
    }

    async fn say(&self, of: &str, name: &str, text: &str) {
        self.commit(append(of, name, vec![message(text)])).await.unwrap();
    }

    async fn log(&self, of: &str, name: &str) -> Vec<Event> {
        let query = EventQuery { limit: 1000, ..EventQuery::default() };
        self.events(&tenant(of), &id(name), query).await.unwrap().events
    }

    async fn texts(&self, of: &str, name: &str) -> Vec<String> {
        self.log(of, name).await.iter().map(|event| event.text().unwrap_or_default()).collect()
    }

    async fn admin(&self) -> Client {
        admin(&self.schema).await
    }

    /// The name of a role of this store.
    fn role(&self, part: &str) -> String {
        format!("{}_{part}", self.schema)
    }

    /// A statement about the roles of the schema `sederunt`, for this one.
    fn with_roles(&self, sql: &str) -> String {
        sql.replace("sederunt_", &self.role(""))
    }
}
