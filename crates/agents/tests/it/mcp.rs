//! MCP tools of an independent server: the Python package `mcp`, in the environment that `scripts/setup`
//! makes.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::tool::http::{DeclaredSecret, Secrets};
use sederunt_agents::tool::mcp::{Server, Settings, Transport};
use sederunt_agents::tool::{BadTool, Confirm, Error, Outcome, Toolbox};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use crate::http_tools::{call, context};
use crate::wire::SOON;

/// Python takes its time on a busy machine.
const START_MAX: Duration = Duration::from_secs(120);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn python() -> PathBuf {
    let python = root().join(".venv/bin/python");
    assert!(python.exists(), "{} is missing: run scripts/setup", python.display());
    python
}

fn script() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/mcp_server.py").to_str().unwrap().to_owned()
}

/// A child process; with a rope, it holds a connection to that port as long as it lives.
pub fn stdio(rope: Option<u16>) -> Transport {
    Transport::Stdio {
        command: python().to_str().unwrap().to_owned(),
        args: std::iter::once(script()).chain(rope.map(|port| port.to_string())).collect(),
        env: vec![("GREETING".to_owned(), "${WORD}".to_owned())],
    }
}

fn outbound() -> Outbound {
    Outbound::new(Allow::parse(["127.0.0.1"]).unwrap()).unwrap()
}

fn secrets() -> Secrets {
    let word = DeclaredSecret { value: "hello".into(), hosts: Vec::new() };
    [("WORD".to_owned(), word)].into()
}

pub fn server(transport: Transport) -> Arc<Server> {
    let settings = Settings { start_max: START_MAX, ..Settings::new("fix", transport) };
    Server::new(settings, &secrets(), &outbound()).unwrap()
}

async fn toolbox(server: &Arc<Server>, patience: Duration) -> Toolbox {
    let mut tools = Toolbox::new(patience);
    for tool in server.tools().await.unwrap() {
        tools.add(tool, Confirm::WhenAsked).unwrap();
    }
    tools
}

async fn ask(tools: &Toolbox, name: &str, args: &str) -> Result<Outcome, Error> {
    tools.call(&call(name, args), &context(true)).await
}

async fn words(tools: &Toolbox, name: &str) -> String {
    match ask(tools, name, "{}").await {
        Ok(Outcome::Done { content, is_error: false, .. }) => content,
        other => panic!("{name}: {other:?}"),
    }
}

/// The name under which `who.am-i` is offered.
fn who(tools: &Toolbox) -> String {
    let names = tools.specs().into_iter().map(|spec| spec.name);
    names.into_iter().find(|name| name.starts_with("fix__who_am-i_")).unwrap()
}

