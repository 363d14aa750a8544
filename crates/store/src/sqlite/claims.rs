//! Claims: hands out pending sessions, highest priority first, then oldest. The single writer makes sure that each
//! has one winner. Every (type, agent) is probed on its own index, so the cost follows what is handed out and not
//! what is pending.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params, params_from_iter};
use sederunt_core::clock::Clock as _;
use sederunt_core::error::Result;
use sederunt_core::ids::SessionId;
use sederunt_core::session::Head;
use sederunt_core::store::{ClaimStore, Notice, StoreFuture};
use sederunt_core::work::decide::{ClaimEffects, HandOut};
use sederunt_core::work::{ClaimOrder, ClaimedRun};
use sederunt_core::{Error, Timestamp};

use super::fault::{WorkError, refuse};
use super::heads::{self, StoredHead};
use super::idempotency::{self, KeyEffect};
use super::writer::WriteTransaction;
use super::{SqliteStore, apply, definitions, events, sessions};

/// Which sessions a claim took, under which epochs.
#[derive(Debug, Default)]
pub(super) struct TakenSessions {
    taken: Vec<(i64, u64)>,
    /// By an earlier call with the same key.
    again: bool,
}

impl ClaimStore for SqliteStore {
    fn claim(&self, order: ClaimOrder) -> StoreFuture<'_, Vec<ClaimedRun>> {
        async move {
            let order = Arc::new(order);
            let asked = order.clone();
            let out: Result<_> = self.writer.run(move |tx| claim(tx, &asked)).await;
            let (out, now) = (out?, self.clock.now());
            self.read_inline(|db| claimed_sessions(db, &order, &out, now)).await
        }
        .boxed()
    }
}

/// Takes the sessions that an order asks for. Reads only what decides; the caller reads the whole rows afterwards
/// ([`claimed_sessions`]), outside of the writer.
fn claim(tx: &mut WriteTransaction<'_>, order: &ClaimOrder) -> Result<TakenSessions, WorkError<Error>> {
    let now = tx.now();
    let Some(tk) = tx.tenant(&order.tenant)? else { return Ok(TakenSessions::default()) };
    if let Some(key) = &order.key
        && let Some(used) = apply::find_key(tx, tk, key)?
    {
        return Ok(TakenSessions { taken: used.taken, again: true });
    }
    let mut hand_out = HandOut::new(order, now).or_else(refuse)?;
    let mut plan = Vec::with_capacity(order.limit);
    for mut waiting in sessions_to_hand_out(tx.db, tk, order)? {
        let taken = hand_out.take(&waiting.id, &mut waiting.head, &mut waiting.started_at).or_else(refuse)?;
        plan.push((waiting, taken));
    }
    Ok(write(tx, tk, order, plan, now)?)
}

/// The sessions that were handed out, as whole rows, if the same credential still holds them.
fn claimed_sessions(
    db: &Connection,
    order: &ClaimOrder,
    out: &TakenSessions,
    now: Timestamp,
) -> rusqlite::Result<Vec<ClaimedRun>> {
    let mut held = Vec::with_capacity(out.taken.len());
    let mut rows = sessions::ByKey::of(db)?;
    for (sk, epoch) in &out.taken {
        if let Some(session) = rows.get(&order.tenant, *sk)?
            && session.head.holds(&order.credential, *epoch, now)
            && let Some(claim) = &session.head.claim
        {
            let lease_until = claim.lease_until;
            held.push(ClaimedRun { epoch: *epoch, lease_until, again: out.again, session });
        }
    }
    Ok(held)
}

/// A pending session, and what decides whether it may be handed out.
struct PendingSession {
    sk: i64,
    id: SessionId,
    head: Head,
    started_at: Option<Timestamp>,
    task: Option<Box<str>>,
    agent: Option<Box<str>>,
    /// Its agent has a limit of runs, and this one counts.
    counted: bool,
}

impl PendingSession {
    const BY_KEY: &str = concat!(
        "SELECT ",
        heads::columns!(),
        ", h.id, h.started_at, s.task_id, h.agent_slug FROM ",
        heads::tables!(),
        " JOIN sessions s ON s.sk = h.sk WHERE h.sk = ?1"
    );

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let at = |column: usize| heads::COLUMN_COUNT + column;
        let StoredHead { sk, head, .. } = heads::read(row)?;
        Ok(Self {
            sk,
            id: SessionId::stored(row.get_ref(at(0))?.as_str()?),
            head,
            started_at: row.get::<_, Option<i64>>(at(1))?.map(Timestamp::from_micros),
            task: row.get(at(2))?,
            agent: row.get(at(3))?,
            counted: false,
        })
    }
}

/// The sessions to hand out. A session of an inactive task is held, once, until the task is active again. Agents that
/// have as many runs as they may are passed over.
fn sessions_to_hand_out(
    db: &Connection,
    tk: i64,
    order: &ClaimOrder,
) -> rusqlite::Result<Vec<PendingSession>> {
    let mut found: Vec<PendingSession> = Vec::with_capacity(order.limit);
    let mut rooms: HashMap<Box<str>, Option<i64>> = HashMap::new();
    let mut full: Vec<String> = Vec::new();
    let mut by_key = db.prepare_cached(PendingSession::BY_KEY)?;
    let mut inactive =
        InactiveTasks { statement: db.prepare_cached(definitions::INACTIVE)?, known: HashMap::new() };
    loop {
        let mut again = false;
        for sk in oldest_pending(db, tk, order, &full)? {
            if found.len() == order.limit || found.iter().any(|known| known.sk == sk) {
                continue;
            }
            let Some(mut waiting) = by_key.query_row([sk], PendingSession::read).optional()? else {
                continue;
            };
            if let Some(task) = &waiting.task
                && inactive.is(tk, task)?
            {
                db.prepare_cached("UPDATE session_heads SET held = 1 WHERE sk = ?1")?.execute([sk])?;
                again = true;
                continue;
            }
            if let Some(agent) = &waiting.agent {
                if !rooms.contains_key(agent) {
                    rooms.insert(agent.clone(), definitions::room_of(db, tk, agent)?);
                }
                if let Some(Some(left)) = rooms.get_mut(agent) {
                    waiting.counted = true;
                    *left -= 1;
                    if *left < 0 {
                        again |= !full.iter().any(|known| **known == **agent);
                        full.push(agent.to_string());
                        continue;
                    }
                }
            }
            found.push(waiting);
        }
        if !again || found.len() == order.limit {
            found.sort_by_key(|waiting| (std::cmp::Reverse(waiting.head.priority), waiting.sk));
            return Ok(found);
        }
    }
}

