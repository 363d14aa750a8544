//! How work moves: a claim, the end of a run, a lost lease, a request to stop. All pure.

use std::sync::Arc;

use serde_json::json;

use super::run::{Resume, Run};
use super::{ClaimOrder, Pause, Settle};
use crate::approval::decide::ApprovalQuestion;
use crate::approval::safety_gate::{GateVerdict, evaluate_safety_gate};
use crate::approval::{self, StagedCall};
use crate::error::{Error, Result};
use crate::event::{AppendOutcome, Event, EventType, NewEvent, advance};
use crate::ids::{IdSource, SessionId, check_name, check_text};
use crate::json::Json;
use crate::limits;
use crate::session::decide::{SessionStep, move_to, status_change};
use crate::session::row::Claim;
use crate::session::status::Authority;
use crate::session::{Head, Session, SessionType, Status};
use crate::store::{Record, Update};
use crate::time::Timestamp;
use crate::tool_session;
use crate::view::ViewAnswer;

/// Hands pending sessions to one worker. What they share is built once.
#[derive(Debug)]
pub struct HandOut<'a> {
    order: &'a ClaimOrder,
    now: Timestamp,
    moved: NewEvent,
    /// Sessions of one claim mostly get the same epoch, and then share this event.
    claimed: Option<(u64, NewEvent)>,
}

/// What a claim changes beside the hot row.
#[derive(Debug)]
pub struct ClaimEffects {
    pub events: Vec<Arc<Event>>,
    /// The minute of activity, where it changed.
    pub minute: Option<i64>,
}

impl<'a> HandOut<'a> {
    pub fn new(order: &'a ClaimOrder, now: Timestamp) -> Result<Self> {
        Ok(Self { order, now, moved: status_change(Status::Pending, Status::Running, None)?, claimed: None })
    }

    /// A new epoch, a lease, one more attempt, and the events. Beyond that, a claim changes only the last sequence
    /// and its time: stores need not write the rest of the row.
    pub fn take(
        &mut self,
        id: &SessionId,
        head: &mut Head,
        started_at: &mut Option<Timestamp>,
    ) -> Result<ClaimEffects> {
        head.status = Status::Running;
        head.version += 1;
        head.epoch += 1;
        head.attempts += 1;
        head.deadline_at = None;
        head.claim = Some(Claim {
            worker: self.order.worker.clone(),
            credential: self.order.credential.clone(),
            lease_until: self.now.plus(self.order.lease),
        });
        started_at.get_or_insert(self.now);
        let mut events = vec![self.claimed(head.epoch)?, self.moved.clone()];
        // A tool session has one invocation, which its first claim starts.
        if head.session_type == SessionType::Tool && head.epoch == 1 {
            events.push(tool_session::decide::started(head)?);
        }
        let (appended, cold) = advance(id, head, events, self.now, |_| None);
        let events = appended
            .into_iter()
            .filter_map(|slot| match slot {
                AppendOutcome::New(event) => Some(event),
                AppendOutcome::Repeat(_) => None,
            })
            .collect();
        Ok(ClaimEffects { events, minute: cold.minute })
    }

