//! Commands of workers: claim, heartbeat, settle. Every one carries the epoch of its claim; an old
//! epoch, another credential or a lapsed lease is fenced off.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join;
use smallvec::smallvec;

use super::log::check_batch;
use super::{CommandOutcome, Decided, DraftEvent, Engine};
use crate::access::{self, Actor, Role, Verb};
use crate::definitions::{Agent, DefinitionKind, Entity, StoredDefinition, ToolDefinition};
use crate::error::{Conflict, Error, Result};
use crate::event::{EventPage, EventQuery, Kinds, NewEvent};
use crate::ids::SessionId;
use crate::json::Json;
use crate::json_schema;
use crate::session::Session;
use crate::store::{
    AppendRule, Change, ChangePart, ClaimChange, Fence, Guard, IdemKey, PartTarget, Record, Update, Write,
};
use crate::time::Timestamp;
use crate::tool_session;
use crate::view::ViewAnswer;
use crate::work::decide::RunEnd;
use crate::work::milestone::Milestone;
use crate::work::run::Run;
use crate::work::{self, ClaimOrder, ClaimRequest, ClaimedRun, Heartbeat, Settle};

/// How often a waiting claim reads the store without having been woken.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What a worker needs to know of a session that it claimed.
#[derive(Clone, Debug, Default)]
pub struct Brief {
    pub run: Run,
    /// Results of the steps that this one depends on, by their keys.
    pub results: Vec<(String, Json)>,
    pub agent: Option<StoredDefinition<Agent>>,
    pub entity: Option<StoredDefinition<Entity>>,
    /// Answers to views that came since the last run, oldest first.
    pub answers: Vec<ViewAnswer>,
    /// What a tool session runs.
    pub tool: Option<InvokedTool>,
}

/// A tool that a worker runs.
#[derive(Clone, Debug)]
pub struct InvokedTool {
    pub definition: ToolDefinition,
    pub values: Json,
    /// The same at every attempt.
    pub invocation_id: String,
}

impl Engine {
    /// Everything that a worker needs to begin, read once. `agent` spares reading an agent that the worker knows.
    pub async fn brief(&self, claimed: &ClaimedRun, agent: Option<StoredDefinition<Agent>>) -> Result<Brief> {
        let Session { tenant, details, .. } = &claimed.session;
        let mut brief = Brief { run: Run::of(&claimed.session), agent, ..Brief::default() };
        brief.tool = brief.run.tool.as_ref().map(|tool| InvokedTool {
            definition: tool.definition.clone(),
            values: details.draft_values.clone().unwrap_or_else(Json::empty_object),
            invocation_id: tool_session::invocation_id(&claimed.session.head),
        });
        if let (Some(slug), None) = (&details.agent_slug, &brief.agent) {
            brief.agent = self.agent_named(tenant, slug).await?;
        }
        brief.answers = self.handed(&claimed.session, claimed.epoch, &brief.run).await?;
        if let Some(id) = &details.entity_id {
            let doc = self.tenant.doc(tenant, DefinitionKind::Entity, id).await?;
            brief.entity = doc.as_ref().map(StoredDefinition::of).transpose()?;
        }
        let needed = brief.run.step.as_ref().map_or(&[][..], |step| &step.depends_on[..]);
        if let (Some(parent), false) = (&details.parent_id, needed.is_empty())
            && let Some(parent) = self.sessions.session(tenant, parent).await?
        {
            for sibling in self.children_of(&parent).await? {
                if let Some(step) = Run::of(&sibling).step
                    && needed.contains(&step.key)
                    && let Some(result) = sibling.details.result
                {
                    brief.results.push((step.key, result));
                }
            }
        }
        Ok(brief)
    }

    /// A page of the log of a claimed session: the claim is the right to read it.
    pub async fn log_of(&self, claimed: &ClaimedRun, query: EventQuery) -> Result<EventPage> {
        self.sessions.events(&claimed.session.tenant, &claimed.session.id, query).await
    }

