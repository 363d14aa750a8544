//! Authenticates callers: by a key, a token, a share link, the operator's key, or as the local owner.
//!
//! Proofs are looked up by their hash and cached for a few seconds, so that a busy caller costs no look-up per
//! request and a revoked one is refused within five seconds. A credential is never logged, printed or kept in clear.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, header};
use moka::sync::Cache;
use sederunt_api::client::X_SEDERUNT_TENANT;
use sederunt_api::query::QueryPairs;
use sederunt_core::access::{Actor, Role};
use sederunt_core::engine::{Credential, Engine, Operator, SignedIn, TokenClaims};
use sederunt_core::people::{KEY_PREFIX, SecretHash};
use sederunt_core::session::SourceKind;
use sederunt_core::{Error, TenantId, Timestamp, UserId};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::browser_cookie;
use super::error::RequestError;
use super::jwt::{JwtClaims, Verifier};
use super::respondent::ProvenRespondent;
use crate::config::{Auth, ConfigError, ServerConfig};

/// How long a proof is believed without asking again. Below [`limits::REVOCATION_REACHES`] with room
/// for the look-up.
///
/// [`limits::REVOCATION_REACHES`]: sederunt_core::limits::REVOCATION_REACHES
const BELIEVED: Duration = Duration::from_secs(4);
/// An open stream asks every few seconds, and believes only what was looked up this recently: both
/// together stay within the bound.
const BELIEVED_BY_STREAMS: Duration = Duration::from_secs(1);
/// How long a failure is remembered.
const DOUBTED: Duration = Duration::from_secs(2);
/// How long a credential counts as known after it was last proved. While an address is over its limit of failures,
/// only known credentials of it are looked up.
const KNOWN: Duration = Duration::from_secs(24 * 3600);
const KNOWN_MAX: u64 = 100_000;
/// Proofs in the cache, and failures in another: failures cannot evict proofs.
const REMEMBERED_MAX: u64 = 10_000;

/// The header by which a key with `act_as` names the user that it acts for.
pub const X_SEDERUNT_USER: &str = "x-sederunt-user";
pub const X_SHARE_TOKEN: &str = "x-share-token";

/// A caller that proved who it is.
#[derive(Clone, Debug)]
pub struct Caller {
    pub actor: Arc<Actor>,
    pub is_operator: bool,
    /// The respondent behind a link, if the request proves one by its cookie.
    pub respondent: Option<Arc<ProvenRespondent>>,
    proof: Option<Arc<Proof>>,
}

/// The caller as the program knows it that mounts the routes under its own (see [`mount`](crate::mount)). The program's
/// authentication puts it into the extensions of a request; it counts more than any credential of the request.
#[derive(Clone, Debug)]
pub struct CallerIdentity(pub Arc<Actor>);

impl From<CallerIdentity> for Caller {
    fn from(CallerIdentity(actor): CallerIdentity) -> Self {
        Self { actor, is_operator: false, respondent: None, proof: None }
    }
}

/// The credential, kept so that it can be checked again while a stream is open.
struct Proof {
    kind: Kind,
    secret: Box<str>,
    acts_for: Option<UserId>,
}

/// What kind of credential was presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Key,
    Token,
    Share,
    /// The cookie of a browser session.
    Browser,
}

/// What a person signs in with.
#[derive(Clone, Copy)]
pub enum SignInSecret<'a> {
    Key(&'a str),
    Token(&'a str),
}

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.kind)
    }
}

/// The cache key of a credential.
fn name(kind: Kind, secret: &str, acts_for: Option<&UserId>) -> SecretHash {
    let mut hash = Sha256::new();
    hash.update([kind as u8]);
    hash.update(secret);
    if let Some(user) = acts_for {
        hash.update([0]);
        hash.update(user.as_str());
    }
    SecretHash(hash.finalize().into())
}

impl Caller {
    /// The caller in local mode.
    pub fn local() -> Self {
        Self {
            actor: Arc::new(Actor::local(SourceKind::Api)),
            is_operator: false,
            respondent: None,
            proof: None,
        }
    }

    /// The caller in local mode, on a page of this server.
    fn local_page() -> Self {
        Self { actor: Arc::new(Actor::local(SourceKind::Web)), ..Self::local() }
    }

    /// The cookie by which a browser proves its session.
    pub fn browser_secret(&self) -> Option<&str> {
        self.proof.as_deref().filter(|proof| proof.kind == Kind::Browser).map(|proof| &*proof.secret)
    }

