//! The stage in which a model answers: it replies, has tools called, is steered, and replies again.
//!
//! Without tools a turn writes nothing before its end. With tools every step is in the log before the next one, under
//! the claim of the turn, so a node that takes over after a crash knows what was begun.

use std::sync::Arc;

use sederunt_core::activity::injection;
use sederunt_core::definitions::agent::{PATCH_DOCUMENT, Tool as Definition};
use sederunt_core::definitions::task::RunLimits;
use sederunt_core::event::Event;
use sederunt_core::lesson::shown;
use sederunt_core::safety::Level;
use sederunt_core::talk::Tier;
use sederunt_core::talk::turn_memory::TurnRecall;
use sederunt_core::{Error, Session, SessionId, limits as core_limits};

use super::Conversations;
use super::company::{self, ShownTurn};
use super::pipeline::{ApprovalRequest, TurnFailure};
use super::run_turn::TurnListener;
use super::turn_tools::TurnTools;
use crate::context::{self, Built, Input, Turn};
use crate::executor::kit::{ModelKind, context_budget};
use crate::limits;
use crate::model::{self, Delta, Message, Model, ModelReply, Usage, eliza};
use crate::steps::replay::{self, OpenCall, SpentUsage};

/// The agent that answers, and its instructions.
struct Persona {
    instructions: String,
    model: Arc<dyn Model>,
    model_name: String,
    budget: usize,
    tools: Vec<Definition>,
    limits: RunLimits,
}

/// The result of the stage.
pub(super) enum ModelResponse {
    Said(FinalReply),
    Asks(Box<ApprovalRequest>),
}

/// The model's final reply.
#[derive(Default)]
pub(super) struct FinalReply {
    pub text: String,
    /// Replies from before it was steered, as far as they are not in the log.
    pub before: Vec<String>,
    /// The bridge whose activity entered the prompt.
    pub activity: Option<SessionId>,
    pub usage: Usage,
}

impl FinalReply {
    /// What entered the prompt beside what was recalled, by kind and ids.
    pub fn injected(&self) -> Vec<(&'static str, Vec<String>)> {
        self.activity.iter().map(|bridge| (injection::INJECTED, vec![bridge.to_string()])).collect()
    }
}

/// A conversation as a model is shown it.
struct TurnHistory {
    messages: Vec<Message>,
    /// Calls without a result.
    open: Vec<OpenCall>,
    /// This turn's usage before it paused.
    spent: SpentUsage,
}

