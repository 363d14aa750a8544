//! Commits whole changes, under the role of one tenant: locks heads in the order of their keys, judges, writes,
//! publishes. `basis` loads the rows that records rest on, `write_set` holds what is written.

mod basis;
mod write_set;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures_util::future::{OptionFuture, join, join3};
use sederunt_core::access::ActingUser;
use sederunt_core::error::Error;
use sederunt_core::event::Writer;
use sederunt_core::ids::SessionId;
use sederunt_core::session::Head;
use sederunt_core::store::{
    Change, ChangePart, CommitResult, NewSession, Notice, PartTarget, Record, Refusal, Write,
};
use sederunt_core::time::Timestamp;
use smallvec::SmallVec;

use self::basis::{BasisQuery, BasisRows};
use self::write_set::{PartState, WriteSet};
use super::fault::Fault;
use super::judge::{AskedDocuments, EXTERNAL_IDS, Lookups, NEWEST_PATCHES};
use super::rows::{Columns, HEAD, Keyed};
use super::sessions::{self, NewSessionParts, SharedRange};
use super::tx::{ANSWER_MAX, CLOCK, Context, Param, Scope, TICK, Tx, hash64, int, last_tick, locked_at};
use super::writes::CommitFailure;
use super::{bridges, idempotency, records};

/// Retries of a change that met another transaction.
const CONTENTION_TRIES_MAX: usize = 3;
/// The unique index that a second session with the same id violates.
const SESSION_ID: &str = "sessions_id";
/// The time for a change that deletes: it may have a long log to remove.
const DELETE_MAX: Duration = Duration::from_secs(90);

/// Why a change was not committed.
pub(super) enum Abort {
    Refused(Refusal),
    Failed(CommitFailure),
}

impl Abort {
    /// Whether nothing was written and a retry may succeed.
    pub(super) fn may_retry(&self) -> bool {
        matches!(self, Self::Failed(CommitFailure { fault, certain: true })
            if fault.is_contention() || fault.is_lost() || fault.violated().is_some_and(is_of_a_record))
    }
}

impl From<CommitFailure> for Abort {
    fn from(failure: CommitFailure) -> Self {
        match failure.fault {
            Fault::Core(error) => Self::Refused(error.into()),
            _ => Self::Failed(failure),
        }
    }
}

impl From<Fault> for Abort {
    fn from(fault: Fault) -> Self {
        CommitFailure::from(fault).into()
    }
}

