//! One turn, from its claim to its close: runs the pipeline, renews the lease beside it, and stops at once when asked
//! to.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use sederunt_core::engine::{FinishedTurn, RunningTurn};
use sederunt_core::event::{Event, EventType, NewEvent};
use sederunt_core::json::Json;
use sederunt_core::lesson::shown;
use sederunt_core::live::RowWatch;
use sederunt_core::memory::candidate::Buffer;
use sederunt_core::talk::pause::TurnApproval;
use sederunt_core::talk::silence::{self, HeldText};
use sederunt_core::talk::turn::{TurnOutcome, TurnOutcomeKind};
use sederunt_core::talk::{StateFields, TurnRecords};
use sederunt_core::{Conflict, Error};
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;

use super::pipeline::{ApprovalRequest, TurnAnswer, TurnFailure, TurnResult};
use super::{Conversations, Progress, TurnReply};
use crate::heartbeat::{Beat, ClaimEnd, Heartbeat};
use crate::limits;
use crate::model::Usage;
use crate::steps::reply_events::within;

/// The state of a turn, shared with its pipeline.
pub(super) struct TurnListener<'a> {
    conversations: &'a Conversations,
    pub(super) begun: &'a RunningTurn,
    heard: &'a UnboundedSender<Progress>,
    said: Mutex<String>,
    /// What of it the listener is not told yet: it may become a marker of silence.
    held: Mutex<HeldText>,
    row: Mutex<RowWatch>,
    /// The log holds calls of this turn.
    called: AtomicBool,
    /// The text so far is a logged message; the next text begins another one.
    kept: AtomicBool,
    /// The usage of this turn so far.
    used: Mutex<Usage>,
}

/// What a turn that is cut short leaves.
struct UnfinishedTurn {
    /// Text that is not in the log.
    said: String,
    /// The log holds calls of it.
    called: bool,
    used: Usage,
}

impl TurnListener<'_> {
    pub(super) fn stage(&self, stage: &'static str, detail: Option<String>) {
        let _ = self.heard.send(Progress::Stage { stage, detail });
    }

    /// Sends a piece of the reply to all readers, here and on other nodes.
    pub(super) fn say(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.said.lock().push_str(text);
        self.conversations.engine.say(self.begun, text);
        let shown = self.held.lock().push(text);
        self.tell(shown);
    }

    /// Tells the listener of text that readers are shown.
    fn tell(&self, shown: String) {
        if shown.is_empty() {
            return;
        }
        if self.kept.swap(false, Ordering::Relaxed) {
            let _ = self.heard.send(Progress::Chunk("\n\n".to_owned()));
        }
        let _ = self.heard.send(Progress::Chunk(shown));
    }

    /// Tells the listener what was held back: no more text follows.
    fn let_go(&self) {
        let rest = self.held.lock().finish();
        self.tell(rest);
    }

    /// Whether the row has changed since the last look: a stop or a steering message may be waiting. A message that
    /// was acknowledged before this call is never missed.
    pub(super) fn is_stirred(&self) -> bool {
        // A resumed turn has not seen the messages that came while it waited.
        let waited = self.begun.resume.is_some() && self.begun.talk.queue.iter().any(|queued| queued.steers);
        waited || self.row.lock().has_changed()
    }

    /// Notes that the log holds calls of this turn: if it is cut short, those without a result get one.
    pub(super) fn uses_tools(&self) {
        self.called.store(true, Ordering::Relaxed);
    }

    /// Notes that the text so far is in the log.
    pub(super) fn has_been_kept(&self) {
        self.let_go();
        let said = std::mem::take(&mut *self.said.lock());
        self.kept.fetch_or(!silence::shown_text(&said).is_empty(), Ordering::Relaxed);
    }

    /// Sets the usage of the turn so far.
    pub(super) fn has_used(&self, used: Usage) {
        *self.used.lock() = used;
    }

    pub(super) fn has_said(&self) -> bool {
        !self.said.lock().is_empty()
    }
}

impl Conversations {
    pub(super) async fn run_turn(
        &self,
        begun: &RunningTurn,
        message: &Event,
        heard: &UnboundedSender<Progress>,
    ) -> Result<TurnReply, Error> {
        let row = Mutex::new(self.engine.hub().watch_row(begun.incarnation()));
        let (said, held, called, kept, used) = Default::default();
        let listener =
            TurnListener { conversations: self, begun, heard, said, held, row, called, kept, used };
        let heartbeat = Heartbeat::new(self.engine.hub(), begun.incarnation(), self.hold.lease);
        let came = tokio::select! {
            came = self.answer(&listener, message) => came,
            end = self.watch(begun, heartbeat) => match end {
                ClaimEnd::Stopped => Err(TurnFailure::Stopped),
                ClaimEnd::Lost => return Err(Conflict::Fenced.into()),
            },
        };
        listener.let_go();
        let left = UnfinishedTurn {
            said: listener.said.into_inner(),
            called: listener.called.into_inner(),
            used: listener.used.into_inner(),
        };
        let finished = match came {
            Ok(TurnResult::Answered(answer)) => {
                Some(self.engine.finish_turn(begun, answered(begun, *answer)?).await?)
            }
            Ok(TurnResult::Asks(asks)) => match self.engine.pause_turn(begun, asking(begun, *asks)?).await {
                // A call that cannot be put before a person, such as one without a name, fails the turn.
                Err(error @ (Error::Invalid { .. } | Error::TooLarge { .. })) => {
                    Some(self.cut_short(begun, &TurnFailure::Engine(error), &left).await?)
                }
                paused => paused?,
            },
            Err(failure) => Some(self.cut_short(begun, &failure, &left).await?),
        };
        let finished = match finished {
            Some(finished) => finished,
            None => self.cut_short(begun, &TurnFailure::Stopped, &left).await?,
        };
        TurnReply::read(&finished.events, begun.turn)
            .unwrap_or_else(|| Err(Error::internal("a turn was closed without a word")))
    }

