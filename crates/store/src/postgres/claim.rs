//! Claims: hands out pending sessions, each to one winner, highest priority first, then oldest. Rows that another
//! claim has locked are skipped, never waited for.

use std::sync::Arc;

use futures_util::future::{OptionFuture, join4};
use sederunt_core::ids::TenantId;
use sederunt_core::session::Session;
use sederunt_core::store::{Notice, Refusal};
use sederunt_core::time::Timestamp;
use sederunt_core::work::decide::HandOut;
use sederunt_core::work::{ClaimOrder, ClaimedRun};
use sederunt_core::{Event, Result};
use tokio_postgres::Row;

use super::commit::Abort;
use super::definitions::{self, ClaimRules};
use super::fault::Fault;
use super::idempotency;
use super::rows::{Columns, Keyed};
use super::sessions::session_sql_with;
use super::tx::{ANSWER_MAX, Context, Param, Scope, TICK, Tx, hash64, int, last_tick};
use super::writes::{ClaimedRows, EventRows, KeyRows, Writes};

/// Queues (type and agent) that one statement walks side by side.
const QUEUES_MERGED_MAX: usize = 16;
/// Candidates per wanted session, when there are more queues.
const WINDOW_FACTOR: i64 = 4;

/// Hands out to several orders for the same work, each in its turn. An order with a key comes alone.
pub(super) async fn claim(context: &Context, orders: &[ClaimOrder]) -> Result<Vec<Vec<ClaimedRun>>> {
    let Some(first) = orders.first() else { return Ok(Vec::new()) };
    let nothing = || orders.iter().map(|_| Vec::new()).collect();
    let Some(tk) = context.tk(&first.tenant).await? else { return Ok(nothing()) };
    let outcome = tokio::time::timeout(ANSWER_MAX, async {
        match attempt(context, tk, first, orders).await {
            Err(abort) if abort.may_retry() => attempt(context, tk, first, orders).await,
            outcome => outcome,
        }
    });
    match outcome.await {
        Ok(Ok(claimed)) => Ok(claimed),
        Ok(Err(Abort::Refused(Refusal::Rejected(error)))) => Err(error),
        Ok(Err(Abort::Refused(Refusal::Stale))) => Ok(nothing()),
        Ok(Err(Abort::Failed(failure))) => Err(failure.fault.into()),
        Err(_) => Err(Fault::TimedOut.into()),
    }
}

struct ClaimCommit {
    claimed: Vec<Vec<ClaimedRun>>,
    notices: Vec<Notice>,
    /// The key of each notice's session.
    keys: Vec<(i32, i64)>,
}

async fn attempt(
    context: &Context,
    tk: i32,
    first: &ClaimOrder,
    orders: &[ClaimOrder],
) -> Result<Vec<Vec<ClaimedRun>>, Abort> {
    let tx = context.prepare(Scope::Tenant(tk)).await?;
    match hand_out(context, &tx, tk, first, orders).await {
        Ok(ClaimCommit { claimed, notices, keys }) => {
            tx.release();
            // A claim adds nothing to the search index.
            context.publish(&notices, &keys, |_| false);
            Ok(claimed)
        }
        Err(abort) => {
            tx.rollback().await;
            Err(abort)
        }
    }
}

