//! A server with a store of its own, and the clients that call it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use sederunt_api::client::{Client, EventStream, StreamMessage};
use sederunt_core::access::{Actor, Role};
use sederunt_core::clock::SystemClock;
use sederunt_core::engine::{Engine, NewKey, Settings};
use sederunt_core::live::Hub;
use sederunt_core::people::SecretHash;
use sederunt_core::quota::QuotaSettings;
use sederunt_core::session::SourceKind;
use sederunt_core::store::Store;
use sederunt_server::{Auth, Rates, Server, ServerConfig};
use sederunt_store::postgres::{PostgresOptions, PostgresStore};
use sederunt_store::sqlite::{Place, SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Nothing in these tests takes longer than this unless something hangs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The operator's key of every server.
pub const OPERATOR: &str = "operator-key-of-the-tests";

/// The kind of store under a server.
#[derive(Clone, Copy, Debug)]
pub enum StoreKind {
    Memory,
    File,
    Postgres,
}

/// A running server.
pub struct TestServer {
    pub engine: Engine,
    pub clock: Arc<SystemClock>,
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    ended: Option<JoinHandle<()>>,
    resources: StoreResources,
}

/// What a server's store lies in, so that it can be reached from outside and removed.
enum StoreResources {
    Memory,
    File(tempfile::TempDir),
    Postgres { url: String, schema: String },
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Value,
    pub text: String,
}

impl Answer {
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self
    }

    /// Checks a refusal: its status, its code, its envelope.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Self {
        let answer = self.expect(status);
        assert_eq!(answer.body["error"]["code"], code, "{}", answer.text);
        assert!(answer.body["error"]["message"].is_string(), "{}", answer.text);
        assert_eq!(answer.body["error"]["request_id"], answer.headers["x-request-id"].to_str().unwrap());
        answer
    }

    pub fn id(&self) -> String {
        self.body["id"].as_str().unwrap().to_owned()
    }
}

impl TestServer {
    /// A server without authentication.
    pub async fn local(store_kind: StoreKind) -> Self {
        Self::open(store_kind, |_| {}).await
    }

    /// A server that asks for keys.
    pub async fn keyed(store_kind: StoreKind) -> Self {
        Self::open(store_kind, |config| config.auth = Auth::Keys).await
    }

    pub async fn open(store_kind: StoreKind, configure: impl FnOnce(&mut ServerConfig)) -> Self {
        Self::open_over(store_kind, |_, config| configure(config)).await
    }

    /// A server whose configuration needs to know its engine.
    pub async fn open_over(
        store_kind: StoreKind,
        configure: impl FnOnce(&Engine, &mut ServerConfig),
    ) -> Self {
        Self::open_with(store_kind, QuotaSettings::default(), configure).await
    }

