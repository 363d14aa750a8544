//! What the seam promises, asked of every store: SQLite in a file, SQLite in memory, PostgreSQL.
//!
//! One file per room. A test is an `async fn` over a [`stores::TestStore`]; the list at the head of
//! each file makes three tests of it, so that each store answers under its own name. A missing
//! PostgreSQL fails the run: see `scripts/with-postgres`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expects by failing")]

/// Makes a test on each store of every function that is named. After `durable:` stand those that
/// open a store anew, which a store in memory does not outlive.
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
mod builders;
mod claims;
mod concurrency;
mod events;
mod feedback;
mod forks;

mod guards;
mod idempotency;

mod lessons;
mod library;
mod lists;
mod live;
mod memory;
mod nodes;
mod people;
mod ratings;
mod record_builders;
mod search;
mod sessions;
mod stores;
mod sweep;
mod talk;
mod tenants;
mod vectors;
