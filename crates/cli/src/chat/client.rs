//! The calls of a chat: the talk routes of a server, and the shapes of their answers.

use sederunt_api::client::{Client, Error, EventStream, Frame, Pieces, Socket};
use serde_json::{Value, json};

use super::commands::{MemoryKind, Signal, Tier};
use super::endings::Label;
use crate::api::path;

/// The largest pages that the server gives, by kind.
const PAGE: usize = 1000;
const MESSAGES_MAX: usize = 1000;
const THREADS_MAX: usize = 100;

/// A server to talk to, and as whom.
#[derive(Clone, Debug)]
pub struct ChatClient {
    client: Client,
    user: Option<String>,
    incognito: bool,
}

/// How a sitting is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndRequest {
    Keep { rating: Option<Label>, source: Source },
    Discard { source: Source },
}

/// Where a sitting was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    End,
    Exit,
}

impl Source {
    const fn as_str(self) -> &'static str {
        match self {
            Self::End => "cli_end",
            Self::Exit => "cli_exit",
        }
    }
}

/// A person's decision on an approval.
#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    /// With these arguments instead of the model's, if any.
    Approve(Option<Value>),
    Deny,
}

/// A frame of a reply that is being written.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnFrame {
    Stage {
        stage: String,
        detail: Option<String>,
    },
    Chunk(String),
    /// The whole answer; nothing follows.
    Done(Value),
    /// There is no answer; nothing follows.
    Failed {
        code: String,
        message: String,
    },
}

/// A turn that is being answered.
#[derive(Debug)]
pub struct Turn(Socket);

impl ChatClient {
    /// An incognito chat has no user, even if one was named.
    pub fn new(client: Client, user: Option<String>, incognito: bool) -> Self {
        Self { client, user: user.filter(|_| !incognito), incognito }
    }

    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    pub fn is_incognito(&self) -> bool {
        self.incognito
    }

    /// Sends a message, and listens.
    pub async fn say(&self, thread: &str, message: &str, tier: Tier) -> Result<Turn, Error> {
        let mut socket = self.client.socket(&path(&["chat", "stream"], &[])).await?;
        let mut request =
            json!({ "message": message, "thread_id": thread, "response_model_tier": tier.as_str() });
        if let Some(user) = &self.user {
            request["user_id"] = user.as_str().into();
        }
        self.mark(&mut request);
        socket.send(request.to_string()).await?;
        Ok(Turn(socket))
    }

    /// Stops the running turn; the reply so far is kept.
    pub async fn stop(&self, thread: &str) -> Result<(), Error> {
        self.client.post::<Value>(&path(&["sessions", thread, "stop"], &[]), &json!({})).await.map(drop)
    }

    /// One approval.
    pub async fn approval(&self, id: &str) -> Result<Value, Error> {
        self.client.get(&path(&["approvals", id], &[])).await
    }

    /// Decides on exactly what was shown.
    pub async fn decide(&self, id: &str, digest: &Value, word: Word) -> Result<(), Error> {
        let body = match word {
            Word::Approve(None) => json!({ "decision": "approve", "digest": digest }),
            Word::Approve(Some(args)) => {
                json!({ "decision": "approve", "digest": digest, "modified_args": args })
            }
            Word::Deny => json!({ "decision": "deny", "digest": digest }),
        };
        self.client.post::<Value>(&path(&["approvals", id, "decide"], &[]), &body).await.map(drop)
    }

    /// Follows the log of a conversation after a sequence.
    pub async fn follow(&self, thread: &str, after: u64) -> Result<EventStream, Error> {
        self.client.stream(&path(&["sessions", thread, "stream"], &[pair("after", after)]), None).await
    }

