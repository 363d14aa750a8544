//! What Sederunt is: sessions, their event logs, claims on work, the people and the rules.
//!
//! This crate owns every product decision. It refuses to know SQL, HTTP, the command line or the
//! environment: storage is reached through [`store::Store`], time through [`clock::Clock`].
//! A command is always *load → decide (pure) → commit once*; see [`engine::Engine`].

pub mod access;
pub mod activity;
pub mod approval;
pub mod border;
pub mod channel;
pub mod clock;
pub mod confidence;
pub mod definitions;
pub mod document;
pub mod engine;
pub mod error;
pub mod event;
pub mod feedback;
pub mod ids;
pub mod json;
pub mod json_schema;
pub mod lesson;
pub mod limits;
pub mod live;
pub mod memory;
pub mod patience;
pub mod people;
pub mod presence;
pub mod quota;
pub mod response;
pub mod safety;
pub mod session;
pub mod store;
pub mod strict;
pub mod talk;
pub mod time;
pub mod tool_session;
pub mod view;
pub mod work;

pub use access::{Actor, Role};

pub use engine::Engine;
pub use error::{Conflict, Error, Result};
pub use event::Event;
pub use ids::{CredentialId, Incarnation, SessionId, TenantId, UserId};
pub use session::Session;
pub use time::Timestamp;
