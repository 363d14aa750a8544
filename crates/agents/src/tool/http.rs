//! Tools behind an HTTP address: the arguments go out as JSON, and the answer is the result.
//!
//! Every call carries `Idempotency-Key`, so that a repeated attempt acts once, and `Sederunt-Confirmed: true` once a
//! person has approved it. A tool asks for that with `"requires_confirmation": true` in a JSON object, answered with
//! a success, 409 or 428; its `summary` or `message` is the question to people. Secrets are named in headers as
//! `${NAME}` and filled in here; they are never printed. Other refusals (4xx) are results that the model may read;
//! faults (408, 429, 5xx) are errors that may pass.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use sederunt_core::definitions::agent::{secrets_in, sends_to};
use serde_json::Value;

use super::{BadTool, CallContext, Error, Outcome, SentSecrets, Tool, ToolCall, ToolSpec};
use crate::limits;
use crate::outbound::{self, Outbound};

/// Secrets by name, from the configuration.
pub type Secrets = BTreeMap<String, DeclaredSecret>;

/// A secret that the operator has declared, and the hosts that an agent's tools may send it to.
#[derive(Clone, Debug)]
pub struct DeclaredSecret {
    pub value: SecretString,
    pub hosts: Vec<String>,
}

/// Where a request carries the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentPlace {
    /// In the query of a `GET`, and in the JSON body of all others.
    ByMethod,
    /// In the JSON body, whatever the method: never in the address.
    Body,
}

/// A tool as it is configured.
#[derive(Clone, Debug)]
pub struct Settings {
    pub spec: ToolSpec,
    pub method: String,
    pub arguments: ArgumentPlace,
    pub url: String,
    /// Values may hold `${NAME}` for a secret.
    pub headers: Vec<(String, String)>,
}

/// A tool behind an address.
#[derive(Debug)]
pub struct HttpTool {
    spec: ToolSpec,
    method: Method,
    has_query: bool,
    url: String,
    headers: HeaderMap,
    sent: SentSecrets,
    outbound: Outbound,
}

impl HttpTool {
    pub fn new(settings: Settings, secrets: &Secrets, outbound: Outbound) -> Result<Self, BadTool> {
        let Settings { spec, method, arguments, url, headers } = settings;
        let method = match method.as_str() {
            "GET" => Method::GET,
            "POST" => Method::POST,
            "PUT" => Method::PUT,
            "PATCH" => Method::PATCH,
            "DELETE" => Method::DELETE,
            _ => return Err(BadTool::Method { method }),
        };
        let address =
            outbound.check(&url).map_err(|why| BadTool::Address { name: spec.name.clone(), why })?;
        check_hosts(&spec.name, &address, &headers, secrets)?;
        let sent = SentSecrets::named_in(headers.iter().map(|(_, value)| value.as_str()), secrets);
        let headers = filled(&spec.name, &headers, secrets)?;
        let has_query = method == Method::GET && arguments == ArgumentPlace::ByMethod;
        Ok(Self { spec, method, has_query, url, headers, sent, outbound })
    }

    fn request(&self, call: &ToolCall, context: &CallContext) -> Result<RequestBuilder, Error> {
        let url = match self.has_query {
            true => with_query(&self.outbound.check(&self.url)?, &call.args.value()),
            false => self.url.clone(),
        };
        let request = self.outbound.request(self.method.clone(), &url)?.headers(self.headers.clone());
        let request = request.header("Idempotency-Key", header_safe(&context.idempotency_key));
        let request = if context.confirmed { request.header("Sederunt-Confirmed", "true") } else { request };
        Ok(match self.has_query {
            true => request,
            false => request.header(CONTENT_TYPE, "application/json").body(call.args.as_str().to_owned()),
        })
    }