async fn hand_out(
    context: &Context,
    tx: &Tx,
    tk: i32,
    first: &ClaimOrder,
    orders: &[ClaimOrder],
) -> Result<ClaimCommit, Abort> {
    if let Some(key) = &first.key {
        tx.begin().await?;
        let lock = hash64(&[b"key", &tk.to_be_bytes(), &key.scope]);
        tx.query("SELECT pg_advisory_xact_lock($1)", &[&lock]).await?;
        let known = tx.query(&idempotency::valid_key_sql(), &[&tk, &&key.scope[..]]).await?;
        if let Some(found) = known.first().map(idempotency::StoredKey::of).transpose()? {
            found.answer(key, [], tx.clock(context).await?)?;
            let held = still_held(context, tx, tk, first, &found.claims).await?;
            tx.send_commit().await?;
            return Ok(ClaimCommit { claimed: vec![held], notices: Vec::new(), keys: Vec::new() });
        }
    }
    let wanted = orders.iter().map(|order| order.limit).sum();
    let mut candidates = ClaimCandidates::default();
    let mut begun = first.key.is_some();
    let mut now = Timestamp::default();
    loop {
        let (taken, ruled) = lock_and_load(context, tx, tk, first, wanted, &candidates.full, begun).await?;
        begun = true;
        now = now.max(taken.at);
        candidates.add_limits(ruled.rooms);
        let held = hold_inactive(tx, tk, &taken.found, &ruled.inactive).await?;
        if !candidates.add(taken.found, &held) || candidates.kept.len() >= wanted {
            break;
        }
    }
    let mut sessions = candidates.kept;
    sessions.sort_by_key(|session| (-session.value.head.priority, session.sk));
    sessions.truncate(wanted);

    let mut logs = Vec::with_capacity(sessions.len());
    let mut left = &mut sessions[..];
    let mut taken = Vec::with_capacity(orders.len());
    for order in orders {
        let mut hand_out = HandOut::new(order, now).map_err(Fault::from)?;
        let (of_order, rest) = left.split_at_mut(order.limit.min(left.len()));
        for session in &mut *of_order {
            let Session { id, head, details, .. } = &mut session.value;
            let taken = hand_out.take(id, head, &mut details.started_at).map_err(Fault::from)?;
            logs.push(taken.events);
        }
        taken.push(of_order.len());
        left = rest;
    }
    write(tx, tk, first, &sessions, &logs, now).await?;

    let mut notices = Vec::with_capacity(sessions.len());
    let keys = sessions.iter().map(|session| (tk, session.sk)).collect();
    let mut claims = Vec::with_capacity(orders.len());
    let mut handed_out = sessions.into_iter().zip(logs);
    for count in taken {
        let mut claimed = Vec::with_capacity(count);
        for (Keyed { value: session, .. }, events) in handed_out.by_ref().take(count) {
            notices.push(Notice {
                tenant: first.tenant.clone(),
                session: session.id.clone(),
                incarnation: session.head.incarnation,
                last_sequence: session.head.last_sequence,
                events,
                status: session.head.status,
                row_changed: true,
                deleted: false,
            });
            claimed.extend(handed(session, false));
        }
        claims.push(claimed);
    }
    Ok(ClaimCommit { claimed: claims, notices, keys })
}

fn handed(session: Session, again: bool) -> Option<ClaimedRun> {
    let lease_until = session.head.claim.as_ref()?.lease_until;
    Some(ClaimedRun { epoch: session.head.epoch, lease_until, again, session })
}

/// Of the sessions that were handed out under a key, those that the same credential still holds.
async fn still_held(
    context: &Context,
    tx: &Tx,
    tk: i32,
    order: &ClaimOrder,
    claims: &[(i64, u64)],
) -> Result<Vec<ClaimedRun>, Abort> {
    let sks: Vec<i64> = claims.iter().map(|(sk, _)| *sk).collect();
    let sessions = LoadedSessions::of(context, &order.tenant, &tx.query(&load("$2"), &[&tk, &sks]).await?)?;
    let mut held = Vec::new();
    for (sk, epoch) in claims {
        let found = sessions.found.iter().find(|session| session.sk == *sk);
        let found = found.filter(|found| found.value.head.holds(&order.credential, *epoch, sessions.at));
        held.extend(found.and_then(|found| handed(found.value.clone(), true)));
    }
    Ok(held)
}

/// Sessions, and the time after they were read.
#[derive(Default)]
struct LoadedSessions {
    at: Timestamp,
    found: Vec<Keyed<Session>>,
}

impl LoadedSessions {
    fn of(context: &Context, tenant: &TenantId, rows: &[Row]) -> Result<Self, Abort> {
        let at = last_tick(rows)?.map(|micros| context.time(micros)).unwrap_or_default();
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            found.push(Columns::of(row).whole(tenant)?);
        }
        Ok(Self { at, found })
    }
}

