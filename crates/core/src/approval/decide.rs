//! Decisions on approvals: asking a person, and what an approval, a denial, an answer or an expiry does to the
//! session. Pure: the time, and the ids of new approvals, are handed in. Commits are made in `engine/approvals.rs`.

use serde_json::json;

use super::promotion;
use super::safety_gate::{GateVerdict, check_choices, evaluate_safety_gate};
use super::{
    Approval, ApprovalBody, ApprovalKind, ApprovalState, ElicitationForm, StagedCall, call_id, digest,
    with_args,
};
use crate::access::{Actor, Role};
use crate::definitions::task::OnExpiry;
use crate::document::apply::DefinedRow;
use crate::error::{Conflict, Error, Result};
use crate::event::{EventType, NewEvent, payload};
use crate::ids::{IdSource, SessionId, UserId, check_text};
use crate::json::Json;
use crate::limits;
use crate::session::decide::{SessionStep, move_to};
use crate::session::status::Authority;
use crate::session::{Session, Status};
use crate::store::{Record, Update};
use crate::time::Timestamp;
use crate::work::output;
use crate::work::queueing::check_continues;
use crate::work::run::{Denial, Resume, Run};
use crate::work::trigger::human_step;

/// What a session asks a person.
#[derive(Clone, Debug)]
pub struct ApprovalQuestion {
    pub kind: ApprovalKind,
    pub staged: Json,
    pub verdict: GateVerdict,
}

/// The approval record of a question and its event. The session's deadline becomes the approval's.
pub fn ask(
    session: &SessionId,
    task_id: Option<&str>,
    run: &mut Run,
    question: ApprovalQuestion,
    now: Timestamp,
    ids: &dyn IdSource,
) -> Result<(Approval, NewEvent)> {
    let id: Box<str> = ids.ordered().to_string().into();
    let life = waits_for(question.kind, run);
    let StagedCall { call: staged, input_schema, description } = match question.kind {
        ApprovalKind::Tool => StagedCall::of(&question.staged),
        ApprovalKind::Output | ApprovalKind::Promotion | ApprovalKind::Question | ApprovalKind::Broken => {
            StagedCall { call: question.staged, input_schema: None, description: None }
        }
    };
    let approval = Approval {
        id: id.clone(),
        kind: question.kind,
        session: session.clone(),
        task_id: task_id.map(Into::into),
        state: ApprovalState::Pending,
        assigned_to: run.assigned_to.as_deref().map(UserId::stored),
        expires_at: life.map(|life| now.plus(life)),
        created_at: now,
        decided_by: None,
        decided_at: None,
        body: ApprovalBody {
            digest: digest(question.kind, session, &staged),
            staged: Some(staged),
            score: question.verdict.score,
            flags: question.verdict.flags,
            on_expiry: run.approval.map_or(OnExpiry::Expire, |terms| terms.on_expiry),
            edited: None,
            reason: None,
            input_schema,
            tool_description: description.and_then(|text| text.read().ok()),
            promotion: None,
            elicitation: run.elicitation.as_ref().map(|_| ElicitationForm::Parked),
        },
    };
    run.approval_id = Some(id.to_string());
    run.resume = None;
    let metadata = json!({"approval_id": &*id, "kind": question.kind.as_str()});
    let event = NewEvent::engine(EventType::known("session.waiting_approval"), Some(Json::of(&metadata)?));
    Ok((approval, event))
}

/// The approval record of a question that a called server asks while its call and its run go on, and its event. It is
/// closed when the session moves, as every question is.
pub fn ask_held(
    session: &Session,
    question: Json,
    lasts: std::time::Duration,
    now: Timestamp,
    ids: &dyn IdSource,
) -> Result<(Approval, SessionStep)> {
    let mut run = Run::of(session);
    if run.approval_id.is_some() {
        return Err(Conflict::SessionBusy.into());
    }
    if run.assigned_to.is_none() {
        run.assigned_to = session.head.holder.as_ref().map(ToString::to_string);
    }
    let resume = run.resume.clone();
    let question =
        ApprovalQuestion { kind: ApprovalKind::Question, staged: question, verdict: GateVerdict::default() };
    let (mut approval, event) =
        ask(&session.id, session.details.task_id.as_deref(), &mut run, question, now, ids)?;
    approval.expires_at = Some(now.plus(lasts));
    approval.body.elicitation = Some(ElicitationForm::Held);
    // The run goes on as it was resumed, also with a worker that takes over.
    run.resume = resume;
    let mut step = SessionStep::of(Update { run: Some(run.to_json()?), ..Update::default() });
    step.events.push(event);
    step.records.push(Record::AddApproval(Box::new(approval.clone())));
    Ok((approval, step))
}

