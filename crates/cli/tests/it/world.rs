//! A directory to run the binary in, and what came of running it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use sederunt::{
    Actor, Append, DraftEvent, Json, OpenSession, Sederunt, SessionId, SessionType, SourceKind, Status,
};
use serde_json::Value;

/// Anything that takes longer is broken, also on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again and again until there is an answer: for what only another process knows.
pub fn until<T>(what: &str, ask: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < end, "it never came: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub struct World {
    pub directory: tempfile::TempDir,
}

pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl World {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn store(&self) -> PathBuf {
        self.path(".store")
    }

    /// The binary in this directory, with an empty environment.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sederunt"));
        command.args(args).current_dir(self.directory.path()).env_clear().stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        ran(self.command(args).output().unwrap())
    }

    /// Runs a command that must succeed, and gives what it printed.
    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    pub fn json(&self, args: &[&str]) -> Value {
        let mut args = args.to_vec();
        args.push("--json");
        let text = self.ok(&args);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
    }

    /// Runs a command that must fail in this way.
    pub fn fails(&self, args: &[&str], code: i32) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, code, "{args:?}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.stdout, "", "{args:?}");
        ran.stderr
    }

    /// A server that is ready.
    pub fn serve(&self, args: &[&str]) -> Served {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0"];
        all.extend(args);
        Served::start(self.command(&all))
    }

    /// Does something to the store of this directory by way of the library.
    pub fn seed<T>(&self, work: impl AsyncFnOnce(&Sederunt) -> T) -> T {
        seed(&self.store(), work)
    }
}

pub fn ran(output: Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

pub fn seed<T>(directory: &Path, work: impl AsyncFnOnce(&Sederunt) -> T) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let store = sederunt::open(&directory.to_string_lossy()).await.unwrap();
        let done = work(&store).await;
        store.close().await;
        done
    })
}

pub fn owner() -> Arc<Actor> {
    Arc::new(Actor::local(SourceKind::Api))
}

/// Opens a session of talk with this many messages in it.
pub async fn talk(store: &Sederunt, id: &str, messages: usize) -> SessionId {
    let wish = OpenSession {
        id: Some(id.into()),
        session_type: Some(SessionType::Mixed),
        title: Some(format!("About {id}")),
        ..OpenSession::default()
    };
    let id = store.open(&owner(), wish, None).await.unwrap().session.id;
    let event = |n: usize| DraftEvent {
        kind: "user.message".into(),
        content: Some(Json::of(&format!("message {n}")).unwrap()),
        ..DraftEvent::default()
    };
    let events: Vec<DraftEvent> = (1..=messages).map(event).collect();
    for batch in events.chunks(500) {
        let wish = Append { events: batch.to_vec(), ..Append::default() };
        store.append(&owner(), &id, wish, None).await.unwrap();
    }
    id
}

/// Queues a piece of work.
pub async fn queue(store: &Sederunt, id: &str) -> SessionId {
    let wish = OpenSession {
        id: Some(id.into()),
        session_type: Some(SessionType::Agent),
        status: Some(Status::Pending),
        title: Some(format!("Work {id}")),
        ..OpenSession::default()
    };
    store.open(&owner(), wish, None).await.unwrap().session.id
}

/// A running process, killed when it goes out of scope: a test that fails leaves nothing behind.
pub struct Running(Option<Child>);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    pub fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }

    pub fn stdout(&mut self) -> BufReader<ChildStdout> {
        BufReader::new(self.child().stdout.take().unwrap())
    }

    /// Waits for it to end by itself, and says how.
    pub fn wait(mut self) -> i32 {
        let mut child = self.0.take().unwrap();
        let pid = child.id();
        let (said, heard) = mpsc::channel();
        std::thread::spawn(move || said.send(child.wait()));
        match heard.recv_timeout(PATIENCE) {
            Ok(status) => status.unwrap().code().unwrap_or(-1),
            Err(_) => {
                kill("-KILL", pid);
                panic!("the process did not end");
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A running server.
pub struct Served {
    pub url: String,
    process: Running,
}

impl Served {
    fn start(mut command: Command) -> Self {
        let mut process = Running::start(&mut command);
        let mut stdout = process.stdout();
        let (said, heard) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = stdout.read_line(&mut line);
            let _ = said.send(line);
        });
        let line = heard.recv_timeout(PATIENCE).unwrap_or_default();
        let mut stderr = process.child().stderr.take().unwrap();
        let Some(url) = line.trim().strip_prefix("listening on ") else {
            let _ = process.child().kill();
            let mut why = String::new();
            let _ = stderr.read_to_string(&mut why);
            panic!("the server did not start: {line}{why}");
        };
        // Read on, or a full pipe would stop the server.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self { url: url.to_owned(), process }
    }

    pub fn pid(&mut self) -> u32 {
        self.process.child().id()
    }

    /// Asks it to stop, and says how it ended.
    pub fn stop(mut self, signal: &str) -> i32 {
        kill(signal, self.pid());
        self.process.wait()
    }
}

pub fn kill(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}
