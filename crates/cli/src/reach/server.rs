//! Answers from a server: one request each.

use std::time::Duration;

use futures_util::{Stream, StreamExt};
use reqwest::{Method, Response, Url};
use sederunt::TenantId;
use serde_json::{Value, json};

use super::{Ask, SessionFilter};
use crate::exit::{Exit, Failure, Result};

/// How long a server may take to take a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long a server may take to answer; waiting for work comes on top.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// The way to one server, as one caller in one tenant.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    key: Option<String>,
    tenant: String,
}

impl Client {
    pub fn new(url: &str, key: Option<String>, tenant: &TenantId) -> Result<Self> {
        let base = Url::parse(url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| Failure::usage(format!("`{url}` is no address of a server; write http://HOST:PORT")))?;
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .no_proxy()
            .build()
            .map_err(|error| unreachable(&base, &error))?;
        Ok(Self { http, base, key, tenant: tenant.to_string() })
    }

    /// Sends a request and takes its answer, or the refusal in it.
    pub async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &[(String, String)],
        body: Option<&Value>,
        wait: Option<Duration>,
    ) -> Result<Response> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| Failure::usage("the address of the server cannot have a path"))?
            .pop_if_empty()
            .extend(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self.http.request(method, url).header("x-sederunt-tenant", &self.tenant);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some(wait) = wait {
            request = request.timeout(wait);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|error| unreachable(&self.base, &error))?;
        if response.status().is_success() { Ok(response) } else { Err(refusal(response).await) }
    }

    async fn call(&self, method: Method, path: &[&str], body: Option<Value>) -> Result<Value> {
        let response = self.send(method, path, &[], body.as_ref(), Some(ANSWER_MAX)).await?;
        self.json(response).await
    }

    async fn json(&self, response: Response) -> Result<Value> {
        let bytes = response.bytes().await.map_err(|error| unreachable(&self.base, &error))?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes)
            .map_err(|_| Failure::new(Exit::Error, "internal", format!("{} is no sederunt server", self.base)))
    }

    /// The body of an answer, piece by piece.
    pub fn pieces(&self, response: Response) -> impl Stream<Item = Result<Vec<u8>>> {
        let base = self.base.clone();
        response.bytes_stream().map(move |piece| match piece {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(error) => Err(unreachable(&base, &error)),
        })
    }
}

pub async fn answer(client: &Client, ask: Ask) -> Result<Value> {
    match ask {
        Ask::Sessions(filter) => {
            let path = ["api", "sessions"];
            let response = client.send(Method::GET, &path, &pairs(filter), None, Some(ANSWER_MAX)).await?;
            client.json(response).await
        }
        Ask::Session { id } => client.call(Method::GET, &["api", "sessions", &id], None).await,
        Ask::Retry { id } => {
            client.call(Method::POST, &["api", "sessions", &id, "retry"], Some(json!({}))).await
        }
        Ask::Delete { id } => client.call(Method::DELETE, &["api", "sessions", &id], None).await,
        Ask::Claim { worker, session_types, agent_slugs, limit, lease, wait } => {
            let mut body = json!({
                "worker": worker,
                "session_types": session_types,
                "agent_slugs": agent_slugs,
                "limit": limit,
                "wait_ms": millis(wait),
            });
            if let Some(lease) = lease {
                body["lease_ms"] = millis(lease).into();
            }
            let path = ["api", "claims"];
            let response = client.send(Method::POST, &path, &[], Some(&body), Some(ANSWER_MAX + wait)).await?;
            client.json(response).await
        }
        Ask::Keys => client.call(Method::GET, &["api", "keys"], None).await,
        Ask::CreateKey { user, role, prefix, act_as, expires_in } => {
            let body = json!({
                "user": user,
                "role": role,
                "prefix": prefix,
                "act_as": act_as,
                "expires_in": expires_in.map(|life| life.as_secs()),
            });
            client.call(Method::POST, &["api", "keys"], Some(body)).await
        }
        Ask::RevokeKey { id } => client.call(Method::DELETE, &["api", "keys", &id], None).await,
        Ask::Users { after } => {
            let query: Vec<_> = after.map(|after| ("cursor".to_owned(), after)).into_iter().collect();
            let path = ["api", "users"];
            let response = client.send(Method::GET, &path, &query, None, Some(ANSWER_MAX)).await?;
            client.json(response).await
        }
        Ask::CreateUser { id, name, role } => {
            let body = json!({ "id": id, "name": name, "role": role });
            client.call(Method::POST, &["api", "users"], Some(body)).await
        }
        Ask::SetRole { id, role } => {
            client.call(Method::PATCH, &["api", "users", &id], Some(json!({ "role": role }))).await
        }
        Ask::Link { id, platform, external_id } => {
            let body = json!({ "platform": platform, "external_id": external_id });
            client.call(Method::POST, &["api", "users", &id, "identities"], Some(body)).await
        }
        Ask::Merge { from, into } => {
            let path = ["api", "users", &from, "merge"];
            client.call(Method::POST, &path, Some(json!({ "into": into }))).await
        }
        Ask::Tenants => client.call(Method::GET, &["api", "tenants"], None).await,
        Ask::CreateTenant { id } => {
            client.call(Method::POST, &["api", "tenants"], Some(json!({ "id": id }))).await
        }
        Ask::SuspendTenant { id, suspended } => {
            let body = json!({ "suspended": suspended });
            client.call(Method::PATCH, &["api", "tenants", &id], Some(body)).await
        }
        Ask::DeleteTenant { id } => {
            client.call(Method::DELETE, &["api", "tenants", &id], None).await?;
            Ok(json!({ "id": id, "deleted": true }))
        }
    }
}

