//! Refusals on their way out: the status, the headers and the envelope of every one of them.
//!
//! A handler only says *what* it refuses; the middleware knows the request's id and writes the envelope.
//! So the answer carries the refusal as an extension until it reaches the middleware.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use sederunt_api::wire;
use sederunt_core::quota::Remedy;
use sederunt_core::{Conflict, Error};
use serde_json::{Value, json};

pub type Result<T, E = RequestError> = std::result::Result<T, E>;

/// Why a request was not carried out.
#[derive(Debug)]
pub enum RequestError {
    Core(Error),
    /// What the path names does not exist, or the caller may not see it: the sentence names it.
    Missing(String),
    /// The path exists, the method does not.
    Method,
    /// A body that is not `application/json`.
    MediaType,
    /// A body that is not what a browser sends of a form.
    FormType,
    /// A body that did not arrive in time.
    SlowBody,
    /// An HTTP/1.1 request without exactly one `Host`.
    Host,
    /// A WebSocket request that is not a valid upgrade.
    Upgrade,
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        Self::Core(error)
    }
}

impl From<Conflict> for RequestError {
    fn from(conflict: Conflict) -> Self {
        Self::Core(conflict.into())
    }
}

impl IntoResponse for RequestError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status();
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

impl RequestError {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Missing(_) => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::MediaType | Self::FormType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Self::Host => StatusCode::BAD_REQUEST,
            Self::Upgrade => StatusCode::UPGRADE_REQUIRED,
            Self::Core(error) => match error {
                Error::BadJson(_) => StatusCode::BAD_REQUEST,
                Error::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
                Error::Denied(_) => StatusCode::FORBIDDEN,
                Error::NotFound => StatusCode::NOT_FOUND,
                Error::Conflict(_) => StatusCode::CONFLICT,
                Error::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
                Error::Invalid { .. }
                | Error::ValuesInvalid { .. }
                | Error::IdempotencyMismatch
                | Error::OutputInvalid { .. }
                | Error::HardBlocked { .. } => StatusCode::UNPROCESSABLE_ENTITY,
                Error::QuotaExceeded { quota, .. } => match quota.remedy() {
                    Remedy::Shrink => StatusCode::PAYLOAD_TOO_LARGE,
                    Remedy::Reduce => StatusCode::TOO_MANY_REQUESTS,
                    Remedy::Wait => StatusCode::SERVICE_UNAVAILABLE,
                },
                Error::RateLimited(_) => StatusCode::TOO_MANY_REQUESTS,
                Error::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
                Error::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            },
        }
    }

    pub fn code(&self) -> &'static str {
        match self {
            Self::Core(error) => error.code(),
            Self::Missing(_) => "not_found",
            Self::Method => "method_not_allowed",
            Self::MediaType | Self::FormType | Self::Host => "invalid",
            Self::SlowBody => "timeout",
            Self::Upgrade => "upgrade_required",
        }
    }

    pub fn message(&self) -> String {
        match self {
            Self::Core(error) => error.to_string(),
            Self::Missing(sentence) => sentence.clone(),
            Self::Method => "this path does not take that method; see `Allow`".to_owned(),
            Self::MediaType => "send the body as `Content-Type: application/json`".to_owned(),
            Self::FormType => "send the form as `Content-Type: application/x-www-form-urlencoded`".to_owned(),
            Self::SlowBody => "the body did not arrive in time; send it again".to_owned(),
            Self::Host => "name the server in exactly one `Host` header".to_owned(),
            Self::Upgrade => "this is a WebSocket: ask for an upgrade".to_owned(),
        }
    }

    fn field(&self) -> Option<&str> {
        match self {
            Self::Core(Error::Invalid { field, .. }) => Some(field),
            Self::Core(Error::ValuesInvalid { field, .. }) => Some(field),
            Self::MediaType | Self::FormType => Some("content-type"),
            Self::Host => Some("host"),
            _ => None,
        }
    }

    fn details(&self) -> Option<Value> {
        match self {
            Self::Core(Error::Conflict(conflict)) => match conflict {
                Conflict::SequenceMismatch { last_sequence } => {
                    Some(json!({ "last_sequence": last_sequence }))
                }
                Conflict::InvalidTransition { from, to } => {
                    Some(json!({ "from": from.as_str(), "to": to.as_str() }))
                }
                Conflict::StatusNotExpected { status, to, .. } => {
                    Some(json!({ "from": status.as_str(), "to": to.as_str() }))
                }
                Conflict::NotRetried { status } | Conflict::NothingAsked { status } => {
                    Some(json!({ "from": status.as_str(), "to": "pending" }))
                }
                Conflict::ApprovalExpired { .. } => {
                    Some(json!({ "decision": "expired", "decided_by": "nobody" }))
                }
                Conflict::NotSubmitted { status } => {
                    Some(json!({ "from": status.as_str(), "to": "promoted" }))
                }
                Conflict::StaleFields { fields } => Some(json!({ "fields": fields })),
                Conflict::StaleRow { fields } => Some(json!({ "fields": fields })),
                Conflict::StaleDocument { sequence, conflicts } => {
                    Some(json!({ "sequence": sequence, "conflicts": conflicts }))
                }
                Conflict::StaleVersion { version } => Some(json!({ "version": version })),
                Conflict::TypeMismatch { field } => Some(json!({ "field": field })),
                Conflict::Fenced
                | Conflict::EpochMissing
                | Conflict::SessionBusy
                | Conflict::SessionRunning
                | Conflict::PromotionPending
                | Conflict::NoRun
                | Conflict::NotForType { .. }
                | Conflict::IncognitoPresence
                | Conflict::NoDocuments
                | Conflict::OpenToStrangers { .. }
                | Conflict::HasRowDocuments
                | Conflict::NothingToApply
                | Conflict::SessionClosed
                | Conflict::NothingToStop { .. }
                | Conflict::GroupSession
                | Conflict::StaleBase
                | Conflict::SeveralPending
                | Conflict::NothingEnded
                | Conflict::SittingOpen
                | Conflict::ViewClosed
                | Conflict::ViewFull
                | Conflict::AlreadyAnswered
                | Conflict::AlreadyExists => None,
                Conflict::AlreadyDecided { decision, decided_by } => {
                    Some(json!({ "decision": decision, "decided_by": decided_by }))
                }
                Conflict::TaskNotActive { status } => Some(json!({ "status": status })),
                Conflict::RetryLimit { limit } => Some(json!({ "limit": limit })),
            },
            Self::Core(Error::OutputInvalid { complaints } | Error::ValuesInvalid { complaints, .. }) => {
                Some(json!({ "complaints": complaints }))
            }
            Self::Core(Error::HardBlocked { dimension, option }) => {
                Some(json!({ "dimension": dimension, "option": option }))
            }
            Self::Core(Error::TooLarge { limit, .. }) => Some(json!({ "limit": limit })),
            Self::Core(Error::QuotaExceeded { quota, limit }) => {
                Some(json!({ "quota": quota.name(), "limit": limit }))
            }
            _ => None,
        }
    }

    /// The envelope that the caller gets.
    pub fn body(&self, request_id: &str) -> wire::error::Envelope {
        wire::error::Envelope {
            error: wire::error::Refusal {
                code: self.code().to_owned(),
                message: self.message(),
                field: self.field().map(str::to_owned),
                details: self.details(),
                request_id: request_id.to_owned(),
            },
        }
    }

    /// The answer as the caller sees it.
    pub fn envelope(&self, request_id: &str) -> Response {
        let body = serde_json::to_vec(&self.body(request_id)).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, super::JSON);
        match self {
            Self::Core(Error::Unauthenticated(_)) => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Self::Core(Error::RateLimited(wait)) => {
                let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
            }
            Self::Core(Error::QuotaExceeded { quota, .. }) => {
                if let Some(wait) = quota.retry_after() {
                    headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs()));
                }
            }
            Self::Core(Error::Unavailable(_)) => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }

    /// The chain of causes of an internal error.
    pub fn causes(&self) -> Option<Causes> {
        let Self::Core(Error::Internal(cause) | Error::Unavailable(cause)) = self else { return None };
        let mut chain = cause.to_string();
        let mut source = cause.source();
        while let Some(under) = source {
            chain.push_str(": ");
            chain.push_str(&under.to_string());
            source = under.source();
        }
        Some(Causes(chain))
    }

    /// Logs an internal error, once.
    pub fn log(&self, request_id: &str, route: &str) {
        let Some(Causes(cause)) = self.causes() else { return };
        if matches!(self, Self::Core(Error::Internal(_))) {
            tracing::error!(target: "sederunt::http", request_id, route, %cause, "a request failed by a fault of this server");
        } else {
            tracing::warn!(target: "sederunt::http", request_id, route, %cause, "a request could not be answered now; its caller was told to try again");
        }
    }
}

