//! How a request reaches the routes: over HTTP to a server that listens, or in this process without one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt as _};
use http::{HeaderName, Method, Request, StatusCode, header};

use super::{Error, is_on_this_machine};

/// How long to wait for a server to take a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

pub type Headers = Vec<(HeaderName, String)>;

/// The way to the routes.
#[derive(Clone, Debug)]
pub enum Transport {
    Http(HttpTransport),
    InProcess(Arc<dyn LocalRoutes>),
}

/// A server that listens at an address.
#[derive(Clone, Debug)]
pub struct HttpTransport {
    http: reqwest::Client,
    base: String,
}

/// Routes that answer in this process, without a listener: `sederunt_server::client_in_process` makes them.
pub trait LocalRoutes: fmt::Debug + Send + Sync {
    fn answer(&self, request: Request<Bytes>) -> BoxFuture<'_, LocalAnswer>;
}

/// The answer of routes in this process.
pub struct LocalAnswer {
    pub status: StatusCode,
    /// What lies under a refusal. Only a caller in the same process is told: it is the operator.
    pub causes: Option<String>,
    pub body: BoxStream<'static, Result<Bytes, sederunt_core::Error>>,
}

impl fmt::Debug for LocalAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalAnswer").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Transport {
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
    ) -> Result<ClientResponse, Error> {
        match self {
            Self::Http(http) => {
                let request = http.request(method, path, headers);
                let request = if body.is_empty() { request } else { request.body(body) };
                request.send().await.map(ClientResponse::Http).map_err(Error::Unreachable)
            }
            Self::InProcess(routes) => {
                let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
                let request =
                    headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
                let request = request
                    .body(body.into())
                    .map_err(|error| sederunt_core::Error::invalid("request", error.to_string()))?;
                Ok(ClientResponse::InProcess(routes.answer(request).await))
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
        let http = if is_on_this_machine(base) { http.no_proxy() } else { http };
        let http = http.build().map_err(Error::Unreachable)?;
        Ok(Self { http, base: base.trim_end_matches('/').to_owned() })
    }

    pub fn request(&self, method: Method, path: &str, headers: Headers) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        headers.into_iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    /// The client, and the whole address of a path.
    pub fn connection_to(&self, path: &str) -> (reqwest::Client, String) {
        (self.http.clone(), format!("{}{path}", self.base))
    }
}

/// What came back, by either way.
#[derive(Debug)]
pub enum ClientResponse {
    Http(reqwest::Response),
    InProcess(LocalAnswer),
}

impl ClientResponse {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Http(response) => response.status(),
            Self::InProcess(answer) => answer.status,
        }
    }

    /// What lies under a refusal, as far as this caller is told.
    pub fn causes(&self) -> Option<String> {
        match self {
            Self::Http(_) => None,
            Self::InProcess(answer) => answer.causes.clone(),
        }
    }

    /// The whole body.
    pub async fn bytes(mut self) -> Result<Bytes, Error> {
        if let Self::Http(response) = self {
            return response.bytes().await.map_err(Error::BrokenOff);
        }
        let mut whole = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// The next piece of the body; `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        match self {
            Self::Http(response) => response.chunk().await.map_err(Error::BrokenOff),
            Self::InProcess(answer) => Ok(answer.body.next().await.transpose()?),
        }
    }
}