fn load(which: &str) -> String {
    session_sql_with(&format!(", {TICK}"), &format!("WHERE h.tk = $1 AND h.sk = ANY ({which})"))
}

/// The sessions that may be handed out.
#[derive(Default)]
struct ClaimCandidates {
    kept: Vec<Keyed<Session>>,
    /// How many more runs agents may have, for agents with a limit.
    rooms: Vec<(String, i64)>,
    /// Agents that have as many runs as they may; they are passed over.
    full: Vec<String>,
}

impl ClaimCandidates {
    /// Adds the limits of agents that were not met before. For the others, the count kept here is newer.
    fn add_limits(&mut self, rooms: Vec<(String, i64)>) {
        let fresh =
            rooms.into_iter().filter(|(agent, _)| !self.rooms.iter().any(|(known, _)| known == agent));
        let fresh: Vec<_> = fresh.collect();
        self.rooms.extend(fresh);
    }

    /// Keeps the sessions that may be handed out, except held ones. Returns whether another round may find more.
    fn add(&mut self, mut found: Vec<Keyed<Session>>, held: &[i64]) -> bool {
        found.retain(|one| !self.kept.iter().any(|kept| kept.sk == one.sk) && !held.contains(&one.sk));
        found.sort_by_key(|session| (-session.value.head.priority, session.sk));
        let mut again = !held.is_empty();
        for session in found {
            let agent = session.value.details.agent_slug.as_deref();
            match self.rooms.iter_mut().find(|(limited, _)| Some(limited.as_str()) == agent) {
                Some((limited, left)) if *left <= 0 => {
                    if !self.full.contains(limited) {
                        self.full.push(limited.clone());
                        again = true;
                    }
                }
                room => {
                    if let Some((_, left)) = room {
                        *left -= 1;
                    }
                    self.kept.push(session);
                }
            }
        }
        again
    }
}

/// Holds sessions of inactive tasks, once, until the task is active again. Returns them.
async fn hold_inactive(
    tx: &Tx,
    tk: i32,
    found: &[Keyed<Session>],
    inactive: &[String],
) -> Result<Vec<i64>, Abort> {
    let waits = |session: &Keyed<Session>| {
        let task = session.value.details.task_id.as_deref();
        task.is_some_and(|task| inactive.iter().any(|other| other == task))
    };
    let held: Vec<i64> = found.iter().filter(|one| waits(one)).map(|one| one.sk).collect();
    if !held.is_empty() {
        let sql = "UPDATE session_heads SET held = true WHERE tk = $1 AND sk = ANY ($2)";
        tx.execute(sql, &[&tk, &held]).await?;
    }
    Ok(held)
}

/// Passes the locked sessions, their tasks and agents to the statements behind this one, in settings of the
/// transaction.
const NOTE_TAKEN: &str = "set_config('app.taken', coalesce(array_agg(sk)::text, '{}'), true),
     set_config('app.taken_tasks', coalesce((array_agg(task_id) FILTER (WHERE task_id IS NOT NULL))::text, '{}'),
         true),
     set_config('app.taken_agents',
         coalesce((array_agg(agent_slug) FILTER (WHERE agent_slug IS NOT NULL))::text, '{}'), true)";

