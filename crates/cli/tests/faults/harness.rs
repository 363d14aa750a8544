//! The real binary as a child process, the databases it runs on, and a client that talks to it.
//! Everything that is started here is ended by its id when its handle goes.

use std::future::Future;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// How long anything may take that is expected to happen; only a failing test waits this long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for a future, and says what was waited for when it does not come.
pub async fn within<T>(what: &str, limit: Duration, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, future).await {
        Ok(done) => done,
        Err(_) => panic!("not within {limit:?}: {what}"),
    }
}

/// Asks again and again until there is an answer.
pub async fn eventually<T>(what: &str, limit: Duration, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    within(what, limit, async {
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
    })
    .await
}

/// Whether a load that has done its minimum should go on, as `SEDERUNT_FAULTS_SECONDS` asks.
pub fn goes_on(since: Instant) -> bool {
    let seconds = std::env::var("SEDERUNT_FAULTS_SECONDS").ok().and_then(|text| text.parse().ok());
    since.elapsed() < Duration::from_secs(seconds.unwrap_or(0))
}

/// A database to serve from; gone with its handle.
pub struct Place {
    pub store: String,
    _directory: Option<TempDir>,
    _database: Option<Database>,
}

impl Place {
    pub fn sqlite() -> Self {
        let directory = TempDir::with_prefix("sederunt-faults-").unwrap();
        let store = directory.path().join("store").to_str().unwrap().to_owned();
        Self { store, _directory: Some(directory), _database: None }
    }

    /// A database of its own in the cluster of the run.
    pub async fn postgres() -> Self {
        let cluster = std::env::var("SEDERUNT_TEST_POSTGRES").expect(
            "SEDERUNT_TEST_POSTGRES is not set: run the tests by `make test` or scripts/with-postgres",
        );
        let database = Database::create(&cluster).await;
        Self { store: database.url.clone(), _directory: None, _database: Some(database) }
    }

    /// A store that somebody else takes care of.
    pub fn at(store: impl Into<String>) -> Self {
        Self { store: store.into(), _directory: None, _database: None }
    }

    /// A key made beside any server, as an operator makes the first one.
    pub fn create_key(&self, role: &str, user: &str) -> Key {
        let made = sederunt()
            .args(["keys", "create", "--json", "--tenant", "default", "--role", role, "--user", user])
            .args(["--store", &self.store])
            .output()
            .unwrap();
        assert!(made.status.success(), "keys create: {}", String::from_utf8_lossy(&made.stderr));
        Key::of(&serde_json::from_slice(&made.stdout).unwrap())
    }
}

/// An API key with its secret.
#[derive(Clone, Debug)]
pub struct Key {
    pub id: String,
    pub secret: String,
}

impl Key {
    pub fn of(made: &Value) -> Self {
        let text = |name: &str| made[name].as_str().unwrap_or_else(|| panic!("no `{name}` in {made}")).into();
        Self { id: text("id"), secret: text("key") }
    }
}

/// A database in a cluster.
pub struct Database {
    pub url: String,
    cluster: String,
    name: String,
}

impl Database {
    pub async fn create(cluster: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("faults_{}_{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        connect(cluster).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let (server, _) = cluster.rsplit_once('/').unwrap();
        Self { url: format!("{server}/{name}"), cluster: cluster.into(), name }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (cluster, name) = (self.cluster.clone(), self.name.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(&cluster, tokio_postgres::NoTls).await?;
                tokio::spawn(connection);
                client.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await
            })?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        });
        if let Ok(Err(error)) = dropping.join() {
            eprintln!("{} is left behind: {error}", self.name);
        }
    }
}

/// A connection of the test's own.
pub async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The binary under test.
pub fn sederunt() -> Command {
    started_by("")
}

/// The binary under test behind a shell script, which ends in `exec "$@"`. The settings of whoever
/// runs the tests do not reach it.
pub fn started_by(script: &str) -> Command {
    let binary = env!("CARGO_BIN_EXE_sederunt");
    let mut command = Command::new(if script.is_empty() { binary } else { "sh" });
    if !script.is_empty() {
        command.args(["-c", script, "sh", binary]);
    }
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SEDERUNT_")) {
        command.env_remove(name);
    }
    command.env("SEDERUNT_POSTGRES_POOL_SIZE", "8").env("SEDERUNT_WORK_SWEEP_EVERY", "100ms");
    command
}

