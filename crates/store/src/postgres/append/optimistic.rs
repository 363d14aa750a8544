//! Appends to sessions whose heads are cached: one statement, which is a transaction of its own. They are judged on
//! the cached heads. The statement writes each head only if its row is still the cached one, and inserts the events
//! of the heads that it wrote. Appends to rows that another transaction changed, and appends that need more than a
//! head, go to `batch`.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use sederunt_core::error::Error;
use sederunt_core::time::Timestamp;

use super::batch::{self, HeldConnection};
use super::head_cache::{CachedHead, HeadKey, Xid};
use super::judged_batch::{BatchHead, JudgedBatch, LoadedBatch};
use super::{AppendJob, CommitAnswer};
use crate::postgres::fault::Fault;
use crate::postgres::rows::new_events;
use crate::postgres::tx::{ANSWER_MAX, Context, Param, TICK};
use crate::postgres::writes::{CommitFailure, CounterRows, EventRows, push_shifted};

/// The appends of a batch that were judged on cached heads.
pub(super) struct OptimisticAppends<'j> {
    jobs: Vec<&'j AppendJob>,
    /// The index of each append in the batch.
    places: Vec<usize>,
    answers: Vec<CommitAnswer>,
    judged: JudgedBatch,
    /// For each head, the transaction that wrote its cached row.
    written_by: Vec<Xid>,
    /// What is cached of other sessions of the batch, which are locked.
    others: HashMap<HeadKey, CachedHead>,
}

impl AppendJob {
    /// Whether what is cached is enough to judge the append.
    fn needs_only(&self, known: &CachedHead) -> bool {
        self.key.is_none()
            && self.guard.asks_participants(&known.head).next().is_none()
            && self.guard.documents.iter().all(|document| known.knows(&document.key))
            && self.events().iter().all(|event| event.external_event_id.is_none())
    }
}

impl<'j> OptimisticAppends<'j> {
    /// Takes the appends that can be judged on cached heads out of a batch.
    pub(super) fn of(context: &Context, batch: &'j [AppendJob]) -> Self {
        let (jobs, places, answers, written_by, others) = Default::default();
        let Some(now) = context.recent_time() else {
            return Self {
                jobs,
                places,
                answers,
                judged: JudgedBatch::new(LoadedBatch::at(Timestamp::default())),
                written_by,
                others,
            };
        };
        let judged = JudgedBatch::new(LoadedBatch::at(now));
        let mut optimistic = Self { jobs, places, answers, judged, written_by, others };
        let mut of_session: HashMap<HeadKey, Vec<usize>> = HashMap::with_capacity(batch.len());
        for (at, job) in batch.iter().enumerate() {
            of_session.entry((job.tenant.clone(), job.session.clone())).or_default().push(at);
        }
        let known = context.head_cache.take(of_session.keys());
        let mut sessions: Vec<(CachedHead, Vec<usize>)> = Vec::with_capacity(known.len());
        for (known, (at, places)) in known.into_iter().zip(of_session) {
            let Some(known) = known else { continue };
            if places.iter().all(|at| batch[*at].needs_only(&known)) {
                sessions.push((known, places));
            } else if !known.patches.is_empty() {
                optimistic.others.insert(at, known);
            }
        }
        // Rows are locked in the order in which they are written, which is the same for all transactions.
        sessions.sort_unstable_by_key(|(known, _)| (known.tk, known.sk));
        for (known, places) in sessions {
            optimistic.judge(batch, known, &places);
        }
        optimistic
    }

