//! The keys that tokens are checked with, and where they come from.
//!
//! A key set in a file or published by its issuer is read again when a token names an unknown key, and at intervals
//! anyway, so that keys can be changed while we serve. The source is asked at most once in a while, however many such
//! tokens come. When it does not answer, the known keys stay valid.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use parking_lot::RwLock;
use sederunt_core::Error;
use serde::Deserialize;

use crate::config::{ConfigError, JwtConfig, JwtKeys};

/// Clocks of issuers may be off by this much, in seconds.
pub const LEEWAY_S: u64 = 5;
/// A set is read again after this long, so that a key that was removed from it stops being accepted.
const KEPT: Duration = Duration::from_secs(300);
/// How long an issuer may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Bytes of a key set: some hundred keys.
const SET_BYTES_MAX: usize = 256 * 1024;

/// A key with the one algorithm that it is for.
pub struct Pinned {
    pub id: Option<String>,
    pub key: DecodingKey,
    pub validation: Validation,
}

/// The keys that are accepted now.
pub struct Keys {
    source: KeySource,
    expected: Expected,
    again_after: Duration,
    held: RwLock<Held>,
    /// Only one read at a time; other callers wait for its result.
    looking: tokio::sync::Mutex<()>,
}

/// Where keys come from.
enum KeySource {
    Settings,
    File(PathBuf),
    Issuer { http: reqwest::Client, url: String },
}

/// The claims that tokens must have in this installation.
#[derive(Clone)]
struct Expected {
    issuer: Option<String>,
    audience: Option<String>,
}

#[derive(Clone)]
struct Held {
    keys: Arc<[Pinned]>,
    looked: Option<Instant>,
}

impl Keys {
    pub fn new(config: &JwtConfig) -> Result<Self, ConfigError> {
        let expected = Expected { issuer: config.issuer.clone(), audience: config.audience.clone() };
        let mut held = Held { keys: Arc::new([]), looked: None };
        let source = match &config.keys {
            JwtKeys::Secret(secret) if secret.len() < 32 => {
                return Err(ConfigError::Jwt("a secret needs at least 32 bytes".into()));
            }
            JwtKeys::Secret(secret) => {
                let key = DecodingKey::from_secret(secret);
                held.keys = Arc::new([expected.pinned(None, key, Algorithm::HS256)]);
                KeySource::Settings
            }
            JwtKeys::JwksFile(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    ConfigError::Jwt(format!("{} cannot be read: {error}", path.display()))
                })?;
                held = Held {
                    keys: expected.set(&text).map_err(ConfigError::Jwt)?,
                    looked: Some(Instant::now()),
                };
                KeySource::File(path.clone())
            }
            JwtKeys::JwksUrl(url) => KeySource::issuer(url)?,
        };
        Ok(Self {
            source,
            expected,
            again_after: config.again_after,
            held: RwLock::new(held),
            looking: Default::default(),
        })
    }

    /// The keys, among them the one of this name if there is such a key.
    pub async fn with(&self, name: Option<&str>) -> Result<Arc<[Pinned]>, Error> {
        if self.should_look(name) {
            let _alone = self.looking.lock().await;
            if self.should_look(name) {
                self.look().await;
            }
        }
        let keys = self.held.read().keys.clone();
        if keys.is_empty() {
            return Err(Error::Unavailable("the issuer's keys are not known yet".into()));
        }
        Ok(keys)
    }

    fn should_look(&self, name: Option<&str>) -> bool {
        let held = self.held.read();
        let is_missing = || name.is_some_and(|name| !held.keys.iter().any(|key| key.is_named(name)));
        match (&self.source, held.looked) {
            (KeySource::Settings, _) => false,
            (_, None) => true,
            (_, Some(looked)) if looked.elapsed() < self.again_after => false,
            (_, Some(looked)) => looked.elapsed() >= KEPT || is_missing(),
        }
    }

    async fn look(&self) {
        let found = match self.source.read().await {
            Ok(text) => self.expected.set(&text),
            Err(reason) => Err(reason),
        };
        let mut held = self.held.write();
        held.looked = Some(Instant::now());
        match found {
            Ok(keys) => held.keys = keys,
            Err(reason) => {
                tracing::warn!(target: "sederunt::http", reason, "the issuer's key set could not be read; known keys stay in use and it is read again");
            }
        }
    }
}

