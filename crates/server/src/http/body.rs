//! Request bodies: bounded, JSON, read once by the strict pass, then by type.
//!
//! The canonical text is what everything below sees: handlers borrow from it, and the idempotency
//! key is made from it, so white space and escapes do not make two requests out of one.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use sederunt_api::query::{self, FromQuery, QueryPairs};
use sederunt_core::json::Json;
use sederunt_core::store::IdemKey;
use sederunt_core::strict::read;
use sederunt_core::{Error, json, limits};
use serde::de::Deserialize;

use super::auth::Caller;
use super::error::RequestError;

/// A body that trickles in for longer than this is given up.
const BODY_READ_MAX: Duration = Duration::from_secs(30);

/// A body that is too long is read up to this length before it is refused.
const DISCARDED_BYTES_MAX: usize = 4 * limits::BODY_BYTES_MAX;

/// The canonical text of a request's body, with its idempotency key.
#[derive(Debug)]
pub struct Text {
    pub text: String,
    pub key: Option<IdemKey>,
}

impl Text {
    pub fn json(&self) -> Json {
        Json::stored(self.text.as_str())
    }
}

/// The body of a request that was made in this process. It is in memory already, so its size is not limited.
#[derive(Clone, Debug)]
pub struct WholeBody(pub Bytes);

/// A request's body, read as `T`.
#[derive(Debug)]
pub struct Input<T> {
    pub body: T,
    pub key: Option<IdemKey>,
}

impl<S: Sync> FromRequest<S> for Text {
    type Rejection = RequestError;

    async fn from_request(request: Request, _: &S) -> Result<Self, RequestError> {
        let (parts, body) = request.into_parts();
        refuse_query(parts.uri.query())?;
        Self::read(&parts, body).await
    }
}

impl Text {
    pub async fn read(parts: &Parts, body: Body) -> Result<Self, RequestError> {
        let bytes = match parts.extensions.get() {
            Some(WholeBody(bytes)) => bytes.clone(),
            None => tokio::time::timeout(BODY_READ_MAX, take(body))
                .await
                .map_err(|_| RequestError::SlowBody)??,
        };
        let text = if bytes.is_empty() {
            "{}".to_owned()
        } else if is_json(&parts.headers) {
            json::canonical(&bytes)?
        } else {
            return Err(RequestError::MediaType);
        };
        let key = match parts.headers.get("idempotency-key") {
            None => None,
            // Without a caller there is nobody whom a key could belong to.
            Some(given) => match parts.extensions.get::<Caller>() {
                None => None,
                Some(caller) => {
                    let line = format!("{} {}", parts.method, parts.uri.path());
                    idem_key(caller, &line, given.as_bytes(), &text)?
                }
            },
        };
        Ok(Self { text, key })
    }
}

/// What a browser sends of a form without a script: names and values, in their order.
pub async fn form_fields(parts: &Parts, body: Body) -> Result<Vec<(String, String)>, RequestError> {
    refuse_query(parts.uri.query())?;
    if !is_of_type(&parts.headers, "application/x-www-form-urlencoded") {
        return Err(RequestError::FormType);
    }
    let bytes =
        tokio::time::timeout(BODY_READ_MAX, take(body)).await.map_err(|_| RequestError::SlowBody)??;
    let broken = || Error::invalid("form", "is not percent-encoded UTF-8");
    let text = std::str::from_utf8(&bytes).map_err(|_| broken())?;
    Ok(QueryPairs::parse(text).map_err(|_| broken())?.into_all())
}

impl<T: for<'de> Deserialize<'de>, S: Sync> FromRequest<S> for Input<T> {
    type Rejection = RequestError;

    async fn from_request(request: Request, state: &S) -> Result<Self, RequestError> {
        let Text { text, key } = Text::from_request(request, state).await?;
        Ok(Self { body: read(&text)?, key })
    }
}

/// A request's body, read as `T`, with parameters beside it.
#[derive(Debug)]
pub struct InputWithParams<T, A> {
    pub body: T,
    pub asked: A,
    pub key: Option<IdemKey>,
}

impl<T: for<'de> Deserialize<'de>, A: FromQuery + Send, S: Sync> FromRequest<S> for InputWithParams<T, A> {
    type Rejection = RequestError;

    async fn from_request(request: Request, _: &S) -> Result<Self, RequestError> {
        let (parts, body) = request.into_parts();
        let asked = query::read(parts.uri.query())?;
        let Text { text, key } = Text::read(&parts, body).await?;
        Ok(Self { body: read(&text)?, asked, key })
    }
}

/// Other requests with a body have no parameters.
fn refuse_query(query: Option<&str>) -> Result<(), Error> {
    let Some(query) = query else { return Ok(()) };
    let mut pairs = QueryPairs::parse(query)?;
    pairs.text(&["share"])?;
    pairs.finish()
}

/// Takes a body up to its limit. One that is a little too long is read to its end all the same:
/// a client that is still writing would see a broken connection instead of the answer.
async fn take(mut body: Body) -> Result<Bytes, RequestError> {
    let broken_off = |_| RequestError::from(Error::BadJson("the body broke off".to_owned()));
    let Some(first) = next(&mut body).await.map_err(broken_off)? else { return Ok(Bytes::new()) };
    let mut size = first.len();
    let Some(second) = next(&mut body).await.map_err(broken_off)? else {
        return if size > limits::BODY_BYTES_MAX { Err(too_large()) } else { Ok(first) };
    };
    let mut whole = BytesMut::from(&first[..]);
    let mut chunk = Some(second);
    while let Some(more) = chunk {
        size += more.len();
        if size <= limits::BODY_BYTES_MAX {
            whole.extend_from_slice(&more);
        } else if size > DISCARDED_BYTES_MAX {
            break;
        }
        chunk = next(&mut body).await.map_err(broken_off)?;
    }
    if size > limits::BODY_BYTES_MAX { Err(too_large()) } else { Ok(whole.freeze()) }
}

