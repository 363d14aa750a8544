//! Batches of small changes that are no plain appends: creating, moving and settling sessions. A [`Coalescer`]
//! collects them, and a batch is one commit. If the batch is refused, each of its changes is committed alone, so that
//! no caller is refused because of another.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sederunt_core::error::Error;
use sederunt_core::ids::SessionId;
use sederunt_core::store::{Change, ChangePart, CommitResult, PartTarget, Refusal, Write};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::coalesce::Coalescer;
use crate::postgres::append::CommitAnswer;
use crate::postgres::commit;
use crate::postgres::tx::Context;

/// Batches in flight at once: one that waits for a lock does not delay the others.
const DRIVERS: usize = 2;
/// Changes of one batch.
const BATCH_MAX: usize = 32;
/// The longest wait for the callers that the last batch answered: about as long as a commit takes.
const LINGER_MAX: Duration = Duration::from_millis(1);
/// A change with more parts goes alone.
const PARTS_MAX: usize = 4;

/// A change in the queue, and where its caller waits.
#[derive(Debug)]
struct QueuedChange {
    tk: i32,
    change: Change,
    done: oneshot::Sender<CommitAnswer>,
}

/// Collects changes until it is closed. Changes that create sessions are collected apart from those that move them: a
/// caller that creates sessions comes back at once for the next one, a caller that moves one does not, and each batch
/// waits for its own callers only.
#[derive(Debug)]
pub(in crate::postgres) struct ChangeBatches {
    making: Arc<Coalescer<QueuedChange>>,
    moving: Arc<Coalescer<QueuedChange>>,
}

impl ChangeBatches {
    pub(in crate::postgres) fn start(context: &Arc<Context>) -> (Self, Vec<JoinHandle<()>>) {
        let [making, moving] = [(); 2].map(|()| Arc::new(Coalescer::new(BATCH_MAX, LINGER_MAX)));
        let drivers = [&making, &moving].into_iter().flat_map(|coalescer| [coalescer; DRIVERS]);
        let drivers =
            drivers.map(|coalescer| tokio::spawn(drive(context.clone(), coalescer.clone()))).collect();
        (Self { making, moving }, drivers)
    }

    /// Whether a change may share a transaction: it is small, all that it does is in its parts, and no policy asks in
    /// whose name.
    pub(in crate::postgres) fn accepts(change: &Change) -> bool {
        let small = |part: &ChangePart| {
            let forks = matches!(&part.on, PartTarget::New(new) if new.fork_of.is_some());
            !forks
                && !commit::records_activity(part)
                && !part.writes.iter().any(|write| matches!(write, Write::Delete))
        };
        change.key.is_none()
            && change.audit.is_none()
            && change.records.is_empty()
            && (1..=PARTS_MAX).contains(&change.parts.len())
            && change.parts.iter().all(small)
    }

