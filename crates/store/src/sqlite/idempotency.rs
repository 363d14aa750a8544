//! Keys of repeated requests, and how the first answer is found again.

use rusqlite::{Connection, Statement, params};
use sederunt_core::Timestamp;
use sederunt_core::store::{IdemKey, Note, Replay};

/// What a key was used for.
#[derive(Debug)]
pub(super) struct Used {
    pub body: [u8; 16],
    pub replay: Replay,
    /// What a claim under this key handed out: surrogates and epochs.
    pub taken: Vec<(i64, u64)>,
}

pub(super) const FIND: &str = "SELECT body, first, last, sequences, note, taken FROM idempotency i WHERE scope_head = ?1 AND scope = ?2 \
     AND tk = ?3 AND (sk IS NULL OR EXISTS (SELECT 1 FROM session_heads h WHERE h.sk = i.sk))";

/// Finds what was done under this key, unless the session it was done to is gone, by the statement
/// [`FIND`].
pub(super) fn find(statement: &mut Statement<'_>, tk: i64, key: &IdemKey) -> rusqlite::Result<Option<Used>> {
    let mut rows = statement.query(params![head_of(key), key.scope, tk])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let sequences = match (row.get_ref(3)?.as_str_or_null()?, row.get(1)?, row.get(2)?) {
        (Some(list), _, _) => list.split(' ').filter_map(|word| word.parse().ok()).collect(),
        (None, Some(first), Some(last)) => (first..=last).map(i64::cast_unsigned).collect(),
        _ => Vec::new(),
    };
    let taken = row.get_ref(5)?.as_str_or_null()?.unwrap_or_default();
    Ok(Some(Used {
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
pub(super) struct Done<'a> {
    pub sk: Option<i64>,
    pub sequences: &'a [u64],
    pub taken: &'a [(i64, u64)],
}

pub(super) const REMEMBER: &str = "INSERT INTO idempotency (scope_head, scope, body, tk, sk, first, last, sequences, note, taken, at) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

/// Keeps what was done under a key, by the statement [`REMEMBER`].
pub(super) fn remember(
    statement: &mut Statement<'_>,
    tk: i64,
    key: &IdemKey,
    done: &Done<'_>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let in_a_row = done.sequences.windows(2).all(|pair| pair[1] == pair[0] + 1);
    let ends = if in_a_row { done.sequences.first().zip(done.sequences.last()) } else { None };
    let listed = (!in_a_row).then(|| words(done.sequences.iter().map(u64::to_string)));
    let taken =
        (!done.taken.is_empty()).then(|| words(done.taken.iter().map(|(sk, epoch)| format!("{sk}.{epoch}"))));
    statement
        .execute(params![
            head_of(key),
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
        ])
        .map(drop)
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
