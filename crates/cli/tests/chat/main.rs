//! `sederunt chat`, by way of a pseudo-terminal and of pipes, against a server that answers by heart.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod commands;
mod confirming;
mod feedback;
mod leaving;
mod pipes;
mod real;
mod stub;
mod talking;
mod terminal;

use std::time::Duration;

/// Anything that takes longer is broken, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
