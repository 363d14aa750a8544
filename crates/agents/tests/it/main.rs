//! Models and tools against servers that speak the real protocols on loopback.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expects by failing")]

mod executor;
mod expiry;
mod http_tools;
mod late;
mod likeness;
mod mcp;
mod models;
mod realtime;
mod talk;
mod talk_tools;
mod wire;
