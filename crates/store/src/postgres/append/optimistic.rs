//! Appends to sessions whose heads this node knows from its last append: a transaction of one statement. They are
//! judged on what is known, and each head is written on the condition that its row is still the one that was known; events
//! follow the heads that were. What others have changed meanwhile, and what needs more than a head, is looked at by `batch`.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use sederunt_core::error::Error;
use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::session::Head;
use sederunt_core::time::Timestamp;

use super::batch::{self, Answer, Bench, Held, Job, Locked, Seen};
use super::head_cache::{Known, Xid};
use crate::postgres::fault::Fault;
use crate::postgres::rows::new_events;
use crate::postgres::tx::{ANSWER_MAX, Base, Param, TICK};
use crate::postgres::writes::{Broken, CounterRows, EventRows, push_shifted};

/// The appends of a batch that are judged already.
pub(in crate::postgres) struct Ordinary<'j> {
    jobs: Vec<&'j Job>,
    /// Where each stands in the batch.
    places: Vec<usize>,
    answers: Vec<Answer>,
    bench: Bench,
    /// Of each head, which transaction wrote its row.
    written_by: Vec<Xid>,
}

impl Job {
    /// Whether its head is all that has to be known of its session.
    fn is_ordinary(&self, head: &Head) -> bool {
        self.key.is_none()
            && self.guard.asks_participant(head).is_none()
            && self.events.iter().all(|event| event.external_event_id.is_none())
    }
}

impl<'j> Ordinary<'j> {
    /// Takes out of a batch whatever it can judge.
    pub(in crate::postgres) fn of(base: &Base, batch: &'j [Job]) -> Self {
        let (jobs, places, answers, written_by) = Default::default();
        let Some(now) = base.time_told() else {
            return Self {
                jobs,
                places,
                answers,
                bench: Bench::new(Seen::at(Timestamp::default())),
                written_by,
            };
        };
        let mut ordinary = Self { jobs, places, answers, bench: Bench::new(Seen::at(now)), written_by };
        let mut of_session: HashMap<(TenantId, SessionId), Vec<usize>> = HashMap::with_capacity(batch.len());
        for (at, job) in batch.iter().enumerate() {
            of_session.entry((job.tenant.clone(), job.session.clone())).or_default().push(at);
        }
        let known = base.known.take(of_session.keys());
        let mut sessions: Vec<(Known, Vec<usize>)> = known
            .into_iter()
            .zip(of_session.into_values())
            .filter_map(|(known, places)| Some((known?, places)))
            .filter(|(known, places)| places.iter().all(|at| batch[*at].is_ordinary(&known.head)))
            .collect();
        // Rows are locked in the order in which they are written: the same for everybody.
        sessions.sort_unstable_by_key(|(known, _)| (known.tk, known.sk));
        for (known, places) in sessions {
            ordinary.judge(batch, known, &places);
        }
        ordinary
    }

    /// Judges all that is said in a session, and takes it if anything is to be written: then a refusal stands too if
    /// the row was the one that was known.
    fn judge(&mut self, batch: &'j [Job], known: Known, places: &[usize]) {
        let Known { tk, sk, head, written_by, .. } = known;
        let place = self.bench.seen.heads.len();
        self.bench.seen.heads.push(Locked::new(tk, sk, head));
        let jobs = places.iter().map(|at| &batch[*at]);
        let answers: Vec<Answer> = jobs.clone().map(|job| self.bench.judge(Some(place), job)).collect();
        let locked = &self.bench.seen.heads[place];
        if locked.description.is_some() || !locked.grown {
            self.bench.seen.heads.pop();
            return;
        }
        self.written_by.push(written_by);
        self.bench.seen.place.extend(places.iter().map(|_| Some(place)));
        self.jobs.extend(jobs);
        self.places.extend(places);
        self.answers.extend(answers);
    }

    /// Where in the batch they stand.
    pub(in crate::postgres) fn places(&self) -> impl Iterator<Item = usize> {
        self.places.iter().copied()
    }