    pub async fn end(&self, thread: &str, end: EndRequest) -> Result<Value, Error> {
        let mut body = match end {
            EndRequest::Keep { rating, source } => {
                json!({ "feedback": rating.map(Label::as_str), "source": source.as_str() })
            }
            EndRequest::Discard { source } => json!({ "discard": true, "source": source.as_str() }),
        };
        self.mark(&mut body);
        self.client.post(&path(&["threads", thread, "end"], &[]), &body).await
    }

    /// Gives a thumb about a conversation, with words or without.
    pub async fn give_feedback(
        &self,
        thread: &str,
        signal: Signal,
        words: Option<&str>,
    ) -> Result<Value, Error> {
        let body = json!({ "signal": signal.as_str(), "context": words, "session_id": thread });
        self.client.post(&path(&["feedback"], &[]), &body).await
    }

    /// Adds words to a vague thumb.
    pub async fn open_feedback(&self, event: &str, signal: Signal, words: &str) -> Result<Value, Error> {
        let body = json!({ "feedback_event_id": event, "signal": signal.as_str(), "initial_context": words });
        self.client.post(&path(&["feedback", "sessions"], &[]), &body).await
    }

    pub async fn add_feedback(&self, session: &str, words: &str) -> Result<Value, Error> {
        self.client
            .post(&path(&["feedback", "sessions", session, "append"], &[]), &json!({ "message": words }))
            .await
    }

    /// Whether a sitting is open.
    pub async fn is_sitting(&self, thread: &str) -> Result<bool, Error> {
        Ok(self.standing(thread).await?["has_active_session"] == true)
    }

    pub async fn standing(&self, thread: &str) -> Result<Value, Error> {
        self.client.get(&path(&["threads", thread, "session-status"], &[])).await
    }

    pub async fn session(&self, thread: &str) -> Result<Value, Error> {
        self.client.get(&path(&["sessions", thread], &[])).await
    }

    pub async fn threads(&self, limit: usize) -> Result<Vec<Value>, Error> {
        let query = [pair("limit", limit.min(THREADS_MAX))];
        Ok(rows(self.client.get(&path(&["threads"], &query)).await?))
    }

    /// The last messages, oldest first.
    pub async fn history(&self, thread: &str, limit: usize) -> Result<Vec<Value>, Error> {
        let query = [pair("limit", limit.min(MESSAGES_MAX))];
        Ok(rows(self.client.get(&path(&["threads", thread, "history"], &query)).await?))
    }

    pub async fn state(&self, thread: &str) -> Result<Value, Error> {
        let mut answer: Value = self.client.get(&path(&["threads", thread, "state"], &[])).await?;
        Ok(answer["state"].take())
    }

    pub async fn search(&self, text: &str) -> Result<Vec<Value>, Error> {
        Ok(rows(self.client.get(&path(&["search"], &[pair("q", text)])).await?))
    }

    pub async fn export(&self, thread: &str, format: &str, all: bool) -> Result<Pieces, Error> {
        let query = [pair("format", format), pair("all", if all { "true" } else { "false" })];
        self.client.pieces(&path(&["sessions", thread, "export"], &query)).await
    }

    pub async fn memory_status(&self, thread: &str) -> Result<Value, Error> {
        self.client.get(&path(&["memory", "status"], &self.whose(thread))).await
    }

    /// All memories of a kind, newest first.
    pub async fn memories(&self, thread: &str, kind: MemoryKind) -> Result<Vec<Value>, Error> {
        let mut found = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut query = self.whose(thread);
            // Rules are few, and have no pages.
            query.extend((kind != MemoryKind::Rule).then(|| pair("limit", PAGE)));
            query.extend(cursor.take().map(|cursor| pair("cursor", cursor)));
            let page: Value = self.client.get(&path(&["memory", kind.many()], &query)).await?;
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            found.extend(rows(page));
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }

    pub async fn forget(&self, thread: &str, kind: MemoryKind, id: &str) -> Result<(), Error> {
        self.client.delete(&path(&["memory", kind.many(), id], &self.whose(thread))).await
    }

