//! How a command ends: the exit code, and the one line on stderr that says why.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done; also when the reader of our output has gone |
//! | 1 | an error of ours, or of the machine |
//! | 2 | the command, its arguments or its configuration are wrong |
//! | 3 | there is no such thing, or it is not yours to see |
//! | 4 | refused: the state of things, or the caller's rights, do not allow it |
//! | 5 | the store or the server cannot answer now; trying again is right |

use std::fmt;

use sederunt::{Error, Remedy};

pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The meaning of an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Ok = 0,
    Error = 1,
    Usage = 2,
    NotFound = 3,
    Refused = 4,
    Unavailable = 5,
}

impl Exit {
    /// The exit code of an engine's refusal.
    pub const fn of(error: &Error) -> Self {
        match error {
            Error::Invalid { .. }
            | Error::ValuesInvalid { .. }
            | Error::BadJson(_)
            | Error::TooLarge { .. }
            | Error::OutputInvalid { .. }
            | Error::HardBlocked { .. } => Self::Usage,
            Error::NotFound => Self::NotFound,
            Error::Conflict(_)
            | Error::Denied(_)
            | Error::Unauthenticated(_)
            | Error::IdempotencyMismatch => Self::Refused,
            Error::QuotaExceeded { quota, .. } => match quota.remedy() {
                Remedy::Shrink => Self::Usage,
                Remedy::Reduce | Remedy::Wait => Self::Unavailable,
            },
            Error::RateLimited(_) | Error::Unavailable(_) => Self::Unavailable,
            Error::Internal(_) => Self::Error,
        }
    }

    /// The exit code of the same refusal over HTTP.
    pub fn of_status(status: u16) -> Self {
        match status {
            400 | 405 | 413 | 415 | 422 => Self::Usage,
            404 => Self::NotFound,
            401 | 403 | 409 => Self::Refused,
            408 | 429 | 502 | 503 | 504 => Self::Unavailable,
            _ => Self::Error,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command ended early.
#[derive(Debug)]
pub enum Failure {
    /// The reader of our output has gone: nothing is wrong.
    Closed,
    /// It was reported already, line by line.
    Said(Exit),
    Because {
        exit: Exit,
        sentence: String,
        code: String,
        hint: Option<String>,
    },
}

impl Failure {
    pub fn new(exit: Exit, code: &str, sentence: impl Into<String>) -> Self {
        Self::Because { exit, sentence: sentence.into(), code: code.into(), hint: None }
    }

    /// A command that cannot be carried out as it was written.
    pub fn usage(sentence: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", sentence)
    }

    pub fn unavailable(sentence: impl Into<String>) -> Self {
        Self::new(Exit::Unavailable, "unavailable", sentence)
    }

    /// A failed system call.
    pub fn io(what: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::new(Exit::Error, "io", format!("{what}: {error}"))
    }

    /// What a person can do about it.
    #[must_use]
    pub fn hint(mut self, advice: impl Into<String>) -> Self {
        if let Self::Because { hint, .. } = &mut self {
            *hint = Some(advice.into());
        }
        self
    }

    /// What happened, without what to do about it.
    pub fn sentence(&self) -> &str {
        match self {
            Self::Because { sentence, .. } => sentence,
            Self::Closed | Self::Said(_) => "",
        }
    }

    /// The stable name of what happened.
    pub fn code(&self) -> &str {
        match self {
            Self::Because { code, .. } => code,
            Self::Closed | Self::Said(_) => "",
        }
    }

    pub const fn exit(&self) -> Exit {
        match self {
            Self::Closed => Exit::Ok,
            Self::Said(exit) | Self::Because { exit, .. } => *exit,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        // Such a command has opened the store itself: only the store can be unavailable.
        let (mut sentence, advice) = match &error {
            Error::Unavailable(_) => ("the store does not answer".to_owned(), Some("try again")),
            error => (error.to_string(), None),
        };
        // The person at the terminal is the operator, and may see the causes of an error.
        let mut under = std::error::Error::source(&error);
        while let Some(cause) = under {
            sentence.push_str(": ");
            sentence.push_str(&cause.to_string());
            under = cause.source();
        }
        let failure = Self::new(Exit::of(&error), error.code(), sentence);
        match advice {
            Some(advice) => failure.hint(advice),
            None => failure,
        }
    }
}

impl Failure {
    /// The line for programs: the stable code follows the sentence.
    pub fn coded(&self) -> String {
        self.line(true)
    }

    fn line(&self, is_coded: bool) -> String {
        let Self::Because { sentence, code, hint, .. } = self else { return String::new() };
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut line = format!("error: {}", one_line(sentence));
        if is_coded {
            line.push_str(&format!(" ({code})"));
        }
        if let Some(hint) = hint {
            line.push_str(&format!("; {}", one_line(hint)));
        }
        line
    }
}

/// The line for people: it says what happened and what to do about it.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line(false))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sederunt::{Conflict, Quota};

    use super::*;

    #[test]
    fn a_refusal_ends_the_same_way_in_process_and_over_http() {
        let cause = || std::io::Error::other("x");
        for (error, status, exit) in [
            (Error::NotFound, 404, Exit::NotFound),
            (Error::invalid("title", "is bad"), 422, Exit::Usage),
            (Error::OutputInvalid { complaints: vec!["x".into()] }, 422, Exit::Usage),
            (Error::HardBlocked { dimension: "x".into(), option: "y".into() }, 422, Exit::Usage),
            (Error::BadJson("x".into()), 400, Exit::Usage),
            (Error::TooLarge { what: "x", limit: 1 }, 413, Exit::Usage),
            (Error::QuotaExceeded { quota: Quota::IncognitoUserBytes, limit: 1 }, 413, Exit::Usage),
            (Error::QuotaExceeded { quota: Quota::TenantRuns, limit: 1 }, 429, Exit::Unavailable),
            (Error::QuotaExceeded { quota: Quota::IncognitoTotalBytes, limit: 1 }, 503, Exit::Unavailable),
            (Conflict::Fenced.into(), 409, Exit::Refused),
            (Error::denied("x"), 403, Exit::Refused),
            (Error::Unauthenticated("x"), 401, Exit::Refused),
            (Error::RateLimited(Duration::ZERO), 429, Exit::Unavailable),
            (Error::unavailable(cause()), 503, Exit::Unavailable),
            (Error::internal(cause()), 500, Exit::Error),
        ] {
            assert_eq!((Exit::of(&error), Exit::of_status(status)), (exit, exit), "{error}");
        }
    }

    #[test]
    fn a_failure_is_one_line_that_says_what_to_do_and_has_its_code_for_programs_only() {
        let failure = Failure::from(Error::invalid("store", "is\nempty")).hint("name a directory");
        assert_eq!(failure.to_string(), "error: `store` is empty; name a directory");
        assert_eq!(failure.coded(), "error: `store` is empty (invalid); name a directory");
        let under = Failure::from(Error::unavailable(std::io::Error::other("disk on fire")));
        assert_eq!(under.to_string(), "error: the store does not answer: disk on fire; try again");
    }
}
