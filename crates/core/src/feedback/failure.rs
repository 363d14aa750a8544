//! The feedback event of a failed run: Sederunt writes it in the commit that fails the run.
//!
//! Owns when one is written and what it says: the task, the agent, the code of the failure, and the sentence that the
//! session shows anyway. It is counted and listed apart from people's feedback, and no lesson is drawn from it: that
//! a run has failed does not say what to do otherwise.

use serde::{Deserialize, Serialize};

use super::capture::{EventBody, FeedbackEvent, FeedbackText, Guardrails, Signal};
use super::secret;
use crate::error::Result;
use crate::event::AppendOutcome;
use crate::limits;
use crate::memory::clip;
use crate::session::decide::SessionStep;
use crate::session::{MemoryMode, Session, Status};
use crate::store::{Change, PartResult, PartTarget};
use crate::time::Timestamp;
use crate::work::decide::error_event;
use crate::work::run::Run;

/// Which run failed, and by what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// `lease_lost`, `denied`, `hard_blocked`, the limit that was reached, or the worker's own code.
    pub code: String,
    pub task_id: String,
    pub task_slug: Option<String>,
    /// The step that failed, for a task with steps.
    pub step: Option<String>,
}

/// The event type that says what went wrong.
const ERROR: &str = "session.error";

/// Settles what a session that fails leaves behind. Its log says why; a run of a task leaves a record too.
pub fn leave(session: &Session, step: &mut SessionStep) -> Result<Option<FeedbackEvent>> {
    if step.update.status != Some(Status::Failed) {
        return Ok(None);
    }
    let code = say_why(step)?;
    let (head, details) = (&session.head, &session.details);
    let Some(task_id) = &details.task_id else { return Ok(None) };
    if head.is_talk || details.memory_mode == MemoryMode::Incognito {
        return Ok(None);
    }
    let run = Run::of(session);
    let failure = Failure {
        code,
        task_id: task_id.to_string(),
        task_slug: run.task_slug,
        step: run.step.map(|step| step.key),
    };
    let agent = details.agent_slug.as_deref().map(str::to_owned);
    let message = step.update.error_message.as_deref().filter(|message| secret::found(message).is_none());
    let words = FeedbackText {
        context: Some(failure.describe(agent.as_deref())),
        what_went_wrong: message.map(|message| clip(message, limits::SENTENCE_CHARS_MAX)),
        ..FeedbackText::default()
    };
    Ok(Some(FeedbackEvent {
        // A session fails once, so a repeated record of the same failure gets the same id.
        id: format!("fb_{}", head.incarnation.0.simple()),
        at: Timestamp::from_micros(0),
        signal: Signal::Down,
        author: None,
        session: Some(session.id.clone()),
        body: EventBody {
            words,
            tags: Vec::new(),
            skill: None,
            failure_type: None,
            related: None,
            history: Vec::new(),
            rubric: Vec::new(),
            guardrails: Guardrails::default(),
            sequences: Vec::new(),
            agent,
            // A worker, and through it a model, may have worded the message.
            trusted: false,
            vague: false,
            failure: Some(failure),
        },
    }))
}

/// The code of the failure; adds the error event if the step has none.
fn say_why(step: &mut SessionStep) -> Result<String> {
    let said = step.events.iter().rfind(|event| event.kind.as_str() == ERROR);
    let said =
        said.and_then(|event| event.metadata.as_ref()?.read::<FailureCause>().ok()).map(|why| why.code);
    let is_said = said.is_some();
    let reason = step.update.end_reason.as_deref().filter(|reason| secret::found(reason).is_none());
    let code = reason.map(str::to_owned).or(said).unwrap_or_else(|| "failed".to_owned());
    if !is_said {
        let message = step.update.error_message.as_deref().unwrap_or("the run failed");
        let at = step.events.iter().position(|event| event.kind.as_str() == "session.status_change");
        let why = error_event(&code, &clip(message, limits::SENTENCE_CHARS_MAX))?;
        step.events.insert(at.unwrap_or(step.events.len()), why);
    }
    Ok(code)
}

#[derive(Deserialize)]
struct FailureCause {
    code: String,
}

impl Failure {
    fn describe(&self, agent: Option<&str>) -> String {
        let mut text =
            format!("{}: task `{}`", self.code, self.task_slug.as_deref().unwrap_or(&self.task_id));
        for (what, name) in [("step", self.step.as_deref()), ("agent", agent)] {
            if let Some(name) = name {
                text.push_str(&format!(", {what} `{name}`"));
            }
        }
        text
    }
}

