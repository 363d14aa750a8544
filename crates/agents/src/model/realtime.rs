//! A realtime provider, with which a browser speaks by itself: it is given a secret that is soon void, and never the
//! key. The shape is OpenAI's `/realtime/client_secrets`.

use sederunt_core::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::http::{BadSettings, Endpoint, KeyHeader};
use super::{Error, Settings};
use crate::limits;

/// Who gives out secrets for spoken conversations.
#[derive(Debug)]
pub struct Realtime {
    endpoint: Endpoint,
    model: String,
}

/// What a browser shows to the provider. Its text stands in one answer, and in no log and no event.
#[derive(Clone, Deserialize)]
pub struct ClientSecret {
    pub value: String,
    /// In seconds since the epoch.
    expires_at: i64,
}

impl ClientSecret {
    pub fn expires_at(&self) -> Timestamp {
        Timestamp::from_micros(self.expires_at.saturating_mul(1_000_000))
    }
}

impl std::fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientSecret").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

impl Realtime {
    pub fn new(settings: &Settings) -> Result<Self, BadSettings> {
        let settings = Settings { idle: limits::CLIENT_SECRET_MAX, ..settings.clone() };
        let endpoint = Endpoint::new(&settings, "/realtime/client_secrets", KeyHeader::Bearer)?;
        Ok(Self { endpoint, model: settings.model })
    }

    pub fn model(&self) -> &str {
        &self.model
    }

    /// A secret for one conversation.
    pub async fn client_secret(&self, instructions: &str) -> Result<ClientSecret, Error> {
        let session = json!({"type": "realtime", "model": self.model, "instructions": instructions});
        let body = json!({"session": session});
        let asked = self.endpoint.ask(&body, limits::CLIENT_SECRET_BYTES_MAX);
        let given = tokio::time::timeout(limits::CLIENT_SECRET_MAX, asked).await;
        let secret: ClientSecret = given.map_err(|_| Error::TimedOut(super::Wait::Total))??;
        match secret.value.is_empty() {
            true => Err(Error::Malformed { what: "a secret without text" }),
            false => Ok(secret),
        }
    }
}