    /// Takes up to `limit` pending sessions, waiting for one if asked to.
    pub async fn claim(
        &self,
        actor: &Actor,
        request: ClaimRequest,
        key: Option<IdemKey>,
    ) -> Result<Vec<ClaimedRun>> {
        access::check_general(actor, Verb::Work)?;
        request.check()?;
        let order = ClaimOrder {
            tenant: actor.tenant.clone(),
            credential: actor.credential.clone(),
            session_types: request.asked_types(),
            worker: request.worker.into(),
            agent_slugs: request.agent_slugs,
            limit: request.limit,
            lease: request.lease,
            key,
        };
        let deadline = tokio::time::Instant::now() + request.wait;
        let mut woken = self.hub.work(&actor.tenant);
        loop {
            woken.borrow_and_update();
            let claims = self.tenant.claim(order.clone()).await?;
            for claimed in &claims {
                if let Some(started) = Milestone::taken(claimed) {
                    self.hub.tell(&started, claimed.session.head.last_at);
                }
            }
            let now = tokio::time::Instant::now();
            if !claims.is_empty() || now >= deadline {
                return Ok(claims);
            }
            let _ = tokio::time::timeout((deadline - now).min(LOOK_AGAIN), woken.changed()).await;
        }
    }

    /// Renews the lease; returns whether the run was asked to stop.
    pub async fn heartbeat(
        &self,
        actor: &Actor,
        id: &SessionId,
        epoch: u64,
        lease: Option<Duration>,
    ) -> Result<Heartbeat> {
        access::check_general(actor, Verb::Work)?;
        let lease = lease.unwrap_or(self.settings.lease);
        work::check_lease(lease)?;
        let update = Update { claim: Some(ClaimChange::Renew(lease)), ..Update::default() };
        let part = ChangePart {
            on: PartTarget::Session(id.clone()),
            guard: Guard { fence: Some(fence(actor, epoch)), ..Guard::default() },
            writes: smallvec![Write::Update(Box::new(update))],
        };
        let done = self.commit(Change::new(actor.tenant.clone()).part(part)).await;
        let done = done.map_err(|error| without_a_claim(actor, error))?;
        let head = done.parts.into_iter().next().map(|part| part.head);
        let claim = head.as_ref().and_then(|head| head.claim.as_ref());
        let (Some(head), Some(claim)) = (&head, claim) else {
            return Err(Error::internal("a renewed claim is gone"));
        };
        Ok(Heartbeat { lease_until: claim.lease_until, stop_requested: head.stop_requested })
    }

    /// Whether a claimed run was asked to stop. Renews nothing.
    pub async fn look_at_claim(&self, claimed: &ClaimedRun) -> Result<bool> {
        let Session { tenant, id, head: before, .. } = &claimed.session;
        let head = self.sessions.session(tenant, id).await?.ok_or(Error::NotFound)?.head;
        if head.epoch != claimed.epoch || head.incarnation != before.incarnation {
            return Err(Conflict::Fenced.into());
        }
        Ok(head.stop_requested)
    }

    /// Ends a run: complete, fail or yield.
    pub async fn settle(
        &self,
        actor: &Actor,
        id: &SessionId,
        epoch: u64,
        how: Settle,
        key: Option<IdemKey>,
    ) -> Result<Session> {
        self.end_run(actor, id, epoch, how, None, key).await?;
        self.sessions.session(&actor.tenant, id).await?.ok_or(Error::NotFound)
    }

    /// Ends a run with its last events, in one commit: no worker that takes over finds a run with a final reply that
    /// has not ended. If the run was asked to stop meanwhile, it ends as stopped.
    ///
    /// The first round decides on the row as it was claimed; if that has changed, the row is read and decided on
    /// again.
    pub async fn settle_saying(
        &self,
        actor: &Arc<Actor>,
        claimed: &ClaimedRun,
        how: Settle,
        words: Vec<DraftEvent>,
    ) -> Result<()> {
        let (session, epoch) = (&claimed.session, claimed.epoch);
        let events = check_batch(actor, words)?;
        if events.iter().any(|event| event.kind.is_patch()) {
            return Err(Error::invalid(
                "type",
                "a run patches documents before it ends, not in its last words",
            ));
        }
        let kinds = Kinds::of(events.iter().map(|event| &event.kind));
        let rule = AppendRule { actor: actor.clone(), kinds, epoch: Some(epoch) };
        let words = LastEvents { events, rule, seen: session.clone() };
        self.end_run(actor, &session.id, epoch, how, Some(words), None).await
    }

