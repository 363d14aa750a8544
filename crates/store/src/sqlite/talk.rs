//! The state of conversations beside their sessions, and which of them the keeper should look at.

use futures_util::FutureExt as _;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sederunt_core::ids::{SessionId, TenantId, UserId};
use sederunt_core::store::{DueSession, StoreFuture, TalkStore};
use sederunt_core::talk::Talk;
use sederunt_core::{Session, Timestamp};

use super::fault::{unreadable, unwritable};
use super::readers::in_snapshot;
use super::{SqliteStore, sessions};

/// How far the activity of a sitting may be ahead of its indexed column, in microseconds.
const NOTED_WITHIN: i64 = 60_000_000;

/// Writes the row whole; its times and sequences are set. The indexed activity has its own statement, because an
/// update that names it writes its index.
pub(super) fn write(db: &Connection, tk: i64, sk: i64, talk: &Talk) -> rusqlite::Result<()> {
    let active_at = talk.active_at().map(Timestamp::as_micros);
    let waiting = talk.waiting().map(u64::cast_signed);
    let body = serde_json::to_string(talk).map_err(unwritable)?;
    let noted = db
        .prepare_cached(
            "UPDATE talks SET active_at = ?2, waiting = ?3, body = ?4 WHERE sk = ?1 \
             AND (noted_at BETWEEN ?2 - ?5 AND ?2 OR (noted_at IS NULL AND ?2 IS NULL))",
        )?
        .execute(params![sk, active_at, waiting, body, NOTED_WITHIN])?;
    if noted == 0 {
        db.prepare_cached(
            "INSERT INTO talks (sk, tk, active_at, noted_at, waiting, body) VALUES (?1, ?2, ?3, ?3, ?4, ?5) \
             ON CONFLICT (sk) DO UPDATE SET active_at = excluded.active_at, noted_at = excluded.noted_at, \
             waiting = excluded.waiting, body = excluded.body",
        )?
        .execute(params![sk, tk, active_at, waiting, body])?;
    }
    Ok(())
}

/// Hands the open sittings of one user over to another. The version moves, so a caller that loaded one of them
/// decides again.
pub(super) fn merge(db: &Connection, tk: i64, from: &UserId, into: &UserId) -> rusqlite::Result<()> {
    let open: Vec<(i64, Talk)> = db
        .prepare_cached("SELECT sk, body FROM talks WHERE tk = ?1 AND active_at IS NOT NULL")?
        .query_map([tk], |row| Ok((row.get(0)?, body(row, 1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (sk, mut talk) in open {
        if talk.hand_over(from, into) {
            write(db, tk, sk, &talk)?;
            db.prepare_cached("UPDATE session_heads SET version = version + 1 WHERE sk = ?1")?
                .execute([sk])?;
        }
    }
    Ok(())
}

fn body(row: &Row<'_>, at: usize) -> rusqlite::Result<Talk> {
    serde_json::from_str(row.get_ref(at)?.as_str()?).map_err(unreadable)
}

impl TalkStore for SqliteStore {
    fn talk<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a SessionId,
    ) -> StoreFuture<'a, Option<(Session, Talk)>> {
        self.read_on_writer(move |db| {
            in_snapshot(db, |db| {
                let Some((sk, session)) = sessions::keyed_by_id(db, tenant, id)? else { return Ok(None) };
                let talk = db
                    .prepare_cached("SELECT body FROM talks WHERE sk = ?1")?
                    .query_row([sk], |row| body(row, 0))
                    .optional()?;
                Ok(Some((session, talk.unwrap_or_default())))
            })
        })
        .boxed()
    }

    fn silent_sittings(&self, active_before: Timestamp, limit: usize) -> StoreFuture<'_, Vec<DueSession>> {
        self.read_pooled(move |db| {
            db.prepare_cached(SILENT)?
                .query_map(params![active_before.as_micros(), i64::try_from(limit).unwrap_or(i64::MAX)], due)?
                .collect()
        })
        .boxed()
    }

    fn waiting_turns(&self, limit: usize) -> StoreFuture<'_, Vec<DueSession>> {
        self.read_pooled(move |db| {
            db.prepare_cached(WAITING)?.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], due)?.collect()
        })
        .boxed()
    }
}

pub(super) const SILENT: &str = "SELECT t.id, h.id FROM talks k INDEXED BY talks_by_activity \
     CROSS JOIN session_heads h ON h.sk = k.sk CROSS JOIN tenants t ON t.tk = h.tk \
     WHERE k.noted_at < ?1 AND k.active_at < ?1 AND t.id IS NOT NULL ORDER BY k.noted_at LIMIT ?2";

pub(super) const WAITING: &str = "SELECT t.id, h.id FROM talks k INDEXED BY talks_waiting \
     CROSS JOIN session_heads h ON h.sk = k.sk CROSS JOIN tenants t ON t.tk = h.tk \
     WHERE k.waiting IS NOT NULL AND h.status IN ('idle', 'running') AND h.lease_until IS NULL \
     AND t.id IS NOT NULL LIMIT ?1";

fn due(row: &Row<'_>) -> rusqlite::Result<DueSession> {
    Ok(DueSession {
        tenant: TenantId::stored(row.get_ref(0)?.as_str()?),
        session: SessionId::stored(row.get_ref(1)?.as_str()?),
    })
}

/// The secret key of this installation.
pub(super) fn installation_key(db: &Connection) -> rusqlite::Result<[u8; 32]> {
    db.prepare_cached("SELECT key FROM installation")?.query_row([], |row| row.get(0))
}
