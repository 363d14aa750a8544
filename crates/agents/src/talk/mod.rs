//! Conversations: what happens between a message and its reply, and when a sitting ends.
//!
//! This room owns the pipeline with its named stages ([`pipeline`]), the stage in which a model answers (`respond`)
//! and calls tools (`turn_tools`), the run of one turn from its claim to its close (`run_turn`), the one way in which
//! sittings end ([`end`]), spoken turns ([`voice`]), the sweep that ends silent sittings and resumes waiting messages
//! ([`sweep`]), and how a group is shown to a model (`company`). It keeps nothing that the log does not hold: what a
//! dying process leaves half done, the next node closes, and goes on.

mod channel;
pub mod checkpoint;
pub(crate) mod company;
mod crisis_classifier;
pub mod embeddings;
pub mod end;
pub mod pipeline;
pub mod reply;
mod respond;
mod run_turn;
pub mod sweep;
mod turn_tools;
pub mod voice;

use std::sync::Arc;
use std::time::Duration;

use sederunt_core::access::Actor;
use sederunt_core::engine::{Engine, NextTurn, Post, PostFate, RunningTurn, StreamItem};
use sederunt_core::event::Event;
use sederunt_core::ids::{CredentialId, ProcessWorker, SessionId, TenantId};
use sederunt_core::safety;
use sederunt_core::session::decide::OpenSession;
use sederunt_core::session::{MemoryMode, SessionType};
use sederunt_core::store::IdemKey;
use sederunt_core::talk::turn::TurnHost;
use sederunt_core::{Conflict, Error, limits as core_limits};
use tokio::sync::{mpsc, oneshot, watch};

pub use reply::TurnReply;

use crate::executor::Kit;
use crate::lesson_writer::LessonWriter;
use crate::model::realtime::Realtime;
use embeddings::MemoryEmbeddings;

/// How conversations are held here.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The model that answers when `quality` is asked for; the default model otherwise.
    pub response_model: Option<String>,
    pub safety: safety::Settings,
    /// Whether the default model checks a message for a crisis, besides the lexicon.
    pub classify: bool,
    /// Whether a model, where there is one, finds what is worth remembering; rules do otherwise.
    pub extract_by_model: bool,
    /// The instructions of conversations without an agent.
    pub instructions: String,
    /// Finds memories by meaning; without it they are found by words alone.
    pub embeddings: Option<Arc<MemoryEmbeddings>>,
    /// The provider with which browsers speak directly.
    pub realtime: Option<Arc<Realtime>>,
}

/// Runs conversations. Cheap to clone; all clones share one state.
#[derive(Clone, Debug)]
pub struct Conversations {
    engine: Engine,
    kit: Arc<Kit>,
    settings: Arc<Settings>,
    hold: TurnHost,
    /// How many turns run here.
    running: watch::Sender<usize>,
}

/// What a listener hears of a turn while it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    Stage { stage: &'static str, detail: Option<String> },
    Chunk(String),
}

/// A message that was accepted.
#[derive(Debug)]
pub struct AcceptedMessage {
    pub session: SessionId,
    pub message: Arc<Event>,
    /// The progress of its turn; closed when the turn is over. Silent for a turn that waits.
    pub progress: mpsc::UnboundedReceiver<Progress>,
    /// It is in the log, and nobody answers it.
    pub is_kept: bool,
    /// What the person is told at once.
    pub told: Option<String>,
    /// The turn's reply, where it runs here.
    end: Option<oneshot::Receiver<Result<TurnReply, Error>>>,
}

