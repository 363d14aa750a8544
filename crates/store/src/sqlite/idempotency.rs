//! Keys of repeated requests, and how the first answer is found again.

use std::collections::HashMap;

use parking_lot::Mutex;
use rusqlite::{CachedStatement, Connection, Statement, params};
use sederunt_core::Timestamp;
use sederunt_core::store::{IdemKey, Note, Replay};
use smallvec::SmallVec;

/// What a key was used for.
#[derive(Debug)]
pub(super) struct KeyUse {
    pub body: [u8; 16],
    pub replay: Replay,
    /// What a claim under this key handed out: surrogates and epochs.
    pub taken: Vec<(i64, u64)>,
}

/// Keys that one portion files: a portion writes each page of the index once, however many of them belong there.
pub(super) const FLUSH_KEYS: usize = if cfg!(test) { 32 } else { 8_192 };

/// The keys of the last portion, which no index holds yet: the front of each scope, and the number of its row. What a
/// change pending that was rolled back stays, and leads to no row or to one of another scope.
#[derive(Debug, Default)]
pub(super) struct PendingKeys(Mutex<PendingRows>);

#[derive(Debug, Default)]
struct PendingRows {
    rows: HashMap<i64, SmallVec<[i64; 1]>>,
    count: usize,
    first: Option<i64>,
}

impl PendingKeys {
    /// Those that the last process has keys.
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

    /// Files what was pending, once that is a portion. Answers whether it did: then, and only after the commit, all of it
    /// may be forgotten.
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

/// The statements that find a key.
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

    /// Finds what was done under this key, unless the session it was done to is gone. Whoever is not the writer looks
    /// at what is pending first and at the database after: what is filed between the two is found there.
    pub(super) fn find(
        &mut self,
        pending_keys: &PendingKeys,
        tk: i64,
        key: &IdemKey,
    ) -> rusqlite::Result<Option<KeyUse>> {
        let head = head_of(key);
        for ik in pending_keys.rows(head) {
            if let Some(used) = used(&mut self.by_row, ik, tk, key)? {
                return Ok(Some(used));
            }
        }
        used(&mut self.filed, head, tk, key)
    }
}

fn used(statement: &mut Statement<'_>, by: i64, tk: i64, key: &IdemKey) -> rusqlite::Result<Option<KeyUse>> {
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
            note: row.get::<_, Option<[u8; 16]>>(4)?.map(|bytes| Note(uuid::Uuid::from_bytes(bytes))),
        },
        taken: taken
            .split(' ')
            .filter_map(|word| word.split_once('.'))
            .filter_map(|(sk, epoch)| Some((sk.parse().ok()?, epoch.parse().ok()?)))
            .collect(),
    }))
}

/// What was done, as it is remembered.
#[derive(Debug, Default)]
pub(super) struct KeyEffect<'a> {
    pub sk: Option<i64>,
    pub sequences: &'a [u64],
    pub taken: &'a [(i64, u64)],
}

pub(super) const REMEMBER: &str = "INSERT INTO idempotency (scope_head, scope, body, tk, sk, first, last, sequences, note, taken, at, \
     filed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0)";

/// Keeps what was done under a key, by the statement [`REMEMBER`].
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
    let listed = (!in_a_row).then(|| words(done.sequences.iter().map(u64::to_string)));
    let taken =
        (!done.taken.is_empty()).then(|| words(done.taken.iter().map(|(sk, epoch)| format!("{sk}.{epoch}"))));
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

fn words(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(" ")
}

fn head_of(key: &IdemKey) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = key.scope;
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Forgets one small run of the oldest keys. Keys lie in the order of their time, so the first that
/// is young enough ends the work.
pub(super) fn purge_some(db: &Connection, before: Timestamp) -> rusqlite::Result<u64> {
    let gone = db
        .prepare_cached(
            "DELETE FROM idempotency WHERE at < ?1 AND ik <= \
             (SELECT max(ik) FROM (SELECT ik FROM idempotency ORDER BY ik LIMIT 500))",
        )?
        .execute([before.as_micros()])?;
    Ok(gone as u64)
}