    pub async fn set_recall(&self, thread: &str, enabled: bool) -> Result<(), Error> {
        let mut body = json!({ "enabled": enabled, "thread_id": thread });
        if let Some(user) = &self.user {
            body["user_id"] = user.as_str().into();
        }
        self.client.patch::<Value>(&path(&["memory", "recall"], &[]), &body).await.map(drop)
    }

    /// The health and readiness of the server.
    pub async fn health(&self) -> Result<Value, Error> {
        self.client.get("/healthz").await
    }

    pub async fn readiness(&self) -> Result<Value, Error> {
        self.client.get("/readyz").await
    }

    fn whose(&self, thread: &str) -> Vec<(String, String)> {
        let user = self.user.as_deref().map(|user| pair("user_id", user));
        [pair("thread_id", thread)].into_iter().chain(user).collect()
    }

    fn mark(&self, body: &mut Value) {
        if self.incognito {
            body["memory_mode"] = "incognito".into();
        }
    }
}

impl Turn {
    pub async fn next(&mut self) -> Result<TurnFrame, Error> {
        loop {
            match self.0.next().await? {
                Frame::Text(text) => {
                    if let Some(heard) = heard(&text) {
                        return Ok(heard);
                    }
                }
                Frame::Closed { reason, .. } => {
                    let message = if reason.is_empty() {
                        "the server ended the conversation early".to_owned()
                    } else {
                        reason
                    };
                    return Ok(TurnFrame::Failed { code: "closed".to_owned(), message });
                }
            }
        }
    }
}

/// Reads a frame. Unknown frames of a later server are skipped.
fn heard(text: &str) -> Option<TurnFrame> {
    let mut frame: Value = serde_json::from_str(text).ok()?;
    let word = |name: &str| frame[name].as_str().map(str::to_owned);
    match frame["type"].as_str()? {
        "status" => Some(TurnFrame::Stage { stage: word("stage")?, detail: word("detail") }),
        "chunk" => Some(TurnFrame::Chunk(word("text")?)),
        "done" => Some(TurnFrame::Done(frame["response"].take())),
        "error" => Some(TurnFrame::Failed {
            code: word("code").unwrap_or_else(|| "error".to_owned()),
            message: word("message").unwrap_or_else(|| "the reply could not be made".to_owned()),
        }),
        _ => None,
    }
}

fn rows(mut answer: Value) -> Vec<Value> {
    match answer["items"].take() {
        Value::Array(rows) => rows,
        _ => Vec::new(),
    }
}

fn pair(name: &str, value: impl ToString) -> (String, String) {
    (name.to_owned(), value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_and_what_is_not_known_is_passed_over() {
        let stage = |detail: Option<&str>| {
            Some(TurnFrame::Stage { stage: "route".into(), detail: detail.map(str::to_owned) })
        };
        for (text, expected) in [
            (r#"{"type":"status","stage":"route","detail":"talk"}"#, stage(Some("talk"))),
            (r#"{"type":"status","stage":"route","detail":null}"#, stage(None)),
            (r#"{"type":"chunk","text":"Hello"}"#, Some(TurnFrame::Chunk("Hello".into()))),
            (r#"{"type":"done","response":{"a":1}}"#, Some(TurnFrame::Done(json!({"a": 1})))),
            (
                r#"{"type":"error","code":"session_busy","message":"wait"}"#,
                Some(TurnFrame::Failed { code: "session_busy".into(), message: "wait".into() }),
            ),
            (r#"{"type":"later"}"#, None),
            ("nonsense", None),
        ] {
            assert_eq!(heard(text), expected, "{text}");
        }
    }

    #[test]
    fn a_guest_is_nobody() {
        let client = || Client::new("http://127.0.0.1:1", None).unwrap();
        assert_eq!(ChatClient::new(client(), Some("alice".into()), true).user(), None);
        assert_eq!(ChatClient::new(client(), Some("alice".into()), false).user(), Some("alice"));
    }
}
