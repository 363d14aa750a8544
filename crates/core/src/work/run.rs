//! The run that a session carries of its task: the contract, frozen when it was triggered, and its progress with the
//! people around it. Kept as one JSON column, because only decisions read it.

use serde::{Deserialize, Serialize};

use super::output::OutputContract;
use super::retry_chain::RetryChain;
use super::write_grant::WriteGrant;
use crate::access::Actor;
use crate::activity::BridgePerson;
use crate::definitions::criteria::Dimension;
use crate::definitions::task::{ApprovalTerms, OnChildFailure, RunLimits};
use crate::error::Result;
use crate::json::Json;
use crate::limits;
use crate::session::Session;
use crate::tool_session::ToolRun;
use crate::view::UnreadAnswer;

/// A run's contract and progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub task_slug: Option<String>,
    pub description: Option<String>,
    /// The person who triggered it or, where it is done again, who retried it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<BridgePerson>,
    pub output: Option<OutputContract>,
    /// The entities that it may write. A run from before grants existed has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<WriteGrant>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub requires_approval: bool,
    /// The dimensions by which the output is judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<Dimension>,
    pub assigned_to: Option<String>,
    pub approval: Option<ApprovalTerms>,
    #[serde(default)]
    pub limits: RunLimits,
    /// Set on the parent of a graph.
    pub on_child_failure: Option<OnChildFailure>,
    /// Set on a child of a graph.
    pub step: Option<StepOf>,
    /// The approval that the session waits for.
    pub approval_id: Option<String>,
    /// The call that waits for a person's input, sealed, while the session waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<String>,
    /// A person's decision, handed to the next claim.
    pub resume: Option<Resume>,
    /// Outputs that were denied, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<Denial>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repairs: u32,
    /// How often sessions of its chain were retried; zero unless this session counts for the chain.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// The chain of retries that the session is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_chain: Option<RetryChain>,
    /// The tool that a tool session runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Box<ToolRun>>,
    /// Answers to views of this session that no run has read, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<UnreadAnswer>,
}

/// The place of a child in its graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOf {
    pub key: String,
    /// A run from before names were frozen has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default)]
    pub depends_on: Vec<String>,
}

impl StepOf {
    /// The place of a session in its graph, as it was when the graph was made. Its dependencies may name any keys, and one
    /// another: what was imported is not checked again.
    pub fn of(session: &Session) -> Option<Self> {
        #[derive(Deserialize)]
        struct Place {
            step: Option<StepOf>,
        }
        let run = session.details.run.as_ref()?;
        // Most sessions are no steps: a text search spares lists of them the parsing.
        if !run.as_str().contains(r#""step":{"#) {
            return None;
        }
        run.read::<Place>().ok()?.step
    }
}

/// How a run goes on after a person's decision or answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resume {
    pub approval_id: String,
    /// `approve`, `deny`, `answer` or `cancel`.
    pub decision: String,
    /// The paused call, as the model made it.
    pub tool_call: Option<Json>,
    /// The arguments to use, edited or not.
    pub args: Option<Json>,
    /// Digest of the call with these arguments: no other call may be made.
    pub digest: Option<String>,
    pub reply: Option<Json>,
    /// The view by which it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view_id: Option<String>,
    pub reason: Option<String>,
    /// The call that waited for a person's input, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<String>,
}

impl Resume {
    /// What every run gets that goes on after this approval; the caller adds the rest.
    pub fn after(approval_id: &str, decision: &str) -> Self {
        Self {
            approval_id: approval_id.to_owned(),
            decision: decision.to_owned(),
            tool_call: None,
            args: None,
            digest: None,
            reply: None,
            view_id: None,
            reason: None,
            elicitation: None,
        }
    }
}

/// An output that a person denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    pub by: String,
    pub reason: Option<String>,
}

impl Run {
    /// The run of a session. A session that no task made has an empty one.
    pub fn of(session: &Session) -> Self {
        session.details.run.as_ref().and_then(|run| run.read().ok()).unwrap_or_default()
    }

    /// The JSON Schema that the result of a session's run must fit.
    pub fn contract_schema(session: &Session) -> Option<Json> {
        // Most runs have none: a text search spares parsing them.
        let mentions = session.details.run.as_ref().is_some_and(|run| run.as_str().contains(r#""schema":"#));
        if mentions { Self::of(session).output?.schema } else { None }
    }

    /// Whether it holds nothing for the worker: it only counts retries.
    pub fn is_silent(&self) -> bool {
        Self { retries: 0, retry_chain: None, ..self.clone() } == Self::default()
    }

    pub fn to_json(&self) -> Result<Json> {
        Json::of(self)
    }

    /// The same contract, without any progress, for a caller who has the work done again.
    #[must_use]
    pub fn afresh(self, by: &Actor) -> Self {
        Self {
            triggered_by: BridgePerson::of(by),
            approval_id: None,
            elicitation: None,
            resume: None,
            denials: Vec::new(),
            repairs: 0,
            retries: 0,
            retry_chain: None,
            answers: Vec::new(),
            ..self
        }
    }

    /// The answers that the claim of this epoch is handed: the oldest of those that came before it.
    /// A claim that takes over is handed them again, until a run that had them has settled.
    pub fn handed(&self, epoch: u64) -> impl Iterator<Item = &UnreadAnswer> {
        self.answers.iter().filter(move |waiting| waiting.epoch < epoch).take(limits::ANSWERS_HANDED_MAX)
    }

    /// Removes the answers that the settled run of this epoch was handed. Returns whether there were any.
    pub fn consume(&mut self, epoch: u64) -> bool {
        let read: Vec<String> = self.handed(epoch).map(|waiting| waiting.name.clone()).collect();
        self.answers.retain(|waiting| !read.contains(&waiting.name));
        !read.is_empty()
    }

    /// Whether a person reviews the output before it is written.
    pub fn asks_before_writing(&self) -> bool {
        self.requires_approval || !self.criteria.is_empty()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Incarnation, RandomIds, SessionId, TenantId};
    use crate::session::{Details, Head, SessionSource, SessionType, SourceKind, Status};

    fn with_run(run: Option<&str>) -> Session {
        let head = Head::blank(Incarnation::drawn(&RandomIds), SessionType::Agent, Status::Draft, None);
        let mut details = Details::blank(SessionSource::direct(SourceKind::Api, false));
        details.run = run.map(Json::stored);
        let (tenant, id) = (TenantId::stored("t"), SessionId::stored("s"));
        Session { tenant, id, head, details, participants: Vec::new() }
    }

    #[test]
    fn the_place_of_a_step_is_read_as_it_stands_even_from_a_circle() {
        let place = |key: &str, name: Option<&str>, needs: &[&str]| StepOf {
            key: key.to_owned(),
            name: name.map(str::to_owned),
            depends_on: needs.iter().map(|&key| key.to_owned()).collect(),
        };
        for (run, expected) in [
            (None, None),
            (Some(r#"{"step":null}"#), None),
            (Some(r#"{"step":{"key":"a"}}"#), Some(place("a", None, &[]))),
            (
                Some(r#"{"limits":{},"step":{"key":"a","name":"A","depends_on":["b","a","gone"]}}"#),
                Some(place("a", Some("A"), &["b", "a", "gone"])),
            ),
            (
                Some(r#"{"output":{"type":"object","schema":{"properties":{"step":{"type":"object"}}}}}"#),
                None,
            ),
            (Some(r#"{"step":{"no key":1}}"#), None),
        ] {
            assert_eq!(StepOf::of(&with_run(run)), expected, "{run:?}");
        }
    }
}
