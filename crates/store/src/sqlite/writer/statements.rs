//! The prepared statements of plain appends.

use rusqlite::{CachedStatement, Connection};

use crate::sqlite::idempotency::{self, KeyLookup};
use crate::sqlite::{events, heads};

/// The statements of plain appends. Each is looked up in the connection's statement cache once per group, when it is
/// first needed.
pub(in crate::sqlite) struct AppendStatements<'a> {
    db: &'a Connection,
    head: Option<CachedStatement<'a>>,
    event: Option<CachedStatement<'a>>,
    tail: Option<CachedStatement<'a>>,
    find_key: Option<KeyLookup<'a>>,
    remember_key: Option<CachedStatement<'a>>,
}

impl<'a> AppendStatements<'a> {
    pub(super) const fn of(db: &'a Connection) -> Self {
        Self { db, head: None, event: None, tail: None, find_key: None, remember_key: None }
    }

    pub(super) fn head(&mut self) -> rusqlite::Result<&mut CachedStatement<'a>> {
        prepared(&mut self.head, self.db, heads::BY_ID)
    }

    pub(in crate::sqlite) fn event(&mut self) -> rusqlite::Result<&mut CachedStatement<'a>> {
        prepared(&mut self.event, self.db, events::INSERT)
    }

    pub(in crate::sqlite) fn tail(&mut self) -> rusqlite::Result<&mut CachedStatement<'a>> {
        prepared(&mut self.tail, self.db, heads::SAVE_TAIL)
    }

    pub(in crate::sqlite) fn find_key(&mut self) -> rusqlite::Result<&mut KeyLookup<'a>> {
        Ok(match &mut self.find_key {
            Some(finding) => finding,
            none => none.insert(KeyLookup::of(self.db)?),
        })
    }

    pub(in crate::sqlite) fn remember_key(&mut self) -> rusqlite::Result<&mut CachedStatement<'a>> {
        prepared(&mut self.remember_key, self.db, idempotency::REMEMBER)
    }
}

fn prepared<'h, 'a>(
    place: &'h mut Option<CachedStatement<'a>>,
    db: &'a Connection,
    sql: &str,
) -> rusqlite::Result<&'h mut CachedStatement<'a>> {
    Ok(match place {
        Some(statement) => statement,
        none => none.insert(db.prepare_cached(sql)?),
    })
}
