//! Tools that are defined by themselves, as agents call them: a call is a tool session of its own, a child of the agent's
//! session. The agent waits for its end; after the tool's time the child is cancelled and the call has failed.

use std::time::Duration;

use futures_util::future::BoxFuture;
use sederunt_core::Error as CoreError;
use sederunt_core::definitions::ToolDefinition;
use sederunt_core::engine::Engine;
use sederunt_core::session::{Session, Status};
use sederunt_core::tool_session::values::ValueSchemas;
use tokio::time::{Instant, timeout_at};

use super::{CallContext, Error, Outcome, Tool, ToolCall, ToolSpec};

/// How often a caller reads the child's row without having been woken.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A tool whose calls are tool sessions.
#[derive(Debug)]
pub struct CalledTool {
    engine: Engine,
    /// The session of the agent that calls it.
    caller: Session,
    spec: ToolSpec,
    timeout: Duration,
}

impl CalledTool {
    pub fn new(engine: Engine, caller: Session, tool: &ToolDefinition) -> Result<Self, CoreError> {
        let spec = ToolSpec {
            name: tool.slug.clone(),
            description: tool.description.clone().unwrap_or_else(|| tool.name.clone()),
            schema: ValueSchemas::of(tool)?.whole,
        };
        Ok(Self { engine, caller, spec, timeout: tool.timeout() })
    }

    async fn result(&self, call: &ToolCall, context: &CallContext) -> Result<Outcome, CoreError> {
        let deadline = Instant::now() + self.timeout;
        let child = self
            .engine
            .call_tool(&self.caller, &self.spec.name, &call.args, &context.idempotency_key)
            .await?;
        let mut row = self.engine.hub().watch_row(child.head.incarnation);
        loop {
            let now = self.engine.called_session(&child).await?;
            if now.head.status.is_terminal() {
                return Ok(outcome(&now));
            }
            let next = deadline.min(Instant::now() + LOOK_AGAIN);
            let _ = timeout_at(next, row.changed()).await;
            if Instant::now() >= deadline {
                break;
            }
        }
        self.engine.cancel_call(&child, "timed_out").await?;
        let ended = self.engine.called_session(&child).await?;
        Ok(match ended.head.status {
            Status::Completed => outcome(&ended),
            _ => failed(format!(
                "the tool did not answer within {} s and was cancelled",
                self.timeout.as_secs_f64()
            )),
        })
    }
}

/// What the model is told of a child that has ended.
fn outcome(child: &Session) -> Outcome {
    let details = &child.details;
    match (child.head.status, &details.result) {
        (Status::Completed, Some(result)) => {
            Outcome::done(result.read::<String>().unwrap_or_else(|_| result.as_str().to_owned()))
        }
        (Status::Completed, None) => Outcome::done(String::new()),
        _ => {
            let code = details.end_reason.as_deref().unwrap_or(child.head.status.as_str());
            let message = details.error_message.as_deref().unwrap_or("the tool did not complete");
            failed(format!("{code}: {message}"))
        }
    }
}

fn failed(content: String) -> Outcome {
    Outcome::Done { content, is_error: true, cut: false }
}

impl Tool for CalledTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn finds_again(&self) -> bool {
        true
    }

    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<Outcome, Error>> {
        Box::pin(async move {
            // Whatever refuses the call is a result that the model may read.
            Ok(self.result(call, context).await.unwrap_or_else(|refused| failed(refused.to_string())))
        })
    }
}
