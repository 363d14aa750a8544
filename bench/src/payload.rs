//! What is appended: text parts of exactly 300 bytes, made of words so that an index has work to do.
//! Drawn from a fixed seed, the same for every contestant.

use std::fmt::Write as _;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// Bytes of one event's content as stored.
pub const EVENT_BYTES: usize = 300;
/// Sessions that spread-out appends go to.
pub const SESSIONS: usize = 1_000;

const VARIANTS: usize = 256;
const WORDS: [&str; 32] = [
    "agent", "answer", "budget", "calendar", "customer", "deploy", "draft", "email", "error", "field",
    "invoice", "ledger", "meeting", "message", "number", "order", "parcel", "people", "plan", "question",
    "refund", "report", "review", "schedule", "search", "server", "session", "signal", "table", "ticket",
    "travel", "weather",
];

/// The pool of contents, as canonical JSON.
pub struct Payloads(Vec<Arc<str>>);

impl Payloads {
    pub fn new() -> Self {
        let mut draw = StdRng::seed_from_u64(300);
        Self((0..VARIANTS).map(|_| content(&mut draw, EVENT_BYTES).into()).collect())
    }

    /// The content of the nth event.
    pub fn nth(&self, n: u64) -> &Arc<str> {
        &self.0[(n as usize) % VARIANTS]
    }

    /// The body of an append request with `events` events, starting at the nth.
    pub fn body(&self, n: u64, events: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"events":["#);
        for event in 0..events as u64 {
            if event > 0 {
                out.push(b',');
            }
            out.extend_from_slice(br#"{"type":"user.message","content":"#);
            out.extend_from_slice(self.nth(n + event).as_bytes());
            out.push(b'}');
        }
        out.extend_from_slice(b"]}");
    }
}

/// A title out of the same words, of which the nth is the only one with its number.
pub fn title(n: usize) -> String {
    let mut title = format!("{} {} ", WORDS[n % WORDS.len()], WORDS[n / WORDS.len() % WORDS.len()]);
    let _ = write!(title, "number{n}");
    title
}

fn content(draw: &mut StdRng, bytes: usize) -> String {
    let mut text = String::from(r#"[{"type":"text","text":""#);
    let end = r#""}]"#;
    while text.len() + end.len() < bytes {
        text.push_str(WORDS[draw.random_range(0..WORDS.len())]);
        text.push(' ');
    }
    text.truncate(bytes - end.len());
    text.push_str(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_content_is_json_of_exactly_the_size_that_is_claimed() {
        let payloads = Payloads::new();
        for n in 0..VARIANTS as u64 {
            let content = payloads.nth(n);
            assert_eq!(content.len(), EVENT_BYTES);
            assert!(serde_json::from_str::<serde_json::Value>(content).is_ok());
        }
        let mut body = Vec::new();
        payloads.body(7, 16, &mut body);
        assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
    }
}
