//! One run of one session: from its claim to its settlement.
//!
//! Here is the way through a run. What the model is told and what it says is in `talk`, what becomes of the calls it
//! makes in `calls`, whom it asks in `people`, and how a run can end in `ends`.

mod calls;
mod ends;
mod people;
mod talk;

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::Error;
use sederunt_core::access::Actor;
use sederunt_core::engine::{Brief, DraftEvent, Engine};
use sederunt_core::event::{Event, EventQuery};
use sederunt_core::json::Json;
use sederunt_core::lesson::{Lesson, shown};
use sederunt_core::library::agent::Tool as Definition;
use sederunt_core::library::task::RunLimits;
use sederunt_core::library::{Agent, Defined};
use sederunt_core::view::answer::{self, Answer};
use sederunt_core::work::output::OutputType;
use sederunt_core::work::{Claimed, Settle};

use self::ends::{fail, over, with_usage};
use self::people::builtin;
use self::talk::json_in;
use super::kit::Kit;
use super::place::Place;
use super::pulse::{self, End};
use super::{Settings, Taken};
use crate::limits;
use crate::model::{Message, Model, Reply, Stop, ToolSpec};
use crate::steps::calls::Calls;
use crate::steps::past::{self, Open, Past, Spent};
use crate::steps::words::words;
use crate::steps::{self, Hand};
use crate::tool::Toolbox;

/// A session that is being worked on.
pub(super) struct Job {
    hand: Hand,
    kit: Arc<Kit>,
    claimed: Claimed,
    agent: Option<Defined<Agent>>,
    lease: Duration,
    /// Where people reach this server.
    base_url: String,
    /// Among the runs of the worker.
    place: Option<Place>,
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

impl From<steps::Halt> for Halt {
    fn from(halt: steps::Halt) -> Self {
        match halt {
            steps::Halt::Refused(error) => Self::Refused(error),
            steps::Halt::Stopped => {
                Self::Settle(fail("stopped", "the session was asked to stop", false, None))
            }
        }
    }
}

type Step<T> = Result<T, Halt>;

/// What a run works with, and where it stands.
struct Work {
    brief: Brief,
    /// What earlier feedback has taught about work like this.
    lessons: Vec<Lesson>,
    /// What people answered to forms of this session, in words.
    answers: Vec<String>,
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
        taken: Taken,
        settings: &Settings,
        place: Option<Place>,
    ) -> Self {
        let Taken { claimed, agent } = taken;
        let head = &claimed.session.head;
        let session = claimed.session.id.clone();
        let hand = Hand { engine, actor, session, life: head.incarnation, epoch: claimed.epoch, turn: None };
        let Settings { lease, base_url, .. } = settings.clone();
        Self { hand, kit, claimed, agent, lease, base_url, place }
    }

    /// Works and settles. An error means that the session is not ours to settle, or cannot be now.
    pub(super) async fn run(&self) -> Result<(), Error> {
        let Hand { engine, actor, session, epoch, .. } = &self.hand;
        let pulse = pulse::beat(engine, actor, session, *epoch, self.lease);
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
        let Hand { engine, actor, session, epoch, .. } = &self.hand;
        self.place.iter().for_each(Place::leave);
        engine.settle(actor, session, *epoch, how, None).await.map(drop)
    }

