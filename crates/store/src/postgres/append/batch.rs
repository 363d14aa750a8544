//! Commits one batch of plain appends. Appends that `optimistic` can judge go there; the others, and those whose
//! cached head was stale, take a transaction of two round trips: lock and load, then write and commit.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Instant;

use deadpool_postgres::Object;
use futures_util::future::{OptionFuture, join, join3};
use sederunt_core::error::Error;
use sederunt_core::ids::SessionId;
use sederunt_core::store::Refusal;

use super::head_cache::{CachedHead, HeadKey, Xid};
use super::judged_batch::{BatchHead, JudgedBatch, LoadedBatch};
use super::optimistic::OptimisticAppends;
use super::{AppendJob, CommitAnswer};
use crate::postgres::fault::Fault;
use crate::postgres::idempotency::{self, StoredKey};
use crate::postgres::judge::{AskedDocuments, EXTERNAL_IDS, NEWEST_PATCHES};
use crate::postgres::rows::{Columns, HEAD, Keyed};
use crate::postgres::tx::{ANSWER_MAX, Context, Param, last_tick, locked_at};
use crate::postgres::writes::{CommitFailure, Writes};

/// Commits a batch. Returns an answer for every job, in their order.
pub(in crate::postgres) async fn run(context: &Context, jobs: &[AppendJob]) -> Vec<CommitAnswer> {
    let started = Instant::now();
    let mut optimistic = OptimisticAppends::of(context, jobs);
    let others = optimistic.take_others();
    let mut answers: Vec<Option<CommitAnswer>> = jobs.iter().map(|_| None).collect();
    let judged: HashSet<usize> = optimistic.indexes().collect();
    let rest: Vec<usize> = (0..jobs.len()).filter(|at| !judged.contains(at)).collect();
    let (cached, locked) =
        join(optimistic.run(context), commit_some_locked(context, jobs, &rest, &others)).await;
    for (at, answer) in cached.into_iter().chain(locked) {
        answers[at] = Some(answer);
    }
    let left: Vec<usize> = (0..jobs.len()).filter(|at| answers[*at].is_none()).collect();
    for (at, answer) in commit_some_locked(context, jobs, &left, &others).await {
        answers[at] = Some(answer);
    }
    metrics::histogram!("sederunt_store_batch_changes")
        .record(f64::from(u32::try_from(jobs.len()).unwrap_or(u32::MAX)));
    metrics::histogram!("sederunt_store_commit_seconds").record(started.elapsed());
    answers.into_iter().map(|answer| answer.unwrap_or(Err(Refusal::Stale))).collect()
}

/// Commits some jobs of a batch under locks.
async fn commit_some_locked(
    context: &Context,
    batch: &[AppendJob],
    which: &[usize],
    others: &HashMap<HeadKey, CachedHead>,
) -> Vec<(usize, CommitAnswer)> {
    if which.is_empty() {
        return Vec::new();
    }
    let jobs: Vec<&AppendJob> = which.iter().map(|at| &batch[*at]).collect();
    let answers = commit_locked(context, &jobs, others).await;
    which.iter().copied().zip(answers).collect()
}

async fn commit_locked(
    context: &Context,
    jobs: &[&AppendJob],
    others: &HashMap<HeadKey, CachedHead>,
) -> Vec<CommitAnswer> {
    let size = jobs.len();
    let mut outcome = attempt(context, jobs, others).await;
    if let Err(CommitFailure { fault, certain: true }) = &outcome
        && fault.is_lost()
    {
        outcome = attempt(context, jobs, others).await;
    }
    match outcome {
        Ok(answers) => answers,
        Err(CommitFailure { fault, certain: true }) if fault.is_verdict() && !fault.is_lost() => {
            tracing::debug!(
                ?fault,
                size,
                "the database refused a batch of appends; the node tries each append alone"
            );
            let mut answers = Vec::with_capacity(size);
            for job in jobs {
                answers.push(commit_alone(context, job).await);
            }
            answers
        }
        Err(CommitFailure { fault, .. }) => {
            tracing::warn!(?fault, size, "a batch of appends failed; its callers get `unavailable`");
            unavailable(fault, size)
        }
    }
}

/// The answers to a batch that failed as a whole.
pub(super) fn unavailable(fault: Fault, size: usize) -> Vec<CommitAnswer> {
    let text = Error::from(fault).to_string();
    (0..size).map(|_| Err(Error::unavailable(text.clone()).into())).collect()
}

