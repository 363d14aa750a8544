//! A tool: something that a model may have done for it.
//!
//! This room owns the trait that every tool implements and the toolbox they are called from. The toolbox checks a
//! model's call before a tool sees it, and a tool's result before a model does: arguments against their schema,
//! sizes, time, secrets. It refuses to decide whether a person must be asked first: it only reports
//! [`Outcome::NeedsConfirmation`], and a tool that needs it has not acted.

mod called;
pub mod elicitation;
mod error;
mod function;
pub mod http;
pub mod mcp;
mod schema;
mod sent_secrets;
mod toolbox;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sederunt_core::ids::{SessionId, TenantId};
use tokio::time::timeout;

pub use crate::model::{ToolCall, ToolSpec};
pub use called::CalledTool;
use elicitation::{CallInput, InputAsker, InputRequest};
pub use error::{BadTool, Error};
pub use function::{FunctionTool, tool};
pub use schema::Schema;
pub use sent_secrets::SentSecrets;
pub use toolbox::{Confirm, Toolbox};

/// A callable tool.
pub trait Tool: Send + Sync + std::fmt::Debug {
    fn spec(&self) -> &ToolSpec;

    /// Whether the same call, made again by another worker, finds what the first one began and waits for it.
    fn finds_again(&self) -> bool {
        false
    }

    /// The secrets of the configuration that every call of it sends.
    fn sends(&self) -> &SentSecrets {
        SentSecrets::NONE
    }

    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<Outcome, Error>>;

    /// A call that is given up after a time.
    fn call_within<'a>(
        &'a self,
        call: &'a ToolCall,
        context: &'a CallContext,
        after: Duration,
    ) -> BoxFuture<'a, Result<Outcome, Error>> {
        Box::pin(async move {
            let outcome = timeout(after, self.call(call, context)).await;
            outcome.map_err(|_| Error::TimedOut { after })?
        })
    }
}

/// For whom a call is made.
#[derive(Clone, Debug)]
pub struct CallContext {
    pub tenant_id: TenantId,
    pub session_id: SessionId,
    /// The same for every attempt of the same call, so that a tool can act once.
    pub idempotency_key: String,
    /// A person with the right to do so has approved this call with these arguments.
    pub confirmed: bool,
    /// What the tool asked for when this call was made before.
    pub input: Option<CallInput>,
    /// Who puts what a tool asks during the call before a person; without one the tool is declined.
    pub asker: Option<Arc<dyn InputAsker>>,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The tool has answered. A result that was too long ends with a line that says so.
    Done { content: String, is_error: bool, cut: bool },
    /// The tool has done nothing yet and needs a person's approval first.
    NeedsConfirmation { summary: String },
    /// The tool needs a person's input before it goes on: the same call is made again with it.
    NeedsInput(Box<InputRequest>),
}

impl Outcome {
    pub fn done(content: impl Into<String>) -> Self {
        Self::Done { content: content.into(), is_error: false, cut: false }
    }
}
