//! A reply as it stands in the log.

use sederunt_core::Error;
use sederunt_core::engine::DraftEvent;
use sederunt_core::json::Json;
use serde_json::json;

use super::event;
use crate::model::Reply;

/// The events of a reply: what was thought, what was said, what is to be called.
pub(crate) fn words(step: u64, reply: &Reply) -> Result<Vec<DraftEvent>, Error> {
    let mut usage = Some(serde_json::to_value(reply.usage).map_err(Error::internal)?);
    let mut metadata = |mut fields: serde_json::Value| {
        fields["step"] = step.into();
        if let Some(usage) = usage.take() {
            fields["usage"] = usage;
        }
        Json::of(&fields)
    };
    let text = |text: &str| Json::of(&json!([{"type": "text", "text": text}]));
    let mut events = Vec::new();
    if !reply.thinking.trim().is_empty() {
        events.push(event("agent.thinking", metadata(json!({}))?, Some(text(&reply.thinking)?)));
    }
    if !reply.text.trim().is_empty() {
        events.push(event("agent.message", metadata(json!({}))?, Some(text(&reply.text)?)));
    }
    for call in &reply.calls {
        let fields = metadata(json!({"tool_call_id": call.id, "tool_name": call.name}))?;
        let part = Json::object([("type", &Json::stored(r#""tool-call""#)), ("args", &call.args)]);
        events.push(event("agent.tool_call", fields, Some(Json::of(&[part])?)));
    }
    if events.is_empty() {
        // An empty reply used something up too.
        events.push(event("agent.thinking", metadata(json!({}))?, Some(text("")?)));
    }
    Ok(events)
}
