//! Decides on a submitted answer. Pure.

use super::{View, answer, respondent::Respondent};
use crate::approval::decide::{self as approvals, DecisionEffects};
use crate::approval::{Approval, ApprovalKind, ApprovalState};
use crate::definitions::StoredDefinition;
use crate::error::{Conflict, Result};
use crate::json::Json;
use crate::limits;
use crate::session::decide::SessionStep;
use crate::session::{Session, Status};
use crate::store::{Record, Update};
use crate::time::Timestamp;
use crate::view::answer::UnreadAnswer;
use crate::work::run::Run;

/// The outcome of a submit.
#[derive(Debug)]
pub enum SubmitOutcome {
    /// The same respondent gave the same answer before; nothing changes.
    Stands,
    Taken(Box<AnswerEffects>),
}

/// An accepted answer.
#[derive(Debug)]
pub struct AnswerEffects {
    pub step: SessionStep,
    /// Closes the question that it answers.
    pub record: Option<Record>,
}

/// A submitted answer.
#[derive(Clone, Copy, Debug)]
pub struct SubmitRequest<'a> {
    pub respondent: &'a Respondent,
    /// The name of this respondent's answer in the log.
    pub name: &'a str,
    pub values: &'a Json,
    /// The same respondent's earlier answer.
    pub before: Option<&'a Json>,
}

/// Takes an answer. A session that waits for this view goes on with it; otherwise it is kept until the next claim.
pub fn submit(
    view: &StoredDefinition<View>,
    session: &Session,
    asked: Option<&Approval>,
    submit: SubmitRequest<'_>,
    now: Timestamp,
) -> Result<SubmitOutcome> {
    let SubmitRequest { respondent, name, values, before } = submit;
    match before {
        Some(said) if said.value() == values.value() => return Ok(SubmitOutcome::Stands),
        Some(_) => return Err(Conflict::AlreadyAnswered.into()),
        None => {}
    }
    check_open(&view.value, session, now)?;
    answer::check(&view.value.questions, values)?;
    let event = answer::event(&view.id, respondent, name, values)?;
    let waits = session.head.status == Status::WaitingHuman;
    if let Some(asked) = asked.filter(|asked| waits && asks(asked, &view.id, now)) {
        let reply = answer::told(&view.id, respondent, values)?;
        let DecisionEffects { step, record, .. } =
            approvals::answered(session, asked, &view.id, &respondent.author(), reply, event)?;
        return Ok(SubmitOutcome::Taken(Box::new(AnswerEffects { step, record: Some(record) })));
    }
    let mut run = Run::of(session);
    if run.answers.len() >= limits::ANSWERS_WAITING_MAX {
        return Err(Conflict::ViewFull.into());
    }
    run.answers.push(UnreadAnswer {
        name: name.to_owned(),
        view_id: view.id.to_string(),
        epoch: session.head.epoch,
    });
    let mut step = SessionStep::of(Update { run: Some(run.to_json()?), ..Update::default() });
    step.events.push(event);
    Ok(SubmitOutcome::Taken(Box::new(AnswerEffects { step, record: None })))
}

/// A view takes answers from its publication until it expires or its session ends.
pub fn check_open(view: &View, session: &Session, now: Timestamp) -> Result<()> {
    let expired = view.publish_config.expires_at.is_some_and(|end| end <= now);
    if expired || session.head.status.is_terminal() {
        return Err(Conflict::ViewClosed.into());
    }
    Ok(())
}

/// Whether a question waits for the answer to this view.
fn asks(asked: &Approval, view_id: &str, now: Timestamp) -> bool {
    asked.kind == ApprovalKind::Question
        && asked.state == ApprovalState::Pending
        && asked.expires_at.is_none_or(|end| end > now)
        && asked.view_id().as_deref() == Some(view_id)
}

#[cfg(test)]
mod tests {
    use super::super::tests::view;
    use super::*;
    use crate::approval::ApprovalBody;
    use crate::error::Error;
    use crate::ids::SessionId;
    use crate::session::decide::tests::session_in;
    use crate::view::respondent::RespondentKind;

