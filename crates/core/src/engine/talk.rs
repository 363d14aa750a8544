//! Commands of conversations: a message arrives, its turn is run, and ends.
//!
//! A turn costs two commits: one that keeps the message and opens the turn, one that keeps the reply and closes it.
//! In between, the node that runs the turn holds it by an epoch, and is fenced if its lease ends first.

use std::sync::Arc;

use smallvec::smallvec;

use super::log::{DraftEvent, check_batch};
use super::{CommandOutcome, Decided, Engine};
use crate::access::{Actor, Verb};
use crate::channel::delivery;
use crate::error::{Conflict, Error, Result};
use crate::event::{AppendOutcome, Event, NewEvent};
use crate::ids::{Incarnation, SessionId, TenantId};
use crate::json::Json;
use crate::live::Delta;
use crate::memory::Owner;
use crate::memory::owner::{TurnSpeaker, memory_owner};
use crate::session::Session;
use crate::store::{
    Change, ChangePart, ClaimChange, CommitResult, DueSession, Fence, Guard, IdemKey, PartTarget, Update,
    Write,
};
use crate::talk::turn::{
    self, EndFirst, IncomingMessage, MessagePlan, OnBusy, TurnHost, TurnOutcome, TurnOutcomeKind, TurnPlan,
};
use crate::talk::{Talk, Tier};
use crate::time::Timestamp;
use crate::work::run::{Resume, Run};

/// A message that a caller posts.
#[derive(Clone, Debug)]
pub struct Post {
    pub content: Json,
    pub on_busy: OnBusy,
    pub tier: Tier,
    /// The user whose memory to use, where the caller may name one.
    pub user: Option<String>,
}

impl Post {
    /// A plain text that queues while another turn runs.
    pub fn text(text: &str) -> Result<Self> {
        Ok(Self { content: Json::of(&text)?, on_busy: OnBusy::default(), tier: Tier::default(), user: None })
    }
}

/// The outcome of a post.
#[derive(Debug)]
pub struct PostResult {
    pub session: SessionId,
    pub message: Arc<Event>,
    pub fate: PostFate,
}

#[derive(Debug)]
pub enum PostFate {
    /// Its turn is open; the caller must run it.
    Started(Box<RunningTurn>),
    /// It waits for its turn.
    Waits,
    /// A repeat of an earlier request, whose turn is already handled.
    Repeated,
    /// The open sitting must be ended first; nothing was stored.
    EndFirst(EndFirst),
}

/// A running turn: what its node needs to run it, and the claim that proves its right.
#[derive(Clone, Debug)]
pub struct RunningTurn {
    pub session: Session,
    pub talk: Talk,
    pub epoch: u64,
    /// The sequence of the message that it answers.
    pub turn: u64,
    /// This turn is the first of its sitting.
    pub opened: bool,
    pub tier: Tier,
    /// Who said that message.
    pub speaker: TurnSpeaker,
    /// A person's decision, where this turn goes on after one.
    pub resume: Option<Resume>,
    pub(super) hold: TurnHost,
}

impl RunningTurn {
    pub fn tenant(&self) -> &TenantId {
        &self.session.tenant
    }

    pub fn incarnation(&self) -> Incarnation {
        self.session.head.incarnation
    }

    /// Whose memory this turn reads, as its session stood when it started or went on.
    pub fn owner(&self) -> Owner {
        memory_owner(&self.session, &self.speaker)
    }

    /// The change, to be refused once the turn has lost its claim.
    fn fenced(&self, mut change: Change) -> Change {
        if let Some(part) = change.parts.first_mut() {
            part.guard.fence = Some(Fence { credential: self.hold.credential.clone(), epoch: self.epoch });
        }
        change
    }
}

/// A turn that took place elsewhere, in spoken words.
#[derive(Clone, Debug)]
pub struct SpokenTurn {
    pub content: Json,
    /// Identifies the turn, so that a repeat is recognised.
    pub external_id: String,
    pub user: Option<String>,
}