/// Closes a held question that got no answer in its time.
pub fn close_held(session: &Session, approval: &Approval) -> Result<SessionStep> {
    let mut run = Run::of(session);
    run.approval_id = None;
    let mut step = SessionStep::of(Update { run: Some(run.to_json()?), ..Update::default() });
    let state = ApprovalState::Expired;
    step.records.push(Record::CloseApproval { id: approval.id.clone(), state, decided_by: None, body: None });
    Ok(step)
}

/// How long a question of this kind waits: as its task says; otherwise a tool call waits without end, and anything
/// else as long as waiting sessions do.
pub fn waits_for(kind: ApprovalKind, run: &Run) -> Option<std::time::Duration> {
    match (run.approval, kind) {
        (Some(terms), ApprovalKind::Tool | ApprovalKind::Output) => {
            Some(std::time::Duration::from_secs(terms.expires_in_s))
        }
        (None, ApprovalKind::Tool) => None,
        _ => Some(limits::WAITING_DEADLINE),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Approve,
    Deny,
}

impl Decision {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Deny => "deny",
        }
    }

    const fn state(self) -> ApprovalState {
        match self {
            Self::Approve => ApprovalState::Approved,
            Self::Deny => ApprovalState::Denied,
        }
    }
}

/// A decision as a person sends it.
#[derive(Clone, Debug)]
pub struct DecisionRequest {
    pub decision: Decision,
    pub modified_args: Option<Json>,
    pub modified_output: Option<Json>,
    pub reason: Option<String>,
    /// The digest of what the person saw: a decision on anything else is refused.
    pub digest: Option<String>,
}

/// The outcome of a decision.
#[derive(Debug)]
pub enum DecisionOutcome {
    /// The same decision was made before; nothing changes.
    Stands,
    Settled(Box<DecisionEffects>),
}

/// A decision that was accepted, with everything that it changes.
#[derive(Debug)]
pub struct DecisionEffects {
    pub step: SessionStep,
    pub record: Record,
    /// Values that are written back with the step.
    pub write_back: Option<Json>,
}

/// Decides on an approval of this session, as the session is now. A decision after the deadline is refused, even if
/// the sweeper has not expired the approval yet. `row` is the one that a promotion names, as it is now.
pub fn decide(
    actor: &Actor,
    session: &Session,
    approval: &Approval,
    row: Option<&DefinedRow>,
    wish: &DecisionRequest,
    now: Timestamp,
    ids: &dyn IdSource,
) -> Result<DecisionOutcome> {
    check_may_decide(actor, approval)?;
    if approval.kind == ApprovalKind::Promotion {
        promotion::check_not_own(actor, session)?;
    }
    if let Some(reason) = &wish.reason {
        check_text("reason", reason, limits::SENTENCE_CHARS_MAX)?;
    }
    match approval.state {
        ApprovalState::Pending if approval.expires_at.is_some_and(|end| end <= now) => {
            return Err(decided(approval, "expired"));
        }
        ApprovalState::Pending => {}
        state if state == wish.decision.state() => return Ok(DecisionOutcome::Stands),
        ApprovalState::Approved => return Err(decided(approval, "approve")),
        ApprovalState::Denied => return Err(decided(approval, "deny")),
        ApprovalState::Expired => return Err(decided(approval, "expired")),
        ApprovalState::Cancelled => return Err(decided(approval, "cancelled")),
    }
    let Some(staged) = approval.body.staged.as_ref().filter(|_| approval.kind != ApprovalKind::Broken) else {
        return Err(Error::invalid("id", "this approval cannot be read; stop its session instead"));
    };
    if digest(approval.kind, &session.id, staged) != approval.body.digest {
        return Err(Error::invalid("id", "what was staged is not what was asked; stop the session instead"));
    }
    if wish.digest.as_ref().is_some_and(|seen| *seen != approval.body.digest) {
        return Err(Conflict::StaleBase.into());
    }
    match (approval.kind, wish.decision) {
        (ApprovalKind::Question, Decision::Approve) => Err(Error::invalid(
            "decision",
            "a question is answered with `human-complete` or `elicitation-reply`, or denied",
        )),
        (ApprovalKind::Tool, _) => decide_tool(actor, session, approval, staged, wish),
        (ApprovalKind::Output, Decision::Approve) => approve_output(actor, session, approval, staged, wish),
        (ApprovalKind::Output, Decision::Deny) => {
            refuse_edits(wish)?;
            deny_output(&DenialTerms::of(actor, wish), session, approval, now, ids)
        }
        (ApprovalKind::Promotion, Decision::Approve) => {
            promotion::approve(actor, session, approval, staged, row, wish)
        }
        (ApprovalKind::Promotion, Decision::Deny) => {
            refuse_edits(wish)?;
            promotion::deny(&DenialTerms::of(actor, wish), approval)
        }
        (ApprovalKind::Question, Decision::Deny) => {
            refuse_edits(wish)?;
            deny_question(&DenialTerms::of(actor, wish), session, approval)
        }
        (ApprovalKind::Broken, _) => Err(Error::NotFound),
    }
}

