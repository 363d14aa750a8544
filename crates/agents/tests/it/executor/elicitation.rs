//! Servers that ask for input in the middle of a call: the run waits, a person answers, and the call is made again.

use std::sync::Arc;
use std::time::Duration;

use sederunt_agents::limits;
use sederunt_agents::outbound::{Allow, Outbound};
use sederunt_agents::tool::http::Secrets;
use sederunt_agents::tool::mcp::{Server, Settings};
use sederunt_core::approval::decide::TurnDown;
use sederunt_core::approval::{ApprovalKind, ApprovalState};
use sederunt_core::definitions::ToolDefinition;
use sederunt_core::engine::ToolStart;
use sederunt_core::json::Json;
use sederunt_core::session::Status;
use sederunt_core::work::run::Run;
use sederunt_core::{SessionId, strict};
use serde_json::{Value, json};

use super::mcp_stand_in::{Calls, McpStandIn};
use super::world::{LEASE, World};
use crate::ground::{json as parsed, until};
use crate::mcp;

const STATE: &str = "the-state-of-the-server";

/// Wants an account once; then it has paid, or not.
fn asks_once(params: &Value) -> Value {
    let Some(given) = params.get("inputResponses") else {
        return json!({"resultType": "input_required", "requestState": STATE, "inputRequests": {"account": form("Which account?")}});
    };
    done(&format!("{} with {}", given["account"], params["requestState"]))
}

pub fn form(message: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}})
}

pub fn done(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": false})
}

pub fn bank(settings: Settings) -> Arc<Server> {
    bank_with(settings, &Secrets::default())
}

pub fn bank_with(settings: Settings, secrets: &Secrets) -> Arc<Server> {
    let outbound = Outbound::new(Allow::parse(["127.0.0.1"]).unwrap()).unwrap();
    Server::new(settings, secrets, &outbound).unwrap()
}

pub async fn world_with(calls: Calls) -> (World, McpStandIn) {
    let (mut world, server) = (World::new(), McpStandIn::start(calls).await);
    world.servers.insert("bank".to_owned(), bank(server.settings()));
    (world, server)
}

impl World {
    /// Invokes a tool that calls this tool of an MCP server.
    pub async fn invoke(&self, server: &str, tool: &str, timeout_ms: u64) -> SessionId {
        self.invoke_with(server, tool, timeout_ms, r#"{"amount":5}"#).await
    }

    /// Invokes it with these values, of which `key` names a secret.
    pub async fn invoke_with(&self, server: &str, tool: &str, timeout_ms: u64, values: &str) -> SessionId {
        let text = json!({"slug": "t", "name": "T", "timeout_ms": timeout_ms,
            "input_schema": {"type": "object", "properties": {"key": {"type": "string", "writeOnly": true}}},
            "run": {"type": "mcp", "server": server, "tool": tool}});
        let tool: ToolDefinition = strict::read(&text.to_string()).unwrap();
        self.engine.define(&self.owner, None, tool, None).await.unwrap();
        let start = ToolStart { values: Some(parsed(values)), rerun_of: None };
        let id = self.engine.start_tool(&self.owner, "t", start, None).await.unwrap().session.id;
        self.engine.invoke_tool(&self.owner, &id, None, None).await.unwrap();
        id
    }

    pub async fn reply(&self, id: &SessionId, reply: &str) {
        self.engine.reply(&self.owner, id, parsed(reply), None).await.unwrap();
    }

    /// Everything that callers are shown of a session: its row, its log, its approvals.
    pub async fn shown(&self, id: &SessionId) -> String {
        let session = self.session(id).await;
        let details = sederunt_core::session::Details { run: None, ..session.details };
        format!("{:?} {:?} {details:?}", self.log(id).await, self.asked().await)
    }
}

#[tokio::test]
async fn a_tool_session_waits_for_a_person_and_calls_again_with_the_input_and_the_state() {
    let (world, server) = world_with(asks_once).await;
    let id = world.invoke("bank", "pay", 60_000).await;
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::WaitingHuman);
    let asked = world.asked().await;
    let staged = asked.body.staged.clone().unwrap().value();
    assert_eq!((asked.kind, &staged["text"]), (ApprovalKind::Question, &json!("Which account?")));
    assert_eq!(staged["schema"]["required"], json!(["name"]));

    // The state is nowhere in clear: what is shown has none of it, and the row has it sealed.
    assert!(!world.shown(&id).await.contains(STATE));
    let row = world.session(&id).await.details.run.unwrap();
    assert!(!row.as_str().contains(STATE), "{}", row.as_str());