/// What every server must do, however it is reached.
async fn behaves(tools: &Toolbox) {
    let specs = tools.specs();
    let add = specs.iter().find(|spec| spec.name == "fix__add").unwrap();
    assert_eq!(add.description, "Adds two numbers.");
    assert!(add.schema.as_str().contains(r#""required":["a","b"]"#), "{:?}", add.schema);
    assert_eq!(ask(tools, "fix__add", r#"{"a":1,"b":2}"#).await, Ok(Outcome::done("3")));
    assert!(matches!(ask(tools, "fix__add", r#"{"a":"x","b":2}"#).await, Err(Error::BadArguments { .. })));
    assert!(
        matches!(ask(tools, "fix__ask", "{}").await, Ok(Outcome::NeedsConfirmation { summary }) if summary == "Really?")
    );
    let Ok(Outcome::Done { content, is_error: true, .. }) = ask(tools, "fix__fail", "{}").await else {
        panic!("it did not fail");
    };
    assert!(content.contains("cannot be done") || content.contains("fail"), "{content}");
    let meta = words(tools, "fix__meta").await;
    assert_eq!(meta, "sederunt/confirmed=True,sederunt/idempotency_key=key-1,sederunt/session_id=s");
}

#[tokio::test]
async fn a_child_process_lends_its_tools_and_ends_with_its_server() {
    let ropes = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = server(stdio(Some(ropes.local_addr().unwrap().port())));
    let tools = toolbox(&server, START_MAX).await;
    behaves(&tools).await;
    let (mut rope, _) = ropes.accept().await.unwrap();

    let answer = words(&tools, &who(&tools)).await;
    let (pid, sees) = answer.split_once(' ').unwrap();
    assert_eq!(sees, "GREETING", "nothing of our environment");

    let patience = Duration::from_millis(50);
    let hasty = toolbox(&server, patience).await;
    assert_eq!(ask(&hasty, "fix__hang", "{}").await, Err(Error::TimedOut { after: patience }));
    assert_eq!(words(&tools, &who(&tools)).await, answer, "the others are not disturbed");

    assert_eq!(ask(&tools, "fix__crash", "{}").await, Err(Error::CutShort));
    let again = words(&tools, &who(&tools)).await;
    let (new_pid, _) = again.split_once(' ').unwrap();
    assert_ne!(pid, new_pid, "it was started again");

    let (mut new_rope, _) = ropes.accept().await.unwrap();
    is_let_go(&mut rope).await;

    drop((hasty, tools, server));
    is_let_go(&mut new_rope).await;
}

/// Waits until the process at the other end is no more.
async fn is_let_go(rope: &mut TcpStream) {
    let read = tokio::time::timeout(SOON, rope.read(&mut [0])).await.expect("the child was not ended");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

struct OverHttp {
    child: Child,
    port: u16,
}

impl OverHttp {
    async fn start(port: Option<u16>) -> Self {
        let mut command = Command::new(python());
        command.arg(script()).arg("http").args(port.map(|port| port.to_string()));
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(START_MAX, lines.next_line()).await.unwrap().unwrap().unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }

    fn transport(&self) -> Transport {
        Transport::Http { url: format!("http://127.0.0.1:{}/mcp", self.port), headers: vec![] }
    }
}

#[tokio::test]
async fn a_server_over_http_lends_its_tools_and_is_found_again_after_a_crash() {
    let mut first = OverHttp::start(None).await;
    let server = server(first.transport());
    let tools = toolbox(&server, START_MAX).await;
    behaves(&tools).await;

    assert_eq!(ask(&tools, "fix__crash", "{}").await, Err(Error::CutShort));
    first.child.wait().await.unwrap();
    let while_gone = ask(&tools, "fix__add", r#"{"a":1,"b":2}"#).await;
    assert!(matches!(while_gone, Err(Error::Unreachable | Error::CutShort)), "{while_gone:?}");
    let _second = OverHttp::start(Some(first.port)).await;
    assert_eq!(ask(&tools, "fix__add", r#"{"a":1,"b":2}"#).await, Ok(Outcome::done("3")));
}

#[tokio::test]
async fn what_cannot_be_an_mcp_server_is_told_apart() {
    let child = |command: &str, args: &[&str]| Transport::Stdio {
        command: command.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: vec![],
    };
    let nowhere = Transport::Http { url: "http://127.0.0.1:1/mcp".to_owned(), headers: vec![] };
    let cases = [
        (child("/does/not/exist", &[]), Error::Unreachable),
        (child("/bin/true", &[]), Error::Unreachable),
        (nowhere, Error::Unreachable),
    ];
    for (transport, expected) in cases {
        assert_eq!(server(transport.clone()).tools().await.err(), Some(expected), "{transport:?}");
    }
    let patience = Duration::from_millis(100);
    let mute = Settings { start_max: patience, ..Settings::new("fix", child("/bin/cat", &["/dev/zero"])) };
    let mute = Server::new(mute, &secrets(), &outbound()).unwrap();
    assert!(mute.tools().await.is_err());

    let inside = Transport::Http { url: "http://10.0.0.1/mcp".to_owned(), headers: vec![] };
    let refused = Server::new(Settings::new("fix", inside), &secrets(), &outbound());
    assert!(matches!(refused, Err(BadTool::Address { .. })), "{refused:?}");
    let unknown = Transport::Http {
        url: "http://127.0.0.1/".to_owned(),
        headers: vec![("X".to_owned(), "${NO}".to_owned())],
    };
    let refused = Server::new(Settings::new("fix", unknown), &secrets(), &outbound());
    assert!(matches!(refused, Err(BadTool::Secret { .. })), "{refused:?}");
}
