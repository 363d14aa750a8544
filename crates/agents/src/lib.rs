//! What runs turns and work: models, tools, and the context that a model is given.
//!
//! This crate owns the seams to the outside that an agent needs. It refuses to know where sessions are stored
//! or how they are served: it depends on `sederunt-core` alone, and whoever wires it up hands in
//! configuration, secrets and addresses. Nothing here reads the environment.
//!
//! - [`model`]: one trait, and what speaks it (OpenAI-compatible, Anthropic, a script, a rule-based talker);
//! - [`tool`]: one trait, and what speaks it (HTTP, MCP), with every argument and result checked;
//! - [`outbound`]: the guard that every address given by a tenant passes before anything is sent to it;
//! - `steps`: what an agent says and has done under a claim, as it stands in the log;
//! - [`executor`]: the worker that runs tasks with all of these;
//! - [`talk`]: conversations, from a message to its reply and from a sitting to its end;
//! - [`teacher`]: what closes feedback sessions and draws the lesson from each;
//! - [`context`]: how a transcript and everything around it become a request within a budget. Pure.

pub mod context;
pub mod executor;
pub mod limits;
pub mod model;
pub mod outbound;
mod pulse;
mod steps;
pub mod talk;
pub mod teacher;
pub mod tool;
