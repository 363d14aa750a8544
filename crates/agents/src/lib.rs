//! What runs turns and work: models, tools, and the context that a model is given.
//!
//! This crate owns the seams to the outside that an agent needs. It refuses to know where sessions are stored or how
//! they are served: it depends on `sederunt-core` alone, and its caller hands in configuration, secrets and
//! addresses. Nothing here reads the environment.
//!
//! - [`model`]: one trait, and its implementations (OpenAI-compatible, Anthropic, a script, a rule-based model);
//! - [`tool`]: one trait, and its implementations (HTTP, MCP), with every argument and result checked;
//! - [`outbound`]: the guard that every address given by a tenant passes before anything is sent to it;
//! - `steps`: what an agent says and does under a claim, written to the log and read back from it;
//! - [`executor`]: the worker that runs tasks with all of these;
//! - [`talk`]: conversations, from a message to its reply and from a sitting to its end;
//! - [`lesson_writer`]: closes feedback sessions and draws the lesson from each;
//! - [`background`]: what a process with an open store does by itself: sweeps, ends, removals;
//! - [`context`]: how a transcript and everything around it become a request within a budget. Pure.

pub mod background;
pub mod context;
pub mod executor;
mod heartbeat;
pub mod lesson_writer;
pub mod limits;
pub mod model;
pub mod outbound;
mod steps;
pub mod talk;
pub mod tool;