impl KeySource {
    fn issuer(url: &str) -> Result<Self, ConfigError> {
        let near = sederunt_api::client::is_on_this_machine(url);
        if !(url.starts_with("https://") || url.starts_with("http://") && near) {
            let rule = "keys are fetched by https://, or by http:// from this machine";
            return Err(ConfigError::Jwt(format!("{rule}: {url}")));
        }
        // The configured address is trusted; a redirect from it is not.
        let http = reqwest::Client::builder().timeout(ANSWER_MAX).redirect(reqwest::redirect::Policy::none());
        let http = if near { http.no_proxy() } else { http };
        let http = http.build().map_err(|error| ConfigError::Jwt(error.to_string()))?;
        Ok(Self::Issuer { http, url: url.to_owned() })
    }

    async fn read(&self) -> Result<String, String> {
        match self {
            Self::Settings => Err("there is nothing to read".into()),
            Self::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
                read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
            }
            Self::Issuer { http, url } => fetch(http, url).await,
        }
    }
}

async fn fetch(http: &reqwest::Client, url: &str) -> Result<String, String> {
    let mut answer = http.get(url).send().await.map_err(|error| error.to_string())?;
    if !answer.status().is_success() {
        return Err(format!("the issuer answered {}", answer.status()));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| error.to_string())? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > SET_BYTES_MAX {
            return Err(format!("the key set is larger than {SET_BYTES_MAX} bytes"));
        }
    }
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

impl Pinned {
    fn is_named(&self, name: &str) -> bool {
        self.id.as_deref() == Some(name)
    }

    /// Whether a token that names this key, or none, may be signed by it.
    pub fn fits(&self, name: Option<&str>) -> bool {
        self.id.is_none() || name.is_none_or(|name| self.is_named(name))
    }
}

impl Expected {
    /// The keys of a set that sign tokens by RS256 or ES256. A set may hold others, for other uses.
    fn set(&self, text: &str) -> Result<Arc<[Pinned]>, String> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<serde_json::Value>,
        }
        let set: Set = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let keys: Arc<[Pinned]> = set.keys.into_iter().filter_map(|key| self.pin(key)).collect();
        if keys.is_empty() {
            return Err("no key of the set is RSA (RS256) or EC on P-256 (ES256)".into());
        }
        Ok(keys)
    }

    fn pin(&self, key: serde_json::Value) -> Option<Pinned> {
        let jwk: Jwk = serde_json::from_value(key).ok()?;
        if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
            return None;
        }
        let algorithm = match (&jwk.algorithm, jwk.common.key_algorithm) {
            (AlgorithmParameters::RSA(_), None | Some(KeyAlgorithm::RS256)) => Algorithm::RS256,
            (AlgorithmParameters::EllipticCurve(curve), None | Some(KeyAlgorithm::ES256))
                if curve.curve == EllipticCurve::P256 =>
            {
                Algorithm::ES256
            }
            _ => return None,
        };
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        Some(self.pinned(jwk.common.key_id, key, algorithm))
    }

    fn pinned(&self, id: Option<String>, key: DecodingKey, algorithm: Algorithm) -> Pinned {
        let mut validation = Validation::new(algorithm);
        let mut required = vec!["exp", "sub"];
        if let Some(issuer) = &self.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        // Without a configured audience, the signing key alone ties tokens to this installation.
        validation.validate_aud = self.audience.is_some();
        if let Some(audience) = &self.audience {
            validation.set_audience(&[audience]);
            required.push("aud");
        }
        validation.set_required_spec_claims(&required);
        validation.validate_nbf = true;
        validation.leeway = LEEWAY_S;
        Pinned { id, key, validation }
    }
}