    /// A server whose tenants have these quotas.
    pub async fn open_with(
        store_kind: StoreKind,
        quotas: QuotaSettings,
        configure: impl FnOnce(&Engine, &mut ServerConfig),
    ) -> Self {
        let clock = Arc::new(SystemClock::default());
        let hub = Arc::new(Hub::default());
        let (store, resources): (Arc<dyn Store>, _) = match store_kind {
            StoreKind::Memory => (sqlite(Place::Memory, &clock, &hub), StoreResources::Memory),
            StoreKind::File => {
                let directory = tempfile::tempdir().unwrap();
                let place = Place::Directory(directory.path().join("store"));
                (sqlite(place, &clock, &hub), StoreResources::File(directory))
            }
            StoreKind::Postgres => postgres(&clock, &hub).await,
        };
        let (time, heard) = (clock.clone(), hub.clone());
        let private = move || Ok(sqlite(Place::Memory, &time, &heard));
        let engine = Engine::new(store, hub, Settings::default()).with_private(private).with_quotas(quotas);
        let mut config = ServerConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            operator_key_hash: Some(SecretHash::of(OPERATOR)),
            rates: Rates {
                per_credential: None,
                per_share: None,
                forms_per_respondent: None,
                new_respondents_per_peer: None,
                leads_per_link: None,
                failures_per_peer: None,
            },
            sweep_every: Duration::from_millis(20),
            keep_every: Duration::from_millis(20),
            drain_max: Duration::from_secs(2),
            ..ServerConfig::default()
        };
        configure(&engine, &mut config);
        let server = Server::bind(engine.clone(), config).await.unwrap();
        let address = server.local_addr();
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Self { engine, clock, address, stop: Some(stop), ended: Some(ended), resources }
    }

    /// Tells the server to stop; the handle ends when it has.
    pub fn stop(&mut self) -> JoinHandle<()> {
        drop(self.stop.take());
        self.ended.take().unwrap()
    }

    /// Calls as whoever is on this machine.
    pub fn anyone(&self) -> Caller<'_> {
        Caller { server: self, headers: Vec::new() }
    }

    pub fn operator(&self) -> Caller<'_> {
        self.anyone().with("authorization", &format!("Bearer {OPERATOR}"))
    }

    /// Calls with a new key.
    pub async fn key(&self, role: Role, user: &str) -> Caller<'_> {
        let (secret, _) = self
            .new_key(NewKey {
                role: Some(role),
                user: (!user.is_empty()).then(|| user.to_owned()),
                ..NewKey::default()
            })
            .await;
        self.bearer(&secret)
    }

    /// Makes a key: its secret and its id.
    pub async fn new_key(&self, wish: NewKey) -> (String, String) {
        let made = self.engine.create_key(&Actor::local(SourceKind::Api), wish, None).await.unwrap();
        (made.secret.unwrap(), made.key.id.to_string())
    }

    /// Takes rows out of every log, behind the back of the store.
    pub async fn lose_events(&self, first: i64, last: i64) {
        match &self.resources {
            StoreResources::Memory => panic!("nobody else reaches a store in memory"),
            StoreResources::File(directory) => {
                let db = rusqlite::Connection::open(directory.path().join("store/threads.sqlite3")).unwrap();
                let cut = "DELETE FROM events WHERE k & 0xffffffff BETWEEN ?1 AND ?2";
                db.execute(cut, [first, last]).unwrap();
            }
            StoreResources::Postgres { url, schema } => {
                let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
                let connection = tokio::spawn(connection);
                let cut = format!("DELETE FROM {schema}.events WHERE seq BETWEEN $1 AND $2");
                client.execute(&cut, &[&first, &last]).await.unwrap();
                drop(client);
                within(connection).await.unwrap().unwrap();
            }
        }
    }

    /// Whether a text stands anywhere in the store, as it is on disk.
    pub async fn keeps_text(&self, text: &str) -> bool {
        match &self.resources {
            StoreResources::Memory => panic!("nobody else reaches a store in memory"),
            StoreResources::File(directory) => {
                let files = std::fs::read_dir(directory.path().join("store")).unwrap();
                files
                    .map(|file| std::fs::read(file.unwrap().path()).unwrap_or_default())
                    .any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
            }
            StoreResources::Postgres { url, schema } => {
                let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
                let connection = tokio::spawn(connection);
                let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = $1";
                let mut found = false;
                for row in client.query(tables, &[schema]).await.unwrap() {
                    let table: String = row.get(0);
                    let sql =
                        format!("SELECT 1 FROM {schema}.{table} t WHERE strpos(t::text, $1) > 0 LIMIT 1");
                    found |= !client.query(&sql, &[&text]).await.unwrap().is_empty();
                }
                drop(client);
                within(connection).await.unwrap().unwrap();
                found
            }
        }
    }

    pub fn bearer(&self, secret: &str) -> Caller<'_> {
        self.anyone().with("authorization", &format!("Bearer {secret}"))
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(ended) = &self.ended {
            ended.abort();
        }
    }
}

fn sqlite(place: Place, clock: &Arc<SystemClock>, hub: &Arc<Hub>) -> Arc<dyn Store> {
    SqliteStore::open(SqliteOptions { place, clock: clock.clone(), hub: hub.clone() }).unwrap()
}

/// A schema of its own in the database of the run.
async fn postgres(clock: &Arc<SystemClock>, hub: &Arc<Hub>) -> (Arc<dyn Store>, StoreResources) {
    let url = std::env::var("SEDERUNT_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!("SEDERUNT_TEST_POSTGRES is not set: run the tests by `make test` or scripts/with-postgres")
    });
    let schema = format!("server_{}", uuid::Uuid::now_v7().simple());
    let options = PostgresOptions {
        schema: schema.clone(),
        clock: clock.clone(),
        pool_size: 4,
        ..PostgresOptions::new(url.clone(), hub.clone())
    };
    (PostgresStore::open(options).await.unwrap(), StoreResources::Postgres { url, schema })
}

/// A caller, with the headers that say who it is.
#[derive(Clone)]
pub struct Caller<'a> {
    server: &'a TestServer,
    headers: Vec<(String, String)>,
}

