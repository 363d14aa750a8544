//! /mcp, as the SDK's own client calls it and as nobody should

use std::collections::HashMap;

use http::{HeaderName, HeaderValue, Method};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ErrorCode, Implementation,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, RequestMetaObject, ResourceContents,
};
use rmcp::service::{ClientLifecycleMode, RunningService, serve_client_with_lifecycle};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{RoleClient, ServiceError};
use sederunt_core::access::Role;
use sederunt_core::engine::NewKey;
use sederunt_core::limits;
use serde_json::{Value, json};

use crate::server::{Caller, OPERATOR, StoreKind, TestServer, on_every_store, raw, within};

on_every_store!(
    every_version_is_served_and_no_session_is_kept,
    tools_say_what_they_are,
    tools_answer_as_the_http_interface_does,
    a_refusal_is_an_answer_of_the_tool,
    a_call_with_the_same_key_has_one_effect,
    what_is_no_request_is_an_error_of_the_protocol,
    each_request_is_answered_to_its_own_caller,
    strangers_and_pages_of_other_sites_are_turned_away,
    sessions_are_resources_for_those_who_may_see_them,
    resources_are_listed_page_by_page,
    a_server_that_stops_waits_for_no_client,
);

pub type Line = RunningService<RoleClient, ClientConfig>;

const OLD: ClientLifecycleMode = ClientLifecycleMode::Initialize;

pub fn new() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

/// Opens a line as whoever these headers say.
pub async fn line(
    server: &TestServer,
    headers: &[(&'static str, &str)],
    lifecycle: ClientLifecycleMode,
) -> Line {
    let mut config = StreamableHttpClientTransportConfig::with_uri(format!("http://{}/mcp", server.address));
    let header = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    };
    config.custom_headers = headers.iter().map(header).collect::<HashMap<_, _>>();
    let transport = StreamableHttpClientTransport::with_client(reqwest::Client::new(), config);
    let us = ClientConfig::new(ClientCapabilities::default(), Implementation::new("test", "1"));
    within(serve_client_with_lifecycle(us, transport, lifecycle)).await.unwrap()
}

pub async fn line_of(server: &TestServer, secret: &str) -> Line {
    line(server, &[("authorization", &format!("Bearer {secret}"))], new()).await
}

fn params(name: &'static str, arguments: Value) -> CallToolRequestParams {
    CallToolRequestParams::new(name).with_arguments(arguments.as_object().unwrap().clone())
}

pub async fn call(line: &Line, name: &'static str, arguments: Value) -> CallToolResult {
    within(line.call_tool(params(name, arguments))).await.unwrap()
}

/// Calls under a key that makes a repeat the same call.
pub async fn keyed(line: &Line, name: &'static str, arguments: Value, key: &str) -> CallToolResult {
    let mut meta = RequestMetaObject::new();
    meta.insert("sederunt/idempotency_key".to_owned(), json!(key));
    let mut params = params(name, arguments);
    params.meta = Some(meta);
    within(line.call_tool(params)).await.unwrap()
}

/// What a tool gave, which must be the same for programs and as text.
#[track_caller]
pub fn given(result: CallToolResult) -> Value {
    assert_eq!(result.is_error, Some(false), "{result:?}");
    let text = result.content[0].as_text().unwrap().text.clone();
    let value = result.structured_content.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    value
}

/// What a tool was refused: the code, and the field if one is named.
#[track_caller]
pub fn refused(result: &CallToolResult) -> (&str, Option<&str>) {
    assert_eq!(result.is_error, Some(true), "{result:?}");
    let error = &result.structured_content.as_ref().unwrap()["error"];
    assert_eq!(error["message"].as_str(), Some(result.content[0].as_text().unwrap().text.as_str()));
    (error["code"].as_str().unwrap(), error["field"].as_str())
}

pub async fn read(line: &Line, uri: &str) -> Result<(String, String), ServiceError> {
    let read = within(line.read_resource(ReadResourceRequestParams::new(uri))).await?;
    match read.contents.into_iter().next().unwrap() {
        ResourceContents::TextResourceContents { uri: named, mime_type, text, .. } => {
            assert_eq!(named, uri);
            Ok((mime_type.unwrap(), text))
        }
        other => panic!("{other:?}"),
    }
}

/// A client that writes its own messages.
fn by_hand<'a>(guest: Caller<'a>) -> Caller<'a> {
    guest.with("accept", "application/json, text/event-stream")
}

