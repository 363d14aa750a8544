//! One run of one session, from its claim to its settlement.
//!
//! This file holds the sequence of a run. What the model is told and says is in `talk`, its tool calls in `calls`,
//! its questions to people in `people`, and the ways a run can end in `ends`.

mod calls;
mod ends;
mod people;
mod talk;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sederunt_core::access::Actor;
use sederunt_core::activity::injection;
use sederunt_core::definitions::agent::Tool as Definition;
use sederunt_core::definitions::task::RunLimits;
use sederunt_core::definitions::{Agent, StoredDefinition};
use sederunt_core::engine::{Brief, DraftEvent, Engine, RecentActivity};
use sederunt_core::event::{Event, EventQuery};
use sederunt_core::json::Json;
use sederunt_core::lesson::{Lesson, shown};
use sederunt_core::view::answer::{self, ViewAnswer};
use sederunt_core::work::output::OutputType;
use sederunt_core::work::{ClaimedRun, Settle};
use sederunt_core::{Error, limits as core_limits};
use serde_json::json;

use self::ends::{UsageTally, fail, over, stopped, with_usage};
use self::people::builtin;
use self::talk::json_in;
use super::kit::Kit;
use super::slots::Slot;
use super::{ClaimedWork, Settings};
use crate::heartbeat::{Beat, ClaimEnd, Heartbeat};
use crate::limits;
use crate::model::{Message, Model, ModelReply, StopReason, ToolSpec};
use crate::steps::calls::{CallAnswer, CallRunner};
use crate::steps::document_tool;
use crate::steps::replay::{self, LogReplay, OpenCall};
use crate::steps::reply_events::{reply_events, within};
use crate::steps::{self, ClaimContext};
use crate::tool::Toolbox;

/// A session that is being worked on.
pub(super) struct Job {
    claim: ClaimContext,
    kit: Arc<Kit>,
    claimed: ClaimedRun,
    agent: Option<StoredDefinition<Agent>>,
    lease: Duration,
    /// The base address of this server, for links.
    base_url: String,
    /// The run's concurrency slot at this worker.
    slot: Option<Slot>,
    /// The state of the run that is needed if it is cut short.
    trace: Mutex<RunTrace>,
    /// Held while the run is being settled.
    settlement: tokio::sync::Mutex<()>,
}

/// The state of a run that is cut short.
#[derive(Debug, Default)]
struct RunTrace {
    /// The part of the model's current reply that is not in the log yet.
    said: String,
    tally: Option<UsageTally>,
}

/// Why a run stopped without a result.
enum RunHalt {
    /// The engine refused an append or another command.
    Refused(Error),
    /// The run ends in this way.
    Settle(Settle),
    /// The run is cut short, in this way: what was said and begun until now is kept.
    CutShort(Settle),
}

impl From<Error> for RunHalt {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<steps::StepHalt> for RunHalt {
    fn from(halt: steps::StepHalt) -> Self {
        match halt {
            steps::StepHalt::Refused(error) => Self::Refused(error),
            steps::StepHalt::Stopped => Self::CutShort(stopped()),
        }
    }
}

type RunResult<T> = Result<T, RunHalt>;

/// The inputs and the state of a run.
struct RunState {
    brief: Brief,
    /// Lessons from earlier feedback about similar work.
    lessons: Vec<Lesson>,
    /// What people answered to forms of this session, in words.
    answers: Vec<String>,
    /// What the person who triggered the run did last.
    activity: Option<RunActivity>,
    model: Arc<dyn Model>,
    tools: Toolbox,
    specs: Vec<ToolSpec>,
    limits: RunLimits,
    messages: Vec<Message>,
    tally: UsageTally,
    /// Replies in a row that called a tool with arguments that cannot be read.
    bad_replies: u32,
}

/// The activity that a run is given.
struct RunActivity {
    recent: RecentActivity,
    /// The log says that it entered a prompt.
    is_logged: bool,
}

impl RunState {
    /// Adds a reply to the transcript.
    fn hear(&mut self, reply: &ModelReply) {
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
        taken: ClaimedWork,
        settings: &Settings,
        slot: Option<Slot>,
    ) -> Self {
        let ClaimedWork { claimed, agent } = taken;
        let head = &claimed.session.head;
        let session = claimed.session.id.clone();
        let (life, epoch, in_flight) = (head.incarnation, claimed.epoch, Mutex::default());
        let claim = ClaimContext { engine, actor, session, life, epoch, turn: None, in_flight };
        let Settings { lease, base_url, .. } = settings.clone();
        let (trace, settlement) = Default::default();
        Self { claim, kit, claimed, agent, lease, base_url, slot, trace, settlement }
    }

