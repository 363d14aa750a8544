//! Commands of conversations: a message arrives, its turn is run, and ends.
//!
//! A turn costs two commits: one that keeps the message and opens the turn, one that keeps the reply and closes it.
//! In between, the node that runs the turn holds it by an epoch, and is fenced if its lease ends first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::smallvec;
use uuid::Uuid;

use super::channel_people::{check_leaves_trace, new_holder, sender_note};
use super::log::{DraftEvent, check_batch};
use super::{CommandOutcome, Decided, Engine};
use crate::access::{Actor, Role, Verb};
use crate::channel::delivery;
use crate::error::{Conflict, Error, Result};
use crate::event::{AppendOutcome, Event, Kinds, NewEvent, payload};
use crate::ids::{Incarnation, SessionId, TenantId};
use crate::json::Json;
use crate::live::Delta;
use crate::memory::Owner;
use crate::memory::owner::{TurnSpeaker, memory_owner};
use crate::people::channel::platform_of;
use crate::people::{ChannelChange, ChannelSender};
use crate::session::Session;
use crate::session::source::Company;
use crate::store::{
    AppendRule, Change, ChangePart, ClaimChange, CommitResult, DueSession, Fence, Guard, IdemKey, KeyNote,
    PartTarget, Update, Write,
};
use crate::talk::route::{Arrival, Routing, SpeakerPrefix, route};
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
    /// It is said to the agent: it mentions the agent, answers it, or is a command. Between one person and the agent,
    /// everything is.
    pub is_directed: bool,
    /// The thread of the conversation that it belongs to.
    pub thread: Option<String>,
    /// Who says it, where a channel brings it.
    pub sender: Option<ChannelSender>,
    /// It is no message, but something that happened to the conversation.
    pub change: Option<ChannelChange>,
    /// Nobody is to answer it.
    pub only_keeps: bool,
}

impl Post {
    /// This content, queued while another turn runs and said to nobody in particular.
    pub fn of(content: Json) -> Self {
        Self {
            content,
            on_busy: OnBusy::default(),
            tier: Tier::default(),
            user: None,
            is_directed: false,
            thread: None,
            sender: None,
            change: None,
            only_keeps: false,
        }
    }

    /// Something that happened to the conversation, without a text.
    pub fn about(change: ChannelChange) -> Self {
        Self { change: Some(change), ..Self::of(Json::stored("[]")) }
    }

    /// The event that the log gets of it, but for its author.
    fn draft(&self) -> Result<DraftEvent> {
        let mut metadata = serde_json::Map::new();
        if let Some(change) = &self.change {
            metadata.insert("kind".to_owned(), change.kind.as_str().into());
            metadata.extend(change.of.map(|of| ("of".to_owned(), of.into())));
        }
        if let Some(sender) = &self.sender {
            metadata.insert("sender".to_owned(), sender_note(sender));
        }
        let kind = if self.change.is_some() { "external.event" } else { "user.message" };
        Ok(DraftEvent {
            kind: kind.to_owned(),
            content: Some(self.content.clone())
                .filter(|content| content.as_str() != "[]" || self.change.is_none()),
            metadata: (!metadata.is_empty()).then(|| Json::of(&metadata)).transpose()?,
            subthread_id: self.thread.clone(),
            ..DraftEvent::default()
        })
    }

    /// A plain text that queues while another turn runs.
    pub fn text(text: &str) -> Result<Self> {
        Ok(Self::of(Json::of(&text)?))
    }
}

/// The outcome of a post.
#[derive(Debug)]
pub struct PostResult {
    pub session: SessionId,
    pub message: Arc<Event>,
    pub fate: PostFate,
    /// What the person is told at once. The log does not hold it.
    pub told: Option<String>,
}

#[derive(Debug)]
pub enum PostFate {
    /// Its turn is open; the caller must run it.
    Started(Box<RunningTurn>),
    /// It waits for its turn.
    Waits,
    /// A repeat of an earlier request, whose turn is already handled.
    Repeated,
    /// It is in the log, and nobody answers it.
    Kept,
    /// The open sitting must be ended first; nothing was stored.
    EndFirst(EndFirst),
}

/// Kept with the idempotency key of a message that started no turn: a repeat does not wait for one.
const KEPT: KeyNote = KeyNote(Uuid::max());

/// What is decided about a message.
struct PostPlan {
    session: Session,
    talk: Talk,
    fate: PlannedFate,
    told: Option<String>,
}