    async fn end_run(
        &self,
        actor: &Actor,
        id: &SessionId,
        epoch: u64,
        how: Settle,
        words: Option<LastEvents>,
        key: Option<IdemKey>,
    ) -> Result<()> {
        access::check_general(actor, Verb::Work)?;
        let words = words.as_ref();
        let mut known = words.map(|words| words.seen.clone());
        let how = &how;
        let done = self
            .decide_and_commit(|| {
                let known = known.take();
                Box::pin(async move {
                    let holds = |session: &Session, now| session.head.holds(&actor.credential, epoch, now);
                    let read = || self.sessions.session(&actor.tenant, id);
                    let (session, now) = match known {
                        Some(session) => (Some(session), self.tenant.now().await?),
                        None => try_join(read(), self.tenant.now()).await?,
                    };
                    // The lease may have been renewed since the row was read.
                    let session = match session {
                        Some(session) if holds(&session, now) => session,
                        _ => read().await?.ok_or_else(|| without_a_claim(actor, Error::NotFound))?,
                    };
                    if !holds(&session, now) {
                        return Err(Conflict::Fenced.into());
                    }
                    let how = match words {
                        Some(_) if session.head.stop_requested => how.clone().stopped(),
                        _ => how.clone(),
                    };
                    let how = self.with_view(&session, how).await?;
                    json_schema::prepare(Run::contract_schema(&session).iter().chain(&how.question_schema()))
                        .await;
                    let (mut ended, written) = self.ended(&session, how, now).await?;
                    if let Some(words) = words {
                        ended.step.events.splice(0..0, words.events.iter().cloned());
                    }
                    let mut change = self.change_for(&session, ended.step).await?;
                    change.records.extend(written);
                    if let Some(own) = change.parts.first_mut() {
                        own.guard.fence = Some(fence(actor, epoch));
                        own.guard.append = words.map(|words| words.rule.clone());
                    }
                    // With complaints the worker keeps its claim and repairs its result: the same request may come
                    // again with another one.
                    if ended.complaints.is_empty() {
                        change.key = key;
                    }
                    Ok(Decided::<(), _>::Change(Box::new(change), ended.complaints))
                })
            })
            .await;
        match self.or_replayed(actor, key, done).await? {
            CommandOutcome::Done(_, complaints) if !complaints.is_empty() => {
                Err(Error::OutputInvalid { complaints })
            }
            CommandOutcome::Nothing(()) | CommandOutcome::Done(..) => Ok(()),
        }
    }

    /// How a run ends, and its entity records. A result that may not be written counts as one that does not fit.
    async fn ended(&self, session: &Session, how: Settle, now: Timestamp) -> Result<(RunEnd, Vec<Record>)> {
        let ended = work::decide::settle(session, how, self.settings.attempts_max, now, &*self.ids)?;
        match self.written_by(session, ended.write_back.as_ref(), &ended.step).await {
            Ok(written) => Ok((ended, written)),
            Err(Error::OutputInvalid { complaints }) => {
                Ok((work::decide::unwritable(session, &ended, complaints)?, Vec::new()))
            }
            Err(error) => Err(error),
        }
    }
}

/// The last events of a run.
struct LastEvents {
    events: Vec<NewEvent>,
    rule: AppendRule,
    /// The row that was claimed.
    seen: Session,
}

/// The refusal for a worker without a claim on the session: the same whether the session exists or not, so that
/// guessing ids reveals nothing.
pub(super) fn without_a_claim(actor: &Actor, error: Error) -> Error {
    match error {
        Error::NotFound if actor.role == Role::Worker => Conflict::Fenced.into(),
        other => other,
    }
}

pub(super) fn fence(actor: &Actor, epoch: u64) -> Fence {
    Fence { credential: actor.credential.clone(), epoch }
}
