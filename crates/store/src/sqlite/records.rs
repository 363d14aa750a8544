//! The records of a change: documents, approvals, keys, share links, users, identities, audit lines.

use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use sederunt_core::Timestamp;
use sederunt_core::ids::{SessionId, UserId};
use sederunt_core::people::{Audit, Identity, KnownBy, LinkCode, User};
use sederunt_core::store::{Change, PartResult, Record, Refusal, RowKey, RowState};

use super::fault::WorkError;
use super::{
    approvals, browser_sessions, channels, definitions, documents, feedback, lessons, responses, talk,
};

/// Lets core judge the records before the change writes anything. `crises` are the existing crises: their file cannot
/// be read from here.
pub(super) fn check(
    db: &Connection,
    tk: i64,
    change: &Change,
    crises: &[Box<str>],
) -> Result<(), WorkError<Refusal>> {
    change.judge_records(|key| find(db, tk, key, crises))?.map_err(WorkError::Refused)
}

/// The state of the row under a key.
fn find(
    db: &Connection,
    tk: i64,
    key: &RowKey<'_>,
    crises: &[Box<str>],
) -> rusqlite::Result<Option<RowState>> {
    let present = |sql: &str, id: &str| {
        Ok(db.prepare_cached(sql)?.exists(params![tk, id])?.then_some(RowState::Present))
    };
    let version = |sql: &str, names: &[&dyn ToSql]| {
        let version =
            |row: &Row<'_>| row.get(0).map(|version: i64| RowState::Version(version.cast_unsigned()));
        db.prepare_cached(sql)?.query_row(names, version).optional()
    };
    let of = |sql: &str, names: &[&dyn ToSql]| {
        db.prepare_cached(sql)?.query_row(names, |row| row.get(0).map(RowState::Of)).optional()
    };
    match key {
        RowKey::Session(id) => present("SELECT 1 FROM session_heads WHERE tk = ?1 AND id = ?2", id.as_str()),
        RowKey::Doc(kind, id) => version(
            "SELECT version FROM docs WHERE tk = ?1 AND kind = ?2 AND id = ?3",
            params![tk, kind.as_str(), id],
        ),
        RowKey::Slug(kind, slug) => of(
            "SELECT id FROM docs WHERE tk = ?1 AND kind = ?2 AND slug = ?3",
            params![tk, kind.as_str(), slug],
        ),
        RowKey::Approval(id) => approvals::state(db, tk, id).map(|state| state.map(RowState::Approval)),
        RowKey::StandingResponse { view_id, respondent_name } => {
            Ok(responses::is_standing(db, tk, view_id, respondent_name)?.then_some(RowState::Present))
        }
        RowKey::SharedDocument(session, name) => {
            Ok(documents::is_open(db, tk, session, name)?.then_some(RowState::Present))
        }
        RowKey::ApiKey(id) => present("SELECT 1 FROM keys WHERE tk = ?1 AND id = ?2", id.as_str()),
        RowKey::BrowserSession(id) => present("SELECT 1 FROM browser_sessions WHERE tk = ?1 AND id = ?2", id),
        RowKey::Share(id) => present("SELECT 1 FROM shares WHERE tk = ?1 AND id = ?2", id),
        RowKey::User(id) => present("SELECT 1 FROM users WHERE tk = ?1 AND id = ?2", id.as_str()),
        RowKey::Identity(identity) => of(
            "SELECT user_id FROM identities WHERE tk = ?1 AND platform = ?2 AND external_id = ?3",
            params![tk, identity.platform, identity.external_id],
        ),
        RowKey::LinkCode(hash) => present("SELECT 1 FROM link_codes WHERE tk = ?1 AND hash = ?2", hash),
        RowKey::Feedback(id) => present("SELECT 1 FROM feedback_events WHERE tk = ?1 AND id = ?2", id),
        RowKey::FeedbackSession(id) => {
            version("SELECT version FROM feedback_sessions WHERE tk = ?1 AND id = ?2", params![tk, id])
        }
        RowKey::Lesson(id) => {
            version("SELECT version FROM lessons WHERE tk = ?1 AND id = ?2", params![tk, id])
        }
        RowKey::ChannelUpdate { channel, update_key } => {
            Ok(channels::was_told(db, tk, channel, update_key)?.then_some(RowState::Present))
        }
        RowKey::Conversation { channel, place } => {
            Ok(channels::held_in(db, tk, channel, place)?.map(RowState::Of))
        }
        RowKey::Channel(name) => {
            version("SELECT epoch FROM channels WHERE tk = ?1 AND name = ?2", params![tk, name])
        }
        RowKey::Crisis(id) => Ok(crises.iter().any(|found| **found == **id).then_some(RowState::Present)),
    }
}

