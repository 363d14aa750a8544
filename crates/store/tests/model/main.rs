//! Random commands against the engine on a real store and against a plain model of the rules:
//! the same answers, the same error codes, the same rows and logs.
//!
//! The model ([`reference`]) restates the product's rules as naively as possible and shares no code
//! with the engine. `SEDERUNT_MODEL_CASES` sets how many command sequences each store gets.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod drive;
mod reference;
mod script;

use std::sync::Arc;

use proptest::test_runner::{Config, TestRunner};
use sederunt_core::clock::SystemClock;
use sederunt_core::live::Hub;
use sederunt_core::store::Store;

#[test]
fn sqlite_answers_every_command_as_the_model_does() {
    compare(|runtime, hub, clock| {
        use sederunt_store::sqlite::{Place, SqliteOptions, SqliteStore};
        let _in_runtime = runtime.enter();
        SqliteStore::open(SqliteOptions { place: Place::Memory, clock, hub }).unwrap()
    });
}

#[test]
fn postgres_answers_every_command_as_the_model_does() {
    use sederunt_store::postgres::{PostgresOptions, PostgresStore};
    let url = std::env::var("SEDERUNT_TEST_POSTGRES")
        .expect("SEDERUNT_TEST_POSTGRES is not set: run the tests by `make test` or scripts/with-postgres");
    let schema = format!("model_{}", std::process::id());
    compare(|runtime, hub, clock| {
        let options = PostgresOptions {
            url: url.clone(),
            schema: schema.clone(),
            clock,
            hub,
            migrate: true,
            pool_size: 8,
        };
        runtime.block_on(PostgresStore::open(options)).unwrap()
    });
}

fn compare<S: Store + 'static>(
    open: impl Fn(&tokio::runtime::Runtime, Arc<Hub>, Arc<SystemClock>) -> Arc<S>,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (hub, clock) = (Arc::new(Hub::default()), Arc::new(SystemClock::default()));
    let store: Arc<dyn Store> = open(&runtime, hub.clone(), clock.clone());
    let cases = std::env::var("SEDERUNT_MODEL_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(96);
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    });
    let drive = drive::Drive::new(store.clone(), hub, clock);
    let outcome = runner.run(&script::script(), |script| runtime.block_on(drive.run(&script)));
    runtime.block_on(store.close());
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    assert!(drive.effects() > u64::from(cases), "the scripts hardly did anything");
}
