//! One run of a story: its number filled in, as sessions and events.

use sederunt::{DraftEvent, Json, OpenSession, Result, Session, SessionType, Settle, Status};
use serde_json::{Value, json};

use super::stories::{ROUNDS, Step, Story};

/// A story with its number.
#[derive(Debug)]
pub struct NumberedStory<'a> {
    story: &'a Story,
    number: u64,
}

impl Story {
    pub fn told(&self, number: u64) -> NumberedStory<'_> {
        NumberedStory { story: self, number }
    }
}

impl NumberedStory<'static> {
    /// The story of a claimed session.
    pub fn of(session: &Session) -> Option<Self> {
        let number = session.details.input.as_ref()?.value()["number"].as_u64()?;
        let title = session.details.title.as_deref()?;
        ROUNDS.iter().map(|story| story.told(number)).find(|told| told.title() == title)
    }
}

impl NumberedStory<'_> {
    pub fn title(&self) -> String {
        filled(self.story.title, self.number)
    }

    /// A piece of work whose input names its story.
    pub fn work(&self, agent: &str) -> Result<OpenSession> {
        let title = self.title();
        let input = Json::of(&json!({ "task": title, "number": self.number }))?;
        Ok(OpenSession { input: Some(input), ..work(&title, agent)? })
    }

    pub fn events(&self) -> Result<Vec<DraftEvent>> {
        self.story.steps.iter().map(|step| event(*step, self.number)).collect()
    }

    pub fn complete(&self) -> Result<Settle> {
        Ok(Settle::Complete {
            result: Some(Json::of(&json!({ "summary": filled(self.story.result, self.number) }))?),
            text: None,
            usage: Some(usage(self.story.tokens)?),
        })
    }
}

/// What a run used: tokens read and written, and what they cost at 3 and 15 a million.
pub fn usage((input, output): (u32, u32)) -> Result<Json> {
    let cost = 3 * u64::from(input) + 15 * u64::from(output);
    Json::of(&json!({ "input_tokens": input, "output_tokens": output, "cost_micros": cost }))
}

/// A piece of work that waits for an agent.
pub fn work(title: &str, agent: &str) -> Result<OpenSession> {
    Ok(OpenSession {
        session_type: Some(SessionType::Agent),
        status: Some(Status::Pending),
        agent_slug: Some(agent.to_owned()),
        title: Some(title.to_owned()),
        input: Some(Json::of(&json!({ "task": title }))?),
        ..OpenSession::default()
    })
}

pub fn event(step: Step, number: u64) -> Result<DraftEvent> {
    let (kind, text, metadata): (_, _, Option<Value>) = match step {
        Step::Thinks(text) => ("agent.thinking", text, None),
        Step::Says(text) => ("agent.message", text, None),
        Step::Asks(text) => ("user.message", text, None),
        Step::Calls { id, tool, text } => {
            ("agent.tool_call", text, Some(json!({ "tool_call_id": id, "tool_name": tool })))
        }
        Step::Gets { id, tool, text } => {
            ("agent.tool_result", text, Some(json!({ "tool_call_id": id, "tool_name": tool })))
        }
    };
    Ok(DraftEvent {
        kind: kind.into(),
        content: Some(Json::of(&filled(text, number))?),
        metadata: metadata.as_ref().map(Json::of).transpose()?,
        ..DraftEvent::default()
    })
}

fn filled(text: &str, number: u64) -> String {
    text.replace("{n}", &number.to_string())
}
