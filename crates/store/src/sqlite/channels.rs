//! Channels: what they were told, their conversations, and what is to be sent.

use futures_util::FutureExt as _;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sederunt_core::Timestamp;
use sederunt_core::channel::{
    ChannelFigures, ChannelLease, ChannelState, ChannelStateChange, ConversationKey, Delivery, DeliveryNote,
    DeliveryState, LeaseChange,
};
use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::store::{ChannelStore, StoreFuture};

use super::fault::{unknown_word, unreadable, unwritable};
use super::heads::text;
use super::people::instant;
use super::{SqliteStore, tenants};

const DELIVERY: &str = "SELECT d.id, d.channel, d.chat, d.thread, h.id, d.turn_seq, d.end_seq, d.sentence, d.state, \
     d.parts_sent, d.message_ids, d.attempts, d.due_at, d.filed_at, d.reason FROM channel_deliveries d \
     JOIN session_heads h ON h.sk = d.sk";

impl ChannelStore for SqliteStore {
    fn channel<'a>(&'a self, tenant: &'a TenantId, name: &'a str) -> StoreFuture<'a, Option<ChannelState>> {
        self.read_on_writer(move |db| {
            db.prepare_cached(
                "SELECT c.paused, c.lease_node, c.lease_until, c.epoch, c.cursor, c.error, c.error_at \
                 FROM channels c JOIN tenants t ON t.tk = c.tk WHERE t.id = ?1 AND c.name = ?2",
            )?
            .query_row([tenant.as_str(), name], state)
            .optional()
        })
        .boxed()
    }

    fn channel_figures<'a>(&'a self, tenant: &'a TenantId, name: &'a str) -> StoreFuture<'a, ChannelFigures> {
        let name = name.to_owned();
        self.read_tenant(tenant, move |db, tk| {
            let of = params![tk, name];
            let heard_at = db
                .prepare_cached("SELECT max(at) FROM channel_updates WHERE tk = ?1 AND channel = ?2")?
                .query_row(of, |row| instant(row, 0))?;
            let counted = |state: DeliveryState| {
                db.prepare_cached(
                    "SELECT count(*), min(filed_at) FROM channel_deliveries \
                     WHERE tk = ?1 AND channel = ?2 AND state = ?3",
                )?
                .query_row(params![tk, name, state.as_str()], |row| {
                    Ok((row.get::<_, i64>(0)?.cast_unsigned(), instant(row, 1)?))
                })
            };
            let (waiting, waiting_since) = counted(DeliveryState::Waiting)?;
            let (given_up, _) = counted(DeliveryState::GivenUp)?;
            Ok(ChannelFigures { heard_at, waiting, waiting_since, given_up })
        })
        .boxed()
    }

    fn conversation_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        key: &'a ConversationKey,
    ) -> StoreFuture<'a, Option<SessionId>> {
        self.read_on_writer(move |db| {
            let Some(tk) = tenants::key_of(db, tenant)? else { return Ok(None) };
            Ok(held_in(db, tk, &key.channel, &key.place())?.map(SessionId::stored))
        })
        .boxed()
    }

    fn has_channel_update<'a>(
        &'a self,
        tenant: &'a TenantId,
        channel: &'a str,
        update_key: &'a str,
    ) -> StoreFuture<'a, bool> {
        self.read_on_writer(move |db| {
            let Some(tk) = tenants::key_of(db, tenant)? else { return Ok(false) };
            was_told(db, tk, channel, update_key)
        })
        .boxed()
    }

    fn due_deliveries<'a>(
        &'a self,
        tenant: &'a TenantId,
        channel: &'a str,
        now: Timestamp,
        limit: usize,
    ) -> StoreFuture<'a, Vec<Delivery>> {
        let channel = channel.to_owned();
        self.read_tenant(tenant, move |db, tk| {
            db.prepare_cached(&format!(
                "{DELIVERY} WHERE d.tk = ?1 AND d.channel = ?2 AND d.state = 'waiting' AND d.due_at <= ?3 \
                 AND NOT EXISTS (SELECT 1 FROM channel_deliveries e WHERE e.tk = ?1 AND e.channel = ?2 \
                     AND e.chat = d.chat AND e.thread = d.thread AND e.state = 'waiting' AND e.n < d.n) \
                 ORDER BY d.n LIMIT ?4"
            ))?
            .query_map(params![tk, channel, now.as_micros(), size(limit)], delivery)?
            .collect()
        })
        .boxed()
    }

    fn deliveries<'a>(
        &'a self,
        tenant: &'a TenantId,
        channel: &'a str,
        state: DeliveryState,
        limit: usize,
    ) -> StoreFuture<'a, Vec<Delivery>> {
        let channel = channel.to_owned();
        self.read_tenant(tenant, move |db, tk| {
            db.prepare_cached(&format!(
                "{DELIVERY} WHERE d.tk = ?1 AND d.channel = ?2 AND d.state = ?3 ORDER BY d.n DESC LIMIT ?4"
            ))?
            .query_map(params![tk, channel, state.as_str(), size(limit)], delivery)?
            .collect()
        })
        .boxed()
    }

    fn forget_channel_updates<'a>(
        &'a self,
        tenant: &'a TenantId,
        channel: &'a str,
        before: Timestamp,
        limit: usize,
    ) -> StoreFuture<'a, u64> {
        let (tenant, channel) = (tenant.clone(), channel.to_owned());
        self.writer
            .run(move |tx| {
                let Some(tk) = tx.tenant(&tenant)? else { return Ok(0) };
                let mut gone = 0;
                for sql in [
                    "DELETE FROM channel_updates WHERE tk = ?1 AND channel = ?2 AND update_key IN \
                     (SELECT update_key FROM channel_updates WHERE tk = ?1 AND channel = ?2 AND at < ?3 LIMIT ?4)",
                    "DELETE FROM channel_deliveries WHERE n IN (SELECT n FROM channel_deliveries \
                     WHERE tk = ?1 AND channel = ?2 AND state = 'given_up' AND filed_at < ?3 LIMIT ?4)",
                ] {
                    let of = params![tk, channel, before.as_micros(), size(limit)];
                    gone += tx.db.prepare_cached(sql)?.execute(of)? as u64;
                }
                Ok(gone)
            })
            .boxed()
    }
}

