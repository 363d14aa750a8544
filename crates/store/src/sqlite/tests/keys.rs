//! Idempotency keys: found whether they are indexed, pending in memory, or left by the last process.

use super::idempotency::FLUSH_KEYS;
use super::*;

fn key(n: usize) -> IdemKey {
    let mut scope = [0; 16];
    // The fronts of real scopes lie anywhere.
    scope[..8].copy_from_slice(&(n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    scope[8..].copy_from_slice(&(n as u64).to_be_bytes());
    IdemKey { scope, body: [1; 16], note: None }
}

impl SqliteStore {
    async fn say(&self, n: usize) -> Option<Vec<u64>> {
        let done = self.commit(appending("s", &["word"]).keyed(Some(key(n)))).await.unwrap();
        done.replay.map(|replay| replay.sequences)
    }

    /// Every one of these keys is answered for by its first use, to writers and to readers.
    async fn know(&self, count: usize) {
        for n in 0..count {
            let first = vec![n as u64 + 1];
            assert_eq!(self.say(n).await.as_ref(), Some(&first), "key {n}");
            let recalled = self.recall(&tenant(), key(n)).await.unwrap();
            assert_eq!(recalled.map(|replay| replay.sequences), Some(first), "key {n}");
        }
        assert_eq!(self.count("events").await, count as i64);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_filed_in_portions_and_found_before_and_after_and_by_the_next_process() {
    let directory = TempDir::new().unwrap();
    let store = in_directory(&directory).unwrap();
    store.made("s").await;
    let count = 2 * FLUSH_KEYS + FLUSH_KEYS / 2;
    for n in 0..count {
        assert_eq!(store.say(n).await, None);
    }
    assert_eq!(store.count("idempotency WHERE filed = 1").await, 2 * FLUSH_KEYS as i64);
    store.know(count).await;
    store.close().await;
    drop(store);
    let store = in_directory(&directory).unwrap();
    store.know(count).await;
    for n in count..3 * FLUSH_KEYS {
        assert_eq!(store.say(n).await, None);
    }
    assert_eq!(store.count("idempotency WHERE filed = 0").await, 0);
    store.know(3 * FLUSH_KEYS).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portion_that_could_not_be_filed_stays_in_mind() {
    let store = in_memory();
    store.made("s").await;
    for n in 0..FLUSH_KEYS - 1 {
        assert_eq!(store.say(n).await, None);
    }
    // The last key of the flush, and a change that fails at the commit of both.
    let (keeps, breaks) = (store.clone(), store.clone());
    let nobody = |tx: &mut writer::WriteTransaction<'_>| {
        tx.db.execute_batch(
            "PRAGMA defer_foreign_keys = ON; INSERT INTO participants (sk, user_id, tk) VALUES (0, 'nobody', 1)",
        )?;
        Ok::<(), fault::WorkError<Error>>(())
    };
    let done = store
        .in_one_group([
            async move { keeps.say(FLUSH_KEYS - 1).await.is_none() }.boxed(),
            async move { breaks.writer.run(nobody).await.is_ok() }.boxed(),
        ])
        .await;
    assert_eq!(done, [true, false]);
    store.know(FLUSH_KEYS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_purged_before_they_are_filed_are_free_again() {
    let store = in_memory();
    store.made("s").await;
    for n in 0..3 {
        assert_eq!(store.say(n).await, None);
    }
    let later = store.now().await.unwrap().plus(Duration::from_secs(1));
    assert_eq!(store.purge_keys(later).await.unwrap(), 3);
    // The numbers of their rows are given out again, to other keys.
    for n in (0..3).rev() {
        assert_eq!(store.say(n).await, None);
    }
    for n in 0..3 {
        assert_eq!(store.say(n).await, Some(vec![6 - n as u64]));
    }
}
