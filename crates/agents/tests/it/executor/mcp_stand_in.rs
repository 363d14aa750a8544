//! An MCP server of protocol 2026-07-28 on loopback, written without a library: it answers every request by itself, and
//! remembers the calls.

use std::sync::{Arc, Mutex};

use sederunt_agents::tool::mcp::{Settings, Transport};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::wire::read_request;

/// What the server answers to a call, by its parameters.
pub type Calls = fn(&Value) -> Value;

pub struct McpStandIn {
    url: String,
    called: Arc<Mutex<Vec<Value>>>,
}

impl McpStandIn {
    /// A server with one tool, `pay`.
    pub async fn start(calls: Calls) -> Self {
        Self::start_with(calls, json!({"type": "object"})).await
    }

    /// A server whose tool `pay` takes arguments of this schema.
    pub async fn start_with(calls: Calls, schema: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let called = Arc::<Mutex<Vec<Value>>>::default();
        let seen = Arc::clone(&called);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, calls, schema.clone(), Arc::clone(&seen)));
            }
        });
        Self { url, called }
    }

    pub fn settings(&self) -> Settings {
        Settings::new("bank", Transport::Http { url: self.url.clone(), headers: Vec::new() })
    }

    /// The parameters of every call.
    pub fn called(&self) -> Vec<Value> {
        self.called.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, calls: Calls, schema: Value, seen: Arc<Mutex<Vec<Value>>>) {
    let Some(asked) = read_request(&mut stream).await else { return };
    let request: Value = serde_json::from_str(&asked.body).unwrap_or_default();
    let params = &request["params"];
    let fresh = |mut result: Value| {
        result["resultType"] = "complete".into();
        result["ttlMs"] = 0.into();
        result["cacheScope"] = "private".into();
        result
    };
    let result = match request["method"].as_str() {
        Some("server/discover") => {
            fresh(json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}))
        }
        Some("tools/list") => fresh(json!({"tools": [{"name": "pay", "inputSchema": schema}]})),
        Some("tools/call") => {
            seen.lock().unwrap().push(params.clone());
            calls(params)
        }
        _ => Value::Null,
    };
    let (status, body) = match result {
        Value::Null => ("405 X", String::new()),
        result => ("200 OK", json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}