/// Commits one append alone, and once more if it met another transaction.
async fn commit_alone(context: &Context, job: &AppendJob) -> CommitAnswer {
    let (jobs, others) = (&[job], HashMap::new());
    let outcome = match attempt(context, jobs, &others).await {
        Err(CommitFailure { fault, certain: true }) if fault.is_contention() => {
            attempt(context, jobs, &others).await
        }
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

/// `others` is what is cached of sessions: what it says of documents counts if the log has not grown since.
async fn attempt(
    context: &Context,
    jobs: &[&AppendJob],
    others: &HashMap<HeadKey, CachedHead>,
) -> Result<Vec<CommitAnswer>, CommitFailure> {
    let work = tokio::time::timeout(ANSWER_MAX, commit(context, jobs, others));
    work.await.unwrap_or(Err(CommitFailure { fault: Fault::TimedOut, certain: false }))
}

async fn commit(
    context: &Context,
    jobs: &[&AppendJob],
    others: &HashMap<HeadKey, CachedHead>,
) -> Result<Vec<CommitAnswer>, CommitFailure> {
    let client = HeldConnection::of(context).await?;
    let client_ref = client.get()?;
    let (mut loaded, writer) = lock_and_load(context, client_ref, jobs).await?;
    for (job, place) in jobs.iter().zip(&loaded.place) {
        if let Some(BatchHead { sk, head, .. }) = place.map(|place| &loaded.heads[place])
            && let Some(known) = others.get(&(job.tenant.clone(), job.session.clone()))
            && (known.sk, known.head.last_sequence) == (*sk, head.last_sequence)
        {
            loaded.lookups.know_unasked(*sk, &known.patches);
        }
    }
    let mut judged = JudgedBatch::new(loaded);
    let answers: Vec<CommitAnswer> =
        jobs.iter().enumerate().map(|(at, job)| judged.judge(judged.loaded.place[at], job)).collect();
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
        judged.cache_heads(context, jobs, writer);
    }
    Ok(answers)
}

/// A connection that goes back to its pool only after its transaction has ended.
pub(super) struct HeldConnection(Option<Object>);

impl HeldConnection {
    pub(super) async fn of(context: &Context) -> Result<Self, Fault> {
        Ok(Self(Some(context.append.get().await?)))
    }

    pub(super) fn get(&self) -> Result<&Object, Fault> {
        self.0.as_ref().ok_or(Fault::TimedOut)
    }

    pub(super) fn release(mut self) {
        self.0.take();
    }
}

impl Drop for HeldConnection {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            drop(Object::take(client));
        }
    }
}

/// The statement that begins a transaction on the rows of these tenants.
pub(in crate::postgres) fn begin(tenants: impl IntoIterator<Item = i32>) -> String {
    format!("BEGIN; SET LOCAL app.tks TO '{}'", tenant_set(tenants))
}

/// Tenants, as the row-level policies read them.
pub(super) fn tenant_set(tenants: impl IntoIterator<Item = i32>) -> String {
    let tenants: BTreeSet<i32> = tenants.into_iter().collect();
    let set: Vec<String> = tenants.iter().map(ToString::to_string).collect();
    format!("{{{}}}", set.join(","))
}

/// Locks the heads and loads what the judgement needs. Also returns the id of the transaction, if there is a head at
/// all.
async fn lock_and_load(
    context: &Context,
    client: &Object,
    jobs: &[&AppendJob],
) -> Result<(LoadedBatch, Option<Xid>), Fault> {
    let mut wanted: Vec<(i32, &str)> = jobs.iter().map(|job| (job.tk, job.session.as_str())).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let (tks, ids): (Vec<i32>, Vec<&str>) = wanted.into_iter().unzip();
    let begin = begin(tks.iter().copied());

    let mut asks: (Vec<i32>, Vec<&str>, Vec<&str>) = Default::default();
    let mut scopes: (Vec<i32>, Vec<&[u8]>) = Default::default();
    let mut externals: (Vec<i32>, Vec<&str>, Vec<&str>) = Default::default();
    let mut documents = AskedDocuments::default();
    for job in jobs {
        for user in job.possible_participants() {
            asks.0.push(job.tk);
            asks.1.push(job.session.as_str());
            asks.2.push(user.as_str());
        }
        documents.add(job.tk, &job.session, &job.guard);
        if let Some(key) = &job.key {
            scopes.0.push(job.tk);
            scopes.1.push(&key.scope);
        }
        for event in job.events() {
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
    let external = client.prepare_cached(EXTERNAL_IDS).await?;
    let newest = client.prepare_cached(NEWEST_PATCHES).await?;
    let lock_params: [Param<'_>; 2] = [&tks, &ids];
    let asks_params: [Param<'_>; 3] = [&asks.0, &asks.1, &asks.2];
    let scopes_params: [Param<'_>; 2] = [&scopes.0, &scopes.1];
    let externals_params: [Param<'_>; 3] = [&externals.0, &externals.1, &externals.2];
    let documents_params = documents.params();
    // Sent together, run in turn: each statement has its own snapshot, so those behind the lock see what was
    // committed while the lock was waited for.
    let ((begun, locked), (asked, known, repeats), patched) = join3(
        join(client.batch_execute(&begin), client.query(&lock, &lock_params)),
        join3(
            OptionFuture::from((!asks.0.is_empty()).then(|| client.query(&taking_part, &asks_params))),
            OptionFuture::from((!scopes.0.is_empty()).then(|| client.query(&keys, &scopes_params))),
            OptionFuture::from((!externals.0.is_empty()).then(|| client.query(&external, &externals_params))),
        ),
        OptionFuture::from((!documents.is_empty()).then(|| client.query(&newest, &documents_params))),
    )
    .await;
    begun?;

    let mut places: HashMap<(i32, SessionId), usize> = HashMap::with_capacity(ids.len());
    let locked = locked?;
    // Without a row there is nothing to judge, and the time does not matter.
    let mut loaded =
        LoadedBatch::at(last_tick(&locked)?.map(|micros| context.time(micros)).unwrap_or_default());
    let mut writer = None;
    for row in &locked {
        let mut columns = Columns::of(row);
        let Keyed { tk, sk, id, value: head } = columns.head()?;
        writer = Some(columns.take()?);
        places.insert((tk, id), loaded.heads.len());
        loaded.heads.push(BatchHead::new(tk, sk, head));
    }
    loaded.place.extend(jobs.iter().map(|job| places.get(&(job.tk, job.session.clone())).copied()));
    loaded.lookups.add_participants(&asked.transpose()?.unwrap_or_default())?;
    for row in known.transpose()?.unwrap_or_default() {
        let found = StoredKey::of(&row)?;
        loaded.keys.insert((found.tk, found.scope), found);
    }
    loaded.lookups.add_external_ids(&repeats.transpose()?.unwrap_or_default())?;
    loaded.lookups.add_documents(&patched.transpose()?.unwrap_or_default())?;
    Ok((loaded, writer))
}
