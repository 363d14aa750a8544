//! Heads: the narrow half of sessions, which every append reads and writes.

use rusqlite::{Connection, OptionalExtension, Row, Statement, params};
use sederunt_core::Timestamp;
use sederunt_core::ids::{CredentialId, Incarnation, SessionId, UserId};
use sederunt_core::session::row::Turn;
use sederunt_core::session::{Claim, Details, Head, SessionType, Status};

use super::fault::unknown_word;

/// A head with the numbers that only the store knows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StoredHead {
    pub sk: i64,
    /// Sequences up to this one are in the logs of other sessions.
    pub prefix_to: u64,
    pub head: Head,
}

/// The columns that [`read`] reads, from the tables that [`tables`] joins. Macros, so that statements stay constants.
macro_rules! columns {
    () => {
        "h.sk, h.prefix_to, h.incarnation, h.session_type, h.is_talk, h.is_bridge, \
     h.is_external, h.is_group, h.holder, h.status, h.inactive, h.version, l.last_sequence, l.last_at, \
     l.message_count, l.turn_count, l.turn, l.turn_answered, l.preview, l.described, h.claim_worker, \
     h.claim_credential, h.lease_until, h.epoch, h.attempts, h.stop_requested, h.priority, h.deadline_at, l.bytes"
    };
}
pub(super) use columns;
macro_rules! tables {
    () => {
        "session_heads h JOIN session_tails l ON l.sk = h.sk"
    };
}
pub(super) use tables;
/// The number of [`columns`].
pub(super) const COLUMN_COUNT: usize = 29;

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<StoredHead> {
    let number = |at: usize| row.get::<_, i64>(at).map(i64::cast_unsigned);
    let instant = |at: usize| row.get::<_, Option<i64>>(at).map(|micros| micros.map(Timestamp::from_micros));
    let claim = match (row.get::<_, Option<Box<str>>>(20)?, text(row, 21)?, instant(22)?) {
        (Some(worker), Some(credential), Some(lease_until)) => {
            Some(Claim { worker, credential: CredentialId::stored(credential), lease_until })
        }
        _ => None,
    };
    let answered: bool = row.get(17)?;
    Ok(StoredHead {
        sk: row.get(0)?,
        prefix_to: number(1)?,
        head: Head {
            incarnation: Incarnation(uuid::Uuid::from_bytes(row.get(2)?)),
            session_type: session_type(row, 3)?,
            is_talk: row.get(4)?,
            is_bridge: row.get(5)?,
            is_external: row.get(6)?,
            is_group: row.get(7)?,
            holder: text(row, 8)?.map(UserId::stored),
            status: status(row, 9)?,
            inactive: row.get(10)?,
            version: number(11)?,
            last_sequence: number(12)?,
            last_at: Timestamp::from_micros(row.get(13)?),
            message_count: number(14)?,
            turn_count: number(15)?,
            turn: row
                .get::<_, Option<i64>>(16)?
                .map(|sequence| Turn { sequence: sequence.cast_unsigned(), answered }),
            preview: row.get(18)?,
            described: row.get(19)?,
            claim,
            epoch: number(23)?,
            attempts: row.get(24)?,
            stop_requested: row.get(25)?,
            priority: row.get(26)?,
            deadline_at: instant(27)?,
            bytes: number(28)?,
        },
    })
}

/// A text column, without allocating a `String`.
pub(super) fn text<'a>(row: &'a Row<'_>, at: usize) -> rusqlite::Result<Option<&'a str>> {
    Ok(row.get_ref(at)?.as_str_or_null()?)
}

fn status(row: &Row<'_>, at: usize) -> rusqlite::Result<Status> {
    let word = row.get_ref(at)?.as_str()?;
    Status::parse(word).ok_or_else(|| unknown_word(word))
}

fn session_type(row: &Row<'_>, at: usize) -> rusqlite::Result<SessionType> {
    let word = row.get_ref(at)?.as_str()?;
    SessionType::parse(word).map_err(|_| unknown_word(word))
}

pub(super) const BY_ID: &str =
    concat!("SELECT ", columns!(), " FROM ", tables!(), " WHERE h.tk = ?1 AND h.id = ?2");

/// Finds a head by the statement [`BY_ID`].
pub(super) fn by_id(
    statement: &mut Statement<'_>,
    tk: i64,
    id: &SessionId,
) -> rusqlite::Result<Option<StoredHead>> {
    statement.query_row(params![tk, id.as_str()], read).optional()
}

