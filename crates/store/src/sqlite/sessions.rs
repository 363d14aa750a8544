//! The wide half of sessions: one row beside each head, its participants and its filterable metadata.

use std::borrow::Cow;

use futures_util::FutureExt as _;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, Statement, params};
use sederunt_core::Timestamp;
use sederunt_core::ids::{SessionId, TenantId, UserId};
use sederunt_core::json::Json;
use sederunt_core::quota::{Amount, UseByHolder};
use sederunt_core::session::row::filterable;
use sederunt_core::session::source::Company;
use sederunt_core::session::{
    DescriptionSource, Details, Head, MemoryMode, Session, SessionSource, SourceKind, Status,
};
use sederunt_core::store::{SessionRowStore, StoreFuture, Update};

use super::SqliteStore;
use super::fault::unknown_word;
use super::heads::{self, StoredHead, text};

macro_rules! columns {
    () => {
        "s.source_kind, s.interactive, s.platform, d.trigger_id, d.is_group, d.metadata, s.task_id, s.agent_slug, \
         s.entity_id, s.parent_id, d.root_id, d.retry_of, d.title, d.description, d.description_source, \
         d.working_memory, d.input, d.draft_values, d.result, d.usage, d.error_message, d.end_reason, \
         d.memory_mode, d.is_anonymous, d.created_at, h.started_at, d.completed_at, d.run"
    };
}

impl SessionRowStore for SqliteStore {
    fn session<'a>(&'a self, tenant: &'a TenantId, id: &'a SessionId) -> StoreFuture<'a, Option<Session>> {
        self.read_on_writer(|db| Ok(keyed_by_id(db, tenant, id)?.map(|(_, session)| session))).boxed()
    }

    fn departed<'a>(&'a self, tenant: &'a TenantId, id: &'a SessionId) -> StoreFuture<'a, Vec<UserId>> {
        self.read_inline(move |db| {
            db.prepare_cached(
                "SELECT d.user_id FROM tenants t JOIN session_heads h ON h.tk = t.tk AND h.id = ?2 \
             JOIN departures d ON d.sk = h.sk WHERE t.id = ?1 ORDER BY d.user_id",
            )?
            .query_map([tenant.as_str(), id.as_str()], |row| Ok(UserId::stored(row.get_ref(0)?.as_str()?)))?
            .collect()
        })
        .boxed()
    }
}

/// A whole session with its number.
pub(super) fn keyed_by_id(
    db: &Connection,
    tenant: &TenantId,
    id: &SessionId,
) -> rusqlite::Result<Option<(i64, Session)>> {
    const SQL: &str = concat!(
        "SELECT ",
        heads::columns!(),
        ", ",
        columns!(),
        " FROM ",
        heads::tables!(),
        " JOIN tenants t ON t.tk = h.tk JOIN sessions s ON s.sk = h.sk JOIN session_details d ON d.sk = h.sk \
          WHERE t.id = ?1 AND h.id = ?2"
    );
    let found = db
        .prepare_cached(SQL)?
        .query_row([tenant.as_str(), id.as_str()], |row| Ok((heads::read(row)?, details(row)?)))
        .optional()?;
    let mut participants = db.prepare_cached(PARTICIPANTS)?;
    found
        .map(|(found, details)| {
            let sk = found.sk;
            Ok((sk, complete(&mut participants, tenant.clone(), id.clone(), found, details)?))
        })
        .transpose()
}

/// Reads whole sessions by their numbers, for pages: the statements are looked up once.
pub(super) struct ByKey<'a> {
    row: CachedStatement<'a>,
    participants: CachedStatement<'a>,
}

impl<'a> ByKey<'a> {
    pub(super) fn of(db: &'a Connection) -> rusqlite::Result<Self> {
        const SQL: &str = concat!(
            "SELECT ",
            heads::columns!(),
            ", ",
            columns!(),
            ", h.id FROM ",
            heads::tables!(),
            " JOIN sessions s ON s.sk = h.sk JOIN session_details d ON d.sk = h.sk WHERE h.sk = ?1"
        );
        Ok(Self { row: db.prepare_cached(SQL)?, participants: db.prepare_cached(PARTICIPANTS)? })
    }

    pub(super) fn get(&mut self, tenant: &TenantId, sk: i64) -> rusqlite::Result<Option<Session>> {
        let found = self
            .row
            .query_row([sk], |row| {
                let id = SessionId::stored(row.get_ref(heads::COLUMN_COUNT + 28)?.as_str()?);
                Ok((id, heads::read(row)?, details(row)?))
            })
            .optional()?;
        let participants = &mut self.participants;
        found
            .map(|(id, found, details)| complete(participants, tenant.clone(), id, found, details))
            .transpose()
    }
}

