//! Handing out pending sessions: highest priority first, then oldest, one winner each by the nature
//! of a single writer. Every (type, agent) is probed on its own index, so the cost follows what is
//! handed out and not what is waiting.

use rusqlite::{Connection, params};
use sederunt_core::event::NewEvent;
use sederunt_core::session::Session;
use sederunt_core::work::{ClaimOrder, Claimed, decide};
use sederunt_core::{Error, SessionId, Timestamp};

use super::apply::{self, Work};
use super::fault::{Trouble, refuse};
use super::heads::{self, Found};
use super::idempotency::{self, Done};
use super::sessions;
use super::writer::Ledger;

pub(super) fn claim(ledger: &mut Ledger<'_>, order: &ClaimOrder) -> Result<Vec<Claimed>, Trouble<Error>> {
    let now = ledger.now();
    let Some(tk) = ledger.tenant(&order.tenant)? else { return Ok(Vec::new()) };
    if let Some(key) = &order.key
        && let Some(used) = apply::used(ledger, tk, key)?
    {
        return Ok(still_held(ledger.db, order, &used.taken, now)?);
    }
    let mut plan = Vec::new();
    for sk in oldest_pending(ledger.db, tk, order)? {
        let (id, mut found) = by_key(ledger.db, sk)?;
        decide::take(&mut found.head, order, now);
        let events = decide::claim_events(&order.worker, found.head.epoch).or_else(refuse)?;
        plan.push(Taken { id, found, events });
    }
    Ok(write(ledger, tk, order, plan, now)?)
}

/// A session as it is handed over.
struct Taken {
    id: SessionId,
    found: Found,
    events: Vec<NewEvent>,
}

fn write(
    ledger: &mut Ledger<'_>,
    tk: i64,
    order: &ClaimOrder,
    plan: Vec<Taken>,
    now: Timestamp,
) -> rusqlite::Result<Vec<Claimed>> {
    let mut claimed = Vec::with_capacity(plan.len());
    let mut taken = Vec::with_capacity(plan.len());
    for Taken { id, found, events } in plan {
        let (sk, epoch) = (found.sk, found.head.epoch);
        let mut work = Work::on(found);
        work.take(ledger.db, now)?;
        work.append(ledger, &id, &events, now)?;
        work.finish(ledger, tk, &order.tenant, &id)?;
        taken.push((sk, epoch));
        claimed.extend(sessions::by_key(ledger.db, &order.tenant, sk)?.map(as_claimed));
    }
    // A call that found nothing may wait and ask again under its key.
    if let Some(key) = &order.key
        && !taken.is_empty()
    {
        let done = Done { taken: &taken, ..Done::default() };
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
    for (sk, epoch) in taken {
        if let Some(session) = sessions::by_key(db, &order.tenant, *sk)?
            && session.head.holds(&order.credential, *epoch, now)
        {
            held.push(as_claimed(session));
        }
    }
    Ok(held)
}

fn as_claimed(session: Session) -> Claimed {
    let lease_until = session.head.claim.as_ref().map_or(session.head.last_at, |claim| claim.lease_until);
    Claimed { epoch: session.head.epoch, lease_until, session }
}

fn oldest_pending(db: &Connection, tk: i64, order: &ClaimOrder) -> rusqlite::Result<Vec<i64>> {
    let limit = i64::try_from(order.limit).unwrap_or(i64::MAX);
    let read =
        |row: &rusqlite::Row<'_>| Ok((std::cmp::Reverse(row.get::<_, i64>(0)?), row.get::<_, i64>(1)?));
    let mut waiting = Vec::new();
    for session_type in &order.session_types {
        if order.agent_slugs.is_empty() {
            let mut probe = db.prepare_cached(
                "SELECT priority, sk FROM session_heads INDEXED BY pending_by_type \
                 WHERE status = 'pending' AND tk = ?1 AND session_type = ?2 ORDER BY priority DESC, sk LIMIT ?3",
            )?;
            for row in probe.query_map(params![tk, session_type.as_str(), limit], read)? {
                waiting.push(row?);
            }
        }
        for agent in &order.agent_slugs {
            let mut probe = db.prepare_cached(
                "SELECT priority, sk FROM session_heads INDEXED BY pending_by_agent \
                 WHERE status = 'pending' AND tk = ?1 AND session_type = ?2 AND agent_slug = ?3 \
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

fn by_key(db: &Connection, sk: i64) -> rusqlite::Result<(SessionId, Found)> {
    const SQL: &str =
        concat!("SELECT ", heads::columns!(), ", h.id FROM ", heads::tables!(), " WHERE h.sk = ?1");
    db.prepare_cached(SQL)?.query_row([sk], |row| {
        Ok((SessionId::stored(row.get_ref(heads::COLUMN_COUNT)?.as_str()?), heads::read(row)?))
    })
}
