//! Sederunt's HTTP API for Rust programs: its JSON types ([`wire`]) and a client ([`client`]).
//!
//! The server and the command line are built on this crate, and so can any other program be: there is no HTTP server,
//! no MCP and no agent in its dependencies. It depends on `sederunt-core` because wire types are converted from and
//! into core's types here, where the orphan rule allows it, and because core names the limits and errors that the
//! readers of this crate use.
//!
//! ```no_run
//! use sederunt_api::client::{Client, Error};
//! use sederunt_api::wire::session::{Session, SessionList};
//! use serde_json::json;
//!
//! # async fn example() -> Result<(), Error> {
//! let client = Client::new("http://127.0.0.1:7070", Some("sk_…".to_owned()))?;
//! let opened: Session =
//!     client.post("/api/sessions", &json!({ "session_type": "mixed", "title": "Plan the move" })).await?;
//! let running: SessionList = client.get("/api/sessions?status=running&limit=20").await?;
//! println!("{} is {:?}; {} sessions run", opened.id, opened.status, running.items.len());
//!
//! let mut stream = client.stream(&format!("/api/sessions/{}/stream", opened.id), None).await?;
//! while let Some(event) = stream.next().await? {
//!     println!("{}: {}", event.event, event.data);
//! }
//! # Ok(())
//! # }
//! ```

pub mod client;
pub mod limits;
pub mod query;
pub mod wire;
