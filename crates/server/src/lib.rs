//! Sederunt over HTTP: one listener in front of one [`Engine`](sederunt_core::engine::Engine).
//!
//! This crate translates: a request becomes one call of the engine, and the result becomes an answer. It owns how
//! callers authenticate ([`Auth`]), how much they may ask, and how streams reach them. It decides nothing about the
//! product: an `if` about sessions belongs in the core.

pub mod channels;
mod config;
mod connections;
mod http;
mod in_process;
mod listen;
mod mcp;
mod metrics;
mod mount;
mod proxies;
mod workers;

pub use config::{Auth, ConfigError, JwtConfig, JwtKeys, Rate, Rates, ServerConfig, StreamTimes};
pub use connections::ConnectionCaps;
pub use http::{CallerIdentity, openapi, rights};
pub use in_process::client_in_process;
pub use listen::Server;
pub use mcp::bridge;
pub use metrics::recorder;
pub use mount::{Mounted, mount};
pub use proxies::{AddressBlock, TrustedProxies};
