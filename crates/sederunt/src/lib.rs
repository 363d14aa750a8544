//! The session server for AI agents, as a crate to embed: open a store, and every command of the
//! product is a method call.
//!
//! ```
//! use std::sync::Arc;
//! use futures_util::StreamExt;
//! use sederunt::{Actor, SessionType, SourceKind};
//!
//! # #[tokio::main]
//! # async fn main() -> sederunt::Result<()> {
//! let store = sederunt::open("memory:").await?;
//! let me = Arc::new(Actor::local(SourceKind::Api));
//!
//! let session = store.start(&me, SessionType::Mixed).await?;
//! let mut log = store.follow(&me, &session.id, session.head.last_sequence).await?;
//! store.append_text(&me, &session.id, "user.message", "Hello").key("greeting-1").await?;
//!
//! let event = log.next().await.expect("the log goes on")?;
//! assert_eq!(event.text().as_deref(), Some("Hello"));
//! store.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`open`] also starts the background work: it frees the work of dead workers, ends overdue sessions, silent
//! conversations and silent feedback, and removes what is past its retention. [`Builder`] switches it off, and takes models
//! and tools of your own. The commands are methods of [`Engine`], which a [`Sederunt`] dereferences to; a few have
//! short forms that take an idempotency key (see [`Command`]). With the feature `http`, `Sederunt::router` gives the HTTP
//! routes to mount in a server of your own.
//!
//! The guide is `docs/guides/embedding.md`; `examples/approval.rs` runs a task with a model, a tool and a person.

mod builder;
mod commands;
mod follow;
#[cfg(feature = "http")]
pub mod http;
mod open;
mod place;

pub use builder::{Builder, Options};
pub use commands::Command;
pub use follow::EventStream;
pub use open::{Sederunt, open};
pub use place::Place;

/// What runs turns and work: models, tools, conversations, the executor.
pub use sederunt_agents as agents;
pub use sederunt_core::access::{Actor, Role, ShareAccess};
pub use sederunt_core::activity::ActivitySettings;
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

/// The examples of the guide run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/embedding.md")]
struct Guide;
