//! HTTP tools on loopback, which only an allow list lets them reach.

use std::sync::Arc;
use std::time::Duration;

use sederunt_agents::limits;
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::tool::http::{ArgumentPlace, DeclaredSecret, HttpTool, Secrets, Settings};
use sederunt_agents::tool::{CallContext, Confirm, Error, Outcome, ToolCall, ToolSpec, Toolbox};
use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::json::Json;

use crate::wire::{Answer, Server};

pub fn context(confirmed: bool) -> CallContext {
    CallContext {
        tenant_id: TenantId::stored("t"),
        session_id: SessionId::stored("s"),
        idempotency_key: "key-1".to_owned(),
        confirmed,
        input: None,
        asker: None,
    }
}

pub fn call(name: &str, args: &str) -> ToolCall {
    ToolCall { id: "c1".to_owned(), name: name.to_owned(), args: Json::parse(args.as_bytes()).unwrap() }
}

fn tools(server: &Server, method: &str, call_max: Duration) -> Toolbox {
    let schema = r#"{"type":"object","properties":{"n":{"type":"number"},"q":{"type":"string"}}}"#;
    let settings = Settings {
        spec: ToolSpec { name: "look".to_owned(), description: String::new(), schema: Json::stored(schema) },
        method: method.to_owned(),
        arguments: ArgumentPlace::ByMethod,
        url: server.url("/look?fixed=1"),
        headers: vec![("Authorization".to_owned(), "Bearer ${TOKEN}".to_owned())],
    };
    let token = DeclaredSecret { value: "s3cret".into(), hosts: vec!["127.0.0.1".to_owned()] };
    let secrets: Secrets = [("TOKEN".to_owned(), token)].into();
    let outbound = Outbound::new(Allow::parse(["127.0.0.1"]).unwrap()).unwrap();
    let mut tools = Toolbox::new(call_max);
    tools.add(Arc::new(HttpTool::new(settings, &secrets, outbound).unwrap()), Confirm::WhenAsked).unwrap();
    tools
}

async fn ask(answer: Answer) -> Result<Outcome, Error> {
    let server = Server::start(vec![answer]).await;
    tools(&server, "POST", limits::TOOL_CALL_MAX).call(&call("look", "{}"), &context(false)).await
}

#[tokio::test]
async fn a_call_carries_its_arguments_its_key_and_its_secret() {
    let server =
        Server::start(vec![Answer::status(200, "", "found"), Answer::status(200, "", "found")]).await;
    let call = call("look", r#"{"n":1.50,"q":"a b"}"#);
    let posted = tools(&server, "POST", limits::TOOL_CALL_MAX).call(&call, &context(false)).await;
    let got = tools(&server, "GET", limits::TOOL_CALL_MAX).call(&call, &context(true)).await;
    assert_eq!((posted, got), (Ok(Outcome::done("found")), Ok(Outcome::done("found"))));
    let [posted, got] = server.asked().try_into().unwrap();
    assert!(posted.head.starts_with("post /look?fixed=1 "), "{}", posted.head);
    assert_eq!(posted.body, r#"{"n":1.50,"q":"a b"}"#);
    for header in ["idempotency-key: key-1", "authorization: bearer s3cret", "content-type: application/json"]
    {
        assert!(posted.head.contains(header), "{header}: {}", posted.head);
    }
    assert!(!posted.head.contains("sederunt-confirmed"));
    assert!(got.head.starts_with("get /look?fixed=1&n=1.5&q=a+b "), "{}", got.head);
    assert!(got.head.contains("sederunt-confirmed: true") && got.body.is_empty());
}

#[tokio::test]
async fn every_answer_has_its_meaning() {
    let wish = |summary: &str| Ok(Outcome::NeedsConfirmation { summary: summary.to_owned() });
    let done =
        |content: &str, is_error| Ok(Outcome::Done { content: content.to_owned(), is_error, cut: false });
    let asks = r#"{"requires_confirmation":true,"summary":"Send 3 letters?"}"#;
    let cases = [
        (Answer::status(200, "", "ok"), done("ok", false)),
        (Answer::status(204, "", ""), done("", false)),
        (Answer::status(200, "", asks), wish("Send 3 letters?")),
        (Answer::status(409, "", asks), wish("Send 3 letters?")),
        (Answer::status(428, "", asks), wish("Send 3 letters?")),
        (Answer::status(400, "", asks), done(&format!("status 400: {asks}"), true)),
        (Answer::status(404, "", "no such box"), done("status 404: no such box", true)),
        (
            Answer::status(302, "location: http://169.254.169.254/\r\n", ""),
            Err(Error::Redirected { status: 302 }),
        ),
        (Answer::status(503, "", ""), Err(Error::Unavailable { status: 503, retry_after: None })),
        (
            Answer::status(429, "retry-after: 3\r\n", ""),
            Err(Error::Unavailable { status: 429, retry_after: Some(Duration::from_secs(3)) }),
        ),
        (Answer::Bytes(vec![]), Err(Error::CutShort)),
        (Answer::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nhalf".to_vec()), Err(Error::CutShort)),
    ];
    for (answer, expected) in cases {
        assert_eq!(ask(answer.clone()).await, expected, "{answer:?}");
    }
}

#[tokio::test]
async fn a_result_that_is_too_long_is_cut_and_said_to_be() {
    let long = "x".repeat(limits::RESULT_BYTES_MAX + 1);
    let Ok(Outcome::Done { content, cut: true, is_error: false }) = ask(Answer::status(200, "", &long)).await
    else {
        panic!("not cut");
    };
    assert!(content.ends_with("x\n[The result was longer; the rest was cut.]"));
    let fits = "x".repeat(limits::RESULT_BYTES_MAX);
    assert_eq!(ask(Answer::status(200, "", &fits)).await, Ok(Outcome::done(fits)));
}

#[tokio::test]
async fn a_tool_that_hangs_is_given_up_and_its_connection_closed() {
    let mut server = Server::start(vec![Answer::Hang(vec![])]).await;
    let patience = Duration::from_millis(60);
    let outcome = tools(&server, "POST", patience).call(&call("look", "{}"), &context(false)).await;
    assert_eq!(outcome, Err(Error::TimedOut { after: patience }));
    server.client_is_gone().await;
}
