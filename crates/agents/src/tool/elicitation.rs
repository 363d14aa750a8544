//! What a called server asks a person before it goes on with a call (elicitation): the forms, the answers, and a call that
//! waits for them. Pure; `mcp` speaks the protocol, and the callers of tools put the forms before people.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use sederunt_core::json::Json;
use sederunt_core::work::run::Resume;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Error, ToolCall};
use crate::limits;

/// One form that a server wants filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputForm {
    /// The server's name for it in this call.
    pub key: String,
    pub message: String,
    pub schema: Json,
}

impl InputForm {
    /// A form that is not larger than a person's inbox shows.
    pub fn bounded(key: String, message: String, schema: Json) -> Result<Self, Error> {
        if key.len() + message.len() + schema.len() > limits::INPUT_FORM_BYTES_MAX {
            return Err(Error::InputTooLarge { limit: limits::INPUT_FORM_BYTES_MAX });
        }
        let message = match message.trim().is_empty() {
            true => "The tool asks for input.".to_owned(),
            false => message.replace('\0', "\u{fffd}"),
        };
        Ok(Self { key, message, schema })
    }

    /// The question to a person.
    pub fn question(&self, tool: &str) -> Result<Json, sederunt_core::Error> {
        let (text, tool) = (Json::of(&self.message)?, Json::of(&tool)?);
        Ok(Json::object([("text", &text), ("schema", &self.schema), ("tool", &tool)]))
    }
}

/// What a person said to a form.
#[derive(Clone, Debug, PartialEq)]
pub enum InputAnswer {
    Accept(Json),
    Decline,
    Cancel,
}

impl InputAnswer {
    /// What a run was resumed with.
    pub fn of(resume: &Resume) -> Self {
        match (resume.decision.as_str(), &resume.reply) {
            ("answer", Some(reply)) => Self::Accept(reply.clone()),
            ("cancel", _) => Self::Cancel,
            _ => Self::Decline,
        }
    }

    /// The answer as the protocol has it.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Accept(content) => json!({"action": "accept", "content": content.value()}),
            Self::Decline => json!({"action": "decline"}),
            Self::Cancel => json!({"action": "cancel"}),
        }
    }
}

/// A server's answer to a call: it needs input first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequest {
    /// At least one.
    pub forms: Vec<InputForm>,
    /// Answers that no person has to give.
    pub responses: BTreeMap<String, Value>,
    /// What the server wants back as it is.
    pub state: Option<String>,
    /// How often the server has asked in this call.
    pub rounds: u32,
}

/// The input with which a call is made again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallInput {
    pub responses: BTreeMap<String, Value>,
    pub state: Option<String>,
    pub rounds: u32,
}

impl InputRequest {
    /// The input of a call that has no person to ask.
    pub fn declined(self) -> CallInput {
        let Self { forms, mut responses, state, rounds } = self;
        responses.extend(forms.into_iter().map(|form| (form.key, InputAnswer::Decline.to_value())));
        CallInput { responses, state, rounds }
    }
}

/// A call that waits for a person, as it is sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParkedCall {
    /// The call's id; of an agent's call also its sequence in the log.
    pub call_id: String,
    pub sequence: u64,
    pub tool: String,
    pub args: Json,
    /// A person has approved this call with these arguments.
    pub confirmed: bool,
    /// The forms that have no answer, the one that is asked first.
    pub forms: Vec<InputForm>,
    pub responses: BTreeMap<String, Value>,
    pub state: Option<String>,
    pub rounds: u32,
}

/// What follows a person's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum AfterAnswer {
    /// The next form of the same request is asked.
    Ask(ParkedCall),
    /// The call is made again.
    Call(ParkedCall, CallInput),
}

impl ParkedCall {
    pub fn new(call: &ToolCall, sequence: u64, confirmed: bool, asked: InputRequest) -> Self {
        let InputRequest { forms, responses, state, rounds } = asked;
        let ToolCall { id, name, args } = call.clone();
        Self { call_id: id, sequence, tool: name, args, confirmed, forms, responses, state, rounds }
    }

    /// The question to a person.
    pub fn question(&self) -> Result<Json, sederunt_core::Error> {
        let form = self.forms.first();
        form.ok_or_else(|| sederunt_core::Error::internal("a call waits for nothing"))?.question(&self.tool)
    }

    /// Takes the answer to the form that was asked. A person who cancels is asked none of the others.
    #[must_use]
    pub fn answered(mut self, answer: &InputAnswer) -> AfterAnswer {
        let form = self.forms.remove(0);
        self.responses.insert(form.key, answer.to_value());
        if *answer == InputAnswer::Cancel {
            let rest = self.forms.drain(..).map(|form| (form.key, InputAnswer::Cancel.to_value()));
            self.responses.extend(rest);
        }
        if !self.forms.is_empty() {
            return AfterAnswer::Ask(self);
        }
        let input = CallInput {
            responses: std::mem::take(&mut self.responses),
            state: self.state.take(),
            rounds: self.rounds,
        };
        AfterAnswer::Call(self, input)
    }
}

/// Puts a form before a person while the call goes on.
pub trait InputAsker: Send + Sync + std::fmt::Debug {
    /// The answer, which is given before `until`; without one the form is declined. `ended` is ready when nothing waits
    /// for the answer any more.
    fn ask<'a>(
        &'a self,
        form: &'a InputForm,
        tool: &'a str,
        until: Instant,
        ended: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, InputAnswer>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(key: &str) -> InputForm {
        InputForm::bounded(key.to_owned(), "Which?".to_owned(), Json::empty_object()).unwrap()
    }

    fn parked(keys: &[&str]) -> ParkedCall {
        let call = ToolCall { id: "c".to_owned(), name: "t".to_owned(), args: Json::empty_object() };
        let asked = InputRequest {
            forms: keys.iter().map(|key| form(key)).collect(),
            responses: BTreeMap::new(),
            state: Some("s".to_owned()),
            rounds: 2,
        };
        ParkedCall::new(&call, 7, false, asked)
    }

    #[test]
    fn forms_are_asked_one_after_the_other_and_sent_together() {
        let yes = InputAnswer::Accept(Json::stored(r#"{"n":1}"#));
        let AfterAnswer::Ask(next) = parked(&["a", "b"]).answered(&yes) else { panic!("b was not asked") };
        assert_eq!(next.forms, [form("b")]);
        let AfterAnswer::Call(_, input) = next.answered(&InputAnswer::Decline) else { panic!("asked again") };
        assert_eq!((input.state.as_deref(), input.rounds), (Some("s"), 2));
        assert_eq!(
            json!(input.responses),
            json!({"a": {"action": "accept", "content": {"n": 1}}, "b": {"action": "decline"}})
        );
    }

    #[test]
    fn who_cancels_is_asked_nothing_more() {
        let AfterAnswer::Call(_, input) = parked(&["a", "b"]).answered(&InputAnswer::Cancel) else {
            panic!("asked again")
        };
        assert_eq!(json!(input.responses), json!({"a": {"action": "cancel"}, "b": {"action": "cancel"}}));
    }

    #[test]
    fn a_form_meets_its_limit_and_is_refused_one_past() {
        let sized =
            |bytes: usize| InputForm::bounded(String::new(), "x".repeat(bytes - 2), Json::empty_object());
        assert!(sized(limits::INPUT_FORM_BYTES_MAX).is_ok());
        let refused = sized(limits::INPUT_FORM_BYTES_MAX + 1);
        assert_eq!(refused, Err(Error::InputTooLarge { limit: limits::INPUT_FORM_BYTES_MAX }));
    }
}
