//! Signing in from a browser, and who the caller is.

use sederunt_core::Timestamp;
use sederunt_core::people as core;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::people::Role;

/// How people sign in to this server.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SignInConfig {
    /// `local`: there is nothing to sign in to. `keys`: API keys. `jwt`: tokens of an outside issuer too.
    #[schema(example = "keys")]
    pub mode: String,
    pub version: String,
    /// What `POST /auth/session` takes: `key`, `token`.
    pub sign_in: Vec<String>,
}

/// A key or a token of a person; exactly one of them.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"key": "sdr_…"}))]
pub struct SignInRequest {
    /// The secret of an API key.
    #[schema(min_length = 1, max_length = 200)]
    pub key: Option<String>,
    /// A token of the configured issuer.
    #[schema(min_length = 1, max_length = 8192)]
    pub token: Option<String>,
}

/// Secrets do not print.
impl std::fmt::Debug for SignInRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignInRequest")
    }
}

/// A sign-in from one browser.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BrowserSession {
    pub id: String,
    /// What the browser called itself.
    pub browser: Option<String>,
    /// Whether it is the browser that asks.
    pub is_current: bool,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it was last used, to within five minutes.
    #[schema(value_type = String, format = DateTime)]
    pub seen_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

impl BrowserSession {
    pub fn of(session: core::BrowserSession, current: Option<&str>) -> Self {
        Self {
            is_current: current == Some(&session.id),
            id: session.id,
            browser: session.browser,
            created_at: session.created_at,
            seen_at: session.seen_at,
            expires_at: session.expires_at,
        }
    }
}

/// The browsers in which the caller is signed in.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BrowserSessionList {
    pub items: Vec<BrowserSession>,
    pub next_cursor: Option<String>,
}

/// Who the caller is, and what the caller's role may do.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Me {
    pub tenant: String,
    /// `null` for a credential that names no user.
    pub user: Option<MyUser>,
    #[schema(value_type = Role)]
    pub role: String,
    /// How the caller proved it: `local`, `key`, `token`, `browser` or `operator`.
    pub auth: String,
    /// The rights of the role, some of them only on what is the caller's own.
    pub can: Vec<String>,
    pub version: String,
    /// When a browser is signed out at the latest; `null` for every other caller.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// The user of the caller's credential.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MyUser {
    pub id: String,
    /// `null` for a user without a name, or without a row.
    pub name: Option<String>,
}
