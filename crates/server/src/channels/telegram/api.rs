//! Calls to the Bot API of Telegram. The token is part of every address: it is in no error and in no line of the log.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::rich_text::RichText;
use super::update::BotAccount;
use super::verdict::CallVerdict;

/// How long Telegram may hold a poll open when there is nothing to hand out.
const POLL_WAIT: Duration = Duration::from_secs(25);
/// How long an answer may take beyond that.
const ANSWER_WAIT: Duration = Duration::from_secs(15);
/// The kinds of updates that are asked for.
const UPDATE_KINDS: [&str; 1] = ["message"];

/// Where a bot is reached.
#[derive(Clone)]
pub struct TelegramApi {
    client: reqwest::Client,
    base: String,
    token: String,
}

impl fmt::Debug for TelegramApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelegramApi").field("base", &self.base).finish_non_exhaustive()
    }
}

/// Why a call has no answer that can be used. Says nothing of the address.
#[derive(Debug, thiserror::Error)]
pub enum ApiFailure {
    #[error("Telegram could not be reached")]
    Unreachable,
    #[error("Telegram refused `{method}` with {status}: {description}")]
    Refused { method: &'static str, status: u16, description: String },
}

/// Where a message goes.
#[derive(Clone, Copy, Debug)]
pub struct ChatPlace<'a> {
    pub chat: &'a str,
    /// The topic; empty outside topics.
    pub thread: &'a str,
}

impl TelegramApi {
    /// The API of a bot; `base` is the address before `/bot…`.
    pub fn new(client: reqwest::Client, base: &str, token: &str) -> Self {
        Self { client, base: base.trim_end_matches('/').to_owned(), token: token.to_owned() }
    }

    /// The bot's own account.
    pub async fn account(&self) -> Result<BotAccount, ApiFailure> {
        let me = self.result("getMe", &json!({}), ANSWER_WAIT).await?;
        let username = me["username"].as_str().unwrap_or_default().to_owned();
        Ok(BotAccount { id: me["id"].as_i64().unwrap_or_default(), username })
    }

    /// The updates from an offset on; everything before it is confirmed.
    pub async fn updates(&self, offset: Option<i64>) -> Result<Vec<Value>, ApiFailure> {
        let asked =
            json!({"offset": offset, "timeout": POLL_WAIT.as_secs(), "allowed_updates": UPDATE_KINDS});
        match self.result("getUpdates", &asked, POLL_WAIT + ANSWER_WAIT).await? {
            Value::Array(updates) => Ok(updates),
            _ => Ok(Vec::new()),
        }
    }

    /// Sends a text.
    pub async fn send(&self, to: ChatPlace<'_>, text: &RichText) -> CallVerdict {
        let mut body = json!({
            "chat_id": number_or_text(to.chat),
            "text": text.text,
            "entities": text.entities,
            "link_preview_options": {"is_disabled": true},
        });
        if !to.thread.is_empty() {
            body["message_thread_id"] = number_or_text(to.thread);
        }
        match self.call("sendMessage", &body, ANSWER_WAIT).await {
            Ok((status, answer)) => CallVerdict::of(status, &answer),
            Err(_) => CallVerdict::TryAgain,
        }
    }

    async fn result(&self, method: &'static str, body: &Value, wait: Duration) -> Result<Value, ApiFailure> {
        let (status, mut answer) = self.call(method, body, wait).await?;
        match answer["ok"].as_bool() {
            Some(true) => Ok(answer["result"].take()),
            _ => {
                let description = answer["description"].as_str().unwrap_or("no reason").to_owned();
                Err(ApiFailure::Refused { method, status, description })
            }
        }
    }

    async fn call(
        &self,
        method: &'static str,
        body: &Value,
        wait: Duration,
    ) -> Result<(u16, Value), ApiFailure> {
        let address = format!("{}/bot{}/{method}", self.base, self.token);
        let sent = self.client.post(address).json(body).timeout(wait).send().await;
        let answer = sent.map_err(|_| ApiFailure::Unreachable)?;
        let status = answer.status().as_u16();
        Ok((status, answer.json().await.unwrap_or(Value::Null)))
    }
}

/// Ids are texts with us and numbers with Telegram.
fn number_or_text(id: &str) -> Value {
    id.parse::<i64>().map_or_else(|_| id.into(), Into::into)
}
