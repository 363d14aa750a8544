//! Conformance tests: what the traits of the store promise, on SQLite in a file, SQLite in memory and PostgreSQL.
//!
//! One file per noun. A test is an `async fn` over a [`stores::TestStore`]; the list at the head of each file makes
//! three tests of it, one for each store. Without PostgreSQL the run fails: see `scripts/with-postgres`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expects by failing")]

/// Makes a test on each store of every named function. Those after `durable:` open a store again, which a store in
/// memory does not survive.
macro_rules! on_each_store {
    ($($name:ident),* $(,)? $(; durable: $($kept:ident),* $(,)?)?) => {
        mod sqlite_file {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::stores::with(crate::stores::Kind::SqliteFile, super::$name).await;
            })*
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $kept() {
                crate::stores::with(crate::stores::Kind::SqliteFile, super::$kept).await;
            })*)?
        }
        mod sqlite_memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::stores::with(crate::stores::Kind::SqliteMemory, super::$name).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::stores::with(crate::stores::Kind::Postgres, super::$name).await;
            })*
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $kept() {
                crate::stores::with(crate::stores::Kind::Postgres, super::$kept).await;
            })*)?
        }
    };
}

mod appends;
mod approvals;
mod browser_sessions;
mod builders;
mod channel_people;
mod channels;
mod claims;
mod concurrency;
mod documents;
mod events;
mod feedback;
mod forks;

mod guards;
mod idempotency;

mod definitions;
mod lessons;
mod lists;
mod live;
mod memory;
mod nodes;
mod people;
mod ratings;
mod record_builders;
mod responses;
mod search;
mod sessions;
mod stores;
mod sweep;
mod talk;
mod tenants;
mod vectors;
