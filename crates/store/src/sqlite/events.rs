//! Events: how they are written, and how a page of a log is read.

use futures_util::FutureExt as _;
use rusqlite::{Connection, OptionalExtension, Row, Statement, params};
use sederunt_core::error::Error;
use sederunt_core::event::{
    AppendOutcome, ColdColumns, Event, EventPage, EventQuery, EventType, NewEvent, advance,
};
use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::json::Json;
use sederunt_core::store::{EventStore, StoreFuture};
use sederunt_core::{Timestamp, limits};

use super::fault::report;
use super::heads::{self, StoredHead};
use super::logs::{self, LogRange, key, sequence_of};
use super::readers::in_snapshot;
use super::writer::WriteTransaction;
use super::{SqliteStore, documents, tenants};

/// Numbers the events by the head and writes their rows. The caller saves the head.
pub(super) fn append(
    tx: &mut WriteTransaction<'_>,
    id: &SessionId,
    found: &mut StoredHead,
    events: &[NewEvent],
    now: Timestamp,
) -> rusqlite::Result<(Vec<AppendOutcome>, ColdColumns)> {
    let (db, sk, prefix_to) = (tx.db, found.sk, found.prefix_to);
    let mut trouble = None;
    let first_of = |external: &str| {
        logs::first_of(db, sk, prefix_to, external).unwrap_or_else(|error| {
            trouble = Some(error);
            None
        })
    };
    let (appended, cold) = advance(id, &mut found.head, events.to_vec(), now, first_of);
    if let Some(error) = trouble {
        return Err(error);
    }
    for slot in &appended {
        if let AppendOutcome::New(event) = slot {
            insert(tx.statements.event()?, sk, event)?;
            if let Some(external) = &event.external_event_id {
                logs::remember(db, sk, external, event.sequence)?;
            }
            if let Some(metadata) = event.metadata.as_ref().filter(|_| event.kind.is_patch()) {
                documents::note_patch(db, sk, metadata, event.sequence)?;
            }
        }
    }
    Ok((appended, cold))
}

pub(super) const INSERT: &str = "INSERT INTO events (k, type, at, turn, author, external_id, subthread, content, metadata) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

pub(super) fn insert(statement: &mut Statement<'_>, log: i64, event: &Event) -> rusqlite::Result<()> {
    statement
        .execute(params![
            key(log, event.sequence),
            event.kind.as_str(),
            event.at.as_micros(),
            event.turn.map(u64::cast_signed),
            event.author,
            event.external_event_id,
            event.subthread_id,
            event.content.as_ref().map(Json::as_str),
            event.metadata.as_ref().map(Json::as_str),
        ])
        .map(drop)
}

impl EventStore for SqliteStore {
    fn events<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
        query: EventQuery,
    ) -> StoreFuture<'a, EventPage> {
        let read = |db: &rusqlite::Connection, tenant: &TenantId, id: &SessionId, query: &EventQuery| {
            let page = in_snapshot(db, |db| match tenants::key_of(db, tenant)? {
                Some(tk) => page(db, tk, id, query),
                None => Ok(None),
            });
            page.map_err(report)?.ok_or(Error::NotFound)
        };
        if query.types.is_empty() && query.limit <= limits::PAGE_ROWS_DEFAULT {
            return async move { self.readers.read_inline(|db| read(db, tenant, id, &query)).await }.boxed();
        }
        let (tenant, id) = (tenant.clone(), id.clone());
        self.readers.read_pooled(move |db| read(db, &tenant, &id, &query)).boxed()
    }

    fn sequence_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
        external_id: &'a str,
    ) -> StoreFuture<'a, Option<u64>> {
        self.read_inline(move |db| {
            let head = db
                .prepare_cached(
                    "SELECT h.sk, h.prefix_to FROM tenants t JOIN session_heads h ON h.tk = t.tk \
                     WHERE t.id = ?1 AND h.id = ?2",
                )?
                .query_row([tenant.as_str(), id.as_str()], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))
                .optional()?;
            let Some((sk, prefix_to)) = head else { return Ok(None) };
            logs::first_of(db, sk, prefix_to.cast_unsigned(), external_id)
        })
        .boxed()
    }
}

