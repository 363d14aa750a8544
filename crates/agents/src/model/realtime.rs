//! A realtime provider with which a browser speaks directly: the browser gets a short-lived secret, never the key.
//! The shape is OpenAI's `/realtime/client_secrets`.

use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;

use super::http::{BadSettings, Endpoint, KeyHeader};
use super::{Error, Settings};
use crate::limits;

/// Requests secrets for spoken conversations.
#[derive(Debug)]
pub struct Realtime {
    endpoint: Endpoint,
    model: String,
}

#[derive(Deserialize)]
struct SecretAnswer {
    value: String,
}

impl Realtime {
    pub fn new(settings: &Settings) -> Result<Self, BadSettings> {
        let settings = Settings { idle: limits::CLIENT_SECRET_MAX, ..settings.clone() };
        let endpoint = Endpoint::new(&settings, "/realtime/client_secrets", KeyHeader::Bearer)?;
        Ok(Self { endpoint, model: settings.model })
    }

    /// The secret that a browser shows to the provider for one conversation.
    pub async fn client_secret(&self, instructions: &str) -> Result<SecretString, Error> {
        let session = json!({"type": "realtime", "model": self.model, "instructions": instructions});
        let body = json!({"session": session});
        let asked = self.endpoint.ask(&body, limits::CLIENT_SECRET_BYTES_MAX);
        let given = tokio::time::timeout(limits::CLIENT_SECRET_MAX, asked).await;
        let SecretAnswer { value } = given.map_err(|_| Error::TimedOut(super::Wait::Total))??;
        match value.is_empty() {
            true => Err(Error::Malformed { what: "a secret without text" }),
            false => Ok(value.into()),
        }
    }
}
