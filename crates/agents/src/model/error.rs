//! Why a model did not answer. The sentences hold statuses and codes, never a key and never words of a conversation.

use std::time::Duration;

use super::scripted;

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the model cannot be reached")]
    Unreachable,
    #[error("the model's provider asks for fewer requests")]
    RateLimited { retry_after: Option<Duration> },
    /// The provider's fault: overloaded or broken, at the start or in the middle of a stream.
    #[error("the model's provider has a fault (status {status})")]
    Unavailable { status: u16, retry_after: Option<Duration> },
    /// Our fault: asking the same again gets the same.
    #[error("{}", refused_sentence(*.status, .code.as_deref()))]
    Refused { status: u16, code: Option<String> },
    #[error("the request is longer than the model can read; shorten the context")]
    TooLong,
    #[error("the connection ended in the middle of the reply")]
    CutShort,
    #[error("the provider's answer is not of the expected form: {what}")]
    Malformed { what: &'static str },
    #[error("the model's reply is larger than {limit} bytes")]
    ReplyTooLarge { limit: usize },
    #[error("the model did not answer in time ({0})")]
    TimedOut(Wait),
    #[error(transparent)]
    Script(#[from] scripted::Error),
}

/// Which time limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// For the next piece of the stream.
    Idle,
    /// For the whole reply, all attempts together.
    Total,
}

impl std::fmt::Display for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Idle => "nothing was heard for too long",
            Self::Total => "the whole reply took too long",
        })
    }
}

impl Error {
    /// Whether the same request may get another answer.
    pub const fn retryable(&self) -> bool {
        match self {
            Self::Unreachable
            | Self::RateLimited { .. }
            | Self::Unavailable { .. }
            | Self::CutShort
            | Self::TimedOut(Wait::Idle) => true,
            Self::Refused { .. }
            | Self::TooLong
            | Self::Malformed { .. }
            | Self::ReplyTooLarge { .. }
            | Self::TimedOut(Wait::Total)
            | Self::Script(_) => false,
        }
    }

    /// How long the provider asks callers to wait.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after } | Self::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The stable name of this failure.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreachable => "model_unreachable",
            Self::RateLimited { .. } => "model_rate_limited",
            Self::Unavailable { .. } => "model_unavailable",
            Self::Refused { .. } => "model_refused",
            Self::TooLong => "context_too_long",
            Self::CutShort => "model_cut_short",
            Self::Malformed { .. } => "model_malformed",
            Self::ReplyTooLarge { .. } => "reply_too_large",
            Self::TimedOut(_) => "model_timed_out",
            Self::Script(_) => "script",
        }
    }

    /// What a status means, with the provider's own code for it. Both wire formats come here, for answers and
    /// for errors inside a stream alike.
    pub(super) fn of_status(status: u16, code: Option<&str>, retry_after: Option<Duration>) -> Self {
        match (status, code) {
            (_, Some("context_length_exceeded" | "request_too_large")) | (413, _) => Self::TooLong,
            // An exhausted account answers like a busy provider, but waiting does not help.
            (_, Some("insufficient_quota")) => Self::Refused { status, code: code.and_then(plain) },
            (429, _) => Self::RateLimited { retry_after },
            (408 | 409 | 425 | 500.., _) => Self::Unavailable { status, retry_after },
            _ => Self::Refused { status, code: code.and_then(plain) },
        }
    }
}

fn refused_sentence(status: u16, code: Option<&str>) -> String {
    let code = code.map(|code| format!(", {code}")).unwrap_or_default();
    match status {
        401 | 403 => format!(
            "the model's provider did not accept the key (status {status}{code}): check `key_file` of the provider in the agents file"
        ),
        _ => format!("the model's provider refused the request (status {status}{code})"),
    }
}

/// A provider's code, if it looks like one: any other text could repeat words of a conversation.
fn plain(code: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    (!code.is_empty() && code.len() <= 64 && code.chars().all(is_plain)).then(|| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_and_a_code_say_what_went_wrong() {
        let after = Some(Duration::from_secs(7));
        let cases = [
            (429, None, after, Error::RateLimited { retry_after: after }),
            (429, Some("insufficient_quota"), None, refused(429, Some("insufficient_quota"))),
            (400, Some("context_length_exceeded"), None, Error::TooLong),
            (413, None, None, Error::TooLong),
            (400, Some("invalid_request_error"), None, refused(400, Some("invalid_request_error"))),
            (401, Some("Incorrect key sk-abc"), None, refused(401, None)),
            (404, None, None, refused(404, None)),
            (500, None, None, Error::Unavailable { status: 500, retry_after: None }),
            (529, Some("overloaded_error"), after, Error::Unavailable { status: 529, retry_after: after }),
            (408, None, None, Error::Unavailable { status: 408, retry_after: None }),
        ];
        for (status, code, retry_after, expected) in cases {
            assert_eq!(Error::of_status(status, code, retry_after), expected, "{status} {code:?}");
        }
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        for error in [Error::Unreachable, Error::CutShort, Error::TimedOut(Wait::Idle)] {
            assert!(error.retryable(), "{error:?}");
        }
        for error in [refused(400, None), Error::TooLong, Error::TimedOut(Wait::Total)] {
            assert!(!error.retryable(), "{error:?}");
        }
    }

    fn refused(status: u16, code: Option<&str>) -> Error {
        Error::Refused { status, code: code.map(str::to_owned) }
    }
}