fn size(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn state(row: &Row<'_>) -> rusqlite::Result<ChannelState> {
    let lease = match (text(row, 1)?, instant(row, 2)?) {
        (Some(node), Some(until)) => Some(ChannelLease { node: node.into(), until }),
        _ => None,
    };
    let error = match (text(row, 5)?, instant(row, 6)?) {
        (Some(error), Some(at)) => Some((error.into(), at)),
        _ => None,
    };
    Ok(ChannelState {
        paused: row.get(0)?,
        lease,
        epoch: row.get::<_, i64>(3)?.cast_unsigned(),
        cursor: text(row, 4)?.map(Into::into),
        error,
    })
}

fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    let state = row.get_ref(8)?.as_str()?;
    let number = |at: usize| row.get::<_, i64>(at).map(i64::cast_unsigned);
    let small = |at: usize| row.get::<_, i64>(at).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    Ok(Delivery {
        id: row.get(0)?,
        key: ConversationKey { channel: row.get(1)?, chat: row.get(2)?, thread: row.get(3)? },
        session: SessionId::stored(row.get_ref(4)?.as_str()?),
        turn: number(5)?,
        sequence: number(6)?,
        text: row.get(7)?,
        state: DeliveryState::parse(state).ok_or_else(|| unknown_word(state))?,
        parts_sent: small(9)?,
        message_ids: serde_json::from_str(row.get_ref(10)?.as_str()?).map_err(unreadable)?,
        attempts: small(11)?,
        due_at: Timestamp::from_micros(row.get(12)?),
        filed_at: Timestamp::from_micros(row.get(13)?),
        reason: row.get(14)?,
    })
}

/// The session that a conversation is held in, by its channel and its place.
pub(super) fn held_in(
    db: &Connection,
    tk: i64,
    channel: &str,
    place: &str,
) -> rusqlite::Result<Option<Box<str>>> {
    let (chat, thread) = place.split_once('\n').unwrap_or((place, ""));
    db.prepare_cached(
        "SELECT h.id FROM channel_conversations c JOIN session_heads h ON h.sk = c.sk \
         WHERE c.tk = ?1 AND c.channel = ?2 AND c.chat = ?3 AND c.thread = ?4",
    )?
    .query_row(params![tk, channel, chat, thread], |row| row.get(0))
    .optional()
}

pub(super) fn was_told(db: &Connection, tk: i64, channel: &str, update_key: &str) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM channel_updates WHERE tk = ?1 AND channel = ?2 AND update_key = ?3")?
        .exists(params![tk, channel, update_key])
}

pub(super) fn add_update(
    db: &Connection,
    tk: i64,
    channel: &str,
    update_key: &str,
    now: Timestamp,
) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT INTO channel_updates (tk, channel, update_key, at) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![tk, channel, update_key, now.as_micros()])
        .map(drop)
}