impl FeedbackEvent {
    /// Fills in what only the commit knows: when it was made, and the sequence of the error event. Both stores call
    /// this before they write the record.
    pub fn land(&mut self, change: &Change, done: &[PartResult], now: Timestamp) {
        if self.body.failure.is_none() {
            return;
        }
        self.at = now;
        let own = change.parts.iter().zip(done).filter(
            |(part, _)| matches!(&part.on, PartTarget::Session(id) if Some(id) == self.session.as_ref()),
        );
        self.body.sequences = own
            .flat_map(|(_, done)| done.appended.iter().rev())
            .find_map(|appended| match appended {
                AppendOutcome::New(event) if event.kind.as_str() == ERROR => Some(event.sequence),
                _ => None,
            })
            .into_iter()
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::decide::move_to;
    use crate::session::decide::tests::session_in;
    use crate::session::status::Authority;

    fn run() -> Session {
        let mut session = session_in(Status::Running);
        session.details.task_id = Some("t-1".into());
        session.details.agent_slug = Some("writer".into());
        let run = Run { task_slug: Some("report".into()), ..Run::default() };
        session.details.run = Some(run.to_json().unwrap());
        session
    }

    fn failing(session: &Session, reason: Option<&str>, message: Option<&str>) -> SessionStep {
        let mut step = move_to(session, Status::Failed, Authority::ClaimHolder, reason).unwrap();
        step.update.end_reason = reason.map(Into::into);
        step.update.error_message = message.map(Into::into);
        step
    }

    fn kinds(step: &SessionStep) -> Vec<&str> {
        step.events.iter().map(|event| event.kind.as_str()).collect()
    }

    #[test]
    fn a_failed_run_leaves_its_code_its_task_its_agent_and_what_the_session_shows() {
        let session = run();
        let mut step = failing(&session, Some("steps"), Some("it took 30 steps"));
        let left = leave(&session, &mut step).unwrap().unwrap();
        assert_eq!((left.signal, left.author.as_ref(), left.body.trusted), (Signal::Down, None, false));
        assert_eq!(left.session.as_ref(), Some(&session.id));
        assert_eq!(left.body.words.context.as_deref(), Some("steps: task `report`, agent `writer`"));
        assert_eq!(left.body.words.what_went_wrong.as_deref(), Some("it took 30 steps"));
        assert_eq!(kinds(&step), ["session.error", "session.status_change"]);
        let again = leave(&session, &mut step).unwrap().unwrap();
        assert_eq!((again, kinds(&step).len()), (left, 2), "the same failure has one name and is said once");
    }

    #[test]
    fn the_code_is_how_it_ended_or_else_what_the_log_says() {
        let session = run();
        for (reason, logged, code) in [
            (Some("denied"), None, "denied"),
            (Some("tokens"), Some("run_failed"), "tokens"),
            (None, Some("lease_lost"), "lease_lost"),
            (None, None, "failed"),
            (Some("password: hunter2hunter2"), Some("run_failed"), "run_failed"),
        ] {
            let mut step = failing(&session, reason, None);
            step.events.splice(0..0, logged.map(|code| error_event(code, "x").unwrap()));
            let left = leave(&session, &mut step).unwrap().unwrap();
            assert_eq!(left.body.failure.unwrap().code, code, "{reason:?} {logged:?}");
        }
    }

    #[test]
    fn a_secret_in_the_message_stays_out_of_the_record() {
        let session = run();
        let mut step = failing(&session, None, Some("login failed with password: hunter2hunter2"));
        let left = leave(&session, &mut step).unwrap().unwrap();
        assert_eq!(left.body.words.what_went_wrong, None);
        assert!(!serde_json::to_string(&left.body).unwrap().contains("hunter2"));
        let mut step = failing(&session, None, Some(&"x".repeat(limits::SENTENCE_CHARS_MAX * 2)));
        let long = leave(&session, &mut step).unwrap().unwrap().body.words.what_went_wrong.unwrap();
        assert!(long.chars().count() <= limits::SENTENCE_CHARS_MAX);
    }

    #[test]
    fn only_runs_of_tasks_that_fail_leave_a_record() {
        let mut step = SessionStep::of(crate::store::Update::default());
        assert_eq!(leave(&run(), &mut step).unwrap(), None);
        for to in [Status::Completed, Status::Abandoned, Status::Expired, Status::Pending] {
            let mut step = SessionStep::of(crate::store::Update { status: Some(to), ..Default::default() });
            assert_eq!((leave(&run(), &mut step).unwrap(), step.events.len()), (None, 0), "{to}");
        }
        let tellings: [fn(&mut Session); 3] = [
            |session| session.details.task_id = None,
            |session| session.details.memory_mode = MemoryMode::Incognito,
            |session| session.head.is_talk = true,
        ];
        for telling in tellings {
            let mut session = run();
            let mut step = failing(&session, None, Some("x"));
            telling(&mut session);
            assert_eq!(leave(&session, &mut step).unwrap(), None);
            assert_eq!(kinds(&step)[0], "session.error", "the log says why in any case");
        }
    }
}