/// A running server.
pub struct Node {
    child: Child,
    pub url: String,
    said: Arc<Mutex<Vec<u8>>>,
}

/// A server that ended instead of listening.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub said: String,
}

/// A server that was started and has not said yet that it listens.
pub struct Starting {
    node: Node,
    listens: oneshot::Receiver<String>,
}

impl Node {
    /// Serves this place to whoever is on this machine.
    pub async fn start(place: &Place) -> Self {
        Self::launch(sederunt(), place, "local").listening().await.unwrap()
    }

    /// Serves this place to holders of keys.
    pub async fn start_with_keys(place: &Place) -> Self {
        Self::launch(sederunt(), place, "keys").listening().await.unwrap()
    }

    /// Starts a server by a command that ends in the binary.
    pub fn launch(mut command: Command, place: &Place, auth: &str) -> Starting {
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--store", &place.store, "--auth", auth])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (tell, listens) = oneshot::channel();
        let (out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            let mut tell = Some(tell);
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if let Some((_, url)) = line.split_once("listening on ")
                    && let Some(tell) = tell.take()
                {
                    let _ = tell.send(url.trim().trim_end_matches('/').to_owned());
                }
            }
        });
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = said.clone();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(read @ 1..) = err.read(&mut part) {
                heard.lock().unwrap().extend_from_slice(&part[..read]);
            }
        });
        Starting { node: Self { child, url: String::new(), said }, listens }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A client that has no credential.
    pub fn client(&self) -> Client {
        Client::new(&self.url)
    }

    /// What it wrote to its log.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().unwrap()).into_owned()
    }

    pub fn kill_9(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks the process to end.
    pub fn terminate(&self) {
        let kill = format!("kill -TERM {}", self.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let said = self.said();
            let from = said.len().saturating_sub(6_000);
            eprintln!("--- {} said:\n{}", self.url, said.get(from..).unwrap_or(&said));
        }
    }
}

impl Starting {
    /// Waits until it listens or has ended.
    pub async fn listening(self) -> Result<Node, Ended> {
        let Self { mut node, listens } = self;
        match within("the server listens or ends", PATIENCE, listens).await {
            Ok(url) => {
                node.url = url;
                Ok(node)
            }
            Err(_) => {
                let status = node.child.wait().unwrap();
                // Its log is whole once the reader has let go of its end.
                eventually("the log is read", PATIENCE, async || {
                    (Arc::strong_count(&node.said) == 1).then_some(())
                })
                .await;
                Err(Ended { status, said: node.said() })
            }
        }
    }

    /// Kills it after this time, listening or not. Says whether it listened.
    pub async fn kill_9_after(mut self, time: Duration) -> bool {
        let listened = matches!(tokio::time::timeout(time, &mut self.listens).await, Ok(Ok(_)));
        self.node.kill_9();
        listened
    }
}

/// What the server answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
    pub retry_after: Option<String>,
    /// The cookie that the answer sets, as it is sent back.
    pub cookie: Option<String>,
}

impl Answer {
    /// The body of an answer with this status.
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }

    pub fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }

    /// Refused for now, with the time to come back after.
    pub fn is_unavailable(&self) -> bool {
        let waits = self.retry_after.as_deref().is_some_and(|seconds| seconds.parse::<u32>().is_ok());
        self.status == 503 && self.code() == "unavailable" && waits
    }
}

/// Talks to one node with one credential.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    key: Option<String>,
}

impl Client {
    pub fn new(base: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { http, base: base.into(), key: None }
    }

    #[must_use]
    pub fn with_key(&self, key: &Key) -> Self {
        Self { key: Some(key.secret.clone()), ..self.clone() }
    }

    /// The same client, as the bearer of a share link whose cookie is known.
    #[must_use]
    pub fn with_link(&self, token: &str, cookie: Option<&str>) -> Self {
        let fields = [("x-share-token", Some(token)), ("cookie", cookie)];
        let fields = fields.into_iter().filter_map(|(name, value)| {
            Some((reqwest::header::HeaderName::from_static(name), value?.parse().unwrap()))
        });
        let builder = reqwest::Client::builder().no_proxy().default_headers(fields.collect());
        Self { http: builder.build().unwrap(), ..self.clone() }
    }

    fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method.parse().unwrap(), format!("{}{path}", self.base));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Sends a request; the error is a connection that was cut or refused. No answer at all is a failure.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        idempotency_key: Option<&str>,
    ) -> Result<Answer, reqwest::Error> {
        let mut request = self.request(method, path).timeout(PATIENCE);
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(key) = idempotency_key {
            request = request.header("idempotency-key", key);
        }
        let answer = async {
            let response = request.send().await?;
            let status = response.status().as_u16();
            let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
            let retry_after = retry_after.map(str::to_owned);
            let cookie = response.headers().get("set-cookie").and_then(|value| value.to_str().ok());
            let cookie = cookie.and_then(|value| value.split(';').next()).map(str::to_owned);
            let bytes = response.bytes().await?;
            let body = serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
            Ok(Answer { status, body, retry_after, cookie })
        };
        let answer: Result<Answer, reqwest::Error> = answer.await;
        if let Err(error) = &answer {
            assert!(!error.is_timeout(), "{method} {path} was not answered: {error}");
        }
        answer
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None, None).await.unwrap()
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None, None).await.unwrap()
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, Some(&body), None).await.unwrap()
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.send("PUT", path, Some(&body), None).await.unwrap()
    }

    pub async fn post_keyed(&self, path: &str, body: &Value, key: &str) -> Answer {
        self.send("POST", path, Some(body), Some(key)).await.unwrap()
    }

    /// Opens a session to talk in.
    pub async fn open(&self, id: &str) {
        let answer = self.post("/api/sessions", json!({"id": id, "session_type": "mixed"})).await;
        assert!([200, 201].contains(&answer.status), "{answer:?}");
    }

    /// Follows a log from after a sequence.
    pub async fn stream(&self, session: &str, after: u64) -> Result<Stream, Answer> {
        let request = self.request("GET", &format!("/api/sessions/{session}/stream"));
        Stream::open(request.header("last-event-id", after)).await
    }

    /// Follows a log through a share link.
    pub async fn stream_shared(&self, session: &str, token: &str) -> Result<Stream, Answer> {
        Stream::open(self.request("GET", &format!("/api/sessions/{session}/stream?share={token}"))).await
    }
}

/// A stream of server-sent events.
pub struct Stream {
    response: reqwest::Response,
    unread: Vec<u8>,
}

/// What a stream says.
#[derive(Debug, PartialEq)]
pub enum Said {
    Event {
        sequence: u64,
        event: Value,
    },
    Ready,
    Other(String),
    /// The stream is over, by its end or by a cut.
    End,
}

impl Stream {
    async fn open(request: reqwest::RequestBuilder) -> Result<Self, Answer> {
        let lost = |error: reqwest::Error| Answer {
            status: 0,
            body: error.to_string().into(),
            retry_after: None,
            cookie: None,
        };
        let response = within("a stream opens", PATIENCE, request.send()).await.map_err(lost)?;
        if response.status() != 200 {
            let status = response.status().as_u16();
            let body = serde_json::from_slice(&response.bytes().await.map_err(lost)?).unwrap_or_default();
            return Err(Answer { status, body, retry_after: None, cookie: None });
        }
        Ok(Self { response, unread: Vec::new() })
    }

    pub async fn next(&mut self) -> Said {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.unread.drain(..end + 2).collect();
                match Self::read(std::str::from_utf8(&block).unwrap()) {
                    Some(said) => return said,
                    None => continue,
                }
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.unread.extend_from_slice(&chunk),
                Ok(None) | Err(_) => return Said::End,
            }
        }
    }

    /// Reads on until the backlog is through.
    pub async fn until_ready(&mut self) -> Vec<u64> {
        let mut sequences = Vec::new();
        loop {
            match within("the stream is ready", PATIENCE, self.next()).await {
                Said::Event { sequence, .. } => sequences.push(sequence),
                Said::Ready => return sequences,
                Said::Other(_) => {}
                Said::End => panic!("the stream ended before it was ready"),
            }
        }
    }

    fn read(block: &str) -> Option<Said> {
        let field = |name: &str| {
            let mut lines = block.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            lines.next().map(str::trim_start)
        };
        match (field("event"), field("id"), field("data")) {
            (Some("ready"), ..) => Some(Said::Ready),
            (Some(other), ..) => Some(Said::Other(other.to_owned())),
            (None, Some(id), Some(data)) => {
                let event: Value = serde_json::from_str(data).unwrap();
                let sequence = id.parse().unwrap();
                assert_eq!(event["sequence"], sequence, "the id of a frame is its event's sequence");
                Some(Said::Event { sequence, event })
            }
            _ => None,
        }
    }
}