    /// Closes a turn that has no answer.
    async fn cut_short(
        &self,
        begun: &RunningTurn,
        failure: &TurnFailure,
        left: &UnfinishedTurn,
    ) -> Result<FinishedTurn, Error> {
        let mut outcome = cut_short(begun, failure, left)?;
        if left.called {
            outcome.events.splice(0..0, self.close_calls(begun).await?);
        }
        self.engine.finish_turn(begun, outcome).await
    }

    /// Renews the lease until the turn has to end.
    async fn watch(&self, begun: &RunningTurn, mut heartbeat: Heartbeat) -> ClaimEnd {
        loop {
            let stop_requested = match heartbeat.beat().await {
                Beat::Look => self.engine.look_at_turn(begun).await.map(|(stop, _)| stop),
                Beat::Renew => self.engine.renew_turn(begun).await,
            };
            if let Some(end) = ClaimEnd::of(stop_requested) {
                return end;
            }
        }
    }
}

/// The events that say what entered the prompt.
fn injected(what: &[(&'static str, Vec<String>)]) -> Result<Vec<NewEvent>, Error> {
    let event = |(kind, ids): &(&'static str, Vec<String>)| {
        let metadata = Json::of(&json!({"kind": kind, "ids": ids}))?;
        Ok(NewEvent::engine(EventType::known(shown::INJECTION), Some(metadata)))
    };
    what.iter().map(event).collect()
}

fn asking(begun: &RunningTurn, asks: ApprovalRequest) -> Result<TurnApproval, Error> {
    Ok(TurnApproval {
        events: injected(&asks.injected)?,
        usage: added_up(begun, &asks.usage)?,
        call: asks.staged,
        unmade: asks.unmade,
        summary: asks.summary,
        tier: begun.tier,
        speaker: begun.speaker.clone(),
    })
}

fn answered(begun: &RunningTurn, answer: TurnAnswer) -> Result<TurnOutcome, Error> {
    let mut events = injected(&answer.injected)?;
    for text in &answer.before {
        events.push(message(text, json!({}))?);
    }
    events.push(message(&answer.text, json!({"session_action": answer.action.as_str()}))?);
    Ok(TurnOutcome {
        kind: TurnOutcomeKind::Answered,
        events,
        change: answer.change,
        buffer: answer.buffer,
        crisis: answer.crisis.level.number(),
        records: answer.records,
        usage: added_up(begun, &answer.usage)?,
    })
}

/// What is kept of a turn without an answer: the text so far, and why there is no more.
fn cut_short(
    begun: &RunningTurn,
    failure: &TurnFailure,
    left: &UnfinishedTurn,
) -> Result<TurnOutcome, Error> {
    let mut events = Vec::new();
    let kind = match failure {
        TurnFailure::Stopped => TurnOutcomeKind::Stopped,
        TurnFailure::Model(_) | TurnFailure::Limit(_) | TurnFailure::Unfit(_) | TurnFailure::Engine(_) => {
            TurnOutcomeKind::Failed
        }
    };
    if !left.said.trim().is_empty() {
        events.push(message(&left.said, json!({"interrupted": true}))?);
    }
    if kind == TurnOutcomeKind::Failed {
        let metadata =
            Json::of(&json!({"code": failure.code(), "message": failure.sentence(), "turn": begun.turn}))?;
        events.push(NewEvent::engine(EventType::known("session.error"), Some(metadata)));
    }
    let buffer = begun.talk.sitting.as_ref().map_or_else(Buffer::default, |open| open.buffer.clone());
    Ok(TurnOutcome {
        kind,
        events,
        change: StateFields::default().with("route", kind.as_str().into()),
        buffer,
        crisis: 0,
        records: TurnRecords::default(),
        usage: added_up(begun, &left.used)?,
    })
}

/// A message of a turn. A reply that is longer than an event is cut and marked.
fn message(text: &str, metadata: serde_json::Value) -> Result<NewEvent, Error> {
    let text = within(text, limits::TEXT_EVENT_BYTES_MAX);
    let content = Json::of(&json!([{"type": "text", "text": text}]))?;
    let metadata = metadata.as_object().is_some_and(|fields| !fields.is_empty()).then(|| Json::of(&metadata));
    Ok(NewEvent {
        content: Some(content),
        ..NewEvent::engine(EventType::known("agent.message"), metadata.transpose()?)
    })
}

/// The session's usage counts all of its turns.
fn added_up(begun: &RunningTurn, used: &Usage) -> Result<Option<Json>, Error> {
    if *used == Usage::default() {
        return Ok(None);
    }
    let before: Usage =
        begun.session.details.usage.as_ref().and_then(|usage| usage.read().ok()).unwrap_or_default();
    let sum = Usage {
        input_tokens: before.input_tokens.saturating_add(used.input_tokens),
        output_tokens: before.output_tokens.saturating_add(used.output_tokens),
        cached_tokens: before.cached_tokens.saturating_add(used.cached_tokens),
        cost_micros: match (before.cost_micros, used.cost_micros) {
            (None, None) => None,
            (before, used) => Some(before.unwrap_or(0).saturating_add(used.unwrap_or(0))),
        },
    };
    Json::of(&sum).map(Some)
}
