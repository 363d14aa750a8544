//! One run of one session: from its claim to its settlement.

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::Error;
use sederunt_core::access::Actor;
use sederunt_core::approval;
use sederunt_core::engine::{Append, Brief, DraftEvent, Engine};
use sederunt_core::event::EventQuery;
use sederunt_core::ids::SessionId;
use sederunt_core::json::Json;
use sederunt_core::library::agent::Tool as Definition;
use sederunt_core::library::task::RunLimits;
use sederunt_core::work::output::OutputType;
use sederunt_core::work::run::Resume;
use sederunt_core::work::{Claimed, Pause, Settle};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use super::kit::{Kit, context_budget};
use super::past::{self, Open, Past, Spent};
use super::pulse::{self, End};
use crate::context::{self, Input, Turn, transcript};
use crate::limits;
use crate::model::{Delta, Message, Model, Reply, Stop, ToolCall, ToolSpec};
use crate::tool::{CallContext, Error as ToolError, Outcome, Toolbox};

/// A session that is being worked on.
pub(super) struct Job {
    engine: Engine,
    kit: Arc<Kit>,
    actor: Arc<Actor>,
    id: SessionId,
    epoch: u64,
    claimed: Claimed,
    lease: Duration,
}

/// Why a run stopped before it had anything to settle with.
enum Halt {
    /// The engine would not take what we did.
    Refused(Error),
    /// The run is over, in this way.
    Settle(Settle),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

type Step<T> = Result<T, Halt>;

/// What a run works with, and where it stands.
struct Work {
    brief: Brief,
    model: Arc<dyn Model>,
    model_name: String,
    tools: Toolbox,
    specs: Vec<ToolSpec>,
    limits: RunLimits,
    messages: Vec<Message>,
    spent: Spent,
    /// What was used up before this run: the session's usage counts only what is new.
    spent_before: Spent,
}

impl Work {
    /// Takes a reply into the transcript.
    fn hear(&mut self, reply: &Reply) {
        if !reply.text.trim().is_empty() || !reply.calls.is_empty() {
            let (text, calls) = (reply.text.clone(), reply.calls.clone());
            self.messages.push(Message::Assistant { text, calls });
        }
    }
}

impl Job {
    pub(super) fn new(
        engine: Engine,
        kit: Arc<Kit>,
        actor: Arc<Actor>,
        claimed: Claimed,
        lease: Duration,
    ) -> Self {
        let (id, epoch) = (claimed.session.id.clone(), claimed.epoch);
        Self { engine, kit, actor, id, epoch, claimed, lease }
    }

    /// Works and settles. An error means that the session is not ours to settle, or cannot be now.
    pub(super) async fn run(&self) -> Result<(), Error> {
        let pulse = pulse::beat(&self.engine, &self.actor, &self.id, self.epoch, self.lease);
        let how = tokio::select! {
            end = pulse => match end {
                End::Lost => return Ok(()),
                End::Stopped => fail("stopped", "the session was asked to stop", false, None),
            },
            how = self.work() => match how {
                Ok(()) => return Ok(()),
                Err(Halt::Settle(how)) => how,
                Err(Halt::Refused(error)) => match error.code() {
                    "fenced" | "not_found" | "session_closed" => return Err(error),
                    code => fail(code, &error.to_string(), matches!(error, Error::Unavailable(_)), None),
                },
            },
        };
        self.settle(how).await
    }

    async fn settle(&self, how: Settle) -> Result<(), Error> {
        self.engine.settle(&self.actor, &self.id, self.epoch, how, None).await.map(drop)
    }

    /// Works until the run is settled.
    async fn work(&self) -> Step<()> {
        let mut work = self.begin().await?;
        let wall = work.limits.wall_ms.map(Duration::from_millis);
        let steps = self.steps(&mut work);
        match wall {
            None => steps.await,
            Some(wall) => match tokio::time::timeout(wall, steps).await {
                Ok(done) => done,
                Err(_) => Err(Halt::Settle(over("wall_ms"))),
            },
        }
    }