/// Applies the expiry of an approval: it denies, or ends the session; it never approves. `None`: the session's own
/// rule for a passed deadline applies.
pub fn expire(
    session: &Session,
    approval: &Approval,
    now: Timestamp,
    ids: &dyn IdSource,
) -> Result<Option<DecisionEffects>> {
    if approval.body.on_expiry != OnExpiry::Deny || session.head.is_talk {
        return Ok(None);
    }
    let silence = DenialTerms::silence();
    let outcome = match approval.kind {
        ApprovalKind::Tool => deny_tool(&silence, session, approval)?,
        ApprovalKind::Output => deny_output(&silence, session, approval, now, ids)?,
        ApprovalKind::Question => deny_question(&silence, session, approval)?,
        // No session waits for a promotion: its expiry is its own, see `promotion::expire`.
        ApprovalKind::Promotion | ApprovalKind::Broken => return Ok(None),
    };
    Ok(expired(outcome))
}

/// A denial by silence, with the approval closed as expired.
pub(super) fn expired(outcome: DecisionOutcome) -> Option<DecisionEffects> {
    match outcome {
        DecisionOutcome::Settled(mut settled) => {
            if let Record::CloseApproval { state, .. } = &mut settled.record {
                *state = ApprovalState::Expired;
            }
            Some(*settled)
        }
        DecisionOutcome::Stands => None,
    }
}

/// Only the assignee and owners may decide.
pub fn check_may_decide(actor: &Actor, approval: &Approval) -> Result<()> {
    let assigned = actor.user.is_some() && approval.assigned_to == actor.user;
    match actor.role {
        Role::Owner => Ok(()),
        Role::Member if assigned => Ok(()),
        _ => Err(Error::NotFound),
    }
}

/// How a decider is named.
pub fn by(actor: &Actor) -> String {
    actor.user.as_ref().map_or_else(|| actor.credential.to_string(), ToString::to_string)
}

fn decided(approval: &Approval, decision: &'static str) -> Error {
    if decision == "expired" {
        return Conflict::ApprovalExpired { at: approval.expires_at }.into();
    }
    let decided_by = approval.decided_by.as_deref().unwrap_or("nobody").to_owned();
    Conflict::AlreadyDecided { decision, decided_by }.into()
}

fn refuse_edits(wish: &DecisionRequest) -> Result<()> {
    for (field, edit) in [("modified_args", &wish.modified_args), ("modified_output", &wish.modified_output)]
    {
        if edit.is_some() {
            return Err(Error::invalid(field, "belongs to another kind of decision"));
        }
    }
    Ok(())
}

pub(super) fn close(
    approval: &Approval,
    state: ApprovalState,
    decided_by: &str,
    body: ApprovalBody,
) -> Record {
    Record::CloseApproval {
        id: approval.id.clone(),
        state,
        decided_by: Some(decided_by.into()),
        body: Some(Box::new(body)),
    }
}

