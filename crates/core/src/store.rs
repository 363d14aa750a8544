//! The seam: what the product asks of a database, and nothing more.
//!
//! A [`Change`] is applied whole or refused whole. Its parts name one session each, with the
//! [`Guard`] under which it was decided. [`Guard::check`] is pure and lives in this room, so that no store
//! can judge differently. Stores hold SQL and row mapping; every rule stands above them.

mod basis;
mod change;
mod guard;
pub mod incognito;
mod private_budget;
mod query;
mod record;
mod upkeep;

use futures_util::future::BoxFuture;

pub use crate::activity::BridgeStore;
pub use crate::approval::{ApprovalListStore, ApprovalStore};
pub use crate::channel::ChannelStore;
pub use crate::definitions::DocStore;
pub use crate::document::DocumentStore;
pub use crate::event::{EventStore, SearchStore};
pub use crate::feedback::{FeedbackStore, RatingStore};
pub use crate::lesson::LessonStore;
pub use crate::live::DeltaStore;
pub use crate::memory::{MemoryStore, VectorStore};
pub use crate::people::{AuditStore, BrowserSessionStore, KeyStore, ShareStore, TenantRowStore, UserStore};
pub use crate::presence::PresenceStore;
pub use crate::response::ResponseStore;
pub use crate::safety::CrisisStore;
pub use crate::session::{SessionListStore, SessionRowStore};
pub use crate::talk::TalkStore;
pub use crate::work::{ClaimStore, WorkQueueStore};
pub use basis::{Expect, RowKey, RowState, judge, next_version};
pub use change::{
    Change, ChangePart, ClaimChange, CommitResult, Fork, IdemKey, KeyNote, NewSession, Notice, PartResult,
    PartTarget, Refusal, Replay, Update, Write,
};
pub use guard::{AppendRule, DocumentGuard, Fence, Guard, GuardRows};
pub use private_budget::PrivateLimits;
pub use query::{
    AuditLine, DueApproval, DueSession, FailureQuery, FeedbackDue, FeedbackQuery, HitSession, MemoryQuery,
    NumberedVector, RecordsKept, RecordsOf, SearchHit, SearchQuery, VectorQuery, Vectors, Vitals,
};
pub use record::{Home, Record, SideRecord};
pub use upkeep::{SweepStore, UpkeepStore};

use crate::error::Result;
use crate::ids::TenantId;

/// What a database answers, bounded by the store's own limits.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T>>;

/// Writes, and what a repeated write is told.
pub trait CommitStore {
    /// Applies a change whole, durably, or refuses it whole.
    fn commit(&self, change: Change) -> BoxFuture<'_, Result<CommitResult, Refusal>>;
    /// What a key's first use did, if it was used: for a command that can no longer be decided.
    fn recall<'a>(&'a self, tenant: &'a TenantId, key: IdemKey) -> StoreFuture<'a, Option<Replay>>;
}

/// A trait that is the sum of others: whatever has all of them has it.
macro_rules! sum_of_traits {
    ($(#[$doc:meta])* $name:ident = $($part:ident)+) => {
        $(#[$doc])*
        pub trait $name: Send + Sync + std::fmt::Debug $(+ $part)+ {}
        impl<T: Send + Sync + std::fmt::Debug $(+ $part)+> $name for T {}
    };
}

sum_of_traits! {
    /// Rows that belong to one session. They lie where it lies: in the durable store, or in memory for an incognito one.
    SessionStore =
        CommitStore SessionRowStore EventStore ApprovalStore ResponseStore DocumentStore TalkStore MemoryStore VectorStore
        ShareStore RatingStore SweepStore DeltaStore PresenceStore
}

sum_of_traits! {
    /// Rows that belong to a tenant or to the installation. None of them is ever in memory alone.
    TenantStore =
        SessionListStore SearchStore ChannelStore DocStore ApprovalListStore CrisisStore FeedbackStore
        LessonStore ClaimStore WorkQueueStore BridgeStore KeyStore BrowserSessionStore UserStore TenantRowStore AuditStore
        UpkeepStore
}

/// A database behind the engine: both halves of the seam.
pub trait Store: SessionStore + TenantStore {}
impl<T> Store for T where T: SessionStore + TenantStore {}