    /// Commits them: an answer for each whose row was the one that was known.
    pub(in crate::postgres) async fn run(mut self, base: &Base) -> Vec<(usize, Answer)> {
        if self.jobs.is_empty() {
            return Vec::new();
        }
        let mut outcome = self.attempt(base).await;
        // Whose connection is lost does not know whether anything was written. It can be asked for once more: rows that were
        // written are no longer those that were known.
        let again = matches!(&outcome, Err(Broken { fault, certain: false }) if fault.is_lost());
        if again {
            outcome = self.attempt(base).await;
        }
        let Moved { sks, xid } = match outcome {
            Ok(moved) => moved,
            Err(Broken { fault, certain: true }) if !again => {
                tracing::debug!(?fault, "appends to what is known have failed; they are looked at");
                return Vec::new();
            }
            Err(Broken { fault, .. }) => {
                tracing::warn!(
                    ?fault,
                    size = self.jobs.len(),
                    "a batch of appends failed; each of its callers was told"
                );
                let answers = batch::unavailable(fault, self.jobs.len());
                return self.places.into_iter().zip(answers).collect();
            }
        };
        let Seen { heads, place, .. } = &mut self.bench.seen;
        if sks.len() < heads.len() {
            let moved: HashSet<i64> = sks.into_iter().collect();
            for place in place {
                *place = place.filter(|place| moved.contains(&heads[*place].sk));
            }
        }
        let Self { jobs, places, answers, bench, .. } = self;
        bench.publish(base, &jobs, &answers);
        let kept = places.into_iter().zip(answers).zip(&bench.seen.place);
        let kept = kept.filter_map(|((at, answer), place)| match place {
            Some(_) => Some((at, answer)),
            None if again => {
                Some((at, Err(Error::unavailable("the connection to the database was lost").into())))
            }
            None => None,
        });
        let kept = kept.collect();
        bench.remember(base, &jobs, xid);
        kept
    }

    async fn attempt(&self, base: &Base) -> Result<Moved, Broken> {
        let work = tokio::time::timeout(ANSWER_MAX, self.commit(base));
        work.await.unwrap_or(Err(Broken { fault: Fault::TimedOut, certain: false }))
    }

    async fn commit(&self, base: &Base) -> Result<Moved, Broken> {
        let mut events = EventRows::default();
        let mut rows = [CounterRows::default(), CounterRows::default()];
        let mut written_by: [Vec<Xid>; 2] = Default::default();
        for (_, locked, done) in self.bench.written(&self.jobs, &self.answers) {
            for event in new_events(&done.appended) {
                events.push(locked.tk, locked.sk, event);
            }
        }
        for (Locked { tk, sk, head, .. }, xid) in self.bench.seen.heads.iter().zip(&self.written_by) {
            let kind = usize::from(head.preview.is_some());
            rows[kind].push(*tk, *sk, head);
            written_by[kind].push(*xid);
        }
        let [plain, previews] = &rows;
        let mut params: Vec<Param<'_>> = Vec::new();
        let sql = match (plain.is_empty(), previews.is_empty()) {
            (_, true) => &PLAIN,
            (true, false) => &PREVIEWS,
            (false, false) => &BOTH,
        };
        let tenants = batch::set_of(self.jobs.iter().map(|job| job.tk));
        for (nth, (rows, written_by)) in rows.iter().zip(&written_by).enumerate() {
            if !rows.is_empty() {
                params.extend(if nth == 0 { rows.params() } else { rows.params_with_preview() });
                params.extend([written_by as Param<'_>, &tenants]);
            }
        }
        params.extend(events.params());

        let client = Held::of(base).await?;
        let connection = client.get()?;
        let statement = connection.prepare_cached(sql).await?;
        // A transaction of its own. What the server has refused is not written. The end of the connection says nothing, even
        // if the server tells of it: it may have written before that.
        let row = connection.query_one(&statement, &params).await.map_err(|error| {
            let fault = Fault::from(error);
            Broken { certain: fault.is_verdict() && !fault.is_lost(), fault }
        })?;
        client.release();
        let unsure = |error: tokio_postgres::Error| Broken { fault: error.into(), certain: false };
        base.time(row.try_get(2).map_err(unsure)?);
        let sks: Option<Vec<i64>> = row.try_get(0).map_err(unsure)?;
        Ok(Moved { sks: sks.unwrap_or_default(), xid: row.try_get(1).map_err(unsure)? })
    }
}

/// The heads that were written, and by which transaction.
struct Moved {
    sks: Vec<i64>,
    xid: Xid,
}

static PLAIN: LazyLock<String> = LazyLock::new(|| statement(&[CounterRows::KNOWN]));
static PREVIEWS: LazyLock<String> = LazyLock::new(|| statement(&[CounterRows::KNOWN_WITH_PREVIEW]));
static BOTH: LazyLock<String> =
    LazyLock::new(|| statement(&[CounterRows::KNOWN, CounterRows::KNOWN_WITH_PREVIEW]));

/// Names the tenants, writes heads, then the events of those that were written, and says which they are. The walls around
/// the tenants are asked about the first row that is looked at, and rows are looked at by the keys that stand behind the
/// names; were it otherwise, they would let nothing pass.
fn statement(updates: &[(&str, usize)]) -> String {
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
    // Compared in this way, those that moved are put into a table of hashes once.
    sql.push_str(&format!(" WHERE (e.log IN ({each})) IS TRUE) "));
    sql.push_str(&format!("SELECT array_agg(sk), pg_current_xact_id()::xid, {TICK} FROM ({each}) moved"));
    sql
}
