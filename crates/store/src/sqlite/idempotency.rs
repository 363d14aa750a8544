//! Idempotency keys: what the first request under a key did, so that a repeat gets the first answer.

use std::collections::HashMap;

use parking_lot::Mutex;
use rusqlite::{CachedStatement, Connection, Statement, params};
use sederunt_core::Timestamp;
use sederunt_core::store::{IdemKey, KeyNote, Replay};
use smallvec::SmallVec;

/// What the first request under a key did.
#[derive(Debug)]
pub(super) struct KeyUse {
    pub body: [u8; 16],
    pub replay: Replay,
    /// The sessions that a claim under this key took, by number and epoch.
    pub taken: Vec<(i64, u64)>,
}

/// Pending keys that are indexed by one flush. A flush writes each page of the index once, however many keys belong
/// on it.
pub(super) const FLUSH_KEYS: usize = if cfg!(test) { 32 } else { 8_192 };

/// Keys that are in their table and not yet in its index: the first half of each scope, and the number of its row.
/// The key of a change that was rolled back stays here; it leads to no row, or to a row of another scope.
#[derive(Debug, Default)]
pub(super) struct PendingKeys(Mutex<PendingRows>);

#[derive(Debug, Default)]
struct PendingRows {
    rows: HashMap<i64, SmallVec<[i64; 1]>>,
    count: usize,
    first: Option<i64>,
}

impl PendingKeys {
    /// Loads the keys that the last process left without an index entry.
    pub(super) fn load(db: &Connection) -> rusqlite::Result<Self> {
        let keys = Self::default();
        let mut newest_first =
            db.prepare("SELECT ik, scope_head, filed FROM idempotency ORDER BY ik DESC")?;
        let mut rows = newest_first.query([])?;
        while let Some(row) = rows.next()?
            && !row.get::<_, bool>(2)?
        {
            keys.add(row.get(1)?, row.get(0)?);
        }
        Ok(keys)
    }

    fn add(&self, head: i64, ik: i64) {
        let pending = &mut *self.0.lock();
        pending.rows.entry(head).or_default().push(ik);
        pending.count += 1;
        pending.first = Some(pending.first.map_or(ik, |first| first.min(ik)));
    }

    fn rows(&self, head: i64) -> SmallVec<[i64; 1]> {
        self.0.lock().rows.get(&head).cloned().unwrap_or_default()
    }

    /// Indexes the pending keys once there are [`FLUSH_KEYS`]. Returns whether it did; the caller clears them only
    /// after the commit.
    pub(super) fn flush(&self, db: &Connection) -> rusqlite::Result<bool> {
        let first = {
            let pending = self.0.lock();
            pending.first.filter(|_| pending.count >= FLUSH_KEYS)
        };
        let Some(first) = first else { return Ok(false) };
        db.prepare_cached("UPDATE idempotency SET filed = 1 WHERE ik >= ?1 AND filed = 0")?
            .execute([first])?;
        Ok(true)
    }

    pub(super) fn clear(&self) {
        *self.0.lock() = PendingRows::default();
    }
}

macro_rules! find {
    ($by:literal) => {
        concat!(
            "SELECT body, first, last, sequences, note, taken FROM idempotency i WHERE ",
            $by,
            " AND scope = ?2 AND tk = ?3 AND (sk IS NULL OR EXISTS (SELECT 1 FROM session_heads h WHERE h.sk = i.sk))"
        )
    };
}

/// The statements that look a key up.
pub(super) struct KeyLookup<'a> {
    by_row: CachedStatement<'a>,
    filed: CachedStatement<'a>,
}