const PARTICIPANTS: &str = "SELECT user_id FROM participants WHERE sk = ?1 ORDER BY user_id";

fn complete(
    participants: &mut Statement<'_>,
    tenant: TenantId,
    id: SessionId,
    found: StoredHead,
    details: Details,
) -> rusqlite::Result<Session> {
    let participants = participants
        .query_map([found.sk], |row| Ok(UserId::stored(row.get_ref(0)?.as_str()?)))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Session { tenant, id, head: found.head, details, participants })
}

fn details(row: &Row<'_>) -> rusqlite::Result<Details> {
    let at = |column: usize| heads::COLUMN_COUNT + column;
    let json = |column: usize| Ok::<_, rusqlite::Error>(text(row, at(column))?.map(Json::stored));
    let session = |column: usize| Ok::<_, rusqlite::Error>(text(row, at(column))?.map(SessionId::stored));
    let instant = |column: usize| {
        row.get::<_, Option<i64>>(at(column)).map(|micros| micros.map(Timestamp::from_micros))
    };
    let kind = row.get_ref(at(0))?.as_str()?;
    let mode = row.get_ref(at(22))?.as_str()?;
    Ok(Details {
        source: SessionSource {
            kind: SourceKind::parse(kind).map_err(|_| unknown_word(kind))?,
            interactive: row.get(at(1))?,
            platform: row.get::<_, Option<String>>(at(2))?.map(Cow::Owned),
            trigger_id: row.get(at(3))?,
            company: if row.get(at(4))? { Company::Group } else { Company::Direct },
        },
        metadata: Json::stored(row.get_ref(at(5))?.as_str()?),
        task_id: row.get(at(6))?,
        agent_slug: row.get(at(7))?,
        entity_id: row.get(at(8))?,
        parent_id: session(9)?,
        root_id: session(10)?,
        retry_of: session(11)?,
        title: row.get(at(12))?,
        description: row.get(at(13))?,
        description_source: text(row, at(14))?
            .map(|word| DescriptionSource::stored(word).ok_or_else(|| unknown_word(word)))
            .transpose()?,
        working_memory: json(15)?,
        input: json(16)?,
        draft_values: json(17)?,
        run: json(27)?,
        result: json(18)?,
        usage: json(19)?,
        error_message: row.get(at(20))?,
        end_reason: row.get(at(21))?,
        memory_mode: MemoryMode::parse(mode).map_err(|_| unknown_word(mode))?,
        is_anonymous: row.get(at(23))?,
        created_at: Timestamp::from_micros(row.get(at(24))?),
        started_at: instant(25)?,
        completed_at: instant(26)?,
    })
}

pub(super) fn insert(
    db: &Connection,
    tk: i64,
    sk: i64,
    head: &Head,
    details: &Details,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO sessions (sk, tk, session_type, status, inactive, active_minute, user_id, source_kind, \
         interactive, platform, task_id, agent_slug, entity_id, parent_id, in_work) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    )?
    .execute(params![
        sk,
        tk,
        head.session_type.as_str(),
        head.status.as_str(),
        head.inactive,
        head.last_at.minute(),
        head.holder.as_ref().map(UserId::as_str),
        details.source.kind.as_str(),
        details.source.interactive,
        details.source.platform.as_deref(),
        details.task_id,
        details.agent_slug,
        details.entity_id,
        details.parent_id.as_ref().map(SessionId::as_str),
        head.status.is_in_work(),
    ])?;
    db.prepare_cached(
        "INSERT INTO session_details (sk, trigger_id, is_group, root_id, retry_of, title, description, \
         description_source, memory_mode, is_anonymous, created_at, completed_at, error_message, \
         end_reason, metadata, usage, working_memory, draft_values, input, result, run) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)",
    )?
    .execute(params![
        sk,
        details.source.trigger_id,
        details.source.is_group(),
        details.root_id.as_ref().map(SessionId::as_str),
        details.retry_of.as_ref().map(SessionId::as_str),
        details.title,
        details.description,
        details.description_source.map(DescriptionSource::as_str),
        details.memory_mode.as_str(),
        details.is_anonymous,
        details.created_at.as_micros(),
        details.completed_at.map(Timestamp::as_micros),
        details.error_message,
        details.end_reason,
        details.metadata.as_str(),
        details.usage.as_ref().map(Json::as_str),
        details.working_memory.as_ref().map(Json::as_str),
        details.draft_values.as_ref().map(Json::as_str),
        details.input.as_ref().map(Json::as_str),
        details.result.as_ref().map(Json::as_str),
        details.run.as_ref().map(Json::as_str),
    ])?;
    insert_metadata(db, tk, sk, &details.metadata)
}

