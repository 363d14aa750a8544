//! Batches of point reads: a session by its id, a document by its name, the time. A [`Coalescer`] collects them, and
//! a batch is one transaction. A read is never answered by a transaction that began before it was queued, so a caller
//! reads what it has seen committed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{OptionFuture, join_all, join5};
use sederunt_core::Error;
use sederunt_core::definitions::{DefinitionDoc, DefinitionKind};
use sederunt_core::ids::{SessionId, TenantId};
use sederunt_core::session::Session;
use sederunt_core::time::Timestamp;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::coalesce::Coalescer;
use crate::postgres::definitions::{self, doc_of};
use crate::postgres::fault::Result;
use crate::postgres::rows::Columns;
use crate::postgres::sessions::session_sql;
use crate::postgres::tx::{CLOCK, Context, Scope, within};

/// Batches in flight at once.
const DRIVERS: usize = 2;
/// Reads of one batch.
const BATCH_MAX: usize = 64;

type ReadAnswer<T> = oneshot::Sender<Result<T, Error>>;
type ReadWaiters<K, T> = HashMap<K, Vec<ReadAnswer<Option<T>>>>;

/// A read in the queue, and where its caller waits.
#[derive(Debug)]
enum PointRead {
    Session(i32, TenantId, SessionId, ReadAnswer<Option<Session>>),
    Doc(i32, TenantId, (DefinitionKind, Box<str>), ReadAnswer<Option<DefinitionDoc>>),
    Now(ReadAnswer<Timestamp>),
}

/// Collects reads until it is closed.
#[derive(Debug)]
pub(in crate::postgres) struct ReadBatches {
    context: Arc<Context>,
    coalescer: Arc<Coalescer<PointRead>>,
}

impl ReadBatches {
    pub(in crate::postgres) fn start(context: &Arc<Context>) -> (Self, Vec<JoinHandle<()>>) {
        // A read does not wait for further reads.
        let coalescer = Arc::new(Coalescer::new(BATCH_MAX, Duration::ZERO));
        let drivers = (0..DRIVERS).map(|_| tokio::spawn(drive(context.clone(), coalescer.clone())));
        let drivers = drivers.collect();
        (Self { context: context.clone(), coalescer }, drivers)
    }

    pub(in crate::postgres) async fn session(
        &self,
        tenant: &TenantId,
        id: &SessionId,
    ) -> Result<Option<Session>, Error> {
        let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
        self.ask(|answer| PointRead::Session(tk, tenant.clone(), id.clone(), answer)).await
    }

    pub(in crate::postgres) async fn doc(
        &self,
        tenant: &TenantId,
        kind: DefinitionKind,
        name: &str,
    ) -> Result<Option<DefinitionDoc>, Error> {
        let Some(tk) = self.context.tk(tenant).await? else { return Ok(None) };
        self.ask(|answer| PointRead::Doc(tk, tenant.clone(), (kind, name.into()), answer)).await
    }

    /// The time: computed from the last clock reading if that is recent, read otherwise.
    pub(in crate::postgres) async fn now(&self) -> Result<Timestamp, Error> {
        match self.context.recent_time() {
            Some(now) => Ok(now),
            None => self.ask(PointRead::Now).await,
        }
    }

