//! The harness: a store with an engine over it, a tenant of its own, and callers.

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::access::Actor;
use sederunt_core::clock::SystemClock;
use sederunt_core::engine::{Append, DraftEvent, Engine, Settings};
use sederunt_core::json::Json;
use sederunt_core::live::Hub;
use sederunt_core::session::decide::OpenSession;
use sederunt_core::session::{Session, SessionType, SourceKind, Status};
use sederunt_core::store::{IdemKey, Store};
use sederunt_core::talk::turn::TurnHost;
use sederunt_core::work::{ClaimRequest, ClaimedRun};
use sederunt_core::{CredentialId, Role, SessionId, TenantId, UserId, limits};
use sederunt_store::postgres::{PostgresOptions, PostgresStore};
use sederunt_store::sqlite::{Place, SqliteOptions, SqliteStore};

pub struct World {
    pub engine: Engine,
    /// The store below it, for what the engine does not show.
    pub store: Arc<dyn Store>,
    pub clock: Arc<SystemClock>,
    pub tenant: TenantId,
    /// Where the tables are, if other nodes can reach them.
    schema: Option<String>,
}

impl World {
    pub async fn sqlite() -> Self {
        let (clock, hub) = (Arc::new(SystemClock::default()), Arc::new(Hub::default()));
        let options = SqliteOptions { place: Place::Memory, clock: clock.clone(), hub: hub.clone() };
        let store = SqliteStore::open(options).unwrap();
        let engine = Engine::new(store.clone(), hub, Settings::default());
        Self::over(engine, store, clock, None).await
    }

    pub async fn postgres() -> Self {
        let clock = Arc::new(SystemClock::default());
        let schema = format!("engine_{}", uuid::Uuid::now_v7().simple());
        let (engine, store) = node(&schema, &clock).await;
        Self::over(engine, store, clock, Some(schema)).await
    }

    pub async fn over(
        engine: Engine,
        store: Arc<dyn Store>,
        clock: Arc<SystemClock>,
        schema: Option<String>,
    ) -> Self {
        let tenant = TenantId::stored("acme");
        engine.operator().create_tenant(&tenant).await.unwrap();
        Self { engine, store, clock, tenant, schema }
    }

    /// Another node over the same tables; where there can be only one, that one.
    pub async fn other_node(&self) -> Engine {
        match &self.schema {
            Some(schema) => node(schema, &self.clock).await.0,
            None => self.engine.clone(),
        }
    }

    pub fn actor(&self, role: Role, name: &str) -> Arc<Actor> {
        let person = matches!(role, Role::Owner | Role::Member | Role::Guest);
        Arc::new(Actor {
            tenant: self.tenant.clone(),
            credential: CredentialId::stored(format!("key-{name}")),
            role,
            user: person.then(|| UserId::stored(name)),
            prefix: (role == Role::Channel).then(|| name.into()),
            shared: None,
            view: None,
            link: None,
            surface: SourceKind::Api,
            rules: sederunt_core::talk::route::ChannelRules::default(),
        })
    }

    /// The owner of another tenant.
    pub async fn other_tenant(&self) -> Arc<Actor> {
        let tenant = TenantId::stored("elsewhere");
        self.engine.operator().create_tenant(&tenant).await.unwrap();
        Arc::new(Actor { tenant, ..(*self.owner()).clone() })
    }

    pub fn owner(&self) -> Arc<Actor> {
        self.actor(Role::Owner, "owner")
    }

    pub fn worker(&self, name: &str) -> Arc<Actor> {
        self.actor(Role::Worker, name)
    }

    pub async fn open(&self, actor: &Actor, wish: OpenSession) -> Session {
        self.engine.open(actor, wish, None).await.unwrap().session
    }

    pub async fn talk(&self, id: &str) -> Session {
        self.open(&self.owner(), wish(id, SessionType::Mixed)).await
    }

    pub async fn pending(&self, id: &str) -> Session {
        let wish = OpenSession { status: Some(Status::Pending), ..wish(id, SessionType::Agent) };
        self.open(&self.owner(), wish).await
    }

    /// A pending session that this worker has just claimed.
    pub async fn claimed(&self, id: &str, worker: &Actor) -> ClaimedRun {
        self.pending(id).await;
        self.claim(worker).await.pop().expect("there is work")
    }

    pub async fn claim(&self, worker: &Actor) -> Vec<ClaimedRun> {
        self.engine.claim(worker, request(), None).await.unwrap()
    }

    pub async fn session(&self, id: &str) -> Session {
        self.engine.session(&self.owner(), &SessionId::stored(id)).await.unwrap()
    }
}

/// A node of its own on PostgreSQL.
async fn node(schema: &str, clock: &Arc<SystemClock>) -> (Engine, Arc<dyn Store>) {
    let url = std::env::var("SEDERUNT_TEST_POSTGRES")
        .expect("SEDERUNT_TEST_POSTGRES is not set: run the tests by `make test` or scripts/with-postgres");
    let hub = Arc::new(Hub::default());
    let plain = PostgresOptions::new(url, hub.clone());
    let options = PostgresOptions { schema: schema.to_owned(), clock: clock.clone(), pool_size: 6, ..plain };
    let store = PostgresStore::open(options).await.unwrap();
    (Engine::new(store.clone(), hub, Settings::default()), store)
}

pub fn request() -> ClaimRequest {
    ClaimRequest {
        worker: "w".into(),
        session_types: Vec::new(),
        agent_slugs: Vec::new(),
        limit: 1,
        lease: Duration::from_secs(30),
        wait: Duration::ZERO,
    }
}

/// The hold of a turn, by which a node proves that it runs it.
pub fn hold(node: &str) -> TurnHost {
    TurnHost { worker: "talk".into(), credential: CredentialId::stored(node), lease: limits::LEASE_DEFAULT }
}

pub fn wish(id: &str, session_type: SessionType) -> OpenSession {
    OpenSession { id: Some(id.into()), session_type: Some(session_type), ..OpenSession::default() }
}

pub fn says(kind: &str, text: &str) -> Append {
    let content = Json::of(&text).unwrap();
    let event = DraftEvent { kind: kind.into(), content: Some(content), ..DraftEvent::default() };
    Append { events: vec![event], ..Append::default() }
}

pub fn key(name: &str, body: u8) -> Option<IdemKey> {
    let mut scope = [0; 16];
    scope[..name.len().min(16)].copy_from_slice(&name.as_bytes()[..name.len().min(16)]);
    Some(IdemKey { scope, body: [body; 16], note: None })
}
