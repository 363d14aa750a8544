//! Reads a log: one page of the ranges that a session consists of, by one statement, so that it is of one moment.

use sederunt_core::error::Error;
use sederunt_core::event::{Event, EventPage, EventQuery};
use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::limits;
use sederunt_core::people::SecretHash;
use sederunt_core::store::{EventStore, StoreFuture};

use super::fault::{Fault, Result};
use super::judge::EXTERNAL_IDS;
use super::rows::Columns;
use super::tx::{Context, Param, Scope, count, int};
use super::{PostgresStore, read};

/// The ranges of the session's log, the rows of each within the requested sequences, and of these as many as the page
/// holds. The running sum keeps the server from sending more than one row that does not fit.
macro_rules! page_sql {
    ($bridge:literal, $columns:expr, $direction:literal, $from:literal, $to:literal) => {
        concat!(
            "SELECT h.last_sequence, e.seq, e.type, e.content, e.metadata, e.subthread_id, e.external_id, e.turn,
                 e.author, e.at, h.is_bridge
             FROM (SELECT sk, last_sequence, ", $bridge, " AS is_bridge, least($4, last_sequence) AS high FROM session_heads
                   WHERE tk = $1 AND sk = (SELECT sk FROM sessions WHERE tk = $1 AND id = $2)) h
             LEFT JOIN LATERAL (
                 SELECT * FROM (
                     SELECT e.*, sum(bytes) OVER (ORDER BY seq ", $direction, " ROWS UNBOUNDED PRECEDING) AS upto
                     FROM (
                         SELECT e.*, coalesce(octet_length(content), 0) + coalesce(octet_length(metadata), 0) AS bytes
                         FROM (
                             SELECT r.log, r.from_seq, r.to_seq FROM session_ranges r WHERE r.tk = $1 AND r.sk = h.sk
                             UNION ALL
                             SELECT h.sk, 1 + coalesce((SELECT max(r.to_seq) FROM session_ranges r
                                 WHERE r.tk = $1 AND r.sk = h.sk), 0), h.last_sequence
                         ) piece
                         CROSS JOIN LATERAL (
                             SELECT ", $columns, " FROM events e WHERE e.tk = $1 AND e.log = piece.log
                                 AND e.seq >= greatest(piece.from_seq, ", $from, ")
                                 AND e.seq <= least(piece.to_seq, ", $to, ")
                                 AND (cardinality($6::text[]) = 0 OR e.type = ANY ($6))
                             ORDER BY e.seq ", $direction, " LIMIT $7
                         ) e
                         ORDER BY seq ", $direction, " LIMIT $7
                     ) e
                 ) e
                 WHERE upto - bytes <= $8
             ) e ON true
             ORDER BY e.seq ", $direction
        )
    };
}

const OLDEST_FIRST: &str = page_sql!("is_bridge", "*", "ASC", "$3", "least(h.high, $3 + $5 - 1)");
const NEWEST_FIRST: &str = page_sql!("is_bridge", "*", "DESC", "greatest($3, h.high - $5 + 1)", "h.high");

/// The columns that the role of links reads. No bridge can be shared, so it does not ask. They make statements of their own, so that no statement of other callers
/// is planned anew for another role.
macro_rules! link_columns {
    () => {
        "e.seq, e.type, e.content, NULL::text AS metadata, NULL::text AS subthread_id, NULL::text AS external_id, \
         NULL::bigint AS turn, NULL::text AS author, e.at"
    };
}
const LINK_OLDEST_FIRST: &str =
    page_sql!("false", link_columns!(), "ASC", "$3", "least(h.high, $3 + $5 - 1)");
const LINK_NEWEST_FIRST: &str =
    page_sql!("false", link_columns!(), "DESC", "greatest($3, h.high - $5 + 1)", "h.high");

impl EventStore for PostgresStore {
    fn events<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
        query: EventQuery,
    ) -> StoreFuture<'a, EventPage> {
        read(events(&self.context, tenant, id, query))
    }

    fn sequence_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
        external_id: &'a str,
    ) -> StoreFuture<'a, Option<u64>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
            let params: [Param<'_>; 3] = [&vec![tk], &vec![id.as_str()], &vec![external_id]];
            let rows = self.context.read(Scope::Tenant(tk), EXTERNAL_IDS, &params).await?;
            rows.first().map(|row| Ok(count(row.try_get(2)?))).transpose()
        })
    }
}