fn message(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Makes a task, and a run of it that failed.
pub async fn failed_run(owner: &Caller<'_>) -> String {
    let task = json!({"slug": "letter", "name": "Write a letter", "agent_slug": "eliza"});
    owner.post("/api/tasks", task).await.expect(201);
    fail_again(owner).await
}

async fn fail_again(owner: &Caller<'_>) -> String {
    let run = owner.post("/api/tasks/letter/trigger", json!({})).await.expect(201).id();
    let claimed = owner.post("/api/claims", json!({"worker": "w"})).await.expect(200).body;
    let failure = json!({"epoch": claimed["claims"][0]["epoch"], "error": "no ink"});
    owner.post(&format!("/api/sessions/{run}/fail"), failure).await.expect(200);
    run
}

async fn every_version_is_served_and_no_session_is_kept(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    for lifecycle in [OLD, new()] {
        let line = line(&server, &[], lifecycle).await;
        let info = line.peer_info().unwrap();
        assert_eq!(info.server_info.as_ref().unwrap().name, "sederunt");
        assert!(info.instructions.as_deref().unwrap().contains("isError"));
        assert!(within(line.list_all_tools()).await.unwrap().len() >= 2);
    }
    let anyone = by_hand(server.anyone());
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let hello = json!({"protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "by hand", "version": "1"}});
        let answer = anyone.post("/mcp", message("initialize", hello)).await.expect(200);
        assert_eq!(answer.body["result"]["protocolVersion"], version);
        assert!(!answer.headers.contains_key("mcp-session-id"));
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        anyone.post("/mcp", ready).await.expect(202);
        // A name that somebody else gave is not asked for.
        let later = anyone.clone().with("mcp-session-id", "of another node");
        assert_eq!(
            later.post("/mcp", message("ping", json!({}))).await.expect(200).body["result"],
            json!({})
        );
    }
    for method in [Method::GET, Method::DELETE] {
        let answer = anyone.send(method, "/mcp", None).await.refused(405, "method_not_allowed");
        assert_eq!(answer.headers["allow"], "POST");
    }
}

async fn tools_say_what_they_are(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let line = line(&server, &[], new()).await;
    let tools = within(line.list_all_tools()).await.unwrap();
    for tool in &tools {
        let name = tool.name.as_ref();
        let hints = tool.annotations.as_ref().unwrap();
        assert_eq!((hints.destructive_hint, hints.open_world_hint), (Some(false), Some(false)), "{name}");
        assert!(tool.title.is_some() && tool.description.as_ref().unwrap().len() > 40, "{name}");
        let input = &tool.input_schema;
        assert_eq!(
            (&input["type"], &input["additionalProperties"]),
            (&json!("object"), &json!(false)),
            "{name}"
        );
        for (argument, schema) in input["properties"].as_object().unwrap() {
            let described = schema["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(described && !argument.contains('_'), "{name} {argument}");
        }
        if let Some(output) = &tool.output_schema {
            assert_eq!(output["type"], "object", "{name}");
            let text = json!(output).to_string();
            assert!(!text.contains("#/components"), "{name}: {text}");
        }
    }
    let (reads, counts, adds, settles) = ((true, true), (false, false), (false, false), (false, true));
    let expected = [
        ("getTaskStatus", reads, json!(["taskId"])),
        ("retrySession", adds, json!(["sessionId"])),
        ("capture_feedback", adds, json!(["signal"])),
        ("open_feedback_session", adds, json!(["feedbackEventId", "signal"])),
        ("append_feedback_context", adds, json!(["sessionId", "message"])),
        ("finalize_feedback_session", settles, json!(["sessionId"])),
        ("feedback_summary", reads, json!(null)),
        ("feedback_stats", reads, json!(null)),
        ("recall", counts, json!(["query"])),
        ("search_lessons", reads, json!(null)),
        ("retrieve_lessons", counts, json!(["toolName"])),
        ("prevention_rules", reads, json!(null)),
    ];
    let found: Vec<_> = tools
        .iter()
        .map(|tool| {
            let hints = tool.annotations.as_ref().unwrap();
            let hints = (hints.read_only_hint.unwrap(), hints.idempotent_hint.unwrap());
            (tool.name.as_ref(), hints, json!(tool.input_schema.get("required")))
        })
        .collect();
    assert_eq!(found, expected);
}

async fn tools_answer_as_the_http_interface_does(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let (owner, line) = (server.anyone(), line(&server, &[], new()).await);
    let run = failed_run(&owner).await;
    let standing = given(call(&line, "getTaskStatus", json!({"taskId": "letter"})).await);
    assert_eq!(standing, owner.get("/api/tasks/letter/status").await.expect(200).body);
    assert_eq!((&standing["status"], &standing["error_message"]), (&json!("failed"), &json!("no ink")));
    let again = given(call(&line, "retrySession", json!({"sessionId": run})).await);
    assert_eq!((&again["retry_of"], &again["status"]), (&json!(run), &json!("pending")));
    let id = again["id"].as_str().unwrap();
    assert_eq!(owner.get(&format!("/api/sessions/{id}")).await.expect(200).body, again);
}

async fn a_refusal_is_an_answer_of_the_tool(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let line = line(&server, &[], OLD).await;
    let open = server.anyone().session(json!({"session_type": "mixed"})).await;
    let table = [
        ("getTaskStatus", json!({}), ("invalid", Some("taskId"))),
        ("getTaskStatus", json!({"taskId": 5}), ("invalid", Some("taskId"))),
        ("getTaskStatus", json!({"taskId": "t", "colour": 1}), ("invalid", Some("colour"))),
        ("getTaskStatus", json!({"task_id": "t"}), ("invalid", Some("task_id"))),
        ("getTaskStatus", json!({"taskId": "nothing"}), ("not_found", None)),
        ("getTaskStatus", json!({"taskId": ""}), ("not_found", None)),
        ("retrySession", json!({"sessionId": "nothing"}), ("not_found", None)),
        ("retrySession", json!({"sessionId": "a/b"}), ("not_found", None)),
        ("retrySession", json!({"sessionId": open}), ("invalid_transition", None)),
    ];
    for (name, arguments, expected) in table {
        let result = call(&line, name, arguments.clone()).await;
        assert_eq!(refused(&result), expected, "{name} {arguments}");
    }
}

async fn a_call_with_the_same_key_has_one_effect(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let owner = server.anyone();
    let run = failed_run(&owner).await;
    let line = line(&server, &[], new()).await;
    let first = given(keyed(&line, "retrySession", json!({"sessionId": run}), "k-1").await);
    assert_eq!(
        given(keyed(&line, "retrySession", json!({"sessionId": run}), "k-1").await)["id"],
        first["id"]
    );
    assert_eq!(
        owner
            .post(&format!("/api/sessions/{}/stop", first["id"].as_str().unwrap()), json!({}))
            .await
            .expect(200)
            .body["status"],
        "abandoned"
    );
    let other = fail_again(&owner).await;
    let other = keyed(&line, "retrySession", json!({"sessionId": other}), "k-1").await;
    assert_eq!(refused(&other).0, "idempotency_mismatch");
    // The header of HTTP counts too, whatever the message is numbered.
    let anyone = by_hand(server.anyone()).with("idempotency-key", "k-2");
    let body = |id: u32| {
        let params = json!({"name": "retrySession", "arguments": {"sessionId": run}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let id = |answer: Value| answer["result"]["structuredContent"]["id"].as_str().unwrap().to_owned();
    let second = id(anyone.post("/mcp", body(1)).await.expect(200).body);
    assert_eq!(id(anyone.post("/mcp", body(2)).await.expect(200).body), second);
    assert_ne!(first["id"], second);
}

async fn what_is_no_request_is_an_error_of_the_protocol(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let line = line(&server, &[], new()).await;
    match within(line.call_tool(params("no_such_tool", json!({})))).await {
        Err(ServiceError::McpError(error)) => {
            assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
            assert!(error.message.contains("no_such_tool"), "{error:?}");
        }
        other => panic!("{other:?}"),
    }
    let anyone = by_hand(server.anyone());
    let table = [
        ("{", -32700),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, -32600),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"getTaskStatus","arguments":{"taskId":"\u0000"}}}"#,
            -32600,
        ),
        ("[]", -32600),
        ("{}", -32600),
        ("", -32600),
        (r#"{"id":1,"method":"ping"}"#, -32600),
    ];
    for (body, code) in table {
        let answer = anyone.post_text("/mcp", body).await.expect(400);
        assert_eq!(answer.body["error"]["code"], code, "{body}: {}", answer.text);
        assert!(answer.headers.contains_key("x-request-id"));
    }
    let unknown = anyone.post("/mcp", message("sessions/steal", json!({}))).await.expect(200);
    assert_eq!(unknown.body["error"]["code"], -32601);
    let plain = anyone.clone().with("content-type", "text/plain");
    plain.post("/mcp", message("ping", json!({}))).await.refused(415, "invalid");
    let large = format!("\"{}\"", "x".repeat(limits::BODY_BYTES_MAX));
    anyone.post_text("/mcp", &large).await.refused(413, "too_large");

    server.anyone().post("/mcp", message("ping", json!({}))).await.expect(406);
}

async fn each_request_is_answered_to_its_own_caller(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let secret = async |role, user: &str| {
        let user = (!user.is_empty()).then(|| user.to_owned());
        server.new_key(NewKey { role: Some(role), user, ..NewKey::default() }).await.0
    };
    let (ada, bob) = (secret(Role::Member, "ada").await, secret(Role::Member, "bob").await);
    let owner = secret(Role::Owner, "").await;
    let task = json!({"slug": "adas", "name": "Ada's", "agent_slug": "eliza"});
    server.bearer(&ada).post("/api/tasks", task).await.expect(201);
    for (caller, found) in [(&ada, true), (&bob, false), (&owner, true)] {
        let result = call(&line_of(&server, caller).await, "getTaskStatus", json!({"taskId": "adas"})).await;
        if found {
            assert_eq!(given(result)["task_name"], "Ada's");
        } else {
            assert_eq!(refused(&result), ("not_found", None));
        }
    }
    // The same line, another credential: each request says who makes it.
    let ask = message("tools/call", json!({"name": "getTaskStatus", "arguments": {"taskId": "adas"}}));
    for (caller, is_error) in [(&ada, false), (&bob, true), (&ada, false)] {
        let guest = by_hand(server.bearer(caller)).with("mcp-session-id", "one-for-all");
        assert_eq!(guest.post("/mcp", ask.clone()).await.expect(200).body["result"]["isError"], is_error);
    }
    let worker = secret(Role::Worker, "").await;
    let result = call(&line_of(&server, &worker).await, "retrySession", json!({"sessionId": "x"})).await;
    assert!(["denied", "not_found"].contains(&refused(&result).0), "{result:?}");
    // The operator names the tenant.
    server.operator().post("/api/tenants", json!({"id": "acme"})).await.expect(201);
    let bearer = format!("Bearer {OPERATOR}");
    let there = [("authorization", bearer.as_str()), ("x-sederunt-tenant", "acme")];
    let there = line(&server, &there, new()).await;
    let result = call(&there, "getTaskStatus", json!({"taskId": "adas"})).await;
    assert_eq!(refused(&result), ("not_found", None));
}

async fn strangers_and_pages_of_other_sites_are_turned_away(store_kind: StoreKind) {
    let server = TestServer::open(store_kind, |config| {
        config.auth = sederunt_server::Auth::Keys;
        config.public_url = Some("https://sessions.example/".to_owned());
    })
    .await;
    let ping = || message("ping", json!({}));
    by_hand(server.anyone()).post("/mcp", ping()).await.refused(401, "unauthenticated");
    by_hand(server.bearer("sdr_wrong")).post("/mcp", ping()).await.refused(401, "unauthenticated");
    let owner = by_hand(server.key(Role::Owner, "").await);
    owner.post("/mcp", ping()).await.expect(200);
    for (origin, status) in [
        ("https://sessions.example", 200),
        ("https://evil.example", 403),
        ("http://sessions.example", 403),
        ("https://sessions.example.evil.example", 403),
        ("null", 403),
    ] {
        owner.clone().with("origin", origin).post("/mcp", ping()).await.expect(status);
    }
    let id = owner.session(json!({"session_type": "mixed"})).await;
    let share = json!({"access": "read", "expires_in": 60});
    let share = owner.post(&format!("/api/sessions/{id}/share"), share).await.expect(201).body;
    let holder = by_hand(server.anyone()).with("x-share-token", share["token"].as_str().unwrap());
    holder.post("/mcp", ping()).await.refused(403, "denied");

    let local = TestServer::local(store_kind).await;
    let (address, port) = (local.address, local.address.port());
    let own = format!("Host: 127.0.0.1:{port}");
    for (headers, status) in [
        (own.clone(), 200),
        (format!("{own}\r\nOrigin: http://localhost:{port}"), 200),
        (format!("{own}\r\nOrigin: https://evil.example"), 403),
        (format!("{own}\r\nX-Forwarded-For: 1.2.3.4"), 403),
        ("Host: evil.example".to_owned(), 403),
    ] {
        let body = ping().to_string();
        let request = format!(
            "POST /mcp HTTP/1.1\r\n{headers}\r\nContent-Type: application/json\r\nConnection: close\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = raw(address, &request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{headers}: {answer}");
    }
}

async fn sessions_are_resources_for_those_who_may_see_them(store_kind: StoreKind) {
    let server = TestServer::keyed(store_kind).await;
    let member = async |user: &str| {
        let wish = NewKey { role: Some(Role::Member), user: Some(user.to_owned()), ..NewKey::default() };
        server.new_key(wish).await.0
    };
    let (ada, bob) = (member("ada").await, member("bob").await);
    let guest = server.bearer(&ada);
    let id = guest.session(json!({"session_type": "mixed", "id": "a talk: 100%", "title": "A talk"})).await;
    guest.say("a%20talk:%20100%25", "Good morning").await.expect(201);
    let (line, other) = (line_of(&server, &ada).await, line_of(&server, &bob).await);
    let listed = within(line.list_all_resources()).await.unwrap();
    assert_eq!((listed.len(), &listed[0].name, listed[0].title.as_deref()), (1, &id, Some("A talk")));
    let uri = listed[0].uri.as_str();
    let (media_type, text) = read(&line, uri).await.unwrap();
    let shown: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((media_type.as_str(), &shown["session"]["id"]), ("application/json", &json!(id)));
    let events = shown["events"].as_array().unwrap();
    assert_eq!(events.last().unwrap()["content"][0]["text"], "Good morning");
    let (media_type, text) = read(&line, &format!("{uri}/transcript")).await.unwrap();
    assert!(media_type == "text/markdown" && text.starts_with("# A talk\n") && text.contains("Good morning"));
    let templates = within(line.list_all_resource_templates()).await.unwrap();
    assert!(templates.iter().any(|template| template.uri_template == "sederunt://sessions/{id}"));

    assert_eq!(within(other.list_all_resources()).await.unwrap(), []);
    server.operator().post("/api/tenants", json!({"id": "acme"})).await.expect(201);
    let bearer = format!("Bearer {OPERATOR}");
    let headers = [("authorization", bearer.as_str()), ("x-sederunt-tenant", "acme")];
    let elsewhere = crate::mcp::line(&server, &headers, OLD).await;
    let missing = "sederunt://sessions/missing";
    let mut said = Vec::new();
    for (line, uri) in [(&other, uri), (&elsewhere, uri), (&line, missing), (&line, "file:///etc/passwd")] {
        match read(line, uri).await {
            Err(ServiceError::McpError(error)) => {
                assert!([-32002, -32602].contains(&error.code.0), "{error:?}");
                said.push(error.message);
            }
            read => panic!("{uri}: {read:?}"),
        }
    }
    said.dedup();
    assert_eq!(said.len(), 1, "a stranger learns nothing: {said:?}");
}

async fn resources_are_listed_page_by_page(store_kind: StoreKind) {
    let server = TestServer::local(store_kind).await;
    let count = limits::PAGE_ROWS_DEFAULT + 1;
    for n in 0..count {
        server.anyone().session(json!({"session_type": "mixed", "id": format!("s{n}")})).await;
    }
    let line = line(&server, &[], new()).await;
    let first = within(line.list_resources(None)).await.unwrap();
    assert_eq!((first.resources.len(), first.next_cursor.is_some()), (limits::PAGE_ROWS_DEFAULT, true));
    let mut all: Vec<_> = within(line.list_all_resources()).await.unwrap();
    all.sort_by(|a, b| a.uri.cmp(&b.uri));
    all.dedup_by(|a, b| a.uri == b.uri);
    assert_eq!(all.len(), count);
    let wrong = PaginatedRequestParams::default().with_cursor(Some("yesterday".to_owned()));
    match within(line.list_resources(Some(wrong))).await {
        Err(ServiceError::McpError(error)) => assert_eq!(error.code, ErrorCode::INVALID_PARAMS),
        other => panic!("{other:?}"),
    }
}

async fn a_server_that_stops_waits_for_no_client(store_kind: StoreKind) {
    let mut server = TestServer::open(store_kind, |config| config.drain_max = crate::server::PATIENCE).await;
    let lines = [line(&server, &[], OLD).await, line(&server, &[], new()).await];
    for line in &lines {
        within(line.list_all_tools()).await.unwrap();
    }
    tokio::time::timeout(crate::server::PATIENCE / 2, server.stop()).await.unwrap().unwrap();
    for line in &lines {
        assert!(within(line.list_all_tools()).await.is_err());
    }
}
