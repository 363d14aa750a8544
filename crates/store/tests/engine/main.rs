//! The engine over real stores: what a caller is promised, as short stories. Each runs on SQLite and on PostgreSQL.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod activity;
mod activity_block;
mod approvals;
mod channels;
mod conversations;
mod document_readers;
mod documents;
mod elicitation;
mod external;
mod failures;
mod fences;
mod harness;
mod incognito;
mod limits;
mod memory;
mod merging;
mod milestones;
mod opposites;
mod pauses;
mod presence;
mod promotions;
mod queueing;
mod quotas;
mod repeats;
mod respondents;
mod responses;
mod rights;
mod shares;
mod status_map;
mod streams;
mod sweeping;
mod tasks;
mod teaching;
mod tools;
mod views;
mod walk;

/// Makes a test of a story on each store.
macro_rules! on_both_stores {
    ($($story:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() { super::$story(&crate::harness::World::sqlite().await).await; })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() { super::$story(&crate::harness::World::postgres().await).await; })+
        }
    };
}
use on_both_stores;