enum PlannedFate {
    /// The speaker of the turn, and whether it opens a sitting.
    Starts(TurnSpeaker, bool),
    Waits,
    Kept,
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
    /// Takes a message into a conversation: by the rule of [`route`], its turn starts, or waits for the one that runs, or
    /// it is only kept.
    pub async fn post(
        &self,
        actor: &Arc<Actor>,
        id: &SessionId,
        wish: Post,
        hold: &TurnHost,
        key: Option<IdemKey>,
    ) -> Result<PostResult> {
        let event = check_batch(actor, vec![wish.draft()?])?
            .pop()
            .ok_or_else(|| Error::internal("a draft is gone"))?;
        let text = event.content.as_ref().and_then(payload::text_of).unwrap_or_default();
        if wish.change.is_some() && platform_of(actor).is_none() {
            return Err(Error::invalid(
                "change",
                "only a channel's key tells what happened to a conversation",
            ));
        }
        self.check_byte_quota(actor).await?;
        let decided_before = AtomicBool::new(false);
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let (mut session, mut talk) = self.conversation(actor, Verb::Talk, id).await?;
                    let now = self.tenant.now().await?;
                    check_leaves_trace(&session, wish.sender.as_ref())?;
                    if let Some(change) = &wish.change {
                        change.check(session.head.last_sequence)?;
                    }
                    let is_first = !decided_before.swap(true, Ordering::Relaxed);
                    let brought = self.brought(actor, &wish, is_first, now).await?;
                    let company = session.details.source.company;
                    let told_sender =
                        wish.sender.as_ref().filter(|_| !wish.only_keeps && wish.change.is_none());
                    let at_once = self.at_once(told_sender, &brought, company, &text, now)?;
                    let holder = new_holder(&session, &brought.speaker);
                    if holder.is_some() {
                        session.head.holder.clone_from(&holder);
                    }
                    let event = match &brought.person {
                        Some(person) => NewEvent { author: Some(person.id.as_str().into()), ..event.clone() },
                        None => event.clone(),
                    };
                    let mut is_directed = wish.is_directed;
                    let notes_thread = company == Company::Group
                        && talk.is_said_to_agent(
                            actor.rules.threads,
                            wish.thread.as_deref(),
                            &mut is_directed,
                        );
                    let open = talk.sitting.as_ref().map(|open| &open.owner);
                    let speaker = brought.speaker.clone().in_sitting_of(actor, &session, open);
                    let arrival = if wish.change.is_some() { Arrival::Change } else { Arrival::Message };
                    let is_all = wish.only_keeps || at_once.as_ref().is_some_and(|at_once| at_once.is_all);
                    let prefix = match route(company, brought.sender, is_directed, arrival) {
                        Routing::Trigger { prefix } if !is_all => prefix,
                        Routing::Trigger { .. } | Routing::Keep | Routing::Drop => {
                            // A link may say something, and may not append to a log by itself.
                            let changes_talk = notes_thread || holder.is_some() || actor.role == Role::Share;
                            let mut events = vec![event];
                            let (mut told, mut records) = (None, Vec::from_iter(brought.record));
                            if let Some(at_once) = at_once {
                                events.extend(at_once.event);
                                records.push(at_once.record);
                                told = Some(at_once.told);
                            }
                            let plan =
                                turn::keep(&session, &talk, &speaker, events.clone(), changes_talk, now)?;
                            let (talk, mut change) = match plan {
                                Some(plan) => {
                                    let plan = plan.held_by(holder);
                                    let change =
                                        self.turn_change(&session, &plan, turn::died(&session, now)).await?;
                                    (plan.talk, change)
                                }
                                None => (talk, plain_append(actor, &session, events)),
                            };
                            change.records.extend(records);
                            let key = key.map(|key| IdemKey { note: Some(KEPT), ..key });
                            let planned = PostPlan { session, talk, fate: PlannedFate::Kept, told };
                            return Ok(Decided::Change(Box::new(change.keyed(key)), planned));
                        }
                    };
                    let speaker = TurnSpeaker { is_aside: prefix == SpeakerPrefix::NameAside, ..speaker };
                    let message = IncomingMessage {
                        event,
                        on_busy: wish.on_busy,
                        tier: wish.tier,
                        speaker: speaker.clone(),
                    };
                    let opens = talk.sitting.is_none();
                    let (plan, fate) =
                        match turn::begin(&session, &talk, message, hold, now, &self.settings.talk)? {
                            MessagePlan::Started(plan) => (plan, PlannedFate::Starts(speaker, opens)),
                            MessagePlan::Queued(plan) => (plan, PlannedFate::Waits),
                            MessagePlan::EndFirst(first) => return Ok(Decided::Nothing(first)),
                        };
                    let plan = plan.held_by(holder);
                    let mut change =
                        self.turn_change(&session, &plan, turn::died(&session, now)).await?.keyed(key);
                    change.records.extend(brought.record);
                    let planned = PostPlan { session, talk: plan.talk, fate, told: None };
                    Ok(Decided::Change(Box::new(change), planned))
                })
            })
            .await?;
        let (done, PostPlan { session, talk, fate, told }) = match done {
            CommandOutcome::Done(done, planned) => (done, planned),
            CommandOutcome::Nothing(first) => {
                let message = Arc::new(unkept(id, event));
                return Ok(PostResult {
                    session: id.clone(),
                    message,
                    fate: PostFate::EndFirst(first),
                    told: None,
                });
            }
        };
        if let Some(replay) = &done.replay {
            let message = self.message_among(actor, id, &replay.sequences).await?;
            let fate = if replay.note == Some(KEPT) { PostFate::Kept } else { PostFate::Repeated };
            return Ok(PostResult { session: id.clone(), message, fate, told: None });
        }
        let (session, talk, appended) = landed(session, talk, *done)?;
        let message = appended
            .into_iter()
            .filter_map(new_event)
            .find(|event| is_posted(event))
            .ok_or_else(|| Error::internal("a commit lost its message"))?;
        let fate = match fate {
            PlannedFate::Starts(speaker, opened) => {
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
            }
            PlannedFate::Waits => PostFate::Waits,
            PlannedFate::Kept => PostFate::Kept,
        };
        Ok(PostResult { session: id.clone(), message, fate, told })
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

/// Whether a post wrote this event as its message.
pub(super) fn is_posted(event: &Event) -> bool {
    matches!(event.kind.as_str(), "user.message" | "external.event")
}

/// A change that only adds to the log: others may add to it at the same time.
fn plain_append(actor: &Arc<Actor>, session: &Session, events: Vec<NewEvent>) -> Change {
    let kinds = Kinds::of(events.iter().map(|event| &event.kind));
    let part = ChangePart {
        on: PartTarget::Session(session.id.clone()),
        guard: Guard {
            incarnation: Some(session.head.incarnation),
            append: Some(AppendRule { actor: actor.clone(), kinds, epoch: None }),
            ..Guard::default()
        },
        writes: smallvec![Write::Append(events)],
    };
    Change::new(session.tenant.clone()).part(part)
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
