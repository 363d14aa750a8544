//! Channels: what they were told, their conversations, and what is to be sent.

use sederunt_core::channel::{
    ChannelFigures, ChannelLease, ChannelState, ChannelStateChange, ConversationKey, Delivery, DeliveryNote,
    DeliveryState, EpochRule, LeaseChange,
};
use sederunt_core::error::Error;
use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::store::{ChannelStore, StoreFuture};
use sederunt_core::time::Timestamp;
use tokio_postgres::Row;

use super::fault::Result;
use super::rows::Columns;
use super::tx::{Scope, Tx, int, within};
use super::{PostgresStore, read};

const DELIVERY: &str =
    "SELECT d.id, d.channel, d.chat, d.thread, s.id, d.turn_seq, d.end_seq, d.sentence, d.state,
     d.parts_sent, d.message_ids, d.attempts, d.due_at, d.filed_at, d.reason FROM channel_deliveries d
     JOIN sessions s ON s.tk = d.tk AND s.sk = d.sk";

impl ChannelStore for PostgresStore {
    fn channel<'a>(&'a self, tenant: &'a TenantId, name: &'a str) -> StoreFuture<'a, Option<ChannelState>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
            let sql = "SELECT paused, lease_node, lease_until, epoch, cursor, error, error_at FROM channels
                 WHERE tk = $1 AND name = $2";
            let rows = self.context.read(Scope::Tenant(tk), sql, &[&tk, &name]).await?;
            rows.first().map(state).transpose()
        })
    }

    fn channel_figures<'a>(&'a self, tenant: &'a TenantId, name: &'a str) -> StoreFuture<'a, ChannelFigures> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(ChannelFigures::default()) };
            let sql = "SELECT (SELECT max(at) FROM channel_updates WHERE tk = $1 AND channel = $2),
                 count(*) FILTER (WHERE state = 'waiting'), min(filed_at) FILTER (WHERE state = 'waiting'),
                 count(*) FILTER (WHERE state = 'given_up') FROM channel_deliveries WHERE tk = $1 AND channel = $2";
            let rows = self.context.read(Scope::Tenant(tk), sql, &[&tk, &name]).await?;
            let Some(row) = rows.first() else { return Ok(ChannelFigures::default()) };
            let mut columns = Columns::of(row);
            Ok(ChannelFigures {
                heard_at: columns.time_if()?,
                waiting: columns.number()?,
                waiting_since: columns.time_if()?,
                given_up: columns.number()?,
            })
        })
    }

    fn conversation_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        key: &'a ConversationKey,
    ) -> StoreFuture<'a, Option<SessionId>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
            let sql =
                "SELECT s.id FROM channel_conversations c JOIN sessions s ON s.tk = c.tk AND s.sk = c.sk
                 WHERE c.tk = $1 AND c.channel = $2 AND c.chat = $3 AND c.thread = $4";
            let of: [super::tx::Param<'_>; 4] = [&tk, &&*key.channel, &&*key.chat, &&*key.thread];
            let rows = self.context.read(Scope::Tenant(tk), sql, &of).await?;
            rows.first().map(|row| Ok(SessionId::stored(row.try_get::<_, &str>(0)?))).transpose()
        })
    }

    fn has_channel_update<'a>(
        &'a self,
        tenant: &'a TenantId,
        channel: &'a str,
        update_key: &'a str,
    ) -> StoreFuture<'a, bool> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(false) };
            let sql = "SELECT 1 FROM channel_updates WHERE tk = $1 AND channel = $2 AND update_key = $3";
            let rows = self.context.read(Scope::Tenant(tk), sql, &[&tk, &channel, &update_key]).await?;
            Ok(!rows.is_empty())
        })
    }

    fn due_deliveries<'a>(
        &'a self,
        tenant: &'a TenantId,
        channel: &'a str,
        now: Timestamp,
        limit: usize,
    ) -> StoreFuture<'a, Vec<Delivery>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Vec::new()) };
            let sql = format!(
                "{DELIVERY} WHERE d.tk = $1 AND d.channel = $2 AND d.state = 'waiting' AND d.due_at <= $3
                 AND NOT EXISTS (SELECT 1 FROM channel_deliveries e WHERE e.tk = $1 AND e.channel = $2
                     AND e.chat = d.chat AND e.thread = d.thread AND e.state = 'waiting' AND e.n < d.n)
                 ORDER BY d.n LIMIT $4"
            );
            let of: [super::tx::Param<'_>; 4] = [&tk, &channel, &now.as_micros(), &int(limit as u64)];
            let rows = self.context.read(Scope::Tenant(tk), &sql, &of).await?;
            rows.iter().map(delivery).collect()
        })
    }

    fn deliveries<'a>(
        &'a self,
        tenant: &'a TenantId,
        channel: &'a str,
        state: DeliveryState,
        limit: usize,
    ) -> StoreFuture<'a, Vec<Delivery>> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(Vec::new()) };
            let sql = format!(
                "{DELIVERY} WHERE d.tk = $1 AND d.channel = $2 AND d.state = $3 ORDER BY d.n DESC LIMIT $4"
            );
            let of: [super::tx::Param<'_>; 4] = [&tk, &channel, &state.as_str(), &int(limit as u64)];
            let rows = self.context.read(Scope::Tenant(tk), &sql, &of).await?;
            rows.iter().map(delivery).collect()
        })
    }

    fn forget_channel_updates<'a>(
        &'a self,
        tenant: &'a TenantId,
        channel: &'a str,
        before: Timestamp,
        limit: usize,
    ) -> StoreFuture<'a, u64> {
        read(async move {
            let Some(tk) = self.context.tk(tenant).await? else { return Ok(0) };
            let (before, limit) = (before.as_micros(), int(limit as u64));
            within(async {
                let tx = self.context.begin(Scope::Tenant(tk)).await?;
                let mut gone = 0;
                for sql in [
                    "DELETE FROM channel_updates WHERE tk = $1 AND channel = $2 AND update_key IN
                         (SELECT update_key FROM channel_updates WHERE tk = $1 AND channel = $2 AND at < $3 LIMIT $4)",
                    "DELETE FROM channel_deliveries WHERE tk = $1 AND n IN (SELECT n FROM channel_deliveries
                         WHERE tk = $1 AND channel = $2 AND state = 'given_up' AND filed_at < $3 LIMIT $4)",
                ] {
                    gone += tx.execute(sql, &[&tk, &channel, &before, &limit]).await?;
                }
                tx.commit().await?;
                Ok(gone)
            })
            .await
        })
    }
}