    /// Judges all appends to a session, and takes them if at least one writes: then the compared row confirms the
    /// refusals too.
    fn judge(&mut self, batch: &'j [AppendJob], known: CachedHead, places: &[usize]) {
        let CachedHead { tk, sk, head, written_by, patches, .. } = known;
        let place = self.judged.loaded.heads.len();
        self.judged.loaded.lookups.know_documents(sk, patches);
        self.judged.loaded.heads.push(BatchHead::new(tk, sk, head));
        let jobs = places.iter().map(|at| &batch[*at]);
        let answers: Vec<CommitAnswer> =
            jobs.clone().map(|job| self.judged.judge(Some(place), job)).collect();
        let locked = &self.judged.loaded.heads[place];
        if locked.description.is_some() || !locked.grown {
            self.judged.loaded.heads.pop();
            return;
        }
        self.written_by.push(written_by);
        self.judged.loaded.place.extend(places.iter().map(|_| Some(place)));
        self.jobs.extend(jobs);
        self.places.extend(places);
        self.answers.extend(answers);
    }

    /// What is cached of the sessions that are locked.
    pub(super) fn take_others(&mut self) -> HashMap<HeadKey, CachedHead> {
        std::mem::take(&mut self.others)
    }

    /// The indexes of the appends in the batch.
    pub(super) fn indexes(&self) -> impl Iterator<Item = usize> {
        self.places.iter().copied()
    }

    /// Commits the appends. Returns an answer for each append whose row was the cached one.
    pub(super) async fn run(mut self, context: &Context) -> Vec<(usize, CommitAnswer)> {
        if self.jobs.is_empty() {
            return Vec::new();
        }
        let mut outcome = self.attempt(context).await;
        // After a lost connection it is not known whether the statement was committed. It can be sent once more: rows
        // that it wrote are no longer the cached ones.
        let again = matches!(&outcome, Err(CommitFailure { fault, certain: false }) if fault.is_lost());
        if again {
            outcome = self.attempt(context).await;
        }
        let WrittenHeads { sks, xid } = match outcome {
            Ok(moved) => moved,
            Err(CommitFailure { fault, certain: true }) if !again => {
                tracing::debug!(
                    ?fault,
                    "appends on cached heads failed; the node locks their rows and tries again"
                );
                return Vec::new();
            }
            Err(CommitFailure { fault, .. }) => {
                tracing::warn!(
                    ?fault,
                    size = self.jobs.len(),
                    "a batch of appends failed; its callers get `unavailable`"
                );
                let answers = batch::unavailable(fault, self.jobs.len());
                return self.places.into_iter().zip(answers).collect();
            }
        };
        let LoadedBatch { heads, place, .. } = &mut self.judged.loaded;
        if sks.len() < heads.len() {
            let moved: HashSet<i64> = sks.into_iter().collect();
            for place in place {
                *place = place.filter(|place| moved.contains(&heads[*place].sk));
            }
        }
        let Self { jobs, places, answers, judged, .. } = self;
        judged.publish(context, &jobs, &answers);
        let kept = places.into_iter().zip(answers).zip(&judged.loaded.place);
        let kept = kept.filter_map(|((at, answer), place)| match place {
            Some(_) => Some((at, answer)),
            None if again => {
                Some((at, Err(Error::unavailable("the connection to the database was lost").into())))
            }
            None => None,
        });
        let kept = kept.collect();
        judged.cache_heads(context, &jobs, xid);
        kept
    }

    async fn attempt(&self, context: &Context) -> Result<WrittenHeads, CommitFailure> {
        let work = tokio::time::timeout(ANSWER_MAX, self.commit(context));
        work.await.unwrap_or(Err(CommitFailure { fault: Fault::TimedOut, certain: false }))
    }

