//! Every refusal the product knows: a stable code, a sentence that a user may read, and nothing written. Surfaces
//! translate these with one exhaustive match each.

use std::borrow::Cow;
use std::time::Duration;

use crate::quota::Quota;
use crate::session::Status;
use crate::time::Timestamp;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Missing, or not the caller's to see: no answer tells the two apart.
    #[error("there is no such thing, or it is not yours to see")]
    NotFound,
    #[error("{}", invalid_sentence(.field, .message))]
    Invalid { field: Cow<'static, str>, message: String },
    /// The text is not JSON at all.
    #[error("the body is not valid JSON: {0}")]
    BadJson(String),
    #[error("{0}")]
    Conflict(#[from] Conflict),
    #[error("{0}")]
    Denied(Cow<'static, str>),
    #[error("authenticate with `Authorization: Bearer …`: {0}")]
    Unauthenticated(&'static str),
    #[error("the {what} is too large: at most {}", size(*.limit))]
    TooLarge { what: &'static str, limit: usize },
    /// A quota is used up.
    #[error("the quota `{}` of {} is used up: {}", .quota.name(), amount(*.quota, *.limit), .quota.advice())]
    QuotaExceeded { quota: Quota, limit: u64 },
    /// A worker's result does not keep its contract.
    #[error("the result does not fit its contract: {}", .complaints.join("; "))]
    OutputInvalid { complaints: Vec<String> },
    /// Values do not fit the form that they were given for. `field` is the place of the first complaint.
    #[error("{}", .complaints.join("; "))]
    ValuesInvalid { field: String, complaints: Vec<String> },
    /// An edit chose what must never be written.
    #[error("`{option}` in `{dimension}` must not be written")]
    HardBlocked { dimension: String, option: String },
    #[error("the idempotency key was used before with another body; use a new key")]
    IdempotencyMismatch,
    #[error("too many requests; wait {} ms", .0.as_millis())]
    RateLimited(Duration),
    /// The store or a provider cannot answer now; the caller should try again. Of a commit whose answer was lost it is
    /// not known whether it was written: an idempotency key makes a repeat safe.
    #[error("temporarily unavailable (store or provider); try again")]
    Unavailable(#[source] Cause),
    #[error("something went wrong on our side")]
    Internal(#[source] Cause),
}

/// The sentence about an invalid field. A message that begins with a verb ("must be text") follows the field's
/// name; any other message is a sentence by itself.
fn invalid_sentence(field: &str, message: &str) -> String {
    const VERBS: [&str; 21] = [
        "must", "is", "are", "was", "were", "needs", "names", "has", "have", "belongs", "belong", "goes",
        "contains", "carries", "cannot", "does", "lists", "matches", "nested", "says", "contradicts",
    ];
    let first = message.split(|c: char| c.is_whitespace() || ":;,".contains(c)).next().unwrap_or_default();
    match (VERBS.contains(&first), field) {
        (false, _) => message.to_owned(),
        (true, "body") => format!("the body {message}"),
        (true, field) => format!("`{field}` {message}"),
    }
}

/// The cause of an error: for the log, never for the caller.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The current state of the session, approval, view or key does not allow the command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    #[error("the session is `{from}`: it cannot be made `{to}` this way")]
    InvalidTransition { from: Status, to: Status },
    #[error("the session is `{status}`, not `{expected}` as you expected")]
    StatusNotExpected { status: Status, expected: Status, to: Status },
    #[error("only failed, expired or abandoned sessions are retried; this one {}", standing(*.status))]
    NotRetried { status: Status },
    #[error("the session waits for no answer: it was answered already, or has not asked; it {}", standing(*.status))]
    NothingAsked { status: Status },
    #[error("the log has moved on: its last sequence is {last_sequence}")]
    SequenceMismatch { last_sequence: u64 },
    #[error("the claim is no longer yours; stop working on this session and claim again")]
    Fenced,
    #[error("send the `epoch` of your claim: agent and tool events are for the holder of the claim")]
    EpochMissing,
    #[error("the session is busy; try again")]
    SessionBusy,
    #[error("the session is running or waits for a decision; stop it first")]
    SessionRunning,
    #[error("the session is closed; only `external.event` may still be appended")]
    SessionClosed,
    #[error("there is nothing to stop: the session {}", standing(*.status))]
    NothingToStop { status: Status },
    #[error("this is a group's session; only an owner deletes it, with `force=true`")]
    GroupSession,
    #[error("the session exists with another `{field}`")]
    TypeMismatch { field: &'static str },
    #[error(
        "nobody was to do the work of this session: responses, tool sessions and human sessions are not retried"
    )]
    NoRun,
    #[error("a {kind} session is not {done}")]
    NotForType { kind: &'static str, done: &'static str },
    #[error("nobody is shown as present in an incognito session")]
    IncognitoPresence,
    #[error("the change was made against an old version; read it again")]
    StaleBase,
    #[error("others have changed the document meanwhile{}; read it again", places(.conflicts))]
    StaleDocument { sequence: u64, conflicts: Vec<String> },
    #[error("these fields have changed since the document was opened or last applied: {}; set them in the document as they are \
             now, or apply it without them", .fields.join(", "))]
    StaleRow { fields: Vec<String> },
    #[error("only mixed sessions have documents, and no human or incognito session has")]
    NoDocuments,
    #[error("a document of an entity or a view is not shown to guests or by links: this session has {has}")]
    OpenToStrangers { has: &'static str },
    #[error("the session has documents of entities or views, which are not shown to guests or by links")]
    HasRowDocuments,
    #[error("a scratch document belongs to no entity or view, so it is not applied")]
    NothingToApply,
    #[error("these fields of the entity have changed since they were staged: {}; deny and promote again", .fields.join(", "))]
    StaleFields { fields: Vec<String> },
    #[error("a decision on the promotion of this response is pending; approve or deny it first")]
    PromotionPending,
    #[error("only a submitted response is promoted; this one {}", standing(*.status))]
    NotSubmitted { status: Status },
    #[error("this was saved from elsewhere meanwhile: its version is {version}; read it again")]
    StaleVersion { version: u64 },
    #[error("that name is taken")]
    AlreadyExists,
    #[error("{}", decided_sentence(.decision, .decided_by))]
    AlreadyDecided { decision: &'static str, decided_by: String },
    #[error("it expired{} before anybody decided", .at.map(|at| format!(" at {at}")).unwrap_or_default())]
    ApprovalExpired { at: Option<Timestamp> },
    #[error("the task is {status}; only active tasks are started")]
    TaskNotActive { status: &'static str },
    #[error("this work was retried {limit} times; start its task again instead")]
    RetryLimit { limit: u32 },
    #[error("several decisions wait; name one of them by its id")]
    SeveralPending,
    #[error("this form takes no more answers")]
    ViewClosed,
    #[error("this form has as many unread answers as it can keep; try again later")]
    ViewFull,
    #[error("you have already answered this form; the first answer stands")]
    AlreadyAnswered,
    #[error("a sitting is open that uses one person's memory; end it before others are added")]
    SittingOpen,
    #[error("no sitting of this session has ended yet, or none that can be rated")]
    NothingEnded,
}

/// The places where a patch collides with others.
fn places(conflicts: &[String]) -> String {
    match conflicts {
        [] => String::new(),
        some => format!(" at {}", some.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ")),
    }
}

/// The status of a session as a predicate.
fn standing(status: Status) -> String {
    match status {
        Status::Completed | Status::Failed | Status::Expired => status.to_string(),
        Status::Abandoned => "was abandoned".to_owned(),
        other => format!("is `{other}`"),
    }
}

fn decided_sentence(decision: &str, decided_by: &str) -> String {
    match decision {
        "approve" => format!("{decided_by} has approved it already"),
        "deny" => format!("{decided_by} has denied it already"),
        "answer" => format!("{decided_by} has answered it already"),
        "cancelled" => "it was withdrawn: its session went on without it".to_owned(),
        other => format!("{decided_by} has decided otherwise: {other}"),
    }
}

/// The limit of a quota, with its unit if that is bytes.
fn amount(quota: Quota, limit: u64) -> String {
    match usize::try_from(limit) {
        Ok(bytes) if quota.counts_bytes() => size(bytes),
        _ => limit.to_string(),
    }
}

/// A number of bytes in the unit that divides it.
fn size(bytes: usize) -> String {
    const KIB: usize = 1024;
    const MIB: usize = 1024 * KIB;
    const GIB: usize = 1024 * MIB;
    match bytes {
        0..KIB => bytes.to_string(),
        _ if bytes.is_multiple_of(GIB) => format!("{} GiB", bytes / GIB),
        _ if bytes.is_multiple_of(MIB) => format!("{} MiB", bytes / MIB),
        _ if bytes.is_multiple_of(KIB) => format!("{} KiB", bytes / KIB),
        _ => format!("{bytes} bytes"),
    }
}

impl Conflict {
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidTransition { .. }
            | Self::StatusNotExpected { .. }
            | Self::NotRetried { .. }
            | Self::NotSubmitted { .. }
            | Self::NothingAsked { .. } => "invalid_transition",
            Self::SequenceMismatch { .. } => "sequence_mismatch",
            Self::Fenced | Self::EpochMissing => "fenced",
            Self::SessionBusy => "session_busy",
            Self::SessionRunning | Self::PromotionPending => "session_running",
            Self::SessionClosed | Self::NothingToStop { .. } => "session_closed",
            Self::GroupSession => "group_session",
            Self::TypeMismatch { .. }
            | Self::NoRun
            | Self::NotForType { .. }
            | Self::NoDocuments
            | Self::OpenToStrangers { .. }
            | Self::HasRowDocuments
            | Self::NothingToApply
            | Self::IncognitoPresence => "type_mismatch",
            Self::StaleBase
            | Self::StaleFields { .. }
            | Self::StaleVersion { .. }
            | Self::StaleDocument { .. }
            | Self::StaleRow { .. } => "stale_base",
            Self::AlreadyExists => "already_exists",
            Self::AlreadyDecided { .. } | Self::ApprovalExpired { .. } => "already_decided",
            Self::TaskNotActive { .. } => "task_not_active",
            Self::RetryLimit { .. } => "retry_limit",
            Self::SeveralPending => "several_pending",
            Self::ViewClosed => "view_closed",
            Self::ViewFull => "view_full",
            Self::AlreadyAnswered => "already_answered",
            Self::SittingOpen => "sitting_open",
            Self::NothingEnded => "nothing_ended",
        }
    }
}

impl Error {
    pub fn invalid(field: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), message: message.into() }
    }

    /// The same error, with the place of what holds the invalid field.
    #[must_use]
    pub fn within(self, place: &str) -> Self {
        match self {
            Self::Invalid { field, message } => Self::invalid(format!("{place}.{field}"), message),
            other => other,
        }
    }

    pub fn denied(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Denied(message.into())
    }

    pub fn internal(cause: impl Into<Cause>) -> Self {
        Self::Internal(cause.into())
    }

    pub fn unavailable(cause: impl Into<Cause>) -> Self {
        Self::Unavailable(cause.into())
    }

    /// The sentence of [`Error::NotFound`] for a thing that the caller named. It is made of the
    /// caller's own words, so a foreign thing is answered exactly as a missing one is.
    pub fn missing(noun: &str, name: &str) -> String {
        const SHOWN_CHARS_MAX: usize = 80;
        let mut shown: String = name.chars().filter(|c| !c.is_control()).take(SHOWN_CHARS_MAX).collect();
        if name.chars().count() > SHOWN_CHARS_MAX {
            shown.push('…');
        }
        format!("there is no {noun} `{shown}`, or it is not yours to see")
    }

    /// The stable name of this refusal at every edge.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Invalid { .. } | Self::ValuesInvalid { .. } => "invalid",
            Self::BadJson(_) => "bad_json",
            Self::Conflict(conflict) => conflict.code(),
            Self::Denied(_) => "denied",
            Self::Unauthenticated(_) => "unauthenticated",
            Self::TooLarge { .. } => "too_large",
            Self::QuotaExceeded { .. } => "quota_exceeded",
            Self::OutputInvalid { .. } => "output_invalid",
            Self::HardBlocked { .. } => "hard_blocked",
            Self::IdempotencyMismatch => "idempotency_mismatch",
            Self::RateLimited(_) => "rate_limited",
            Self::Unavailable(_) => "unavailable",
            Self::Internal(_) => "internal",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_wrong_in_a_sentence() {
        let at = Timestamp::parse("2026-11-17T22:14:00Z");
        let table: Vec<(Error, &str)> = vec![
            (
                Error::invalid("title", "is longer than 200 characters"),
                "`title` is longer than 200 characters",
            ),
            (Error::invalid("body", "must be an object"), "the body must be an object"),
            (Error::invalid("id", "no person's step waits here"), "no person's step waits here"),
            (Error::TooLarge { what: "event", limit: 262_144 }, "the event is too large: at most 256 KiB"),
            (Error::TooLarge { what: "body", limit: 4_194_304 }, "the body is too large: at most 4 MiB"),
            (Error::TooLarge { what: "body", limit: 1_500 }, "the body is too large: at most 1500 bytes"),
            (
                Error::QuotaExceeded { quota: Quota::IncognitoUserBytes, limit: 32 << 20 },
                "the quota `incognito.user_bytes` of 32 MiB is used up: delete an incognito session that you no longer \
                 need",
            ),
            (
                Error::QuotaExceeded { quota: Quota::TenantBytes, limit: 1 << 40 },
                "the quota `quotas.tenant_bytes` of 1024 GiB is used up: an owner can delete sessions, or the operator \
                 can raise the quota",
            ),
            (
                Error::QuotaExceeded { quota: Quota::UserRuns, limit: 2_048 },
                "the quota `quotas.user_runs` of 2048 is used up: wait until some of the work has ended, or cancel some",
            ),
            (
                Error::invalid("include_children", "contradicts `parents_only`"),
                "`include_children` contradicts `parents_only`",
            ),
            (
                Conflict::NothingToStop { status: Status::Failed }.into(),
                "there is nothing to stop: the session failed",
            ),
            (
                Conflict::InvalidTransition { from: Status::Pending, to: Status::Completed }.into(),
                "the session is `pending`: it cannot be made `completed` this way",
            ),
            (
                Conflict::StatusNotExpected {
                    status: Status::Pending,
                    expected: Status::Running,
                    to: Status::Abandoned,
                }
                .into(),
                "the session is `pending`, not `running` as you expected",
            ),
            (
                Conflict::NotRetried { status: Status::Completed }.into(),
                "only failed, expired or abandoned sessions are retried; this one completed",
            ),
            (
                Conflict::NotRetried { status: Status::Running }.into(),
                "only failed, expired or abandoned sessions are retried; this one is `running`",
            ),
            (
                Conflict::AlreadyDecided { decision: "approve", decided_by: "ada".into() }.into(),
                "ada has approved it already",
            ),
            (
                Conflict::ApprovalExpired { at }.into(),
                "it expired at 2026-11-17T22:14:00.000000Z before anybody decided",
            ),
        ];
        for (error, said) in table {
            assert_eq!(error.to_string(), said);
        }
    }

    #[test]
    fn a_missing_thing_is_named_as_the_caller_named_it() {
        assert_eq!(
            Error::missing("session", "nope"),
            "there is no session `nope`, or it is not yours to see"
        );
        let long = Error::missing("session", &"é".repeat(200));
        assert!(long.contains(&format!("`{}…`", "é".repeat(80))), "{long}");
    }
}