    pub(in crate::postgres) async fn apply(&self, tk: i32, change: Change) -> CommitAnswer {
        let closed = || Refusal::from(Error::unavailable("the store is closing"));
        let makes = change.parts.iter().any(|part| matches!(part.on, PartTarget::New(_)));
        let coalescer = if makes { &self.making } else { &self.moving };
        let (done, answer) = oneshot::channel();
        if !coalescer.put(QueuedChange { tk, change, done }) {
            return Err(closed());
        }
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Refuses further changes; queued ones are still committed.
    pub(in crate::postgres) fn close(&self) {
        self.making.close();
        self.moving.close();
    }
}

async fn drive(context: Arc<Context>, coalescer: Arc<Coalescer<QueuedChange>>) {
    while let Some(mut next) = coalescer.next().await {
        let answered = next.len();
        let mut waiting = 0;
        while !next.is_empty() {
            let (batch, later) = split_batch(next);
            let answers = commit_batch(&context, &batch).await;
            // Counted before the answers are sent: a caller that is back already would be expected twice.
            waiting = coalescer.waiting();
            for (one, answer) in batch.into_iter().zip(answers) {
                // The caller may have stopped waiting; the change stands.
                let _ = one.done.send(answer);
            }
            next = later;
        }
        coalescer.finished(answered + waiting);
    }
}

/// Splits off a batch of one tenant that names no session twice.
fn split_batch(waiting: Vec<QueuedChange>) -> (Vec<QueuedChange>, Vec<QueuedChange>) {
    let mut named: HashSet<SessionId> = HashSet::new();
    let tk = waiting.first().map(|first| first.tk);
    waiting.into_iter().partition(|one| {
        let fits = Some(one.tk) == tk && sessions(&one.change).all(|id| !named.contains(id));
        // A change must not overtake an earlier one on the same session, even if that one is not in this batch.
        named.extend(sessions(&one.change).cloned());
        fits
    })
}

fn sessions(change: &Change) -> impl Iterator<Item = &SessionId> {
    change.parts.iter().map(|part| match &part.on {
        PartTarget::Session(id) => id,
        PartTarget::New(new) => &new.id,
    })
}

/// Commits a batch. Returns an answer for every change, in their order.
async fn commit_batch(context: &Context, batch: &[QueuedChange]) -> Vec<CommitAnswer> {
    let [first, rest @ ..] = batch else { return Vec::new() };
    if rest.is_empty() {
        return commit_one_by_one(context, batch).await;
    }
    let mut all = first.change.clone();
    all.parts.extend(rest.iter().flat_map(|one| one.change.parts.iter().cloned()));
    match commit::apply(context, first.tk, &all).await {
        Ok(CommitResult { at, parts, .. }) => {
            let mut parts = parts.into_iter();
            let mut answer = |one: &QueuedChange| {
                let parts = parts.by_ref().take(one.change.parts.len()).collect();
                Ok(CommitResult { at, parts, replay: None })
            };
            batch.iter().map(&mut answer).collect()
        }
        // It is not known whether the batch was written: a retry could write it twice.
        Err(Refusal::Rejected(error @ (Error::Unavailable(_) | Error::Internal(_)))) => {
            let text = error.to_string();
            batch.iter().map(|_| Err(Error::unavailable(text.clone()).into())).collect()
        }
        Err(_) => commit_one_by_one(context, batch).await,
    }
}

async fn commit_one_by_one(context: &Context, batch: &[QueuedChange]) -> Vec<CommitAnswer> {
    let mut answers = Vec::with_capacity(batch.len());
    for one in batch {
        answers.push(commit::apply(context, one.tk, &one.change).await);
    }
    answers
}

#[cfg(test)]
mod tests {
    use sederunt_core::ids::TenantId;
    use sederunt_core::store::Guard;

    use super::*;

    fn waiting(tk: i32, ids: &[&str]) -> QueuedChange {
        let mut change = Change::new(TenantId::stored("t"));
        for id in ids {
            let on = PartTarget::Session(SessionId::stored(*id));
            change.parts.push(ChangePart { on, guard: Guard::default(), writes: Default::default() });
        }
        QueuedChange { tk, change, done: oneshot::channel().0 }
    }

    #[test]
    fn a_batch_is_of_one_tenant_and_names_no_session_twice() {
        let names = |some: &[QueuedChange]| -> Vec<String> {
            some.iter()
                .map(|one| sessions(&one.change).map(SessionId::as_str).collect::<Vec<_>>().join("+"))
                .collect()
        };
        let all =
            [(1, &["a"][..]), (1, &["b", "c"]), (2, &["d"]), (1, &["c", "e"]), (1, &["e"]), (1, &["f"])];
        let (batch, later) = split_batch(all.iter().map(|(tk, ids)| waiting(*tk, ids)).collect());
        assert_eq!(names(&batch), ["a", "b+c", "f"]);
        assert_eq!(names(&later), ["d", "c+e", "e"], "and the rest keeps its order");
    }
}
