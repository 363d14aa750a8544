//! Chains of retries: the first session, and every session that does its work again. The oldest existing session of a
//! chain counts the retries of the whole chain; deleting that session hands the count to the next one. Pure.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::run::Run;
use crate::error::{Conflict, Result};
use crate::ids::SessionId;
use crate::limits;
use crate::session::Session;
use crate::store::NewSession;

/// The chain as one session knows it. Bounded by [`limits::RETRIES_PER_ORIGIN_MAX`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryChain {
    /// The incarnation of the first session: a session that reuses a deleted id does not belong to the chain.
    origin: Uuid,
    /// Ids in the order in which the sessions were made. A retry knows those up to itself, and the session that counts
    /// knows all of them.
    sessions: Vec<String>,
}

/// The effect of one more retry.
#[derive(Debug)]
pub struct CountedRetry {
    /// The run of the session that counts.
    pub run: Run,
    /// The chain as the new session knows it.
    pub chain: RetryChain,
}

impl RetryChain {
    /// The chain of a session. One that is no retry, and was never retried, is the first of its own.
    pub fn of(session: &Session) -> Self {
        Run::of(session).retry_chain.unwrap_or_else(|| Self {
            origin: session.head.incarnation.0,
            sessions: vec![session.id.to_string()],
        })
    }

    /// Whether a session that was found by an id of the chain belongs to the chain.
    pub fn holds(&self, found: &Session) -> bool {
        Self::of(found).origin == self.origin
    }

    /// The ids before a session's own, the oldest first. The first of them that exists counts for this session.
    pub fn before(&self, id: &SessionId) -> impl Iterator<Item = SessionId> {
        self.sessions[..self.place(id)].iter().map(|one| SessionId::stored(one.as_str()))
    }

    /// The ids after a session's own, the oldest first. The first of them that exists takes over its count.
    pub fn after(&self, id: &SessionId) -> impl Iterator<Item = SessionId> {
        self.sessions.iter().skip(self.place(id) + 1).map(|one| SessionId::stored(one.as_str()))
    }

    fn place(&self, id: &SessionId) -> usize {
        self.sessions.iter().position(|one| one == id.as_str()).unwrap_or(self.sessions.len())
    }

    /// Writes the chain into a new session.
    pub fn put_into(self, new: &mut NewSession) -> Result<()> {
        let run: Option<Run> = new.details.run.as_ref().and_then(|run| run.read().ok());
        let run = Run { retry_chain: Some(self), ..run.unwrap_or_default() };
        new.details.run = Some(run.to_json()?);
        Ok(())
    }
}

/// Counts a retry on the session that counts for the chain; refuses one beyond the limit.
pub fn count_retry(counting: &Session, made: &SessionId) -> Result<CountedRetry> {
    let mut run = Run::of(counting);
    if run.retries >= limits::RETRIES_PER_ORIGIN_MAX {
        return Err(Conflict::RetryLimit { limit: limits::RETRIES_PER_ORIGIN_MAX }.into());
    }
    let mut chain = RetryChain::of(counting);
    chain.sessions.push(made.to_string());
    run.retries += 1;
    run.retry_chain = Some(chain.clone());
    Ok(CountedRetry { run, chain })
}

/// The run of the session that counts from now on, when the one that counted is deleted.
pub fn take_over_count(deleted: &Session, heir: &Session) -> Run {
    let Run { retries, retry_chain, .. } = Run::of(deleted);
    Run { retries, retry_chain, ..Run::of(heir) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RandomIds;
    use crate::session::Status;
    use crate::session::decide::tests::session_in;

    fn session(id: &str) -> Session {
        let mut session = session_in(Status::Failed);
        session.id = SessionId::stored(id);
        session.head.incarnation = crate::ids::Incarnation::drawn(&RandomIds);
        session
    }

    fn with_run(session: &Session, run: &Run) -> Session {
        let mut session = session.clone();
        session.details.run = Some(run.to_json().unwrap());
        session
    }

    fn ids(found: impl Iterator<Item = SessionId>) -> Vec<String> {
        found.map(|id| id.to_string()).collect()
    }

    #[test]
    fn so_many_retries_of_one_origin_and_no_more() {
        let mut origin = session("first");
        for n in 1..=limits::RETRIES_PER_ORIGIN_MAX {
            let run = count_retry(&origin, &SessionId::drawn(&RandomIds)).unwrap().run;
            assert_eq!(run.retries, n);
            origin = with_run(&origin, &run);
        }
        let refused = count_retry(&origin, &SessionId::drawn(&RandomIds)).unwrap_err();
        assert_eq!(refused.code(), "retry_limit");
    }

    #[test]
    fn a_retry_knows_the_sessions_before_it_and_the_counting_one_knows_all() {
        let mut first = session("first");
        let mut chains = Vec::new();
        for name in ["second", "third"] {
            let counted = count_retry(&first, &SessionId::stored(name)).unwrap();
            first = with_run(&first, &counted.run);
            chains.push(counted.chain);
        }
        assert_eq!(ids(chains[0].before(&SessionId::stored("second"))), ["first"]);
        assert!(ids(chains[0].after(&SessionId::stored("second"))).is_empty());
        assert_eq!(ids(chains[1].before(&SessionId::stored("third"))), ["first", "second"]);
        assert_eq!(ids(RetryChain::of(&first).after(&first.id)), ["second", "third"]);

        let run = Run { retry_chain: Some(chains[0].clone()), task_slug: Some("t".into()), ..Run::default() };
        let second = with_run(&session("second"), &run);
        assert!(chains[1].holds(&first) && chains[1].holds(&second));
        assert!(!chains[1].holds(&session("first")), "another life of the same id");
        assert!(!crate::work::needs_brief(&first), "a count is nothing to tell a worker");
        assert!(crate::work::needs_brief(&second));

        let heir = take_over_count(&first, &second);
        assert_eq!((heir.retries, heir.task_slug.as_deref()), (2, Some("t")));
        let second = with_run(&second, &heir);
        assert_eq!(ids(RetryChain::of(&second).after(&second.id)), ["third"]);
    }
}
