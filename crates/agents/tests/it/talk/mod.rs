//! Conversations from the first message to the end of a sitting, on a real store: what they leave in the log and in
//! the memory, what happens while a turn runs, and what is left when whoever ran it is gone.

mod broken;
mod busy;
mod gate;
mod memory;
mod sittings;
mod turns;
pub mod world;

pub use world::World;