fn state(row: &Row) -> Result<ChannelState> {
    let mut columns = Columns::of(row);
    let paused = columns.take()?;
    let lease = match (columns.text()?, columns.time_if()?) {
        (Some(node), Some(until)) => Some(ChannelLease { node, until }),
        _ => None,
    };
    let (epoch, cursor) = (columns.number()?, columns.text()?);
    let error = columns.text()?.zip(columns.time_if()?);
    Ok(ChannelState { paused, lease, epoch, cursor, error })
}

fn delivery(row: &Row) -> Result<Delivery> {
    let mut columns = Columns::of(row);
    let mut word = || columns.take::<&str>().map(Box::<str>::from);
    let (id, channel, chat, thread, session) = (word()?, word()?, word()?, word()?, word()?);
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Ok(Delivery {
        id,
        key: ConversationKey { channel, chat, thread },
        session: SessionId::stored(session),
        turn: columns.number()?,
        sequence: columns.number()?,
        text: columns.text()?,
        state: columns.word(DeliveryState::parse)?,
        parts_sent: small(columns.number()?),
        message_ids: serde_json::from_str(columns.take()?).map_err(Error::internal)?,
        attempts: small(columns.number()?),
        due_at: columns.time()?,
        filed_at: columns.time()?,
        reason: columns.text()?,
    })
}

/// Returns the rows written: none if the channel was told this before.
pub(super) async fn add_update(
    tx: &Tx,
    tk: i32,
    channel: &str,
    update_key: &str,
    now: Timestamp,
) -> Result<u64> {
    let sql = "INSERT INTO channel_updates (tk, channel, update_key, at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
    tx.execute(sql, &[&tk, &channel, &update_key, &now.as_micros()]).await
}

/// Returns the rows written: none if the conversation is held in another session than the one that was looked at.
pub(super) async fn bind(
    tx: &Tx,
    tk: i32,
    key: &ConversationKey,
    session: &SessionId,
    instead_of: Option<&SessionId>,
) -> Result<u64> {
    let (channel, chat, thread) = (&*key.channel, &*key.chat, &*key.thread);
    match instead_of {
        None => {
            let sql = "INSERT INTO channel_conversations (tk, channel, chat, thread, sk)
                 SELECT $1, $2, $3, $4, s.sk FROM sessions s WHERE s.tk = $1 AND s.id = $5 ON CONFLICT DO NOTHING";
            tx.execute(sql, &[&tk, &channel, &chat, &thread, &session.as_str()]).await
        }
        Some(before) => {
            let sql = "UPDATE channel_conversations SET sk = (SELECT s.sk FROM sessions s WHERE s.tk = $1 AND s.id = $5)
                 WHERE tk = $1 AND channel = $2 AND chat = $3 AND thread = $4
                     AND sk = (SELECT s.sk FROM sessions s WHERE s.tk = $1 AND s.id = $6)";
            let of: [super::tx::Param<'_>; 6] =
                [&tk, &channel, &chat, &thread, &session.as_str(), &before.as_str()];
            tx.execute(sql, &of).await
        }
    }
}

/// Adds a delivery of a session that cannot be deleted meanwhile, unless it is filed already.
pub(super) async fn add_delivery(tx: &Tx, tk: i32, delivery: &Delivery) -> Result<()> {
    let sql = "INSERT INTO channel_deliveries (tk, id, channel, chat, thread, sk, turn_seq, end_seq, sentence, state,
             parts_sent, message_ids, attempts, due_at, filed_at, reason)
         SELECT $1, $2, $3, $4, $5, h.sk, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16 FROM sessions s
         JOIN session_heads h ON h.tk = s.tk AND h.sk = s.sk WHERE s.tk = $1 AND s.id = $6 FOR KEY SHARE OF h
         ON CONFLICT (tk, id) DO NOTHING";
    tx.execute(
        sql,
        &[
            &tk,
            &&*delivery.id,
            &&*delivery.key.channel,
            &&*delivery.key.chat,
            &&*delivery.key.thread,
            &delivery.session.as_str(),
            &int(delivery.turn),
            &int(delivery.sequence),
            &delivery.text.as_deref(),
            &delivery.state.as_str(),
            &i64::from(delivery.parts_sent),
            &serde_json::to_string(&delivery.message_ids).map_err(Error::internal)?,
            &i64::from(delivery.attempts),
            &delivery.due_at.as_micros(),
            &delivery.filed_at.as_micros(),
            &delivery.reason.as_deref(),
        ],
    )
    .await
    .map(drop)
}

