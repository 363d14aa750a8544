//! What both wire formats share: sending a request, reading frames, and typed errors.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::sse::{Frame, Parser};
use super::{Error, Wait};
use crate::limits;

/// A provider, and how to call it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Such as `https://api.openai.com/v1` or `https://api.anthropic.com`.
    pub base_url: String,
    pub key: Option<SecretString>,
    /// The provider's name of the model.
    pub model: String,
    /// Silence after which a stream is given up. Any frame, pings included, ends the silence.
    pub idle: Duration,
}

impl Settings {
    pub fn new(base_url: impl Into<String>, key: Option<SecretString>, model: impl Into<String>) -> Self {
        Self { base_url: base_url.into(), key, model: model.into(), idle: limits::MODEL_IDLE_MAX }
    }
}

/// Why a provider cannot be called at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    #[error("the model's base URL must be an absolute http or https URL without a password in it")]
    Url,
    #[error("the model's key has characters that no header can carry")]
    Key,
    #[error("the HTTP client cannot be set up")]
    Client,
}

/// The header in which a provider expects its key.
pub(super) enum KeyHeader {
    Bearer,
    Named(&'static str),
}

/// One address of a provider.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    client: Client,
    url: Url,
    idle: Duration,
}

impl Endpoint {
    pub fn new(settings: &Settings, path: &str, key: KeyHeader) -> Result<Self, BadSettings> {
        let base = settings.base_url.trim_end_matches('/');
        let url = Url::parse(&format!("{base}{path}")).map_err(|_| BadSettings::Url)?;
        let is_plain = url.username().is_empty() && url.password().is_none();
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() || !is_plain {
            return Err(BadSettings::Url);
        }
        let mut headers = HeaderMap::new();
        if let Some(secret) = &settings.key {
            let (name, value) = match key {
                KeyHeader::Bearer => (AUTHORIZATION, format!("Bearer {}", secret.expose_secret())),
                KeyHeader::Named(name) => (HeaderName::from_static(name), secret.expose_secret().to_owned()),
            };
            let mut value = HeaderValue::try_from(value).map_err(|_| BadSettings::Key)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let client = Client::builder()
            .connect_timeout(limits::CONNECT_MAX)
            .user_agent(concat!("sederunt/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(headers);
        // A server on this machine is called directly: a proxy must not see its key.
        let client = if is_near(&url) { client.no_proxy() } else { client };
        Ok(Self { client: client.build().map_err(|_| BadSettings::Client)?, url, idle: settings.idle })
    }

    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Sends a body and waits for the stream to begin.
    pub async fn open(
        &self,
        headers: &[(&'static str, &'static str)],
        body: &Value,
    ) -> Result<Frames, Error> {
        let response = self.send(headers, body).await?;
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            return Err(Error::Malformed { what: "not an event stream" });
        }
        Ok(Frames { response, parser: Parser::default(), idle: self.idle })
    }

    /// Sends a body and reads the whole answer, which must not be larger than this.
    pub async fn ask<T: DeserializeOwned>(&self, body: &Value, bytes_max: usize) -> Result<T, Error> {
        let mut response = self.send(&[], body).await?;
        let mut read = Vec::new();
        loop {
            let chunk =
                timeout(self.idle, response.chunk()).await.map_err(|_| Error::TimedOut(Wait::Idle))?;
            match chunk.map_err(|_| Error::CutShort)? {
                Some(chunk) if read.len() + chunk.len() <= bytes_max => read.extend_from_slice(&chunk),
                Some(_) => return Err(Error::ReplyTooLarge { limit: bytes_max }),
                None => break,
            }
        }
        serde_json::from_slice(&read)
            .map_err(|_| Error::Malformed { what: "not the JSON that was asked for" })
    }

    /// Sends a body and waits for the head of an answer that is no refusal.
    async fn send(&self, headers: &[(&'static str, &'static str)], body: &Value) -> Result<Response, Error> {
        let mut request = self.client.post(self.url.clone()).json(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = timeout(self.idle, request.send()).await.map_err(|_| Error::TimedOut(Wait::Idle))?;
        let response = response.map_err(|error| match error.is_connect() || error.is_timeout() {
            true => Error::Unreachable,
            false => Error::CutShort,
        })?;
        match response.status().is_success() {
            true => Ok(response),
            false => Err(self.refusal(response).await),
        }
    }

    async fn refusal(&self, mut response: Response) -> Error {
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers(), Timestamp::now());
        let mut body = Vec::new();
        while let Ok(Ok(Some(chunk))) = timeout(self.idle, response.chunk()).await {
            if body.len() + chunk.len() > limits::REFUSAL_BYTES_MAX {
                break;
            }
            body.extend_from_slice(&chunk);
        }
        match serde_json::from_slice::<Refusal>(&body) {
            Ok(refusal) => refusal.error.as_error(Some(status), retry_after),
            Err(_) => Error::of_status(status, None, retry_after),
        }
    }
}

/// The frames of a stream, one after the other.
#[derive(Debug)]
pub(super) struct Frames {
    response: Response,
    parser: Parser,
    idle: Duration,
}

impl Frames {
    /// The next frame. A stream that ends here was cut: both formats mark their end.
    pub async fn next(&mut self) -> Result<Frame, Error> {
        loop {
            if let Some(frame) = self.parser.next()? {
                return Ok(frame);
            }
            let chunk =
                timeout(self.idle, self.response.chunk()).await.map_err(|_| Error::TimedOut(Wait::Idle))?;
            match chunk {
                Ok(Some(chunk)) => self.parser.feed(&chunk),
                Ok(None) | Err(_) => return Err(Error::CutShort),
            }
        }
    }
}

#[derive(Deserialize)]
struct Refusal {
    error: ProviderFailure,
}

/// An error as providers write it, in a body or in the middle of a stream. Its prose is read for its meaning and
/// never passed on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ProviderFailure {
    code: Value,
    r#type: Option<String>,
    message: Option<String>,
}

impl ProviderFailure {
    /// The typed error; `status` is that of the answer, where the error was not inside a stream.
    pub fn as_error(&self, status: Option<u16>, retry_after: Option<Duration>) -> Error {
        let prose = self.message.as_deref().unwrap_or_default();
        if prose.starts_with("prompt is too long") || prose.contains("maximum context length") {
            return Error::TooLong;
        }
        let code = self.code.as_str().or(self.r#type.as_deref());
        let numbered = self.code.as_u64().and_then(|code| u16::try_from(code).ok());
        let status = status.or(numbered.filter(|code| (400..600).contains(code)));
        let kind = |name: &str| code == Some(name) || self.r#type.as_deref() == Some(name);
        let named = || {
            let statuses = [
                ("invalid_request_error", 400),
                ("authentication_error", 401),
                ("billing_error", 402),
                ("permission_error", 403),
                ("not_found_error", 404),
                ("rate_limit_error", 429),
                ("rate_limit_exceeded", 429),
                ("timeout_error", 504),
                ("overloaded_error", 529),
            ];
            statuses.into_iter().find(|(name, _)| kind(name)).map_or(500, |(_, status)| status)
        };
        Error::of_status(status.unwrap_or_else(named), code, retry_after)
    }
}

/// How long to wait, in the forms that providers use: milliseconds, seconds, or a date. A date is compared with the
/// `Date` header of the answer, or with our clock without one.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    let date = |name: &str| DateTimeParser::new().parse_timestamp(text(name)?).ok();
    if let Some(seconds) = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number("retry-after")) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let wait = date("retry-after")?.duration_since(date("date").unwrap_or(now));
    // A date in the past asks for no wait.
    Some(Duration::try_from(wait).unwrap_or_default())
}