    /// How the caller proved who it is.
    pub fn proof_name(&self) -> &'static str {
        match &self.proof {
            _ if self.is_operator => "operator",
            None => "local",
            Some(proof) => match proof.kind {
                Kind::Key => "key",
                Kind::Token => "token",
                Kind::Share => "share",
                Kind::Browser => "browser",
            },
        }
    }

    pub fn is_share(&self) -> bool {
        self.actor.role == Role::Share
    }

    /// Whether the caller has a credential that could be revoked.
    pub fn can_be_revoked(&self) -> bool {
        self.proof.is_some()
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RequestError> {
        let missing = || Error::Unauthenticated("the request carries no credential");
        parts.extensions.get::<Self>().cloned().ok_or_else(|| missing().into())
    }
}

#[derive(Clone, Debug)]
struct Believed {
    caller: Caller,
    since: Instant,
}

/// Finds out who calls.
#[derive(Debug)]
pub struct Authenticator {
    engine: Engine,
    local: bool,
    verifier: Option<Verifier>,
    operator: Option<SecretHash>,
    believed: Cache<SecretHash, Believed>,
    /// Credentials that were refused, with the reason: all refusals of one are told alike.
    doubted: Cache<SecretHash, &'static str>,
    known: Cache<SecretHash, ()>,
    on_this_machine: Caller,
    on_own_page: Caller,
    base_url: Box<str>,
}

impl Authenticator {
    pub fn new(engine: Engine, config: &ServerConfig, base_url: &str) -> Result<Self, ConfigError> {
        let verifier = match &config.auth {
            Auth::Jwt(jwt) => Some(Verifier::new(jwt)?),
            Auth::Local | Auth::Keys => None,
        };
        let cache = |life| Cache::builder().max_capacity(REMEMBERED_MAX).time_to_live(life);
        Ok(Self {
            engine,
            local: matches!(config.auth, Auth::Local),
            verifier,
            operator: config.operator_key_hash,
            believed: cache(BELIEVED).build(),
            known: Cache::builder().max_capacity(KNOWN_MAX).time_to_live(KNOWN).build(),
            doubted: Cache::builder().max_capacity(REMEMBERED_MAX).time_to_live(DOUBTED).build(),
            on_this_machine: Caller::local(),
            on_own_page: Caller::local_page(),
            base_url: base_url.into(),
        })
    }

    /// The caller of this request. `must_wait` returns how long its address must wait before it may try an unknown
    /// credential.
    pub async fn caller(
        &self,
        headers: &HeaderMap,
        query: Option<&str>,
        must_wait: impl Fn() -> Option<Duration>,
    ) -> Result<Caller, Error> {
        let acts_for = header_text(headers, X_SEDERUNT_USER)?.map(UserId::parse).transpose()?;
        if let Some(bearer) = bearer(headers)? {
            if self.is_operator(bearer) {
                return self.operator(headers, acts_for).await;
            }
            let kind = if self.verifier.is_some() && !bearer.starts_with(KEY_PREFIX) {
                Kind::Token
            } else {
                Kind::Key
            };
            return self.believe(kind, bearer, acts_for, BELIEVED, must_wait).await;
        }
        if let Some(token) = share_token(headers, query)? {
            return self.believe(Kind::Share, &token, None, BELIEVED, must_wait).await;
        }
        if !self.local {
            return match browser_cookie::read(headers, &self.base_url) {
                Some(cookie) => self.believe(Kind::Browser, cookie, acts_for, BELIEVED, must_wait).await,
                None => Err(Error::Unauthenticated("the request carries no credential")),
            };
        }
        let is_own_page = browser_cookie::says_same_origin(headers) == Some(true);
        let here = if is_own_page { &self.on_own_page } else { &self.on_this_machine };
        match acts_for {
            None => Ok(here.clone()),
            Some(user) => {
                let actor = self.engine.act_as(Actor::clone(&here.actor), &user).await?;
                Ok(Caller { actor: Arc::new(actor), ..here.clone() })
            }
        }
    }

