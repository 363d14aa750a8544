//! A tool that is a function of the program.

use std::fmt;
use std::future::Future;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sederunt_core::json::Json;
use serde_json::Value;

use super::{CallContext, Error, Outcome, Tool, ToolCall, ToolSpec};

type Handler = Box<dyn Fn(Json, CallContext) -> BoxFuture<'static, Result<String, Error>> + Send + Sync>;

/// A function as a tool.
pub struct FunctionTool {
    spec: ToolSpec,
    handler: Handler,
}

/// Makes a tool of a function. Its arguments have been checked against the schema when it is called, and its result is
/// checked and cut like that of any tool. [`CallContext::idempotency_key`] is the same for every attempt of one call.
pub fn tool<H, F>(name: &str, description: &str, schema: &Value, handler: H) -> FunctionTool
where
    H: Fn(Json, CallContext) -> F + Send + Sync + 'static,
    F: Future<Output = Result<String, Error>> + Send + 'static,
{
    FunctionTool {
        spec: ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            schema: Json::stored(schema.to_string()),
        },
        handler: Box::new(move |args, context| handler(args, context).boxed()),
    }
}

impl Tool for FunctionTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<Outcome, Error>> {
        let answer = (self.handler)(call.args.clone(), context.clone());
        answer.map(|answer| answer.map(Outcome::done)).boxed()
    }
}

impl fmt::Debug for FunctionTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FunctionTool({})", self.spec.name)
    }
}
