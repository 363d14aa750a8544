//! Puts what a tool asks during a call before a person, as a question of the session that calls it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sederunt_core::access::Actor;
use sederunt_core::engine::{Engine, HeldAnswer};
use sederunt_core::ids::SessionId;
use tokio::time::Instant;

use super::ClaimContext;
use crate::tool::elicitation::{InputAnswer, InputAsker, InputForm};

/// The questions of a claimed session.
#[derive(Debug)]
pub(crate) struct HeldQuestions {
    pub engine: Engine,
    pub actor: Arc<Actor>,
    pub session: SessionId,
    pub epoch: u64,
}

impl HeldQuestions {
    /// `None` in a turn of talk, which asks no person while a tool waits.
    pub(crate) fn of(claim: &ClaimContext) -> Option<Arc<dyn InputAsker>> {
        let ClaimContext { engine, actor, session, epoch, turn: None, .. } = claim else { return None };
        Some(Arc::new(Self {
            engine: engine.clone(),
            actor: Arc::clone(actor),
            session: session.clone(),
            epoch: *epoch,
        }))
    }
}

impl InputAsker for HeldQuestions {
    fn ask<'a>(
        &'a self,
        form: &'a InputForm,
        tool: &'a str,
        until: Instant,
        ended: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, InputAnswer> {
        Box::pin(async move {
            let Ok(question) = form.question(tool) else { return InputAnswer::Decline };
            let asked =
                self.engine.ask_during_call(&self.actor, &self.session, self.epoch, &question, until, ended);
            match asked.await {
                Ok(HeldAnswer::Accepted(content)) => InputAnswer::Accept(content),
                Ok(HeldAnswer::Cancelled) => InputAnswer::Cancel,
                Ok(HeldAnswer::Declined | HeldAnswer::Unanswered) | Err(_) => InputAnswer::Decline,
            }
        })
    }
}
