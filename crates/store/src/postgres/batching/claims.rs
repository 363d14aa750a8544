//! Batches of claims. The claims of one node for the same work share a transaction, so they do not walk around each
//! other's locks. A batch does not wait for further claims: those that come while it is in flight join the next one.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use sederunt_core::error::Error;
use sederunt_core::ids::TenantId;
use sederunt_core::session::SessionType;
use sederunt_core::store::{ClaimStore, StoreFuture};
use sederunt_core::work::{ClaimOrder, ClaimedRun};
use sederunt_core::{Result, limits};
use tokio::sync::oneshot;

use crate::postgres::tx::Context;
use crate::postgres::{PostgresStore, claim};

impl ClaimStore for PostgresStore {
    fn claim(&self, order: ClaimOrder) -> StoreFuture<'_, Vec<ClaimedRun>> {
        self.claim_batches.claim(&self.context, order).boxed()
    }
}

/// Transactions for the same work at once: while one is in the database, the other reads its rows.
const AT_ONCE: usize = 2;
/// Sessions that one transaction hands out to several claims; a single claim may want more.
const SESSIONS_MAX: usize = 128;

/// The claims that wait on this node.
#[derive(Debug, Default)]
pub(in crate::postgres) struct ClaimBatches {
    queues: Mutex<HashMap<ClaimFilter, ClaimQueue>>,
}

/// The work that a claim asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClaimFilter {
    tenant: TenantId,
    session_types: Vec<SessionType>,
    agent_slugs: Vec<String>,
}

#[derive(Debug, Default)]
struct ClaimQueue {
    waiting: VecDeque<QueuedClaim>,
    under_way: usize,
}

#[derive(Debug)]
struct QueuedClaim {
    order: ClaimOrder,
    done: oneshot::Sender<Result<Vec<ClaimedRun>>>,
}

impl ClaimBatches {
    /// Claims the sessions that an order asks for. A caller that goes away stops no transaction that has begun.
    pub(in crate::postgres) async fn claim(
        self: &Arc<Self>,
        context: &Arc<Context>,
        order: ClaimOrder,
    ) -> Result<Vec<ClaimedRun>> {
        let (done, answer) = oneshot::channel();
        let claim = QueuedClaim { order, done };
        if claim.order.key.is_some() {
            // A claim with an idempotency key has its own transaction.
            let context = context.clone();
            tokio::spawn(async move { serve(&context, vec![claim]).await });
        } else if let Some(filter) = self.put(claim)? {
            tokio::spawn(drive(self.clone(), context.clone(), filter));
        }
        answer.await.unwrap_or_else(|_| Err(Error::unavailable("the claim was given up")))
    }

    /// Queues a claim. Returns its filter if a task has to be started for it.
    fn put(&self, claim: QueuedClaim) -> Result<Option<ClaimFilter>> {
        let filter = ClaimFilter {
            tenant: claim.order.tenant.clone(),
            session_types: claim.order.session_types.clone(),
            agent_slugs: claim.order.agent_slugs.clone(),
        };
        let mut queues = self.queues.lock();
        let queue = queues.entry(filter.clone()).or_default();
        if queue.waiting.len() >= limits::WRITE_QUEUE_MAX {
            return Err(Error::unavailable("the queue of claims is full"));
        }
        queue.waiting.push_back(claim);
        let idle = queue.under_way < AT_ONCE;
        queue.under_way += usize::from(idle);
        Ok(idle.then_some(filter))
    }

    /// The claims that the next transaction answers. With the last of them, the queue is removed.
    fn take(&self, filter: &ClaimFilter) -> Vec<QueuedClaim> {
        let mut queues = self.queues.lock();
        let Entry::Occupied(mut queue) = queues.entry(filter.clone()) else { return Vec::new() };
        let ClaimQueue { waiting, under_way } = queue.get_mut();
        let mut taken: Vec<QueuedClaim> = Vec::new();
        let mut wanted = 0;
        while let Some(next) = waiting.front() {
            wanted += next.order.limit;
            if !taken.is_empty() && wanted > SESSIONS_MAX {
                break;
            }
            taken.extend(waiting.pop_front());
        }
        if taken.is_empty() {
            *under_way -= 1;
            if *under_way == 0 {
                queue.remove();
            }
        }
        taken
    }
}

async fn drive(claims: Arc<ClaimBatches>, context: Arc<Context>, filter: ClaimFilter) {
    loop {
        let taken = claims.take(&filter);
        if taken.is_empty() {
            return;
        }
        serve(&context, taken).await;
    }
}

async fn serve(context: &Context, mut claims: Vec<QueuedClaim>) {
    // A caller that is gone gets nothing.
    claims.retain(|claim| !claim.done.is_closed());
    let (orders, answers): (Vec<_>, Vec<_>) =
        claims.into_iter().map(|QueuedClaim { order, done }| (order, done)).unzip();
    if orders.is_empty() {
        return;
    }
    match claim::claim(context, &orders).await {
        Ok(claims) => {
            for (done, claimed) in answers.into_iter().zip(claims) {
                let _ = done.send(Ok(claimed));
            }
        }
        Err(error) => {
            let text = format!("{error:?}");
            let mut answers = answers.into_iter();
            if let Some(first) = answers.next() {
                let _ = first.send(Err(error));
            }
            for other in answers {
                let _ = other.send(Err(Error::unavailable(text.clone())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sederunt_core::ids::CredentialId;

    use super::*;

    fn claim(limit: usize, agent: &str) -> QueuedClaim {
        let order = ClaimOrder {
            tenant: TenantId::stored("t"),
            credential: CredentialId::stored("k"),
            worker: "w".into(),
            session_types: vec![SessionType::Agent],
            agent_slugs: vec![agent.to_owned()],
            limit,
            lease: Duration::from_secs(30),
            key: None,
        };
        QueuedClaim { order, done: oneshot::channel().0 }
    }

    fn limits(claims: &ClaimBatches, filter: &ClaimFilter) -> Vec<usize> {
        claims.take(filter).iter().map(|claim| claim.order.limit).collect()
    }

    #[test]
    fn claims_for_the_same_work_are_taken_together_up_to_a_bound() {
        let claims = ClaimBatches::default();
        let filter = claims.put(claim(32, "a")).unwrap().unwrap();
        for limit in [64, 32, 1, SESSIONS_MAX + 1, 1] {
            claims.put(claim(limit, "a")).unwrap();
        }
        let other = claims.put(claim(3, "b")).unwrap().unwrap();
        assert_eq!(limits(&claims, &filter), [32, 64, 32]);
        assert_eq!(limits(&claims, &filter), [1]);
        assert_eq!(limits(&claims, &filter), [SESSIONS_MAX + 1]);
        assert_eq!(limits(&claims, &other), [3]);
    }

    #[test]
    fn every_claim_has_a_task_and_none_is_left() {
        let claims = ClaimBatches::default();
        let filter = claims.put(claim(1, "a")).unwrap().unwrap();
        assert!(claims.put(claim(1, "a")).unwrap().is_some());
        assert!(claims.put(claim(1, "a")).unwrap().is_none());
        assert_eq!(limits(&claims, &filter), [1, 1, 1]);
        assert!(claims.put(claim(1, "a")).unwrap().is_none());
        assert!(limits(&claims, &filter).len() == 1 && limits(&claims, &filter).is_empty());
        assert!(claims.put(claim(1, "a")).unwrap().is_some());
        assert_eq!(limits(&claims, &filter), [1]);
        assert!(limits(&claims, &filter).is_empty() && limits(&claims, &filter).is_empty());
        assert!(claims.queues.lock().is_empty());
    }
}
