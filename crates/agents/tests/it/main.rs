//! Models and tools against servers that speak the real protocols on loopback.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expects by failing")]

mod activity;
mod embeddings;
mod executor;
mod expiry;
mod ground;
mod http_tools;
mod late;
mod limits;
mod mcp;
mod models;
mod realtime;
mod stand_ins;
mod talk;
mod talk_tools;
mod teaching;
mod wire;