/// Looks up whether tasks are inactive, each once.
struct InactiveTasks<'a> {
    statement: CachedStatement<'a>,
    known: HashMap<Box<str>, bool>,
}

impl InactiveTasks<'_> {
    fn is(&mut self, tk: i64, task: &str) -> rusqlite::Result<bool> {
        if let Some(known) = self.known.get(task) {
            return Ok(*known);
        }
        let inactive = self.statement.exists(params![tk, task])?;
        self.known.insert(task.into(), inactive);
        Ok(inactive)
    }
}

fn write(
    tx: &mut WriteTransaction<'_>,
    tk: i64,
    order: &ClaimOrder,
    plan: Vec<(PendingSession, ClaimEffects)>,
    now: Timestamp,
) -> rusqlite::Result<TakenSessions> {
    let db = tx.db;
    let mut take = db.prepare_cached(heads::TAKE)?;
    let mut take_counted = db.prepare_cached(heads::TAKE_COUNTED)?;
    let mut move_tail = db.prepare_cached(heads::MOVE_TAIL)?;
    let mut set_status = db.prepare_cached(sessions::SET_STATUS)?;
    let mut set_status_and_minute = db.prepare_cached(sessions::SET_STATUS_AND_MINUTE)?;
    let mut taken = Vec::with_capacity(plan.len());
    for (PendingSession { sk, id, head, started_at, counted, .. }, ClaimEffects { events, minute }) in plan {
        let take = if counted { &mut take_counted } else { &mut take };
        heads::take(take, sk, &head, started_at)?;
        move_tail.execute(params![sk, head.last_sequence.cast_signed(), head.last_at.as_micros()])?;
        match minute {
            None => set_status.execute(params![sk, head.status.as_str()])?,
            Some(minute) => set_status_and_minute.execute(params![sk, head.status.as_str(), minute])?,
        };
        for event in &events {
            events::insert(tx.statements.event()?, sk, event)?;
        }
        tx.forget_head(tk, &id);
        taken.push((sk, head.epoch));
        tx.announce(Notice {
            tenant: order.tenant.clone(),
            session: id,
            incarnation: head.incarnation,
            last_sequence: head.last_sequence,
            events,
            status: head.status,
            row_changed: true,
            deleted: false,
        });
    }
    // A claim that found nothing leaves no key: its worker waits and asks again under the same one.
    if let Some(key) = &order.key
        && !taken.is_empty()
    {
        let done = KeyEffect { taken: &taken, ..KeyEffect::default() };
        idempotency::remember(tx.statements.remember_key()?, tx.pending_keys, tk, key, &done, now)?;
    }
    Ok(TakenSessions { taken, again: false })
}

fn oldest_pending(
    db: &Connection,
    tk: i64,
    order: &ClaimOrder,
    full: &[String],
) -> rusqlite::Result<Vec<i64>> {
    let limit = i64::try_from(order.limit).unwrap_or(i64::MAX);
    let read =
        |row: &rusqlite::Row<'_>| Ok((std::cmp::Reverse(row.get::<_, i64>(0)?), row.get::<_, i64>(1)?));
    let mut waiting = Vec::new();
    for session_type in &order.session_types {
        if order.agent_slugs.is_empty() {
            let others = if full.is_empty() {
                ""
            } else {
                "AND (agent_slug IS NULL OR agent_slug NOT IN (SELECT value FROM json_each(?4)))"
            };
            let mut probe = db.prepare_cached(&format!(
                "SELECT priority, sk FROM session_heads INDEXED BY pending_by_type \
                 WHERE status = 'pending' AND held = 0 AND tk = ?1 AND session_type = ?2 {others} \
                 ORDER BY priority DESC, sk LIMIT ?3"
            ))?;
            let mut values: Vec<Value> =
                vec![tk.into(), session_type.as_str().to_owned().into(), limit.into()];
            if !full.is_empty() {
                values.push(serde_json::Value::from(full).to_string().into());
            }
            for row in probe.query_map(params_from_iter(values), read)? {
                waiting.push(row?);
            }
        }
        for agent in order.agent_slugs.iter().filter(|agent| !full.contains(agent)) {
            let mut probe = db.prepare_cached(
                "SELECT priority, sk FROM session_heads INDEXED BY pending_by_agent \
                 WHERE status = 'pending' AND held = 0 AND tk = ?1 AND session_type = ?2 AND agent_slug = ?3 \
                 ORDER BY priority DESC, sk LIMIT ?4",
            )?;
            for row in probe.query_map(params![tk, session_type.as_str(), agent, limit], read)? {
                waiting.push(row?);
            }
        }
    }
    waiting.sort_unstable();
    waiting.dedup();
    waiting.truncate(order.limit);
    Ok(waiting.into_iter().map(|(_, sk)| sk).collect())
}