    fn claimed(&mut self, epoch: u64) -> Result<NewEvent> {
        if let Some((of, event)) = &self.claimed
            && *of == epoch
        {
            return Ok(event.clone());
        }
        let metadata = Json::of(&json!({"worker": self.order.worker, "epoch": epoch}))?;
        let event = NewEvent::engine(EventType::known("session.claimed"), Some(metadata));
        self.claimed = Some((epoch, event.clone()));
        Ok(event)
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct RunEnd {
    pub step: SessionStep,
    /// Values that are written back with the step.
    pub write_back: Option<Json>,
    /// What the worker has to repair; the step is committed all the same.
    pub complaints: Vec<String>,
}

impl From<SessionStep> for RunEnd {
    fn from(step: SessionStep) -> Self {
        Self { step, write_back: None, complaints: Vec::new() }
    }
}

/// Ends a run as its worker wants, unless it was asked to stop meanwhile. The answers that it was handed are
/// consumed, unless the work is to be done again.
pub fn settle(
    session: &Session,
    settle: Settle,
    attempts_max: u32,
    now: Timestamp,
    ids: &dyn IdSource,
) -> Result<RunEnd> {
    let again = matches!(settle, Settle::Fail { .. });
    let ended = end(session, settle, attempts_max, now, ids)?;
    let done_again = again && ended.step.update.status == Some(Status::Pending);
    if done_again { Ok(ended) } else { cross_out_answers(session, ended) }
}

fn cross_out_answers(session: &Session, mut ended: RunEnd) -> Result<RunEnd> {
    if ended.complaints.is_empty() {
        let update = &mut ended.step.update;
        let mut run = update.run.as_ref().and_then(|run| run.read().ok()).unwrap_or_else(|| Run::of(session));
        if run.consume(session.head.epoch) {
            update.run = Some(run.to_json()?);
        }
    }
    Ok(ended)
}

/// Ends a run whose result may not be written to the entities that it names: like one whose result does not fit.
pub fn unwritable(session: &Session, ended: &RunEnd, complaints: Vec<String>) -> Result<RunEnd> {
    let run = Run { resume: None, ..Run::of(session) };
    let mut refused = unfit(session, run, complaints)?;
    refused.step.update.usage.clone_from(&ended.step.update.usage);
    cross_out_answers(session, refused)
}

fn end(
    session: &Session,
    settle: Settle,
    attempts_max: u32,
    now: Timestamp,
    ids: &dyn IdSource,
) -> Result<RunEnd> {
    let head = &session.head;
    match settle {
        Settle::Complete { result, text, usage } => {
            for (what, json) in [("result", &result), ("usage", &usage)] {
                if json.as_ref().is_some_and(|json| json.len() > limits::EVENT_BYTES_MAX) {
                    return Err(Error::TooLarge { what, limit: limits::EVENT_BYTES_MAX });
                }
            }
            let message = text.as_deref().map(agent_message).transpose()?;
            let mut ended = if head.is_talk {
                move_to(session, Status::Idle, Authority::ClaimHolder, None)?.into()
            } else {
                complete(session, result.as_ref(), text.as_deref(), now, ids)?
            };
            if ended.complaints.is_empty() {
                if let Some(message) = message {
                    ended.step.events.insert(0, message);
                }
                ended.step.update.result = result;
            }
            ended.step.update.usage = added_up(session.details.usage.as_ref(), usage)?;
            Ok(ended)
        }
        Settle::Fail { error, retryable, reason, usage } => {
            check_text("error", &error, limits::SENTENCE_CHARS_MAX)?;
            if let Some(reason) = &reason {
                check_name("reason", reason)?;
            }
            let mut step = if head.stop_requested {
                stopped(session, Authority::ClaimHolder)?
            } else {
                let to = if retryable && head.attempts < attempts_max && !head.is_talk {
                    Status::Pending
                } else if head.is_talk {
                    Status::Idle
                } else {
                    Status::Failed
                };
                let code = reason.clone().unwrap_or_else(|| "run_failed".to_owned());
                failed(session, to, reason.as_deref(), &code, error)?
            };
            step.update.usage = added_up(session.details.usage.as_ref(), usage)?;
            Ok(step.into())
        }
        Settle::Yield { pause, usage } => {
            let mut step = if head.stop_requested {
                stopped(session, Authority::ClaimHolder)?
            } else {
                yielded(session, pause, now, ids)?
            };
            step.update.usage = added_up(session.details.usage.as_ref(), usage)?;
            Ok(step.into())
        }
    }
}

/// A run says that it is done: it completes if its contract is kept and no person has to review it first.
fn complete(
    session: &Session,
    result: Option<&Json>,
    text: Option<&str>,
    now: Timestamp,
    ids: &dyn IdSource,
) -> Result<RunEnd> {
    let mut run = Run::of(session);
    let done = |run: Run, write_back: Option<Json>| -> Result<RunEnd> {
        let mut step = move_to(session, Status::Completed, Authority::ClaimHolder, None)?;
        step.events.push(NewEvent::engine(EventType::known("session.completed"), None));
        keep_run(session, run, &mut step)?;
        Ok(RunEnd { step, write_back, complaints: Vec::new() })
    };
    run.resume = None;
    let staged = match &run.output {
        Some(contract) => {
            let complaints = contract.complaints(result, text);
            if !complaints.is_empty() {
                return unfit(session, run, complaints);
            }
            contract.staged(result, text)?
        }
        None if run.asks_before_writing() => match (result, text) {
            (Some(result), _) => result.clone(),
            (None, text) => Json::of(&text)?,
        },
        None => return done(run, None),
    };
    let verdict = evaluate_safety_gate(&staged, &run.criteria);
    if let Some(block) = &verdict.blocked {
        let message = format!("`{}` in `{}` must not be written", block.option, block.dimension);
        let mut step = failed(session, Status::Failed, Some("hard_blocked"), "hard_blocked", message)?;
        keep_run(session, run, &mut step)?;
        return Ok(step.into());
    }
    if !run.asks_before_writing() {
        return done(run, Some(staged));
    }
    let verdict = if run.criteria.is_empty() { GateVerdict::default() } else { verdict };
    let question = ApprovalQuestion { kind: approval::ApprovalKind::Output, staged, verdict };
    let mut step = move_to(session, Status::WaitingHuman, Authority::ClaimHolder, Some("approval"))?;
    ask_for(session, run, question, now, ids, &mut step)?;
    Ok(step.into())
}

/// A result that does not fit may be repaired once; then the run fails.
fn unfit(session: &Session, mut run: Run, complaints: Vec<String>) -> Result<RunEnd> {
    let message: String = complaints.join("; ").chars().take(limits::SENTENCE_CHARS_MAX).collect();
    if run.repairs >= limits::REPAIRS_MAX {
        let mut step = failed(session, Status::Failed, Some("output_invalid"), "output_invalid", message)?;
        keep_run(session, run, &mut step)?;
        return Ok(step.into());
    }
    run.repairs += 1;
    let mut step = SessionStep::of(Update { run: Some(run.to_json()?), ..Update::default() });
    step.events.push(error_event("output_invalid", &message)?);
    Ok(RunEnd { step, write_back: None, complaints })
}

fn yielded(session: &Session, pause: Pause, now: Timestamp, ids: &dyn IdSource) -> Result<SessionStep> {
    let mut sealed = None;
    let (to, kind, asked) = match pause {
        Pause::Tool { call } => (Status::AwaitingTool, approval::ApprovalKind::Tool, call),
        Pause::Human { question } => (Status::WaitingHuman, approval::ApprovalKind::Question, question),
        Pause::Elicitation { question, sealed: call } => {
            sealed = Some(call);
            (Status::WaitingHuman, approval::ApprovalKind::Question, Some(question))
        }
        Pause::View { question, answer: None } => {
            (Status::WaitingHuman, approval::ApprovalKind::Question, Some(question))
        }
        Pause::View { question, answer: Some(answer) } => {
            return answered_before(session, question, *answer, now, ids);
        }
        Pause::Idle => return move_to(session, Status::Idle, Authority::ClaimHolder, Some("yielded")),
    };
    let mut step = move_to(session, to, Authority::ClaimHolder, Some("yielded"))?;
    let Some(asked) = asked else { return Ok(step) };
    check_asked(kind, &asked)?;
    let mut run = Run::of(session);
    run.resume = None;
    run.elicitation = sealed;
    if run.assigned_to.is_none() {
        run.assigned_to = session.head.holder.as_ref().map(ToString::to_string);
    }
    let question = ApprovalQuestion { kind, staged: asked, verdict: GateVerdict::default() };
    ask_for(session, run, question, now, ids, &mut step)?;
    Ok(step)
}

/// A run pauses for a view that was answered already: the question is asked and answered at once, and the session is
/// queued again with the answer.
fn answered_before(
    session: &Session,
    question: Json,
    answer: ViewAnswer,
    now: Timestamp,
    ids: &dyn IdSource,
) -> Result<SessionStep> {
    check_asked(approval::ApprovalKind::Question, &question)?;
    let mut step = move_to(session, Status::Pending, Authority::ClaimHolder, Some("answered"))?;
    // The pause counts as no failed attempt.
    step.update.attempts = Some(0);
    let mut run = Run::of(session);
    run.answers.retain(|waiting| waiting.name != answer.name);
    let reply = answer.told()?;
    let question = ApprovalQuestion {
        kind: approval::ApprovalKind::Question,
        staged: question,
        verdict: GateVerdict::default(),
    };
    let (mut asked, event) =
        approval::decide::ask(&session.id, session.details.task_id.as_deref(), &mut run, question, now, ids)?;
    asked.state = approval::ApprovalState::Approved;
    asked.decided_by = Some(answer.respondent.author().into());
    asked.decided_at = Some(now);
    asked.body.edited = Some(reply.clone());
    run.approval_id = None;
    run.resume = Some(Resume {
        reply: Some(reply),
        view_id: Some(answer.view_id),
        ..Resume::after(&asked.id, "answer")
    });
    step.events.insert(0, event);
    step.records.push(Record::AddApproval(Box::new(asked)));
    step.update.run = Some(run.to_json()?);
    Ok(step)
}

/// A call has an id, a name and arguments; a question has a text.
pub(crate) fn check_asked(kind: approval::ApprovalKind, asked: &Json) -> Result<()> {
    if asked.len() > limits::EVENT_BYTES_MAX {
        return Err(Error::TooLarge { what: "tool_call", limit: limits::EVENT_BYTES_MAX });
    }
    let value = asked.value();
    let text = |key: &str| value.get(key).and_then(serde_json::Value::as_str);
    match kind {
        approval::ApprovalKind::Tool => {
            check_name("tool_call.id", text("id").unwrap_or_default())?;
            check_name("tool_call.name", text("name").unwrap_or_default())?;
            if value.get("args").is_some_and(|args| !args.is_object()) {
                return Err(Error::invalid("tool_call.args", "must be an object"));
            }
            let StagedCall { input_schema, description, .. } = StagedCall::of(asked);
            if let Some(description) = description {
                let text: String = description
                    .read()
                    .map_err(|_| Error::invalid("tool_call.tool_description", "must be a text"))?;
                check_text("tool_call.tool_description", &text, limits::DESCRIPTION_CHARS_MAX)?;
            }
            input_schema.map_or(Ok(()), |schema| crate::json_schema::check("tool_call.input_schema", &schema))
        }
        _ => {
            if text("text").is_none_or(|text| text.trim().is_empty()) {
                return Err(Error::invalid("question.text", "must say what is asked"));
            }
            asked
                .fields()
                .iter()
                .find(|(key, _)| key == "schema")
                .map_or(Ok(()), |(_, schema)| crate::json_schema::check("question.schema", schema))
        }
    }
}

/// Adds a question to a step that parks its session.
fn ask_for(
    session: &Session,
    mut run: Run,
    question: ApprovalQuestion,
    now: Timestamp,
    ids: &dyn IdSource,
    step: &mut SessionStep,
) -> Result<()> {
    step.update.deadline = Some(approval::decide::waits_for(question.kind, &run));
    let (approval, event) =
        approval::decide::ask(&session.id, session.details.task_id.as_deref(), &mut run, question, now, ids)?;
    step.events.push(event);
    step.records.push(Record::AddApproval(Box::new(approval)));
    step.update.run = Some(run.to_json()?);
    Ok(())
}

fn keep_run(session: &Session, run: Run, step: &mut SessionStep) -> Result<()> {
    if session.details.run.is_some() {
        step.update.run = Some(run.to_json()?);
    }
    Ok(())
}

fn failed(
    session: &Session,
    to: Status,
    reason: Option<&str>,
    code: &str,
    message: String,
) -> Result<SessionStep> {
    let mut step = move_to(session, to, Authority::ClaimHolder, Some(reason.unwrap_or("failed")))?;
    step.events.insert(0, error_event(code, &message)?);
    if to.is_terminal() {
        step.update.end_reason = reason.map(Into::into);
    }
    step.update.error_message = Some(message.into());
    Ok(step)
}

/// Usage is counted over all runs of a session: numbers add up, anything else is the newest.
fn added_up(before: Option<&Json>, now: Option<Json>) -> Result<Option<Json>> {
    let (Some(before), Some(now)) = (before, &now) else { return Ok(now) };
    let (serde_json::Value::Object(mut sum), serde_json::Value::Object(more)) = (before.value(), now.value())
    else {
        return Ok(Some(now.clone()));
    };
    for (key, value) in more {
        let added = match (sum.get(&key), &value) {
            (Some(old), new) if old.is_u64() && new.is_u64() => {
                old.as_u64().zip(new.as_u64()).map(|(a, b)| a.saturating_add(b).into())
            }
            (Some(old), new) => old.as_f64().zip(new.as_f64()).map(|(a, b)| (a + b).into()),
            (None, _) => None,
        };
        sum.insert(key, added.unwrap_or(value));
    }
    Json::of(&sum).map(Some)
}

/// Handles a lost lease: the run is queued again, or fails after its last attempt. A stop that was asked for
/// meanwhile outlives the lease.
pub fn lapse(session: &Session, attempts_max: u32) -> Result<SessionStep> {
    let head = &session.head;
    if head.is_talk {
        return move_to(session, Status::Idle, Authority::Engine, Some("interrupted"));
    }
    if head.stop_requested {
        return stopped(session, Authority::Sweeper);
    }
    if head.attempts < attempts_max {
        return move_to(session, Status::Pending, Authority::Sweeper, Some("lease_lost"));
    }
    let message = format!("the lease was lost {} times", head.attempts);
    let mut step = move_to(session, Status::Failed, Authority::Sweeper, Some("lease_lost"))?;
    step.events.insert(0, error_event("lease_lost", &message)?);
    step.update.error_message = Some(message.into());
    step.update.end_reason = Some("lease_lost".into());
    Ok(step)
}

/// Stops a session. A worker that holds it is told; otherwise it ends at once. `None` when there is nothing to stop.
pub fn stop(session: &Session, by: Authority) -> Result<Option<SessionStep>> {
    let head = &session.head;
    match head.status {
        Status::Running if head.claim.is_some() => {
            let update = Update { stop_requested: Some(true), ..Update::default() };
            Ok((!head.stop_requested).then_some(SessionStep::of(update)))
        }
        Status::Running | Status::WaitingHuman | Status::AwaitingTool if head.is_talk => {
            move_to(session, Status::Idle, Authority::Engine, Some("stopped")).map(Some)
        }
        Status::Idle if head.is_talk => Ok(None),
        _ => stopped(session, by).map(Some),
    }
}

fn stopped(session: &Session, by: Authority) -> Result<SessionStep> {
    if session.head.is_talk {
        return move_to(session, Status::Idle, Authority::Engine, Some("stopped"));
    }
    let mut step = move_to(session, Status::Abandoned, by, Some("stopped"))?;
    step.update.end_reason = Some("stopped".into());
    Ok(step)
}

pub(crate) fn error_event(code: &str, message: &str) -> Result<NewEvent> {
    let metadata = Json::of(&json!({"code": code, "message": message}))?;
    Ok(NewEvent::engine(EventType::known("session.error"), Some(metadata)))
}

fn agent_message(text: &str) -> Result<NewEvent> {
    if text.contains('\0') {
        return Err(Error::invalid("text", "must not contain NUL"));
    }
    let content = Json::of(&json!([{"type": "text", "text": text}]))?;
    crate::event::payload::check_size(Some(&content), None)?;
    Ok(NewEvent { content: Some(content), ..NewEvent::engine(EventType::known("agent.message"), None) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RandomIds;
    use crate::session::decide::tests::session_in;
    use crate::view::UnreadAnswer;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);

    fn claimed(attempts: u32, stop_requested: bool) -> Session {
        let mut session = session_in(Status::Running);
        session.head.attempts = attempts;
        session.head.stop_requested = stop_requested;
        session.head.claim = Some(Claim {
            worker: "w".into(),
            credential: crate::ids::CredentialId::stored("c"),
            lease_until: Timestamp::from_micros(1),
        });
        session
    }

    #[test]
    fn a_session_that_is_handed_out_says_under_which_epoch() {
        let order = ClaimOrder {
            tenant: crate::ids::TenantId::stored("t"),
            credential: crate::ids::CredentialId::stored("c"),
            worker: "w\"".into(),
            session_types: vec![crate::session::SessionType::Agent],
            agent_slugs: Vec::new(),
            limit: 3,
            lease: std::time::Duration::from_secs(1),
            key: None,
        };
        let now = Timestamp::from_micros(90_000_000);
        let mut hand_out = HandOut::new(&order, now).unwrap();
        for epoch in [0, 0, 4, 0] {
            let before = Session {
                head: Head { epoch, deadline_at: Some(now), ..session_in(Status::Pending).head },
                ..session_in(Status::Pending)
            };
            let mut after = before.clone();
            let mut take = |session: &mut Session| {
                hand_out.take(&session.id, &mut session.head, &mut session.details.started_at).unwrap()
            };
            let taken = take(&mut after);
            let said: Vec<_> =
                taken.events.iter().map(|event| event.metadata.as_ref().unwrap().as_str()).collect();
            let claimed = format!(r#"{{"worker":"w\"","epoch":{}}}"#, epoch + 1);
            assert_eq!(said, [&*claimed, r#"{"from":"pending","to":"running"}"#]);
            assert_eq!(taken.minute, Some(1));
            let mut expected = before;
            expected.details.started_at = Some(now);
            expected.head = Head {
                status: Status::Running,
                version: expected.head.version + 1,
                epoch: epoch + 1,
                attempts: expected.head.attempts + 1,
                deadline_at: None,
                claim: Some(Claim {
                    worker: order.worker.clone(),
                    credential: order.credential.clone(),
                    lease_until: now.plus(order.lease),
                }),
                last_sequence: expected.head.last_sequence + 2,
                last_at: now,
                ..expected.head
            };
            assert_eq!(after, expected);
            let first_start = Timestamp::from_micros(5);
            after.details.started_at = Some(first_start);
            take(&mut after);
            assert_eq!(after.details.started_at, Some(first_start));
        }
    }

    #[test]
    fn a_claim_is_handed_what_came_before_it_and_a_settlement_crosses_that_out() {
        let waiting = |name: &str, epoch| UnreadAnswer { name: name.into(), view_id: "v".into(), epoch };
        let mut session = claimed(1, false);
        session.head.epoch = 3;
        let mut answers = vec![waiting("a", 1), waiting("b", 2), waiting("during", 3)];
        let names = |run: &Run| run.answers.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        let run = Run { answers: answers.clone(), ..Run::default() };
        assert_eq!(run.handed(3).map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        session.details.run = Some(run.to_json().unwrap());
        let fail = |retryable| Settle::Fail { error: "x".into(), retryable, reason: None, usage: None };
        let done = Settle::Complete { result: None, text: None, usage: None };
        let idle = Settle::Yield { pause: Pause::Idle, usage: None };
        let asks = Settle::Yield {
            pause: Pause::Human { question: Some(Json::stored(r#"{"text":"?"}"#)) },
            usage: None,
        };
        for (how, crosses_out) in
            [(done, true), (idle, true), (asks, true), (fail(false), true), (fail(true), false)]
        {
            let ended = settle(&session, how.clone(), 3, NOW, &RandomIds).unwrap();
            let left = ended.step.update.run.map_or_else(|| run.clone(), |run| run.read().unwrap());
            let expected: &[&str] = if crosses_out { &["during"] } else { &["a", "b", "during"] };
            assert_eq!(names(&left), expected, "{how:?}");
        }
        answers.extend((0..limits::ANSWERS_HANDED_MAX).map(|n| waiting(&n.to_string(), 1)));
        let many = Run { answers, ..Run::default() };
        assert_eq!(many.handed(3).count(), limits::ANSWERS_HANDED_MAX);
    }

    #[test]
    fn a_run_ends_where_the_table_says() {
        let fail = |retryable| Settle::Fail { error: "x".into(), retryable, reason: None, usage: None };
        let pause = |pause| Settle::Yield { pause, usage: None };
        let complete = || Settle::Complete { result: None, text: Some("hi".into()), usage: None };
        let table = [
            (1, false, complete(), Status::Completed),
            (1, true, complete(), Status::Completed),
            (1, false, fail(true), Status::Pending),
            (3, false, fail(true), Status::Failed),
            (1, false, fail(false), Status::Failed),
            (1, true, fail(true), Status::Abandoned),
            (1, false, pause(Pause::Tool { call: None }), Status::AwaitingTool),
            (1, false, pause(Pause::Human { question: None }), Status::WaitingHuman),
            (1, false, pause(Pause::Idle), Status::Idle),
            (1, true, pause(Pause::Idle), Status::Abandoned),
        ];
        for (attempts, stop, how, to) in table {
            let step = settle(&claimed(attempts, stop), how.clone(), 3, NOW, &RandomIds).unwrap().step;
            assert_eq!(step.update.status, Some(to), "{how:?}");
            assert_eq!(step.update.claim, Some(crate::store::ClaimChange::Release), "{how:?}");
            assert!(step.events.iter().any(|event| event.kind.as_str() == "session.status_change"));
        }
    }

    #[test]
    fn the_log_names_the_typed_reason_of_a_failure() {
        for (reason, code) in [(Some("model_refused"), "model_refused"), (None, "run_failed")] {
            let how = Settle::Fail {
                error: "x".into(),
                retryable: false,
                reason: reason.map(str::to_owned),
                usage: None,
            };
            let step = settle(&claimed(1, false), how, 3, NOW, &RandomIds).unwrap().step;
            let error = step.events.iter().find(|event| event.kind.as_str() == "session.error").unwrap();
            assert_eq!(error.metadata.as_ref().unwrap().value()["code"], code);
        }
    }

    #[test]
    fn a_success_takes_the_error_of_an_earlier_attempt_away() {
        let mut session = claimed(2, false);
        session.details.error_message = Some("the connection ended".into());
        let done = Settle::Complete { result: None, text: None, usage: None };
        let update = settle(&session, done, 3, NOW, &RandomIds).unwrap().step.update;
        assert_eq!((update.status, update.error_message.as_deref()), (Some(Status::Completed), Some("")));
    }

    #[test]
    fn a_lost_lease_queues_the_run_again_until_its_last_attempt() {
        for (attempts, stop, to) in [
            (1, false, Status::Pending),
            (2, false, Status::Pending),
            (3, false, Status::Failed),
            (1, true, Status::Abandoned),
        ] {
            let update = lapse(&claimed(attempts, stop), 3).unwrap().update;
            assert_eq!(update.status, Some(to));
            if to == Status::Failed {
                assert_eq!(update.end_reason.as_deref(), Some("lease_lost"));
            }
        }
    }

    #[test]
    fn a_stop_is_told_to_the_worker_and_ends_what_nobody_runs() {
        let step = stop(&claimed(1, false), Authority::Owner).unwrap().unwrap();
        assert_eq!((step.update.stop_requested, step.update.status), (Some(true), None));
        assert!(stop(&claimed(1, true), Authority::Owner).unwrap().is_none());
        let step = stop(&session_in(Status::Pending), Authority::Owner).unwrap().unwrap();
        assert_eq!(step.update.status, Some(Status::Abandoned));
        assert!(stop(&session_in(Status::Completed), Authority::Owner).is_err());
    }
}
