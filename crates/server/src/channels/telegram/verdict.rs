//! What Telegram's answer to a call means for what was to be sent. Pure; the words are those that the Bot API answers
//! with.

use std::time::Duration;

use sederunt_core::channel::GiveUpReason;
use serde_json::Value;

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallVerdict {
    /// It was carried out; the message that it made, if any.
    Done {
        message_id: Option<Box<str>>,
    },
    /// Every call of this bot waits for as long as Telegram says.
    SlowDown(Duration),
    /// The same text once more, without formatting.
    PlainOnce,
    /// Again after a while: Telegram is not well, or the network is not.
    TryAgain,
    GiveUp(GiveUpReason),
}

impl CallVerdict {
    /// Judges an answer. Failures of Telegram carry `ok: false`, a code and a sentence.
    pub fn of(status: u16, answer: &Value) -> Self {
        if answer["ok"].as_bool() == Some(true) {
            let message_id = answer["result"]["message_id"].as_i64().map(|id| id.to_string().into());
            return Self::Done { message_id };
        }
        let sentence = answer["description"].as_str().unwrap_or_default().to_ascii_lowercase();
        let says = |words: &str| sentence.contains(words);
        match status {
            429 => {
                let wait = answer["parameters"]["retry_after"].as_u64().unwrap_or(1).max(1);
                Self::SlowDown(Duration::from_secs(wait))
            }
            400 if says("message is not modified") => Self::Done { message_id: None },
            400 if says("chat not found") => Self::GiveUp(GiveUpReason::ChatNotFound),
            400 if says("can't parse entities") || says("entity") => Self::PlainOnce,
            400 => Self::GiveUp(GiveUpReason::MessageRefused),
            401 | 404 => Self::GiveUp(GiveUpReason::TokenRefused),
            403 if says("kicked") || says("not a member") => Self::GiveUp(GiveUpReason::Removed),
            403 => Self::GiveUp(GiveUpReason::Blocked),
            _ => Self::TryAgain,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_published_answer_has_its_verdict() {
        use CallVerdict::{GiveUp, PlainOnce, SlowDown, TryAgain};
        let failed = |code: u16, words: &str| json!({"ok": false, "error_code": code, "description": words});
        let sent = json!({"ok": true, "result": {"message_id": 77}});
        assert_eq!(CallVerdict::of(200, &sent), CallVerdict::Done { message_id: Some("77".into()) });
        assert_eq!(
            CallVerdict::of(200, &json!({"ok": true, "result": true})),
            CallVerdict::Done { message_id: None }
        );
        let table = [
            (400, "Bad Request: message is not modified: …", CallVerdict::Done { message_id: None }),
            (400, "Bad Request: can't parse entities: …", PlainOnce),
            (400, "Bad Request: chat not found", GiveUp(GiveUpReason::ChatNotFound)),
            (400, "Bad Request: message is too long", GiveUp(GiveUpReason::MessageRefused)),
            (401, "Unauthorized", GiveUp(GiveUpReason::TokenRefused)),
            (403, "Forbidden: bot was blocked by the user", GiveUp(GiveUpReason::Blocked)),
            (403, "Forbidden: bot was kicked from the group chat", GiveUp(GiveUpReason::Removed)),
            (500, "Internal Server Error", TryAgain),
            (502, "", TryAgain),
        ];
        for (code, words, verdict) in table {
            assert_eq!(CallVerdict::of(code, &failed(code, words)), verdict, "{words}");
        }
        let flood = json!({"ok": false, "error_code": 429, "parameters": {"retry_after": 31}});
        assert_eq!(CallVerdict::of(429, &flood), SlowDown(Duration::from_secs(31)));
        assert_eq!(CallVerdict::of(429, &json!({})), SlowDown(Duration::from_secs(1)));
        assert_eq!(CallVerdict::of(200, &json!("not an object")), TryAgain);
    }
}
