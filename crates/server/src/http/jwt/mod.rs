//! Tokens of an outside issuer: checked by a pinned algorithm, never by the one a token names. [`keys`] holds the
//! keys.

mod keys;

use jsonwebtoken::{decode, decode_header};
use sederunt_core::Error;
use serde::Deserialize;

use self::keys::Keys;
use crate::config::{ConfigError, JwtConfig};

/// The claims of a token.
#[derive(Debug, Deserialize)]
pub struct JwtClaims {
    pub sub: String,
    pub tenant: String,
    pub role: String,
    /// Seconds since 1970.
    pub exp: i64,
}

/// Checks tokens.
pub struct Verifier(Keys);

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier")
    }
}

impl Verifier {
    pub fn new(config: &JwtConfig) -> Result<Self, ConfigError> {
        Keys::new(config).map(Self)
    }

    /// The claims of a token, if it is well formed, fresh, and signed by an accepted key.
    pub async fn claims(&self, token: &str) -> Result<JwtClaims, Error> {
        let refused = || Error::Unauthenticated("the token is not valid here");
        let header = decode_header(token).map_err(|_| refused())?;
        let name = header.kid.as_deref();
        let keys = self.0.with(name).await?;
        keys.iter()
            .filter(|key| key.fits(name))
            .find_map(|pinned| decode::<JwtClaims>(token, &pinned.key, &pinned.validation).ok())
            .map(|token| token.claims)
            .ok_or_else(refused)
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
    use serde_json::{Value, json};

    use super::keys::LEEWAY_S;
    use super::*;
    use crate::config::JwtKeys;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn token(algorithm: Algorithm, secret: &[u8], claims: &Value) -> String {
        encode(&Header::new(algorithm), claims, &EncodingKey::from_secret(secret)).unwrap()
    }

    fn claims() -> Value {
        json!({"sub": "ada", "tenant": "t", "role": "member", "exp": get_current_timestamp() + 60})
    }

    #[tokio::test]
    async fn only_a_whole_fresh_token_under_the_pinned_algorithm_is_believed() {
        let verifier = Verifier::new(&JwtConfig::secret(SECRET)).unwrap();
        assert!(verifier.claims(&token(Algorithm::HS256, SECRET, &claims())).await.is_ok());
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
            assert!(verifier.claims(&token).await.is_err(), "{token}");
        }
    }

    #[test]
    fn weak_secrets_and_symmetric_key_sets_are_refused() {
        assert!(Verifier::new(&JwtConfig::secret(&SECRET[1..])).is_err());
        let jwks = |text: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            Verifier::new(&JwtConfig::new(JwtKeys::JwksFile(file.path().to_owned())))
        };
        assert!(jwks("{").is_err());
        assert!(jwks(r#"{"keys":[]}"#).is_err());
        assert!(jwks(r#"{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}"#).is_err());
        assert!(Verifier::new(&JwtConfig::new(JwtKeys::JwksFile("/nowhere".into()))).is_err());
    }

    #[test]
    fn keys_are_fetched_over_a_safe_line_alone() {
        for (url, taken) in [
            ("https://issuer.example/keys", true),
            ("http://127.0.0.1:9/keys", true),
            ("http://issuer.example/keys", false),
            ("http://localhost.evil.example/keys", false),
            ("file:///etc/passwd", false),
            ("", false),
        ] {
            let made = Verifier::new(&JwtConfig::new(JwtKeys::JwksUrl(url.to_owned())));
            assert_eq!(made.is_ok(), taken, "{url}");
        }
    }
}