/// Writes the records of a change whose parts are written.
pub(super) fn write(
    db: &Connection,
    tk: i64,
    change: &Change,
    done: &[PartResult],
    now: Timestamp,
) -> rusqlite::Result<()> {
    for record in &change.records {
        write_one(db, tk, &change.landed(record, done, now), now)?;
    }
    change.audit.as_ref().map_or(Ok(()), |audit| write_audit(db, tk, audit, now))
}

fn write_one(db: &Connection, tk: i64, record: &Record, now: Timestamp) -> rusqlite::Result<()> {
    match record {
        Record::PutDoc { doc, expects } => definitions::put(db, tk, doc, *expects, now),
        Record::DropDoc { kind, id } => definitions::remove(db, tk, *kind, id),
        Record::AddApproval(approval) => approvals::add(db, tk, approval, now),
        Record::CloseApproval { id, state, decided_by, body } => {
            approvals::close(db, tk, id, *state, decided_by.as_deref(), body.as_deref(), now)
        }
        Record::AddResponse(row) => responses::add(db, tk, row, now),
        Record::SetResponse { session, state } => responses::set(db, tk, session, *state, now),
        Record::OpenDocument(document) => documents::open(db, tk, document),
        Record::SnapshotDocument(document) => documents::take_snapshot(db, tk, document),
        Record::SetDocumentOrigin { session, key, origin } => {
            documents::set_origin(db, tk, session, key, origin)
        }
        Record::AddKey { key, hash } => db
            .prepare_cached(
                "INSERT INTO keys (tk, id, hash, user_id, role, prefix, act_as, created_at, expires_at, revoked_at, who, threads) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?
            .execute(params![
                tk,
                key.id.as_str(),
                hash.0,
                key.user.as_ref().map(UserId::as_str),
                key.role.as_str(),
                key.prefix,
                key.act_as,
                key.created_at.as_micros(),
                key.expires_at.map(Timestamp::as_micros),
                key.revoked_at.map(Timestamp::as_micros),
                key.rules.who.as_str(),
                key.rules.threads.as_str(),
            ])
            .map(drop),
        Record::RevokeKey { id } => db
            .prepare_cached("UPDATE keys SET revoked_at = coalesce(revoked_at, ?3) WHERE tk = ?1 AND id = ?2")?
            .execute(params![tk, id.as_str(), now.as_micros()])
            .map(drop),
        Record::AddBrowserSession { session, hash } => browser_sessions::add(db, tk, session, *hash),
        Record::TouchBrowserSession { id } => browser_sessions::touch(db, tk, id, now),
        Record::DropBrowserSession { id } => browser_sessions::remove(db, tk, id),
        Record::AddShare { share, hash } => db
            .prepare_cached(
                "INSERT INTO shares (tk, id, sk, hash, access, created_by, created_at, expires_at, revoked_at, view_id, user_id) \
                 VALUES (?1, ?2, (SELECT sk FROM session_heads WHERE tk = ?1 AND id = ?3), ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            )?
            .execute(params![
                tk,
                share.id,
                share.session.as_ref().map(SessionId::as_str),
                hash.0,
                share.access.as_str(),
                share.created_by.as_ref().map(UserId::as_str),
                share.created_at.as_micros(),
                share.expires_at.as_micros(),
                share.revoked_at.map(Timestamp::as_micros),
                share.view,
                share.user.as_ref().map(UserId::as_str),
            ])
            .map(drop),
        Record::RevokeShare { id, .. } => db
            .prepare_cached("UPDATE shares SET revoked_at = coalesce(revoked_at, ?3) WHERE tk = ?1 AND id = ?2")?
            .execute(params![tk, id, now.as_micros()])
            .map(drop),
        Record::AddUser(user) => add_user(db, tk, user),
        Record::AddGuest(user) => add_user(db, tk, user),
        Record::KnowUser { id, known_by } => db
            .prepare_cached("UPDATE users SET known_by = ?3 WHERE tk = ?1 AND id = ?2")?
            .execute(params![tk, id.as_str(), known_by.as_str()])
            .map(drop),
        Record::NoteStrangerTold { id } => db
            .prepare_cached("UPDATE users SET told_at = ?3 WHERE tk = ?1 AND id = ?2")?
            .execute(params![tk, id.as_str(), now.as_micros()])
            .map(drop),
        Record::PutLinkCode { code, hash } => put_link_code(db, tk, code, hash, now),
        Record::UseLinkCode { hash } => db
            .prepare_cached("DELETE FROM link_codes WHERE tk = ?1 AND hash = ?2")?
            .execute(params![tk, hash])
            .map(drop),
        Record::UpdateUser { id, role, name, suspended } => db
            .prepare_cached(
                "UPDATE users SET role = coalesce(?3, role), name = coalesce(?4, name), \
                 suspended = coalesce(?5, suspended) WHERE tk = ?1 AND id = ?2",
            )?
            .execute(params![tk, id.as_str(), role.map(|role| role.as_str()), name, suspended])
            .map(drop),
        Record::AddIdentity { user, identity } => add_identity(db, tk, user, identity),
        Record::AddChannelUpdate { channel, update_key } => {
            channels::add_update(db, tk, channel, update_key, now)
        }
        Record::BindConversation { key, session, .. } => channels::bind(db, tk, key, session),
        Record::AddDelivery(delivery) => channels::add_delivery(db, tk, delivery),
        Record::NoteDelivery { id, note, .. } => channels::note_delivery(db, tk, id, note, now),
        Record::PutChannel { channel, change } => channels::put(db, tk, channel, change, now),
        Record::AddFeedback(event) => feedback::add(db, tk, event),
        Record::PutFeedbackSession { session, expects } => feedback::put_session(db, tk, session, *expects),
        Record::PutLesson { lesson, expects } => lessons::put(db, tk, lesson, *expects),
        Record::CountLessons { ids, count } => lessons::count(db, tk, ids, *count, now),
        Record::MergeUser { from, into } => merge(db, tk, from, into),
        // They go to the outbox: see `outbox.rs`.
        Record::PutMemory(_)
        | Record::DropMemory { .. }
        | Record::DropMemories { .. }
        | Record::MoveMemories { .. }
        | Record::AddRating(_)
        | Record::AddCrisis(_)
        | Record::HoldCrisis { .. } => Ok(()),
    }
}

fn add_user(db: &Connection, tk: i64, user: &User) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO users (tk, id, name, role, suspended, merged_into, created_at, known_by, told_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        tk,
        user.id.as_str(),
        user.name,
        user.role.as_str(),
        user.suspended,
        user.merged_into.as_ref().map(UserId::as_str),
        user.created_at.as_micros(),
        user.known_by.map(KnownBy::as_str),
        user.told_at.map(Timestamp::as_micros),
    ])?;
    user.identities.iter().try_for_each(|identity| add_identity(db, tk, &user.id, identity))
}