/// The audit event of an approval: who decided, why, and which values the decider changed.
pub(super) fn approved_event(
    kind: &'static str,
    approval: &Approval,
    by: &str,
    reason: Option<&str>,
    changed: Option<&Json>,
) -> Result<NewEvent> {
    let mut metadata = audit_metadata(approval, Decision::Approve, reason);
    if changed.is_some() {
        metadata["edited"] = true.into();
    }
    let content = changed.map(|values| {
        let part = Json::object([("type", &Json::stored(r#""data""#)), ("data", values)]);
        Json::of(&[part])
    });
    audit_event(kind, by, metadata, content.transpose()?)
}

/// The audit event of a denial, or of an approval that expired.
pub(super) fn denied_event(
    kind: &'static str,
    approval: &Approval,
    refusal: &DenialTerms,
) -> Result<NewEvent> {
    let said = refusal.reason.as_deref().filter(|_| !refusal.expired);
    let mut metadata = audit_metadata(approval, Decision::Deny, said);
    if refusal.expired {
        metadata["expired"] = true.into();
    }
    audit_event(kind, &refusal.by, metadata, None)
}

fn audit_metadata(approval: &Approval, decision: Decision, reason: Option<&str>) -> serde_json::Value {
    let mut metadata = json!({"approval_id": &*approval.id, "decision": decision.as_str()});
    let call = approval.body.staged.as_ref().filter(|_| approval.kind == ApprovalKind::Tool);
    if let Some(id) = call.and_then(call_id) {
        metadata["tool_call_id"] = id.into();
    }
    if let Some(target) = &approval.body.promotion {
        metadata["entity_id"] = target.entity_id.as_str().into();
    }
    if let Some(reason) = reason {
        metadata["reason"] = reason.into();
    }
    metadata
}

fn audit_event(
    kind: &'static str,
    by: &str,
    metadata: serde_json::Value,
    content: Option<Json>,
) -> Result<NewEvent> {
    let metadata = Json::of(&metadata)?;
    payload::check_size(content.as_ref(), Some(&metadata))?;
    let event = NewEvent::engine(EventType::known(kind), Some(metadata));
    Ok(NewEvent { content, author: Some(by.into()), ..event })
}

/// Who refuses, and why.
pub(super) struct DenialTerms {
    pub(super) by: String,
    pub(super) reason: Option<String>,
    /// The deadline passed: the reason is Sederunt's own text, not a reviewer's instruction.
    expired: bool,
}

impl DenialTerms {
    fn of(actor: &Actor, wish: &DecisionRequest) -> Self {
        Self { by: by(actor), reason: wish.reason.clone(), expired: false }
    }

    /// The denial of an approval that nobody decided in time.
    pub(super) fn silence() -> Self {
        Self { by: "nobody".to_owned(), reason: Some("nobody decided in time".to_owned()), expired: true }
    }
}

/// Puts the session back into the queue with the decision; a turn of talk, which has no queue, runs on at once.
fn resumed(session: &Session, mut run: Run, resume: Option<Resume>) -> Result<SessionStep> {
    let to = if session.head.is_talk { Status::Running } else { Status::Pending };
    if to == Status::Pending {
        check_continues(session)?;
    }
    let mut step = move_to(session, to, Authority::Decision, Some("decided"))?;
    run.approval_id = None;
    run.resume = resume;
    step.update.run = Some(run.to_json()?);
    Ok(step)
}

fn decide_tool(
    actor: &Actor,
    session: &Session,
    approval: &Approval,
    staged: &Json,
    wish: &DecisionRequest,
) -> Result<DecisionOutcome> {
    if wish.modified_output.is_some() {
        return Err(Error::invalid("modified_output", "a tool call has arguments; use `modified_args`"));
    }
    if wish.decision == Decision::Deny {
        if wish.modified_args.is_some() {
            return Err(Error::invalid("modified_args", "a denied call is not carried out"));
        }
        return deny_tool(&DenialTerms::of(actor, wish), session, approval);
    }
    let args = staged.fields().iter().find(|(key, _)| key == "args").map(|(_, args)| args.clone());
    let args = args.unwrap_or_else(Json::empty_object);
    if let Some(edited) = &wish.modified_args {
        check_edit("modified_args", &args, edited)?;
    }
    let edited = wish.modified_args.as_ref().map(|edited| merged(&args, edited));
    if let (Some(edited), Some(schema)) = (&edited, &approval.body.input_schema) {
        let complaints = output::misfits(schema, edited);
        if !complaints.is_empty() {
            let sentence = format!("must fit the tool's schema: {}", complaints.join("; "));
            return Err(Error::invalid("modified_args", sentence));
        }
    }
    let changed = edited.as_ref().map(|edited| changed_values(&args, edited));
    let final_args = edited.clone().unwrap_or(args);
    let sum = digest(ApprovalKind::Tool, &session.id, &with_args(staged, &final_args));
    let resume = Resume {
        tool_call: Some(staged.clone()),
        args: Some(final_args),
        digest: Some(sum.clone()),
        reason: wish.reason.clone(),
        ..Resume::after(&approval.id, Decision::Approve.as_str())
    };
    let name = by(actor);
    let mut step = resumed(session, Run::of(session), Some(resume))?;
    let event =
        approved_event("user.tool_confirmation", approval, &name, wish.reason.as_deref(), changed.as_ref())?;
    step.events.insert(0, event);
    let body = ApprovalBody { digest: sum, edited, reason: wish.reason.clone(), ..approval.body.clone() };
    let record = close(approval, ApprovalState::Approved, &name, body);
    Ok(DecisionOutcome::Settled(Box::new(DecisionEffects { step, record, write_back: None })))
}

fn deny_tool(refusal: &DenialTerms, session: &Session, approval: &Approval) -> Result<DecisionOutcome> {
    let resume = Resume {
        tool_call: approval.body.staged.clone(),
        reason: refusal.reason.clone(),
        ..Resume::after(&approval.id, Decision::Deny.as_str())
    };
    let mut step = resumed(session, Run::of(session), Some(resume))?;
    step.events.insert(0, denied_event("user.tool_confirmation", approval, refusal)?);
    let body = ApprovalBody { reason: refusal.reason.clone(), ..approval.body.clone() };
    let record = close(approval, ApprovalState::Denied, &refusal.by, body);
    Ok(DecisionOutcome::Settled(Box::new(DecisionEffects { step, record, write_back: None })))
}

fn approve_output(
    actor: &Actor,
    session: &Session,
    approval: &Approval,
    staged: &Json,
    wish: &DecisionRequest,
) -> Result<DecisionOutcome> {
    if wish.modified_args.is_some() {
        return Err(Error::invalid("modified_args", "an output has values; use `modified_output`"));
    }
    let mut run = Run::of(session);
    let mut body = ApprovalBody { reason: wish.reason.clone(), ..approval.body.clone() };
    let mut values = staged.clone();
    let mut result = None;
    let mut changed = None;
    if let Some(edited) = &wish.modified_output {
        check_edit("modified_output", staged, edited)?;
        check_choices(edited, &run.criteria)?;
        values = merged(staged, edited);
        result = Some(match &run.output {
            Some(contract) => contract.edited(session.details.result.as_ref(), &values)?,
            None => values.clone(),
        });
        changed = Some(changed_values(staged, &values));
        let verdict = evaluate_safety_gate(&values, &run.criteria);
        if let Some(block) = verdict.blocked {
            return Err(Error::HardBlocked { dimension: block.dimension, option: block.option });
        }
        if !run.criteria.is_empty() {
            body.score = verdict.score;
            body.flags = verdict.flags;
        }
        body.digest = digest(approval.kind, &session.id, &values);
        body.edited = Some(values.clone());
    }
    let name = by(actor);
    let mut step = move_to(session, Status::Completed, Authority::Decision, Some("approved"))?;
    let event =
        approved_event("user.output_approval", approval, &name, wish.reason.as_deref(), changed.as_ref())?;
    step.events.insert(0, event);
    step.events.push(NewEvent::engine(EventType::known("session.completed"), None));
    step.update.result = result;
    run.approval_id = None;
    step.update.run = Some(run.to_json()?);
    let record = close(approval, ApprovalState::Approved, &name, body);
    Ok(DecisionOutcome::Settled(Box::new(DecisionEffects { step, record, write_back: Some(values) })))
}

fn deny_output(
    refusal: &DenialTerms,
    session: &Session,
    approval: &Approval,
    now: Timestamp,
    ids: &dyn IdSource,
) -> Result<DecisionOutcome> {
    let mut run = Run::of(session);
    run.denials.push(Denial { by: refusal.by.clone(), reason: refusal.reason.clone() });
    run.repairs = 0;
    let event = denied_event("user.output_approval", approval, refusal)?;
    let mut step = if run.denials.len() >= limits::DENIALS_MAX {
        run.approval_id = None;
        let mut step = move_to(session, Status::Failed, Authority::Decision, Some("denied"))?;
        let reasons: Vec<&str> = run.denials.iter().filter_map(|denial| denial.reason.as_deref()).collect();
        let mut note = format!("the output was denied {} times", run.denials.len());
        if !reasons.is_empty() {
            note = format!("{note}: {}", reasons.join("; "));
        }
        note.push_str(". Change the task's instructions or its contract, then retry.");
        step.update.error_message = Some(note.into());
        step.update.end_reason = Some("denied".into());
        step.update.run = Some(run.to_json()?);
        step
    } else if is_persons_step(session) {
        let title = session.details.title.as_deref().unwrap_or(session.id.as_str());
        let question = human_step(title, &run, session.details.input.as_ref())?;
        asked_next(session, run, question, now, ids)?
    } else {
        resumed(session, run, None)?
    };
    step.events.insert(0, event);
    let body = ApprovalBody { reason: refusal.reason.clone(), ..approval.body.clone() };
    let record = close(approval, ApprovalState::Denied, &refusal.by, body);
    Ok(DecisionOutcome::Settled(Box::new(DecisionEffects { step, record, write_back: None })))
}

/// Whether a session is the work of a person, and no worker has ever had it.
fn is_persons_step(session: &Session) -> bool {
    session.details.agent_slug.is_none() && session.head.epoch == 0 && !session.head.is_talk
}

/// Parks a session that waits for a person again, with the next question.
fn asked_next(
    session: &Session,
    mut run: Run,
    question: ApprovalQuestion,
    now: Timestamp,
    ids: &dyn IdSource,
) -> Result<SessionStep> {
    let deadline = Some(waits_for(question.kind, &run));
    let of_person = question.kind == ApprovalKind::Output;
    let (mut approval, event) =
        ask(&session.id, session.details.task_id.as_deref(), &mut run, question, now, ids)?;
    if of_person {
        // A person's own output is reviewed by an owner, not by that person.
        approval.assigned_to = None;
    }
    let mut step = SessionStep::of(Update { run: Some(run.to_json()?), deadline, ..Update::default() });
    step.events.push(event);
    step.records.push(Record::AddApproval(Box::new(approval)));
    Ok(step)
}

/// A person declines to answer: a run goes on without the answer, a person's own step fails.
fn deny_question(refusal: &DenialTerms, session: &Session, approval: &Approval) -> Result<DecisionOutcome> {
    if approval.body.elicitation.is_some() {
        let resume =
            Resume { reason: refusal.reason.clone(), ..Resume::after(&approval.id, Decision::Deny.as_str()) };
        let mut step = input_given(session, approval, resume)?;
        step.events.insert(0, denied_event("user.tool_confirmation", approval, refusal)?);
        let body = ApprovalBody { reason: refusal.reason.clone(), ..approval.body.clone() };
        let record = close(approval, ApprovalState::Denied, &refusal.by, body);
        return Ok(DecisionOutcome::Settled(Box::new(DecisionEffects { step, record, write_back: None })));
    }
    let run = Run::of(session);
    let mut step = if session.details.agent_slug.is_some() || approval.view_id().is_some() {
        let resume = Resume {
            reason: refusal.reason.clone(),
            view_id: approval.view_id(),
            ..Resume::after(&approval.id, Decision::Deny.as_str())
        };
        resumed(session, run, Some(resume))?
    } else {
        let mut step = move_to(session, Status::Failed, Authority::Decision, Some("declined"))?;
        step.update.error_message = Some(refusal.reason.as_deref().unwrap_or("the step was declined").into());
        step.update.end_reason = Some("declined".into());
        step
    };
    step.events.insert(0, denied_event("user.tool_confirmation", approval, refusal)?);
    let body = ApprovalBody { reason: refusal.reason.clone(), ..approval.body.clone() };
    let record = close(approval, ApprovalState::Denied, &refusal.by, body);
    Ok(DecisionOutcome::Settled(Box::new(DecisionEffects { step, record, write_back: None })))
}

/// The step by which the call of a server gets what it asked for: a parked run is queued, a held call goes on.
fn input_given(session: &Session, approval: &Approval, resume: Resume) -> Result<SessionStep> {
    let mut run = Run::of(session);
    if approval.body.elicitation == Some(ElicitationForm::Held) {
        run.approval_id = None;
        return Ok(SessionStep::of(Update { run: Some(run.to_json()?), ..Update::default() }));
    }
    let elicitation = run.elicitation.take();
    resumed(session, run, Some(Resume { elicitation, ..resume }))
}

/// Refuses an answer that the call which asked would not get.
fn check_still_asked(session: &Session, approval: &Approval, now: Timestamp) -> Result<()> {
    if approval.body.elicitation.is_none() {
        return Ok(());
    }
    if approval.expires_at.is_some_and(|end| end <= now) {
        return Err(decided(approval, "expired"));
    }
    let is_held = approval.body.elicitation == Some(ElicitationForm::Held);
    if is_held && session.head.claim.as_ref().is_none_or(|claim| claim.lease_until <= now) {
        return Err(Conflict::NothingAsked { status: session.head.status }.into());
    }
    Ok(())
}

/// A person turns down what a called server asks, and the server is told how.
pub fn turn_down(
    actor: &Actor,
    session: &Session,
    approval: &Approval,
    how: TurnDown,
    now: Timestamp,
) -> Result<DecisionEffects> {
    check_may_decide(actor, approval)?;
    if approval.kind != ApprovalKind::Question || approval.body.elicitation.is_none() {
        return Err(Error::invalid("action", "only what a called server asks is declined or cancelled here"));
    }
    check_pending(approval)?;
    check_still_asked(session, approval, now)?;
    let (decision, state) = match how {
        TurnDown::Decline => ("deny", ApprovalState::Denied),
        TurnDown::Cancel => ("cancel", ApprovalState::Cancelled),
    };
    let name = by(actor);
    let mut step = input_given(session, approval, Resume::after(&approval.id, decision))?;
    let metadata = json!({"approval_id": &*approval.id, "action": how.as_str()});
    step.events.insert(0, audit_event("user.tool_result", &name, metadata, None)?);
    Ok(DecisionEffects {
        step,
        record: close(approval, state, &name, approval.body.clone()),
        write_back: None,
    })
}

/// How a person turns down what a called server asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnDown {
    Decline,
    Cancel,
}

impl TurnDown {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

/// A person answers a question that a run asked: the run goes on with the answer.
pub fn reply(
    actor: &Actor,
    session: &Session,
    approval: &Approval,
    reply: &Json,
    now: Timestamp,
) -> Result<DecisionEffects> {
    check_may_decide(actor, approval)?;
    let of_run = session.details.agent_slug.is_some() || approval.body.elicitation.is_some();
    if approval.kind != ApprovalKind::Question || !of_run {
        return Err(Error::invalid("id", "no question of a run waits here"));
    }
    check_pending(approval)?;
    check_still_asked(session, approval, now)?;
    if let Some(view) = approval.view_id() {
        return Err(Error::invalid(
            "id",
            format!("this is asked by the view `{view}`; submit an answer to it"),
        ));
    }
    if reply.len() > limits::EVENT_BYTES_MAX / 2 {
        return Err(Error::TooLarge { what: "reply", limit: limits::EVENT_BYTES_MAX / 2 });
    }
    let staged = approval.body.staged.as_ref().map(Json::fields).unwrap_or_default();
    if let Some((_, schema)) = staged.iter().find(|(key, _)| key == "schema")
        && let Some(complaint) = output::misfits(schema, reply).into_iter().next()
    {
        return Err(Error::invalid("reply", complaint));
    }
    let name = by(actor);
    let resume = Resume { reply: Some(reply.clone()), ..Resume::after(&approval.id, "answer") };
    if approval.body.elicitation.is_some() {
        let mut step = input_given(session, approval, resume)?;
        let metadata = json!({"approval_id": &*approval.id, "action": "accept"});
        let part = Json::object([("type", &Json::stored(r#""data""#)), ("data", reply)]);
        step.events.insert(0, audit_event("user.tool_result", &name, metadata, Some(Json::of(&[part])?))?);
        let body = ApprovalBody { edited: Some(reply.clone()), ..approval.body.clone() };
        let record = close(approval, ApprovalState::Approved, &name, body);
        return Ok(DecisionEffects { step, record, write_back: None });
    }
    let mut step = resumed(session, Run::of(session), Some(resume))?;
    let part = match reply.read::<String>() {
        Ok(text) => json!([{"type": "text", "text": text}]),
        Err(_) => json!([{"type": "data", "data": reply}]),
    };
    let mut event = NewEvent::engine(
        EventType::known("user.message"),
        Some(Json::of(&json!({"approval_id": &*approval.id}))?),
    );
    event.content = Some(Json::of(&part)?);
    event.author = Some(name.as_str().into());
    step.events.insert(0, event);
    let body = ApprovalBody { edited: Some(reply.clone()), ..approval.body.clone() };
    Ok(DecisionEffects {
        step,
        record: close(approval, ApprovalState::Approved, &name, body),
        write_back: None,
    })
}

/// A respondent answers the view by which a run asked: the run goes on with the answer.
pub fn answered(
    session: &Session,
    approval: &Approval,
    view_id: &str,
    by: &str,
    reply: Json,
    event: NewEvent,
) -> Result<DecisionEffects> {
    let resume = Resume {
        reply: Some(reply.clone()),
        view_id: Some(view_id.to_owned()),
        ..Resume::after(&approval.id, "answer")
    };
    let mut step = resumed(session, Run::of(session), Some(resume))?;
    step.events.insert(0, event);
    let body = ApprovalBody { edited: Some(reply), ..approval.body.clone() };
    Ok(DecisionEffects { step, record: close(approval, ApprovalState::Approved, by, body), write_back: None })
}

/// A person completes a step: the result counts if it fits the contract. Where the task wants its output reviewed, an
/// owner decides on it first, as on an agent's.
pub fn human_complete(
    actor: &Actor,
    session: &Session,
    approval: &Approval,
    result: Option<&Json>,
    text: Option<&str>,
    now: Timestamp,
    ids: &dyn IdSource,
) -> Result<DecisionEffects> {
    check_may_decide(actor, approval)?;
    if approval.kind != ApprovalKind::Question
        || session.details.agent_slug.is_some()
        || approval.view_id().is_some()
        || approval.body.elicitation.is_some()
    {
        return Err(Error::invalid("id", "no person's step waits here"));
    }
    check_pending(approval)?;
    let mut run = Run::of(session);
    let staged = match &run.output {
        Some(contract) => {
            let complaints = contract.complaints(result, text);
            if !complaints.is_empty() {
                return Err(Error::OutputInvalid { complaints });
            }
            Some(contract.staged(result, text)?)
        }
        None if run.asks_before_writing() => Some(match result {
            Some(result) => result.clone(),
            None => Json::of(&text)?,
        }),
        None => None,
    };
    let verdict =
        staged.as_ref().map(|staged| evaluate_safety_gate(staged, &run.criteria)).unwrap_or_default();
    if let Some(block) = verdict.blocked {
        return Err(Error::HardBlocked { dimension: block.dimension, option: block.option });
    }
    let name = by(actor);
    run.approval_id = None;
    let (mut step, write_back) = match staged {
        Some(staged) if run.asks_before_writing() => {
            let verdict = if run.criteria.is_empty() { GateVerdict::default() } else { verdict };
            let question = ApprovalQuestion { kind: ApprovalKind::Output, staged, verdict };
            (asked_next(session, run, question, now, ids)?, None)
        }
        written => {
            let mut step = move_to(session, Status::Completed, Authority::Decision, Some("done"))?;
            step.events.push(NewEvent::engine(EventType::known("session.completed"), None));
            step.update.run = Some(run.to_json()?);
            (step, written)
        }
    };
    let mut event = NewEvent::engine(
        EventType::known("user.tool_result"),
        Some(Json::of(&json!({"approval_id": &*approval.id}))?),
    );
    event.author = Some(name.as_str().into());
    if let Some(text) = text {
        check_text("text", text, limits::EVENT_BYTES_MAX / 4)?;
        event.content = Some(Json::of(&json!([{"type": "text", "text": text}]))?);
    }
    step.events.insert(0, event);
    step.update.result = match (result, text) {
        (Some(result), _) => Some(result.clone()),
        (None, Some(text)) => Some(Json::of(&text)?),
        (None, None) => None,
    };
    let body = ApprovalBody { edited: result.cloned(), ..approval.body.clone() };
    Ok(DecisionEffects { step, record: close(approval, ApprovalState::Approved, &name, body), write_back })
}

fn check_pending(approval: &Approval) -> Result<()> {
    match approval.state {
        ApprovalState::Pending => Ok(()),
        ApprovalState::Approved => Err(decided(approval, "answer")),
        ApprovalState::Denied => Err(decided(approval, "deny")),
        ApprovalState::Expired => Err(decided(approval, "expired")),
        ApprovalState::Cancelled => Err(decided(approval, "cancelled")),
    }
}

/// Only what was staged may be edited: the same keys, the same number of things.
pub(super) fn check_edit(field: &'static str, staged: &Json, edited: &Json) -> Result<()> {
    let known = |staged: &Json, edited: &Json| {
        let keys = staged.fields();
        edited.fields().into_iter().find(|(key, _)| !keys.iter().any(|(known, _)| known == key))
    };
    let unknown = if staged.is_object() && edited.is_object() {
        known(staged, edited)
    } else if staged.is_array() && edited.is_array() {
        let (before, after): (Vec<Json>, Vec<Json>) =
            (staged.read().unwrap_or_default(), edited.read().unwrap_or_default());
        if before.len() != after.len() || !after.iter().all(Json::is_object) {
            return Err(Error::invalid(field, format!("must list {} objects, as was staged", before.len())));
        }
        before.iter().zip(&after).find_map(|(before, after)| known(before, after))
    } else if staged.as_str().starts_with('"') && edited.as_str().starts_with('"') {
        None
    } else {
        return Err(Error::invalid(field, "must have the shape of what was staged"));
    };
    match unknown {
        Some((key, _)) => {
            Err(Error::invalid(format!("{field}.{key}"), "was not staged, so it cannot be edited"))
        }
        None => Ok(()),
    }
}

pub(super) fn merged(staged: &Json, edited: &Json) -> Json {
    if staged.is_array() {
        let (before, after): (Vec<Json>, Vec<Json>) =
            (staged.read().unwrap_or_default(), edited.read().unwrap_or_default());
        let all: Vec<Json> = before.iter().zip(&after).map(|(before, after)| merged(before, after)).collect();
        return Json::of(&all).unwrap_or_else(|_| edited.clone());
    }
    if !staged.is_object() {
        return edited.clone();
    }
    let changes = edited.fields();
    let fields: Vec<(String, Json)> = staged
        .fields()
        .into_iter()
        .map(|(key, value)| {
            let change = changes.iter().find(|(changed, _)| *changed == key).map(|(_, value)| value.clone());
            (key, change.unwrap_or(value))
        })
        .collect();
    Json::object(fields.iter().map(|(key, value)| (key.as_str(), value)))
}

/// Which values an edit has changed: the fields that differ, or the whole of what has no fields.
pub(super) fn changed_values(staged: &Json, edited: &Json) -> Json {
    if !staged.is_object() {
        return edited.clone();
    }
    let before = staged.fields();
    let changed: Vec<(String, Json)> =
        edited.fields().into_iter().filter(|field| !before.contains(field)).collect();
    Json::object(changed.iter().map(|(key, value)| (key.as_str(), value)))
}
