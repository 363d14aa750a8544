//! Commands on what waits for a person: list it, decide it, answer it.

use uuid::Uuid;

use super::pauses::release_talk;
use super::sessions::check_limit;
use super::{CommandOutcome, Decided, Engine};
use crate::access::{Actor, Role};
use crate::approval::decide::{
    self as decisions, DecisionOutcome, DecisionRequest, TurnDown, check_may_decide,
};
use crate::approval::{Approval, ApprovalKind, ApprovalQuery, ApprovalState, AssigneeFilter};
use crate::definitions::{DefinitionKind, StoredDefinition, Task};
use crate::document::DocumentKind;
use crate::document::apply::DefinedRow;
use crate::error::{Conflict, Error, Result};
use crate::ids::SessionId;
use crate::json::Json;
use crate::json_schema;
use crate::limits;
use crate::session::decide::SessionStep;
use crate::session::query::Page;
use crate::session::{Session, SessionType};
use crate::store::{Change, IdemKey, KeyNote, Record, next_version};
use crate::talk::Talk;
use crate::time::Timestamp;
use crate::work::output::OutputContract;
use crate::work::run::Run;
use crate::work::write_back::{self, NamedEntities, WriteBack};
use crate::work::write_grant::WriteGrant;

impl Engine {
    /// One approval that the caller may decide.
    pub async fn approval(&self, actor: &Actor, id: &str) -> Result<Approval> {
        let approval = self.kept_approval(actor, id).await?;
        self.with_link(&actor.tenant, approval).await
    }

    /// The same approval as stored, which its digest is computed from.
    async fn kept_approval(&self, actor: &Actor, id: &str) -> Result<Approval> {
        let approval = self.sessions.approval(&actor.tenant, id).await?.ok_or(Error::NotFound)?;
        check_may_decide(actor, &approval)?;
        Ok(approval)
    }

    /// A page of approvals that the caller may decide, newest first. `mine` narrows an owner's list to its own and
    /// those without an assignee.
    pub async fn approvals(
        &self,
        actor: &Actor,
        mine: bool,
        mut query: ApprovalQuery,
    ) -> Result<Page<Approval, i64>> {
        check_limit(query.limit)?;
        query.assigned_to = decidable(actor, mine)?;
        let mut page = self.tenant.approvals(&actor.tenant, query).await?;
        for approval in &mut page.items {
            *approval = self.with_link(&actor.tenant, approval.clone()).await?;
        }
        Ok(page)
    }