    async fn ask<T>(&self, read: impl FnOnce(ReadAnswer<T>) -> PointRead) -> Result<T, Error> {
        let closed = || Error::unavailable("the store is closing");
        let (answer, answered) = oneshot::channel();
        if !self.coalescer.put(read(answer)) {
            return Err(closed());
        }
        answered.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Refuses further reads; queued ones are still answered.
    pub(in crate::postgres) fn close(&self) {
        self.coalescer.close();
    }
}

async fn drive(context: Arc<Context>, coalescer: Arc<Coalescer<PointRead>>) {
    while let Some(reads) = coalescer.next().await {
        let answered = reads.len();
        join_all(by_tenant(reads).into_iter().map(|batch| batch.answer(&context))).await;
        coalescer.finished(answered);
    }
}

/// One batch per tenant. Callers that ask for the time join the first one.
fn by_tenant(reads: Vec<PointRead>) -> Vec<ReadBatch> {
    let mut batches: Vec<ReadBatch> = Vec::new();
    let mut nows = Vec::new();
    for read in reads {
        match read {
            PointRead::Session(tk, tenant, id, answer) => {
                batch_of(&mut batches, tk, tenant).sessions.entry(id).or_default().push(answer);
            }
            PointRead::Doc(tk, tenant, name, answer) => {
                batch_of(&mut batches, tk, tenant).docs.entry(name).or_default().push(answer);
            }
            PointRead::Now(answer) => nows.push(answer),
        }
    }
    match batches.first_mut() {
        Some(first) => first.nows = nows,
        None => batches.push(ReadBatch { nows, ..ReadBatch::default() }),
    }
    batches
}

fn batch_of(batches: &mut Vec<ReadBatch>, tk: i32, tenant: TenantId) -> &mut ReadBatch {
    let at = batches.iter().position(|batch| batch.tenant.as_ref().is_some_and(|(known, _)| *known == tk));
    let at = at.unwrap_or_else(|| {
        batches.push(ReadBatch { tenant: Some((tk, tenant)), ..ReadBatch::default() });
        batches.len() - 1
    });
    &mut batches[at]
}

/// The reads of one transaction.
#[derive(Default)]
struct ReadBatch {
    tenant: Option<(i32, TenantId)>,
    sessions: ReadWaiters<SessionId, Session>,
    docs: ReadWaiters<(DefinitionKind, Box<str>), DefinitionDoc>,
    nows: Vec<ReadAnswer<Timestamp>>,
}

#[derive(Default)]
struct ReadRows {
    sessions: HashMap<SessionId, Session>,
    docs: HashMap<(DefinitionKind, Box<str>), DefinitionDoc>,
    now: Timestamp,
}

impl ReadBatch {
    async fn answer(self, context: &Context) {
        // Tried once more if the connection had died unnoticed.
        let seen = within(async {
            match self.load(context).await {
                Err(fault) if fault.is_lost() => self.load(context).await,
                seen => seen,
            }
        })
        .await;
        // The caller may have stopped waiting; a read loses nothing by that.
        match seen {
            Ok(ReadRows { sessions, docs, now }) => {
                answer_all(self.sessions, sessions);
                answer_all(self.docs, docs);
                for answer in self.nows {
                    let _ = answer.send(Ok(now));
                }
            }
            Err(fault) => {
                let error = Error::from(fault);
                fail_all(self.sessions, &error);
                fail_all(self.docs, &error);
                for answer in self.nows {
                    let _ = answer.send(Err(copy_of(&error)));
                }
            }
        }
    }

