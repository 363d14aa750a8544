//! How work moves: taking it, ending a run, losing a lease, being told to stop. All pure.

use std::sync::Arc;

use serde_json::json;

use super::{ClaimOrder, Pause, Settle};
use crate::error::{Error, Result};
use crate::event::{Appended, Event, EventType, NewEvent, advance};
use crate::ids::check_text;
use crate::json::Json;
use crate::limits;
use crate::session::decide::{Step, move_to, status_change};
use crate::session::row::Claim;
use crate::session::status::Authority;
use crate::session::{Session, Status};
use crate::store::Update;
use crate::time::Timestamp;

/// Hands pending sessions to one worker. What is the same for all of them is made once.
#[derive(Debug)]
pub struct HandOut<'a> {
    order: &'a ClaimOrder,
    now: Timestamp,
    moved: NewEvent,
    /// Sessions of one claim mostly get the same epoch, and then their events say the same.
    claimed: Option<(u64, NewEvent)>,
}

/// What became of a session beside its row.
#[derive(Debug)]
pub struct Taken {
    pub events: Vec<Arc<Event>>,
    /// The minute of activity, where it is another one.
    pub minute: Option<i64>,
}

impl<'a> HandOut<'a> {
    pub fn new(order: &'a ClaimOrder, now: Timestamp) -> Result<Self> {
        Ok(Self { order, now, moved: status_change(Status::Pending, Status::Running, None)?, claimed: None })
    }

    /// A new epoch, a lease, one more attempt, and what the log says of it. Beyond that, a claim moves the last
    /// sequence and its time and nothing else of the row: stores write no more.
    pub fn take(&mut self, session: &mut Session) -> Result<Taken> {
        let head = &mut session.head;
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
        session.details.started_at.get_or_insert(self.now);
        let events = vec![self.claimed(session.head.epoch)?, self.moved.clone()];
        let (appended, cold) = advance(&session.id, &mut session.head, events, self.now, |_| None);
        let events = appended
            .into_iter()
            .filter_map(|slot| match slot {
                Appended::New(event) => Some(event),
                Appended::Repeat(_) => None,
            })
            .collect();
        Ok(Taken { events, minute: cold.minute })
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

/// Ends a run as its worker wants, within what was asked of it meanwhile.
pub fn settle(session: &Session, settle: Settle, attempts_max: u32) -> Result<Step> {
    let head = &session.head;
    match settle {
        Settle::Complete { result, text, usage } => {
            for (what, json) in [("result", &result), ("usage", &usage)] {
                if json.as_ref().is_some_and(|json| json.len() > limits::EVENT_BYTES_MAX) {
                    return Err(Error::TooLarge { what, limit: limits::EVENT_BYTES_MAX });
                }
            }
            let to = if head.is_talk { Status::Idle } else { Status::Completed };
            let mut step = move_to(session, to, Authority::ClaimHolder, None)?;
            if let Some(text) = text {
                step.events.insert(0, agent_message(&text)?);
            }
            if to == Status::Completed {
                step.events.push(NewEvent::engine(EventType::known("session.completed"), None));
            }
            step.update.result = result;
            step.update.usage = usage;
            Ok(step)
        }
        Settle::Fail { error, retryable } => {
            check_text("error", &error, limits::SENTENCE_CHARS_MAX)?;
            if head.stop_requested {
                return stopped(session, Authority::ClaimHolder);
            }
            let to = if retryable && head.attempts < attempts_max && !head.is_talk {
                Status::Pending
            } else if head.is_talk {
                Status::Idle
            } else {
                Status::Failed
            };
            let mut step = move_to(session, to, Authority::ClaimHolder, Some("failed"))?;
            step.events.insert(0, error_event("run_failed", &error)?);
            step.update.error_message = Some(error.into());
            Ok(step)
        }
        Settle::Yield { pause } => {
            if head.stop_requested {
                return stopped(session, Authority::ClaimHolder);
            }
            let (to, key, value) = match pause {
                Pause::Tool { call } => (Status::AwaitingTool, "tool_call", call),
                Pause::Human { question } => (Status::WaitingHuman, "question", question),
                Pause::Idle => (Status::Idle, "", None),
            };
            let mut step = move_to(session, to, Authority::ClaimHolder, Some("yielded"))?;
            if let (Some(value), Some(event)) = (value, step.events.last_mut()) {
                let mut metadata = event.metadata.as_ref().map(Json::value).unwrap_or_default();
                metadata[key] = value.value();
                event.metadata = Some(Json::of(&metadata)?);
                crate::event::payload::check_size(None, event.metadata.as_ref())?;
            }
            Ok(step)
        }
    }
}

/// A lease was lost: the run is queued again, or given up after its last attempt. A stop that was
/// asked for meanwhile outlives the lease.
pub fn lapse(session: &Session, attempts_max: u32) -> Result<Step> {
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
    Ok(step)
}

/// Somebody asked a session to stop. A worker is told; what nobody runs ends at once. `None` when
/// there is nothing to stop.
pub fn stop(session: &Session, by: Authority) -> Result<Option<Step>> {
    let head = &session.head;
    match head.status {
        Status::Running if head.claim.is_some() => {
            let update = Update { stop_requested: Some(true), ..Update::default() };
            Ok((!head.stop_requested).then_some(Step { update, events: Vec::new() }))
        }
        Status::Running | Status::WaitingHuman | Status::AwaitingTool if head.is_talk => {
            move_to(session, Status::Idle, Authority::Engine, Some("stopped"))
                .or_else(|_| move_to(session, Status::Idle, Authority::Sweeper, Some("stopped")))
                .map(Some)
        }
        Status::Idle if head.is_talk => Ok(None),
        _ => stopped(session, by).map(Some),
    }
}

fn stopped(session: &Session, by: Authority) -> Result<Step> {
    if session.head.is_talk {
        return move_to(session, Status::Idle, Authority::Engine, Some("stopped"));
    }
    let mut step = move_to(session, Status::Abandoned, by, Some("stopped"))?;
    step.update.end_reason = Some("stopped".into());
    Ok(step)
}

fn error_event(code: &str, message: &str) -> Result<NewEvent> {
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
    use crate::session::Head;
    use crate::session::decide::tests::session_in;

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
            let taken = hand_out.take(&mut after).unwrap();
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
            hand_out.take(&mut after).unwrap();
            assert_eq!(after.details.started_at, Some(first_start));
        }
    }

    #[test]
    fn a_run_ends_where_the_table_says() {
        let fail = |retryable| Settle::Fail { error: "x".into(), retryable };
        let pause = |pause| Settle::Yield { pause };
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
            let step = settle(&claimed(attempts, stop), how.clone(), 3).unwrap();
            assert_eq!(step.update.status, Some(to), "{how:?}");
            assert_eq!(step.update.claim, Some(crate::store::ClaimChange::Release), "{how:?}");
            assert!(step.events.iter().any(|event| event.kind.as_str() == "session.status_change"));
        }
    }

    #[test]
    fn a_lost_lease_queues_the_run_again_until_its_last_attempt() {
        for (attempts, stop, to) in [
            (1, false, Status::Pending),
            (2, false, Status::Pending),
            (3, false, Status::Failed),
            (1, true, Status::Abandoned),
        ] {
            assert_eq!(lapse(&claimed(attempts, stop), 3).unwrap().update.status, Some(to));
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
