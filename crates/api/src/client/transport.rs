//! How a request reaches the routes: over HTTP to a server that listens, or in this process without one.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderName, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use sederunt_core::engine::Engine;
use tokio::sync::watch;
use tower::ServiceExt;

use super::{Error, is_near};
use crate::config::{ConfigError, ServerConfig};
use crate::http::body::WholeBody;
use crate::http::error::Causes;
use crate::http::{App, Phase, router};

/// How long to wait for a server to take a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

pub type Headers = Vec<(HeaderName, String)>;

/// The way to the routes.
#[derive(Clone, Debug)]
pub enum Transport {
    Http(HttpTransport),
    InProcess(Arc<InProcess>),
}

/// A server that listens at an address.
#[derive(Clone, Debug)]
pub struct HttpTransport {
    http: reqwest::Client,
    base: String,
}

/// Routes in this process, which serve until they are dropped.
#[derive(Debug)]
pub struct InProcess {
    router: Router,
    _phase: watch::Sender<Phase>,
}

impl Transport {
    pub fn in_process(engine: Engine, config: &ServerConfig) -> Result<Self, ConfigError> {
        let (phase, watched) = watch::channel(Phase::Serving);
        let app = App::new(engine, config, String::new(), config.listen, watched)?;
        Ok(Self::InProcess(Arc::new(InProcess { router: router(app), _phase: phase })))
    }

    /// For what only a connection can carry.
    pub fn over_http(&self) -> Result<&HttpTransport, Error> {
        match self {
            Self::Http(http) => Ok(http),
            Self::InProcess(_) => Err(Error::NoListener),
        }
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: Headers,
        body: String,
    ) -> Result<Answer, Error> {
        match self {
            Self::Http(http) => {
                let request = http.request(method, path, headers);
                let request = if body.is_empty() { request } else { request.body(body) };
                request.send().await.map(Answer::Http).map_err(Error::Unreachable)
            }
            Self::InProcess(routes) => {
                let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
                let request =
                    headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
                let request = request.extension(WholeBody(body.into())).body(Body::empty());
                let request =
                    request.map_err(|error| sederunt_core::Error::invalid("request", error.to_string()))?;
                let Ok(response) = routes.router.clone().oneshot(request).await;
                Ok(Answer::InProcess(response))
            }
        }
    }
}

impl HttpTransport {
    pub fn new(base: &str) -> Result<Self, Error> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .user_agent(concat!("sederunt/", env!("CARGO_PKG_VERSION")));
        // A key for a server on this machine must not leave it by way of a proxy.
        let http = if is_near(base) { http.no_proxy() } else { http };
        let http = http.build().map_err(Error::Unreachable)?;
        Ok(Self { http, base: base.trim_end_matches('/').to_owned() })
    }

    pub fn request(&self, method: Method, path: &str, headers: Headers) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        headers.into_iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    /// The client, and the whole address of a path.
    pub fn way_to(&self, path: &str) -> (reqwest::Client, String) {
        (self.http.clone(), format!("{}{path}", self.base))
    }
}

/// What came back, by either way.
#[derive(Debug)]
pub enum Answer {
    Http(reqwest::Response),
    InProcess(Response),
}

impl Answer {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Http(response) => response.status(),
            Self::InProcess(response) => response.status(),
        }
    }

    /// What lies under a refusal. Only a caller in the same process is told: it is the operator.
    pub fn causes(&self) -> Option<String> {
        match self {
            Self::Http(_) => None,
            Self::InProcess(response) => response.extensions().get().map(|Causes(causes)| causes.clone()),
        }
    }

    /// The whole body.
    pub async fn bytes(self) -> Result<Bytes, Error> {
        match self {
            Self::Http(response) => response.bytes().await.map_err(Error::BrokenOff),
            Self::InProcess(response) => {
                Ok(response.into_body().collect().await.map_err(broken_off)?.to_bytes())
            }
        }
    }

    /// The next piece of the body; `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        match self {
            Self::Http(response) => response.chunk().await.map_err(Error::BrokenOff),
            Self::InProcess(response) => loop {
                match response.body_mut().frame().await.transpose().map_err(broken_off)? {
                    None => return Ok(None),
                    Some(frame) => {
                        if let Ok(data) = frame.into_data() {
                            return Ok(Some(data));
                        }
                    }
                }
            },
        }
    }
}

