//! Everything but plain appends: one transaction under the tenant's own role. Locks first, in the order of the
//! batches; judged by the rules of core; written; published; acknowledged.

mod basis;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{OptionFuture, join, join3};
use sederunt_core::access::ActingUser;
use sederunt_core::error::Error;
use sederunt_core::event::{Appended, Event, advance};
use sederunt_core::ids::{SessionId, UserId};
use sederunt_core::session::Head;
use sederunt_core::store::{
    Change, Committed, NewSession, Notice, On, Part, PartDone, Record, Refusal, Replay, Update, Write,
};
use sederunt_core::talk::Talk;
use sederunt_core::time::Timestamp;
use smallvec::SmallVec;

use super::append::batch::EXTERNAL;
use super::fault::Fault;
use super::rows::{Columns, HEAD, Keyed, new_events};
use super::sessions::{self, LogRange, NewSessionParts, NewSessionRow};
use super::tx::{
    ANSWER_MAX, CLOCK, Context, Param, Scope, TICK, Tx, count, hash64, int, last_tick, locked_at,
};
use super::writes::{CommitFailure, DescriptionRows, EventRows, KeyRows, StateRows, Writes, cells};
use super::{idempotency, records, talk};

/// How often a change is tried again when it met another transaction.
const CONTENTION_TRIES_MAX: usize = 3;
/// The key that two sessions of one id violate.
const SESSION_ID: &str = "sessions_id";
/// A deletion may have a long log to remove.
const DELETE_MAX: Duration = Duration::from_secs(90);

/// Why a change went no further.
pub(in crate::postgres) enum Abort {
    Refused(Refusal),
    CommitFailure(CommitFailure),
}

impl Abort {
    /// Nothing was written, and another try may pass.
    pub(in crate::postgres) fn may_retry(&self) -> bool {
        matches!(self, Self::CommitFailure(CommitFailure { fault, certain: true })
            if fault.is_contention() || fault.is_lost() || fault.violated().is_some_and(is_of_a_record))
    }
}