impl Caller<'_> {
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, Some(body.to_string())).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PUT, path, Some(body.to_string())).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PATCH, path, Some(body.to_string())).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None).await
    }

    pub async fn post_text(&self, path: &str, body: &str) -> Answer {
        self.send(Method::POST, path, Some(body.to_owned())).await
    }

    pub async fn send(&self, method: Method, path: &str, body: Option<String>) -> Answer {
        // A redirection is an answer like any other.
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let mut request = client.request(method, format!("http://{}{path}", self.server.address));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(body) = body {
            if !self.headers.iter().any(|(name, _)| name == "content-type") {
                request = request.header("content-type", "application/json");
            }
            request = request.body(body);
        }
        let response = within(request.send()).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let text = within(response.text()).await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Answer { status, headers, body, text }
    }

    /// What is answered at once; what would follow is not waited for.
    pub async fn status_of(&self, method: Method, path: &str) -> Answer {
        let mut request =
            reqwest::Client::new().request(method, format!("http://{}{path}", self.server.address));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let response = within(request.send()).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, body: Value::Null, text: String::new() }
    }

    /// Opens a session of this kind and gives its id.
    pub async fn session(&self, body: Value) -> String {
        self.post("/api/sessions", body).await.expect(201).id()
    }

    /// Says something in a session.
    pub async fn say(&self, session: &str, text: &str) -> Answer {
        let event = json!({"type": "user.message", "content": text});
        self.post(&format!("/api/sessions/{session}/events"), json!({"events": [event]})).await
    }

    /// Follows a stream.
    pub async fn follow(&self, path: &str) -> Follower {
        let bearer = self.headers.iter().find(|(name, _)| name == "authorization");
        let key = bearer.map(|(_, value)| value.trim_start_matches("Bearer ").to_owned());
        let client = Client::new(&format!("http://{}", self.server.address), key).unwrap();
        let last_seen = self.headers.iter().find(|(name, _)| name == "last-event-id");
        Follower(within(client.stream(path, last_seen.map(|(_, id)| id.as_str()))).await.unwrap())
    }
}

/// A stream that is being read.
pub struct Follower(EventStream);

impl Follower {
    /// The next event; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<StreamMessage> {
        within(self.0.next()).await.ok().flatten()
    }

    /// The next event, which must be of this kind.
    pub async fn expect(&mut self, event: &str) -> Value {
        let message = self.next().await.unwrap_or_else(|| panic!("the stream ended before `{event}`"));
        assert_eq!(message.event, event, "{message:?}");
        serde_json::from_str(&message.data).unwrap()
    }

    /// Reads on to the first event of the log that is meant.
    pub async fn event(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().await.unwrap_or_else(|| panic!("the stream ended before it"));
            let data = serde_json::from_str(&message.data).unwrap_or_default();
            if message.event == "message" && is_meant(&data) {
                return data;
            }
        }
    }

    /// Reads whatever still comes until the stream has ended.
    pub async fn end(&mut self) {
        while self.next().await.is_some() {}
    }

    /// The sequences of the next events of the log.
    pub async fn sequences(&mut self, count: usize) -> Vec<u64> {
        let mut seen = Vec::with_capacity(count);
        while seen.len() < count {
            let message = self.next().await.unwrap();
            assert_eq!(message.event, "message", "{message:?}");
            let event: Value = serde_json::from_str(&message.data).unwrap();
            let sequence = event["sequence"].as_u64().unwrap();
            assert_eq!(message.id.as_deref(), Some(sequence.to_string().as_str()));
            seen.push(sequence);
        }
        seen
    }
}

/// Waits, but not for ever.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("nothing came in {PATIENCE:?}"))
}

/// Writes bytes as they are and reads the answer to its end: for what no client would send.
pub async fn raw(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    within(stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Looks again and again until something holds that tells nobody when it does; but not for ever.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    let look = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.unwrap_or_else(|_| panic!("it did not come to be: {what}"));
}

/// Makes a test of each function on one store.
macro_rules! on_store {
    ($module:ident, $store_kind:ident: $($name:ident),+) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::server::StoreKind::$store_kind).await;
            })+
        }
    };
}
pub(crate) use on_store;

/// Makes a test of each function on each store.
macro_rules! on_every_store {
    ($($name:ident),+ $(,)?) => {
        crate::server::on_store!(in_memory, Memory: $($name),+);
        crate::server::on_store!(on_postgres, Postgres: $($name),+);
        crate::server::on_store!(on_file, File: $($name),+);
    };
}
pub(crate) use on_every_store;