impl Conversations {
    /// Asks the model, and asks again after tool calls or steering messages.
    pub(super) async fn respond(
        &self,
        listener: &TurnListener<'_>,
        message: &Event,
        recalled: &TurnRecall,
        level: Level,
    ) -> Result<ModelResponse, TurnFailure> {
        let begun = listener.begun;
        let persona = self.persona(&begun.session, begun.tier).await?;
        let tools = match &persona.tools[..] {
            [] => None,
            tools => Some(TurnTools::of(self, listener, tools).await?),
        };
        let activity = self.engine.activity_for_turn(begun).await?;
        let TurnHistory { mut messages, open, mut spent } =
            self.history(listener, message, tools.is_some()).await?;
        let mut input = Input {
            instructions: persona.instructions.clone(),
            memory: recalled.lines(),
            lessons: recalled.lessons.iter().map(shown::line).collect(),
            tools: tools.as_ref().map(|tools| tools.toolbox.specs()).unwrap_or_default(),
            workspace: workspace(&begun.session, level),
            activity: activity.as_ref().map(|activity| activity.block.clone()),
            ..Input::default()
        };
        let mut said = FinalReply::default();
        // Replies in a row that called a tool with arguments that cannot be read.
        let mut bad_replies = 0;
        // The rule-based model ignores memories, so the turn opens with a sentence about them.
        let by_rules = ModelKind::of(&persona.model_name) == ModelKind::RuleBased;
        let mut opening = by_rules.then(|| recalled.opening()).flatten();
        if let Some(opening) = &opening {
            listener.say(opening);
        }
        if tools.is_none() && by_rules {
            let asked = message.text().unwrap_or_default();
            if let Some(answer) = eliza::from_memory(&asked, &recalled.facts_as_told()) {
                said.text = opening.unwrap_or_default() + &answer;
                listener.say(&answer);
                return Ok(ModelResponse::Said(said));
            }
        }
        if let Some(tools) = &tools {
            if let Some(asks) = tools.take_up(open, &mut messages).await? {
                return Ok(ModelResponse::Asks(asks));
            }
            messages.extend(self.steering(listener).await?.into_iter().map(Message::user));
        }
        loop {
            if tools.is_some()
                && let Some(limit) = spent.reached(&persona.limits, limits::TURN_STEPS_MAX)
            {
                return Err(TurnFailure::Limit(limit_code(limit)));
            }
            input.transcript = Turn::split(messages.clone());
            let built = built(&input, persona.budget)?;
            if built.shows_activity {
                said.activity = activity.as_ref().map(|activity| activity.bridge.clone());
            }
            let request = built.request;
            let mut hear = |delta: Delta| {
                if let Delta::Text(text) = delta {
                    listener.say(&text);
                }
            };
            let mut reply = persona.model.run(&request, &mut hear).await.map_err(TurnFailure::Model)?;
            reply.usage = self.kit.prices.cost(&persona.model_name, reply.usage);
            spent.add(reply.usage);
            said.usage = add(said.usage, reply.usage);
            listener.has_used(said.usage);
            if let Some(opening) = opening.take() {
                reply.text.insert_str(0, &opening);
            }
            bad_replies = if reply.bad_calls.is_empty() { 0 } else { bad_replies + 1 };
            if bad_replies > limits::BAD_ARGUMENTS_MAX {
                let what = "arguments of calls that cannot be read, again and again";
                return Err(TurnFailure::Model(model::Error::Malformed { what }));
            }
            if let (Some(tools), false) = (&tools, reply.calls.is_empty()) {
                let asked = tools.note(spent.steps, &reply, std::mem::take(&mut said.before)).await?;
                let ModelReply { text, calls, .. } = reply;
                messages.push(Message::Assistant { text, calls });
                if let Some(mut asks) = tools.carry_out(asked, &mut messages).await? {
                    asks.usage = said.usage;
                    asks.injected = said.injected();
                    return Ok(ModelResponse::Asks(asks));
                }
                messages.extend(self.steering(listener).await?.into_iter().map(Message::user));
                continue;
            }
            // A model that only calls unknown tools, or replies with nothing, has not answered.
            if spent.steps <= 1 && reply.text.trim().is_empty() {
                return Err(TurnFailure::Model(model::Error::Malformed { what: "a reply without words" }));
            }
            said.text = reply.text;
            let steering = self.steering(listener).await?;
            if steering.is_empty() {
                return Ok(ModelResponse::Said(said));
            }
            messages.push(Message::assistant(said.text.clone()));
            messages.extend(steering.into_iter().map(Message::user));
            said.before.push(std::mem::take(&mut said.text));
        }
    }

    /// The model's reply to messages without a session. It is given no activity: there is no log that could say so.
    pub(super) async fn respond_stateless(
        &self,
        messages: &[Message],
        model: Option<&str>,
        level: Level,
    ) -> Result<FinalReply, TurnFailure> {
        let model = self.kit.model(self.kit.name_of(model));
        let model = model.map_err(|error| Error::invalid("model", error.to_string()))?;
        let input = Input {
            instructions: self.settings.instructions.clone(),
            transcript: Turn::split(messages.iter().cloned()),
            workspace: advice(level),
            ..Input::default()
        };
        let request = built(&input, context_budget(None))?.request;
        let reply = model.run(&request, &mut |_| {}).await.map_err(TurnFailure::Model)?;
        Ok(FinalReply { text: reply.text, usage: reply.usage, ..FinalReply::default() })
    }

