//! A client of the server's routes: JSON in and out, refusals as typed errors, streams event by event, and WebSockets
//! with the same credentials. The routes are those of a running server, or of this process ([`LocalRoutes`]).

mod socket;
mod transport;

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::socket::{Frame, Socket};
use self::transport::{ClientResponse, Headers, HttpTransport, Transport};
pub use self::transport::{LocalAnswer, LocalRoutes};
use crate::wire::error::{Envelope, Refusal};

/// The header by which the operator names a tenant.
pub const X_SEDERUNT_TENANT: &str = "x-sederunt-tenant";

/// The routes of a server, and who calls them.
#[derive(Clone, Debug)]
pub struct Client {
    transport: Transport,
    key: Option<BearerKey>,
    tenant: Option<String>,
}

/// A credential. Does not print.
#[derive(Clone)]
struct BearerKey(String);

impl std::fmt::Debug for BearerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BearerKey")
    }
}

/// What went wrong with a call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}", .refusal.message)]
    Refused { status: StatusCode, refusal: Box<Refusal> },
    #[error("the server cannot be reached: {0}")]
    Unreachable(#[source] reqwest::Error),
    #[error("the server did not answer like Sederunt (status {0})")]
    Strange(StatusCode),
    #[error("the connection broke off: {0}")]
    BrokenOff(#[source] reqwest::Error),
    #[error("the conversation broke off: {0}")]
    SocketBroke(#[source] Box<tokio_tungstenite::tungstenite::Error>),
    #[error("this needs a server that listens")]
    NoListener,
    /// A request or an answer that failed inside this process.
    #[error(transparent)]
    InProcess(#[from] sederunt_core::Error),
}

impl Error {
    /// The stable code of a refusal.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { refusal, .. } => Some(&refusal.code),
            _ => None,
        }
    }
}

impl Client {
    /// A client of the server at this base URL, such as `http://127.0.0.1:7070`.
    pub fn new(base: &str, key: Option<String>) -> Result<Self, Error> {
        let transport = Transport::Http(HttpTransport::new(base)?);
        Ok(Self { transport, key: key.map(BearerKey), tenant: None })
    }

    /// A client of routes in this process, with the key by which they know the caller.
    pub fn in_process(routes: Arc<dyn LocalRoutes>, key: String) -> Self {
        Self { transport: Transport::InProcess(routes), key: Some(BearerKey(key)), tenant: None }
    }

    /// The same client inside this tenant: for the operator, whose key belongs to none.
    #[must_use]
    pub fn in_tenant(self, tenant: &str) -> Self {
        Self { tenant: Some(tenant.to_owned()), ..self }
    }

    /// The HTTP client, the whole address of a path, and the caller's headers: for a protocol, such as MCP, that makes
    /// its own requests.
    pub fn connection_to(&self, path: &str) -> Result<(reqwest::Client, String, HeaderMap), Error> {
        let (http, url) = self.transport.over_http()?.connection_to(path);
        let mut headers = HeaderMap::new();
        for (name, value) in self.headers() {
            // A value that no header can hold is left out; the server then refuses the request.
            if let Ok(mut value) = HeaderValue::from_str(&value) {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        Ok((http, url, headers))
    }

    /// The headers that say who makes a request.
    fn headers(&self) -> Headers {
        let tenant = self.tenant.clone().map(|tenant| (HeaderName::from_static(X_SEDERUNT_TENANT), tenant));
        let key = self.key.as_ref().map(|BearerKey(key)| (AUTHORIZATION, format!("Bearer {key}")));
        tenant.into_iter().chain(key).collect()
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.request(Method::GET, path, None).await
    }

    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        self.request(Method::POST, path, Some(text(body))).await
    }

    pub async fn patch<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        self.request(Method::PATCH, path, Some(text(body))).await
    }

    /// Deletes, and ignores the body of the answer: some routes return what they deleted.
    pub async fn delete(&self, path: &str) -> Result<(), Error> {
        let _: serde::de::IgnoredAny = self.request(Method::DELETE, path, None).await?;
        Ok(())
    }

    /// Any request, with JSON for a body. An answer without a body reads as `null`.
    pub async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<T, Error> {
        let mut headers = self.headers();
        if body.is_some() {
            headers.push((CONTENT_TYPE, "application/json".to_owned()));
        }
        let answer = self.send(method, path, headers, body.unwrap_or_default()).await?;
        let status = answer.status();
        let body = answer.bytes().await?;
        let body = if status == StatusCode::NO_CONTENT { b"null" } else { &body[..] };
        serde_json::from_slice(body).map_err(|_| Error::Strange(status))
    }

    /// The body of an answer piece by piece, such as an export.
    pub async fn pieces(&self, path: &str) -> Result<Pieces, Error> {
        Ok(Pieces(self.send(Method::GET, path, self.headers(), String::new()).await?))
    }

    /// Follows a stream of server-sent events.
    pub async fn stream(&self, path: &str, last_event_id: Option<&str>) -> Result<EventStream, Error> {
        let mut headers = self.headers();
        headers.push((ACCEPT, "text/event-stream".to_owned()));
        headers.extend(last_event_id.map(|id| (HeaderName::from_static("last-event-id"), id.to_owned())));
        let answer = self.send(Method::GET, path, headers, String::new()).await?;
        Ok(EventStream { answer, parser: StreamParser::default() })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: Headers,
        body: String,
    ) -> Result<ClientResponse, Error> {
        granted(self.transport.send(method, path, headers, body).await?).await
    }
}

/// An answer that is no refusal.
async fn granted(answer: ClientResponse) -> Result<ClientResponse, Error> {
    let status = answer.status();
    if status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(answer);
    }
    let causes = answer.causes();
    let Ok(Envelope { error: mut refusal }) = serde_json::from_slice(&answer.bytes().await?) else {
        return Err(Error::Strange(status));
    };
    if let Some(causes) = causes {
        refusal.message = format!("{}: {causes}", refusal.message);
    }
    Err(Error::Refused { status, refusal: Box::new(refusal) })
}

