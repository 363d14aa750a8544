//! Why a call had no outcome, and why a tool cannot be offered at all. Both may be read by models and people,
//! so they name tools and sizes, and never a secret.

use std::time::Duration;

use crate::outbound::Blocked;

/// Why a call has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("there is no tool `{name}`")]
    Unknown { name: String },
    #[error("the arguments of `{name}` do not fit: {}", .problems.join("; "))]
    BadArguments { name: String, problems: Vec<String> },
    #[error("the arguments are larger than {limit} bytes")]
    ArgumentsTooLarge { limit: usize },
    #[error("the tool did not answer within {} s", .after.as_secs_f64())]
    TimedOut { after: Duration },
    #[error("the tool may not be called: {0}")]
    Blocked(#[from] Blocked),
    #[error("the tool cannot be reached")]
    Unreachable,
    /// It went away in the middle: whether it acted is unknown.
    #[error("the tool went away before it answered; it may or may not have acted")]
    CutShort,
    #[error("the tool has a fault (status {status})")]
    Unavailable { status: u16, retry_after: Option<Duration> },
    #[error("the tool answered with a redirect (status {status}), which is not followed")]
    Redirected { status: u16 },
    #[error("the tool's answer is not of the expected form: {what}")]
    Malformed { what: &'static str },
    #[error("the tool asks for input of a kind that is not given here: {kind}")]
    InputUnsupported { kind: &'static str },
    #[error("the tool asks for input with more than {limit} bytes")]
    InputTooLarge { limit: usize },
    #[error("the tool asked for input more than {limit} times in one call")]
    InputEndless { limit: u32 },
}

impl Error {
    /// Whether the same call, with the same idempotency key, may get another answer.
    pub const fn retryable(&self) -> bool {
        match self {
            Self::TimedOut { .. } | Self::Unreachable | Self::CutShort | Self::Unavailable { .. } => true,
            Self::Unknown { .. }
            | Self::BadArguments { .. }
            | Self::ArgumentsTooLarge { .. }
            | Self::Blocked(_)
            | Self::Redirected { .. }
            | Self::Malformed { .. }
            | Self::InputUnsupported { .. }
            | Self::InputTooLarge { .. }
            | Self::InputEndless { .. } => false,
        }
    }

    /// The stable name of this failure.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_tool",
            Self::BadArguments { .. } => "bad_arguments",
            Self::ArgumentsTooLarge { .. } => "arguments_too_large",
            Self::TimedOut { .. } => "tool_timed_out",
            Self::Blocked(_) => "tool_blocked",
            Self::Unreachable => "tool_unreachable",
            Self::CutShort => "tool_cut_short",
            Self::Unavailable { .. } => "tool_unavailable",
            Self::Redirected { .. } => "tool_redirected",
            Self::Malformed { .. } => "tool_malformed",
            Self::InputUnsupported { .. } => "tool_input_unsupported",
            Self::InputTooLarge { .. } => "tool_input_too_large",
            Self::InputEndless { .. } => "tool_input_endless",
        }
    }
}

/// Why a tool cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTool {
    #[error("`{name}` is not a name that all providers accept: letters, digits, `_` and `-`, at most 64")]
    Name { name: String },
    #[error("there are two tools `{name}`")]
    Taken { name: String },
    #[error("the schema of `{name}` is larger than {limit} bytes")]
    SchemaTooLarge { name: String, limit: usize },
    #[error("the schema of `{name}` is not a usable JSON Schema of an object: {what}")]
    Schema { name: String, what: String },
    #[error("the address of `{name}` cannot be called: {why}")]
    Address { name: String, why: Blocked },
    #[error("the method `{method}` is not one of GET, POST, PUT, PATCH and DELETE")]
    Method { method: String },
    #[error("the header `{header}` of `{name}` is not valid")]
    Header { name: String, header: String },
    #[error("`{name}` refers to the secret `{secret}`, which is not configured")]
    Secret { name: String, secret: String },
    #[error(
        "`{name}` may not send the secret `{secret}` to {host}: the operator names the hosts of a secret"
    )]
    SecretHost { name: String, secret: String, host: String },
}
