//! The session server for AI agents, as a crate to embed: open a store, and every command of the
//! product is a method call.
//!
//! ```
//! use std::sync::Arc;
//! use sederunt::{Actor, Append, DraftEvent, EventQuery, Json, OpenSession, SessionType, SourceKind};
//!
//! # #[tokio::main]
//! # async fn main() -> sederunt::Result<()> {
//! let store = sederunt::open("memory:").await?;
//! let me = Arc::new(Actor::local(SourceKind::Api));
//!
//! let wish = OpenSession { session_type: Some(SessionType::Mixed), ..OpenSession::default() };
//! let session = store.open(&me, wish, None).await?.session;
//!
//! let hello = DraftEvent {
//!     kind: "user.message".into(),
//!     content: Some(Json::of(&"Hello")?),
//!     ..DraftEvent::default()
//! };
//! store.append(&me, &session.id, Append { events: vec![hello], ..Append::default() }, None).await?;
//!
//! let log = store.read(&me, &session.id, EventQuery::default()).await?;
//! assert_eq!(log.events.last().and_then(|event| event.text()).as_deref(), Some("Hello"));
//! store.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Owns two things: reading a store's address ([`Place`]) and building the engine over the store that it names
//! ([`Sederunt`]). The product's commands are methods of [`Engine`], which a [`Sederunt`] dereferences to.

mod open;
mod place;

pub use open::{Options, Sederunt, open};
pub use place::Place;

/// What runs turns and work: models, tools, conversations, the executor.
pub use sederunt_agents as agents;
pub use sederunt_core::access::{Actor, Role, ShareAccess};
pub use sederunt_core::clock::{Clock, SystemClock};
pub use sederunt_core::engine::{
    Append, AppendResult, CreatedKey, DraftEvent, Engine, HintStream, LogStream, NewKey, NewShare, NewUser,
    OpenedSession, Operator, Post, Settings, StreamItem, SweepCounts, UserPatch,
};
pub use sederunt_core::error::{Conflict, Error, Result};
pub use sederunt_core::event::{Event, EventPage, EventQuery, EventType};
pub use sederunt_core::ids::{CredentialId, SessionId, TenantId, UserId};
pub use sederunt_core::json::Json;
pub use sederunt_core::people::{Identity, Key, Share, Tenant, User};
pub use sederunt_core::quota::{Amount, Quota, QuotaLimits, QuotaSettings, Remedy};
pub use sederunt_core::session::decide::{OpenSession, PatchSession, Transition};
pub use sederunt_core::session::query::{ListCursor, Page, SessionQuery, TypeFilter};
pub use sederunt_core::session::{
    MemoryMode, Session, SessionState, SessionType, SourceKind, Status, StatusSet,
};
pub use sederunt_core::store::{IdemKey, PrivateLimits, SearchHit, Vitals};
pub use sederunt_core::time::Timestamp;
pub use sederunt_core::work::{ClaimRequest, ClaimedRun, Heartbeat, Pause, Settle};
pub use sederunt_core::{
    approval, definitions, event, feedback, limits, live, memory, safety, session, store, talk, work,
};

/// The examples of the front page compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;