    async fn begin(&self) -> Step<Work> {
        let brief = self.engine.brief(&self.claimed).await?;
        let agent = brief.agent.as_ref().map(|agent| &agent.value);
        let model_name = match agent {
            Some(agent) => self.kit.name_of(agent.model.as_deref()).to_owned(),
            // Sessions of the built-in agent need no definition.
            None => "eliza".to_owned(),
        };
        let unfit =
            |error: super::kit::Unfit| Halt::Settle(fail("agent_unfit", &error.to_string(), false, None));
        let model = self.kit.model(&model_name).map_err(unfit)?;
        let definitions = agent.map_or(&[][..], |agent| &agent.tools[..]);
        let tools = self.kit.toolbox(&self.actor.tenant, definitions).await.map_err(unfit)?;
        let mut specs = tools.specs();
        specs.extend(definitions.iter().filter_map(|tool| match tool {
            Definition::Builtin(tool) => builtin(&tool.name),
            Definition::Http(_) | Definition::Mcp(_) => None,
        }));
        let limits = brief.run.limits.and(agent.map(|agent| agent.limits.of_a_run()).unwrap_or_default());
        let Past { messages, spent, open } = past::read(&self.log().await?);
        let mut work =
            Work { brief, model, model_name, tools, specs, limits, messages, spent, spent_before: spent };
        self.close_open(&mut work, open).await?;
        Ok(work)
    }

    /// The newest part of the log, oldest first.
    async fn log(&self) -> Step<Vec<sederunt_core::Event>> {
        // Made, claimed, running: a log that says no more than this need not be read.
        const EVENTS_OF_A_CLAIM: u64 = 3;
        let mut events = Vec::new();
        if self.epoch == 1 && self.claimed.session.head.last_sequence <= EVENTS_OF_A_CLAIM {
            return Ok(events);
        }
        let mut before = None;
        while events.len() < limits::LOG_EVENTS_READ {
            let query = EventQuery { before, newest_first: true, limit: 1000, ..EventQuery::default() };
            let page = self.engine.log_of(&self.claimed, query).await?;
            before = Some(page.next_after);
            events.extend(page.events);
            if !page.has_more {
                break;
            }
        }
        events.reverse();
        Ok(events)
    }

    /// Deals with calls that the log leaves open: one that a person decided on is carried out or refused as decided,
    /// one that was begun has an unknown outcome, and any other is made now.
    async fn close_open(&self, work: &mut Work, open: Vec<Open>) -> Step<()> {
        let resume = work.brief.run.resume.clone();
        for Open { call, begun } in open {
            match &resume {
                Some(resume) if decides(resume, &call) => self.resume(work, &call, resume).await?,
                _ if begun => {
                    let content = transcript::OUTCOME_UNKNOWN.to_owned();
                    self.answer(work, &call, content, true, Some("outcome_unknown")).await?;
                }
                _ => self.call(work, &call, false).await?,
            }
        }
        Ok(())
    }

    async fn resume(&self, work: &mut Work, call: &ToolCall, resume: &Resume) -> Step<()> {
        match resume.decision.as_str() {
            "approve" => {
                let args = resume.args.clone().unwrap_or_else(Json::empty_object);
                let staged = resume.tool_call.as_ref().map(|staged| approval::with_args(staged, &args));
                let agreed = staged
                    .map(|staged| approval::digest(approval::Kind::Tool, &self.id, &staged))
                    .filter(|sum| resume.digest.as_ref() == Some(sum));
                if agreed.is_none() {
                    let content = "refused: what was approved is not what would be called".to_owned();
                    return self.answer(work, call, content, true, Some("refused")).await;
                }
                self.call(work, &ToolCall { args, ..call.clone() }, true).await
            }
            "answer" => {
                let content = match &resume.reply {
                    Some(reply) => reply.read::<String>().unwrap_or_else(|_| reply.as_str().to_owned()),
                    None => String::new(),
                };
                self.answer(work, call, content, false, None).await
            }
            _ => {
                let reason = resume.reason.as_deref().unwrap_or("no reason was given");
                self.answer(work, call, format!("denied: {reason}"), true, Some("denied")).await
            }
        }
    }

