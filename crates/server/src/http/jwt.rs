//! Tokens that somebody else makes: checked by a pinned algorithm, never by the one a token names.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use sederunt_core::access::{Actor, Role};
use sederunt_core::engine::Engine;
use sederunt_core::session::SourceKind;
use sederunt_core::{CredentialId, Error, TenantId, UserId};
use serde::Deserialize;

use crate::config::{ConfigError, JwtConfig, JwtKeys};

/// Clocks of issuers may be off by this much, in seconds.
const LEEWAY_S: u64 = 5;

/// What a token says.
#[derive(Debug, Deserialize)]
struct Claims {
    sub: String,
    tenant: String,
    role: String,
}

/// The keys that tokens are checked with.
pub struct Verifier {
    keys: Vec<Pinned>,
}

/// A key with the one algorithm that it is for.
struct Pinned {
    id: Option<String>,
    key: DecodingKey,
    validation: Validation,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Verifier({} keys)", self.keys.len())
    }
}

impl Verifier {
    pub fn new(config: &JwtConfig) -> Result<Self, ConfigError> {
        let keys = match &config.keys {
            JwtKeys::Secret(secret) if secret.len() < 32 => {
                return Err(ConfigError::Jwt("a secret needs at least 32 bytes".into()));
            }
            JwtKeys::Secret(secret) => {
                vec![Pinned::new(None, DecodingKey::from_secret(secret), Algorithm::HS256)]
            }
            JwtKeys::Jwks(text) => {
                let set: JwkSet =
                    serde_json::from_str(text).map_err(|error| ConfigError::Jwt(error.to_string()))?;
                set.keys.iter().map(pin).collect::<Result<_, _>>()?
            }
        };
        if keys.is_empty() {
            return Err(ConfigError::Jwt("the key set is empty".into()));
        }
        Ok(Self { keys })
    }

    /// Who a token speaks for: its tenant exists and is not suspended, nor is its user.
    pub async fn actor(&self, engine: &Engine, token: &str) -> Result<Actor, Error> {
        let refused = || Error::Unauthenticated("the token is not valid here");
        let claims = self.claims(token).ok_or_else(refused)?;
        let role =
            Role::parse(&claims.role).ok().filter(|role| *role != Role::Channel).ok_or_else(refused)?;
        let tenant = TenantId::parse(&claims.tenant).map_err(|_| refused())?;
        let user = UserId::parse(&claims.sub).map_err(|_| refused())?;
        let store = engine.store();
        if store.tenant(&tenant).await?.is_none_or(|tenant| tenant.suspended) {
            return Err(refused());
        }
        if store.user(&tenant, &user).await?.is_some_and(|user| user.suspended) {
            return Err(refused());
        }
        Ok(Actor {
            tenant,
            credential: CredentialId::stored(format!("jwt:{user}")),
            role,
            user: Some(user),
            prefix: None,
            shared: None,
            surface: SourceKind::Api,
        })
    }

    fn claims(&self, token: &str) -> Option<Claims> {
        let header = decode_header(token).ok()?;
        let fits = |pinned: &&Pinned| pinned.id.is_none() || header.kid.is_none() || pinned.id == header.kid;
        self.keys
            .iter()
            .filter(fits)
            .find_map(|pinned| decode::<Claims>(token, &pinned.key, &pinned.validation).ok())
            .map(|token| token.claims)
    }
}

impl Pinned {
    fn new(id: Option<String>, key: DecodingKey, algorithm: Algorithm) -> Self {
        let mut validation = Validation::new(algorithm);
        validation.set_required_spec_claims(&["exp", "sub"]);
        validation.validate_nbf = true;
        // Tokens are for this installation by their key; an audience may stand in them.
        validation.validate_aud = false;
        validation.leeway = LEEWAY_S;
        Self { id, key, validation }
    }
}

fn pin(jwk: &Jwk) -> Result<Pinned, ConfigError> {
    let unfit = || ConfigError::Jwt("keys must be RSA (RS256) or EC on P-256 (ES256)".into());
    let algorithm = match (&jwk.algorithm, jwk.common.key_algorithm) {
        (AlgorithmParameters::RSA(_), None | Some(KeyAlgorithm::RS256)) => Algorithm::RS256,
        (AlgorithmParameters::EllipticCurve(curve), None | Some(KeyAlgorithm::ES256))
            if curve.curve == EllipticCurve::P256 =>
        {
            Algorithm::ES256
        }
        _ => return Err(unfit()),
    };
    let key = DecodingKey::from_jwk(jwk).map_err(|error| ConfigError::Jwt(error.to_string()))?;
    Ok(Pinned::new(jwk.common.key_id.clone(), key, algorithm))
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{EncodingKey, Header, encode, get_current_timestamp};
    use serde_json::{Value, json};

    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn token(algorithm: Algorithm, secret: &[u8], claims: &Value) -> String {
        encode(&Header::new(algorithm), claims, &EncodingKey::from_secret(secret)).unwrap()
    }

    fn claims() -> Value {
        json!({"sub": "ada", "tenant": "t", "role": "member", "exp": get_current_timestamp() + 60})
    }

    #[test]
    fn only_a_whole_fresh_token_under_the_pinned_algorithm_is_believed() {
        let verifier = Verifier::new(&JwtConfig::secret(SECRET)).unwrap();
        assert!(verifier.claims(&token(Algorithm::HS256, SECRET, &claims())).is_some());
        let without = |key: &str| {
            let mut claims = claims();
            claims.as_object_mut().unwrap().remove(key);
            claims
        };
        let with = |key: &str, value: Value| {
            let mut claims = claims();
            claims[key] = value;
            claims
        };
        let stale = with("exp", json!(get_current_timestamp() - LEEWAY_S - 1));
        let early = with("nbf", json!(get_current_timestamp() + LEEWAY_S + 60));
        let refused = [
            token(Algorithm::HS512, SECRET, &claims()),
            token(Algorithm::HS256, b"another secret of some thirty-two bytes", &claims()),
            token(Algorithm::HS256, SECRET, &stale),
            token(Algorithm::HS256, SECRET, &early),
            token(Algorithm::HS256, SECRET, &without("exp")),
            token(Algorithm::HS256, SECRET, &without("sub")),
            token(Algorithm::HS256, SECRET, &without("tenant")),
            token(Algorithm::HS256, SECRET, &without("role")),
            "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ.".to_owned(),
            "not a token".to_owned(),
        ];
        for token in refused {
            assert!(verifier.claims(&token).is_none(), "{token}");
        }
    }

    #[test]
    fn weak_secrets_and_symmetric_key_sets_are_refused() {
        assert!(Verifier::new(&JwtConfig::secret(&SECRET[1..])).is_err());
        let jwks = |text: &str| Verifier::new(&JwtConfig { keys: JwtKeys::Jwks(text.into()) });
        assert!(jwks("{").is_err());
        assert!(jwks(r#"{"keys":[]}"#).is_err());
        assert!(jwks(r#"{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}"#).is_err());
    }
}