/// Why a body that is made in this process ended early.
fn broken_off(error: axum::Error) -> Error {
    match error.into_inner().downcast::<sederunt_core::Error>() {
        Ok(error) => Error::InProcess(*error),
        Err(other) => Error::InProcess(sederunt_core::Error::internal(other)),
    }
}

#[cfg(test)]
mod tests {
    use sederunt_core::engine::Settings;
    use sederunt_core::limits;
    use sederunt_core::live::Hub;
    use sederunt_store::sqlite::{Place, SqliteOptions, SqliteStore};
    use serde_json::{Value, json};

    use super::*;
    use crate::client::Client;

    fn engine() -> Engine {
        let hub = Arc::new(Hub::default());
        let options = SqliteOptions { place: Place::Memory, clock: Arc::default(), hub: hub.clone() };
        Engine::new(SqliteStore::open(options).unwrap(), hub, Settings::default())
    }

    fn client(engine: &Engine) -> Client {
        Client::in_process(engine.clone(), "http://127.0.0.1:7070".to_owned(), None).unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn in_process_the_operator_is_answered_as_by_a_server() {
        let engine = engine();
        let client = client(&engine);
        client.post::<Value>("/api/tenants", &json!({ "id": "acme" })).await.unwrap();
        let wish = json!({ "id": "s", "session_type": "mixed" });
        let made: Value = client.clone().in_tenant("acme").post("/api/sessions", &wish).await.unwrap();
        assert_eq!((&made["tenant_id"], &made["source"]["kind"]), (&json!("acme"), &json!("cli")));
        let refused = client.get::<Value>("/api/sessions/s").await.unwrap_err();
        assert_eq!(refused.to_string(), "there is no session `s`, or it is not yours to see");
        assert!(matches!(client.socket("/api/chat/stream").await, Err(Error::NoListener)));
        assert!(
            client.in_tenant("acme").request::<()>(Method::DELETE, "/api/sessions/s", None).await.is_ok()
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_stream_in_process_follows_the_log_as_it_grows() {
        let engine = engine();
        let client = client(&engine);
        client.post::<Value>("/api/sessions", &json!({ "id": "s", "session_type": "mixed" })).await.unwrap();
        let mut stream = client.stream("/api/sessions/s/stream?after=1", None).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap().event, "ready");
        let said = json!({ "events": [{ "type": "user.message", "content": "and now?" }] });
        client.post::<Value>("/api/sessions/s/events", &said).await.unwrap();
        let heard = stream.next().await.unwrap().unwrap();
        assert!(heard.id.as_deref() == Some("2") && heard.data.contains("and now?"), "{heard:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_body_in_process_may_be_longer_than_one_that_is_received() {
        let engine = engine();
        let bundle = format!("{{\"version\": 1{}}}", " ".repeat(limits::BODY_BYTES_MAX));
        let imported: Value =
            client(&engine).request(Method::POST, "/api/bundle", Some(bundle)).await.unwrap();
        assert_eq!(imported["imported"], 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_lies_under_a_refusal_is_told_in_process() {
        let engine = engine();
        let client = client(&engine);
        let path = "/api/feedback/sessions/f/finalize";
        let Error::Refused { status, refusal } = client.post::<Value>(path, &json!({})).await.unwrap_err()
        else {
            panic!("it was carried out")
        };
        assert_eq!((status.as_u16(), refusal.code.as_str()), (503, "unavailable"));
        assert!(refusal.message.ends_with(": this process holds no conversations"), "{}", refusal.message);
    }
}