    async fn load(&self, context: &Context) -> Result<ReadRows> {
        let client = context.app.get().await?;
        let clock = client.prepare_cached(CLOCK).await?;
        let Some((tk, tenant)) = &self.tenant else {
            let now = context.time(client.query_one(&clock, &[]).await?.try_get(0)?);
            return Ok(ReadRows { now, ..ReadRows::default() });
        };
        let ids: Vec<&str> = self.sessions.keys().map(SessionId::as_str).collect();
        let (kinds, names): (Vec<&str>, Vec<&str>) =
            self.docs.keys().map(|(kind, name)| (kind.as_str(), &**name)).unzip();
        let by_id =
            client.prepare_cached(&session_sql("WHERE h.tk = $1 AND s.tk = $1 AND s.id = ANY ($2)")).await?;
        let by_name = client.prepare_cached(&definitions::by_name_sql()).await?;
        let begin = Scope::Tenant(*tk).begin("READ ONLY", &context.schema);
        // The first poll sends all statements.
        let wanted = (!ids.is_empty(), !names.is_empty(), !self.nows.is_empty());
        let of_sessions: [crate::postgres::tx::Param<'_>; 2] = [tk, &ids];
        let of_docs: [crate::postgres::tx::Param<'_>; 3] = [tk, &kinds, &names];
        let (begun, sessions, docs, now, ended) = join5(
            client.batch_execute(&begin),
            OptionFuture::from(wanted.0.then(|| client.query(&by_id, &of_sessions))),
            OptionFuture::from(wanted.1.then(|| client.query(&by_name, &of_docs))),
            OptionFuture::from(wanted.2.then(|| client.query_one(&clock, &[]))),
            client.batch_execute("COMMIT"),
        )
        .await;
        begun?;
        ended?;
        let mut seen = ReadRows::default();
        for row in sessions.transpose()?.iter().flatten() {
            let found = Columns::of(row).whole(tenant)?;
            seen.sessions.insert(found.id, found.value);
        }
        for row in docs.transpose()?.iter().flatten() {
            let (_, doc) = doc_of(row)?;
            seen.docs.insert((doc.kind, row.try_get::<_, &str>(row.len() - 1)?.into()), doc);
        }
        if let Some(row) = now.transpose()? {
            seen.now = context.time(row.try_get(0)?);
        }
        Ok(seen)
    }
}

fn answer_all<K: Hash + Eq, T: Clone>(asked: ReadWaiters<K, T>, mut found: HashMap<K, T>) {
    for (key, mut answers) in asked {
        let last = answers.pop();
        if let Entry::Occupied(found) = found.entry(key) {
            for answer in answers {
                let _ = answer.send(Ok(Some(found.get().clone())));
            }
            last.map(|last| last.send(Ok(Some(found.remove()))));
        } else {
            for answer in answers.into_iter().chain(last) {
                let _ = answer.send(Ok(None));
            }
        }
    }
}

fn fail_all<K, T>(asked: ReadWaiters<K, T>, error: &Error) {
    for answer in asked.into_values().flatten() {
        let _ = answer.send(Err(copy_of(error)));
    }
}

/// A copy of an error for another caller.
fn copy_of(error: &Error) -> Error {
    match error {
        Error::Unavailable(_) => Error::unavailable(error.to_string()),
        _ => Error::internal(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_one_row_are_one_and_tenants_stay_apart() {
        let (a, b) = (TenantId::stored("a"), TenantId::stored("b"));
        let session = |tk, tenant: &TenantId, id: &str| {
            PointRead::Session(tk, tenant.clone(), SessionId::stored(id), oneshot::channel().0)
        };
        let doc = |tk, tenant: &TenantId, name: &str| {
            PointRead::Doc(tk, tenant.clone(), (DefinitionKind::Task, name.into()), oneshot::channel().0)
        };
        let batches = by_tenant(vec![
            session(1, &a, "x"),
            PointRead::Now(oneshot::channel().0),
            session(2, &b, "x"),
            session(1, &a, "x"),
            session(1, &a, "y"),
            doc(2, &b, "t"),
            doc(2, &b, "t"),
        ]);
        let shape: Vec<_> = batches
            .iter()
            .map(|batch| {
                let tk = batch.tenant.as_ref().map(|(tk, _)| *tk);
                let asked = batch.sessions.values().map(Vec::len).sum::<usize>();
                let docs = batch.docs.values().map(Vec::len).sum::<usize>();
                (tk, batch.sessions.len(), asked, batch.docs.len(), docs, batch.nows.len())
            })
            .collect();
        assert_eq!(shape, [(Some(1), 2, 3, 0, 0, 1), (Some(2), 1, 1, 1, 2, 0)]);
        assert_eq!(by_tenant(vec![PointRead::Now(oneshot::channel().0)]).len(), 1);
    }

    #[test]
    fn every_caller_gets_the_same_answer() {
        let mut asked: ReadWaiters<&str, u8> = HashMap::new();
        let mut waiting = Vec::new();
        for key in ["there", "there", "gone", "there"] {
            let (answer, answered) = oneshot::channel();
            asked.entry(key).or_default().push(answer);
            waiting.push(answered);
        }
        answer_all(asked, HashMap::from([("there", 7)]));
        let told: Vec<_> = waiting.iter_mut().map(|one| one.try_recv().unwrap().unwrap()).collect();
        assert_eq!(told, [Some(7), Some(7), None, Some(7)]);
    }
}