    /// The approval of this id, or the only pending one of the task of this id.
    async fn approval_or_only_of_task(&self, actor: &Actor, id: &str) -> Result<Approval> {
        match self.approval(actor, id).await {
            Err(Error::NotFound) => {}
            found => return found,
        }
        let task: StoredDefinition<Task> = self.definition(actor, id).await?;
        let query = ApprovalQuery {
            state: Some(ApprovalState::Pending),
            task_id: Some(task.id.to_string()),
            limit: 2,
            ..ApprovalQuery::default()
        };
        let mut pending = self.approvals(actor, false, query).await?.items;
        match (pending.pop(), pending.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(_), false) => Err(Conflict::SeveralPending.into()),
            (None, _) => Err(Error::NotFound),
        }
    }

    /// Decides on an approval by its id, or by that of its task. A repeat is about the approval that the first call
    /// meant, even if another one is pending by now.
    pub async fn decide_for(
        &self,
        actor: &Actor,
        id: &str,
        wish: DecisionRequest,
        key: Option<IdemKey>,
    ) -> Result<Approval> {
        let before = match key {
            Some(key) => self.sessions.recall(&actor.tenant, key).await?.and_then(|replay| replay.note),
            None => None,
        };
        match before {
            Some(KeyNote(decided)) => self.approval(actor, &decided.to_string()).await,
            None => {
                let meant = self.approval_or_only_of_task(actor, id).await?;
                self.decide(actor, &meant.id, wish, key).await
            }
        }
    }

    /// Decides: the audit event, the write-back, the approval, the session and the sessions that depend on it change
    /// together. The same decision again changes nothing.
    pub async fn decide(
        &self,
        actor: &Actor,
        id: &str,
        wish: DecisionRequest,
        key: Option<IdemKey>,
    ) -> Result<Approval> {
        let key = key.map(|key| IdemKey { note: Uuid::parse_str(id).ok().map(KeyNote), ..key });
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let (approval, session, talk) = self.approval_and_asking(actor, id).await?;
                    let row = self.promoted_row(actor, &approval).await?;
                    let now = self.tenant.now().await?;
                    json_schema::prepare(&Run::contract_schema(&session)).await;
                    let (row, ids) = (row.as_ref(), &*self.ids);
                    match decisions::decide(actor, &session, &approval, row, &wish, now, ids)? {
                        DecisionOutcome::Stands => Ok(Decided::Nothing(approval)),
                        DecisionOutcome::Settled(settled) => {
                            let seen = self.seen_after(&session, &approval, &settled).await?;
                            let mut change = self.settled(&session, *settled).await?.keyed(key);
                            change.records.extend(seen);
                            release_talk(&mut change, &session, &talk);
                            Ok(Decided::change(change))
                        }
                    }
                })
            })
            .await;
        match self.or_replayed(actor, key, done).await? {
            CommandOutcome::Nothing(approval) => Ok(approval),
            CommandOutcome::Done(..) => self.approval(actor, id).await,
        }
    }

    /// Answers the question that a run asked.
    pub async fn reply(
        &self,
        actor: &Actor,
        id: &SessionId,
        reply: Json,
        key: Option<IdemKey>,
    ) -> Result<Session> {
        self.answer(actor, id, key, |session, approval, now| {
            decisions::reply(actor, session, approval, &reply, now)
        })
        .await
    }

    /// Turns down what a called server asks.
    pub async fn turn_down(
        &self,
        actor: &Actor,
        id: &SessionId,
        how: TurnDown,
        key: Option<IdemKey>,
    ) -> Result<Session> {
        self.answer(actor, id, key, |session, approval, now| {
            decisions::turn_down(actor, session, approval, how, now)
        })
        .await
    }

    /// Completes a person's step.
    pub async fn human_complete(
        &self,
        actor: &Actor,
        id: &SessionId,
        result: Option<Json>,
        text: Option<String>,
        key: Option<IdemKey>,
    ) -> Result<Session> {
        self.answer(actor, id, key, |session, approval, now| {
            decisions::human_complete(
                actor,
                session,
                approval,
                result.as_ref(),
                text.as_deref(),
                now,
                &*self.ids,
            )
        })
        .await
    }

    async fn answer(
        &self,
        actor: &Actor,
        id: &SessionId,
        key: Option<IdemKey>,
        decide: impl Fn(&Session, &Approval, Timestamp) -> Result<decisions::DecisionEffects> + Sync,
    ) -> Result<Session> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let session = self.load(actor, crate::access::Verb::Answer, id).await?;
                    let pending = self
                        .pending_of(&session)
                        .await?
                        .ok_or_else(|| Error::from(Conflict::NothingAsked { status: session.head.status }))?;
                    let staged = pending.body.staged.as_ref().map(Json::fields).unwrap_or_default();
                    let asked = staged.iter().filter(|(key, _)| key == "schema").map(|(_, schema)| schema);
                    json_schema::prepare(Run::contract_schema(&session).iter().chain(asked)).await;
                    let settled = decide(&session, &pending, self.tenant.now().await?)?;
                    Ok(Decided::<()>::change(self.settled(&session, settled).await?.keyed(key)))
                })
            })
            .await;
        match self.or_replayed(actor, key, done).await? {
            CommandOutcome::Nothing(()) => Err(Error::internal("an answer changes a session")),
            CommandOutcome::Done(done, ()) => self.session_after(actor, id, &done).await,
        }
    }

    /// The approval that a session waits for, if any.
    pub(super) async fn pending_of(&self, session: &Session) -> Result<Option<Approval>> {
        let Some(id) = Run::of(session).approval_id else { return Ok(None) };
        self.sessions.approval(&session.tenant, &id).await
    }

    /// The pending promotion of a session, if any; only responses have one.
    pub(super) async fn pending_promotion(&self, session: &Session) -> Result<Option<Approval>> {
        if session.head.session_type != SessionType::Response {
            return Ok(None);
        }
        let query = ApprovalQuery {
            session: Some(session.id.clone()),
            state: Some(ApprovalState::Pending),
            limit: limits::PAGE_ROWS_MAX,
            ..ApprovalQuery::default()
        };
        let pending = self.tenant.approvals(&session.tenant, query).await?.items;
        Ok(pending.into_iter().find(|approval| approval.kind == ApprovalKind::Promotion))
    }

    /// The row that a promotion names, as it is now. `None` for what is no promotion, and where there is none yet.
    async fn promoted_row(&self, actor: &Actor, approval: &Approval) -> Result<Option<DefinedRow>> {
        let Some(target) = &approval.body.promotion else { return Ok(None) };
        let is_view = target.document.as_ref().is_some_and(|one| one.kind == DocumentKind::View.as_str());
        let kind = if is_view { DefinitionKind::View } else { DefinitionKind::Entity };
        self.current_row(&actor.tenant, kind, &target.entity_id).await
    }

    /// The record by which the document of a promotion sees what the decision writes.
    async fn seen_after(
        &self,
        session: &Session,
        approval: &Approval,
        settled: &decisions::DecisionEffects,
    ) -> Result<Option<Record>> {
        let target = approval.body.promotion.as_ref();
        let Some((target, about)) = target.and_then(|target| Some((target, target.document.as_ref()?)))
        else {
            return Ok(None);
        };
        let Record::CloseApproval { state: ApprovalState::Approved, body: Some(body), .. } = &settled.record
        else {
            return Ok(None);
        };
        let written = settled.step.records.iter().find_map(|record| match record {
            Record::PutDoc { doc, expects } if *doc.id == *target.entity_id => {
                Some((doc, next_version(*expects)))
            }
            _ => None,
        });
        let Some((doc, version)) = written else { return Ok(None) };
        let values = body.edited.as_ref().or(body.staged.as_ref()).map(Json::fields).unwrap_or_default();
        let names: Vec<String> = values.into_iter().map(|(name, _)| name).collect();
        self.seen_by_document(session, about, &DefinedRow::of(doc)?, version, &names).await
    }

    /// An approval and the session that asks. A decision may be committed between the two reads: a session that no
    /// longer waits for what was pending tells so, and the approval is read again.
    async fn approval_and_asking(&self, actor: &Actor, id: &str) -> Result<(Approval, Session, Talk)> {
        let mut approval = self.kept_approval(actor, id).await?;
        let found = self.sessions.talk(&actor.tenant, &approval.session).await?;
        let (session, talk) = found.ok_or(Error::NotFound)?;
        if approval.state == ApprovalState::Pending
            && Run::of(&session).approval_id.as_deref() != Some(&*approval.id)
        {
            approval = self.kept_approval(actor, id).await?;
        }
        Ok((approval, session, talk))
    }

    /// The change that carries out a decision.
    pub(super) async fn settled(
        &self,
        session: &Session,
        settled: decisions::DecisionEffects,
    ) -> Result<Change> {
        let written = self.written_by(session, settled.write_back.as_ref(), &settled.step).await?;
        let mut change = self.change_for(session, settled.step).await?;
        change.records.push(settled.record);
        change.records.extend(written);
        Ok(change)
    }

    /// The entity records of a step. Values that are only staged for a decision are checked as well, so that no
    /// person is asked to approve what may not be written.
    pub(super) async fn written_by(
        &self,
        session: &Session,
        write_back: Option<&Json>,
        step: &SessionStep,
    ) -> Result<Vec<Record>> {
        if let Some(values) = write_back {
            return self.write_back(session, values).await;
        }
        if let Some(values) = write_back::staged(step) {
            self.write_back(session, values).await?;
        }
        Ok(Vec::new())
    }

    /// The entity records of a run's values. Entities are read now and written under a guard on what was read.
    async fn write_back(&self, session: &Session, values: &Json) -> Result<Vec<Record>> {
        let Run { output, writes, .. } = Run::of(session);
        let Some(output) = output.filter(|output| output.kind.writes_entities()) else {
            return Ok(Vec::new());
        };
        let grant = match writes {
            Some(frozen) => frozen,
            None => self.unfrozen_grant(session, &output).await?,
        };
        let about = session.details.entity_id.as_deref();
        let write_back = WriteBack { output: &output, about, grant: &grant };
        let mut known = NamedEntities::new();
        for name in write_back.named(values) {
            if let Some(doc) = self.tenant.doc(&session.tenant, DefinitionKind::Entity, &name).await? {
                known.insert(name, StoredDefinition::of(&doc)?);
            }
        }
        write_back.records(values, &known, &*self.ids)
    }

    /// The grant of a run that was started before runs had one: its task's current grant.
    async fn unfrozen_grant(&self, session: &Session, output: &OutputContract) -> Result<WriteGrant> {
        let Some(task) = self.task_of(session).await? else { return Ok(WriteGrant::default()) };
        if task.value.writes.is_none() && self.is_made_by_owner(&session.tenant, &task).await? {
            let about = session.details.entity_id.as_deref();
            return Ok(WriteGrant::needed(std::iter::once(output), about).unwrap_or_default());
        }
        Ok(task.value.writes.unwrap_or_default())
    }
}

/// Which approvals a caller may decide; `None`: all of the tenant.
pub(super) fn decidable(actor: &Actor, mine: bool) -> Result<Option<AssigneeFilter>> {
    match (actor.role, actor.user.clone()) {
        (Role::Owner, Some(user)) if mine => Ok(Some(AssigneeFilter::ToOrNobody(user))),
        (Role::Owner, _) => Ok(None),
        (Role::Member, Some(user)) => Ok(Some(AssigneeFilter::To(user))),
        _ => Err(Error::denied("only an assignee or an owner decides")),
    }
}
