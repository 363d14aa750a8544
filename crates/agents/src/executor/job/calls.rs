//! What becomes of a run's calls: made, put before a person, or answered as a person decided.

use sederunt_core::Error;
use sederunt_core::json::Json;
use sederunt_core::work::run::Resume;
use sederunt_core::work::{Pause, Settle};

use super::ends::with_usage;
use super::{Halt, Job, Step, Work};
use crate::model::{ToolCall, ToolSpec};
use crate::steps::calls::{Came, is_about};
use crate::steps::past::Open;

impl Job {
    /// Deals with calls that the log leaves open: one that a person decided on is carried out or refused as decided,
    /// one that was begun has an unknown outcome, and any other is made now.
    pub(super) async fn close_open(&self, work: &mut Work, open: Vec<Open>) -> Step<()> {
        // A decision is about one call, also where a model has given two of them the same id.
        let mut resume = work.brief.run.resume.clone();
        for open in open {
            let decided = resume.take_if(|resume| decides(resume, &open.call));
            if decided.is_none() && !open.begun {
                self.call(work, &open).await?;
            } else {
                let came = self.calls(work).take_up(&open, decided.as_ref()).await?;
                self.take(work, came)?;
            }
        }
        Ok(())
    }

    /// Makes a call, or parks the run until a person has said something about it.
    pub(super) async fn call(&self, work: &mut Work, open: &Open) -> Step<()> {
        if let Some(question) = asks_a_person(work, &open.call)? {
            let how = Settle::Yield { pause: Pause::Human { question: Some(question) }, usage: None };
            return Err(Halt::Settle(with_usage(how, work)));
        }
        let came = self.calls(work).make(open, false).await?;
        self.take(work, came)
    }

    /// Takes what came of a call into the transcript.
    fn take(&self, work: &mut Work, came: Came) -> Step<()> {
        match came {
            Came::Answered(result) => work.messages.push(result),
            Came::NeedsLeave { staged, .. } => {
                let how = Settle::Yield { pause: Pause::Tool { call: Some(staged) }, usage: None };
                return Err(Halt::Settle(with_usage(how, work)));
            }
        }
        Ok(())
    }
}

/// Whether a decision is about this call. An answer goes to the call that asked for it.
fn decides(resume: &Resume, call: &ToolCall) -> bool {
    match &resume.tool_call {
        Some(_) => is_about(resume, call),
        None => call.name == REQUEST_INPUT,
    }
}

const REQUEST_INPUT: &str = "request_input";

/// A tool of Sederunt's own, as a model is told of it.
pub(super) fn builtin(name: &str) -> Option<ToolSpec> {
    (name == REQUEST_INPUT).then(|| ToolSpec {
        name: REQUEST_INPUT.to_owned(),
        description: "Asks a person a question and waits for the answer.".to_owned(),
        schema: Json::stored(
            r#"{"type":"object","required":["text"],"properties":{"text":{"type":"string","minLength":1},"schema":{"type":"object"}}}"#,
        ),
    })
}

/// The question that a call puts to a person, if it is such a call and the agent may make it.
fn asks_a_person(work: &Work, call: &ToolCall) -> Result<Option<Json>, Error> {
    if call.name != REQUEST_INPUT || !work.specs.iter().any(|spec| spec.name == REQUEST_INPUT) {
        return Ok(None);
    }
    let fields = call.args.fields();
    let asked = fields.iter().find(|(key, _)| key == "text").and_then(|(_, text)| text.read::<String>().ok());
    let text = asked
        .filter(|text| !text.trim().is_empty())
        .unwrap_or_else(|| "The agent asks for input.".to_owned());
    let mut question = vec![("text", Json::of(&text)?)];
    if let Some((_, schema)) = fields.iter().find(|(key, _)| key == "schema")
        && sederunt_core::work::output::check_schema("schema", schema).is_ok()
    {
        question.push(("schema", schema.clone()));
    }
    Ok(Some(Json::object(question.iter().map(|(key, value)| (*key, value)))))
}
