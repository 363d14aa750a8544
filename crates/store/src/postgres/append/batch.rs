//! One batch of plain appends, under the role that can append and nothing else: what this node knows enough of goes by
//! `optimistic`, the rest by a transaction in two round trips. Reads and locks first, judged here by the rules of core,
//! then everything written at once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Instant;

use futures_util::future::{OptionFuture, join, join3};
use sederunt_core::access::Role;
use sederunt_core::error::Error;
use sederunt_core::event::{Appended, NewEvent, advance};
use sederunt_core::ids::{SessionId, TenantId, UserId};
use sederunt_core::session::Head;
use sederunt_core::store::{Committed, Guard, IdemKey, Notice, PartDone, Refusal, Replay};
use sederunt_core::time::Timestamp;
use smallvec::smallvec;
use tokio::sync::oneshot;

use super::head_cache::{CachedHead, Xid};
use super::optimistic::OptimisticAppends;
use crate::postgres::fault::Fault;
use crate::postgres::idempotency::{self, StoredKey};
use crate::postgres::rows::{Columns, HEAD, Keyed, new_events};
use crate::postgres::tx::{Context, Param, last_tick, locked_at};
use crate::postgres::writes::{CommitFailure, CounterRows, DescriptionRows, EventRows, KeyRows, Writes};

/// A plain append, waiting.
#[derive(Debug)]
pub(in crate::postgres) struct AppendJob {
    pub(in crate::postgres) tk: i32,
    pub(in crate::postgres) tenant: TenantId,
    pub(in crate::postgres) session: SessionId,
    pub(in crate::postgres) guard: Guard,
    pub(in crate::postgres) events: Vec<NewEvent>,
    pub(in crate::postgres) key: Option<IdemKey>,
    pub(in crate::postgres) done: oneshot::Sender<CommitAnswer>,
}

pub(in crate::postgres) type CommitAnswer = Result<Committed, Refusal>;

impl AppendJob {
    pub(in crate::postgres) fn bytes(&self) -> usize {
        self.events.iter().map(NewEvent::bytes).sum()
    }

    /// The user whose participation may be asked for once the head is known.
    fn may_ask(&self) -> Option<&UserId> {
        let actor = &self.guard.append.as_ref()?.actor;
        matches!(actor.role, Role::Member | Role::Guest).then_some(actor.user.as_ref()).flatten()
    }
}

/// Commits a batch: an answer for every job of it, in their order.
pub(in crate::postgres) async fn run(context: &Context, jobs: &[AppendJob]) -> Vec<CommitAnswer> {
    let started = Instant::now();
    let optimistic = OptimisticAppends::of(context, jobs);
    let mut answers: Vec<Option<CommitAnswer>> = jobs.iter().map(|_| None).collect();
    let judged: HashSet<usize> = optimistic.places().collect();
    let rest: Vec<usize> = (0..jobs.len()).filter(|at| !judged.contains(at)).collect();
    let (kept, looked) = join(optimistic.run(context), looked_at(context, jobs, &rest)).await;
    for (at, answer) in kept.into_iter().chain(looked) {
        answers[at] = Some(answer);
    }
    let left: Vec<usize> = (0..jobs.len()).filter(|at| answers[*at].is_none()).collect();
    for (at, answer) in looked_at(context, jobs, &left).await {
        answers[at] = Some(answer);
    }
    metrics::histogram!("sederunt_store_batch_changes")
        .record(f64::from(u32::try_from(jobs.len()).unwrap_or(u32::MAX)));
    metrics::histogram!("sederunt_store_commit_seconds").record(started.elapsed());
    answers.into_iter().map(|answer| answer.unwrap_or(Err(Refusal::Stale))).collect()
}

/// Commits those of a batch whose sessions have to be looked at first.
async fn looked_at(context: &Context, batch: &[AppendJob], which: &[usize]) -> Vec<(usize, CommitAnswer)> {
    if which.is_empty() {
        return Vec::new();
    }
    let jobs: Vec<&AppendJob> = which.iter().map(|at| &batch[*at]).collect();
    let answers = with_look(context, &jobs).await;
    which.iter().copied().zip(answers).collect()
}

