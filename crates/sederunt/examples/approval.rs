//! A task that a model works on, with a tool of this program that a person must allow. No network, no key.
//!
//! Run it with `cargo run -p sederunt --example approval`.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use sederunt::agents::model::{
    self, DeltaSink, Message, Model, ModelReply, Request, StopReason, ToolCall, Usage,
};
use sederunt::agents::tool::tool;
use sederunt::approval::decide::{Decision, DecisionRequest};
use sederunt::approval::{ApprovalQuery, ApprovalState};
use sederunt::{Actor, Json, Result, Sederunt, SourceKind, Status};
use serde_json::json;

/// A model that wants to pay a refund, and reports what the tool said. A real one would ask a provider.
#[derive(Debug)]
struct Clerk;

impl Model for Clerk {
    fn run<'a>(
        &'a self,
        request: &'a Request,
        _: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, model::Error>> {
        let answered = request.messages.iter().rev().find_map(|message| match message {
            Message::ToolResult { content, .. } => Some(content.clone()),
            _ => None,
        });
        let wish = || ToolCall {
            id: "call_1".to_owned(),
            name: "refund".to_owned(),
            args: Json::of(&json!({"order": "A-7", "cents": 1250})).unwrap_or_else(|_| Json::stored("{}")),
        };
        let calls: Vec<ToolCall> = if answered.is_some() { Vec::new() } else { vec![wish()] };
        let reply = ModelReply {
            stop: if calls.is_empty() { StopReason::End } else { StopReason::Calls },
            text: answered.map(|said| format!("Done: {said}")).unwrap_or_default(),
            thinking: String::new(),
            calls,
            bad_calls: Vec::new(),
            usage: Usage::default(),
        };
        async move { Ok(reply) }.boxed()
    }
}

#[tokio::main]
pub async fn main() -> Result<()> {
    let refund = tool(
        "refund",
        "Pays money back for an order.",
        &json!({
            "type": "object",
            "properties": {"order": {"type": "string"}, "cents": {"type": "integer", "minimum": 1}},
            "required": ["order", "cents"],
        }),
        async |args: Json, call| {
            println!(
                "refund {} for session {}, once for {}",
                args.as_str(),
                call.session_id,
                call.idempotency_key
            );
            Ok("12.50 paid back for A-7".to_owned())
        },
    );
    let store = Sederunt::builder().model("clerk", Clerk).tool("shop", refund).open("memory:").await?;
    let me = Arc::new(Actor::local(SourceKind::Api));

    let agent = json!({
        "slug": "support", "name": "Support",
        "tools": [{"type": "mcp", "server": "shop", "requires_confirmation": ["refund"]}],
    });
    store.define_agent(&me, &agent).await?;
    store
        .define_task(&me, &json!({"slug": "complaint", "name": "Complaint", "agent_slug": "support"}))
        .await?;
    let run = store.trigger_task(&me, "complaint", &json!({"order": "A-7"})).key("complaint of A-7").await?;

    // The executor claims the run, asks the model, and stops at the call that needs a person.
    let mut log = store.follow(&me, &run.id, 0).await?;
    while let Some(event) = log.next().await.transpose()? {
        println!("{} {} {}", event.sequence, event.kind.as_str(), event.text().unwrap_or_default());
        match event.kind.as_str() {
            "session.waiting_approval" => allow(&store, &me).await?,
            "session.status_change" if store.session(&me, &run.id).await?.head.status.is_terminal() => break,
            _ => {}
        }
    }
    let done = store.session(&me, &run.id).await?;
    assert_eq!(done.head.status, Status::Completed, "{done:?}");
    store.close().await;
    Ok(())
}

/// What a person does in an inbox: reads what waits, and allows it.
async fn allow(store: &Sederunt, me: &Arc<Actor>) -> Result<()> {
    let pending =
        ApprovalQuery { state: Some(ApprovalState::Pending), limit: 10, ..ApprovalQuery::default() };
    for approval in store.approvals(me, false, pending).await?.items {
        println!("allowed: {}", approval.body.staged.as_ref().map_or("", Json::as_str));
        let allowed = DecisionRequest {
            decision: Decision::Approve,
            modified_args: None,
            modified_output: None,
            reason: None,
            digest: None,
        };
        store.decide(me, &approval.id, allowed, None).await?;
    }
    Ok(())
}
