//! PostgreSQL goes away and comes back: requests are told to come back too, and everything goes on
//! by itself.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::harness::{Client, Node, PATIENCE, Place, eventually, goes_on, within};
use crate::ledger::{self, Writer};
use crate::load::{Doubt, Load};
use crate::streams::Follower;

const WRITERS: usize = 8;
const POSTS: usize = 60;
const SESSIONS: [&str; 2] = ["cli:a", "cli:b"];
/// No caller hangs because the database is away.
const REFUSED_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_postgres_is_outlived_and_loses_nothing() {
    let mut cluster = Cluster::start().await;
    let place = Place::at(cluster.url());
    let node = Node::start(&place).await;
    let client = node.client();
    for session in SESSIONS {
        client.open(session).await;
    }
    let (tell_end, end) = watch::channel(None);
    let reader = tokio::spawn(Follower::new(std::slice::from_ref(&client), 1).follow(SESSIONS[0], end));
    let load = Load::start(&client, Writer::crew(WRITERS, &SESSIONS), Doubt::TryAgain);

    let (start, mut rounds) = (Instant::now(), 0);
    while rounds < 2 || goes_on(start) {
        load.proceeds(POSTS).await;
        cluster.stop(if rounds % 2 == 0 { "INT" } else { "QUIT" }).await;
        load.is_refused(WRITERS).await;
        refuses_politely(&client).await;
        cluster.serve().await;
        eventually("it is ready again", PATIENCE, async || {
            (client.get("/readyz").await.status == 200).then_some(())
        })
        .await;
        load.proceeds(POSTS).await;
        rounds += 1;
    }

    let writers = load.stop().await;
    let acked = ledger::check(&client, &writers).await;
    assert!(acked >= 200, "only {acked} events were acknowledged");
    let last = client.get(&format!("/api/sessions/{}", SESSIONS[0])).await.expect(200);
    tell_end.send(last["last_sequence"].as_u64()).unwrap();
    within("the reader reaches the end", PATIENCE, reader).await.unwrap();
    node.kill_9();
    let node = Node::start(&place).await;
    assert_eq!(ledger::check(&node.client(), &writers).await, acked);
}

/// The answers of a server whose database is away.
async fn refuses_politely(client: &Client) {
    let path = format!("/api/sessions/{}", SESSIONS[0]);
    let events = format!("{path}/events");
    let wishes = [
        ("GET", path.as_str(), None),
        ("GET", events.as_str(), None),
        ("POST", events.as_str(), Some(json!({"events": [{"type": "x.y"}]}))),
        ("POST", "/api/sessions", Some(json!({"session_type": "mixed"}))),
        ("POST", "/api/claims", Some(json!({"worker": "w"}))),
    ];
    for _ in 0..3 {
        let ready = within("readiness is answered", REFUSED_WITHIN, client.get("/readyz")).await;
        assert_eq!(ready.status, 503, "{ready:?}");
        let health = within("health is answered", REFUSED_WITHIN, client.get("/healthz")).await;
        assert_eq!(health.status, 200, "{health:?}");
        for (method, path, body) in &wishes {
            let answer = client.send(method, path, body.as_ref(), None);
            let answer = within("the refusal comes", REFUSED_WITHIN, answer).await.unwrap();
            assert!(answer.is_unavailable(), "{method} {path}: {answer:?}");
        }
    }
}

/// A PostgreSQL server of the test's own, to be stopped and started at will.
struct Cluster {
    directory: TempDir,
    port: u16,
    server: Option<Child>,
}

impl Cluster {
    async fn start() -> Self {
        let directory = TempDir::with_prefix_in("sederunt-faults-pg-", "/tmp").unwrap();
        if is_root() {
            std::os::unix::fs::chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let made = program("initdb", directory.path())
            .args(["-U", "postgres", "--auth=trust", "-E", "UTF8", "--no-locale", "--no-sync", "-D"])
            .arg(directory.path().join("data"))
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let mut cluster = Self { directory, port: free_port(), server: None };
        cluster.serve().await;
        cluster
    }

    fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Starts the server on its own port and waits until it answers.
    async fn serve(&mut self) {
        let log = std::fs::File::options().create(true).append(true).open(self.directory.path().join("log"));
        // What is acknowledged must be written, but need not be on the disk: only the server dies.
        let server = program("postgres", self.directory.path())
            .arg("-D")
            .arg(self.directory.path().join("data"))
            .args(["-p", &self.port.to_string(), "-c", "listen_addresses=127.0.0.1"])
            .args(["-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "synchronous_commit=on"])
            .stdin(Stdio::null())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        self.server = Some(server);
        let url = self.url();
        eventually("PostgreSQL answers", PATIENCE, async || {
            tokio_postgres::connect(&url, tokio_postgres::NoTls).await.ok().map(drop)
        })
        .await;
    }

    /// Stops the server: `INT` cuts connections and shuts down, `QUIT` is a crash.
    async fn stop(&mut self, signal: &str) {
        let mut server = self.server.take().unwrap();
        let kill = format!("kill -{signal} {}", server.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        eventually("PostgreSQL ends", PATIENCE, async || server.try_wait().unwrap()).await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        // Killed outright it would leave its own children behind.
        let _ = Command::new("sh").args(["-c", &format!("kill -QUIT {}", server.id())]).status();
        let _ = server.wait();
    }
}

/// PostgreSQL refuses to run as root; this account owns nothing.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A program of PostgreSQL, run as the account that may run it.
fn program(name: &str, directory: &Path) -> Command {
    let path = binaries().join(name);
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")]);
        command.args(["--clear-groups", "--"]).arg(path);
        command
    } else {
        Command::new(path)
    };
    command.current_dir(directory);
    command
}

fn binaries() -> PathBuf {
    let named = std::env::var_os("SEDERUNT_PG_BIN").map(PathBuf::from);
    let version = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let mut installed: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    installed.sort_by_key(|path| std::cmp::Reverse(version(path)));
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    named
        .into_iter()
        .chain(installed.into_iter().map(|path| path.join("bin")))
        .chain(std::env::split_paths(&on_path))
        .find(|directory| directory.join("initdb").exists() && directory.join("postgres").exists())
        .expect("no PostgreSQL server found (initdb and postgres): run scripts/setup or set SEDERUNT_PG_BIN")
}

/// A port below those that the system hands out to clients, so that nobody takes it while the
/// server is away.
fn free_port() -> u16 {
    let mut candidate = 20_000 + u16::try_from(std::process::id() % 12_000).unwrap();
    while std::net::TcpListener::bind(("127.0.0.1", candidate)).is_err() {
        candidate += 1;
    }
    candidate
}