/// Locks sessions to hand out, except of agents without room, and loads them with the rules of their tasks and
/// agents. The loads are later statements than the lock, each with its own snapshot, but all go in one round trip,
/// which also begins the transaction if needed.
async fn lock_and_load(
    context: &Context,
    tx: &Tx,
    tk: i32,
    order: &ClaimOrder,
    wanted: usize,
    full: &[String],
    begun: bool,
) -> Result<(LoadedSessions, ClaimRules), Abort> {
    let types = sorted_names(order.session_types.iter().map(|kind| kind.as_str()));
    let named = order.agent_slugs.iter().filter(|agent| !full.contains(agent));
    let agents = sorted_names(named.map(String::as_str));
    if agents.is_empty() && !order.agent_slugs.is_empty() {
        return Ok(Default::default());
    }
    let wanted = int(wanted as u64);
    let words = types.iter().chain(&agents);
    let mut params: Vec<Param<'_>> =
        [&tk as Param<'_>, &wanted].into_iter().chain(words.map(|word| word as _)).collect();
    let passes_over = agents.is_empty() && !full.is_empty();
    if passes_over {
        params.push(&full);
    }
    let mut begun = begun;
    let merged: Vec<i64>;
    let lock = if types.len() * agents.len().max(1) > QUEUES_MERGED_MAX {
        if !begun {
            tx.begin().await?;
            begun = true;
        }
        merged = lock_merged(tx, tk, &types, &agents, wanted).await?;
        params = vec![&tk, &merged];
        format!("SELECT {NOTE_TAKEN} FROM session_heads WHERE tk = $1 AND sk = ANY ($2)")
    } else {
        format!("SELECT {NOTE_TAKEN} FROM ({}) taken", lock_sql(types.len(), agents.len(), passes_over))
    };
    let client = tx.client()?;
    let lock = client.prepare_cached(&lock).await?;
    let load = client.prepare_cached(&load("current_setting('app.taken')::bigint[]")).await?;
    let rules = client.prepare_cached(&definitions::rules_sql("app.taken_tasks", "app.taken_agents")).await?;
    let of_tenant: [Param<'_>; 1] = [&tk];
    // Sent together, run in turn.
    let (begun, locked, loaded, ruled) = join4(
        OptionFuture::from((!begun).then(|| tx.begin())),
        client.query(&lock, &params),
        client.query(&load, &of_tenant),
        client.query(&rules, &of_tenant),
    )
    .await;
    begun.transpose()?;
    locked?;
    let (loaded, ruled) = (loaded?, ruled?);
    Ok((LoadedSessions::of(context, &order.tenant, &loaded)?, definitions::read_rules(tx, tk, &ruled).await?))
}

/// Whether a candidate is still pending, written so that no index of the queues matches and PostgreSQL finds the row
/// by its key. When next to nothing is pending, those indexes look smaller than the key; but searching one of them
/// means walking everything that was pending since the last vacuum.
const STILL_PENDING: &str = "status || '' = 'pending' AND NOT held";

/// Each name once: a queue that is walked twice would count its sessions twice.
fn sorted_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A limit above any queue's length that the planner cannot know beforehand. It then plans for a tenth of a queue and
/// walks the index in the queue's order. Without a limit it plans for the whole queue: it reads all of it by the
/// other index and sorts it, as soon as that one has fewer pages.
const UNLIMITED: &str = "LIMIT greatest($2, 9223372036854775807)";

/// Walks the queues of so many types and agents side by side, best first, and locks rows until there are enough. Each
/// queue is a stretch of an index in its order, which the planner sees only if every queue is written out.
pub(super) fn lock_sql(types: usize, agents: usize, passes_over: bool) -> String {
    let first_agent = 3 + types;
    let others = if passes_over {
        format!(" AND (agent_slug IS NULL OR agent_slug <> ALL (${first_agent}))")
    } else {
        String::new()
    };
    let of_type = (3..first_agent).map(|kind| format!("session_type = ${kind}{others}"));
    let queues: Vec<String> = if agents == 0 {
        of_type.collect()
    } else {
        let agents = first_agent..first_agent + agents;
        of_type
            .flat_map(|kind| agents.clone().map(move |agent| format!("{kind} AND agent_slug = ${agent}")))
            .collect()
    };
    if let [only] = &queues[..] {
        return format!(
            "SELECT sk, task_id, agent_slug FROM session_heads WHERE tk = $1 AND status = 'pending' AND NOT held AND {only}
             ORDER BY priority DESC, sk LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED"
        );
    }
    let queues: Vec<String> = queues
        .iter()
        .map(|queue| {
            format!(
                "(SELECT sk, priority FROM session_heads WHERE tk = $1 AND status = 'pending' AND NOT held AND {queue}
                  ORDER BY priority DESC, sk {UNLIMITED})"
            )
        })
        .collect();
    // Rows are locked one by one below the walk. A lock above it would make the server walk the queues again for
    // every row that another claim has taken.
    format!(
        "SELECT h.sk, h.task_id, h.agent_slug FROM (SELECT sk FROM ({}) q ORDER BY priority DESC, sk) q
         CROSS JOIN LATERAL (
             SELECT sk, task_id, agent_slug FROM session_heads WHERE tk = $1 AND sk = q.sk AND {STILL_PENDING}
             FOR NO KEY UPDATE SKIP LOCKED) h
         LIMIT $2",
        queues.join(" UNION ALL ")
    )
}

/// Very many queues: reads the first of each, merges them and locks the best. If other claims were quicker, the
/// window widens until enough rows are locked or the queues end.
async fn lock_merged(
    tx: &Tx,
    tk: i32,
    types: &[&str],
    agents: &[&str],
    wanted: i64,
) -> Result<Vec<i64>, Abort> {
    let probe = if agents.is_empty() {
        "SELECT c.sk, c.priority FROM unnest($2::text[]) AS t (session_type) CROSS JOIN LATERAL (
             SELECT sk, priority FROM session_heads WHERE tk = $1 AND status = 'pending' AND NOT held
                 AND session_type = t.session_type AND $3::text[] IS NOT NULL
             ORDER BY priority DESC, sk LIMIT $4) c"
    } else {
        "SELECT c.sk, c.priority FROM unnest($2::text[]) AS t (session_type) CROSS JOIN unnest($3::text[]) AS a (slug)
         CROSS JOIN LATERAL (
             SELECT sk, priority FROM session_heads WHERE tk = $1 AND status = 'pending' AND NOT held
                 AND session_type = t.session_type AND agent_slug = a.slug
             ORDER BY priority DESC, sk LIMIT $4) c"
    };
    let lock = format!(
        "SELECT sk FROM session_heads WHERE tk = $1 AND sk = ANY ($2) AND {STILL_PENDING}
         ORDER BY priority DESC, sk LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED"
    );
    let mut window = wanted;
    let mut held: Vec<i64> = Vec::new();
    loop {
        let mut seen: Vec<(i32, i64)> = Vec::new();
        for row in tx.query(probe, &[&tk, &types, &agents, &window]).await? {
            seen.push((-row.try_get::<_, i32>(1)?, row.try_get(0)?));
        }
        seen.sort_unstable();
        seen.dedup();
        seen.truncate(usize::try_from(window).unwrap_or(usize::MAX));
        let all_seen = (seen.len() as i64) < window;
        let candidates = seen.into_iter().map(|(_, sk)| sk);
        let candidates: Vec<i64> = candidates.filter(|sk| !held.contains(sk)).collect();
        let missing = wanted - held.len() as i64;
        for row in tx.query(&lock, &[&tk, &candidates, &missing]).await? {
            held.push(row.try_get(0)?);
        }
        if held.len() as i64 >= wanted || all_seen {
            return Ok(held);
        }
        window *= WINDOW_FACTOR;
    }
}

async fn write(
    tx: &Tx,
    tk: i32,
    order: &ClaimOrder,
    sessions: &[Keyed<Session>],
    logs: &[Vec<Arc<Event>>],
    now: Timestamp,
) -> Result<(), Abort> {
    let mut events = EventRows::default();
    let mut keys = KeyRows::default();
    let mut taken = ClaimedRows::of(tk);
    for (session, log) in sessions.iter().zip(logs) {
        taken.push(session.sk, &session.value);
        for event in log {
            events.push(tk, session.sk, event);
        }
    }
    let claims: Vec<_> = sessions.iter().map(|session| (session.sk, session.value.head.epoch)).collect();
    if let Some(key) = order.key.as_ref().filter(|_| !claims.is_empty()) {
        keys.push_claims(tk, key, &claims, now);
    }
    let mut writes = Writes::default();
    events.write(&mut writes);
    taken.write(&mut writes);
    keys.write(&mut writes);
    writes.run_and_commit(tx.client()?).await?;
    Ok(())
}