/// The next piece of data.
async fn next(body: &mut Body) -> Result<Option<Bytes>, axum::Error> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

fn is_json(headers: &HeaderMap) -> bool {
    is_of_type(headers, "application/json")
}

fn is_of_type(headers: &HeaderMap, wanted: &str) -> bool {
    let Some(given) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let essence = given.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(wanted)
}

fn too_large() -> RequestError {
    Error::TooLarge { what: "body", limit: limits::BODY_BYTES_MAX }.into()
}

/// The person to whom an idempotency key belongs, beside the credential. Several people can share one credential: a
/// key with `act_as` acts for the user that it names, and a share link is held by strangers, who are distinguished by
/// their sealed cookies. `None` for a stranger without one: a key that any holder of the link could guess counts for
/// nothing.
fn key_person(caller: &Caller) -> Option<String> {
    match (&caller.actor.user, &caller.respondent) {
        (Some(user), _) => Some(format!("user {user}")),
        (None, Some(respondent)) => Some(format!("cookie {}", respondent.cookie)),
        (None, None) if caller.is_share() => None,
        (None, None) => Some(String::new()),
    }
}

/// Binds a caller's key to the credential, the person behind it and the request line, and stores a hash of the body.
pub fn idem_key(caller: &Caller, line: &str, given: &[u8], body: &str) -> Result<Option<IdemKey>, Error> {
    let fits = (1..=limits::IDEMPOTENCY_KEY_CHARS_MAX).contains(&given.len())
        && given.iter().all(u8::is_ascii_graphic);
    if !fits {
        let rule = format!("must be 1 to {} visible characters", limits::IDEMPOTENCY_KEY_CHARS_MAX);
        return Err(Error::invalid("Idempotency-Key", rule));
    }
    let Some(person) = key_person(caller) else { return Ok(None) };
    let actor = &caller.actor;
    let (tenant, credential) = (actor.tenant.as_str(), actor.credential.as_str());
    let scope = [tenant.as_bytes(), credential.as_bytes(), person.as_bytes(), line.as_bytes(), given];
    Ok(Some(IdemKey::scoped(&scope, body)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sederunt_core::view::Respondent;
    use sederunt_core::{Actor, Role, UserId};

    use super::super::respondent::ProvenRespondent;
    use super::*;

    #[test]
    fn only_json_is_taken() {
        let table = [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("text/plain", false),
            ("application/x-www-form-urlencoded", false),
            ("application/jsonx", false),
            ("text/plain; application/json", false),
        ];
        for (given, taken) in table {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, given.parse().unwrap())]);
            assert_eq!(is_json(&headers), taken, "{given}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }

    #[test]
    fn a_key_is_bound_to_caller_line_and_body() {
        let caller = Caller::local();
        let keyed = |caller: &Caller, line: &str, given: &str, body: &str| {
            idem_key(caller, line, given.as_bytes(), body).map(Option::unwrap)
        };
        let key = |line: &str, given: &str, body: &str| keyed(&caller, line, given, body);
        let first = key("POST /a", "k", "{}").unwrap();
        let ann = Actor { user: Some(UserId::stored("ann")), ..(*caller.actor).clone() };
        let mut lent = caller.clone();
        lent.actor = Arc::new(ann);
        let lent = keyed(&lent, "POST /a", "k", "{}").unwrap();
        assert_ne!(lent.scope, first.scope, "a key that acts for ann is not its lender's");
        assert_eq!(key("POST /a", "k", "{}").unwrap(), first);
        assert_ne!(key("POST /b", "k", "{}").unwrap().scope, first.scope);
        assert_ne!(key("POST /a", "l", "{}").unwrap().scope, first.scope);
        assert_ne!(key("POST /", "ak", "{}").unwrap().scope, first.scope);
        let other = key("POST /a", "k", "{\"x\":1}").unwrap();
        assert_eq!(other.scope, first.scope);
        assert_ne!(other.body, first.body);
        for (given, taken) in [("", false), ("a b", false), ("é", false)] {
            assert_eq!(key("POST /a", given, "{}").is_ok(), taken, "{given:?}");
        }
        assert!(key("POST /a", &"k".repeat(limits::IDEMPOTENCY_KEY_CHARS_MAX), "{}").is_ok());
        assert!(key("POST /a", &"k".repeat(limits::IDEMPOTENCY_KEY_CHARS_MAX + 1), "{}").is_err());
    }

    #[test]
    fn a_key_of_a_link_is_bound_to_the_sealed_cookie_and_counts_for_nothing_without() {
        let link = Actor { role: Role::Share, ..(*Caller::local().actor).clone() };
        let mut stranger = Caller::local();
        stranger.actor = Arc::new(link);
        let key = |caller: &Caller| idem_key(caller, "POST /a", b"k", "{}").unwrap();
        assert_eq!(key(&stranger), None);
        let respondent = |cookie: &str| {
            let who = Respondent::cookie("r".into());
            let proven = ProvenRespondent { view_id: "v".into(), who, cookie: cookie.into() };
            let mut caller = stranger.clone();
            caller.respondent = Some(Arc::new(proven));
            caller
        };
        assert!(key(&respondent("a")).is_some());
        assert_eq!(key(&respondent("a")), key(&respondent("a")));
        assert_ne!(key(&respondent("a")).unwrap().scope, key(&respondent("b")).unwrap().scope);
    }
}
