//! Reading a log: one page, out of the ranges that a session is made of, seen at one instant.

use sederunt_core::error::Error;
use sederunt_core::event::{Event, EventPage, EventQuery};
use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::limits;

use super::fault::{Fault, Result};
use super::rows::Columns;
use super::sessions::{Range, ranges};
use super::tx::{Base, Scope, Tx, count, int, within};

macro_rules! page_sql {
    ($direction:literal) => {
        concat!(
            "SELECT seq, type, content, metadata, subthread_id, external_id, turn, author, at FROM (
                 SELECT e.*, own.bytes, sum(own.bytes) OVER (ORDER BY seq ", $direction, " ROWS UNBOUNDED PRECEDING) AS upto
                 FROM (SELECT * FROM events WHERE tk = $1 AND log = $2 AND seq BETWEEN $3 AND $4
                           AND (cardinality($5::text[]) = 0 OR type = ANY ($5))
                       ORDER BY seq ", $direction, " LIMIT $6) e,
                      LATERAL (SELECT (coalesce(octet_length(e.content), 0)
                                       + coalesce(octet_length(e.metadata), 0))::bigint AS bytes) own) e
             WHERE upto - bytes <= $7 ORDER BY seq ", $direction
        )
    };
}

pub(super) async fn events(base: &Base, tenant: &TenantId, id: &SessionId, query: EventQuery) -> Result<EventPage> {
    let tk = base.tk(tenant).await?.ok_or(Fault::Core(Error::NotFound))?;
    within(async {
        let tx = base.begin_snapshot(Scope::Tenant(tk)).await?;
        let page = page(&tx, tk, id, query).await;
        match &page {
            Ok(_) => tx.commit().await?,
            Err(_) => tx.rollback().await,
        }
        page
    })
    .await
}

async fn page(tx: &Tx, tk: i32, id: &SessionId, query: EventQuery) -> Result<EventPage> {
    let sql = "SELECT h.sk, h.last_sequence, EXISTS (SELECT 1 FROM session_ranges r WHERE r.tk = h.tk AND r.sk = h.sk)
         FROM session_heads h WHERE h.tk = $1 AND h.id = $2";
    let rows = tx.query(sql, &[&tk, &id.as_str()]).await?;
    let row = rows.first().ok_or(Fault::Core(Error::NotFound))?;
    let (sk, last): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let shared = if row.try_get(2)? { ranges(tx, tk, sk).await? } else { Vec::new() };
    let pieces = Range::prefix(shared, sk, last);

    let limit = query.limit.clamp(1, limits::PAGE_ROWS_MAX);
    // Sequences are dense, so the rows that a filter looks at are a span of numbers.
    let scan = int(if query.types.is_empty() { limit } else { limits::PAGE_SCAN_MAX } as u64);
    let low = int(query.after).min(last) + 1;
    let high = query.before.map_or(last, |before| int(before).saturating_sub(1).min(last));
    let (from, to) = if query.newest_first {
        (low.max(high.saturating_sub(scan - 1)), high)
    } else {
        (low, high.min(low.saturating_add(scan - 1)))
    };

    let mut reading = Reading { events: Vec::new(), bytes: 0, limit, full: false };
    let mut pieces: Vec<Range> = pieces
        .into_iter()
        .map(|piece| Range { from: piece.from.max(from), to: piece.to.min(to), ..piece })
        .filter(|piece| piece.from <= piece.to)
        .collect();
    if query.newest_first {
        pieces.reverse();
    }
    for piece in pieces {
        if reading.full {
            break;
        }
        reading.read(tx, tk, id, &query, piece).await?;
    }
    Ok(reading.end(&query, (low, high), (from, to), count(last)))
}

struct Reading {
    events: Vec<Event>,
    bytes: usize,
    limit: usize,
    /// A row was left out for want of room.
    full: bool,
}

impl Reading {
    async fn read(&mut self, tx: &Tx, tk: i32, id: &SessionId, query: &EventQuery, piece: Range) -> Result<()> {
        // The running sum keeps the server from sending more than one row that the page has no room for.
        let sql = if query.newest_first { page_sql!("DESC") } else { page_sql!("ASC") };
        let rows_left = int((self.limit + 1 - self.events.len()) as u64);
        let room = int(limits::PAGE_BYTES_MAX.saturating_sub(self.bytes) as u64);
        let rows =
            tx.query(sql, &[&tk, &piece.log, &piece.from, &piece.to, &query.types, &rows_left, &room]).await?;
        for row in &rows {
            let event = Columns::of(row).event(id)?;
            let bytes = self.bytes + event.bytes();
            if self.events.len() == self.limit || (!self.events.is_empty() && bytes > limits::PAGE_BYTES_MAX) {
                self.full = true;
                return Ok(());
            }
            self.bytes = bytes;
            self.events.push(event);
        }
        Ok(())
    }

    /// `asked` is the span of sequences that the caller wanted, `seen` the part of it that was looked at.
    fn end(self, query: &EventQuery, asked: (i64, i64), seen: (i64, i64), last_sequence: u64) -> EventPage {
        let (next_after, has_more) = match (self.full, self.events.last()) {
            (true, Some(event)) => (event.sequence, true),
            _ if seen.0 > seen.1 => {
                (if query.newest_first { query.before.unwrap_or(0) } else { query.after }, false)
            }
            _ if query.newest_first => (count(seen.0), seen.0 > asked.0),
            _ => (count(seen.1), seen.1 < asked.1),
        };
        EventPage { events: self.events, last_sequence, has_more, next_after }
    }
}