    /// Works and settles. An error means that this worker may not settle the session, or cannot now.
    pub(super) async fn run(&self) -> Result<(), Error> {
        let heartbeat = Heartbeat::new(self.claim.engine.hub(), self.claim.life, self.lease);
        let halt = tokio::select! {
            end = self.watch(heartbeat) => match end {
                ClaimEnd::Lost => return Ok(()),
                ClaimEnd::Stopped => RunHalt::CutShort(stopped()),
            },
            how = self.work() => match how {
                Ok(()) => return Ok(()),
                Err(halt) => halt,
            },
        };
        match halt {
            RunHalt::Settle(how) => self.settle(self.with_tally(how)).await,
            RunHalt::CutShort(how) => match self.last_words()? {
                words if words.is_empty() => self.settle(self.with_tally(how)).await,
                words => self.settle_saying(self.with_tally(how), words).await,
            },
            RunHalt::Refused(error) => match error.code() {
                "fenced" | "not_found" | "session_closed" => Err(error),
                code => {
                    let how = fail(code, &error.to_string(), matches!(error, Error::Unavailable(_)), None);
                    self.settle(self.with_tally(how)).await
                }
            },
        }
    }

    /// Renews the lease until the run has to end.
    async fn watch(&self, mut heartbeat: Heartbeat) -> ClaimEnd {
        let ClaimContext { engine, actor, session, epoch, .. } = &self.claim;
        loop {
            let stop_requested = match heartbeat.beat().await {
                Beat::Look => {
                    // The settlement changes the row itself, and decides on a stop that came before it.
                    drop(self.settlement.lock().await);
                    engine.look_at_claim(&self.claimed).await
                }
                Beat::Renew => {
                    let beat = engine.heartbeat(actor, session, *epoch, Some(self.lease)).await;
                    beat.map(|beat| beat.stop_requested)
                }
            };
            if let Some(end) = ClaimEnd::of(stop_requested) {
                return end;
            }
        }
    }

    /// Adds the run's usage to a settlement that has none.
    fn with_tally(&self, how: Settle) -> Settle {
        match &self.trace.lock().tally {
            Some(tally) => tally.beside(how),
            None => how,
        }
    }

    /// The events that a run which is cut short still has to log: the reply as far as it was received, and the
    /// unknown outcome of the call in flight.
    fn last_words(&self) -> Result<Vec<DraftEvent>, Error> {
        let mut words = Vec::new();
        let said = std::mem::take(&mut self.trace.lock().said);
        if !said.trim().is_empty() {
            let text = within(&said, limits::TEXT_EVENT_BYTES_MAX);
            let content = Json::of(&json!([{"type": "text", "text": text}]))?;
            let interrupted = Json::of(&json!({"interrupted": true}))?;
            words.push(steps::event("agent.message", interrupted, Some(content)));
        }
        if let Some(call) = self.claim.in_flight.lock().take() {
            words.extend(CallAnswer::unknown().events(&call, true)?);
        }
        Ok(words)
    }

    async fn settle(&self, how: Settle) -> Result<(), Error> {
        let ClaimContext { engine, actor, session, epoch, .. } = &self.claim;
        self.slot.iter().for_each(Slot::leave);
        engine.settle(actor, session, *epoch, how, None).await.map(drop)
    }

    /// Ends the run with its last words.
    async fn settle_saying(&self, how: Settle, words: Vec<DraftEvent>) -> Result<(), Error> {
        let _settling = self.settlement.lock().await;
        self.slot.iter().for_each(Slot::leave);
        self.claim.engine.settle_saying(&self.claim.actor, &self.claimed, how, words).await
    }

    /// Works until the run is settled.
    async fn work(&self) -> RunResult<()> {
        let mut work = self.begin().await?;
        let limits = work.limits;
        let wall = limits.wall_ms.map(Duration::from_millis);
        let steps = self.steps(&mut work);
        match wall {
            None => steps.await,
            Some(wall) => match tokio::time::timeout(wall, steps).await {
                Ok(done) => done,
                Err(_) => Err(RunHalt::CutShort(over("wall_ms", &limits))),
            },
        }
    }

