//! Channels end to end against stand-ins of their platforms. `conformance` holds what every platform promises; each file
//! beside it what is one platform's own.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

/// Makes a test on each platform of every named story.
macro_rules! on_each_platform {
    ($($story:ident),+ $(,)?) => {
        mod telegram {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() { super::$story(crate::desk::Desk::of_telegram().await).await; })+
        }
    };
}

mod conformance;
mod desk;
mod telegram;