fn is_near(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_inside_a_stream_is_as_typed_as_a_status() {
        let unavailable = |status| Error::Unavailable { status, retry_after: None };
        let refused = |status, code: &str| Error::Refused { status, code: Some(code.to_owned()) };
        let cases = [
            (r#"{"type":"overloaded_error","message":"Overloaded"}"#, unavailable(529)),
            (r#"{"type":"api_error","message":"x"}"#, unavailable(500)),
            (r#"{"type":"rate_limit_error","message":"x"}"#, Error::RateLimited { retry_after: None }),
            (r#"{"type":"tokens","code":"rate_limit_exceeded"}"#, Error::RateLimited { retry_after: None }),
            (r#"{"type":"invalid_request_error","code":null}"#, refused(400, "invalid_request_error")),
            (r#"{"code":502,"message":"x"}"#, unavailable(502)),
            (r#"{"code":"context_length_exceeded","type":"invalid_request_error"}"#, Error::TooLong),
            (r#"{"type":"invalid_request_error","message":"prompt is too long: 9 tokens"}"#, Error::TooLong),
            (r#"{"message":"This model's maximum context length is 10"}"#, Error::TooLong),
            (r#"{"type":"server_error"}"#, unavailable(500)),
            ("{}", unavailable(500)),
        ];
        for (text, expected) in cases {
            let failure: ProviderFailure = serde_json::from_str(text).unwrap();
            assert_eq!(failure.as_error(None, None), expected, "{text}");
        }
    }

    #[test]
    fn settings_that_cannot_work_are_refused_before_the_first_call() {
        let with = |url: &str, key: &str| {
            let settings = Settings::new(url, Some(SecretString::from(key)), "m");
            Endpoint::new(&settings, "/x", KeyHeader::Bearer).map(|endpoint| endpoint.url.to_string())
        };
        assert_eq!(with("http://127.0.0.1:1/v1/", "k"), Ok("http://127.0.0.1:1/v1/x".to_owned()));
        for url in ["", "nonsense", "file:///etc", "ftp://host", "http://user:pass@host"] {
            assert_eq!(with(url, "k"), Err(BadSettings::Url), "{url}");
        }
        assert_eq!(with("http://host", "line\nbreak"), Err(BadSettings::Key));
    }

    #[test]
    fn settings_do_not_print_their_key() {
        let settings = Settings::new("http://host", Some(SecretString::from("sk-secret")), "m");
        let endpoint = Endpoint::new(&settings, "", KeyHeader::Named("x-api-key")).unwrap();
        assert!(!format!("{settings:?} {endpoint:?}").contains("sk-secret"));
    }

    #[test]
    fn the_wish_to_be_left_alone_is_read_in_all_its_forms() {
        let now: Timestamp = "2026-11-16T08:49:00Z".parse().unwrap();
        let cases: [(&[(&'static str, &str)], _); 11] = [
            (&[("retry-after", "7")], Some(7_000)),
            (&[("retry-after", "0.5")], Some(500)),
            (&[("retry-after-ms", "250")], Some(250)),
            (&[("retry-after-ms", "250"), ("retry-after", "7")], Some(250)),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "Mon, 16 Nov 2026 08:49:37 GMT")], Some(37_000)),
            (&[("retry-after", "Mon, 16 Nov 2026 08:48:59 GMT")], Some(0)),
            (&[("retry-after", "Mon, 16 Nov 2026")], None),
            (
                &[
                    ("retry-after", "Mon, 16 Nov 2026 08:49:37 GMT"),
                    ("date", "Mon, 16 Nov 2026 08:49:07 GMT"),
                ],
                Some(30_000),
            ),
            (&[("date", "Mon, 16 Nov 2026 08:49:07 GMT")], None),
        ];
        for (given, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.insert(*name, HeaderValue::from_str(value).unwrap());
            }
            let wait = retry_after(&headers, now);
            assert_eq!(wait.map(|wait| wait.as_millis()), expected, "{given:?}");
        }
    }
}
