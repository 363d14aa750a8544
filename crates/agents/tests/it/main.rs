//! Models and tools against servers that speak the real protocols on loopback.

mod http_tools;
mod mcp;
mod models;
mod wire;