impl<'a> KeyLookup<'a> {
    pub(super) fn of(db: &'a Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            by_row: db.prepare_cached(find!("ik = ?1"))?,
            filed: db.prepare_cached(find!("filed = 1 AND scope_head = ?1"))?,
        })
    }

    /// Finds what was done under this key, unless the session that it touched is gone. A reader looks at the pending
    /// keys first and at the index afterwards, so it finds a key that is flushed in between.
    pub(super) fn find(
        &mut self,
        pending_keys: &PendingKeys,
        tk: i64,
        key: &IdemKey,
    ) -> rusqlite::Result<Option<KeyUse>> {
        let head = head_of(key);
        for ik in pending_keys.rows(head) {
            if let Some(used) = read_use(&mut self.by_row, ik, tk, key)? {
                return Ok(Some(used));
            }
        }
        read_use(&mut self.filed, head, tk, key)
    }
}

fn read_use(
    statement: &mut Statement<'_>,
    by: i64,
    tk: i64,
    key: &IdemKey,
) -> rusqlite::Result<Option<KeyUse>> {
    let mut rows = statement.query(params![by, key.scope, tk])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let sequences = match (row.get_ref(3)?.as_str_or_null()?, row.get(1)?, row.get(2)?) {
        (Some(list), _, _) => list.split(' ').filter_map(|word| word.parse().ok()).collect(),
        (None, Some(first), Some(last)) => (first..=last).map(i64::cast_unsigned).collect(),
        _ => Vec::new(),
    };
    let taken = row.get_ref(5)?.as_str_or_null()?.unwrap_or_default();
    Ok(Some(KeyUse {
        body: row.get(0)?,
        replay: Replay {
            sequences,
            note: row.get::<_, Option<[u8; 16]>>(4)?.map(|bytes| KeyNote(uuid::Uuid::from_bytes(bytes))),
        },
        taken: taken
            .split(' ')
            .filter_map(|word| word.split_once('.'))
            .filter_map(|(sk, epoch)| Some((sk.parse().ok()?, epoch.parse().ok()?)))
            .collect(),
    }))
}

/// What a commit did, as its key keeps it.
#[derive(Debug, Default)]
pub(super) struct KeyEffect<'a> {
    pub sk: Option<i64>,
    pub sequences: &'a [u64],
    pub taken: &'a [(i64, u64)],
}

pub(super) const REMEMBER: &str = "INSERT INTO idempotency (scope_head, scope, body, tk, sk, first, last, sequences, note, taken, at, \
     filed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0)";

/// Stores what was done under a key, by the statement [`REMEMBER`].
pub(super) fn remember(
    statement: &mut Statement<'_>,
    pending_keys: &PendingKeys,
    tk: i64,
    key: &IdemKey,
    done: &KeyEffect<'_>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let in_a_row = done.sequences.windows(2).all(|pair| pair[1] == pair[0] + 1);
    let ends = if in_a_row { done.sequences.first().zip(done.sequences.last()) } else { None };
    let listed = (!in_a_row).then(|| joined(done.sequences.iter().map(u64::to_string)));
    let taken = (!done.taken.is_empty())
        .then(|| joined(done.taken.iter().map(|(sk, epoch)| format!("{sk}.{epoch}"))));
    let head = head_of(key);
    let ik = statement.insert(params![
        head,
        key.scope,
        key.body,
        tk,
        done.sk,
        ends.map(|(first, _)| first.cast_signed()),
        ends.map(|(_, last)| last.cast_signed()),
        listed,
        key.note.map(|note| *note.0.as_bytes()),
        taken,
        now.as_micros(),
    ])?;
    pending_keys.add(head, ik);
    Ok(())
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(" ")
}

fn head_of(key: &IdemKey) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = key.scope;
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Deletes a few of the oldest keys. Keys are stored in the order of their time, so the first young one ends the
/// purge.
pub(super) fn purge_some(db: &Connection, before: Timestamp) -> rusqlite::Result<u64> {
    let gone = db
        .prepare_cached(
            "DELETE FROM idempotency WHERE at < ?1 AND ik <= \
             (SELECT max(ik) FROM (SELECT ik FROM idempotency ORDER BY ik LIMIT 500))",
        )?
        .execute([before.as_micros()])?;
    Ok(gone as u64)
}
