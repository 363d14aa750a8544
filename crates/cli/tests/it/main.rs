//! The real binary, in directories of its own: what it prints, how it exits, what it leaves behind.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod config;
mod copy;
mod demo;
mod doctor;
mod exits;
mod feedback;
mod guides;
mod human;
mod keys;
mod mcp;
mod modes;
mod people;
mod print;
mod responses;
mod serve;
mod server_file;
mod sessions;
mod shares;
mod tasks;
mod whole;
mod worker;
mod world;