    /// The kinds of credentials that people sign in with here.
    pub fn sign_in_kinds(&self) -> &'static [&'static str] {
        match (self.local, &self.verifier) {
            (true, _) => &[],
            (false, None) => &["key"],
            (false, Some(_)) => &["key", "token"],
        }
    }

    /// Exchanges a key or a token of a person for a browser session.
    pub async fn sign_in(&self, secret: SignInSecret<'_>, browser: Option<&str>) -> Result<SignedIn, Error> {
        if self.local {
            return Err(Error::denied("this server has no authentication; there is nothing to sign in to"));
        }
        match (secret, &self.verifier) {
            (SignInSecret::Key(key), _) if self.is_operator(key) => {
                Err(Error::denied("the operator's key does not sign in; use a person's own key"))
            }
            (SignInSecret::Key(key), _) => self.engine.sign_in(Credential::Key(key), None, browser).await,
            (SignInSecret::Token(token), Some(verifier)) => {
                let claims = verifier.claims(token).await?;
                let JwtClaims { tenant, sub, role, exp } = &claims;
                let ends_at = Timestamp::from_micros(exp.saturating_mul(1_000_000));
                let credential = Credential::Token(TokenClaims { tenant, user: sub, role });
                self.engine.sign_in(credential, Some(ends_at), browser).await
            }
            (SignInSecret::Token(_), None) => Err(Error::Unauthenticated("tokens are not taken here")),
        }
    }

    /// Forgets the proof of a browser that signed out, so that this node refuses its cookie at once.
    pub fn forget_browser(&self, secret: &str) {
        self.believed.invalidate(&name(Kind::Browser, secret, None));
    }

    /// The caller as the user that a request names in its body or query: a key with `act_as` acts for that user, as
    /// if the header had named it. For local callers and the operator, the engine decides.
    pub async fn acting_for(&self, caller: &Caller, user: Option<&str>) -> Result<Caller, Error> {
        match (user, &caller.proof) {
            (Some(user), Some(proof))
                if proof.kind == Kind::Key
                    && proof.acts_for.is_none()
                    && caller.actor.user.as_ref().is_none_or(|own| own.as_str() != user) =>
            {
                self.believe(proof.kind, &proof.secret, Some(UserId::parse(user)?), BELIEVED, || None).await
            }
            _ => Ok(caller.clone()),
        }
    }

    /// Whether a caller's credential still opens the same things, with the same role. Checked while its streams are
    /// open. A caller whose role has changed connects again, and then sees what the new role may see.
    pub async fn still_holds(&self, caller: &Caller) -> Result<(), Error> {
        match &caller.proof {
            None => Ok(()),
            Some(proof) => {
                let Proof { kind, secret, acts_for } = &**proof;
                let now = self.believe(*kind, secret, acts_for.clone(), BELIEVED_BY_STREAMS, || None).await?;
                if now.actor.role != caller.actor.role {
                    return Err(Error::Unauthenticated("your role has changed; connect again"));
                }
                Ok(())
            }
        }
    }

    fn is_operator(&self, bearer: &str) -> bool {
        self.operator.is_some_and(|known| SecretHash::of(bearer).0.ct_eq(&known.0).into())
    }

    async fn operator(&self, headers: &HeaderMap, acts_for: Option<UserId>) -> Result<Caller, Error> {
        let tenant = match header_text(headers, X_SEDERUNT_TENANT)? {
            None => TenantId::stored("default"),
            Some(name) => TenantId::parse(name)?,
        };
        let mut actor = Operator::owner_of(tenant, SourceKind::Cli);
        if let Some(user) = acts_for {
            actor = self.engine.act_as(actor, &user).await?;
        }
        Ok(Caller { actor: Arc::new(actor), is_operator: true, respondent: None, proof: None })
    }

    /// The caller of a credential, from the cache if the proof is no older than `for_at_most`.
    async fn believe(
        &self,
        kind: Kind,
        secret: &str,
        acts_for: Option<UserId>,
        for_at_most: Duration,
        must_wait: impl Fn() -> Option<Duration>,
    ) -> Result<Caller, Error> {
        let name = name(kind, secret, acts_for.as_ref());
        if let Some(believed) = self.believed.get(&name)
            && believed.since.elapsed() <= for_at_most
        {
            return Ok(believed.caller);
        }
        if let Some(why) = self.doubted.get(&name) {
            return Err(Error::Unauthenticated(why));
        }
        // A token is checked without the store, and a new one is issued every few minutes.
        if kind != Kind::Token
            && let Some(wait) = must_wait()
            && !self.known.contains_key(&name)
        {
            return Err(Error::RateLimited(wait));
        }
        // Taken before the look-up, so that a revocation during it is noticed in time.
        let since = Instant::now();
        match self.look_up(kind, secret, acts_for.as_ref()).await {
            Ok(actor) => {
                let proof = Arc::new(Proof { kind, secret: secret.into(), acts_for });
                let caller = Caller {
                    actor: Arc::new(actor),
                    is_operator: false,
                    respondent: None,
                    proof: Some(proof),
                };
                self.known.insert(name, ());
                self.believed.insert(name, Believed { caller: caller.clone(), since });
                Ok(caller)
            }
            Err(error) => {
                if let Error::Unauthenticated(why) = error {
                    self.believed.invalidate(&name);
                    self.doubted.insert(name, why);
                }
                Err(error)
            }
        }
    }

    async fn look_up(&self, kind: Kind, secret: &str, acts_for: Option<&UserId>) -> Result<Actor, Error> {
        let claims;
        let credential = match (kind, &self.verifier) {
            (Kind::Key, _) => Credential::Key(secret),
            (Kind::Share, _) => Credential::Share(secret),
            (Kind::Browser, _) => Credential::Browser(secret),
            (Kind::Token, Some(verifier)) => {
                claims = verifier.claims(secret).await?;
                let JwtClaims { tenant, sub, role, .. } = &claims;
                Credential::Token(TokenClaims { tenant, user: sub, role })
            }
            (Kind::Token, None) => return Err(Error::Unauthenticated("tokens are not taken here")),
        };
        self.engine.authenticate(credential, acts_for).await
    }
}