fn pairs(filter: SessionFilter) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = [
        ("session_type", filter.session_type),
        ("status", filter.status),
        ("group", filter.group),
        ("task_id", filter.task_id),
        ("agent_slug", filter.agent_slug),
        ("entity_id", filter.entity_id),
        ("user_id", filter.user_id),
        ("q", filter.text),
        ("inactive", filter.all.then(|| "false".to_owned())),
        ("parents_only", filter.parents_only.then(|| "true".to_owned())),
        ("limit", Some(filter.limit.to_string())),
        ("cursor", filter.cursor),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect();
    pairs.extend(filter.metadata.into_iter().map(|(key, value)| (format!("metadata.{key}"), value)));
    pairs
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn unreachable(base: &Url, error: &reqwest::Error) -> Failure {
    let mut cause: &dyn std::error::Error = error;
    while let Some(under) = cause.source() {
        cause = under;
    }
    Failure::unavailable(format!("the server at {base} does not answer: {cause}"))
}

async fn refusal(response: Response) -> Failure {
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap_or_default();
    let error = &body["error"];
    let (Some(code), Some(message)) = (error["code"].as_str(), error["message"].as_str()) else {
        return Failure::new(Exit::of_status(status), "http", format!("the server answered {status}"));
    };
    let failure = Failure::new(Exit::of_status(status), code, message);
    match code {
        "unauthenticated" => failure.hint("name a file with a valid key by --key-file"),
        _ => failure,
    }
}

/// One message of an event stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// `message` when the stream names none.
    pub event: String,
    pub data: String,
}

/// Takes the whole messages from the front of what has arrived.
pub fn parse_sse(arrived: &mut Vec<u8>) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(end) = arrived.windows(2).position(|pair| pair == b"\n\n") {
        let block: Vec<u8> = arrived.drain(..end + 2).collect();
        let mut message = Message::default();
        let mut has_data = false;
        for line in String::from_utf8_lossy(&block).lines() {
            if let Some(event) = line.strip_prefix("event:") {
                message.event = event.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data:") {
                if has_data {
                    message.data.push('\n');
                }
                message.data.push_str(data.strip_prefix(' ').unwrap_or(data));
                has_data = true;
            }
        }
        if message.event.is_empty() {
            message.event = "message".into();
        }
        if has_data || message.event != "message" {
            messages.push(message);
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_whole_however_they_arrive() {
        let stream = b": hello\n\nid: 1\ndata: {\"sequence\":1}\n\nevent: ready\n\nevent: delta\ndata: a\ndata: b\n\nid: 2\nda";
        let message = |event: &str, data: &str| Message { event: event.into(), data: data.into() };
        let expected =
            [message("message", "{\"sequence\":1}"), message("ready", ""), message("delta", "a\nb")];
        let mut arrived = Vec::new();
        let mut messages = Vec::new();
        for byte in stream {
            arrived.push(*byte);
            messages.extend(parse_sse(&mut arrived));
        }
        assert_eq!(messages, expected);
        assert_eq!(arrived, b"id: 2\nda");
        assert_eq!(parse_sse(&mut stream.to_vec()), expected);
    }

    #[test]
    fn only_the_address_of_a_server_is_taken() {
        let tenant = TenantId::stored("default");
        for bad in ["", "127.0.0.1:7070", "ftp://x", "file:///etc/passwd"] {
            assert!(Client::new(bad, None, &tenant).is_err(), "{bad}");
        }
        assert!(Client::new("http://127.0.0.1:7070", None, &tenant).is_ok());
    }
}