    let misfit = world.engine.reply(&world.owner, &id, parsed(r#"{"name":7}"#), None).await.unwrap_err();
    assert_eq!(misfit.code(), "invalid");
    world.reply(&id, r#"{"name":"savings"}"#).await;
    // Another executor takes the run up, as after a restart.
    world.work().await;
    let session = world.session(&id).await;
    assert_eq!(session.head.status, Status::Completed, "{:?}", session.details.error_message);
    let result = session.details.result.unwrap().read::<String>().unwrap();
    assert!(result.contains("savings") && result.contains(STATE), "{result}");
    let called = server.called();
    assert_eq!(called.len(), 2);
    assert_eq!(called[1]["requestState"], json!(STATE));
    assert_eq!(
        called[1]["inputResponses"],
        json!({"account": {"action": "accept", "content": {"name": "savings"}}})
    );
    assert_eq!(
        (&called[0]["arguments"], &called[0]["arguments"]),
        (&called[1]["arguments"], &json!({"amount": 5}))
    );
    let key = |call: &Value| call["_meta"]["sederunt/idempotency_key"].clone();
    assert_eq!(key(&called[0]), key(&called[1]), "one call, made again");
    assert_eq!(world.invocations(&id).await, "started completed");
    assert_eq!(Run::of(&world.session(&id).await).elicitation, None);
}

#[tokio::test]
async fn what_a_person_turns_down_is_passed_on_as_such() {
    for (how, action) in [(TurnDown::Decline, "decline"), (TurnDown::Cancel, "cancel")] {
        let (world, server) = world_with(asks_once).await;
        let id = world.invoke("bank", "pay", 60_000).await;
        world.work().await;
        world.engine.turn_down(&world.owner, &id, how, None).await.unwrap();
        world.work().await;
        assert_eq!(server.called()[1]["inputResponses"], json!({"account": {"action": action}}));
        assert_eq!(world.session(&id).await.head.status, Status::Completed);
    }
    let (world, server) = world_with(asks_once).await;
    world.invoke("bank", "pay", 60_000).await;
    world.work().await;
    world.decide(sederunt_core::approval::decide::Decision::Deny, None).await;
    world.work().await;
    assert_eq!(server.called()[1]["inputResponses"]["account"], json!({"action": "decline"}));
}

#[tokio::test]
async fn an_agents_run_waits_for_a_person_and_its_model_sees_only_the_result() {
    let (mut world, server) = world_with(asks_once).await;
    world.script(
        "payer",
        r#"[{"call":{"name":"bank__pay","args":{"amount":5}}},{"expect":"savings","say":"Paid."}]"#,
    );
    let heard = world.listen_to_all("payer");
    world.agent("payer", r#"[{"type":"mcp","server":"bank"}]"#).await;
    let id = world.trigger("payer", "").await;
    world.work().await;
    assert_eq!(world.session(&id).await.head.status, Status::WaitingHuman);
    assert!(!world.shown(&id).await.contains(STATE));
    world.reply(&id, r#"{"name":"savings"}"#).await;
    world.work().await;
    let session = world.session(&id).await;
    assert_eq!(session.head.status, Status::Completed, "{:?}", session.details.error_message);
    assert_eq!(server.called().len(), 2);
    assert_eq!(server.called()[1]["requestState"], json!(STATE));
    assert_eq!(world.invocations(&id).await, "started completed(needs_input) started completed");
    assert_eq!(heard.lock().len(), 2, "the model was not asked in between");
}

/// Wants two forms filled in, and an address opened.
fn asks_twice(params: &Value) -> Value {
    if params.get("inputResponses").is_some() {
        return done(&params["inputResponses"].to_string());
    }
    let url = json!({"method": "elicitation/create", "params": {"mode": "url", "message": "Open", "url": "https://x.test/", "elicitationId": "e"}});
    json!({"resultType": "input_required", "inputRequests": {"a": form("First?"), "b": form("Second?"), "c": url}})
}

#[tokio::test]
async fn several_forms_are_asked_one_after_the_other_and_addresses_are_declined() {
    let (world, server) = world_with(asks_twice).await;
    let id = world.invoke("bank", "pay", 60_000).await;
    world.work().await;
    world.reply(&id, r#"{"name":"one"}"#).await;
    world.work().await;
    assert_eq!(server.called().len(), 1, "the second form is still open");
    assert_eq!(world.asked().await.body.staged.unwrap().value()["text"], json!("Second?"));
    world.reply(&id, r#"{"name":"two"}"#).await;
    world.work().await;
    let accept = |name: &str| json!({"action": "accept", "content": {"name": name}});
    let expected = json!({"a": accept("one"), "b": accept("two"), "c": {"action": "decline"}});
    assert_eq!(server.called()[1]["inputResponses"], expected);
}

fn wants_a_model(_: &Value) -> Value {
    let sampling = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}});
    json!({"resultType": "input_required", "inputRequests": {"m": sampling}})
}

/// Never asks a person, and never comes to an end.
fn wants_to_be_called_again(_: &Value) -> Value {
    let url = json!({"method": "elicitation/create", "params": {"mode": "url", "message": "Open", "url": "https://x.test/", "elicitationId": "e"}});
    json!({"resultType": "input_required", "inputRequests": {"u": url}})
}

fn forms(count: usize) -> Value {
    let forms: serde_json::Map<String, Value> = (0..count).map(|n| (n.to_string(), form("?"))).collect();
    json!({"resultType": "input_required", "inputRequests": forms})
}

fn has_the_most_forms(_: &Value) -> Value {
    forms(limits::INPUT_FORMS_MAX)
}

fn has_a_form_too_many(_: &Value) -> Value {
    forms(limits::INPUT_FORMS_MAX + 1)
}

fn wants_a_large_state(_: &Value) -> Value {
    let state = "x".repeat(limits::INPUT_STATE_BYTES_MAX + 1);
    json!({"resultType": "input_required", "requestState": state, "inputRequests": {"a": form("?")}})
}

fn has_the_largest_state(_: &Value) -> Value {
    let state = "x".repeat(limits::INPUT_STATE_BYTES_MAX);
    json!({"resultType": "input_required", "requestState": state, "inputRequests": {"a": form("?")}})
}

#[tokio::test]
async fn a_request_that_is_not_done_here_fails_with_a_reason() {
    let table: [(Calls, Option<&str>, usize); 6] = [
        (wants_a_model, Some("tool_input_unsupported"), 1),
        (wants_to_be_called_again, Some("tool_input_endless"), limits::INPUT_ROUNDS_MAX as usize + 1),
        (wants_a_large_state, Some("tool_input_too_large"), 1),
        (has_the_largest_state, None, 1),
        (has_the_most_forms, None, 1),
        (has_a_form_too_many, Some("tool_malformed"), 1),
    ];
    for (calls, reason, count) in table {
        let (world, server) = world_with(calls).await;
        let id = world.invoke("bank", "pay", 60_000).await;
        world.work().await;
        let session = world.session(&id).await;
        assert_eq!(session.details.end_reason.as_deref(), reason, "{:?}", session.details.error_message);
        assert_eq!(session.head.status, if reason.is_some() { Status::Failed } else { Status::WaitingHuman });
        assert_eq!(server.called().len(), count, "{reason:?}");
    }
}

/// An independent server of an older protocol, which asks while its call waits.
pub fn older() -> Arc<Server> {
    mcp::server(mcp::stdio(None))
}

#[tokio::test]
async fn an_older_server_waits_for_the_answer_of_a_person() {
    let mut world = World::new();
    world.servers.insert("fix".to_owned(), older());
    let id = world.invoke("fix", "choose", 120_000).await;
    let replying = async {
        until("the question", async || world.is_asked(&id).await).await;
        assert_eq!(world.session(&id).await.head.status, Status::Running, "the call goes on");
        assert_eq!(world.asked().await.body.staged.unwrap().value()["text"], json!("Which colour?"));
        world.reply(&id, r#"{"colour":"red"}"#).await;
    };
    tokio::join!(world.work(), replying);
    let session = world.session(&id).await;
    assert_eq!(session.head.status, Status::Completed, "{:?}", session.details.error_message);
    assert_eq!(session.details.result, Some(Json::stored(r#""accept red""#)));
    assert_eq!(world.invocations(&id).await, "started completed");
}

impl World {
    pub async fn is_asked(&self, id: &SessionId) -> bool {
        Run::of(&self.session(id).await).approval_id.is_some()
    }
}

#[tokio::test]
async fn an_older_server_is_declined_when_its_time_is_over_and_the_question_is_closed() {
    let mut world = World::new();
    let server = older();
    // Started before, so that the time is that of the question.
    server.tools().await.unwrap();
    world.servers.insert("fix".to_owned(), server);
    let id = world.invoke("fix", "choose", 1_500).await;
    let watching = async {
        until("the question", async || world.is_asked(&id).await).await;
        world.asked().await.id
    };
    let ((), asked) = tokio::join!(world.work(), watching);
    let session = world.session(&id).await;
    assert_eq!(
        session.details.result,
        Some(Json::stored(r#""decline None""#)),
        "{:?}",
        session.details.error_message
    );
    let closed = world.engine.approval(&world.owner, &asked).await.unwrap();
    assert_eq!(closed.state, ApprovalState::Expired);
    let late = world.engine.reply(&world.owner, &id, parsed(r#"{"colour":"red"}"#), None).await;
    assert_eq!(late.unwrap_err().code(), "invalid_transition");
}

#[tokio::test]
async fn the_question_of_a_worker_that_died_closes_with_its_lease() {
    let mut world = World::new();
    world.servers.insert("fix".to_owned(), older());
    let id = world.invoke("fix", "choose", 120_000).await;
    let asking = async {
        until("the question", async || world.is_asked(&id).await).await;
        world.asked().await.id
    };
    // The worker goes away in the middle of the call.
    let asked = tokio::select! {
        () = world.work() => panic!("the call did not wait"),
        asked = asking => asked,
    };
    world.clock.advance(LEASE + Duration::from_secs(1));
    let lost = world.engine.reply(&world.owner, &id, parsed(r#"{"colour":"red"}"#), None).await;
    assert_eq!(lost.unwrap_err().code(), "invalid_transition", "no call would hear the answer");
    world.engine.sweep().await.unwrap();
    assert_eq!(world.session(&id).await.head.status, Status::Pending);
    let closed = world.engine.approval(&world.owner, &asked).await.unwrap();
    assert_eq!(closed.state, ApprovalState::Cancelled);
}
