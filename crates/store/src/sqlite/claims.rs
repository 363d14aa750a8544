//! Handing out pending sessions: highest priority first, then oldest, one winner each by the nature
//! of a single writer. Every (type, agent) is probed on its own index, so the cost follows what is
//! handed out and not what is waiting.

use std::collections::BTreeMap;

use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};
use sederunt_core::session::Session;
use sederunt_core::store::Notice;
use sederunt_core::work::decide::{HandOut, Taken};
use sederunt_core::work::{ClaimOrder, Claimed};
use sederunt_core::{Error, Timestamp};

use super::fault::{Trouble, refuse};
use super::idempotency::{self, Done};
use super::writer::Ledger;
use super::{apply, events, heads, library, sessions};

pub(super) fn claim(ledger: &mut Ledger<'_>, order: &ClaimOrder) -> Result<Vec<Claimed>, Trouble<Error>> {
    let now = ledger.now();
    let Some(tk) = ledger.tenant(&order.tenant)? else { return Ok(Vec::new()) };
    if let Some(key) = &order.key
        && let Some(used) = apply::used(ledger, tk, key)?
    {
        return Ok(still_held(ledger.db, order, &used.taken, now)?);
    }
    let mut hand_out = HandOut::new(order, now).or_else(refuse)?;
    let mut plan = Vec::with_capacity(order.limit);
    for (sk, mut session) in found(ledger.db, tk, order)? {
        let taken = hand_out.take(&mut session).or_else(refuse)?;
        plan.push((sk, session, taken));
    }
    Ok(write(ledger, tk, order, plan, now)?)
}

/// The sessions to hand out. Whatever waits for a task that is not active is set aside on the way, once, until the
/// task is active again; agents that have all the runs they may are passed over.
fn found(db: &Connection, tk: i64, order: &ClaimOrder) -> rusqlite::Result<Vec<(i64, Session)>> {
    let mut found: Vec<(i64, Session)> = Vec::with_capacity(order.limit);
    let mut rooms: BTreeMap<String, Option<i64>> = BTreeMap::new();
    let mut full: Vec<String> = Vec::new();
    let mut rows = sessions::ByKey::of(db)?;
    let mut inactive = db.prepare_cached(library::INACTIVE)?;
    loop {
        let mut again = false;
        for sk in oldest_pending(db, tk, order, &full)? {
            if found.len() == order.limit || found.iter().any(|(known, _)| *known == sk) {
                continue;
            }
            let Some(session) = rows.get(&order.tenant, sk)? else { continue };
            if let Some(task) = &session.details.task_id
                && inactive.exists(params![tk, task])?
            {
                db.prepare_cached("UPDATE session_heads SET held = 1 WHERE sk = ?1")?.execute([sk])?;
                again = true;
                continue;
            }
            if let Some(agent) = session.details.agent_slug.as_deref() {
                if !rooms.contains_key(agent) {
                    rooms.insert(agent.to_owned(), library::room_of(db, tk, agent)?);
                }
                if let Some(Some(left)) = rooms.get_mut(agent) {
                    *left -= 1;
                    if *left < 0 {
                        again |= !full.iter().any(|known| known == agent);
                        full.push(agent.to_owned());
                        continue;
                    }
                }
            }
            found.push((sk, session));
        }
        if !again || found.len() == order.limit {
            found.sort_by_key(|(sk, session)| (std::cmp::Reverse(session.head.priority), *sk));
            return Ok(found);
        }
    }
}

fn write(
    ledger: &mut Ledger<'_>,
    tk: i64,
    order: &ClaimOrder,
    plan: Vec<(i64, Session, Taken)>,
    now: Timestamp,
) -> rusqlite::Result<Vec<Claimed>> {
    let db = ledger.db;
    let mut take = db.prepare_cached(heads::TAKE)?;
    let mut set_status = db.prepare_cached(sessions::SET_STATUS)?;
    let mut set_status_and_minute = db.prepare_cached(sessions::SET_STATUS_AND_MINUTE)?;
    let mut claimed = Vec::with_capacity(plan.len());
    let mut epochs = Vec::with_capacity(plan.len());
    for (sk, session, Taken { events, minute }) in plan {
        let head = &session.head;
        heads::take(&mut take, sk, &session)?;
        heads::write_tail(&mut ledger.hot.tail, sk, head)?;
        match minute {
            None => set_status.execute(params![sk, head.status.as_str()])?,
            Some(minute) => set_status_and_minute.execute(params![sk, head.status.as_str(), minute])?,
        };
        for event in &events {
            events::insert(&mut ledger.hot.event, sk, event)?;
        }
        ledger.forget_head(tk, &session.id);
        ledger.announce(Notice {
            tenant: order.tenant.clone(),
            session: session.id.clone(),
            incarnation: head.incarnation,
            last_sequence: head.last_sequence,
            events,
            status: head.status,
            row_changed: true,
            deleted: false,
        });
        epochs.push((sk, head.epoch));
        claimed.push(as_claimed(session, false));
    }
    // A call that found nothing may wait and ask again under its key.
    if let Some(key) = &order.key
        && !epochs.is_empty()
    {
        let done = Done { taken: &epochs, ..Done::default() };
        idempotency::remember(&mut ledger.hot.remember_key, tk, key, &done, now)?;
    }
    Ok(claimed)
}

/// Of what was handed out under a key, that which the same credential still holds.
fn still_held(
    db: &Connection,
    order: &ClaimOrder,
    taken: &[(i64, u64)],
    now: Timestamp,
) -> rusqlite::Result<Vec<Claimed>> {
    let mut held = Vec::new();
    let mut rows = sessions::ByKey::of(db)?;
    for (sk, epoch) in taken {
        if let Some(session) = rows.get(&order.tenant, *sk)?
            && session.head.holds(&order.credential, *epoch, now)
        {
            held.push(as_claimed(session, true));
        }
    }
    Ok(held)
}

fn as_claimed(session: Session, again: bool) -> Claimed {
    let lease_until = session.head.claim.as_ref().map_or(session.head.last_at, |claim| claim.lease_until);
    Claimed { epoch: session.head.epoch, lease_until, again, session }
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