pub(super) fn bind(
    db: &Connection,
    tk: i64,
    key: &ConversationKey,
    session: &SessionId,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO channel_conversations (tk, channel, chat, thread, sk) \
         SELECT ?1, ?2, ?3, ?4, sk FROM session_heads WHERE tk = ?1 AND id = ?5 \
         ON CONFLICT (tk, channel, chat, thread) DO UPDATE SET sk = excluded.sk",
    )?
    .execute(params![tk, key.channel, key.chat, key.thread, session.as_str()])
    .map(drop)
}

pub(super) fn add_delivery(db: &Connection, tk: i64, delivery: &Delivery) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO channel_deliveries (tk, id, channel, chat, thread, sk, turn_seq, end_seq, sentence, state, \
         parts_sent, message_ids, attempts, due_at, filed_at, reason) \
         SELECT ?1, ?2, ?3, ?4, ?5, sk, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16 FROM session_heads \
         WHERE tk = ?1 AND id = ?6 ON CONFLICT (tk, id) DO NOTHING",
    )?
    .execute(params![
        tk,
        delivery.id,
        delivery.key.channel,
        delivery.key.chat,
        delivery.key.thread,
        delivery.session.as_str(),
        delivery.turn.cast_signed(),
        delivery.sequence.cast_signed(),
        delivery.text,
        delivery.state.as_str(),
        delivery.parts_sent,
        serde_json::to_string(&delivery.message_ids).map_err(unwritable)?,
        delivery.attempts,
        delivery.due_at.as_micros(),
        delivery.filed_at.as_micros(),
        delivery.reason,
    ])
    .map(drop)
}

pub(super) fn note_delivery(
    db: &Connection,
    tk: i64,
    id: &str,
    note: &DeliveryNote,
    now: Timestamp,
) -> rusqlite::Result<()> {
    match note {
        DeliveryNote::Shown { parts_sent, message_ids } => db
            .prepare_cached(
                "UPDATE channel_deliveries SET parts_sent = ?3, message_ids = ?4, attempts = 0, reason = NULL \
                 WHERE tk = ?1 AND id = ?2",
            )?
            .execute(params![tk, id, parts_sent, serde_json::to_string(message_ids).map_err(unwritable)?]),
        DeliveryNote::Later { after, reason } => db
            .prepare_cached(
                "UPDATE channel_deliveries SET attempts = attempts + 1, due_at = ?3, reason = ?4 \
                 WHERE tk = ?1 AND id = ?2",
            )?
            .execute(params![tk, id, now.plus(*after).as_micros(), reason]),
        DeliveryNote::Sent => db
            .prepare_cached("DELETE FROM channel_deliveries WHERE tk = ?1 AND id = ?2")?
            .execute(params![tk, id]),
        DeliveryNote::GivenUp { reason } => db
            .prepare_cached(
                "UPDATE channel_deliveries SET state = 'given_up', reason = ?3 WHERE tk = ?1 AND id = ?2",
            )?
            .execute(params![tk, id, reason.as_str()]),
    }
    .map(drop)
}

pub(super) fn put(
    db: &Connection,
    tk: i64,
    channel: &str,
    change: &ChannelStateChange,
    now: Timestamp,
) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR IGNORE INTO channels (tk, name) VALUES (?1, ?2)")?
        .execute(params![tk, channel])?;
    match &change.lease {
        Some(LeaseChange::Take { node, lease }) => db
            .prepare_cached(
                "UPDATE channels SET epoch = epoch + 1, lease_node = ?3, lease_until = ?4 \
                 WHERE tk = ?1 AND name = ?2",
            )?
            .execute(params![tk, channel, node, now.plus(*lease).as_micros()])?,
        Some(LeaseChange::Renew(lease)) => db
            .prepare_cached("UPDATE channels SET lease_until = ?3 WHERE tk = ?1 AND name = ?2")?
            .execute(params![tk, channel, now.plus(*lease).as_micros()])?,
        Some(LeaseChange::Release) => db
            .prepare_cached(
                "UPDATE channels SET lease_node = NULL, lease_until = NULL WHERE tk = ?1 AND name = ?2",
            )?
            .execute(params![tk, channel])?,
        None => 0,
    };
    db.prepare_cached(
        "UPDATE channels SET paused = coalesce(?3, paused), cursor = coalesce(?4, cursor), \
         error = CASE WHEN ?5 THEN ?6 ELSE error END, error_at = CASE WHEN ?5 THEN ?7 ELSE error_at END \
         WHERE tk = ?1 AND name = ?2",
    )?
    .execute(params![
        tk,
        channel,
        change.paused,
        change.cursor,
        change.error.is_some(),
        change.error.as_ref().and_then(Option::as_ref),
        change.error.as_ref().and_then(Option::as_ref).map(|_| now.as_micros()),
    ])
    .map(drop)
}
