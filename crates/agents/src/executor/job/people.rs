//! The tools by which a run asks people: a question to the run's assignee, and a view that is published to others.
//! Translates a model's call into the engine's terms. Pure.

use sederunt_core::Error;
use sederunt_core::definitions::{Definition, View};
use sederunt_core::engine::PublishedView;
use sederunt_core::json::Json;
use sederunt_core::strict;
use sederunt_core::view::{PublishConfig, ViewAudience, ViewQuestion};
use serde::Deserialize;
use serde_json::json;

use super::RunState;
use crate::model::{ToolCall, ToolSpec};
use crate::steps::calls::CallAnswer;

pub(super) const REQUEST_INPUT: &str = "request_input";
pub(super) const REQUEST_FEEDBACK: &str = "request_feedback";

/// A built-in tool, as a model is told of it.
pub(super) fn builtin(name: &str) -> Option<ToolSpec> {
    let (name, description, schema) = match name {
        REQUEST_INPUT => (
            REQUEST_INPUT,
            "Asks a person a question and waits for the answer.",
            r#"{"type":"object","required":["text"],"properties":{"text":{"type":"string","minLength":1},"schema":{"type":"object"}}}"#,
        ),
        REQUEST_FEEDBACK => (
            REQUEST_FEEDBACK,
            "Publishes a form that people answer. Waits for the first answer, unless `blocking` is false: then it gives \
             the link to hand on, and answers come later. Gate: `member` lets members of the team answer, `none` \
             everybody who has the link, `lead` everybody who has it and says who they are.",
            r#"{"type":"object","required":["title","questions"],"properties":{"title":{"type":"string","minLength":1},"description":{"type":"string"},"questions":{"type":"array","minItems":1,"maxItems":50,"items":{"type":"object","required":["key","label"],"properties":{"key":{"type":"string"},"label":{"type":"string"},"type":{"enum":["text","choice","multi_choice","number","boolean","date","scale"]},"required":{"type":"boolean"},"help":{"type":"string"},"options":{"type":"array","items":{"type":"object","required":["value"],"properties":{"value":{"type":"string"},"label":{"type":"string"}}}},"min":{"type":"number"},"max":{"type":"number"},"labels":{"type":"object","additionalProperties":{"type":"string"}}}}},"blocking":{"type":"boolean"},"gate":{"enum":["member","none","lead"]}}}"#,
        ),
        _ => return None,
    };
    let schema = Json::stored(schema);
    Some(ToolSpec { name: name.to_owned(), description: description.to_owned(), schema })
}

/// What a call asks of people.
pub(super) enum PeopleRequest {
    Question(Json),
    Feedback(Box<FeedbackForm>),
    /// The call is invalid; the model is told what is wrong with it.
    Unfit(String),
}

/// A view to be published.
pub(super) struct FeedbackForm {
    pub view: View,
    pub blocking: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FeedbackArgs {
    title: String,
    description: Option<String>,
    questions: Vec<ViewQuestion>,
    #[serde(default = "yes")]
    blocking: bool,
    #[serde(default)]
    gate: ViewAudience,
}

const fn yes() -> bool {
    true
}

/// What a call asks of people, if it is such a call and the agent may make it.
pub(super) fn asked(work: &RunState, call: &ToolCall) -> Result<Option<PeopleRequest>, Error> {
    if !work.specs.iter().any(|spec| spec.name == call.name) {
        return Ok(None);
    }
    Ok(match call.name.as_str() {
        REQUEST_INPUT => Some(PeopleRequest::Question(question(call)?)),
        REQUEST_FEEDBACK => Some(match feedback(call) {
            Ok(feedback) => PeopleRequest::Feedback(Box::new(feedback)),
            Err(error) => PeopleRequest::Unfit(error.to_string()),
        }),
        _ => None,
    })
}

fn question(call: &ToolCall) -> Result<Json, Error> {
    let fields = call.args.fields();
    let asked = fields.iter().find(|(key, _)| key == "text").and_then(|(_, text)| text.read::<String>().ok());
    let text = asked
        .filter(|text| !text.trim().is_empty())
        .unwrap_or_else(|| "The agent asks for input.".to_owned());
    let mut question = vec![("text", Json::of(&text)?)];
    if let Some((_, schema)) = fields.iter().find(|(key, _)| key == "schema")
        && sederunt_core::json_schema::check("schema", schema).is_ok()
    {
        question.push(("schema", schema.clone()));
    }
    Ok(Json::object(question.iter().map(|(key, value)| (*key, value))))
}

fn feedback(call: &ToolCall) -> Result<FeedbackForm, Error> {
    let FeedbackArgs { title, description, questions, blocking, gate } = strict::read(call.args.as_str())?;
    let publish_config = PublishConfig { gate, expires_at: None };
    let view = View { title, description, questions, publish_config, session_id: None, response: None };
    view.check()?;
    Ok(FeedbackForm { view, blocking })
}

/// The effect of publishing a view: a question to wait for, or a result with the link to go on with.
pub(super) enum PublishOutcome {
    Question(Json),
    Answer(CallAnswer<'static>),
}

pub(super) fn published(
    published: &PublishedView,
    blocking: bool,
    base_url: &str,
) -> Result<PublishOutcome, Error> {
    // The question and the result are stored and enter prompts, so they hold the address without the token that opens
    // the view to strangers. Callers who may decide on the question or read the view are shown the whole link.
    let url = published.address(base_url);
    if blocking {
        return Ok(PublishOutcome::Question(Json::of(&json!({
            "text": published.view.value.title, "view_id": &*published.view.id, "url": url,
        }))?));
    }
    let content = format!(
        "The form is published at {url} and its owner can hand the link on. Do not wait: answers are given to later \
         runs of this session."
    );
    Ok(PublishOutcome::Answer(CallAnswer { content, is_error: false, outcome: None }))
}
