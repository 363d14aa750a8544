//! What called servers ask people: the sealed call of a run that is parked, and questions during a call that is held.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout_at};

use super::work::{fence, without_a_claim};
use super::{CommandOutcome, Decided, Engine};
use crate::access::{self, Actor, Verb};
use crate::approval::ApprovalState;
use crate::approval::decide::{ask_held, close_held};
use crate::error::{Conflict, Error, Result};
use crate::ids::SessionId;
use crate::json::Json;
use crate::json_schema;
use crate::session::Session;
use crate::work::decide::check_asked;
use crate::work::elicitation;

/// How often a held question is looked at without the row having changed.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// How a held question ended.
#[derive(Clone, Debug, PartialEq)]
pub enum HeldAnswer {
    Accepted(Json),
    Declined,
    Cancelled,
    /// Its time passed, or the session went on without it.
    Unanswered,
}

impl Engine {
    /// Seals a call of a session's run for as long as it waits for a person.
    pub async fn seal_call(&self, session: &Session, call: &Json) -> Result<String> {
        elicitation::seal(&self.tenant.installation_key().await?, session, call.as_str())
    }

    /// Opens the call of a run that goes on with a person's input.
    pub async fn open_call(&self, session: &Session, sealed: &str) -> Result<Json> {
        let text = elicitation::open(&self.tenant.installation_key().await?, session, sealed)?;
        Ok(Json::stored(text))
    }

    /// Asks a person while the run goes on, and waits for the answer until `until`, or until `ended` is ready. The question
    /// is closed when this returns; if the worker dies, it is closed when the session moves.
    pub async fn ask_during_call(
        &self,
        actor: &Actor,
        id: &SessionId,
        epoch: u64,
        question: &Json,
        until: Instant,
        mut ended: BoxFuture<'_, ()>,
    ) -> Result<HeldAnswer> {
        access::check_general(actor, Verb::Work)?;
        let schema = question.fields().into_iter().find(|(key, _)| key == "schema").map(|(_, schema)| schema);
        json_schema::prepare(&schema).await;
        check_asked(crate::approval::ApprovalKind::Question, question)?;
        let lasts = until.saturating_duration_since(Instant::now());
        let asked = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let session = self.claimed_by(actor, id, epoch).await?;
                    let now = self.tenant.now().await?;
                    let (approval, step) = ask_held(&session, question.clone(), lasts, now, &*self.ids)?;
                    let mut change = self.change_for(&session, step).await?;
                    if let Some(own) = change.parts.first_mut() {
                        own.guard.fence = Some(fence(actor, epoch));
                    }
                    let found = (approval.id, session.head.incarnation);
                    Ok(Decided::<(), _>::Change(Box::new(change), found))
                })
            })
            .await?;
        let CommandOutcome::Done(_, (approval, life)) = asked else {
            return Err(Error::internal("a question changes a session"));
        };
        let mut row = self.hub.watch_row(life);
        loop {
            if let Some(answer) = self.held_answer(actor, &approval).await? {
                return Ok(answer);
            }
            let next = until.min(Instant::now() + LOOK_AGAIN);
            let is_over = tokio::select! {
                _ = timeout_at(next, row.changed()) => Instant::now() >= until,
                () = &mut ended => true,
            };
            if is_over {
                return self.close_held(actor, id, epoch, &approval).await;
            }
        }
    }

    async fn claimed_by(&self, actor: &Actor, id: &SessionId, epoch: u64) -> Result<Session> {
        let found = self.sessions.session(&actor.tenant, id).await?;
        let session = found.ok_or_else(|| without_a_claim(actor, Error::NotFound))?;
        match session.head.holds(&actor.credential, epoch, self.tenant.now().await?) {
            true => Ok(session),
            false => Err(Conflict::Fenced.into()),
        }
    }

    /// `None`: it is still open.
    async fn held_answer(&self, actor: &Actor, id: &str) -> Result<Option<HeldAnswer>> {
        let approval = self.sessions.approval(&actor.tenant, id).await?.ok_or(Error::NotFound)?;
        Ok(match (approval.state, approval.body.edited) {
            (ApprovalState::Pending, _) => None,
            (ApprovalState::Approved, Some(reply)) => Some(HeldAnswer::Accepted(reply)),
            (ApprovalState::Denied, _) => Some(HeldAnswer::Declined),
            (ApprovalState::Cancelled, _) if approval.decided_by.is_some() => Some(HeldAnswer::Cancelled),
            _ => Some(HeldAnswer::Unanswered),
        })
    }

    /// Closes a question whose time has passed. An answer that was faster counts.
    async fn close_held(&self, actor: &Actor, id: &SessionId, epoch: u64, asked: &str) -> Result<HeldAnswer> {
        let closed = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let session = self.claimed_by(actor, id, epoch).await?;
                    let pending = self
                        .pending_of(&session)
                        .await?
                        .filter(|pending| *pending.id == *asked && pending.state == ApprovalState::Pending);
                    let Some(pending) = pending else {
                        return Ok(Decided::Nothing(()));
                    };
                    let mut change = self.change_for(&session, close_held(&session, &pending)?).await?;
                    if let Some(own) = change.parts.first_mut() {
                        own.guard.fence = Some(fence(actor, epoch));
                    }
                    Ok(Decided::change(change))
                })
            })
            .await?;
        drop(closed);
        Ok(self.held_answer(actor, asked).await?.unwrap_or(HeldAnswer::Unanswered))
    }
}