/// A recorded turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedTurn {
    /// The sequence of the recorded message.
    pub sequence: u64,
    /// It had been recorded before.
    pub repeated: bool,
}

/// A turn that has ended.
#[derive(Debug)]
pub struct FinishedTurn {
    /// The events that the end of the turn wrote.
    pub events: Vec<Arc<Event>>,
    pub talk: Talk,
    pub session: Session,
}

impl Engine {
    /// Takes a message into a conversation. Its turn starts, or waits for the one that runs.
    pub async fn post(
        &self,
        actor: &Actor,
        id: &SessionId,
        wish: Post,
        hold: &TurnHost,
        key: Option<IdemKey>,
    ) -> Result<PostResult> {
        let draft = DraftEvent {
            kind: "user.message".to_owned(),
            content: Some(wish.content.clone()),
            ..DraftEvent::default()
        };
        let event =
            check_batch(actor, vec![draft])?.pop().ok_or_else(|| Error::internal("a draft is gone"))?;
        self.check_byte_quota(actor).await?;
        let speaker = TurnSpeaker::of(actor, wish.user.as_deref())?;
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let (session, talk) = self.conversation(actor, Verb::Talk, id).await?;
                    let now = self.tenant.now().await?;
                    let message = IncomingMessage {
                        event: event.clone(),
                        on_busy: wish.on_busy,
                        tier: wish.tier,
                        speaker: speaker.clone().in_sitting_of(
                            actor,
                            &session,
                            talk.sitting.as_ref().map(|open| &open.owner),
                        ),
                    };
                    let (plan, starts) =
                        match turn::begin(&session, &talk, message, hold, now, &self.settings.talk)? {
                            MessagePlan::Started(plan) => (plan, true),
                            MessagePlan::Queued(plan) => (plan, false),
                            MessagePlan::EndFirst(first) => return Ok(Decided::Nothing(first)),
                        };
                    let opened = talk.sitting.is_none();
                    let change = self.turn_change(&session, &plan, turn::died(&session, now)).await?;
                    let change = change.keyed(key);
                    Ok(Decided::Change(Box::new(change), (session, plan.talk, starts, opened)))
                })
            })
            .await?;
        let (done, (session, talk, starts, opened)) = match done {
            CommandOutcome::Done(done, planned) => (done, planned),
            CommandOutcome::Nothing(first) => {
                let message = Arc::new(unkept(id, event));
                return Ok(PostResult { session: id.clone(), message, fate: PostFate::EndFirst(first) });
            }
        };
        if let Some(replay) = &done.replay {
            let message = self.message_among(actor, id, &replay.sequences).await?;
            return Ok(PostResult { session: id.clone(), message, fate: PostFate::Repeated });
        }
        let (session, talk, appended) = landed(session, talk, *done)?;
        let message = appended
            .into_iter()
            .filter_map(new_event)
            .find(|event| event.kind.as_str() == "user.message")
            .ok_or_else(|| Error::internal("a commit lost its message"))?;
        let fate = if starts {
            let (epoch, turn) = (session.head.epoch, message.sequence);
            PostFate::Started(Box::new(RunningTurn {
                session,
                talk,
                epoch,
                turn,
                opened,
                tier: wish.tier,
                speaker,
                resume: None,
                hold: hold.clone(),
            }))
        } else {
            PostFate::Waits
        };
        Ok(PostResult { session: id.clone(), message, fate })
    }

    /// Goes on with a decided turn, or opens the turn of the first queued message, if nothing runs. `None` if there
    /// is nothing to do; never `SessionBusy`.
    pub async fn next_turn(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        hold: &TurnHost,
    ) -> Result<Option<NextTurn>> {
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let Some((session, talk)) = self.sessions.talk(tenant, id).await? else {
                        return Ok(Decided::Nothing(None));
                    };
                    let now = self.tenant.now().await?;
                    let plan = match turn::next(&session, &talk, hold, now, &self.settings.talk)? {
                        None => return Ok(Decided::Nothing(None)),
                        Some(MessagePlan::EndFirst(first)) => return Ok(Decided::Nothing(Some(first))),
                        Some(MessagePlan::Started(plan) | MessagePlan::Queued(plan)) => plan,
                    };
                    let (tier, speaker, resume) = match (&talk.paused, talk.queue.first()) {
                        (Some(paused), _) => (paused.tier, paused.speaker.clone(), Run::of(&session).resume),
                        (None, Some(queued)) => (queued.tier, queued.speaker.clone(), None),
                        (None, None) => return Err(Error::internal("a turn was opened for no message")),
                    };
                    let opened = talk.sitting.is_none();
                    let change = self.turn_change(&session, &plan, turn::died(&session, now)).await?;
                    let planned = (session, plan.talk, opened, tier, speaker, resume);
                    Ok(Decided::Change(Box::new(change), planned))
                })
            })
            .await;
        let (done, (session, talk, opened, tier, speaker, resume)) = match done {
            Ok(CommandOutcome::Done(done, planned)) => (done, planned),
            Ok(CommandOutcome::Nothing(first)) => return Ok(first.map(NextTurn::EndFirst)),
            // Another node has taken it.
            Err(Error::Conflict(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let (session, talk, _) = landed(session, talk, *done)?;
        let turn = session.head.turn.map_or(0, |turn| turn.sequence);
        let epoch = session.head.epoch;
        Ok(Some(NextTurn::Begun(Box::new(RunningTurn {
            session,
            talk,
            epoch,
            turn,
            opened,
            tier,
            speaker,
            resume,
            hold: hold.clone(),
        }))))
    }

    /// Closes a turn with its reply, records and state. Fenced if its lease ended before.
    pub async fn finish_turn(&self, begun: &RunningTurn, outcome: TurnOutcome) -> Result<FinishedTurn> {
        let is_cut_short = outcome.kind != TurnOutcomeKind::Answered;
        let finish = |session: &Session, talk: &Talk| turn::finish(session, talk, outcome.clone()).map(Some);
        self.release_turn(begun, is_cut_short, finish)
            .await?
            .ok_or_else(|| Error::internal("a turn did not end"))
    }

    /// Ends the claim of a turn, as `decide` plans it on the current row. `None`: `decide` keeps the claim.
    pub(super) async fn release_turn(
        &self,
        begun: &RunningTurn,
        is_cut_short: bool,
        decide: impl Fn(&Session, &Talk) -> Result<Option<TurnPlan>> + Sync,
    ) -> Result<Option<FinishedTurn>> {
        let mut known = Some((begun.session.clone(), begun.talk.clone()));
        let done = self
            .decide_and_commit(|| {
                let known = known.take();
                let decide = &decide;
                Box::pin(async move {
                    let (session, talk) = match known {
                        Some(known) => known,
                        None => self.running_turn(begun).await?,
                    };
                    let Some(plan) = decide(&session, &talk)? else { return Ok(Decided::Nothing(())) };
                    let change = begun.fenced(self.turn_change(&session, &plan, is_cut_short).await?);
                    Ok(Decided::Change(Box::new(change), (session, plan.talk)))
                })
            })
            .await?;
        let CommandOutcome::Done(done, (session, talk)) = done else { return Ok(None) };
        let (session, talk, appended) = landed(session, talk, *done)?;
        let events = appended.into_iter().filter_map(new_event).collect();
        Ok(Some(FinishedTurn { events, talk, session }))
    }

    /// The conversation of a turn as it is now. Fenced if the turn has lost its claim.
    async fn running_turn(&self, begun: &RunningTurn) -> Result<(Session, Talk)> {
        let (session, talk) =
            self.sessions.talk(begun.tenant(), &begun.session.id).await?.ok_or(Error::NotFound)?;
        if session.head.epoch != begun.epoch || session.head.incarnation != begun.incarnation() {
            return Err(Conflict::Fenced.into());
        }
        Ok((session, talk))
    }

    /// Records a turn that took place elsewhere, unless the open sitting must be ended first. The same key again
    /// changes nothing.
    pub async fn record_turn(
        &self,
        actor: &Actor,
        id: &SessionId,
        said: SpokenTurn,
        outcome: TurnOutcome,
        key: IdemKey,
    ) -> Result<Result<RecordedTurn, EndFirst>> {
        let draft = DraftEvent {
            kind: "user.message".to_owned(),
            content: Some(said.content),
            external_event_id: Some(said.external_id),
            ..DraftEvent::default()
        };
        let event =
            check_batch(actor, vec![draft])?.pop().ok_or_else(|| Error::internal("a draft is gone"))?;
        let speaker = TurnSpeaker::of(actor, said.user.as_deref())?;
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let (session, talk) = self.conversation(actor, Verb::Talk, id).await?;
                    let now = self.tenant.now().await?;
                    let asked = IncomingMessage {
                        event: event.clone(),
                        on_busy: OnBusy::Reject,
                        tier: Tier::Fast,
                        speaker: speaker.clone().in_sitting_of(
                            actor,
                            &session,
                            talk.sitting.as_ref().map(|open| &open.owner),
                        ),
                    };
                    let settings = &self.settings.talk;
                    match turn::record(&session, &talk, asked, outcome.clone(), now, settings)? {
                        MessagePlan::Started(plan) | MessagePlan::Queued(plan) => {
                            let change = self.turn_change(&session, &plan, turn::died(&session, now)).await?;
                            Ok(Decided::change(change.keyed(Some(key))))
                        }
                        MessagePlan::EndFirst(first) => Ok(Decided::Nothing(first)),
                    }
                })
            })
            .await;
        let done = match self.or_replayed(actor, Some(key), done).await? {
            CommandOutcome::Done(done, ()) => done,
            CommandOutcome::Nothing(first) => return Ok(Err(first)),
        };
        let (sequences, repeated) = match &done.replay {
            Some(replay) => (replay.sequences.clone(), true),
            None => (
                done.parts
                    .iter()
                    .flat_map(|part| part.appended.iter().map(AppendOutcome::sequence))
                    .collect(),
                false,
            ),
        };
        let message = self.message_among(actor, id, &sequences).await?;
        Ok(Ok(RecordedTurn { sequence: message.sequence, repeated }))
    }

    /// Renews a turn's lease; returns whether it was asked to stop.
    pub async fn renew_turn(&self, begun: &RunningTurn) -> Result<bool> {
        let update = Update { claim: Some(ClaimChange::Renew(begun.hold.lease)), ..Update::default() };
        let fence = Fence { credential: begun.hold.credential.clone(), epoch: begun.epoch };
        let part = ChangePart {
            on: PartTarget::Session(begun.session.id.clone()),
            guard: Guard { fence: Some(fence), incarnation: Some(begun.incarnation()), ..Guard::default() },
            writes: smallvec![Write::Update(Box::new(update))],
        };
        let done = self.commit(Change::new(begun.tenant().clone()).part(part)).await?;
        Ok(done.parts.first().is_some_and(|part| part.head.stop_requested))
    }

    /// Whether the turn was asked to stop, and which messages steer it.
    pub async fn look_at_turn(&self, begun: &RunningTurn) -> Result<(bool, Vec<u64>)> {
        let (session, talk) = self.running_turn(begun).await?;
        let steering =
            talk.queue.iter().filter(|queued| queued.steers).filter_map(|queued| queued.sequence).collect();
        Ok((session.head.stop_requested, steering))
    }

    /// Takes steering messages out of the queue: they are part of the turn now.
    pub async fn take_steering(&self, begun: &RunningTurn, taken: &[u64]) -> Result<()> {
        self.decide_and_commit(|| {
            Box::pin(async {
                let (session, mut talk) =
                    self.sessions.talk(begun.tenant(), &begun.session.id).await?.ok_or(Error::NotFound)?;
                talk.queue
                    .retain(|queued| !queued.sequence.is_some_and(|sequence| taken.contains(&sequence)));
                talk.took.extend(taken);
                Ok(Decided::<()>::change(begun.fenced(talk_change(&session, talk))))
            })
        })
        .await
        .map(drop)
    }

    /// Shows readers the reply while it is written. Transient; the finished message is the event.
    pub fn say(&self, begun: &RunningTurn, text: &str) {
        let incarnation = begun.incarnation();
        let offset = self.hub.reply_len(incarnation, begun.epoch);
        let delta = Delta { incarnation, epoch: begun.epoch, offset, text: text.into() };
        self.hub.delta(&delta);
        self.sessions.spread_delta(begun.tenant(), delta);
    }

    /// The change of a plan. What a turn that is cut short has called ends with it.
    pub(super) async fn turn_change(
        &self,
        session: &Session,
        plan: &TurnPlan,
        is_cut_short: bool,
    ) -> Result<Change> {
        let mut change = change_from_plan(session, plan);
        if is_cut_short {
            self.call_off_calls(&mut change, session).await?;
        }
        Ok(change)
    }

    /// Conversations of all tenants with a queued message or a decided turn, and no running turn.
    pub async fn waiting_turns(&self, limit: usize) -> Result<Vec<DueSession>> {
        self.sessions.waiting_turns(limit).await
    }
}