async fn with_look(context: &Context, jobs: &[&AppendJob]) -> Vec<CommitAnswer> {
    let size = jobs.len();
    let mut outcome = attempt(context, jobs).await;
    if let Err(CommitFailure { fault, certain: true }) = &outcome
        && fault.is_lost()
    {
        outcome = attempt(context, jobs).await;
    }
    match outcome {
        Ok(answers) => answers,
        Err(CommitFailure { fault, certain: true }) if fault.is_verdict() && !fault.is_lost() => {
            tracing::debug!(
                ?fault,
                size,
                "a batch was refused by the database; its changes are tried one by one"
            );
            let mut answers = Vec::with_capacity(size);
            for job in jobs {
                answers.push(alone(context, job).await);
            }
            answers
        }
        Err(CommitFailure { fault, .. }) => {
            tracing::warn!(?fault, size, "a batch of appends failed; each of its callers was told");
            unavailable(fault, size)
        }
    }
}

/// What everybody is told of a batch that failed as a whole.
pub(in crate::postgres) fn unavailable(fault: Fault, size: usize) -> Vec<CommitAnswer> {
    let text = Error::from(fault).to_string();
    (0..size).map(|_| Err(Error::unavailable(text.clone()).into())).collect()
}

/// One change by itself, twice if it met another transaction.
async fn alone(context: &Context, job: &AppendJob) -> CommitAnswer {
    let jobs = &[job];
    let outcome = match attempt(context, jobs).await {
        Err(CommitFailure { fault, certain: true }) if fault.is_contention() => attempt(context, jobs).await,
        outcome => outcome,
    };
    match outcome {
        Ok(mut answers) => answers.pop().unwrap_or(Err(Refusal::Stale)),
        Err(CommitFailure { fault, certain: true }) => Err(Error::from(fault).into()),
        Err(CommitFailure { fault, certain: false }) => {
            Err(Error::unavailable(Error::from(fault).to_string()).into())
        }
    }
}

const LOCK: &str = "FROM unnest($1::integer[], $2::text[]) AS w (tk, id)
     JOIN sessions s ON s.tk = w.tk AND s.id = w.id JOIN session_heads h ON h.tk = s.tk AND h.sk = s.sk
     ORDER BY h.tk, h.sk FOR NO KEY UPDATE OF h";

const TAKING_PART: &str =
    "SELECT s.sk, p.user_id FROM unnest($1::integer[], $2::text[], $3::text[]) AS w (tk, id, user_id)
     JOIN sessions s ON s.tk = w.tk AND s.id = w.id
     JOIN participants p ON p.tk = s.tk AND p.sk = s.sk AND p.user_id = w.user_id";

const KEYS: &str = "FROM unnest($1::integer[], $2::bytea[]) AS w (tk, scope)
     JOIN idempotency i ON i.tk = w.tk AND i.scope = w.scope";

/// An external id counts in the session's own log and in what it shares with others.
pub(in crate::postgres) const EXTERNAL: &str = "WITH w AS MATERIALIZED (
         SELECT s.tk, s.sk, u.external_id FROM unnest($1::integer[], $2::text[], $3::text[]) AS u (tk, id, external_id)
         JOIN sessions s ON s.tk = u.tk AND s.id = u.id)
     SELECT w.sk, x.external_id, x.seq FROM w
     JOIN external_ids x ON x.tk = w.tk AND x.log = w.sk AND x.external_id = w.external_id
     UNION ALL
     SELECT w.sk, x.external_id, x.seq FROM w
     JOIN session_ranges r ON r.tk = w.tk AND r.sk = w.sk
     JOIN external_ids x ON x.tk = r.tk AND x.log = r.log AND x.external_id = w.external_id
         AND x.seq BETWEEN r.from_seq AND r.to_seq";

async fn attempt(context: &Context, jobs: &[&AppendJob]) -> Result<Vec<CommitAnswer>, CommitFailure> {
    let work = tokio::time::timeout(crate::postgres::tx::ANSWER_MAX, commit(context, jobs));
    work.await.unwrap_or(Err(CommitFailure { fault: Fault::TimedOut, certain: false }))
}

async fn commit(context: &Context, jobs: &[&AppendJob]) -> Result<Vec<CommitAnswer>, CommitFailure> {
    let client = HeldConnection::of(context).await?;
    let client_ref = client.get()?;
    let (seen, writer) = look(context, client_ref, jobs).await?;
    let mut judged = JudgedBatch::new(seen);
    let answers: Vec<CommitAnswer> =
        jobs.iter().enumerate().map(|(at, job)| judged.judge(judged.seen.place[at], job)).collect();
    {
        let rows = judged.rows(jobs, &answers);
        let mut writes = Writes::default();
        rows.write(&mut writes);
        if writes.is_empty() {
            client_ref.batch_execute("COMMIT").await?;
        } else {
            writes.run_and_commit(client_ref).await?;
        }
    }
    client.release();
    judged.publish(context, jobs, &answers);
    if let Some(writer) = writer {
        judged.remember(context, jobs, writer);
    }
    Ok(answers)
}