    /// Asks the model and does what it says, until it is done.
    async fn steps(&self, work: &mut Work) -> Step<()> {
        loop {
            if let Some(limit) = reached(&work.limits, &work.spent) {
                return Err(Halt::Settle(with_usage(over(limit), work)));
            }
            let reply = self.ask(work).await?;
            work.spent.add(reply.usage);
            let words = words(work.spent.steps, &reply)?;
            let cut = match reply.stop {
                Stop::Refused => Some(("model_refused", "the model would not answer")),
                Stop::Length => Some(("reply_cut", "the reply was longer than allowed")),
                Stop::End | Stop::Calls => None,
            };
            if let Some((reason, error)) = cut {
                let how = fail(reason, error, false, Some(work));
                return Ok(self.engine.settle_saying(&self.actor, &self.id, self.epoch, how, words).await?);
            }
            if reply.calls.is_empty() {
                if self.finish(work, &reply, words).await? {
                    return Ok(());
                }
                continue;
            }
            self.append(words).await?;
            work.hear(&reply);
            for call in &reply.calls {
                self.call(work, call, false).await?;
            }
        }
    }

    async fn ask(&self, work: &mut Work) -> Step<Reply> {
        let input = self.input(work);
        let agent = work.brief.agent.as_ref().map(|agent| &agent.value);
        let budget = context_budget(agent.and_then(|agent| agent.limits.context_tokens));
        let built = context::build(&input, budget)
            .map_err(|error| Halt::Settle(fail("context_too_long", &error.to_string(), false, None)))?;
        let (said, mut heard) = mpsc::unbounded_channel::<String>();
        let speaking = async {
            let mut hear = move |delta| {
                if let Delta::Text(text) = delta {
                    let _ = said.send(text);
                }
            };
            work.model.run(&built.request, &mut hear).await
        };
        let showing = async {
            while let Some(mut text) = heard.recv().await {
                while let Ok(more) = heard.try_recv() {
                    text.push_str(&more);
                }
                if heard.is_closed() {
                    // All of it has been said: the message itself is next.
                    break;
                }
                // Only readers who are there now miss it if this fails; the message itself comes by the log.
                let _ = self.engine.delta(&self.actor, &self.id, self.epoch, &text).await;
            }
        };
        let (reply, ()) = tokio::join!(speaking, showing);
        match reply {
            Ok(reply) => {
                let usage = self.kit.prices.cost(&work.model_name, reply.usage);
                Ok(Reply { usage, ..reply })
            }
            Err(error) => {
                let how = fail(error.code(), &error.to_string(), error.retryable(), Some(work));
                Err(Halt::Settle(how))
            }
        }
    }