    async fn begin(&self) -> RunResult<RunState> {
        let brief = self.claim.engine.brief(&self.claimed, self.agent.clone()).await?;
        let agent = brief.agent.as_ref().map(|agent| &agent.value);
        let model_name = match agent {
            Some(agent) => self.kit.name_of(agent.model.as_deref()).to_owned(),
            // Sessions of the built-in agent need no definition.
            None => "eliza".to_owned(),
        };
        let unfit =
            |error: super::kit::Unfit| RunHalt::Settle(fail("agent_unfit", &error.to_string(), false, None));
        let model = self.kit.model(&model_name).map_err(unfit)?;
        let definitions = agent.map_or(&[][..], |agent| &agent.tools[..]);
        let (engine, session) = (&self.claim.engine, &self.claimed.session);
        let mut tools = self.kit.toolbox_of(engine, session, definitions).await.map_err(unfit)?;
        document_tool::offer(&mut tools, definitions, &self.claim).map_err(|bad| unfit(bad.into()))?;
        let mut specs = tools.specs();
        specs.extend(definitions.iter().filter_map(|tool| match tool {
            Definition::Builtin(tool) => builtin(&tool.name),
            Definition::Http(_) | Definition::Mcp(_) | Definition::Tool(_) => None,
        }));
        let limits = brief.run.limits.and(agent.map(|agent| agent.limits.of_a_run()).unwrap_or_default());
        self.kit.check_price(&model_name, &limits).map_err(unfit)?;
        let log = self.log().await?;
        let lessons = self.lessons(&brief, &log).await?;
        let answers = self.answers(&brief, &log).await?;
        let activity = self.claim.engine.activity_for_run(&self.claimed, agent).await?.map(|recent| {
            let is_logged = log.iter().any(|event| injection::names_bridge(event, &recent.bridge));
            RunActivity { recent, is_logged }
        });
        let LogReplay { messages, spent, open } = replay::read(&log);
        let tally = UsageTally { model: model_name, before: spent, now: spent };
        self.trace.lock().tally = Some(tally.clone());
        let mut work = RunState {
            brief,
            lessons,
            answers,
            activity,
            model,
            tools,
            specs,
            limits,
            messages,
            tally,
            bad_replies: 0,
        };
        self.close_open(&mut work, open).await?;
        Ok(work)
    }

    /// The lessons that the agent is given. The log records them once a session.
    async fn lessons(&self, brief: &Brief, log: &[Event]) -> RunResult<Vec<Lesson>> {
        let ClaimContext { engine, actor, session, epoch, .. } = &self.claim;
        let agent = self.claimed.session.details.agent_slug.as_deref();
        let lessons = engine.lessons_for(&actor.tenant, agent, &self.about(brief)).await?;
        if !lessons.is_empty() && log.iter().all(|event| shown::ids_in(event).is_empty()) {
            engine.show_lessons(actor, session, *epoch, &lessons).await?;
        }
        Ok(lessons)
    }

    /// The answers to its views that the agent is given: those that an earlier run was given, and those that have
    /// come since. The log records them, so that a worker that takes over gives the same.
    async fn answers(&self, brief: &Brief, log: &[Event]) -> RunResult<Vec<String>> {
        let ClaimContext { engine, actor, session, epoch, .. } = &self.claim;
        let told: Vec<String> = log.iter().flat_map(answer::names_in).collect();
        let mut answers: Vec<ViewAnswer> =
            log.iter().filter_map(ViewAnswer::of).filter(|answer| told.contains(&answer.name)).collect();
        let fresh: Vec<ViewAnswer> =
            brief.answers.iter().filter(|answer| !told.contains(&answer.name)).cloned().collect();
        if !fresh.is_empty() {
            engine.show_answers(actor, session, *epoch, &fresh).await?;
            answers.extend(fresh);
        }
        Ok(answers
            .iter()
            .map(|answer| Ok(answer.told()?.as_str().to_owned()))
            .collect::<Result<_, Error>>()?)
    }