/// A connection that is given back only when its transaction has ended.
pub(in crate::postgres) struct HeldConnection(Option<deadpool_postgres::Object>);

impl HeldConnection {
    pub(in crate::postgres) async fn of(context: &Context) -> Result<Self, Fault> {
        Ok(Self(Some(context.append.get().await?)))
    }

    pub(in crate::postgres) fn get(&self) -> Result<&deadpool_postgres::Object, Fault> {
        self.0.as_ref().ok_or(Fault::TimedOut)
    }

    pub(in crate::postgres) fn release(mut self) {
        self.0.take();
    }
}

impl Drop for HeldConnection {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            drop(deadpool_postgres::Object::take(client));
        }
    }
}

/// What the first round trip saw: heads under lock, and, in later snapshots, all that hangs on them.
pub(in crate::postgres) struct Seen {
    now: Timestamp,
    pub(in crate::postgres) heads: Vec<BatchHead>,
    /// Which head each change is about.
    pub(in crate::postgres) place: Vec<Option<usize>>,
    taking_part: HashSet<(i64, UserId)>,
    keys: HashMap<(i32, [u8; 16]), StoredKey>,
    external: HashMap<(i64, Box<str>), u64>,
}

impl Seen {
    /// Nothing as yet.
    pub(in crate::postgres) fn at(now: Timestamp) -> Self {
        Self {
            now,
            heads: Vec::new(),
            place: Vec::new(),
            taking_part: HashSet::new(),
            keys: HashMap::new(),
            external: HashMap::new(),
        }
    }
}

/// A head under lock, as the changes of the batch move it. Its preview is `None` until one of them sets it.
pub(in crate::postgres) struct BatchHead {
    pub(in crate::postgres) tk: i32,
    pub(in crate::postgres) sk: i64,
    pub(in crate::postgres) head: Head,
    pub(in crate::postgres) grown: bool,
    pub(in crate::postgres) description: Option<Box<str>>,
}

impl BatchHead {
    pub(in crate::postgres) fn new(tk: i32, sk: i64, head: Head) -> Self {
        Self { tk, sk, head, grown: false, description: None }
    }
}

/// Begins a transaction over the rows of these tenants.
pub(in crate::postgres) fn begin(tenants: impl IntoIterator<Item = i32>) -> String {
    format!("BEGIN; SET LOCAL app.tks TO '{}'", set_of(tenants))
}

/// Tenants, as the walls around their rows are told of them.
pub(in crate::postgres) fn set_of(tenants: impl IntoIterator<Item = i32>) -> String {
    let tenants: BTreeSet<i32> = tenants.into_iter().collect();
    let set: Vec<String> = tenants.iter().map(ToString::to_string).collect();
    format!("{{{}}}", set.join(","))
}