pub(super) async fn note_delivery(
    tx: &Tx,
    tk: i32,
    id: &str,
    note: &DeliveryNote,
    now: Timestamp,
) -> Result<()> {
    match note {
        DeliveryNote::Shown { parts_sent, message_ids } => {
            let sql =
                "UPDATE channel_deliveries SET parts_sent = $3, message_ids = $4, attempts = 0, reason = NULL
                 WHERE tk = $1 AND id = $2";
            let ids = serde_json::to_string(message_ids).map_err(Error::internal)?;
            tx.execute(sql, &[&tk, &id, &i64::from(*parts_sent), &ids]).await
        }
        DeliveryNote::Later { after, reason } => {
            let sql = "UPDATE channel_deliveries SET attempts = attempts + 1, due_at = $3, reason = $4
                 WHERE tk = $1 AND id = $2";
            tx.execute(sql, &[&tk, &id, &now.plus(*after).as_micros(), &&**reason]).await
        }
        DeliveryNote::Sent => {
            tx.execute("DELETE FROM channel_deliveries WHERE tk = $1 AND id = $2", &[&tk, &id]).await
        }
        DeliveryNote::GivenUp { reason } => {
            let sql =
                "UPDATE channel_deliveries SET state = 'given_up', reason = $3 WHERE tk = $1 AND id = $2";
            tx.execute(sql, &[&tk, &id, &reason.as_str()]).await
        }
    }
    .map(drop)
}

/// Returns whether the row is as the change expects it.
pub(super) async fn put(
    tx: &Tx,
    tk: i32,
    channel: &str,
    change: &ChannelStateChange,
    now: Timestamp,
) -> Result<bool> {
    let sql = "INSERT INTO channels (tk, name) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    let made = tx.execute(sql, &[&tk, &channel]).await? > 0;
    if change.epoch == EpochRule::Seen(None) && !made {
        return Ok(false);
    }
    match &change.lease {
        Some(LeaseChange::Take { node, lease }) => {
            let sql = "UPDATE channels SET epoch = epoch + 1, lease_node = $3, lease_until = $4
                 WHERE tk = $1 AND name = $2";
            tx.execute(sql, &[&tk, &channel, &&**node, &now.plus(*lease).as_micros()]).await?;
        }
        Some(LeaseChange::Renew(lease)) => {
            let sql = "UPDATE channels SET lease_until = $3 WHERE tk = $1 AND name = $2";
            tx.execute(sql, &[&tk, &channel, &now.plus(*lease).as_micros()]).await?;
        }
        Some(LeaseChange::Release) => {
            let sql = "UPDATE channels SET lease_node = NULL, lease_until = NULL WHERE tk = $1 AND name = $2";
            tx.execute(sql, &[&tk, &channel]).await?;
        }
        None => {}
    }
    let sql = "UPDATE channels SET paused = coalesce($3, paused), cursor = coalesce($4, cursor),
             error = CASE WHEN $5 THEN $6 ELSE error END, error_at = CASE WHEN $5 THEN $7 ELSE error_at END
         WHERE tk = $1 AND name = $2";
    let error = change.error.as_ref().and_then(Option::as_deref);
    let error_at = error.map(|_| now.as_micros());
    let of: [super::tx::Param<'_>; 7] = [
        &tk,
        &channel,
        &change.paused,
        &change.cursor.as_deref(),
        &change.error.is_some(),
        &error,
        &error_at,
    ];
    tx.execute(sql, &of).await?;
    Ok(true)
}