/// The credential of the `Authorization` header.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = given.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| given.next().is_none());
    text.and_then(|text| text.split_once(' '))
        .filter(|(scheme, secret)| scheme.eq_ignore_ascii_case("bearer") && !secret.trim().is_empty())
        .map(|(_, secret)| Some(secret.trim()))
        .ok_or(Error::Unauthenticated("the header is malformed"))
}

/// The token of a share link, from its header or the query string.
fn share_token(headers: &HeaderMap, query: Option<&str>) -> Result<Option<String>, Error> {
    if let Some(token) = header_text(headers, X_SHARE_TOKEN)? {
        return Ok(Some(token.to_owned()));
    }
    match query {
        Some(query) if query.contains("share=") => QueryPairs::parse(query)?.text(&["share"]),
        _ => Ok(None),
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, Error> {
    match headers.get(name) {
        None => Ok(None),
        Some(value) => match std::str::from_utf8(value.as_bytes()) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Error::invalid(name, "is not UTF-8")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_credential_is_read_from_its_header_alone() {
        let table = [
            (vec!["Bearer sdr_x"], Ok(Some("sdr_x"))),
            (vec!["bearer  sdr_x "], Ok(Some("sdr_x"))),
            (vec![], Ok(None)),
            (vec!["Basic abc"], Err(())),
            (vec!["Bearer"], Err(())),
            (vec!["Bearer "], Err(())),
            (vec!["Bearer a", "Bearer b"], Err(())),
        ];
        for (values, expected) in table {
            let mut headers = HeaderMap::new();
            for value in &values {
                headers.append(header::AUTHORIZATION, value.parse().unwrap());
            }
            assert_eq!(bearer(&headers).map_err(drop), expected, "{values:?}");
        }
    }

    #[test]
    fn a_share_token_is_read_from_header_or_query() {
        let none = HeaderMap::new();
        assert_eq!(share_token(&none, Some("a=1&share=x%2Dy")).unwrap().as_deref(), Some("x-y"));
        assert_eq!(share_token(&none, Some("myshare=x")).unwrap(), None);
        assert!(share_token(&none, Some("share=a&share=b")).is_err());
        let header = HeaderMap::from_iter([(X_SHARE_TOKEN.parse().unwrap(), "h".parse().unwrap())]);
        assert_eq!(share_token(&header, None).unwrap().as_deref(), Some("h"));
    }

    #[test]
    fn secrets_do_not_print_and_are_told_apart() {
        let proof = Proof { kind: Kind::Key, secret: "sdr_secret".into(), acts_for: None };
        assert_eq!(format!("{proof:?}"), "Key");
        let plain = name(Kind::Key, "sdr_secret", None);
        assert_ne!(plain, name(Kind::Share, "sdr_secret", None));
        assert_ne!(plain, name(Kind::Key, "sdr_secret", Some(&UserId::stored("u"))));
    }
}
