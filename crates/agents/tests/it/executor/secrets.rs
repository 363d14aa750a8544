//! Secrets that an invocation sends: nothing that a server says, asks or complains of carries them into the log, a row or an
//! inbox.

use sederunt_agents::tool::http::DeclaredSecret;
use sederunt_agents::tool::mcp::Transport;
use sederunt_core::SessionId;
use sederunt_core::session::Status;
use serde_json::{Value, json};

use super::elicitation::{bank, bank_with, done, form, older, world_with};
use super::mcp_stand_in::{Calls, McpStandIn};
use super::world::World;
use crate::ground::until;

const SECRET: &str = "s3cr\"et/1";
const VALUES: &str = r#"{"key":{"secret":"crm"}}"#;

fn declared(world: &mut World) {
    let hosts = vec!["bank".to_owned(), "fix".to_owned()];
    let secret = DeclaredSecret { value: SECRET.to_owned().into(), hosts };
    world.secrets.insert("crm".to_owned(), secret);
}

/// Fails if anything of a session shows the secret, in any spelling.
async fn check_hidden(world: &World, id: &SessionId) {
    let shown = world.shown_whole(id).await;
    assert!(!shown.contains("s3cr") && !shown.contains("u00733cr"), "{shown}");
}

impl World {
    /// Everything that is stored of a session in clear, questions included.
    async fn shown_whole(&self, id: &SessionId) -> String {
        let session = self.session(id).await;
        format!("{:?} {session:?}", self.log(id).await)
    }
}

/// Asks for two things, and says in both what it was sent.
fn asks_with_what_it_got(params: &Value) -> Value {
    let key = params["arguments"]["key"].as_str().unwrap();
    if params.get("inputResponses").is_some() {
        return done(&json!({"used": key}).to_string());
    }
    let mut second = form(&format!("And again: {key}?"));
    second["params"]["requestedSchema"]["properties"]["name"]["description"] = json!(format!("not {key}"));
    json!({"resultType": "input_required", "requestState": key, "inputRequests": {
        "a": form(&format!("Is {key} yours?")), "b": second}})
}

#[tokio::test]
async fn no_form_that_a_person_is_asked_shows_a_secret() {
    let (mut world, server) = world_with(asks_with_what_it_got).await;
    declared(&mut world);
    let id = world.invoke_with("bank", "pay", 60_000, VALUES).await;
    for asked in ["Is [secret crm] yours?", "And again: [secret crm]?"] {
        world.work().await;
        let staged = world.asked().await.body.staged.unwrap().value();
        assert_eq!(staged["text"], json!(asked));
        assert!(!staged.to_string().contains("s3cr"), "{staged}");
        check_hidden(&world, &id).await;
        world.reply(&id, r#"{"name":"me"}"#).await;
    }
    world.work().await;
    let session = world.session(&id).await;
    assert_eq!(session.head.status, Status::Completed, "{:?}", session.details.error_message);
    assert_eq!(session.details.result.unwrap().value(), json!({"used": "[secret crm]"}));
    let called = server.called();
    assert_eq!((called.len(), &called[1]["arguments"]["key"]), (2, &json!(SECRET)), "the server gets it");
    assert_eq!(called[1]["requestState"], json!(SECRET), "what the server keeps is its own");
    check_hidden(&world, &id).await;
}

/// Spells the secret as JSON may, in a text that is no JSON itself.
fn fails_with_an_escaped_secret(_: &Value) -> Value {
    let text = r#"refused: {"key":"\u00733cr\u0022et\/1"} in \"{\\\"key\\\":\\\"s3cr\\\\\\\"et/1\\\"}\""#;
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": true})
}

fn answers_with_an_escaped_secret(_: &Value) -> Value {
    done(r#"{"key":"\u00733cr\u0022et\/1","n":[1.0]}"#)
}

#[tokio::test]
async fn results_and_errors_hide_a_secret_in_every_spelling() {
    for (calls, status) in [
        (fails_with_an_escaped_secret as Calls, Status::Failed),
        (answers_with_an_escaped_secret, Status::Completed),
    ] {
        let (mut world, _server) = world_with(calls).await;
        declared(&mut world);
        let id = world.invoke_with("bank", "pay", 60_000, VALUES).await;
        world.work().await;
        let session = world.session(&id).await;
        assert_eq!(session.head.status, status, "{:?}", session.details.error_message);
        check_hidden(&world, &id).await;
        if let Some(result) = session.details.result {
            assert_eq!(result.as_str(), r#"{"key":"[secret crm]","n":[1.0]}"#);
        }
    }
}

fn is_never_called(_: &Value) -> Value {
    panic!("the arguments do not fit");
}

#[tokio::test]
async fn a_complaint_about_the_arguments_does_not_quote_a_secret() {
    let mut world = World::new();
    let server = McpStandIn::start_with(
        is_never_called,
        json!({"type": "object", "properties": {"key": {"type": "string", "maxLength": 3}}}),
    )
    .await;
    world.servers.insert("bank".to_owned(), bank(server.settings()));
    declared(&mut world);
    let id = world.invoke_with("bank", "pay", 60_000, VALUES).await;
    world.work().await;
    let session = world.session(&id).await;
    assert_eq!(session.details.end_reason.as_deref(), Some("bad_arguments"));
    check_hidden(&world, &id).await;
}

#[tokio::test]
async fn what_an_older_server_asks_during_its_call_shows_no_secret() {
    let mut world = World::new();
    world.servers.insert("fix".to_owned(), older());
    declared(&mut world);
    let id = world.invoke_with("fix", "choose_for", 120_000, VALUES).await;
    let replying = async {
        until("the question", async || world.is_asked(&id).await).await;
        let staged = world.asked().await.body.staged.unwrap().value();
        assert_eq!(staged["text"], json!("Which colour for [secret crm]?"));
        check_hidden(&world, &id).await;
        world.reply(&id, r#"{"colour":"red"}"#).await;
    };
    tokio::join!(world.work(), replying);
    let session = world.session(&id).await;
    assert_eq!(session.details.result.unwrap().value(), json!("accept for [secret crm]"));
    check_hidden(&world, &id).await;
}

/// Says what its connection carries.
fn tells_its_key(_: &Value) -> Value {
    done("my key is s3cr\"et/1")
}

#[tokio::test]
async fn an_agents_tool_does_not_repeat_what_its_server_is_configured_with() {
    let mut world = World::new();
    let server = McpStandIn::start(tells_its_key).await;
    declared(&mut world);
    let mut settings = server.settings();
    if let Transport::Http { headers, .. } = &mut settings.transport {
        headers.push(("x-key".to_owned(), "${crm}".to_owned()));
    }
    let known = bank_with(settings, &world.secrets);
    world.servers.insert("bank".to_owned(), known);
    world.script(
        "payer",
        r#"[{"call":{"name":"bank__pay","args":{}}},{"expect":"secret crm","say":"Paid."}]"#,
    );
    world.agent("payer", r#"[{"type":"mcp","server":"bank"}]"#).await;
    let id = world.trigger("payer", "").await;
    world.work().await;
    let session = world.session(&id).await;
    assert_eq!(session.head.status, Status::Completed, "{:?}", session.details.error_message);
    check_hidden(&world, &id).await;
}
