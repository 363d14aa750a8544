//! Doing the work of a failing session again, a bounded number of times (see [`retry_chain`]).

use uuid::Uuid;

use super::sessions::creation;
use super::tasks::starting;
use super::{CommandOutcome, Decided, Engine, step_part};
use crate::access::{Actor, Verb};
use crate::error::{Error, Result};
use crate::ids::SessionId;
use crate::session::Session;
use crate::session::decide::{self, SessionStep};
use crate::store::{Change, ChangePart, IdemKey, KeyNote, PartTarget, Update};
use crate::work::retry_chain::{self, CountedRetry, RetryChain};
use crate::work::run::Run;
use crate::work::{queueing, trigger};

impl Engine {
    /// Makes a new session that does the work of a failed one again. The caller needs the right to start that work
    /// now, as for the first time.
    pub async fn retry(&self, actor: &Actor, id: &SessionId, key: Option<IdemKey>) -> Result<Session> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let (change, new) = self.retrying(actor, id).await?;
                    let drawn = Uuid::parse_str(new.as_str()).map_err(Error::internal)?;
                    let key = key.map(|key| IdemKey { note: Some(KeyNote(drawn)), ..key });
                    Ok(Decided::<(), _>::Change(Box::new(change.keyed(key)), drawn))
                })
            })
            .await;
        let id = match self.or_replayed(actor, key, done).await? {
            CommandOutcome::Done(done, drawn) => {
                done.replay.and_then(|replay| replay.note).map_or(drawn, |note| note.0)
            }
            CommandOutcome::Nothing(()) => return Err(Error::internal("a retry made no session")),
        };
        let id = SessionId::stored(id.to_string());
        self.sessions.session(&actor.tenant, &id).await?.ok_or(Error::NotFound)
    }

    /// The change that retries a session and counts the retry, and the id of the new session.
    async fn retrying(&self, actor: &Actor, id: &SessionId) -> Result<(Change, SessionId)> {
        let session = self.load(actor, Verb::Steer, id).await?;
        decide::check_retryable(&session)?;
        let task = self.startable_task_of(actor, &session).await?;
        queueing::check_may_queue(actor, queueing::cause_of_retry(&session, task.as_ref()))?;
        let parent = match &session.details.parent_id {
            Some(parent) => self.sessions.session(&actor.tenant, parent).await?,
            None => Some(session.clone()),
        };
        let (mut change, new, retried) = match parent
            .filter(|parent| trigger::is_graph(parent) && decide::check_retryable(parent).is_ok())
        {
            Some(parent) => {
                let children = self.children_of(&parent).await?;
                let now = self.tenant.now().await?;
                let starts = trigger::again(actor, &session, &parent, &children, now, &*self.ids)?;
                let (change, first) = starting(actor, starts)?;
                (change, first.id, parent)
            }
            None => {
                let new = decide::retry(actor, &session, &*self.ids)?;
                let id = new.id.clone();
                (creation(actor, new, None)?, id, session)
            }
        };
        let counting = self.counting_retries(retried).await?;
        let CountedRetry { run, chain } = retry_chain::count_retry(&counting, &new)?;
        for part in &mut change.parts {
            if let PartTarget::New(made) = &mut part.on
                && made.id == new
            {
                chain.clone().put_into(made)?;
            }
        }
        change.parts.push(run_part(&counting, &run)?);
        Ok((change, new))
    }

    /// The session that counts the retries of a chain: the oldest existing one.
    async fn counting_retries(&self, session: Session) -> Result<Session> {
        let chain = RetryChain::of(&session);
        let oldest = self.first_left(&session, &chain, chain.before(&session.id)).await?;
        Ok(oldest.unwrap_or(session))
    }

    /// The part of a deletion that hands on the count of retries, if the deleted session counted and another session
    /// of its chain exists.
    pub(super) async fn hand_retries_on(&self, deleted: &Session) -> Result<Option<ChangePart>> {
        if Run::of(deleted).retries == 0 {
            return Ok(None);
        }
        let chain = RetryChain::of(deleted);
        let heir = self.first_left(deleted, &chain, chain.after(&deleted.id)).await?;
        heir.map(|heir| run_part(&heir, &retry_chain::take_over_count(deleted, &heir))).transpose()
    }

    async fn first_left(
        &self,
        of: &Session,
        chain: &RetryChain,
        ids: impl Iterator<Item = SessionId>,
    ) -> Result<Option<Session>> {
        for id in ids {
            let found = self.sessions.session(&of.tenant, &id).await?;
            if let Some(found) = found.filter(|found| chain.holds(found)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// The part that writes a run into its session's row.
fn run_part(session: &Session, run: &Run) -> Result<ChangePart> {
    let run = Some(run.to_json()?);
    Ok(step_part(session, SessionStep::of(Update { run, ..Update::default() })))
}