    fn input(&self, work: &Work) -> Input {
        let Work { brief, specs, messages, .. } = work;
        let details = &self.claimed.session.details;
        let agent = brief.agent.as_ref().map(|agent| &agent.value);
        let task = [details.title.as_deref(), brief.run.description.as_deref()];
        let structured = brief
            .run
            .output
            .as_ref()
            .filter(|output| !matches!(output.kind, OutputType::None | OutputType::Text));
        let mut given: Vec<(&str, Json)> = Vec::new();
        given.extend(details.input.clone().map(|input| ("input", input)));
        if !brief.results.is_empty() {
            let results = Json::object(brief.results.iter().map(|(key, result)| (key.as_str(), result)));
            given.push(("results_of_earlier_steps", results));
        }
        let input = match &given[..] {
            [] => None,
            [("input", only)] => Some(only.clone()),
            all => Some(Json::object(all.iter().map(|(key, value)| (*key, value)))),
        };
        let any_object = || Json::stored(r#"{"type":"object"}"#);
        Input {
            instructions: agent.and_then(|agent| agent.instructions.clone()).unwrap_or_default(),
            task: task.into_iter().flatten().collect::<Vec<_>>().join("\n\n"),
            input,
            entity: brief.entity.as_ref().map(|entity| entity.value.fields.clone()),
            denials: brief
                .run
                .denials
                .iter()
                .map(|denial| denial.reason.clone().unwrap_or_else(|| "denied without a reason".to_owned()))
                .collect(),
            transcript: Turn::split(messages.iter().cloned()),
            tools: specs.clone(),
            output_schema: structured.map(|output| output.schema.clone().unwrap_or_else(any_object)),
            ..Input::default()
        }
    }

    /// Makes a call, or parks the run until a person has said something about it.
    async fn call(&self, work: &mut Work, call: &ToolCall, confirmed: bool) -> Step<()> {
        if let Some(question) = asks_a_person(work, call)? {
            let how = Settle::Yield { pause: Pause::Human { question: Some(question) }, usage: None };
            return Err(Halt::Settle(with_usage(how, work)));
        }
        let begun = Json::of(&json!({"invocation_id": call.id, "tool_name": call.name}))?;
        self.append(vec![event("tool.invocation_started", begun, None)]).await?;
        let context = CallContext {
            tenant_id: self.actor.tenant.clone(),
            session_id: self.id.clone(),
            idempotency_key: self.idempotency_key(call),
            confirmed,
        };
        let mut tries = 0;
        let outcome = loop {
            tries += 1;
            match work.tools.call(call, &context).await {
                // Nothing was reached, so nothing was done: the same call may be made again.
                Err(ToolError::Unreachable | ToolError::Unavailable { .. })
                    if tries < limits::TOOL_TRIES_MAX =>
                {
                    tokio::time::sleep(limits::TOOL_TRY_WAIT * tries).await;
                }
                outcome => break outcome,
            }
        };
        match outcome {
            Ok(Outcome::Done { content, is_error, .. }) => {
                self.answer(work, call, content, is_error, None).await
            }
            Ok(Outcome::NeedsConfirmation { summary }) if !confirmed => {
                let staged = Json::object([
                    ("id", &Json::of(&call.id)?),
                    ("name", &Json::of(&call.name)?),
                    ("summary", &Json::of(&summary)?),
                    ("args", &call.args),
                ]);
                let how = Settle::Yield { pause: Pause::Tool { call: Some(staged) }, usage: None };
                Err(Halt::Settle(with_usage(how, work)))
            }
            Ok(Outcome::NeedsConfirmation { .. }) => {
                let content = "refused: the tool asks again for what was agreed to".to_owned();
                self.answer(work, call, content, true, Some("refused")).await
            }
            Err(error @ (ToolError::TimedOut { .. } | ToolError::CutShort)) => {
                self.answer(work, call, error.to_string(), true, Some("outcome_unknown")).await
            }
            Err(error) => self.answer(work, call, error.to_string(), true, Some(error.code())).await,
        }
    }

    /// The same for every attempt of a call with these arguments, on any worker.
    fn idempotency_key(&self, call: &ToolCall) -> String {
        let mut hash = Sha256::new();
        let life = self.claimed.session.head.incarnation.0;
        for part in [life.as_bytes().as_slice(), call.id.as_bytes(), call.args.as_str().as_bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hex::encode(&hash.finalize()[..16])
    }

    /// Puts the result of a call into the log and the transcript.
    async fn answer(
        &self,
        work: &mut Work,
        call: &ToolCall,
        content: String,
        is_error: bool,
        outcome: Option<&str>,
    ) -> Step<()> {
        let mut fields = json!({"tool_call_id": call.id, "tool_name": call.name, "is_error": is_error});
        if let Some(outcome) = outcome {
            fields["outcome"] = outcome.into();
        }
        let text = Json::of(&json!([{"type": "text", "text": content.replace('\0', "\u{fffd}")}]))?;
        self.append(vec![event("agent.tool_result", Json::of(&fields)?, Some(text))]).await?;
        work.messages.push(Message::ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            content,
            is_error,
        });
        Ok(())
    }

    /// Hands in the result with the words that gave it. `false`: it has to be repaired, and the model is told how.
    async fn finish(&self, work: &mut Work, reply: &Reply, words: Vec<DraftEvent>) -> Step<bool> {
        let text = reply.text.as_str();
        let structured = work
            .brief
            .run
            .output
            .as_ref()
            .is_some_and(|output| !matches!(output.kind, OutputType::None | OutputType::Text));
        let said = || Json::of(&text.replace('\0', "\u{fffd}"));
        let result = match structured.then(|| json_in(text)).flatten() {
            Some(value) => Some(value),
            None if text.trim().is_empty() => None,
            None => Some(said()?),
        };
        let how = with_usage(Settle::Complete { result, text: None, usage: None }, work);
        match self.engine.settle_saying(&self.actor, &self.id, self.epoch, how, words).await {
            Ok(()) => Ok(true),
            Err(Error::OutputInvalid { complaints }) => {
                work.hear(reply);
                work.messages.push(Message::user(past::unfit(&complaints.join("; "))));
                // What was handed in is counted; the repair begins anew.
                work.spent_before = work.spent;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn append(&self, events: Vec<DraftEvent>) -> Step<()> {
        let wish = Append { events, expected_sequence: None, epoch: Some(self.epoch) };
        let done = self.engine.append(&self.actor, &self.id, wish, None).await?;
        if done.stop_requested {
            return Err(Halt::Settle(fail("stopped", "the session was asked to stop", false, None)));
        }
        Ok(())
    }
}

/// A reply as it stands in the log.
fn words(step: u64, reply: &Reply) -> Result<Vec<DraftEvent>, Error> {
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

fn event(kind: &str, metadata: Json, content: Option<Json>) -> DraftEvent {
    DraftEvent { kind: kind.to_owned(), metadata: Some(metadata), content, ..DraftEvent::default() }
}

/// Whether a decision is about this call. An answer goes to the call that asked for it.
fn decides(resume: &Resume, call: &ToolCall) -> bool {
    match &resume.tool_call {
        Some(staged) => staged
            .fields()
            .iter()
            .any(|(key, id)| key == "id" && id.read::<String>().is_ok_and(|id| id == call.id)),
        None => call.name == REQUEST_INPUT,
    }
}

const REQUEST_INPUT: &str = "request_input";

/// A tool of Sederunt's own, as a model is told of it.
fn builtin(name: &str) -> Option<ToolSpec> {
    (name == REQUEST_INPUT).then(|| ToolSpec {
        name: REQUEST_INPUT.to_owned(),
        description: "Asks a person a question and waits for the answer.".to_owned(),
        schema: Json::stored(
            r#"{"type":"object","required":["text"],"properties":{"text":{"type":"string","minLength":1},"schema":{"type":"object"}}}"#,
        ),
    })
}

/// The question that a call puts to a person, if it is such a call and the agent may make it.
fn asks_a_person(work: &Work, call: &ToolCall) -> Result<Option<Json>, Error> {
    if call.name != REQUEST_INPUT || !work.specs.iter().any(|spec| spec.name == REQUEST_INPUT) {
        return Ok(None);
    }
    let fields = call.args.fields();
    let asked = fields.iter().find(|(key, _)| key == "text").and_then(|(_, text)| text.read::<String>().ok());
    let text = asked
        .filter(|text| !text.trim().is_empty())
        .unwrap_or_else(|| "The agent asks for input.".to_owned());
    let mut question = vec![("text", Json::of(&text)?)];
    if let Some((_, schema)) = fields.iter().find(|(key, _)| key == "schema")
        && sederunt_core::work::output::check_schema("schema", schema).is_ok()
    {
        question.push(("schema", schema.clone()));
    }
    Ok(Some(Json::object(question.iter().map(|(key, value)| (*key, value)))))
}

/// The limit that a run has reached.
fn reached(limits: &RunLimits, spent: &Spent) -> Option<&'static str> {
    let tokens = spent.usage.input_tokens + spent.usage.output_tokens;
    let over = |limit: Option<u64>, used: u64| limit.is_some_and(|limit| used >= limit);
    if over(limits.steps, spent.steps) || spent.steps >= limits::STEPS_MAX {
        Some("steps")
    } else if over(limits.tokens, tokens) {
        Some("tokens")
    } else if over(limits.cost_micros, spent.usage.cost_micros.unwrap_or(0)) {
        Some("cost_micros")
    } else {
        None
    }
}

fn over(limit: &'static str) -> Settle {
    fail(&format!("limit_{limit}"), &format!("the run reached its limit of {limit}"), false, None)
}

fn fail(reason: &str, error: &str, retryable: bool, work: Option<&Work>) -> Settle {
    let error: String =
        error.replace('\0', "\u{fffd}").chars().take(sederunt_core::limits::SENTENCE_CHARS_MAX).collect();
    let how = Settle::Fail { error, retryable, reason: Some(reason.to_owned()), usage: None };
    match work {
        Some(work) => with_usage(how, work),
        None => how,
    }
}

/// What this run has used up, beside how it ends.
fn with_usage(mut how: Settle, work: &Work) -> Settle {
    let (before, now) = (&work.spent_before, &work.spent);
    let mut used = json!({
        "steps": now.steps - before.steps,
        "input_tokens": now.usage.input_tokens - before.usage.input_tokens,
        "output_tokens": now.usage.output_tokens - before.usage.output_tokens,
        "cached_tokens": now.usage.cached_tokens - before.usage.cached_tokens,
        "model": work.model_name,
    });
    if let Some(cost) = now.usage.cost_micros {
        used["cost_micros"] = (cost - before.usage.cost_micros.unwrap_or(0)).into();
    }
    let counted = Json::of(&used).ok();
    match &mut how {
        Settle::Complete { usage, .. } | Settle::Fail { usage, .. } | Settle::Yield { usage, .. } => {
            *usage = counted
        }
    }
    how
}

/// The JSON value that a text is, or holds between fences or braces.
fn json_in(text: &str) -> Option<Json> {
    let whole = text.trim();
    let fenced = whole
        .strip_prefix("```json")
        .or_else(|| whole.strip_prefix("```"))
        .and_then(|rest| rest.trim_end().strip_suffix("```"));
    let braced = || {
        let (from, to) = (whole.find(['{', '['])?, whole.rfind(['}', ']'])?);
        whole.get(from..=to)
    };
    [Some(whole), fenced, braced()]
        .into_iter()
        .flatten()
        .find_map(|text| Json::parse(text.trim().as_bytes()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_in_what_a_model_says() {
        for (text, found) in [
            (r#"{"a":1}"#, Some(r#"{"a":1}"#)),
            ("```json\n[1, 2]\n```", Some("[1,2]")),
            ("Here it is: {\"a\": {\"b\": 2}} — done.", Some(r#"{"a":{"b":2}}"#)),
            ("nothing", None),
            ("{broken", None),
        ] {
            assert_eq!(json_in(text).as_ref().map(Json::as_str), found, "{text}");
        }
    }

    #[test]
    fn a_run_ends_at_the_first_limit_it_reaches() {
        let spent = |steps, input_tokens, cost| Spent {
            steps,
            usage: crate::model::Usage { input_tokens, cost_micros: Some(cost), ..Default::default() },
        };
        let limits = RunLimits { steps: Some(3), tokens: Some(100), cost_micros: Some(50), wall_ms: None };
        for (spent, limit) in [
            (spent(2, 99, 49), None),
            (spent(3, 0, 0), Some("steps")),
            (spent(0, 100, 0), Some("tokens")),
            (spent(0, 0, 50), Some("cost_micros")),
        ] {
            assert_eq!(reached(&limits, &spent), limit, "{spent:?}");
        }
        assert_eq!(reached(&RunLimits::default(), &spent(limits::STEPS_MAX, 0, 0)), Some("steps"));
    }
}