/// Writes the wide half of an update. Columns that lists are indexed by have their own statements.
pub(super) fn update(
    db: &Connection,
    tk: i64,
    sk: i64,
    update: &Update,
    before: Status,
    head: &Head,
    now: Timestamp,
) -> rusqlite::Result<()> {
    if update.status.is_some() {
        set_status(db, sk, before, head.status)?;
    }
    if update.inactive.is_some() {
        db.prepare_cached("UPDATE sessions SET inactive = ?2 WHERE sk = ?1")?
            .execute(params![sk, head.inactive])?;
    }
    if let Some(holder) = &update.holder {
        db.prepare_cached("UPDATE sessions SET user_id = ?2 WHERE sk = ?1")?
            .execute(params![sk, holder.as_str()])?;
    }
    if let Some(task) = &update.task_id {
        db.prepare_cached("UPDATE sessions SET task_id = ?2 WHERE sk = ?1")?.execute(params![sk, task])?;
    }
    if let Some(title) = &update.title {
        db.prepare_cached("UPDATE session_details SET title = ?2 WHERE sk = ?1")?
            .execute(params![sk, title])?;
    }
    if let Some((description, source)) = &update.description {
        describe(db, sk, description.as_deref(), *source)?;
    }
    if let Some(metadata) = &update.metadata {
        remove_metadata(db, tk, sk)?;
        db.prepare_cached("UPDATE session_details SET metadata = ?2 WHERE sk = ?1")?
            .execute(params![sk, metadata.as_str()])?;
        insert_metadata(db, tk, sk, metadata)?;
    }
    if let Some(participants) = &update.participants {
        db.prepare_cached("DELETE FROM participants WHERE sk = ?1")?.execute([sk])?;
        participants.iter().try_for_each(|user| add_participant(db, tk, sk, user))?;
    }
    for user in update.participants.iter().flatten().chain(&update.add_participant) {
        db.prepare_cached("DELETE FROM departures WHERE sk = ?1 AND user_id = ?2")?
            .execute(params![sk, user.as_str()])?;
    }
    if let Some(user) = &update.add_participant {
        add_participant(db, tk, sk, user)?;
    }
    if let Some(user) = &update.leaves {
        let who = params![sk, user.as_str()];
        db.prepare_cached("DELETE FROM participants WHERE sk = ?1 AND user_id = ?2")?.execute(who)?;
        db.prepare_cached("INSERT OR IGNORE INTO departures (sk, user_id, tk) VALUES (?1, ?2, ?3)")?
            .execute(params![sk, user.as_str(), tk])?;
    }
    if update.started {
        heads::set_started(db, sk, now)?;
    }
    if update.completed {
        db.prepare_cached("UPDATE session_details SET completed_at = ?2 WHERE sk = ?1")?
            .execute([sk, now.as_micros()])?;
    }
    if let Some(run) = &update.run {
        db.prepare_cached("UPDATE session_details SET run = ?2 WHERE sk = ?1")?
            .execute(params![sk, run.as_str()])?;
    }
    if let Some(values) = &update.draft_values {
        db.prepare_cached("UPDATE session_details SET draft_values = ?2 WHERE sk = ?1")?
            .execute(params![sk, values.as_ref().map(Json::as_str)])?;
    }
    let ended = [
        update.result.is_some(),
        update.usage.is_some(),
        update.error_message.is_some(),
        update.end_reason.is_some(),
    ];
    if ended.contains(&true) {
        db.prepare_cached(
            "UPDATE session_details SET result = coalesce(?2, result), usage = coalesce(?3, usage), \
             error_message = nullif(coalesce(?4, error_message), ''), end_reason = coalesce(?5, end_reason) WHERE sk = ?1",
        )?
        .execute(params![
            sk,
            update.result.as_ref().map(Json::as_str),
            update.usage.as_ref().map(Json::as_str),
            update.error_message,
            update.end_reason,
        ])?;
    }
    Ok(())
}

