//! What responses ask of a database.

use super::{RespondentHistory, ResponseRow, StoredResponse};
use crate::ids::{SessionId, TenantId};
use crate::session::query::Page;
use crate::store::StoreFuture;

/// Responses, which lie where their sessions lie.
pub trait ResponseStore {
    /// The response whose session has this id; `None` for a session without a form.
    fn response<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> StoreFuture<'a, Option<StoredResponse>>;

    /// The rows of those of these sessions that are responses, in any order. Those of incognito sessions do not exist.
    fn response_rows<'a>(
        &'a self,
        tenant: &'a TenantId,
        sessions: &'a [SessionId],
    ) -> StoreFuture<'a, Vec<ResponseRow>>;

    /// What a respondent has answered to a view before.
    fn respondent_history<'a>(
        &'a self,
        tenant: &'a TenantId,
        view_id: &'a str,
        respondent_name: &'a str,
    ) -> StoreFuture<'a, RespondentHistory>;

    /// The open anonymous drafts of a view behind the `kept` that were saved last, the longest silent one first; at most
    /// `limit`.
    fn silent_drafts<'a>(
        &'a self,
        tenant: &'a TenantId,
        view_id: &'a str,
        kept: usize,
        limit: usize,
    ) -> StoreFuture<'a, Vec<SessionId>>;

    /// The responses to a view, newest first. Those of incognito sessions do not exist.
    fn responses<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: ResponseQuery,
    ) -> StoreFuture<'a, Page<StoredResponse, i64>>;
}

/// Which responses are listed.
#[derive(Clone, Debug)]
pub struct ResponseQuery {
    pub view_id: Box<str>,
    pub filter: ResponseFilter,
    /// The number of the previous page's last row.
    pub after: Option<i64>,
    pub limit: usize,
}

/// A filter by what callers call the status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFilter {
    All,
    Draft,
    /// Submitted, and not promoted.
    Submitted,
    Promoted,
    Abandoned,
}

impl ResponseFilter {
    /// The stored state of these responses, and whether an approved promotion must be there, or must not.
    pub const fn columns(self) -> (Option<super::ResponseState>, Option<bool>) {
        use super::ResponseState::{Abandoned, Open, Submitted};
        match self {
            Self::All => (None, None),
            Self::Draft => (Some(Open), None),
            Self::Submitted => (Some(Submitted), Some(false)),
            Self::Promoted => (Some(Submitted), Some(true)),
            Self::Abandoned => (Some(Abandoned), None),
        }
    }
}