/// Also says which transaction writes what is written, where there is a head at all.
async fn look(
    context: &Context,
    client: &deadpool_postgres::Object,
    jobs: &[&AppendJob],
) -> Result<(Seen, Option<Xid>), Fault> {
    let mut wanted: Vec<(i32, &str)> = jobs.iter().map(|job| (job.tk, job.session.as_str())).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let (tks, ids): (Vec<i32>, Vec<&str>) = wanted.into_iter().unzip();
    let begin = begin(tks.iter().copied());

    let mut asks: (Vec<i32>, Vec<&str>, Vec<&str>) = Default::default();
    let mut scopes: (Vec<i32>, Vec<&[u8]>) = Default::default();
    let mut externals: (Vec<i32>, Vec<&str>, Vec<&str>) = Default::default();
    for job in jobs {
        if let Some(user) = job.may_ask() {
            asks.0.push(job.tk);
            asks.1.push(job.session.as_str());
            asks.2.push(user.as_str());
        }
        if let Some(key) = &job.key {
            scopes.0.push(job.tk);
            scopes.1.push(&key.scope);
        }
        for event in &job.events {
            if let Some(external) = event.external_event_id.as_deref() {
                externals.0.push(job.tk);
                externals.1.push(job.session.as_str());
                externals.2.push(external);
            }
        }
    }

    let lock = client
        .prepare_cached(&locked_at(&format!("SELECT {HEAD}, pg_current_xact_id()::xid {LOCK}")))
        .await?;
    let taking_part = client.prepare_cached(TAKING_PART).await?;
    let keys = client.prepare_cached(&format!("SELECT {} {KEYS}", idempotency::COLUMNS)).await?;
    let external = client.prepare_cached(EXTERNAL).await?;
    let lock_params: [Param<'_>; 2] = [&tks, &ids];
    let asks_params: [Param<'_>; 3] = [&asks.0, &asks.1, &asks.2];
    let scopes_params: [Param<'_>; 2] = [&scopes.0, &scopes.1];
    let externals_params: [Param<'_>; 3] = [&externals.0, &externals.1, &externals.2];
    // Sent together, run in turn: each statement has a snapshot of its own, so those behind the lock see
    // whatever was committed while it was waited for.
    let ((begun, locked), (asked, known, repeats)) = join(
        join(client.batch_execute(&begin), client.query(&lock, &lock_params)),
        join3(
            OptionFuture::from((!asks.0.is_empty()).then(|| client.query(&taking_part, &asks_params))),
            OptionFuture::from((!scopes.0.is_empty()).then(|| client.query(&keys, &scopes_params))),
            OptionFuture::from((!externals.0.is_empty()).then(|| client.query(&external, &externals_params))),
        ),
    )
    .await;
    begun?;

    let mut places: HashMap<(i32, SessionId), usize> = HashMap::with_capacity(ids.len());
    let locked = locked?;
    // Of what was not found nobody asks for the time.
    let mut seen = Seen::at(last_tick(&locked)?.map(|micros| context.time(micros)).unwrap_or_default());
    let mut writer = None;
    for row in &locked {
        let mut columns = Columns::of(row);
        let Keyed { tk, sk, id, value: head } = columns.head()?;
        writer = Some(columns.take()?);
        places.insert((tk, id), seen.heads.len());
        seen.heads.push(BatchHead::new(tk, sk, head));
    }
    seen.place.extend(jobs.iter().map(|job| places.get(&(job.tk, job.session.clone())).copied()));
    for row in asked.transpose()?.unwrap_or_default() {
        seen.taking_part.insert((row.try_get(0)?, UserId::stored(row.try_get::<_, &str>(1)?)));
    }
    for row in known.transpose()?.unwrap_or_default() {
        let found = StoredKey::of(&row)?;
        seen.keys.insert((found.tk, found.scope), found);
    }
    for row in repeats.transpose()?.unwrap_or_default() {
        let seq: i64 = row.try_get(2)?;
        seen.external
            .insert((row.try_get(0)?, row.try_get::<_, &str>(1)?.into()), crate::postgres::tx::count(seq));
    }
    Ok((seen, writer))
}

/// The batch as it is judged, change by change.
pub(in crate::postgres) struct JudgedBatch {
    pub(in crate::postgres) seen: Seen,
    keys: KeyRows,
}

struct BatchRows<'a> {
    events: EventRows<'a>,
    plain: CounterRows<'a>,
    with_preview: CounterRows<'a>,
    descriptions: DescriptionRows<'a>,
    keys: &'a KeyRows,
}

impl BatchRows<'_> {
    fn write<'w>(&'w self, writes: &mut Writes<'w>) {
        self.events.write(writes);
        self.plain.write(writes);
        self.with_preview.write_with_preview(writes);
        self.descriptions.write(writes);
        self.keys.write(writes);
    }
}

impl JudgedBatch {
    pub(in crate::postgres) fn new(seen: Seen) -> Self {
        Self { seen, keys: KeyRows::default() }
    }

    /// Judges one change on its head as those before it have left it. A refused one leaves no trace.
    pub(in crate::postgres) fn judge(&mut self, place: Option<usize>, job: &AppendJob) -> CommitAnswer {
        let Self { seen, keys } = self;
        let Some(locked) = place.and_then(|place| seen.heads.get_mut(place)) else {
            return Err(Error::NotFound.into());
        };
        let (sk, head) = (locked.sk, &mut locked.head);
        if let Some(key) = &job.key
            && let Some(found) = seen.keys.get(&(job.tk, key.scope)).filter(|found| found.sk == Some(sk))
        {
            return found.answer(key, [head.clone()], seen.now);
        }
        let asked = job.guard.asks_participant(head);
        let participates = asked.is_some_and(|user| seen.taking_part.contains(&(sk, user.clone())));
        job.guard.check(&job.session, head, participates, seen.now)?;
        let before = head.last_sequence;
        let (appended, cold) = advance(&job.session, head, job.events.clone(), seen.now, |external| {
            seen.external.get(&(sk, Box::from(external))).copied()
        });
        for event in new_events(&appended) {
            if let Some(external) = &event.external_event_id {
                seen.external.insert((sk, external.clone()), event.sequence);
            }
        }
        locked.grown |= head.last_sequence > before;
        if cold.description.is_some() {
            locked.description = cold.description;
        }
        if let Some(key) = &job.key {
            let sequences = appended.iter().map(Appended::sequence).collect();
            let replay = Replay { sequences, note: key.note };
            keys.push(job.tk, Some(sk), key, &replay, seen.now);
            seen.keys.insert((job.tk, key.scope), StoredKey::of_commit(job.tk, sk, key, replay));
        }
        let head = locked.head.clone();
        Ok(Committed { at: seen.now, parts: smallvec![PartDone { head, appended }], replay: None })
    }

    /// The changes that wrote something, with their heads and what they did.
    pub(in crate::postgres) fn written<'a>(
        &'a self,
        jobs: &'a [&AppendJob],
        answers: &'a [CommitAnswer],
    ) -> impl Iterator<Item = (&'a AppendJob, &'a BatchHead, &'a PartDone)> {
        jobs.iter().zip(answers).zip(&self.seen.place).filter_map(|((job, answer), place)| {
            let done = answer.as_ref().ok().filter(|done| done.replay.is_none())?.parts.first()?;
            Some((*job, self.seen.heads.get((*place)?)?, done))
        })
    }

    fn rows<'a>(&'a self, jobs: &'a [&AppendJob], answers: &'a [CommitAnswer]) -> BatchRows<'a> {
        let mut rows = BatchRows {
            events: EventRows::default(),
            plain: CounterRows::default(),
            with_preview: CounterRows::default(),
            descriptions: DescriptionRows::default(),
            keys: &self.keys,
        };
        for (_, locked, done) in self.written(jobs, answers) {
            for event in new_events(&done.appended) {
                rows.events.push(locked.tk, locked.sk, event);
            }
        }
        for BatchHead { tk, sk, head, description, .. } in
            self.seen.heads.iter().filter(|locked| locked.grown)
        {
            let into = if head.preview.is_some() { &mut rows.with_preview } else { &mut rows.plain };
            into.push(*tk, *sk, head);
            if let Some(text) = description {
                rows.descriptions.push(*tk, *sk, text);
            }
        }
        rows
    }

    /// Tells everyone what was committed.
    pub(in crate::postgres) fn publish(
        &self,
        context: &Context,
        jobs: &[&AppendJob],
        answers: &[CommitAnswer],
    ) {
        let (notices, keys) = self.notices(jobs, answers);
        context.publish(&notices, &keys, Notice::speaks);
    }

    /// Keeps the heads that this transaction has written.
    pub(in crate::postgres) fn remember(self, context: &Context, jobs: &[&AppendJob], writer: Xid) {
        let mut heads: Vec<Option<BatchHead>> = self.seen.heads.into_iter().map(Some).collect();
        let known = jobs.iter().zip(self.seen.place).filter_map(|(job, place)| {
            let BatchHead { tk, sk, head, .. } = heads[place?].take().filter(|locked| locked.grown)?;
            Some(((job.tenant.clone(), job.session.clone()), CachedHead::new(tk, sk, head, writer)))
        });
        context.head_cache.put(known);
    }

    /// What to tell, in the order of the batch, and the keys of each session.
    fn notices(&self, jobs: &[&AppendJob], answers: &[CommitAnswer]) -> (Vec<Notice>, Vec<(i32, i64)>) {
        self.written(jobs, answers)
            .filter_map(|(job, locked, done)| {
                let events: Vec<_> = new_events(&done.appended).cloned().collect();
                let notice = Notice {
                    tenant: job.tenant.clone(),
                    session: job.session.clone(),
                    incarnation: done.head.incarnation,
                    last_sequence: done.head.last_sequence,
                    events,
                    status: done.head.status,
                    row_changed: locked.description.is_some(),
                    deleted: false,
                };
                (!notice.events.is_empty()).then_some((notice, (locked.tk, locked.sk)))
            })
            .unzip()
    }
}