    async fn ask(&self, call: &ToolCall, context: &CallContext) -> Result<Outcome, Error> {
        let sent = self.request(call, context)?.send().await;
        let response = sent.map_err(|error| match outbound::blocked(&error) {
            Some(blocked) => Error::Blocked(blocked),
            None if error.is_connect() => Error::Unreachable,
            None => Error::CutShort,
        })?;
        let status = response.status();
        if status.is_redirection() {
            return Err(Error::Redirected { status: status.as_u16() });
        }
        if status.is_server_error() || matches!(status.as_u16(), 408 | 429) {
            let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
            let retry_after =
                retry_after.and_then(|value| value.trim().parse().ok()).map(Duration::from_secs);
            return Err(Error::Unavailable { status: status.as_u16(), retry_after });
        }
        let (content, cut) = body(response).await?;
        let may_ask = status.is_success() || matches!(status.as_u16(), 409 | 428);
        if let Some(summary) = wish_for_confirmation(&content).filter(|_| may_ask && !cut) {
            return Ok(Outcome::NeedsConfirmation { summary });
        }
        Ok(read(status, content, cut))
    }
}

impl Tool for HttpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn sends(&self) -> &SentSecrets {
        &self.sent
    }

    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<Outcome, Error>> {
        Box::pin(self.ask(call, context))
    }
}

/// An agent's tool sends a secret to the hosts that the secret names, and nowhere else. No redirection is followed, so
/// the address that is checked here is the one that is called.
fn check_hosts(
    tool: &str,
    address: &reqwest::Url,
    headers: &[(String, String)],
    secrets: &Secrets,
) -> Result<(), BadTool> {
    let host = address.host_str().unwrap_or_default().trim_matches(['[', ']']);
    for secret in headers.iter().flat_map(|(_, value)| secrets_in(value)) {
        if secrets.get(secret).is_some_and(|known| !sends_to(&known.hosts, host)) {
            let (name, secret, host) = (tool.to_owned(), secret.to_owned(), host.to_owned());
            return Err(BadTool::SecretHost { name, secret, host });
        }
    }
    Ok(())
}

/// Headers with their secrets filled in, marked so that nothing prints them.
pub(super) fn filled(
    tool: &str,
    headers: &[(String, String)],
    secrets: &Secrets,
) -> Result<HeaderMap, BadTool> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let bad = || BadTool::Header { name: tool.to_owned(), header: name.clone() };
        let value = fill(value, secrets)
            .map_err(|secret| BadTool::Secret { name: tool.to_owned(), secret: secret.to_owned() })?;
        let name = HeaderName::try_from(name).map_err(|_| bad())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        map.append(name, value);
    }
    Ok(map)
}

/// A text with its `${NAME}`s filled in, or the name that is not known.
pub(super) fn fill<'a>(text: &'a str, secrets: &Secrets) -> Result<String, &'a str> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, later)) = after.split_once('}') else { break };
        out.push_str(before);
        out.push_str(secrets.get(name).ok_or(name)?.value.expose_secret());
        rest = later;
    }
    out.push_str(rest);
    Ok(out)
}

/// The engine's keys may hold characters that no header can carry: such a key is sent as its hash.
fn header_safe(key: &str) -> String {
    use sha2::{Digest, Sha256};
    match !key.is_empty() && key.chars().all(|c| c.is_ascii_graphic()) {
        true => key.to_owned(),
        false => hex::encode(Sha256::digest(key)),
    }
}

fn with_query(url: &reqwest::Url, args: &Value) -> String {
    let mut url = url.clone();
    let mut query = url.query_pairs_mut();
    for (name, value) in args.as_object().into_iter().flatten() {
        match value {
            Value::String(text) => query.append_pair(name, text),
            other => query.append_pair(name, &other.to_string()),
        };
    }
    drop(query);
    url.to_string()
}

/// The body up to its limit, and whether it was longer.
async fn body(mut response: Response) -> Result<(String, bool), Error> {
    let mut bytes = Vec::new();
    let mut cut = false;
    while let Some(chunk) = response.chunk().await.map_err(|_| Error::CutShort)? {
        let left = limits::RESULT_BYTES_MAX - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(left)]);
        if chunk.len() > left {
            cut = true;
            break;
        }
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), cut))
}

/// The question to people, if this answer asks for confirmation.
pub(super) fn wish_for_confirmation(content: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(content).ok()?;
    (answer["requires_confirmation"] == Value::Bool(true)).then(|| {
        let words = answer["summary"].as_str().or(answer["message"].as_str());
        words.unwrap_or("The tool asks for confirmation.").to_owned()
    })
}