    const NOW: Timestamp = Timestamp::from_micros(1_000);

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn defined() -> StoredDefinition<View> {
        let mut value = view(r#"[{"key":"a","label":"A"}]"#);
        value.session_id = Some("s".into());
        StoredDefinition {
            id: "v".into(),
            value,
            version: 1,
            created_by: None,
            created_at: NOW,
            updated_at: NOW,
        }
    }

    /// A session that a worker has claimed before.
    fn started(status: Status) -> Session {
        let mut session = session_in(status);
        session.head.epoch = 1;
        session
    }

    fn question(session: &Session, view_id: &str) -> Approval {
        let staged = json(&format!(r#"{{"text":"T","view_id":"{view_id}"}}"#));
        Approval {
            id: "q".into(),
            kind: ApprovalKind::Question,
            session: SessionId::stored(session.id.as_str()),
            task_id: None,
            state: ApprovalState::Pending,
            assigned_to: None,
            expires_at: Some(Timestamp::from_micros(2_000)),
            created_at: NOW,
            decided_by: None,
            decided_at: None,
            body: ApprovalBody { staged: Some(staged), ..ApprovalBody::default() },
        }
    }

    fn decide(
        view: &StoredDefinition<View>,
        session: &Session,
        asked: Option<&Approval>,
        values: &str,
        before: Option<&str>,
    ) -> Result<SubmitOutcome> {
        let (values, before) = (json(values), before.map(json));
        let respondent = Respondent { kind: RespondentKind::User, id: "ada".into() };
        let wish = SubmitRequest {
            respondent: &respondent,
            name: "view:1",
            values: &values,
            before: before.as_ref(),
        };
        submit(view, session, asked, wish, NOW)
    }

    /// The resulting status of the session, whether a question closes, and how many answers wait.
    fn taken(outcome: Result<SubmitOutcome>) -> (Option<Status>, bool, usize) {
        match outcome.unwrap() {
            SubmitOutcome::Taken(taken) => {
                let run: Run = taken.step.update.run.as_ref().unwrap().read().unwrap();
                (taken.step.update.status, taken.record.is_some(), run.answers.len())
            }
            SubmitOutcome::Stands => panic!("it stands"),
        }
    }

    #[test]
    fn an_answer_resumes_whoever_waits_for_it_and_waits_for_anybody_else() {
        let view = defined();
        for (status, asked, resumes) in [
            (Status::WaitingHuman, Some("v"), true),
            (Status::WaitingHuman, Some("w"), false),
            (Status::WaitingHuman, None, false),
            (Status::Running, None, false),
            (Status::Pending, None, false),
            (Status::AwaitingTool, None, false),
            (Status::Idle, None, false),
        ] {
            let session = started(status);
            let asked = asked.map(|id| question(&session, id));
            let expected = if resumes { (Some(Status::Pending), true, 0) } else { (None, false, 1) };
            assert_eq!(taken(decide(&view, &session, asked.as_ref(), "{}", None)), expected, "{status}");
        }
        let session = started(Status::WaitingHuman);
        let late = Approval { expires_at: Some(NOW), ..question(&session, "v") };
        assert_eq!(taken(decide(&view, &session, Some(&late), "{}", None)), (None, false, 1));
        let decided = Approval { state: ApprovalState::Denied, ..question(&session, "v") };
        assert_eq!(taken(decide(&view, &session, Some(&decided), "{}", None)), (None, false, 1));
    }

    #[test]
    fn a_respondent_answers_once() {
        let session = session_in(Status::Running);
        let before = Some(r#"{"a":"x"}"#);
        assert!(matches!(
            decide(&defined(), &session, None, r#"{ "a": "x" }"#, before),
            Ok(SubmitOutcome::Stands)
        ));
        match decide(&defined(), &session, None, r#"{"a":"y"}"#, before) {
            Err(Error::Conflict(Conflict::AlreadyAnswered)) => {}
            other => panic!("{other:?}"),
        }
        let ended = session_in(Status::Completed);
        assert!(matches!(
            decide(&defined(), &ended, None, r#"{"a":"x"}"#, before),
            Ok(SubmitOutcome::Stands)
        ));
    }

    #[test]
    fn a_view_closes_with_its_time_and_with_its_session() {
        for status in [Status::Completed, Status::Failed, Status::Expired, Status::Abandoned] {
            match decide(&defined(), &session_in(status), None, "{}", None) {
                Err(Error::Conflict(Conflict::ViewClosed)) => {}
                other => panic!("{status}: {other:?}"),
            }
        }
        let mut view = defined();
        for (end, open) in [(1_001, true), (1_000, false)] {
            view.value.publish_config.expires_at = Some(Timestamp::from_micros(end));
            assert_eq!(decide(&view, &session_in(Status::Running), None, "{}", None).is_ok(), open, "{end}");
        }
    }

    #[test]
    fn no_more_answers_wait_than_a_run_can_carry() {
        let mut session = session_in(Status::Running);
        let waiting = |count: usize| Run {
            answers: (0..count)
                .map(|n| UnreadAnswer { name: n.to_string(), view_id: "v".into(), epoch: 1 })
                .collect(),
            ..Run::default()
        };
        session.details.run = Some(waiting(limits::ANSWERS_WAITING_MAX - 1).to_json().unwrap());
        assert!(decide(&defined(), &session, None, "{}", None).is_ok());
        session.details.run = Some(waiting(limits::ANSWERS_WAITING_MAX).to_json().unwrap());
        assert!(matches!(
            decide(&defined(), &session, None, "{}", None),
            Err(Error::Conflict(Conflict::ViewFull))
        ));
    }
}