    async fn persona(&self, session: &Session, tier: Tier) -> Result<Persona, TurnFailure> {
        let agent = self.engine.agent_of(session).await?;
        let own = agent.as_ref().and_then(|agent| agent.model.as_deref());
        let preferred = match tier {
            Tier::Quality => self.settings.response_model.as_deref().or(own),
            Tier::Fast => own,
        };
        let model_name = self.kit.name_of(preferred).to_owned();
        let model = self.kit.model(&model_name).map_err(Error::unavailable)?;
        let limits = agent.as_ref().map(|agent| agent.limits).unwrap_or_default();
        self.kit.check_price(&model_name, &limits.of_a_run()).map_err(TurnFailure::Unfit)?;
        let (instructions, mut tools) =
            agent.map(|agent| (agent.instructions, agent.tools)).unwrap_or_default();
        // The other built-in tools ask people; in a conversation the reply itself can ask.
        tools.retain(|tool| !matches!(tool, Definition::Builtin(tool) if tool.name != PATCH_DOCUMENT));
        Ok(Persona {
            instructions: instructions.unwrap_or_else(|| self.settings.instructions.clone()),
            model,
            model_name,
            budget: context_budget(limits.context_tokens),
            tools,
            limits: limits.of_a_run(),
        })
    }

    /// The messages and calls so far, with the message of this turn and what this turn has done.
    async fn history(
        &self,
        listener: &TurnListener<'_>,
        message: &Event,
        with_steps: bool,
    ) -> Result<TurnHistory, TurnFailure> {
        let begun = listener.begun;
        let (session, until) = (&begun.session, begun.session.head.last_sequence + 1);
        let events = match with_steps {
            false => self.engine.said_before(session, until, core_limits::TURN_HISTORY_MAX).await?,
            true => self.engine.done_before(session, Some(until), core_limits::TURN_STEPS_READ_MAX).await?,
        };
        let has_its_own_place = |event: &Event| {
            event.sequence == begun.turn
                || begun.talk.queue.iter().any(|queued| queued.sequence == Some(event.sequence))
        };
        let mut before: Vec<Event> = events.into_iter().filter(|event| !has_its_own_place(event)).collect();
        let own = before.iter().position(|event| event.turn == Some(begun.turn)).unwrap_or(before.len());
        let own = before.split_off(own);
        let spent = replay::read(&own).spent;
        let mut all: Vec<Event> = before.into_iter().chain([message.clone()]).chain(own).collect();
        if session.head.is_group {
            let names = self.engine.speaker_names(session, &all).await?;
            let turn = ShownTurn { sequence: begun.turn, is_aside: begun.speaker.is_aside };
            all = company::in_company(all, turn, &names)?;
        }
        let replay::LogReplay { messages, open, .. } = replay::read(&all);
        Ok(TurnHistory { messages, open, spent })
    }

    /// New messages that steer this turn; they are part of the turn now.
    async fn steering(&self, listener: &TurnListener<'_>) -> Result<Vec<String>, TurnFailure> {
        if !listener.is_stirred() {
            return Ok(Vec::new());
        }
        let (_, sequences) = self.engine.look_at_turn(listener.begun).await?;
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        let mut texts = Vec::with_capacity(sequences.len());
        for sequence in &sequences {
            texts.extend(self.engine.message_at(&listener.begun.session, *sequence).await?.text());
        }
        self.engine.take_steering(listener.begun, &sequences).await?;
        Ok(texts)
    }
}

/// What a model is told about the conversation, beside its instructions.
fn workspace(session: &Session, level: Level) -> String {
    let company = session.head.is_group.then(|| company::COMPANY.to_owned());
    company
        .into_iter()
        .chain([advice(level)])
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n")
}

/// What a model is told about a person who may be struggling.
fn advice(level: Level) -> String {
    match level {
        Level::Concern => "The person may be struggling: answer gently, and ask how they are.".to_owned(),
        _ => String::new(),
    }
}

fn built(input: &Input, budget: usize) -> Result<Built, TurnFailure> {
    context::build(input, budget).map_err(|error| Error::invalid("agent", error.to_string()).into())
}

/// The code of a turn that ended at a limit.
fn limit_code(limit: &str) -> &'static str {
    match limit {
        "steps" => "limit_steps",
        "tokens" => "limit_tokens",
        _ => "limit_cost_micros",
    }
}

fn add(a: Usage, b: Usage) -> Usage {
    Usage {
        input_tokens: a.input_tokens + b.input_tokens,
        output_tokens: a.output_tokens + b.output_tokens,
        cached_tokens: a.cached_tokens + b.cached_tokens,
        cost_micros: match (a.cost_micros, b.cost_micros) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
        },
    }
}