    /// Ends the run with its last words.
    async fn settle_saying(&self, how: Settle, words: Vec<DraftEvent>) -> Result<(), Error> {
        self.place.iter().for_each(Place::leave);
        self.hand.engine.settle_saying(&self.hand.actor, &self.claimed, how, words).await
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
        let brief = self.hand.engine.brief(&self.claimed, self.agent.clone()).await?;
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
        let tools = self.kit.toolbox(&self.hand.actor.tenant, definitions).await.map_err(unfit)?;
        let mut specs = tools.specs();
        specs.extend(definitions.iter().filter_map(|tool| match tool {
            Definition::Builtin(tool) => builtin(&tool.name),
            Definition::Http(_) | Definition::Mcp(_) => None,
        }));
        let limits = brief.run.limits.and(agent.map(|agent| agent.limits.of_a_run()).unwrap_or_default());
        let log = self.log().await?;
        let lessons = self.lessons(&brief, &log).await?;
        let answers = self.answers(&brief, &log).await?;
        let Past { messages, spent, open } = past::read(&log);
        let spent_before = spent;
        let mut work = Work {
            brief,
            lessons,
            answers,
            model,
            model_name,
            tools,
            specs,
            limits,
            messages,
            spent,
            spent_before,
        };
        self.close_open(&mut work, open).await?;
        Ok(work)
    }

    /// What the agent is given of earlier feedback. That it is stands in the log, once a session.
    async fn lessons(&self, brief: &Brief, log: &[Event]) -> Step<Vec<Lesson>> {
        let Hand { engine, actor, session, epoch, .. } = &self.hand;
        let agent = self.claimed.session.details.agent_slug.as_deref();
        let lessons = engine.lessons_for(&actor.tenant, agent, &self.about(brief)).await?;
        if !lessons.is_empty() && log.iter().all(|event| shown::ids_in(event).is_empty()) {
            engine.show_lessons(actor, session, *epoch, &lessons).await?;
        }
        Ok(lessons)
    }

    /// What the agent is told of answers to its forms: those that an earlier run was told of, and those that have come
    /// since. That it is stands in the log, so that whoever goes on is told the same.
    async fn answers(&self, brief: &Brief, log: &[Event]) -> Step<Vec<String>> {
        let Hand { engine, actor, session, epoch, .. } = &self.hand;
        let told: Vec<String> = log.iter().flat_map(answer::names_in).collect();
        let mut answers: Vec<Answer> =
            log.iter().filter_map(Answer::of).filter(|answer| told.contains(&answer.name)).collect();
        let fresh: Vec<Answer> =
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
    async fn log(&self) -> Step<Vec<Event>> {
        // Made, claimed, running: a log that says no more than this need not be read.
        const EVENTS_OF_A_CLAIM: u64 = 3;
        let mut events = Vec::new();
        if self.hand.epoch == 1 && self.claimed.session.head.last_sequence <= EVENTS_OF_A_CLAIM {
            return Ok(events);
        }
        let mut before = None;
        while events.len() < limits::LOG_EVENTS_READ {
            let query = EventQuery { before, newest_first: true, limit: 1000, ..EventQuery::default() };
            let page = self.hand.engine.log_of(&self.claimed, query).await?;
            before = Some(page.next_after);
            events.extend(page.events);
            if !page.has_more {
                break;
            }
        }
        events.reverse();
        Ok(events)
    }

    /// Asks the model and does what it says, until it is done.
    async fn steps(&self, work: &mut Work) -> Step<()> {
        loop {
            if let Some(limit) = work.spent.reached(&work.limits, limits::STEPS_MAX) {
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
                return Ok(self.settle_saying(how, words).await?);
            }
            if reply.calls.is_empty() {
                if self.finish(work, &reply, words).await? {
                    return Ok(());
                }
                continue;
            }
            let noted = self.hand.append(words).await?;
            work.hear(&reply);
            for open in Open::of_reply(&reply.calls, &noted) {
                self.call(work, &open).await?;
            }
        }
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
        match self.settle_saying(how, words).await {
            Ok(()) => Ok(true),
            Err(Error::OutputInvalid { complaints }) => {
                if let Some(place) = &self.place {
                    place.come_back().await;
                }
                work.hear(reply);
                work.messages.push(Message::user(past::unfit(&complaints.join("; "))));
                // What was handed in is counted; the repair begins anew.
                work.spent_before = work.spent;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn calls<'a>(&'a self, work: &'a Work) -> Calls<'a> {
        Calls { hand: &self.hand, tools: &work.tools }
    }
}
