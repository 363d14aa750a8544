//! An agent's tools inside turns of talk, with scripted models and tools on loopback.

mod calls;
mod documents;
mod leave;
pub mod world;