pub(super) fn insert(
    db: &Connection,
    tk: i64,
    id: &SessionId,
    head: &Head,
    details: &Details,
    prefix_to: u64,
) -> rusqlite::Result<i64> {
    let sk = db
        .prepare_cached(
            "INSERT INTO session_heads (tk, id, incarnation, session_type, is_talk, is_bridge, is_external, \
             is_group, holder, status, inactive, version, claim_worker, claim_credential, lease_until, epoch, \
             attempts, stop_requested, priority, deadline_at, agent_slug, started_at, prefix_to, counted) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, \
             ?21, ?22, ?23, ?10 = 'running' AND ?21 IS NOT NULL)",
        )?
        .insert(params![
            tk,
            id.as_str(),
            head.incarnation.0.as_bytes(),
            head.session_type.as_str(),
            head.is_talk,
            head.is_bridge,
            head.is_external,
            head.is_group,
            head.holder.as_ref().map(UserId::as_str),
            head.status.as_str(),
            head.inactive,
            head.version.cast_signed(),
            head.claim.as_ref().map(|claim| &claim.worker),
            head.claim.as_ref().map(|claim| claim.credential.as_str()),
            head.claim.as_ref().map(|claim| claim.lease_until.as_micros()),
            head.epoch.cast_signed(),
            head.attempts,
            head.stop_requested,
            head.priority,
            head.deadline_at.map(Timestamp::as_micros),
            details.agent_slug,
            details.started_at.map(Timestamp::as_micros),
            prefix_to.cast_signed(),
        ])?;
    let mut tail = db.prepare_cached(
        "INSERT INTO session_tails (sk, last_sequence, last_at, message_count, turn_count, turn, turn_answered, \
         preview, described, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    write_tail(&mut tail, sk, head)?;
    Ok(sk)
}

pub(super) const SAVE_TAIL: &str = "UPDATE session_tails SET last_sequence = ?2, last_at = ?3, message_count = ?4, turn_count = ?5, turn = ?6, \
     turn_answered = ?7, preview = ?8, described = ?9, bytes = ?10 WHERE sk = ?1";

/// Saves the columns that an append changes, by the statement [`SAVE_TAIL`].
pub(super) fn write_tail(statement: &mut Statement<'_>, sk: i64, head: &Head) -> rusqlite::Result<()> {
    statement
        .execute(params![
            sk,
            head.last_sequence.cast_signed(),
            head.last_at.as_micros(),
            head.message_count.cast_signed(),
            head.turn_count.cast_signed(),
            head.turn.map(|turn| turn.sequence.cast_signed()),
            head.turn.is_some_and(|turn| turn.answered),
            head.preview,
            head.described,
            head.bytes.cast_signed(),
        ])
        .map(drop)
}

/// Saves the columns of the tail that a claim changes.
pub(super) const MOVE_TAIL: &str = "UPDATE session_tails SET last_sequence = ?2, last_at = ?3 WHERE sk = ?1";

/// The columns that a change wrote. An update that names an indexed column writes the index even when the value is
/// the same, so each of those has its own statement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChangedColumns {
    pub tail: bool,
    pub row: bool,
    pub status: bool,
    pub claim: bool,
    pub deadline: bool,
}

/// Saves the other columns. Lease and claim are in no index, so they go with whatever else is written.
pub(super) fn save(db: &Connection, sk: i64, head: &Head, changed: ChangedColumns) -> rusqlite::Result<()> {
    macro_rules! update {
        ($more:literal) => {
            concat!(
                "UPDATE session_heads SET version = ?2, epoch = ?3, attempts = ?4, stop_requested = ?5, inactive = ?6, \
                 holder = ?7, claim_worker = ?8, claim_credential = ?9, lease_until = ?10",
                $more,
                " WHERE sk = ?1"
            )
        };
    }
    if changed.row || changed.status || changed.claim {
        let mut update = db.prepare_cached(if changed.status {
            // A session that runs without a claim counts too, whether its agent has a limit or not.
            update!(", status = ?11, counted = ?11 = 'running' AND agent_slug IS NOT NULL")
        } else {
            update!("")
        })?;
        let claim = head.claim.as_ref();
        update.raw_bind_parameter(1, sk)?;
        update.raw_bind_parameter(2, head.version.cast_signed())?;
        update.raw_bind_parameter(3, head.epoch.cast_signed())?;
        update.raw_bind_parameter(4, head.attempts)?;
        update.raw_bind_parameter(5, head.stop_requested)?;
        update.raw_bind_parameter(6, head.inactive)?;
        update.raw_bind_parameter(7, head.holder.as_ref().map(UserId::as_str))?;
        update.raw_bind_parameter(8, claim.map(|claim| &claim.worker))?;
        update.raw_bind_parameter(9, claim.map(|claim| claim.credential.as_str()))?;
        update.raw_bind_parameter(10, claim.map(|claim| claim.lease_until.as_micros()))?;
        if changed.status {
            update.raw_bind_parameter(11, head.status.as_str())?;
        }
        update.raw_execute()?;
    }
    if changed.deadline {
        db.prepare_cached("UPDATE session_heads SET deadline_at = ?2 WHERE sk = ?1")?
            .execute(params![sk, head.deadline_at.map(Timestamp::as_micros)])?;
    }
    Ok(())
}

/// Stores the start of a session, once.
pub(super) fn set_started(db: &Connection, sk: i64, now: Timestamp) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE session_heads SET started_at = ?2 WHERE sk = ?1 AND started_at IS NULL")?
        .execute([sk, now.as_micros()])
        .map(drop)
}

macro_rules! take {
    ($more:literal) => {
        concat!(
            "UPDATE session_heads SET status = ?2, version = ?3, epoch = ?4, attempts = ?5, claim_worker = ?6, \
             claim_credential = ?7, lease_until = ?8, deadline_at = ?9, started_at = ?10",
            $more,
            " WHERE sk = ?1"
        )
    };
}
pub(super) const TAKE: &str = take!("");
/// [`TAKE`] for an agent whose runs are limited.
pub(super) const TAKE_COUNTED: &str = take!(", counted = 1");

/// Saves the columns that a claim changes, by the statement [`TAKE`] or [`TAKE_COUNTED`].
pub(super) fn take(
    statement: &mut Statement<'_>,
    sk: i64,
    head: &Head,
    started_at: Option<Timestamp>,
) -> rusqlite::Result<()> {
    statement
        .execute(params![
            sk,
            head.status.as_str(),
            head.version.cast_signed(),
            head.epoch.cast_signed(),
            head.attempts,
            head.claim.as_ref().map(|claim| &claim.worker),
            head.claim.as_ref().map(|claim| claim.credential.as_str()),
            head.claim.as_ref().map(|claim| claim.lease_until.as_micros()),
            head.deadline_at.map(Timestamp::as_micros),
            started_at.map(Timestamp::as_micros),
        ])
        .map(drop)
}