impl From<CommitFailure> for Abort {
    fn from(failure: CommitFailure) -> Self {
        match failure.fault {
            Fault::Core(error) => Self::Refused(error.into()),
            _ => Self::CommitFailure(failure),
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

/// Applies a change whole or not at all.
pub(in crate::postgres) async fn apply(
    context: &Context,
    tk: i32,
    change: &Change,
) -> Result<Committed, Refusal> {
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
        Ok(Err(Abort::CommitFailure(failure))) => Err(refusal_of(failure)),
        Err(_) => Err(Error::from(Fault::TimedOut).into()),
    }
}

/// Whether the unique key of a record was violated: somebody else has written it since it was judged.
fn is_of_a_record(violated: &str) -> bool {
    violated != SESSION_ID && !violated.ends_with("_fkey")
}

/// What the violation of a key means that is no record's.
fn refusal_of(CommitFailure { fault, certain }: CommitFailure) -> Refusal {
    match fault.violated() {
        _ if !certain => Error::unavailable(Error::from(fault)).into(),
        Some(SESSION_ID) => Refusal::Stale,
        Some(foreign) if foreign.ends_with("_tk_fkey") => Error::NotFound.into(),
        _ => Error::from(fault).into(),
    }
}

/// In whose name a change touches rows that belong to people.
fn acting_user(change: &Change) -> Option<ActingUser> {
    change.records.iter().find_map(|record| match record {
        Record::AddShare { share, .. } => {
            Some(share.created_by.clone().map_or(ActingUser::Nobody, ActingUser::User))
        }
        Record::RevokeShare { by, .. } => Some(by.clone()),
        _ => None,
    })
}

async fn attempt(context: &Context, tk: i32, change: &Change) -> Result<Committed, Abort> {
    let by = acting_user(change);
    let scope = by.as_ref().map_or(Scope::Tenant(tk), |by| Scope::TenantAs(tk, by));
    let tx = context.prepare(scope).await?;
    match write_and_commit(context, &tx, tk, change).await {
        Ok(done) => {
            tx.ended();
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
    committed: Committed,
    notices: Vec<Notice>,
    /// Of the session of each notice.
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
    /// Surrogates for the sessions to be made.
    fresh: Vec<i64>,
    /// What the key of the change did before.
    known: Option<idempotency::StoredKey>,
    /// The rows that the records rest on.
    basis: BasisRows,
}

/// Carries a change out to its commit.
async fn write_and_commit(
    context: &Context,
    tx: &Tx,
    tk: i32,
    change: &Change,
) -> Result<AppliedChange, Abort> {
    let mut seen = lock(context, tx, tk, change).await?;
    if let Some((key, found)) = change.key.as_ref().zip(seen.known.as_ref()) {
        let heads = change.parts.iter().filter_map(|part| match &part.on {
            On::Session(id) => seen.heads.get(id).map(|locked| locked.head.clone()),
            On::New(_) => None,
        });
        let committed = found.answer(key, heads, seen.now)?;
        tx.end().await?;
        return Ok(AppliedChange { committed, notices: Vec::new(), keys: Vec::new() });
    }
    let asides = asides(tx, tk, change, &seen).await?;

    let mut write_set = WriteSet::default();
    let mut fresh = std::mem::take(&mut seen.fresh).into_iter();
    let mut parts = SmallVec::new();
    for part in &change.parts {
        let mut state = part_state(tx, tk, part, &mut seen, &mut fresh).await?;
        parts.push(judge(part, &mut state, &asides, seen.now)?);
        write_set.parts.push(state);
    }
    seen.basis.judge(change)?;
    let committed = Committed { at: seen.now, parts, replay: None };
    write_set.write(tx, tk, change, &committed, seen.now).await?;
    if !change.records.is_empty() {
        for record in &change.records {
            let record = change.landed(record, &committed.parts, seen.now);
            records::write(tx, tk, &record, seen.now).await?;
        }
        tx.end().await?;
    }
    let (notices, keys) = write_set.tell(tk, change, &committed);
    Ok(AppliedChange { committed, notices, keys })
}

async fn lock(context: &Context, tx: &Tx, tk: i32, change: &Change) -> Result<LockedRows, Abort> {
    let mut ids: BTreeSet<&str> = BTreeSet::new();
    let mut news = 0i64;
    for part in &change.parts {
        match &part.on {
            On::Session(id) => {
                ids.insert(id.as_str());
            }
            On::New(new) => {
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
    let has_session = change.parts.iter().any(|part| matches!(part.on, On::Session(_)));
    // Where there is no row to wait on, twins in flight wait on the key itself.
    let twins = scope.filter(|_| !has_session).map(|scope| hash64(&[b"key", &tk.to_be_bytes(), scope]));
    let wait = client.prepare_cached("SELECT pg_advisory_xact_lock($1)").await?;
    let find = client.prepare_cached(&idempotency::valid_key_sql()).await?;
    let find_params: [Param<'_>; 2] = [&tk, &scope];
    let wait_params: [Param<'_>; 1] = [&twins];
    let keys = change.rests_on();
    let asked = BasisQuery::of(&keys);
    let load_params = asked.params(&tk);
    let load = if keys.is_empty() { None } else { Some(client.prepare_cached(&asked.sql).await?) };
    // Sessions that are locked or made tell the time as well; of a key, somebody may have to be answered without any.
    let asks_time = scope.is_some() || (ids.is_empty() && news == 0);
    // Sent together, run in turn; whatever stands behind a lock sees what was committed while it was waited for.
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
    let fresh = drawn.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let known = known.transpose()?.unwrap_or_default().first().map(idempotency::StoredKey::of).transpose()?;
    let basis = BasisRows::of(&rows.transpose()?.unwrap_or_default())?;
    Ok(LockedRows { now, heads, fresh, known, basis })
}

/// What the guards and the log ask beside the heads.
#[derive(Default)]
struct Asides {
    taking_part: HashSet<(i64, UserId)>,
    external: HashMap<(i64, Box<str>), u64>,
}

async fn asides(tx: &Tx, tk: i32, change: &Change, seen: &LockedRows) -> Result<Asides, Abort> {
    let mut asked: (Vec<i64>, Vec<&str>) = Default::default();
    let mut external: (Vec<i32>, Vec<&str>, Vec<&str>) = Default::default();
    for part in &change.parts {
        let On::Session(id) = &part.on else { continue };
        let Some(locked) = seen.heads.get(id) else { continue };
        if let Some(user) = part.guard.asks_participant(&locked.head) {
            asked.0.push(locked.sk);
            asked.1.push(user.as_str());
        }
        for write in &part.writes {
            let Write::Append(events) = write else { continue };
            for event in events.iter().filter_map(|event| event.external_event_id.as_deref()) {
                external.0.push(tk);
                external.1.push(id.as_str());
                external.2.push(event);
            }
        }
    }
    let mut asides = Asides::default();
    if !asked.0.is_empty() {
        let sql = "SELECT p.sk, p.user_id FROM unnest($2::bigint[], $3::text[]) AS w (sk, user_id)
             JOIN participants p ON p.tk = $1 AND p.sk = w.sk AND p.user_id = w.user_id";
        for row in tx.query(sql, &[&tk, &asked.0, &asked.1]).await? {
            asides.taking_part.insert((row.try_get(0)?, UserId::stored(row.try_get::<_, &str>(1)?)));
        }
    }
    if !external.0.is_empty() {
        for row in tx.query(EXTERNAL, &[&external.0, &external.1, &external.2]).await? {
            asides
                .external
                .insert((row.try_get(0)?, row.try_get::<_, &str>(1)?.into()), count(row.try_get(2)?));
        }
    }
    Ok(asides)
}

/// One part as it is carried out: the head that its writes move, and what else they touch.
struct PartState {
    sk: i64,
    id: SessionId,
    head: Head,
    fresh: Option<NewSessionParts>,
    events: Vec<Arc<Event>>,
    description: Option<Box<str>>,
    talk: Option<Box<Talk>>,
    deleted: bool,
}

impl PartState {
    fn made(&self) -> Option<NewSessionRow<'_>> {
        let fresh = self.fresh.as_ref()?;
        Some(NewSessionRow {
            sk: self.sk,
            id: &self.id,
            head: &self.head,
            fresh,
            described: self.description.as_deref(),
        })
    }
}

async fn part_state(
    tx: &Tx,
    tk: i32,
    part: &Part,
    seen: &mut LockedRows,
    fresh: &mut impl Iterator<Item = i64>,
) -> Result<PartState, Abort> {
    let (sk, id, head, fresh) = match &part.on {
        On::Session(id) => {
            let locked = seen.heads.get(id).ok_or(Refusal::Rejected(Error::NotFound))?;
            (locked.sk, id, locked.head.clone(), None)
        }
        On::New(new) => {
            let sk = fresh.next().ok_or_else(|| Fault::from(Error::internal("no surrogate was drawn")))?;
            let mut stamped = NewSession::clone(new);
            stamped.stamp(seen.now);
            let NewSession { mut head, details, participants, .. } = stamped;
            let ranges = match &new.fork_of {
                None => Vec::new(),
                Some(fork) => {
                    let origin = seen.heads.get(&fork.session).ok_or(Refusal::Rejected(Error::NotFound))?;
                    if origin.head.incarnation != fork.incarnation
                        || origin.head.last_sequence < fork.at_sequence
                    {
                        return Err(Refusal::Stale.into());
                    }
                    head.last_sequence = fork.at_sequence;
                    let shared = sessions::ranges(tx, tk, origin.sk).await?;
                    LogRange::prefix(shared, origin.sk, int(fork.at_sequence))
                }
            };
            (sk, &new.id, head, Some(NewSessionParts { details, participants, ranges }))
        }
    };
    let (id, events) = (id.clone(), Vec::new());
    Ok(PartState { sk, id, head, fresh, events, description: None, talk: None, deleted: false })
}

fn judge(part: &Part, state: &mut PartState, asides: &Asides, now: Timestamp) -> Result<PartDone, Abort> {
    let head = &mut state.head;
    if state.fresh.is_none() {
        let asked = part.guard.asks_participant(head);
        let participates = asked.is_some_and(|user| asides.taking_part.contains(&(state.sk, user.clone())));
        part.guard.check(&state.id, head, participates, now)?;
    }
    let mut appended: Vec<Appended> = Vec::new();
    for write in &part.writes {
        match write {
            Write::Append(events) => {
                let so_far = &state.events;
                let (done, cold) = advance(&state.id, head, events.clone(), now, |external| {
                    asides.external.get(&(state.sk, Box::from(external))).copied().or_else(|| {
                        let same = |event: &&Arc<Event>| event.external_event_id.as_deref() == Some(external);
                        so_far.iter().find(same).map(|event| event.sequence)
                    })
                });
                state.events.extend(new_events(&done).cloned());
                state.description = cold.description.or(state.description.take());
                appended.extend(done);
            }
            Write::Update(update) => {
                update.apply(head, now);
                if update.description.is_some() {
                    state.description = None;
                }
            }
            Write::Talk(talk) => {
                let mut talk = talk.clone();
                talk.land(&appended, now);
                state.talk = Some(talk);
            }
            Write::Delete => state.deleted = true,
        }
    }
    Ok(PartDone { head: head.clone(), appended })
}

/// All parts, ready to be written.
#[derive(Default)]
struct WriteSet {
    parts: Vec<PartState>,
}

impl WriteSet {
    /// Writes the parts, and commits unless records follow.
    async fn write(
        &self,
        tx: &Tx,
        tk: i32,
        change: &Change,
        committed: &Committed,
        now: Timestamp,
    ) -> Result<(), Abort> {
        for state in self.parts.iter().filter(|state| state.deleted) {
            sessions::delete(tx, tk, state.sk).await?;
        }
        let mut events = EventRows::default();
        let mut states = StateRows::default();
        let mut descriptions = DescriptionRows::default();
        let mut keys = KeyRows::default();
        let (mut wide, mut wide_of_new) = (Vec::new(), Vec::new());
        let mut writes = Writes::default();
        let kept = || self.parts.iter().zip(&change.parts).filter(|(state, _)| !state.deleted);
        let made: Vec<_> = kept().filter_map(|(state, _)| state.made()).collect();
        sessions::insert_sessions(tk, &made, &mut writes);
        for (state, part) in kept() {
            let is_new = state.fresh.is_some();
            let mut description = state.description.as_deref().filter(|_| !is_new);
            let wide = if is_new { &mut wide_of_new } else { &mut wide };
            for update in updates(part) {
                sessions::update(tk, state.sk, update, &mut description, now, wide, &mut writes);
            }
            if let Some(text) = description {
                descriptions.push(tk, state.sk, text);
            }
            if !is_new {
                states.push(tk, state.sk, &state.head);
            }
            for event in &state.events {
                events.push(tk, state.sk, event);
            }
            if let Some(talk) = &state.talk {
                talk::write(tk, state.sk, talk, &mut writes)?;
            }
        }
        sessions::update_details(tk, &wide, now).into_iter().for_each(|rows| writes.add(rows));
        sessions::update_details(tk, &wide_of_new, now)
            .into_iter()
            .for_each(|(sql, cells)| writes.add_after(sql, cells));
        if let Some(audit) = &change.audit {
            writes.add_after(
                "INSERT INTO audit (tk, at, actor, action, target) VALUES ($1, $2, $3, $4, $5)",
                cells![tk, now.as_micros(), audit.actor.as_str(), audit.action, audit.target.as_str()],
            );
        }
        if let Some(key) = &change.key {
            let first = committed.parts.iter().find(|part| !part.appended.is_empty());
            let sequences = first.map(|part| part.appended.iter().map(Appended::sequence).collect());
            let replay = Replay { sequences: sequences.unwrap_or_default(), note: key.note };
            // The key of a deletion outlives the session; any other goes with it.
            let sk = self.parts.first().filter(|state| !state.deleted).map(|state| state.sk);
            keys.push(tk, sk, key, &replay, now);
        }
        events.write(&mut writes);
        states.write(&mut writes);
        descriptions.write(&mut writes);
        keys.write(&mut writes);
        if change.records.is_empty() {
            writes.run_and_commit(tx.client()?).await?;
        } else {
            writes.run(tx.client()?).await?;
        }
        Ok(())
    }

    fn tell(self, tk: i32, change: &Change, committed: &Committed) -> (Vec<Notice>, Vec<(i32, i64)>) {
        let mut keys = Vec::new();
        let mut notices = Vec::new();
        for ((state, part), done) in self.parts.into_iter().zip(&change.parts).zip(&committed.parts) {
            let row_changed = state.fresh.is_some()
                || state.description.is_some()
                || updates(part).any(Update::advances_version);
            if !row_changed && !state.deleted && state.events.is_empty() {
                continue;
            }
            keys.push((tk, state.sk));
            notices.push(Notice {
                tenant: change.tenant.clone(),
                session: state.id,
                incarnation: done.head.incarnation,
                last_sequence: done.head.last_sequence,
                events: state.events,
                status: done.head.status,
                row_changed,
                deleted: state.deleted,
            });
        }
        (notices, keys)
    }
}

fn updates(part: &Part) -> impl Iterator<Item = &Update> {
    part.writes.iter().filter_map(|write| match write {
        Write::Update(update) => Some(&**update),
        Write::Append(_) | Write::Talk(_) | Write::Delete => None,
    })
}
