//! A transaction of the writer, as the work in it sees it.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};
use sederunt_core::clock::{Clock, SystemClock};
use sederunt_core::store::Notice;
use sederunt_core::{SessionId, TenantId, Timestamp};

use super::statements::AppendStatements;
use crate::sqlite::heads::{self, StoredHead};
use crate::sqlite::idempotency::PendingKeys;
use crate::sqlite::indexer::IndexMark;
use crate::sqlite::outbox::{self, OutboxEntry};

/// Heads that the writer caches: reading one costs about as much as writing the event.
const HEADS_CACHED: usize = 8_192;

/// The transaction of a group. Work reads, writes and announces through it.
pub(in crate::sqlite) struct WriteTransaction<'a> {
    pub db: &'a Connection,
    pub statements: AppendStatements<'a>,
    pub pending_keys: &'a PendingKeys,
    pub(super) clock: &'a SystemClock,
    pub(super) cache: &'a mut WriterCache,
    pub(super) notes: &'a mut CommitNotes,
}

/// Rows that only the writer writes, so it may cache them. Emptied by a rollback.
#[derive(Debug, Default)]
pub(super) struct WriterCache {
    tenants: HashMap<TenantId, i64>,
    heads: HashMap<(i64, SessionId), StoredHead>,
}

/// What the writer publishes after the commit.
#[derive(Debug, Default)]
pub(super) struct CommitNotes {
    pub(super) notices: Vec<Notice>,
    pub(super) marks: Vec<IndexMark>,
    /// The number of the last outbox entry of the group; 0 if there is none.
    pub(super) entry: i64,
    pub(super) bytes: usize,
}

impl CommitNotes {
    pub(super) fn clear(&mut self) {
        self.notices.clear();
        self.marks.clear();
        self.entry = 0;
        self.bytes = 0;
    }
}

impl WriteTransaction<'_> {
    pub(in crate::sqlite) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The number of a tenant. Only the writer creates and removes tenants, so it may cache them.
    pub(in crate::sqlite) fn tenant(&mut self, id: &TenantId) -> rusqlite::Result<Option<i64>> {
        if let Some(tk) = self.cache.tenants.get(id) {
            return Ok(Some(*tk));
        }
        let found = self
            .db
            .prepare_cached("SELECT tk FROM tenants WHERE id = ?1")?
            .query_row([id.as_str()], |row| row.get(0))
            .optional()?;
        if let Some(tk) = found {
            self.cache.tenants.insert(id.clone(), tk);
        }
        Ok(found)
    }

    pub(in crate::sqlite) fn forget_tenant(&mut self, id: &TenantId) {
        self.cache.tenants.remove(id);
    }

    /// The head of a session, as the changes before this one left it.
    pub(in crate::sqlite) fn head(
        &mut self,
        tk: i64,
        id: &SessionId,
    ) -> rusqlite::Result<Option<StoredHead>> {
        match self.cache.heads.get(&(tk, id.clone())) {
            Some(found) => {
                let found = Some(found.clone());
                // Every test in a debug build checks that no other code writes heads past this cache.
                debug_assert_eq!(
                    found,
                    heads::by_id(self.statements.head()?, tk, id)?,
                    "a cached head is stale"
                );
                Ok(found)
            }
            None => heads::by_id(self.statements.head()?, tk, id),
        }
    }

    /// Caches a head that was written.
    pub(in crate::sqlite) fn cache_head(&mut self, tk: i64, id: &SessionId, found: StoredHead) {
        if self.cache.heads.len() >= HEADS_CACHED {
            self.cache.heads.clear();
        }
        self.cache.heads.insert((tk, id.clone()), found);
    }

    pub(in crate::sqlite) fn forget_head(&mut self, tk: i64, id: &SessionId) {
        self.cache.heads.remove(&(tk, id.clone()));
    }

    /// Empties the cache of heads, after rows were written past it.
    pub(in crate::sqlite) fn forget_heads(&mut self) {
        self.cache.heads.clear();
    }

    pub(in crate::sqlite) fn announce(&mut self, notice: Notice) {
        self.notes.bytes += notice.events.iter().map(|event| event.bytes()).sum::<usize>();
        self.notes.notices.push(notice);
    }

    pub(in crate::sqlite) fn mark(&mut self, mark: IndexMark) {
        self.notes.marks.push(mark);
    }

    /// Adds an entry for a side file.
    pub(in crate::sqlite) fn add_to_outbox(&mut self, tk: i64, entry: &OutboxEntry) -> rusqlite::Result<()> {
        self.notes.entry = outbox::add(self.db, tk, entry)?;
        Ok(())
    }
}
