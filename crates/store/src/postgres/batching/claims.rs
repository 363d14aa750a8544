//! Where claims wait for each other. Those of one node that ask for the same work are answered together: one
//! transaction hands out to all of them, and they do not walk around each other's locks.
//!
//! Nobody is waited for. Whoever comes while others are under way is taken along by the next transaction.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use sederunt_core::error::Error;
use sederunt_core::ids::TenantId;
use sederunt_core::session::SessionType;
use sederunt_core::store::{ClaimStore, StoreFuture};
use sederunt_core::work::{ClaimOrder, Claimed};
use sederunt_core::{Result, limits};
use tokio::sync::oneshot;

use crate::postgres::tx::Base;
use crate::postgres::{PostgresStore, claim};

impl ClaimStore for PostgresStore {
    fn claim(&self, order: ClaimOrder) -> StoreFuture<'_, Vec<Claimed>> {
        self.takers.claim(&self.base, order).boxed()
    }
}

/// Transactions that hand out the same work at once: while one is at the database, the other is at its rows.
const AT_ONCE: usize = 2;
/// Sessions that one transaction hands out to several; a single claim may want more.
const SESSIONS_MAX: usize = 128;

/// All claims that wait at this node.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Takers {
    groups: Mutex<HashMap<Work, Group>>,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Work {
    tenant: TenantId,
    session_types: Vec<SessionType>,
    agent_slugs: Vec<String>,
}

#[derive(Debug, Default)]
struct Group {
    waiting: VecDeque<Taker>,
    under_way: usize,
}

#[derive(Debug)]
struct Taker {
    order: ClaimOrder,
    done: oneshot::Sender<Result<Vec<Claimed>>>,
}

impl Takers {
    /// Hands out what one order asks for. A caller that goes away stops nothing that has begun.
    pub(in crate::postgres) async fn claim(
        self: &Arc<Self>,
        base: &Arc<Base>,
        order: ClaimOrder,
    ) -> Result<Vec<Claimed>> {
        let (done, answer) = oneshot::channel();
        let taker = Taker { order, done };
        if taker.order.key.is_some() {
            // What a key has answered before stands beside its own transaction alone.
            let base = base.clone();
            tokio::spawn(async move { serve(&base, vec![taker]).await });
        } else if let Some(work) = self.put(taker)? {
            tokio::spawn(drive(self.clone(), base.clone(), work));
        }
        answer.await.unwrap_or_else(|_| Err(Error::unavailable("the claim was given up")))
    }

    /// Queues a claim. Answers the work that somebody has to see to now.
    fn put(&self, taker: Taker) -> Result<Option<Work>> {
        let work = Work {
            tenant: taker.order.tenant.clone(),
            session_types: taker.order.session_types.clone(),
            agent_slugs: taker.order.agent_slugs.clone(),
        };
        let mut groups = self.groups.lock();
        let group = groups.entry(work.clone()).or_default();
        if group.waiting.len() >= limits::WRITE_QUEUE_MAX {
            return Err(Error::unavailable("the queue of claims is full"));
        }
        group.waiting.push_back(taker);
        let idle = group.under_way < AT_ONCE;
        group.under_way += usize::from(idle);
        Ok(idle.then_some(work))
    }

    /// The claims that the next transaction answers. With the last of them, the group is forgotten.
    fn take(&self, work: &Work) -> Vec<Taker> {
        let mut groups = self.groups.lock();
        let Entry::Occupied(mut group) = groups.entry(work.clone()) else { return Vec::new() };
        let Group { waiting, under_way } = group.get_mut();
        let mut taken: Vec<Taker> = Vec::new();
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
                group.remove();
            }
        }
        taken
    }
}

async fn drive(takers: Arc<Takers>, base: Arc<Base>, work: Work) {
    loop {
        let taken = takers.take(&work);
        if taken.is_empty() {
            return;
        }
        serve(&base, taken).await;
    }
}

async fn serve(base: &Base, mut takers: Vec<Taker>) {
    // Nothing is handed out to who is gone.
    takers.retain(|taker| !taker.done.is_closed());
    let (orders, answers): (Vec<_>, Vec<_>) =
        takers.into_iter().map(|Taker { order, done }| (order, done)).unzip();
    if orders.is_empty() {
        return;
    }
    match claim::claim(base, &orders).await {
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

    fn taker(limit: usize, agent: &str) -> Taker {
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
        Taker { order, done: oneshot::channel().0 }
    }

    fn limits(takers: &Takers, work: &Work) -> Vec<usize> {
        takers.take(work).iter().map(|taker| taker.order.limit).collect()
    }

    #[test]
    fn claims_for_the_same_work_are_taken_together_up_to_a_bound() {
        let takers = Takers::default();
        let work = takers.put(taker(32, "a")).unwrap().unwrap();
        for limit in [64, 32, 1, SESSIONS_MAX + 1, 1] {
            takers.put(taker(limit, "a")).unwrap();
        }
        let other = takers.put(taker(3, "b")).unwrap().unwrap();
        assert_eq!(limits(&takers, &work), [32, 64, 32]);
        assert_eq!(limits(&takers, &work), [1]);
        assert_eq!(limits(&takers, &work), [SESSIONS_MAX + 1]);
        assert_eq!(limits(&takers, &other), [3]);
    }

    #[test]
    fn somebody_sees_to_every_claim_and_nobody_stays_behind() {
        let takers = Takers::default();
        let work = takers.put(taker(1, "a")).unwrap().unwrap();
        assert!(takers.put(taker(1, "a")).unwrap().is_some());
        assert!(takers.put(taker(1, "a")).unwrap().is_none());
        assert_eq!(limits(&takers, &work), [1, 1, 1]);
        assert!(takers.put(taker(1, "a")).unwrap().is_none());
        assert!(limits(&takers, &work).len() == 1 && limits(&takers, &work).is_empty());
        assert!(takers.put(taker(1, "a")).unwrap().is_some());
        assert_eq!(limits(&takers, &work), [1]);
        assert!(limits(&takers, &work).is_empty() && limits(&takers, &work).is_empty());
        assert!(takers.groups.lock().is_empty());
    }
}