    async fn commit(&self, context: &Context) -> Result<WrittenHeads, CommitFailure> {
        let mut events = EventRows::default();
        let mut rows = [CounterRows::default(), CounterRows::default()];
        let mut written_by: [Vec<Xid>; 2] = Default::default();
        for (_, locked, done) in self.judged.written(&self.jobs, &self.answers) {
            for event in new_events(&done.appended) {
                events.push(locked.tk, locked.sk, event);
            }
        }
        for (BatchHead { tk, sk, head, .. }, xid) in self.judged.loaded.heads.iter().zip(&self.written_by) {
            let kind = usize::from(head.preview.is_some());
            rows[kind].push(*tk, *sk, head);
            written_by[kind].push(*xid);
        }
        let [plain, previews] = &rows;
        let mut params: Vec<Param<'_>> = Vec::new();
        let [all_plain, all_previews, both] = &STATEMENTS[usize::from(events.has_patches())];
        let sql = match (plain.is_empty(), previews.is_empty()) {
            (_, true) => all_plain,
            (true, false) => all_previews,
            (false, false) => both,
        };
        let tenants = batch::tenant_set(self.jobs.iter().map(|job| job.tk));
        for (nth, (rows, written_by)) in rows.iter().zip(&written_by).enumerate() {
            if !rows.is_empty() {
                params.extend(if nth == 0 { rows.params() } else { rows.params_with_preview() });
                params.extend([written_by as Param<'_>, &tenants]);
            }
        }
        params.extend(events.params());
        if events.has_patches() {
            params.extend(events.patch_params());
        }

        let client = HeldConnection::of(context).await?;
        let connection = client.get()?;
        let statement = connection.prepare_cached(sql).await?;
        // One statement is one transaction. If the server refused it, nothing was written. A lost connection proves
        // nothing, even if the server announced the end: it may have committed before.
        let row = connection.query_one(&statement, &params).await.map_err(|error| {
            let fault = Fault::from(error);
            CommitFailure { certain: fault.is_verdict() && !fault.is_lost(), fault }
        })?;
        client.release();
        let unsure = |error: tokio_postgres::Error| CommitFailure { fault: error.into(), certain: false };
        context.time(row.try_get(2).map_err(unsure)?);
        let sks: Option<Vec<i64>> = row.try_get(0).map_err(unsure)?;
        Ok(WrittenHeads { sks: sks.unwrap_or_default(), xid: row.try_get(1).map_err(unsure)? })
    }
}

/// The heads that were written, and the transaction that wrote them.
struct WrittenHeads {
    sks: Vec<i64>,
    xid: Xid,
}

/// Without and with patches of documents; for heads without a preview, with one, and for both kinds.
static STATEMENTS: LazyLock<[[String; 3]; 2]> = LazyLock::new(|| {
    [false, true].map(|has_patches| {
        let kinds: [&[(&str, usize)]; 3] = [
            &[CounterRows::KNOWN],
            &[CounterRows::KNOWN_WITH_PREVIEW],
            &[CounterRows::KNOWN, CounterRows::KNOWN_WITH_PREVIEW],
        ];
        kinds.map(|updates| statement(updates, has_patches))
    })
});

/// The statement: names the tenants to the policies, writes heads, inserts the events of the heads that were written and
/// the places of their patches, and returns those. The policies are evaluated at the first row that is read, and rows are read by the keys that
/// come after the names; in any other order the policies would let nothing pass.
fn statement(updates: &[(&str, usize)], has_patches: bool) -> String {
    let mut sql = String::from("WITH ");
    let mut params = 0;
    for (nth, (update, count)) in updates.iter().enumerate() {
        sql.push_str(&format!("moved{nth} AS ("));
        push_shifted(&mut sql, update, params);
        sql.push_str("), ");
        params += count;
    }
    let each: Vec<String> = (0..updates.len()).map(|nth| format!("SELECT sk FROM moved{nth}")).collect();
    let each = each.join(" UNION ALL ");
    sql.push_str("said AS (");
    push_shifted(&mut sql, EventRows::INSERT_SOME, params);
    // Written this way, PostgreSQL builds one hash table of the heads that were written.
    sql.push_str(&format!(" WHERE (e.log IN ({each})) IS TRUE) "));
    if has_patches {
        sql.push_str(", patched AS (");
        push_shifted(&mut sql, EventRows::INSERT_SOME_PATCHES, params + EventRows::PARAMS);
        sql.push_str(&format!(" WHERE (p.log IN ({each})) IS TRUE) "));
    }
    sql.push_str(&format!("SELECT array_agg(sk), pg_current_xact_id()::xid, {TICK} FROM ({each}) moved"));
    sql
}
