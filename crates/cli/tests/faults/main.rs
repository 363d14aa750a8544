//! What must hold when things break: processes killed, disks full, databases away, leases lost,
//! connections cut. One file for each fault; [`harness`] starts the real binary on real databases
//! and loopback addresses, [`ledger`] remembers what writers were promised, and [`load`] keeps them
//! writing.
//!
//! The runs are short. `SEDERUNT_FAULTS_SECONDS` makes each load last that long instead.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expects by failing")]

mod harness;
mod ledger;
mod load;
mod stand_in;
mod tool;
mod tool_sessions;

mod bridges;
mod claims;
mod disk_full;
mod documents;
mod executor;
mod fencing;
mod first_start;
mod kill;
mod postgres_restart;
mod promotions;
mod restarts;
mod revocation;
mod shutdown;
mod sittings;
mod streams;
mod talk;
mod turn_calls;
mod twins;
