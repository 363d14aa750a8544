//! The activity room: what people record about their own work, and what agents are told of it.
//!
//! A person says which task they are working on: that opens a session, the human bridge ([`bridge`]), and what the
//! person visits and notes meanwhile becomes `human.*` events in its log. Nothing is recorded for a person who has
//! started nothing. [`block`] is the text of the recent-activity block, and [`injection`] says which models are given it.

pub mod block;
pub mod bridge;
pub mod injection;
mod settings;
mod store;

pub use injection::BridgePerson;
pub use settings::ActivitySettings;
pub use store::BridgeStore;
