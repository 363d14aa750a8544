//! The built-in tool `patch_document`: an agent patches a document of its session under its claim, by the rule that people
//! patch it by. A call without operations reads the document.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sederunt_core::access::Actor;
use sederunt_core::definitions::agent::{PATCH_DOCUMENT, Tool as Definition};
use sederunt_core::document::DocumentKey;
use sederunt_core::engine::{Engine, PatchRequest};
use sederunt_core::ids::SessionId;
use sederunt_core::json::Json;
use sederunt_core::store::IdemKey;
use sederunt_core::{Conflict, Error, strict};
use serde::Deserialize;

use super::ClaimContext;
use crate::model::{ToolCall, ToolSpec};
use crate::tool::{self, BadTool, CallContext, Confirm, Outcome, Tool, Toolbox};

const DESCRIPTION: &str = "Reads or changes a document that people and agents edit together in this session. Without `ops` it \
     answers with the document's value and its sequence. With `ops` (JSON Patch, RFC 6902) it changes the document, if nobody \
     has changed the same places since `base_sequence`; left out, that is the newest state.";

const SCHEMA: &str = r#"{"type":"object","required":["id"],"properties":{"kind":{"enum":["scratch","entity","view"]},"id":{"type":"string","minLength":1,"maxLength":200},"base_sequence":{"type":"integer","minimum":0},"ops":{"type":"array","maxItems":100,"items":{"type":"object","required":["op","path"],"properties":{"op":{"enum":["add","remove","replace","move","copy","test"]},"path":{"type":"string"},"from":{"type":"string"}}}}},"additionalProperties":false}"#;

/// The tool as it is offered under one claim.
#[derive(Debug)]
struct DocumentTool {
    spec: ToolSpec,
    engine: Engine,
    actor: Arc<Actor>,
    session: SessionId,
    epoch: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentArgs {
    kind: Option<String>,
    id: String,
    base_sequence: Option<u64>,
    ops: Option<Json>,
}

/// Adds the tool, if the agent has it.
pub(crate) fn offer(
    toolbox: &mut Toolbox,
    definitions: &[Definition],
    claim: &ClaimContext,
) -> Result<(), BadTool> {
    let is_named =
        |tool: &Definition| matches!(tool, Definition::Builtin(tool) if tool.name == PATCH_DOCUMENT);
    if !definitions.iter().any(is_named) {
        return Ok(());
    }
    let spec = ToolSpec {
        name: PATCH_DOCUMENT.to_owned(),
        description: DESCRIPTION.to_owned(),
        schema: Json::stored(SCHEMA),
    };
    let tool = DocumentTool {
        spec,
        engine: claim.engine.clone(),
        actor: claim.actor.clone(),
        session: claim.session.clone(),
        epoch: claim.epoch,
    };
    toolbox.add(Arc::new(tool), Confirm::WhenAsked)
}

impl Tool for DocumentTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<Outcome, tool::Error>> {
        Box::pin(async move {
            Ok(match self.answer(call, context).await {
                Ok(content) => Outcome::done(content),
                // A claim that is lost is noticed by the next append; anything else the model can react to.
                Err(error) => Outcome::Done { content: told(&error), is_error: true, cut: false },
            })
        })
    }
}

impl DocumentTool {
    async fn answer(&self, call: &ToolCall, context: &CallContext) -> Result<String, Error> {
        let DocumentArgs { kind, id, base_sequence, ops } = strict::read(call.args.as_str())?;
        let key = DocumentKey::parse(kind.as_deref().unwrap_or("scratch"), &id)?;
        let Some(ops) = ops.filter(|ops| ops.as_str() != "[]") else {
            let found = self.engine.shared_document(&self.actor, &self.session, &key, None).await?;
            return Ok(format!("sequence: {}\nvalue: {}", found.sequence, found.value.as_str()));
        };
        let base_sequence = match base_sequence {
            Some(base) => base,
            None => self.engine.shared_document(&self.actor, &self.session, &key, None).await?.sequence,
        };
        let scope =
            [PATCH_DOCUMENT.as_bytes(), self.session.as_str().as_bytes(), context.idempotency_key.as_bytes()];
        let once = IdemKey::scoped(&scope, call.args.as_str());
        let request = PatchRequest { base_sequence, ops, epoch: Some(self.epoch), wants_inverse: false };
        let done = self.engine.patch_document(&self.actor, &self.session, &key, request, Some(once)).await?;
        Ok(format!("The document is patched; its sequence is {}.", done.sequence))
    }
}

/// What a model is told of a refusal: also where others have written.
fn told(error: &Error) -> String {
    match error {
        Error::Conflict(Conflict::StaleDocument { sequence, .. }) => {
            format!("{error}. Its sequence is {sequence}; call without `ops` to read it.")
        }
        Error::NotFound => "this session has no such document".to_owned(),
        other => other.to_string(),
    }
}