    /// The newest part of the log, oldest first.
    async fn log(&self) -> RunResult<Vec<Event>> {
        // Created, claimed, running: a log of only these events need not be read.
        const EVENTS_OF_A_CLAIM: u64 = 3;
        let mut events = Vec::new();
        if self.claim.epoch == 1 && self.claimed.session.head.last_sequence <= EVENTS_OF_A_CLAIM {
            return Ok(events);
        }
        let mut before = None;
        while events.len() < limits::LOG_EVENTS_READ {
            let query = EventQuery { before, newest_first: true, limit: 1000, ..EventQuery::default() };
            let page = self.claim.engine.log_of(&self.claimed, query).await?;
            before = Some(page.next_after);
            events.extend(page.events);
            if !page.has_more {
                break;
            }
        }
        events.reverse();
        Ok(events)
    }

    /// Asks the model and carries out its calls, until it is done.
    async fn steps(&self, work: &mut RunState) -> RunResult<()> {
        loop {
            if let Some(limit) = work.tally.now.reached(&work.limits, limits::STEPS_MAX) {
                return Err(RunHalt::Settle(with_usage(over(limit, &work.limits), work)));
            }
            let reply = self.ask(work).await?;
            work.tally.now.add(reply.usage);
            self.trace.lock().tally = Some(work.tally.clone());
            let words = reply_events(work.tally.now.steps, &reply)?;
            let cut = match reply.stop {
                StopReason::Refused => Some(("model_refused", "the model would not answer")),
                StopReason::Length => Some(("reply_cut", "the reply was longer than allowed")),
                StopReason::End | StopReason::Calls => None,
            };
            if let Some((reason, error)) = cut {
                let how = fail(reason, error, false, Some(work));
                return Ok(self.settle_saying(how, words).await?);
            }
            work.bad_replies = if reply.bad_calls.is_empty() { 0 } else { work.bad_replies + 1 };
            if work.bad_replies > limits::BAD_ARGUMENTS_MAX {
                let error = "the model called tools with arguments that cannot be read, again and again";
                let how = fail("model_bad_arguments", error, false, Some(work));
                return Ok(self.settle_saying(how, words).await?);
            }
            if reply.calls.is_empty() {
                if self.finish(work, &reply, words).await? {
                    return Ok(());
                }
                continue;
            }
            // From here on the log holds the reply.
            self.trace.lock().said.clear();
            let noted = self.claim.append(words).await?;
            work.hear(&reply);
            for open in OpenCall::of_reply(&reply.calls, &noted) {
                self.call(work, &open).await?;
            }
        }
    }

    /// Settles with the result and the reply's events. `false`: the result has to be repaired, and the model is told
    /// how.
    async fn finish(
        &self,
        work: &mut RunState,
        reply: &ModelReply,
        words: Vec<DraftEvent>,
    ) -> RunResult<bool> {
        let text = reply.text.as_str();
        let structured = work
            .brief
            .run
            .output
            .as_ref()
            .is_some_and(|output| !matches!(output.kind, OutputType::None | OutputType::Text));
        let said = || Json::of(&within(text, core_limits::EVENT_BYTES_MAX));
        let result = match structured.then(|| json_in(text)).flatten() {
            Some(value) => Some(value),
            None if text.trim().is_empty() => None,
            None => Some(said()?),
        };
        if result.as_ref().is_some_and(|result| result.len() > core_limits::EVENT_BYTES_MAX) {
            let error = format!("the result is larger than {} bytes", core_limits::EVENT_BYTES_MAX);
            self.settle_saying(fail("result_too_large", &error, false, Some(work)), words).await?;
            return Ok(true);
        }
        let how = with_usage(Settle::Complete { result, text: None, usage: None }, work);
        match self.settle_saying(how, words).await {
            Ok(()) => Ok(true),
            Err(Error::OutputInvalid { complaints }) => {
                if let Some(slot) = &self.slot {
                    slot.come_back().await;
                }
                self.trace.lock().said.clear();
                work.hear(reply);
                work.messages.push(Message::user(replay::unfit(&complaints.join("; "))));
                // What was settled is counted; the repair starts counting at zero.
                work.tally.before = work.tally.now;
                self.trace.lock().tally = Some(work.tally.clone());
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn calls<'a>(&'a self, work: &'a RunState) -> CallRunner<'a> {
        CallRunner { claim: &self.claim, tools: &work.tools }
    }
}
