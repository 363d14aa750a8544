//! The id of one request: the caller's own, if it is safe in a header and a log line.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderValue};
use sederunt_api::limits::REQUEST_ID_CHARS_MAX;

pub const X_REQUEST_ID: &str = "x-request-id";

/// The id of the request, for handlers behind the middleware.
#[derive(Clone, Debug)]
pub struct RequestId(pub HeaderValue);

impl RequestId {
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }
}

/// Takes the caller's request id, or draws one.
pub fn of(headers: &HeaderMap) -> HeaderValue {
    headers.get(X_REQUEST_ID).filter(|given| fits(given.as_bytes())).cloned().unwrap_or_else(draw)
}

fn fits(given: &[u8]) -> bool {
    (1..=REQUEST_ID_CHARS_MAX).contains(&given.len()) && given.iter().all(u8::is_ascii_graphic)
}

/// Unique in this process by a counter, and among processes by a random beginning.
fn draw() -> HeaderValue {
    static PROCESS: LazyLock<String> = LazyLock::new(sederunt_core::ids::random_hex::<6>);
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    let number = DRAWN.fetch_add(1, Ordering::Relaxed);
    HeaderValue::try_from(format!("{}-{number:x}", *PROCESS)).unwrap_or(HeaderValue::from_static("unnamed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_id_is_taken_if_it_can_stand_in_a_line() {
        let given = |value: &str| {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            of(&HeaderMap::from_iter([(http::HeaderName::from_static(X_REQUEST_ID), value)]))
        };
        assert_eq!(given("abc-1"), "abc-1");
        assert_eq!(given(&"x".repeat(REQUEST_ID_CHARS_MAX)), "x".repeat(REQUEST_ID_CHARS_MAX));
        for refused in ["", "a b", "é", &"x".repeat(REQUEST_ID_CHARS_MAX + 1)] {
            assert_ne!(given(refused), refused);
        }
    }

    #[test]
    fn drawn_ids_differ() {
        assert_ne!(of(&HeaderMap::new()), of(&HeaderMap::new()));
    }
}