/// Request bodies are plain data: they always serialise.
fn text(body: &impl Serialize) -> String {
    serde_json::to_string(body).unwrap_or_default()
}

/// Whether an address is on this machine.
pub fn is_on_this_machine(base: &str) -> bool {
    let url = reqwest::Url::parse(base).ok();
    let host = url.as_ref().and_then(|url| url.host_str()).map(|host| host.trim_matches(['[', ']']));
    host.is_some_and(|host| {
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    })
}

/// An answer whose body is being read.
#[derive(Debug)]
pub struct Pieces(ClientResponse);

impl Pieces {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<bytes::Bytes>, Error> {
        self.0.chunk().await
    }
}

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamMessage {
    pub id: Option<String>,
    /// `message` unless the event names another.
    pub event: String,
    pub data: String,
}

/// A stream that is being read.
#[derive(Debug)]
pub struct EventStream {
    answer: ClientResponse,
    parser: StreamParser,
}

impl EventStream {
    /// The next event; `None` when the server ended the stream.
    pub async fn next(&mut self) -> Result<Option<StreamMessage>, Error> {
        loop {
            if let Some(message) = self.parser.next() {
                return Ok(Some(message));
            }
            match self.answer.chunk().await? {
                Some(chunk) => self.parser.feed(&chunk),
                None => return Ok(None),
            }
        }
    }
}

/// Takes chunks as they come and returns whole events.
#[derive(Debug, Default)]
struct StreamParser {
    buffer: Vec<u8>,
    read: usize,
    building: StreamMessage,
    has_data: bool,
}

impl StreamParser {
    fn feed(&mut self, chunk: &[u8]) {
        self.buffer.drain(..self.read);
        self.read = 0;
        self.buffer.extend_from_slice(chunk);
    }

    fn next(&mut self) -> Option<StreamMessage> {
        while let Some(length) = self.buffer[self.read..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&self.buffer[self.read..self.read + length]).into_owned();
            self.read += length + 1;
            if let Some(message) = self.line(line.trim_end_matches('\r')) {
                return Some(message);
            }
        }
        None
    }

    fn line(&mut self, line: &str) -> Option<StreamMessage> {
        if line.is_empty() {
            let mut message = std::mem::take(&mut self.building);
            if message.event.is_empty() {
                message.event.push_str("message");
            }
            return std::mem::take(&mut self.has_data).then_some(message);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.building.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.building.event),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.building.data.push('\n');
                }
                self.building.data.push_str(value);
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_this_machine_is_reached_directly() {
        for (base, near) in [
            ("http://127.0.0.1:7070", true),
            ("http://localhost:7070", true),
            ("http://[::1]:7070", true),
            ("https://sessions.example", false),
            ("http://localhost.evil.example", false),
        ] {
            assert_eq!(is_on_this_machine(base), near, "{base}");
        }
    }

    #[test]
    fn events_are_whole_whatever_the_chunks() {
        let stream = b":\n\nid: 1\ndata: {\"a\":1}\n\nevent: ready\ndata: {}\r\n\r\nid: 2\ndata: x\ndata: y\n\nid: 3\n";
        let message = |id: Option<&str>, event: &str, data: &str| StreamMessage {
            id: id.map(str::to_owned),
            event: event.to_owned(),
            data: data.to_owned(),
        };
        let expected = [
            message(Some("1"), "message", "{\"a\":1}"),
            message(None, "ready", "{}"),
            message(Some("2"), "message", "x\ny"),
        ];
        for size in [1, 2, 3, 7, stream.len()] {
            let mut parser = StreamParser::default();
            let mut seen = Vec::new();
            for chunk in stream.chunks(size) {
                parser.feed(chunk);
                seen.extend(std::iter::from_fn(|| parser.next()));
            }
            assert_eq!(seen, expected, "in chunks of {size}");
        }
    }
}
