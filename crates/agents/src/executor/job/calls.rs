//! The tool calls of a run: made, put before a person, or answered as a person decided.

use sederunt_core::Error;
use sederunt_core::json::Json;
use sederunt_core::work::run::Resume;
use sederunt_core::work::{Pause, Settle};

use super::ends::with_usage;
use super::people::{self, PeopleRequest};
use super::{Job, RunHalt, RunResult, RunState};
use crate::steps::calls::{CallAnswer, CallOutcome, is_about};
use crate::steps::replay::OpenCall;
use crate::tool::elicitation::{InputAnswer, ParkedCall};

impl Job {
    /// Handles the calls that the log leaves open: one that a person decided on is carried out or refused as decided,
    /// one that was begun has an unknown outcome, and any other is made now.
    pub(super) async fn close_open(&self, work: &mut RunState, open: Vec<OpenCall>) -> RunResult<()> {
        // A decision is about one call, even if a model has given two of them the same id.
        let mut resume = work.brief.run.resume.clone();
        let mut parked = self.parked_call(&mut resume).await?;
        for open in open {
            if let Some((call, answer)) = parked.take_if(|(call, _)| call.sequence == open.sequence)
                && !open.begun
            {
                let came = self.calls(work).go_on(&open, call, &answer).await?;
                self.take(work, came).await?;
                continue;
            }
            let decided = resume.take_if(|resume| self.decides(work, resume, &open));
            // Nothing is begun before it is approved: what was begun since may have acted, and is not made again.
            let decided = decided.filter(|decided| !(open.begun && decided.decision == "approve"));
            if decided.is_none() && !open.begun {
                self.call(work, &open).await?;
            } else {
                let came = self.calls(work).take_up(&open, decided.as_ref()).await?;
                self.take(work, came).await?;
            }
        }
        Ok(())
    }

    /// The call that waited for a person's input, and the answer, taken out of what the run is resumed with.
    async fn parked_call(&self, resume: &mut Option<Resume>) -> RunResult<Option<(ParkedCall, InputAnswer)>> {
        let Some(resume) = resume.take_if(|resume| resume.elicitation.is_some()) else { return Ok(None) };
        let sealed = resume.elicitation.as_deref().unwrap_or_default();
        let opened = self.claim.engine.open_call(&self.claimed.session, sealed).await?;
        let call = opened.read::<ParkedCall>().map_err(Error::internal)?;
        Ok(Some((call, InputAnswer::of(&resume))))
    }

    /// Makes a call, or parks the run until a person has decided on it.
    pub(super) async fn call(&self, work: &mut RunState, open: &OpenCall) -> RunResult<()> {
        if let Some(flaw) = &open.flaw {
            return self.answer(work, open, CallAnswer::error(flaw.clone(), "bad_arguments")).await;
        }
        let question = match people::asked(work, &open.call)? {
            None => None,
            Some(PeopleRequest::Question(question)) => Some(question),
            Some(PeopleRequest::Feedback(feedback)) => match self.publish(work, open, *feedback).await? {
                people::PublishOutcome::Question(question) => Some(question),
                people::PublishOutcome::Answer(answer) => return self.answer(work, open, answer).await,
            },
            Some(PeopleRequest::Unfit(why)) => {
                return self.answer(work, open, CallAnswer::error(why, "invalid_arguments")).await;
            }
        };
        if let Some(question) = question {
            let how = Settle::Yield { pause: Pause::Human { question: Some(question) }, usage: None };
            return Err(RunHalt::Settle(with_usage(how, work)));
        }
        let came = self.calls(work).make(open, false, None).await?;
        self.take(work, came).await
    }

    async fn answer(&self, work: &mut RunState, open: &OpenCall, answer: CallAnswer<'_>) -> RunResult<()> {
        let came = self.calls(work).answer(&open.call, answer, false).await?;
        self.take(work, came).await
    }

    /// Adds the outcome of a call to the transcript.
    async fn take(&self, work: &mut RunState, came: CallOutcome) -> RunResult<()> {
        match came {
            CallOutcome::Answered(result) => work.messages.push(result),
            CallOutcome::NeedsLeave { staged, .. } => {
                let how = Settle::Yield { pause: Pause::Tool { call: Some(staged) }, usage: None };
                return Err(RunHalt::Settle(with_usage(how, work)));
            }
            CallOutcome::NeedsInput(parked) => {
                let question = parked.question()?;
                let sealed = self.claim.engine.seal_call(&self.claimed.session, &Json::of(&parked)?).await?;
                let how = Settle::Yield { pause: Pause::Elicitation { question, sealed }, usage: None };
                return Err(RunHalt::Settle(with_usage(how, work)));
            }
        }
        Ok(())
    }

    /// Whether a decision is about this call. An answer goes to the call that asked for it.
    fn decides(&self, work: &RunState, resume: &Resume, open: &OpenCall) -> bool {
        match (&resume.tool_call, &resume.view_id) {
            (Some(_), _) => is_about(resume, &open.call),
            (None, Some(view)) => *view == self.view_id(work, open),
            (None, None) => open.call.name == people::REQUEST_INPUT,
        }
    }

    /// The id of the view that a call publishes: the same on every worker.
    fn view_id(&self, work: &RunState, open: &OpenCall) -> String {
        self.calls(work).idempotency_key(open)
    }

    async fn publish(
        &self,
        work: &RunState,
        open: &OpenCall,
        feedback: people::FeedbackForm,
    ) -> RunResult<people::PublishOutcome> {
        let (claim, id) = (&self.claim, self.view_id(work, open));
        let people::FeedbackForm { view, blocking } = feedback;
        let published =
            claim.engine.publish(&claim.actor, &claim.session, claim.epoch, Some(&id), view, None).await;
        match published {
            Ok(published) => Ok(people::published(&published, blocking, &self.base_url)?),
            Err(error @ (Error::Invalid { .. } | Error::TooLarge { .. })) => {
                Ok(people::PublishOutcome::Answer(CallAnswer::error(error.to_string(), "invalid_arguments")))
            }
            Err(error) => Err(error.into()),
        }
    }
}