/// A page of a session, over all the logs that it consists of.
fn page(db: &Connection, tk: i64, id: &SessionId, query: &EventQuery) -> rusqlite::Result<Option<EventPage>> {
    let head = db
        .prepare_cached(concat!(
            "SELECT h.sk, h.prefix_to, l.last_sequence, h.is_bridge FROM ",
            heads::tables!(),
            " WHERE h.tk = ?1 AND h.id = ?2"
        ))?
        .query_row(params![tk, id.as_str()], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get(3)?))
        })
        .optional()?;
    let Some((sk, prefix_to, last, is_bridge)) = head else { return Ok(None) };
    let (prefix_to, last) = (prefix_to.cast_unsigned(), last.cast_unsigned());
    // The requested sequences, both ends included.
    let low = query.after.saturating_add(1);
    let high = query.before.map_or(last, |before| before.saturating_sub(1).min(last));
    let mut ranges = logs::ranges(db, sk, prefix_to, low, high)?;
    if query.newest_first {
        ranges.reverse();
    }
    let mut reader = EventPageReader::new(id, query);
    for range in &ranges {
        if !reader.read(db, range)? {
            break;
        }
    }
    let end = if query.newest_first { low } else { high };
    let nothing = if query.newest_first { query.before.unwrap_or(0) } else { query.after };
    Ok(Some(EventPage {
        has_more: low <= high && reader.looked_at.is_some_and(|seen| seen != end),
        next_after: reader.looked_at.unwrap_or(nothing),
        events: reader.events,
        last_sequence: last,
        is_bridge,
    }))
}

struct EventPageReader<'a> {
    id: &'a SessionId,
    query: &'a EventQuery,
    events: Vec<Event>,
    bytes: usize,
    scanned: usize,
    looked_at: Option<u64>,
}

impl<'a> EventPageReader<'a> {
    fn new(id: &'a SessionId, query: &'a EventQuery) -> Self {
        Self { id, query, events: Vec::new(), bytes: 0, scanned: 0, looked_at: None }
    }

    /// Reads on in one log. Returns whether the page has room for more.
    fn read(&mut self, db: &Connection, range: &LogRange) -> rusqlite::Result<bool> {
        const UP: &str = "SELECT k, type, at, turn, author, external_id, subthread, content, metadata \
                          FROM events WHERE k BETWEEN ?1 AND ?2 ORDER BY k";
        const DOWN: &str = "SELECT k, type, at, turn, author, external_id, subthread, content, metadata \
                            FROM events WHERE k BETWEEN ?1 AND ?2 ORDER BY k DESC";
        let mut statement = db.prepare_cached(if self.query.newest_first { DOWN } else { UP })?;
        let mut rows = statement.query([key(range.log, range.from), key(range.log, range.to)])?;
        while let Some(row) = rows.next()? {
            if !self.has_room() {
                return Ok(false);
            }
            self.take(row)?;
        }
        Ok(true)
    }

    fn has_room(&self) -> bool {
        self.events.len() < self.query.limit.min(limits::PAGE_ROWS_MAX)
            && self.bytes < self.query.bytes_max
            && self.scanned < limits::PAGE_SCAN_MAX
    }

    fn take(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let sequence = sequence_of(row.get(0)?);
        let kind = row.get_ref(1)?.as_str()?;
        if self.query.types.is_empty() || self.query.types.iter().any(|wanted| wanted == kind) {
            let event = read(row, self.id, sequence)?;
            // The last event that fits ends the page. One that is too large for any page is a page of its own.
            if self.bytes + event.bytes() > self.query.bytes_max && !self.events.is_empty() {
                self.bytes = self.query.bytes_max;
                return Ok(());
            }
            self.bytes += event.bytes();
            self.events.push(event);
        }
        self.scanned += 1;
        self.looked_at = Some(sequence);
        Ok(())
    }
}

fn read(row: &Row<'_>, id: &SessionId, sequence: u64) -> rusqlite::Result<Event> {
    let json = |at: usize| Ok::<_, rusqlite::Error>(row.get_ref(at)?.as_str_or_null()?.map(Json::stored));
    Ok(Event {
        session_id: id.clone(),
        sequence,
        kind: EventType::stored(row.get_ref(1)?.as_str()?),
        at: Timestamp::from_micros(row.get(2)?),
        turn: row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned),
        author: row.get(4)?,
        external_event_id: row.get(5)?,
        subthread_id: row.get(6)?,
        content: json(7)?,
        metadata: json(8)?,
    })
}