fn put_link_code(
    db: &Connection,
    tk: i64,
    code: &LinkCode,
    hash: &str,
    now: Timestamp,
) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM link_codes WHERE tk = ?1 AND expires_at <= ?2")?
        .execute(params![tk, now.as_micros()])?;
    db.prepare_cached(
        "INSERT OR REPLACE INTO link_codes (tk, platform, external_id, hash, name, expires_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        tk,
        code.identity.platform,
        code.identity.external_id,
        hash,
        code.name,
        code.expires_at.as_micros(),
    ])
    .map(drop)
}

fn add_identity(db: &Connection, tk: i64, user: &UserId, identity: &Identity) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT OR IGNORE INTO identities (tk, platform, external_id, user_id) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![tk, identity.platform, identity.external_id, user.as_str()])
    .map(drop)
}

fn merge(db: &Connection, tk: i64, from: &UserId, into: &UserId) -> rusqlite::Result<()> {
    definitions::merge(db, tk, from, into)?;
    feedback::merge(db, tk, from, into)?;
    lessons::merge(db, tk, from, into)?;
    talk::merge(db, tk, from, into)?;
    let both = params![tk, from.as_str(), into.as_str()];
    for sql in [
        "UPDATE identities SET user_id = ?3 WHERE tk = ?1 AND user_id = ?2",
        "INSERT OR IGNORE INTO participants (sk, user_id, tk) \
         SELECT sk, ?3, tk FROM participants WHERE tk = ?1 AND user_id = ?2",
        "INSERT OR IGNORE INTO departures (sk, user_id, tk) \
         SELECT sk, ?3, tk FROM departures d WHERE tk = ?1 AND user_id = ?2 \
         AND NOT EXISTS (SELECT 1 FROM participants p WHERE p.sk = d.sk AND p.user_id = ?3)",
        // Heads first: the wide rows say which heads these are.
        "UPDATE session_heads SET holder = ?3, version = version + 1 \
         WHERE sk IN (SELECT sk FROM sessions WHERE tk = ?1 AND user_id = ?2)",
        "UPDATE sessions SET user_id = ?3 WHERE tk = ?1 AND user_id = ?2",
        "UPDATE approvals SET assigned_to = ?3 WHERE tk = ?1 AND assigned_to = ?2",
        "UPDATE users SET suspended = 1, merged_into = ?3 WHERE tk = ?1 AND id = ?2",
    ] {
        db.prepare_cached(sql)?.execute(both)?;
    }
    for sql in [
        "DELETE FROM participants WHERE tk = ?1 AND user_id = ?2",
        "DELETE FROM departures WHERE tk = ?1 AND user_id = ?2",
    ] {
        db.prepare_cached(sql)?.execute(params![tk, from.as_str()])?;
    }
    Ok(())
}

pub(super) fn write_audit(db: &Connection, tk: i64, audit: &Audit, now: Timestamp) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT INTO audit (tk, at, actor, action, target) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![tk, now.as_micros(), audit.actor, audit.action, audit.target])
        .map(drop)
}