/// The causes of a refusal. They leave with the answer as an extension: the log and a caller in this process see
/// them, callers over HTTP do not.
#[derive(Clone, Debug)]
pub struct Causes(pub String);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt;
    use sederunt_core::quota::Quota;
    use sederunt_core::session::Status;

    use super::*;

    async fn answer(refused: RequestError) -> (Response<()>, Value) {
        let (parts, body) = refused.envelope("r1").into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (Response::from_parts(parts, ()), serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn every_refusal_has_the_status_and_code_of_the_contract() {
        let cause = || std::io::Error::other("the disk is on fire");
        let table: Vec<(RequestError, u16, &str)> = vec![
            (Error::BadJson("x".into()).into(), 400, "bad_json"),
            (Error::Unauthenticated("x").into(), 401, "unauthenticated"),
            (Error::denied("x").into(), 403, "denied"),
            (Error::NotFound.into(), 404, "not_found"),
            (
                Error::QuotaExceeded { quota: Quota::IncognitoSessionBytes, limit: 1 }.into(),
                413,
                "quota_exceeded",
            ),
            (Error::QuotaExceeded { quota: Quota::UserSessions, limit: 1 }.into(), 429, "quota_exceeded"),
            (Error::QuotaExceeded { quota: Quota::TenantStreams, limit: 1 }.into(), 429, "quota_exceeded"),
            (
                Error::QuotaExceeded { quota: Quota::IncognitoTotalBytes, limit: 1 }.into(),
                503,
                "quota_exceeded",
            ),
            (RequestError::Host, 400, "invalid"),
            (RequestError::Method, 405, "method_not_allowed"),
            (RequestError::SlowBody, 408, "timeout"),
            (
                Conflict::InvalidTransition { from: Status::Draft, to: Status::Failed }.into(),
                409,
                "invalid_transition",
            ),
            (Conflict::SequenceMismatch { last_sequence: 7 }.into(), 409, "sequence_mismatch"),
            (Conflict::Fenced.into(), 409, "fenced"),
            (Conflict::EpochMissing.into(), 409, "fenced"),
            (Conflict::SessionBusy.into(), 409, "session_busy"),
            (Conflict::SessionRunning.into(), 409, "session_running"),
            (Conflict::SessionClosed.into(), 409, "session_closed"),
            (Conflict::GroupSession.into(), 409, "group_session"),
            (Conflict::TypeMismatch { field: "session_type" }.into(), 409, "type_mismatch"),
            (Conflict::StaleBase.into(), 409, "stale_base"),
            (Conflict::StaleDocument { sequence: 7, conflicts: vec!["/a".into()] }.into(), 409, "stale_base"),
            (Conflict::StaleRow { fields: vec!["a".into()] }.into(), 409, "stale_base"),
            (Conflict::NoDocuments.into(), 409, "type_mismatch"),
            (Conflict::HasRowDocuments.into(), 409, "type_mismatch"),
            (Conflict::OpenToStrangers { has: "a guest" }.into(), 409, "type_mismatch"),
            (Conflict::NothingToApply.into(), 409, "type_mismatch"),
            (Conflict::StaleVersion { version: 3 }.into(), 409, "stale_base"),
            (Conflict::AlreadyExists.into(), 409, "already_exists"),
            (
                Conflict::AlreadyDecided { decision: "approve", decided_by: "ada".into() }.into(),
                409,
                "already_decided",
            ),
            (Conflict::TaskNotActive { status: "paused" }.into(), 409, "task_not_active"),
            (Conflict::RetryLimit { limit: 50 }.into(), 409, "retry_limit"),
            (Conflict::SeveralPending.into(), 409, "several_pending"),
            (Conflict::SittingOpen.into(), 409, "sitting_open"),
            (Conflict::NothingEnded.into(), 409, "nothing_ended"),
            (Conflict::ViewClosed.into(), 409, "view_closed"),
            (Conflict::ViewFull.into(), 409, "view_full"),
            (Conflict::AlreadyAnswered.into(), 409, "already_answered"),
            (Error::TooLarge { what: "body", limit: 9 }.into(), 413, "too_large"),
            (RequestError::MediaType, 415, "invalid"),
            (RequestError::FormType, 415, "invalid"),
            (Error::invalid("title", "is bad").into(), 422, "invalid"),
            (Error::IdempotencyMismatch.into(), 422, "idempotency_mismatch"),
            (Error::OutputInvalid { complaints: vec!["x".into()] }.into(), 422, "output_invalid"),
            (
                Error::HardBlocked { dimension: "tone".into(), option: "cruel".into() }.into(),
                422,
                "hard_blocked",
            ),
            (RequestError::Upgrade, 426, "upgrade_required"),
            (Error::RateLimited(Duration::from_millis(10)).into(), 429, "rate_limited"),
            (Error::internal(cause()).into(), 500, "internal"),
            (Error::unavailable(cause()).into(), 503, "unavailable"),
        ];
        let mut tried = std::collections::BTreeSet::new();
        for (refused, status, code) in table {
            tried.insert((status, code.to_owned()));
            let (head, body) = answer(refused).await;
            assert_eq!((head.status().as_u16(), body["error"]["code"].as_str()), (status, Some(code)));
            assert_eq!(body["error"]["request_id"], "r1");
            assert!(!body.to_string().contains("on fire"), "what lies under an error is not told");
            assert_eq!(head.headers().contains_key(header::RETRY_AFTER), matches!(status, 429 | 503));
            assert_eq!(head.headers().contains_key(header::WWW_AUTHENTICATE), status == 401);
        }
        assert_eq!(tried, contract(), "the refusals tried here, and those in the table of docs/API.md");
    }

    /// The statuses and codes in the table of docs/API.md.
    fn contract() -> std::collections::BTreeSet<(u16, String)> {
        let row = |line: &str| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            let status = cells.next()?.parse().ok()?;
            Some((status, cells.next()?.trim_matches('`').to_owned()))
        };
        include_str!("../../../../docs/API.md").lines().filter_map(row).collect()
    }

    #[tokio::test]
    async fn a_refusal_names_its_field_and_its_details() {
        let (_, body) = answer(Error::invalid("title", "is longer than 200 characters").into()).await;
        assert_eq!(body["error"]["field"], "title");
        assert_eq!(body["error"]["message"], "`title` is longer than 200 characters");
        let (_, body) = answer(Conflict::SequenceMismatch { last_sequence: 7 }.into()).await;
        assert_eq!(body["error"]["details"], json!({ "last_sequence": 7 }));
        let (_, body) = answer(Error::NotFound.into()).await;
        assert_eq!(body["error"].get("field"), None);
        assert_eq!(body["error"].get("details"), None);
    }
}