/// What the first queued message led to.
#[derive(Debug)]
pub enum NextTurn {
    Begun(Box<RunningTurn>),
    /// The open sitting must be ended first.
    EndFirst(EndFirst),
}

pub(super) fn change_from_plan(session: &Session, plan: &TurnPlan) -> Change {
    let TurnPlan { step, talk } = plan.clone();
    let filed = delivery::filed(session, &step.events);
    // For a queued turn the row names the turn before events are appended; otherwise the appended message opens it.
    let opens = step.update.turn.is_some();
    let (update, events) = (Write::Update(Box::new(step.update)), Write::Append(step.events));
    let mut writes = if opens { smallvec![update, events] } else { smallvec![events, update] };
    writes.retain(|write| !matches!(write, Write::Append(events) if events.is_empty()));
    writes.push(Write::Talk(Box::new(talk)));
    let part =
        ChangePart { on: PartTarget::Session(session.id.clone()), guard: Guard::seen(session), writes };
    let mut change = Change::new(session.tenant.clone()).part(part);
    change.records = step.records;
    change.records.extend(filed);
    change
}

/// A change of a session's talk row alone.
pub(super) fn talk_change(session: &Session, talk: Talk) -> Change {
    let part = ChangePart {
        on: PartTarget::Session(session.id.clone()),
        guard: Guard::seen(session),
        writes: smallvec![Write::Update(Box::default()), Write::Talk(Box::new(talk))],
    };
    Change::new(session.tenant.clone()).part(part)
}

/// The session and its talk row after a commit.
pub(super) fn landed(
    mut session: Session,
    mut talk: Talk,
    done: CommitResult,
) -> Result<(Session, Talk, Vec<AppendOutcome>)> {
    let part = done.parts.into_iter().next().ok_or_else(|| Error::internal("a commit lost its part"))?;
    session.head = part.head;
    talk.land(&part.appended, done.at);
    Ok((session, talk, part.appended))
}

pub(super) fn new_event(slot: AppendOutcome) -> Option<Arc<Event>> {
    match slot {
        AppendOutcome::New(event) => Some(event),
        AppendOutcome::Repeat(_) => None,
    }
}

/// The message of a post that stored nothing yet.
fn unkept(id: &SessionId, event: NewEvent) -> Event {
    Event {
        session_id: id.clone(),
        sequence: 0,
        kind: event.kind,
        content: event.content,
        metadata: event.metadata,
        subthread_id: event.subthread_id,
        external_event_id: event.external_event_id,
        turn: None,
        author: event.author,
        at: Timestamp::default(),
    }
}