pub(super) async fn events(
    context: &Context,
    tenant: &TenantId,
    id: &SessionId,
    query: EventQuery,
) -> Result<EventPage> {
    let tk = context.tk(tenant).await?.ok_or(Fault::Core(Error::NotFound))?;
    let sql = if query.newest_first { NEWEST_FIRST } else { OLDEST_FIRST };
    page(context, Scope::Tenant(tk), sql, tk, id, query).await
}

/// A page of messages, read as the role of links.
pub(super) async fn shared_events(
    context: &Context,
    tenant: &TenantId,
    hash: SecretHash,
    id: &SessionId,
    query: EventQuery,
) -> Result<EventPage> {
    let tk = context.tk(tenant).await?.ok_or(Fault::Core(Error::NotFound))?;
    let sql = if query.newest_first { LINK_NEWEST_FIRST } else { LINK_OLDEST_FIRST };
    page(context, Scope::Link(hash, ""), sql, tk, id, query.of_messages()).await
}

async fn page(
    context: &Context,
    scope: Scope<'_>,
    sql: &str,
    tk: i32,
    id: &SessionId,
    query: EventQuery,
) -> Result<EventPage> {
    let limit = query.limit.clamp(1, limits::PAGE_ROWS_MAX);
    // Sequences are dense, so the rows that a filter reads are a span of numbers.
    let scan = int(if query.types.is_empty() { limit } else { limits::PAGE_SCAN_MAX } as u64);
    let low = int(query.after.saturating_add(1).min(u64::from(u32::MAX) << 16));
    let below = query.before.map_or(i64::MAX, |before| int(before.saturating_sub(1)));
    let (rows_max, bytes_max) = (int(limit as u64), int(query.bytes_max as u64));
    let rows = context
        .read(scope, sql, &[&tk, &id.as_str(), &low, &below, &scan, &query.types, &rows_max, &bytes_max])
        .await?;

    let first = rows.first().ok_or(Fault::Core(Error::NotFound))?;
    let (last, is_bridge): (i64, bool) = (first.try_get(0)?, first.try_get(first.len() - 1)?);
    let high = below.min(last);
    let bytes_max = query.bytes_max;
    let mut reading =
        LogPageReader { events: Vec::with_capacity(rows.len()), bytes: 0, bytes_max, full: false };
    for row in &rows {
        let mut columns = Columns::of(row);
        columns.skip(1);
        if row.try_get::<_, Option<i64>>(1)?.is_some() && !reading.take(columns.event(id)?) {
            break;
        }
    }
    // After one event that is larger than a page the database sends no other, although there may be more.
    reading.full |= reading.events.len() == limit || reading.bytes > bytes_max;
    let looked_at = if query.newest_first {
        (low.max(high.saturating_sub(scan - 1)), high)
    } else {
        (low, high.min(low.saturating_add(scan - 1)))
    };
    Ok(EventPage { is_bridge, ..reading.end(&query, (low, high), looked_at, count(last)) })
}

struct LogPageReader {
    events: Vec<Event>,
    bytes: usize,
    bytes_max: usize,
    /// The page is full, in rows or in bytes.
    full: bool,
}

impl LogPageReader {
    fn take(&mut self, event: Event) -> bool {
        let bytes = self.bytes + event.bytes();
        self.full = !self.events.is_empty() && bytes > self.bytes_max;
        if !self.full {
            self.bytes = bytes;
            self.events.push(event);
        }
        !self.full
    }

    /// `asked` are the sequences that the caller wanted, `seen` those of them that were read.
    fn end(self, query: &EventQuery, asked: (i64, i64), seen: (i64, i64), last_sequence: u64) -> EventPage {
        let end = count(if query.newest_first { asked.0 } else { asked.1 });
        let (next_after, has_more) = match (self.full, self.events.last()) {
            (true, Some(event)) => (event.sequence, event.sequence != end),
            _ if seen.0 > seen.1 => {
                (if query.newest_first { query.before.unwrap_or(0) } else { query.after }, false)
            }
            _ => {
                let looked_to = count(if query.newest_first { seen.0 } else { seen.1 });
                (looked_to, looked_to != end)
            }
        };
        EventPage { events: self.events, last_sequence, has_more, next_after, is_bridge: false }
    }
}