impl From<Refusal> for Abort {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<tokio_postgres::Error> for Abort {
    fn from(error: tokio_postgres::Error) -> Self {
        Fault::from(error).into()
    }
}

/// Applies a change, as a whole or not at all.
pub(super) async fn apply(context: &Context, tk: i32, change: &Change) -> Result<CommitResult, Refusal> {
    let deletes =
        change.parts.iter().any(|part| part.writes.iter().any(|write| matches!(write, Write::Delete)));
    let limit = if deletes { DELETE_MAX } else { ANSWER_MAX };
    let work = async {
        for _ in 0..CONTENTION_TRIES_MAX {
            match attempt(context, tk, change).await {
                Err(abort) if abort.may_retry() => {}
                outcome => return outcome,
            }
        }
        attempt(context, tk, change).await
    };
    match tokio::time::timeout(limit, work).await {
        Ok(Ok(committed)) => Ok(committed),
        Ok(Err(Abort::Refused(refusal))) => Err(refusal),
        Ok(Err(Abort::Failed(failure))) => Err(refusal_of(failure)),
        Err(_) => Err(Error::from(Fault::TimedOut).into()),
    }
}

/// Whether a unique index of a record was violated: another transaction has written it since the judgement.
fn is_of_a_record(violated: &str) -> bool {
    violated != SESSION_ID && violated != bridges::ONE_RUNNING && !violated.ends_with("_fkey")
}

/// The refusal for a failure. Violated indexes of records have been retried before.
fn refusal_of(CommitFailure { fault, certain }: CommitFailure) -> Refusal {
    match fault.violated() {
        _ if !certain => Error::unavailable(Error::from(fault)).into(),
        Some(SESSION_ID | bridges::ONE_RUNNING) => Refusal::Stale,
        Some(foreign) if foreign.ends_with("_tk_fkey") => Error::NotFound.into(),
        _ => Error::from(fault).into(),
    }
}

/// The user in whose name a change touches share links, or records activity: the policies of both ask for it.
fn acting_user(change: &Change) -> Option<ActingUser> {
    if let Some(rule) =
        change.parts.iter().filter(|part| records_activity(part)).find_map(|part| part.guard.append.as_ref())
    {
        return Some(rule.actor.user.clone().map_or(ActingUser::Nobody, ActingUser::User));
    }
    change.records.iter().find_map(|record| match record {
        Record::AddShare { share, .. } => {
            Some(share.created_by.clone().map_or(ActingUser::Nobody, ActingUser::User))
        }
        Record::RevokeShare { by, .. } => Some(by.clone()),
        _ => None,
    })
}

/// Whether a part writes what a person records about their own work.
pub(super) fn records_activity(part: &ChangePart) -> bool {
    part.writes.iter().any(|write| match write {
        Write::Append(events) => events.iter().any(|event| event.kind.writer() == Writer::BridgeHolder),
        Write::Update(_) | Write::Talk(_) | Write::Delete => false,
    })
}

async fn attempt(context: &Context, tk: i32, change: &Change) -> Result<CommitResult, Abort> {
    let by = acting_user(change);
    let scope = by.as_ref().map_or(Scope::Tenant(tk), |by| Scope::TenantAs(tk, by));
    let tx = context.prepare(scope).await?;
    match write_and_commit(context, &tx, tk, change).await {
        Ok(done) => {
            tx.release();
            context.publish(&done.notices, &done.keys, |notice| notice.row_changed || notice.speaks());
            Ok(done.committed)
        }
        Err(abort) => {
            tx.rollback().await;
            Err(abort)
        }
    }
}

struct AppliedChange {
    committed: CommitResult,
    notices: Vec<Notice>,
    /// The key of each notice's session.
    keys: Vec<(i32, i64)>,
}

/// A head under lock.
struct LockedHead {
    sk: i64,
    head: Head,
}

struct LockedRows {
    now: Timestamp,
    heads: HashMap<SessionId, LockedHead>,
    /// Numbers for the sessions to be created.
    surrogates: Vec<i64>,
    /// What the idempotency key of the change did before.
    stored_key: Option<idempotency::StoredKey>,
    /// The rows that the records rest on.
    basis: BasisRows,
}

/// Locks, judges, writes and commits.
async fn write_and_commit(
    context: &Context,
    tx: &Tx,
    tk: i32,
    change: &Change,
) -> Result<AppliedChange, Abort> {
    let mut locked = lock(context, tx, tk, change).await?;
    if let Some((key, found)) = change.key.as_ref().zip(locked.stored_key.as_ref()) {
        let heads = change.parts.iter().filter_map(|part| match &part.on {
            PartTarget::Session(id) => locked.heads.get(id).map(|locked| locked.head.clone()),
            PartTarget::New(_) => None,
        });
        let committed = found.answer(key, heads, locked.now)?;
        tx.send_commit().await?;
        return Ok(AppliedChange { committed, notices: Vec::new(), keys: Vec::new() });
    }
    let mut lookups = load_lookups(tx, tk, change, &locked).await?;

    let mut write_set = WriteSet::default();
    let mut surrogates = std::mem::take(&mut locked.surrogates).into_iter();
    let mut parts = SmallVec::new();
    for part in &change.parts {
        let mut state = part_state(tx, tk, part, &mut locked, &mut surrogates).await?;
        parts.push(state.judge(part, &mut lookups, locked.now)?);
        write_set.parts.push(state);
    }
    locked.basis.judge(change)?;
    let committed = CommitResult { at: locked.now, parts, replay: None };
    write_set.write(tx, tk, change, &committed, locked.now).await?;
    if !change.records.is_empty() {
        for record in &change.records {
            let record = change.landed(record, &committed.parts, locked.now);
            records::write(tx, tk, &record, locked.now).await?;
        }
        tx.send_commit().await?;
    }
    let (notices, keys) = write_set.notices(tk, change, &committed);
    Ok(AppliedChange { committed, notices, keys })
}

async fn lock(context: &Context, tx: &Tx, tk: i32, change: &Change) -> Result<LockedRows, Abort> {
    let mut ids: BTreeSet<&str> = BTreeSet::new();
    let mut news = 0i64;
    for part in &change.parts {
        match &part.on {
            PartTarget::Session(id) => {
                ids.insert(id.as_str());
            }
            PartTarget::New(new) => {
                news += 1;
                ids.extend(new.fork_of.as_ref().map(|fork| fork.session.as_str()));
            }
        }
    }
    let ids: Vec<&str> = ids.into_iter().collect();
    let client = tx.client()?;
    let lock = locked_at(&format!(
        "SELECT {HEAD}, h.preview FROM sessions s JOIN session_heads h ON h.tk = s.tk AND h.sk = s.sk
         WHERE s.tk = $1 AND s.id = ANY ($2) ORDER BY h.tk, h.sk FOR NO KEY UPDATE OF h"
    ));
    let lock = client.prepare_cached(&lock).await?;
    let clock = client.prepare_cached(CLOCK).await?;
    let draw = format!("SELECT nextval('session_keys'), {TICK} FROM generate_series(1, $1::bigint)");
    let draw = client.prepare_cached(&draw).await?;
    let lock_params: [Param<'_>; 2] = [&tk, &ids];
    let draw_params: [Param<'_>; 1] = [&news];
    let scope = change.key.as_ref().map(|key| &key.scope[..]);
    let has_session = change.parts.iter().any(|part| matches!(part.on, PartTarget::Session(_)));
    // Changes with the same key wait for each other on their session's row; without one, on the key itself.
    let twins = scope.filter(|_| !has_session).map(|scope| hash64(&[b"key", &tk.to_be_bytes(), scope]));
    let wait = client.prepare_cached("SELECT pg_advisory_xact_lock($1)").await?;
    let find = client.prepare_cached(&idempotency::valid_key_sql()).await?;
    let find_params: [Param<'_>; 2] = [&tk, &scope];
    let wait_params: [Param<'_>; 1] = [&twins];
    let keys = change.rests_on();
    let asked = BasisQuery::of(&keys);
    let load_params = asked.params(&tk);
    let load = if keys.is_empty() { None } else { Some(client.prepare_cached(&asked.sql).await?) };
    // Locked and created sessions return the time too. A repeated key may have to be answered without any.
    let asks_time = scope.is_some() || (ids.is_empty() && news == 0);
    // Sent together, run in turn: statements behind a lock see what was committed while the lock was waited for.
    let (begun, waited, ((locked, now, drawn), (known, rows))) = join3(
        tx.begin(),
        OptionFuture::from(twins.map(|_| client.query(&wait, &wait_params))),
        join(
            join3(
                OptionFuture::from((!ids.is_empty()).then(|| client.query(&lock, &lock_params))),
                OptionFuture::from(asks_time.then(|| client.query_one(&clock, &[]))),
                OptionFuture::from((news > 0).then(|| client.query(&draw, &draw_params))),
            ),
            join(
                OptionFuture::from(scope.map(|_| client.query(&find, &find_params))),
                OptionFuture::from(load.as_ref().map(|load| client.query(load, &load_params))),
            ),
        ),
    )
    .await;
    begun?;
    waited.transpose()?;
    let (locked, drawn) = (locked.transpose()?.unwrap_or_default(), drawn.transpose()?.unwrap_or_default());
    let read = now.transpose()?.map(|row| row.try_get(0)).transpose()?;
    let ticks = [last_tick(&locked)?, last_tick(&drawn)?, read];
    let now = ticks.into_iter().flatten().max().map(|micros| context.time(micros)).unwrap_or_default();
    let mut heads = HashMap::new();
    for row in &locked {
        let mut columns = Columns::of(row);
        let Keyed { sk, id, value: mut head, .. } = columns.head()?;
        head.preview = columns.preview()?;
        heads.insert(id, LockedHead { sk, head });
    }
    let surrogates = drawn.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let stored_key =
        known.transpose()?.unwrap_or_default().first().map(idempotency::StoredKey::of).transpose()?;
    let basis = BasisRows::of(&rows.transpose()?.unwrap_or_default())?;
    Ok(LockedRows { now, heads, surrogates, stored_key, basis })
}

/// Loads what the guards and the logs of a change ask beside the heads.
async fn load_lookups(tx: &Tx, tk: i32, change: &Change, locked: &LockedRows) -> Result<Lookups, Abort> {
    let mut asked: (Vec<i64>, Vec<&str>) = Default::default();
    let mut external: (Vec<i32>, Vec<&str>, Vec<&str>) = Default::default();
    let mut documents = AskedDocuments::default();
    for part in &change.parts {
        let PartTarget::Session(id) = &part.on else { continue };
        let Some(locked) = locked.heads.get(id) else { continue };
        for user in part.guard.asks_participants(&locked.head) {
            asked.0.push(locked.sk);
            asked.1.push(user.as_str());
        }
        documents.add(tk, id, &part.guard);
        for write in &part.writes {
            let Write::Append(events) = write else { continue };
            for event in events.iter().filter_map(|event| event.external_event_id.as_deref()) {
                external.0.push(tk);
                external.1.push(id.as_str());
                external.2.push(event);
            }
        }
    }
    let mut lookups = Lookups::default();
    if !asked.0.is_empty() {
        let sql = "SELECT p.sk, p.user_id FROM unnest($2::bigint[], $3::text[]) AS w (sk, user_id)
             JOIN participants p ON p.tk = $1 AND p.sk = w.sk AND p.user_id = w.user_id";
        lookups.add_participants(&tx.query(sql, &[&tk, &asked.0, &asked.1]).await?)?;
    }
    if !external.0.is_empty() {
        let params: [Param<'_>; 3] = [&external.0, &external.1, &external.2];
        lookups.add_external_ids(&tx.query(EXTERNAL_IDS, &params).await?)?;
    }
    if !documents.is_empty() {
        lookups.add_documents(&tx.query(NEWEST_PATCHES, &documents.params()).await?)?;
    }
    Ok(lookups)
}

async fn part_state(
    tx: &Tx,
    tk: i32,
    part: &ChangePart,
    locked: &mut LockedRows,
    surrogates: &mut impl Iterator<Item = i64>,
) -> Result<PartState, Abort> {
    let (sk, id, head, new_parts) = match &part.on {
        PartTarget::Session(id) => {
            let locked = locked.heads.get(id).ok_or(Refusal::Rejected(Error::NotFound))?;
            (locked.sk, id, locked.head.clone(), None)
        }
        PartTarget::New(new) => {
            let sk =
                surrogates.next().ok_or_else(|| Fault::from(Error::internal("no surrogate was drawn")))?;
            let mut stamped = NewSession::clone(new);
            stamped.stamp(locked.now);
            let NewSession { mut head, details, participants, .. } = stamped;
            let ranges = match &new.fork_of {
                None => Vec::new(),
                Some(fork) => {
                    let origin = locked.heads.get(&fork.session).ok_or(Refusal::Rejected(Error::NotFound))?;
                    if origin.head.incarnation != fork.incarnation
                        || origin.head.last_sequence < fork.at_sequence
                    {
                        return Err(Refusal::Stale.into());
                    }
                    head.last_sequence = fork.at_sequence;
                    let shared = sessions::ranges(tx, tk, origin.sk).await?;
                    SharedRange::prefix(shared, origin.sk, int(fork.at_sequence))
                }
            };
            (sk, &new.id, head, Some(NewSessionParts { details, participants, ranges }))
        }
    };
    let (id, events) = (id.clone(), Vec::new());
    Ok(PartState { sk, id, head, new_parts, events, description: None, talk: None, deleted: false })
}