fn read(status: StatusCode, content: String, cut: bool) -> Outcome {
    match status.is_success() {
        true => Outcome::Done { content, is_error: false, cut },
        false => {
            Outcome::Done { content: format!("status {}: {content}", status.as_u16()), is_error: true, cut }
        }
    }
}

#[cfg(test)]
mod tests {
    use sederunt_core::json::Json;

    use super::*;
    use crate::outbound::{Allow, Blocked};

    fn settings(url: &str, headers: &[(&str, &str)]) -> Settings {
        Settings {
            spec: ToolSpec { name: "t".to_owned(), description: String::new(), schema: Json::stored("{}") },
            method: "POST".to_owned(),
            arguments: ArgumentPlace::ByMethod,
            url: url.to_owned(),
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        }
    }

    fn secrets() -> Secrets {
        let hosts = vec!["example.org".to_owned()];
        [("TOKEN".to_owned(), DeclaredSecret { value: SecretString::from("s3cret"), hosts })].into()
    }

    #[test]
    fn secrets_are_filled_in_and_missing_ones_named() {
        let cases = [
            ("plain", Ok("plain")),
            ("Bearer ${TOKEN}", Ok("Bearer s3cret")),
            ("${TOKEN}${TOKEN}!", Ok("s3crets3cret!")),
            ("${OTHER}", Err("OTHER")),
            ("${unfinished", Ok("${unfinished")),
        ];
        for (text, expected) in cases {
            assert_eq!(fill(text, &secrets()), expected.map(str::to_owned), "{text}");
        }
    }

    #[test]
    fn a_tool_that_could_never_work_is_refused_at_once() {
        let outbound = Outbound::new(Allow::default()).unwrap();
        let make = |settings| HttpTool::new(settings, &secrets(), outbound.clone()).err();
        let name = || "t".to_owned();
        let far = "https://example.org/";
        let inside = Blocked::NotPublic { host: "127.0.0.1".to_owned() };
        assert_eq!(make(settings(far, &[("X-Key", "${TOKEN}")])), None);
        assert_eq!(
            make(settings("http://127.0.0.1/", &[])),
            Some(BadTool::Address { name: name(), why: inside })
        );
        for elsewhere in ["https://example.com/", "https://sub.example.org/", "https://example.org.evil.net/"]
        {
            let refused = make(settings(elsewhere, &[("X-Key", "Bearer ${TOKEN}")]));
            assert!(matches!(refused, Some(BadTool::SecretHost { .. })), "{elsewhere}: {refused:?}");
        }
        assert_eq!(make(settings("https://EXAMPLE.org:8443/x", &[("X-Key", "${TOKEN}")])), None);
        let secret = "OTHER".to_owned();
        assert_eq!(make(settings(far, &[("X", "${OTHER}")])), Some(BadTool::Secret { name: name(), secret }));
        let header = "bad name".to_owned();
        assert_eq!(make(settings(far, &[("bad name", "x")])), Some(BadTool::Header { name: name(), header }));
        let method = "TRACE".to_owned();
        let traced = Settings { method: method.clone(), ..settings(far, &[]) };
        assert_eq!(make(traced), Some(BadTool::Method { method }));
    }

    #[test]
    fn a_tool_does_not_print_its_secrets() {
        let outbound = Outbound::new(Allow::default()).unwrap();
        let tool =
            HttpTool::new(settings("https://example.org/", &[("X-Key", "${TOKEN}")]), &secrets(), outbound)
                .unwrap();
        assert!(!format!("{tool:?}").contains("s3cret"));
    }

    #[test]
    fn confirmation_is_asked_for_in_so_many_words() {
        let cases = [
            (r#"{"requires_confirmation":true,"summary":"Send it?"}"#, Some("Send it?")),
            (r#"{"requires_confirmation":true,"message":"Really?"}"#, Some("Really?")),
            (r#"{"requires_confirmation":true}"#, Some("The tool asks for confirmation.")),
            (r#"{"requires_confirmation":"true"}"#, None),
            (r#"{"requires_confirmation":false}"#, None),
            ("[]", None),
            ("requires_confirmation: true", None),
        ];
        for (content, expected) in cases {
            assert_eq!(wish_for_confirmation(content).as_deref(), expected, "{content}");
        }
    }
}