impl Conversations {
    pub fn new(engine: Engine, kit: Arc<Kit>, settings: Settings) -> Self {
        let hold = TurnHost {
            worker: "talk".into(),
            credential: CredentialId::of_process(ProcessWorker::Talker),
            lease: engine.settings().talk.lease,
        };
        Self { engine, kit, settings: Arc::new(settings), hold, running: watch::Sender::new(0) }
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The lesson writer, which draws lessons from feedback with the same models.
    pub fn lesson_writer(&self) -> LessonWriter {
        LessonWriter::new(self.engine.clone(), self.kit.clone())
    }

    /// The conversation of this name; opens it if there is none yet.
    pub async fn open(
        &self,
        actor: &Arc<Actor>,
        thread: &str,
        mode: Option<MemoryMode>,
    ) -> Result<SessionId, Error> {
        let id = SessionId::parse(thread).map_err(|error| match error {
            Error::Invalid { message, .. } => Error::invalid("thread_id", message),
            other => other,
        })?;
        match self.engine.session(actor, &id).await {
            Ok(session) if mode.is_none_or(|mode| mode == session.details.memory_mode) => return Ok(id),
            Ok(_) => return Err(Conflict::TypeMismatch { field: "memory_mode" }.into()),
            Err(Error::NotFound) => {}
            Err(error) => return Err(error),
        }
        let wish = OpenSession {
            id: Some(thread.to_owned()),
            session_type: Some(SessionType::Mixed),
            memory_mode: mode,
            ..OpenSession::default()
        };
        self.engine.open(actor, wish, None).await.map(|opened| opened.session.id)
    }

    /// Takes a message in and starts its turn, which goes on even if no caller waits for it.
    pub async fn post(
        &self,
        actor: &Arc<Actor>,
        id: &SessionId,
        wish: Post,
        key: Option<IdemKey>,
    ) -> Result<AcceptedMessage, Error> {
        for _ in 0..core_limits::DECIDE_ROUNDS_MAX {
            let posted = self.engine.post(actor, id, wish.clone(), &self.hold, key).await?;
            let (heard, progress) = mpsc::unbounded_channel();
            let is_kept = matches!(posted.fate, PostFate::Kept);
            let end = match posted.fate {
                PostFate::EndFirst(first) => {
                    self.end_first(&actor.tenant, id, first).await?;
                    continue;
                }
                PostFate::Started(begun) => Some(self.run_on(begun, posted.message.clone(), heard)),
                PostFate::Waits => {
                    self.go_on(&actor.tenant, id);
                    None
                }
                PostFate::Repeated | PostFate::Kept => None,
            };
            let (session, message, told) = (posted.session, posted.message, posted.told);
            return Ok(AcceptedMessage { session, message, progress, end, is_kept, told });
        }
        Err(Conflict::SessionBusy.into())
    }

    /// Runs an open turn, and then those that wait behind it. Returns where the reply comes.
    fn run_on(
        &self,
        begun: Box<RunningTurn>,
        message: Arc<Event>,
        heard: mpsc::UnboundedSender<Progress>,
    ) -> oneshot::Receiver<Result<TurnReply, Error>> {
        let (tell, end) = oneshot::channel();
        self.spawn(|this| async move {
            let done = this.run_turn(&begun, &message, &heard).await;
            drop(heard);
            let (tenant, id) = (begun.tenant().clone(), begun.session.id.clone());
            let goes_on = done.is_ok();
            let _ = tell.send(done);
            this.make_vectors_soon();
            if goes_on {
                this.work_off(&tenant, &id).await;
            }
        });
        end
    }

    /// Waits for the reply to a message, on any node. A message that nobody answers has an empty one.
    pub async fn reply_to(&self, actor: &Arc<Actor>, mut taken: AcceptedMessage) -> Result<TurnReply, Error> {
        if taken.is_kept {
            return Ok(TurnReply::none_to(taken.message.sequence));
        }
        if let Some(end) = taken.end.take() {
            return end.await.unwrap_or_else(|_| Err(Error::internal("a turn ended without a word")));
        }
        let turn = taken.message.sequence;
        let mut stream = self.engine.stream(actor.clone(), &taken.session, Some(turn)).await?;
        let mut events: Vec<Arc<Event>> = Vec::new();
        let wait = async {
            loop {
                match stream.next().await? {
                    StreamItem::Frames(frames) => {
                        let tells = frames.iter().filter(|frame| reply::tells_of_turns(&frame.event));
                        events.extend(tells.map(|frame| frame.event.clone()));
                        // A message that steered a turn is answered by that turn, and has none of its own.
                        let answering = events.iter().find_map(|event| reply::turn_that_took(event, turn));
                        if let Some(reply) = TurnReply::read(&events, answering.unwrap_or(turn)) {
                            return reply;
                        }
                    }
                    StreamItem::Ended => return Err(Error::NotFound),
                    StreamItem::Gap { .. }
                    | StreamItem::Ready
                    | StreamItem::Reply(_)
                    | StreamItem::Presence(_) => {}
                }
            }
        };
        tokio::time::timeout(crate::limits::REPLY_WAIT_MAX, wait)
            .await
            .unwrap_or_else(|_| Err(Conflict::SessionBusy.into()))
    }

    /// Runs the waiting turns of a conversation, one after the other, until none is left.
    async fn work_off(&self, tenant: &TenantId, id: &SessionId) {
        let (heard, _) = mpsc::unbounded_channel();
        loop {
            let next = match self.engine.next_turn(tenant, id, &self.hold).await {
                Ok(Some(NextTurn::Begun(begun))) => begun,
                Ok(Some(NextTurn::EndFirst(first))) => match self.end_first(tenant, id, first).await {
                    Ok(()) => continue,
                    Err(error) => return report(id, &error),
                },
                Ok(None) => return,
                Err(error) => return report(id, &error),
            };
            let message = match self.engine.said_at(&next).await {
                Ok(message) => message,
                Err(error) => return report(id, &error),
            };
            if let Err(error) = self.run_turn(&next, &message, &heard).await {
                report(id, &error);
            }
        }
    }

    /// Resumes a conversation after a decision, an answer or a stop.
    pub fn go_on(&self, tenant: &TenantId, id: &SessionId) {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.spawn(|this| async move { this.work_off(&tenant, &id).await });
    }

    fn spawn<F>(&self, work: impl FnOnce(Self) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let counted = TurnGuard::new(&self.running);
        let work = work(self.clone());
        tokio::spawn(async move {
            work.await;
            drop(counted);
        });
    }

    /// Waits until no turn runs here any more, at most for `patience`.
    pub async fn drain(&self, patience: Duration) {
        let mut running = self.running.subscribe();
        let _ = tokio::time::timeout(patience, running.wait_for(|running| *running == 0)).await;
    }
}

/// Counts one running turn for as long as it lives, however it ends.
struct TurnGuard(watch::Sender<usize>);

impl TurnGuard {
    fn new(running: &watch::Sender<usize>) -> Self {
        running.send_modify(|count| *count += 1);
        Self(running.clone())
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

fn report(session: &SessionId, error: &Error) {
    if error.code() != "fenced" {
        tracing::warn!(target: "sederunt::talk", %session, code = error.code(), "a turn failed; its message stays in the log");
    }
}