/// Writes `in_work` only where it changes: an update that names it writes the index of sessions in work.
fn set_status(db: &Connection, sk: i64, before: Status, status: Status) -> rusqlite::Result<()> {
    if before.is_in_work() == status.is_in_work() {
        db.prepare_cached(SET_STATUS)?.execute(params![sk, status.as_str()]).map(drop)
    } else {
        db.prepare_cached("UPDATE sessions SET status = ?2, in_work = ?3 WHERE sk = ?1")?
            .execute(params![sk, status.as_str(), status.is_in_work()])
            .map(drop)
    }
}

/// Whether a session moves between statuses that are both in work, or both not.
pub(super) const SET_STATUS: &str = "UPDATE sessions SET status = ?2 WHERE sk = ?1";
pub(super) const SET_STATUS_AND_MINUTE: &str =
    "UPDATE sessions SET status = ?2, active_minute = ?3 WHERE sk = ?1";

pub(super) fn set_minute(db: &Connection, sk: i64, minute: i64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE sessions SET active_minute = ?2 WHERE sk = ?1")?.execute([sk, minute]).map(drop)
}

pub(super) fn describe(
    db: &Connection,
    sk: i64,
    description: Option<&str>,
    source: Option<DescriptionSource>,
) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE session_details SET description = ?2, description_source = ?3 WHERE sk = ?1")?
        .execute(params![sk, description, source.map(DescriptionSource::as_str)])
        .map(drop)
}

pub(super) fn participates(db: &Connection, sk: i64, user: &UserId) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM participants WHERE sk = ?1 AND user_id = ?2")?
        .exists(params![sk, user.as_str()])
}

pub(super) fn add_participant(db: &Connection, tk: i64, sk: i64, user: &UserId) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR IGNORE INTO participants (sk, user_id, tk) VALUES (?1, ?2, ?3)")?
        .execute(params![sk, user.as_str(), tk])
        .map(drop)
}

fn insert_metadata(db: &Connection, tk: i64, sk: i64, metadata: &Json) -> rusqlite::Result<()> {
    for (key, value) in filterable(metadata) {
        db.prepare_cached(
            "INSERT OR IGNORE INTO session_metadata (tk, key, value, sk) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![tk, key, value, sk])?;
    }
    Ok(())
}

fn remove_metadata(db: &Connection, tk: i64, sk: i64) -> rusqlite::Result<()> {
    let stored: Option<Json> = db
        .prepare_cached("SELECT metadata FROM session_details WHERE sk = ?1")?
        .query_row([sk], |row| Ok(Json::stored(row.get_ref(0)?.as_str()?)))
        .optional()?;
    for (key, value) in stored.iter().flat_map(filterable) {
        db.prepare_cached(
            "DELETE FROM session_metadata WHERE tk = ?1 AND key = ?2 AND value = ?3 AND sk = ?4",
        )?
        .execute(params![tk, key, value, sk])?;
    }
    Ok(())
}

/// The tables whose rows are deleted with their session. Its log is deleted apart, and so are the rows of its
/// metadata, which have no index by session.
pub(super) const SESSION_TABLES: [&str; 13] = [
    "participants", "departures", "shares", "approvals", "responses", "documents", "channel_conversations",
    "channel_deliveries", "session_details", "sessions", "talks", "session_tails", "session_heads",
];

/// Deletes a session's rows. The caller deletes its log first ([`super::logs`]).
pub(super) fn delete(db: &Connection, tk: i64, sk: i64) -> rusqlite::Result<()> {
    remove_metadata(db, tk, sk)?;
    SESSION_TABLES.iter().try_for_each(|table| {
        db.prepare_cached(&format!("DELETE FROM {table} WHERE sk = ?1"))?.execute([sk]).map(drop)
    })
}

/// The quotas that a tenant has used, by holder.
pub(super) fn usage(db: &Connection, tenant: &TenantId) -> rusqlite::Result<UseByHolder> {
    db.prepare_cached(
        "SELECT h.holder, count(*), sum(h.is_talk = 0 AND h.is_bridge = 0 AND h.status IN ('pending', 'running', 'waiting_human', 'awaiting_tool')), \
         sum(l.bytes) FROM tenants t JOIN session_heads h ON h.tk = t.tk JOIN session_tails l ON l.sk = h.sk \
         WHERE t.id = ?1 GROUP BY h.holder",
    )?
    .query_map([tenant.as_str()], |row| {
        let number = |at: usize| row.get::<_, i64>(at).map(i64::cast_unsigned);
        let amount = Amount { sessions: number(1)?, runs: number(2)?, bytes: number(3)? };
        Ok((row.get_ref(0)?.as_str_or_null()?.map(UserId::stored), amount))
    })?
    .collect()
}
