//! Runs from trigger to settlement, with scripted models, tools on loopback and a real store: what they leave in
//! the log, and that nothing happens twice or without leave.

mod crashes;
mod elicitation;
mod leave;
mod limits;
mod mcp_stand_in;
mod runs;
mod secrets;
mod world;

pub use world::World;
