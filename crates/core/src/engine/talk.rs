//! Commands of conversations: a message arrives, a turn ends, a sitting is closed or rated.
//!
//! A turn costs two commits: one that keeps the message and opens the turn, one that keeps the reply and closes
//! it. Whoever runs the turn in between holds it by an epoch, and is fenced off when it is too slow to live.

use std::sync::Arc;

use smallvec::smallvec;

use super::log::{DraftEvent, SHARED_TYPES, check_batch};
use super::{Decided, Engine, Settled};
use crate::access::{self, Actor, Role, Verb};
use crate::error::{Conflict, Error, Result};
use crate::event::{Appended, Event, EventQuery, EventType, NewEvent};
use crate::feedback::{Label, Modality, RATING_SCHEMA_VERSION, Rating, RatingSource};
use crate::ids::{Incarnation, SessionId, TenantId, UserId};
use crate::json::Json;
use crate::limits;
use crate::live::Delta;
use crate::memory::Owner;
use crate::memory::candidate::Candidate;
use crate::safety::opaque::Opaque;
use crate::session::decide::Step;
use crate::session::{DescriptionSource, MemoryMode, Session};
use crate::store::{
    Change, ClaimChange, Committed, Due, Fence, Guard, IdemKey, On, Part, Record, Refusal, Update, Write,
};
use crate::talk::sitting::{self, EndReason};
use crate::talk::state::{self, Fields};
use crate::talk::turn::{self, Begin, Hold, Message, OnBusy, Outcome, Plan};
use crate::talk::{Liveness, Talk, Tier};
use crate::time::Timestamp;
use crate::work::run::{Resume, Run};

/// What a model is told of the past of a conversation with tools.
const STEP_TYPES: [&str; 5] =
    ["user.message", "agent.message", "agent.tool_call", "agent.tool_result", "tool.invocation_started"];

/// A message that somebody posts.
#[derive(Clone, Debug)]
pub struct Post {
    pub content: Json,
    pub on_busy: OnBusy,
    pub tier: Tier,
    /// Whose memory to use, where the caller may say so.
    pub user: Option<String>,
}

impl Post {
    /// Plain words that wait for their turn.
    pub fn text(text: &str) -> Result<Self> {
        Ok(Self { content: Json::of(&text)?, on_busy: OnBusy::default(), tier: Tier::default(), user: None })
    }
}

/// What became of a message.
#[derive(Debug)]
pub struct Posted {
    pub session: SessionId,
    pub message: Arc<Event>,
    pub fate: Fate,
}

#[derive(Debug)]
pub enum Fate {
    /// Its turn is open, and the caller's to run.
    Started(Box<Begun>),
    /// It waits for its turn.
    Waits,
    /// The same request came before: its turn is somebody's already.
    Repeated,
    /// The open sitting has expired and is to be ended before anything is kept.
    EndFirst,
}

/// A turn that runs: what its runner needs to know, and what it proves its right with.
#[derive(Clone, Debug)]
pub struct Begun {
    pub session: Session,
    pub talk: Talk,
    pub epoch: u64,
    /// The sequence of the message that is answered.
    pub turn: u64,
    /// This turn is the first of its sitting.
    pub opened: bool,
    pub tier: Tier,
    /// What a person decided, where this turn goes on after it.
    pub resume: Option<Resume>,
    pub(super) hold: Hold,
}

impl Begun {
    pub fn tenant(&self) -> &TenantId {
        &self.session.tenant
    }

    pub fn incarnation(&self) -> Incarnation {
        self.session.head.incarnation
    }

    /// Whose memory this turn reads and feeds.
    pub fn owner(&self) -> Owner {
        self.talk.sitting.as_ref().map_or_else(|| Owner::session(&self.session.id), |open| open.owner.clone())
    }
}

/// What somebody said in a turn that took place elsewhere.
#[derive(Clone, Debug)]
pub struct Spoken {
    pub content: Json,
    /// By which a repeat is known.
    pub external_id: String,
    pub user: Option<String>,
}

/// A turn that was written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The sequence of what was said.
    pub sequence: u64,
    /// It had been written down before.
    pub repeated: bool,
}

/// A turn that has ended.
#[derive(Debug)]
pub struct Finished {
    /// What the end of the turn left in the log.
    pub events: Vec<Arc<Event>>,
    pub talk: Talk,
    pub session: Session,
}

/// What a caller learns of a conversation.
#[derive(Debug)]
pub struct Standing {
    pub session: Session,
    pub talk: Talk,
    pub liveness: Liveness,
}

impl Engine {
    /// Takes a message into a conversation. Its turn starts, or waits for the one that runs.
    pub async fn post(
        &self,
        actor: &Actor,
        id: &SessionId,
        wish: Post,
        hold: &Hold,
        key: Option<IdemKey>,
    ) -> Result<Posted> {
        let draft = DraftEvent {
            kind: "user.message".to_owned(),
            content: Some(wish.content.clone()),
            ..DraftEvent::default()
        };
        let event =
            check_batch(actor, vec![draft])?.pop().ok_or_else(|| Error::internal("a draft is gone"))?;
        let planned = parking_lot::Mutex::new(None);
        let done = self
            .settle_on(|| {
                Box::pin(async {
                    let (session, talk) = self.conversation(actor, Verb::Write, id).await?;
                    let now = self.store.now().await?;
                    let (owner, user) = owner_of(actor, &session, wish.user.as_deref())?;
                    let message =
                        Message { event: event.clone(), on_busy: wish.on_busy, tier: wish.tier, owner, user };
                    let (plan, starts) =
                        match turn::begin(&session, &talk, message, hold, now, &self.settings.talk)? {
                            Begin::Started(plan) => (plan, true),
                            Begin::Queued(plan) => (plan, false),
                            Begin::EndFirst => return Ok(Decided::Nothing(())),
                        };
                    let mut plan = *plan;
                    join(actor, &session, &mut plan);
                    let opened = talk.sitting.is_none();
                    let change = planned_change(&session, &plan).keyed(key);
                    *planned.lock() = Some((session, plan.talk, starts, opened));
                    Ok(Decided::Change(Box::new(change)))
                })
            })
            .await?;
        let Settled::Done(done) = done else {
            let message = Arc::new(unkept(id, event));
            return Ok(Posted { session: id.clone(), message, fate: Fate::EndFirst });
        };
        if let Some(replay) = &done.replay {
            let message = self.message_among(actor, id, &replay.sequences).await?;
            return Ok(Posted { session: id.clone(), message, fate: Fate::Repeated });
        }
        let (session, talk, starts, opened) =
            planned.into_inner().ok_or_else(|| Error::internal("a commit lost its plan"))?;
        let (session, talk, appended) = landed(session, talk, *done)?;
        let message = appended
            .into_iter()
            .filter_map(new_event)
            .find(|event| event.kind.as_str() == "user.message")
            .ok_or_else(|| Error::internal("a commit lost its message"))?;
        let fate = if starts {
            let (epoch, turn) = (session.head.epoch, message.sequence);
            Fate::Started(Box::new(Begun {
                session,
                talk,
                epoch,
                turn,
                opened,
                tier: wish.tier,
                resume: None,
                hold: hold.clone(),
            }))
        } else {
            Fate::Waits
        };
        Ok(Posted { session: id.clone(), message, fate })
    }

    /// Goes on with a turn that somebody decided on, or opens the turn of the first message that waits, if nothing
    /// runs. `Err(SessionBusy)` never: nothing to do is `None`.
    pub async fn next_turn(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        hold: &Hold,
    ) -> Result<Option<NextTurn>> {
        let planned = parking_lot::Mutex::new(None);
        let done = self
            .settle_on(|| {
                Box::pin(async {
                    let Some((session, talk)) = self.store.talk(tenant, id).await? else {
                        return Ok(Decided::Nothing(false));
                    };
                    let now = self.store.now().await?;
                    let plan = match turn::next(&session, &talk, hold, now, &self.settings.talk)? {
                        None => return Ok(Decided::Nothing(false)),
                        Some(Begin::EndFirst) => return Ok(Decided::Nothing(true)),
                        Some(Begin::Started(plan) | Begin::Queued(plan)) => plan,
                    };
                    let (tier, resume) = match &talk.paused {
                        Some(paused) => (paused.tier, Run::of(&session).resume),
                        None => (talk.queue.first().map(|queued| queued.tier).unwrap_or_default(), None),
                    };
                    let opened = talk.sitting.is_none();
                    let change = planned_change(&session, &plan);
                    *planned.lock() = Some((session, plan.talk, opened, tier, resume));
                    Ok(Decided::Change(Box::new(change)))
                })
            })
            .await;
        let done = match done {
            Ok(Settled::Done(done)) => done,
            Ok(Settled::Nothing(expired)) => return Ok(expired.then_some(NextTurn::EndFirst)),
            // Others are at it: it is theirs.
            Err(Error::Conflict(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let (session, talk, opened, tier, resume) =
            planned.into_inner().ok_or_else(|| Error::internal("a commit lost its plan"))?;
        let (session, talk, _) = landed(session, talk, *done)?;
        let turn = session.head.turn.map_or(0, |turn| turn.sequence);
        let epoch = session.head.epoch;
        Ok(Some(NextTurn::Begun(Box::new(Begun {
            session,
            talk,
            epoch,
            turn,
            opened,
            tier,
            resume,
            hold: hold.clone(),
        }))))
    }

    /// Closes a turn with everything that it leaves. Fenced when it was too slow to live.
    pub async fn finish_turn(&self, begun: &Begun, outcome: Outcome) -> Result<Finished> {
        self.let_go(begun, |session, talk| turn::finish(session, talk, outcome.clone()).map(Some))
            .await?
            .ok_or_else(|| Error::internal("a turn did not end"))
    }

    /// Gives a turn's session back, as `decide` says of it now. `None`: it says that it is not to be given back.
    pub(super) async fn let_go(
        &self,
        begun: &Begun,
        decide: impl Fn(&Session, &Talk) -> Result<Option<Plan>>,
    ) -> Result<Option<Finished>> {
        let mut seen = (begun.session.clone(), begun.talk.clone());
        for round in 0..limits::DECIDE_ROUNDS_MAX {
            if round > 0 {
                let found =
                    self.store.talk(begun.tenant(), &begun.session.id).await?.ok_or(Error::NotFound)?;
                if found.0.head.incarnation != begun.incarnation() || found.0.head.epoch != begun.epoch {
                    return Err(Conflict::Fenced.into());
                }
                seen = found;
            }
            let (session, talk) = &seen;
            let Some(plan) = decide(session, talk)? else { return Ok(None) };
            let mut change = planned_change(session, &plan);
            if let Some(part) = change.parts.first_mut() {
                part.guard.fence =
                    Some(Fence { credential: begun.hold.credential.clone(), epoch: begun.epoch });
            }
            match self.store.commit(change).await {
                Ok(done) => {
                    let (session, talk, appended) = landed(seen.0, plan.talk, done)?;
                    let events = appended.into_iter().filter_map(new_event).collect();
                    return Ok(Some(Finished { events, talk, session }));
                }
                Err(Refusal::Stale) => {}
                Err(Refusal::Rejected(error)) => return Err(error),
            }
        }
        Err(Conflict::SessionBusy.into())
    }

    /// Writes down a turn that took place elsewhere. `None`: the open sitting has expired and is to be ended first.
    /// The same key again changes nothing.
    pub async fn record_turn(
        &self,
        actor: &Actor,
        id: &SessionId,
        said: Spoken,
        outcome: Outcome,
        key: IdemKey,
    ) -> Result<Option<Recorded>> {
        let draft = DraftEvent {
            kind: "user.message".to_owned(),
            content: Some(said.content),
            external_event_id: Some(said.external_id),
            ..DraftEvent::default()
        };
        let event =
            check_batch(actor, vec![draft])?.pop().ok_or_else(|| Error::internal("a draft is gone"))?;
        let done = self
            .settle_on(|| {
                Box::pin(async {
                    let (session, talk) = self.conversation(actor, Verb::Write, id).await?;
                    let now = self.store.now().await?;
                    let (owner, user) = owner_of(actor, &session, said.user.as_deref())?;
                    let asked = Message {
                        event: event.clone(),
                        on_busy: OnBusy::Reject,
                        tier: Tier::Fast,
                        owner,
                        user,
                    };
                    let settings = &self.settings.talk;
                    match turn::record(&session, &talk, asked, outcome.clone(), now, settings)? {
                        Begin::Started(mut plan) | Begin::Queued(mut plan) => {
                            join(actor, &session, &mut plan);
                            Ok(Decided::Change(Box::new(planned_change(&session, &plan).keyed(Some(key)))))
                        }
                        Begin::EndFirst => Ok(Decided::Nothing(())),
                    }
                })
            })
            .await;
        let Settled::Done(done) = self.or_replayed(actor, Some(key), done).await? else { return Ok(None) };
        let (sequences, repeated) = match &done.replay {
            Some(replay) => (replay.sequences.clone(), true),
            None => (
                done.parts.iter().flat_map(|part| part.appended.iter().map(Appended::sequence)).collect(),
                false,
            ),
        };
        let message = self.message_among(actor, id, &sequences).await?;
        Ok(Some(Recorded { sequence: message.sequence, repeated }))
    }

    /// A sign of life from a turn, and whether somebody wants it to stop.
    pub async fn renew_turn(&self, begun: &Begun) -> Result<bool> {
        let update = Update { claim: Some(ClaimChange::Renew(begun.hold.lease)), ..Update::default() };
        let fence = Fence { credential: begun.hold.credential.clone(), epoch: begun.epoch };
        let part = Part {
            on: On::Session(begun.session.id.clone()),
            guard: Guard { fence: Some(fence), incarnation: Some(begun.incarnation()), ..Guard::default() },
            writes: smallvec![Write::Update(Box::new(update))],
        };
        let done = self.commit(Change::new(begun.tenant().clone()).part(part)).await?;
        Ok(done.parts.first().is_some_and(|part| part.head.stop_requested))
    }

    /// Whether somebody wants the turn to stop, and which messages want to steer it.
    pub async fn look_at_turn(&self, begun: &Begun) -> Result<(bool, Vec<u64>)> {
        let (session, talk) =
            self.store.talk(begun.tenant(), &begun.session.id).await?.ok_or(Error::NotFound)?;
        if session.head.epoch != begun.epoch || session.head.incarnation != begun.incarnation() {
            return Err(Conflict::Fenced.into());
        }
        let steering =
            talk.queue.iter().filter(|queued| queued.steers).filter_map(|queued| queued.sequence).collect();
        Ok((session.head.stop_requested, steering))
    }

    /// Takes messages that steer the turn out of the queue: they are part of it now.
    pub async fn take_steering(&self, begun: &Begun, taken: &[u64]) -> Result<()> {
        self.settle_on(|| {
            Box::pin(async {
                let (session, mut talk) =
                    self.store.talk(begun.tenant(), &begun.session.id).await?.ok_or(Error::NotFound)?;
                talk.queue
                    .retain(|queued| !queued.sequence.is_some_and(|sequence| taken.contains(&sequence)));
                let mut change = beside(&session, talk);
                if let Some(part) = change.parts.first_mut() {
                    part.guard.fence =
                        Some(Fence { credential: begun.hold.credential.clone(), epoch: begun.epoch });
                }
                Ok(Decided::<()>::Change(Box::new(change)))
            })
        })
        .await
        .map(drop)
    }

    /// Lets readers hear what a turn is saying. Transient; the finished message is the event.
    pub fn say(&self, begun: &Begun, text: &str) {
        let incarnation = begun.incarnation();
        let offset = self.hub.reply_len(incarnation, begun.epoch);
        let delta = Delta { incarnation, epoch: begun.epoch, offset, text: text.into() };
        self.hub.delta(&delta);
        self.store.spread_delta(delta);
    }

    /// The newest messages up to a turn, oldest first.
    pub async fn said_before(&self, session: &Session, before: u64, limit: usize) -> Result<Vec<Event>> {
        self.newest_of(session, Some(before), &SHARED_TYPES, limit).await
    }

    /// The newest messages of a conversation with what was done between them, oldest first.
    pub async fn done_before(
        &self,
        session: &Session,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Event>> {
        self.newest_of(session, before, &STEP_TYPES, limit).await
    }

    async fn newest_of(
        &self,
        session: &Session,
        before: Option<u64>,
        types: &[&str],
        limit: usize,
    ) -> Result<Vec<Event>> {
        let query = EventQuery {
            before,
            types: types.iter().map(|kind| (*kind).to_owned()).collect(),
            newest_first: true,
            limit,
            ..EventQuery::default()
        };
        let mut events = self.store.events(&session.tenant, &session.id, query).await?.events;
        events.reverse();
        Ok(events)
    }

    /// The message that a turn answers.
    pub async fn said_at(&self, begun: &Begun) -> Result<Event> {
        self.message_at(&begun.session, begun.turn).await
    }

    /// One message of a conversation.
    pub async fn message_at(&self, session: &Session, sequence: u64) -> Result<Event> {
        let query = EventQuery { after: sequence - 1, limit: 1, ..EventQuery::default() };
        let page = self.store.events(&session.tenant, &session.id, query).await?;
        page.events.into_iter().find(|event| event.sequence == sequence).ok_or(Error::NotFound)
    }

    /// The newest messages from a sequence on, oldest first.
    pub async fn said_since(
        &self,
        session: &Session,
        first: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Event>> {
        let mut said = self.said_before(session, session.head.last_sequence + 1, limit).await?;
        said.retain(|event| event.sequence >= first.unwrap_or(0));
        Ok(said)
    }

    /// Whether the open sitting of a conversation has been silent for too long.
    pub async fn is_silent(&self, session: &Session, talk: &Talk) -> Result<bool> {
        let now = self.store.now().await?;
        Ok(sitting::has_expired(talk, now, &self.settings.talk) && !turn::is_open(session, talk, now))
    }

    /// How a conversation stands.
    pub async fn standing(&self, actor: &Actor, id: &SessionId) -> Result<Standing> {
        let (session, talk) = self.conversation(actor, Verb::Read, id).await?;
        let liveness = turn::liveness(&session, &talk, self.store.now().await?, &self.settings.talk);
        Ok(Standing { session, talk, liveness })
    }

    /// The state as it was after a sequence, read from the log.
    pub async fn state_at(&self, actor: &Actor, id: &SessionId, at: u64) -> Result<Fields> {
        let session = self.load(actor, Verb::Read, id).await?;
        let mut saying: Vec<Event> = Vec::new();
        let mut before = Some(at.min(session.head.last_sequence) + 1);
        loop {
            let query = EventQuery {
                before,
                types: state::SAYING.map(str::to_owned).to_vec(),
                newest_first: true,
                limit: limits::PAGE_ROWS_DEFAULT,
                ..EventQuery::default()
            };
            let page = self.store.events(&session.tenant, &session.id, query).await?;
            before = Some(page.next_after);
            let whole = page.events.iter().position(state::is_whole);
            let end = whole.map_or(page.events.len(), |place| place + 1);
            saying.extend(page.events.into_iter().take(end));
            if whole.is_some() || !page.has_more {
                break;
            }
        }
        let mut fields = Fields::default();
        for event in saying.iter().rev() {
            state::take(&mut fields, event);
        }
        Ok(fields)
    }

    /// A session with what it has beside its row, if the caller may do this with it.
    pub async fn conversation(&self, actor: &Actor, verb: Verb, id: &SessionId) -> Result<(Session, Talk)> {
        let (session, talk) = self.store.talk(&actor.tenant, id).await?.ok_or(Error::NotFound)?;
        access::check(actor, verb, &session)?;
        Ok((session, talk))
    }

    /// The same, for work that no caller asked for.
    pub async fn conversation_of(&self, due: &Due) -> Result<Option<(Session, Talk)>> {
        self.store.talk(&due.tenant, &due.session).await
    }

    /// Closes the sitting that was looked at. `None`: the conversation has moved on since; look again.
    pub async fn close_sitting(
        &self,
        session: &Session,
        talk: &Talk,
        why: EndReason,
        arc: Option<&str>,
        records: Vec<Record>,
    ) -> Result<Option<Talk>> {
        let now = self.store.now().await?;
        let Some(plan) = sitting::end(session, talk, why, arc, records, now)? else { return Ok(None) };
        match self.store.commit(planned_change(session, &plan)).await {
            Ok(_) => Ok(Some(plan.talk)),
            Err(Refusal::Stale) => Ok(None),
            Err(Refusal::Rejected(error)) => Err(error),
        }
    }

    /// Rates the sitting that is open. The first rating stands: `false` says that there was one.
    pub async fn rate_open(
        &self,
        actor: &Actor,
        id: &SessionId,
        label: Label,
        source: RatingSource,
        modality: Modality,
    ) -> Result<bool> {
        self.rate(actor, id, (label, source, modality), |talk| {
            let open = talk.sitting.as_mut()?;
            Some((&mut open.rated, open.turns, open.user.clone()))
        })
        .await
    }

    /// Rates the sitting that ended last. Before any has ended there is nothing to rate.
    pub async fn rate_ended(
        &self,
        actor: &Actor,
        id: &SessionId,
        label: Label,
        source: RatingSource,
        modality: Modality,
    ) -> Result<bool> {
        self.rate(actor, id, (label, source, modality), |talk| {
            let ended = talk.ended.as_mut().filter(|ended| !ended.discarded)?;
            Some((&mut ended.rated, ended.turns, ended.user.clone()))
        })
        .await
    }

    async fn rate(
        &self,
        actor: &Actor,
        id: &SessionId,
        (label, source, modality): (Label, RatingSource, Modality),
        of: impl Fn(&mut Talk) -> Option<(&mut bool, u64, Option<String>)> + Sync,
    ) -> Result<bool> {
        let opaque = self.opaque().await?;
        let done = self
            .settle_on(|| {
                Box::pin(async {
                    let (session, mut talk) = self.conversation(actor, Verb::Write, id).await?;
                    let now = self.store.now().await?;
                    let Some((rated, turns, user)) = of(&mut talk) else {
                        return Err(Conflict::NothingEnded.into());
                    };
                    if std::mem::replace(rated, true) {
                        return Ok(Decided::Nothing(()));
                    }
                    let incognito = session.details.memory_mode == MemoryMode::Incognito;
                    let rating = Rating {
                        id: uuid::Uuid::new_v4(),
                        session_id_opaque: opaque.of(&actor.tenant, session.id.as_str()),
                        user_id_or_null: user.filter(|_| !incognito).map(UserId::stored),
                        recorded_at: now,
                        label,
                        turn_count_at_end: turns,
                        source,
                        modality,
                        schema_version: RATING_SCHEMA_VERSION,
                    };
                    let change = beside(&session, talk).record(Record::AddRating(Box::new(rating)));
                    Ok(Decided::Change(Box::new(change)))
                })
            })
            .await?;
        Ok(matches!(done, Settled::Done(_)))
    }

    /// Keeps what looking back over a conversation has found, up to a message. Says what was written.
    pub async fn look_back(
        &self,
        actor: &Actor,
        id: &SessionId,
        to: u64,
        found: Vec<Candidate>,
        description: Option<String>,
    ) -> Result<Vec<&'static str>> {
        let wrote = parking_lot::Mutex::new(Vec::new());
        self.settle_on(|| {
            Box::pin(async {
                let (session, talk) = self.conversation(actor, Verb::Write, id).await?;
                let now = self.store.now().await?;
                if turn::runs(&session, now) {
                    return Err(Conflict::SessionBusy.into());
                }
                if talk.looked_back_to >= to {
                    return Ok(Decided::Nothing(()));
                }
                let plan = look_back(&session, &talk, to, &found, description.as_deref())?;
                *wrote.lock() = plan.1;
                Ok(Decided::Change(Box::new(planned_change(&session, &plan.0))))
            })
        })
        .await?;
        Ok(wrote.into_inner())
    }

    /// How this installation names sessions in records that must not lead back to them.
    pub async fn opaque(&self) -> Result<Opaque> {
        match self.settings.plain_opaque_ids {
            true => Ok(Opaque::Sha256),
            false => self.store.installation_key().await.map(Opaque::Keyed),
        }
    }

    /// Sittings of all tenants that have been silent for too long.
    pub async fn silent_sittings(&self, limit: usize) -> Result<Vec<Due>> {
        let now = self.store.now().await?;
        self.store.silent_sittings(now.minus(self.settings.talk.idle_after), limit).await
    }

    /// Conversations of all tenants in which a message waits, or a turn may go on, and nobody is at it.
    pub async fn waiting_turns(&self, limit: usize) -> Result<Vec<Due>> {
        self.store.waiting_turns(limit).await
    }

    async fn message_among(&self, actor: &Actor, id: &SessionId, sequences: &[u64]) -> Result<Arc<Event>> {
        self.events_at(actor, id, sequences)
            .await?
            .into_iter()
            .find(|event| event.kind.as_str() == "user.message")
            .ok_or(Error::NotFound)
    }
}

/// What the first waiting message came to.
#[derive(Debug)]
pub enum NextTurn {
    Begun(Box<Begun>),
    /// The open sitting has expired and is to be ended first.
    EndFirst,
}

/// Whose memory a conversation uses, and the user that its ratings name.
///
/// In groups it is the session's own. A caller without a user (local mode) may name one; anybody else is who the
/// credential says.
pub(super) fn owner_of(
    actor: &Actor,
    session: &Session,
    named: Option<&str>,
) -> Result<(Owner, Option<String>)> {
    let own = || (Owner::session(&session.id), None);
    if session.details.memory_mode == MemoryMode::Incognito || session.head.is_group {
        return Ok(own());
    }
    let user = match (named, &actor.user) {
        (Some(named), None) if actor.role == Role::Owner => Some(UserId::parse(named)?),
        (Some(named), Some(user)) if named == user.as_str() => Some(user.clone()),
        (Some(_), _) => {
            return Err(Error::denied(
                "this credential does not speak for another user; leave `user_id` out",
            ));
        }
        (None, user) => user.clone(),
    };
    Ok(user.map_or_else(own, |user| (Owner::user(&user), Some(user.to_string()))))
}

/// Whoever speaks in a conversation takes part in it.
fn join(actor: &Actor, session: &Session, plan: &mut Plan) {
    if let Some(user) = &actor.user
        && session.head.holder.as_ref() != Some(user)
        && !session.participants.contains(user)
    {
        plan.step.update.add_participant = Some(user.clone());
    }
}

pub(super) fn planned_change(session: &Session, plan: &Plan) -> Change {
    let Plan { step, talk } = plan.clone();
    // A turn that was waited for is open before anything is said in it; otherwise what is said opens it.
    let opens = step.update.turn.is_some();
    let (update, events) = (Write::Update(Box::new(step.update)), Write::Append(step.events));
    let mut writes = if opens { smallvec![update, events] } else { smallvec![events, update] };
    writes.retain(|write| !matches!(write, Write::Append(events) if events.is_empty()));
    writes.push(Write::Talk(Box::new(talk)));
    let part = Part { on: On::Session(session.id.clone()), guard: Guard::seen(session), writes };
    let mut change = Change::new(session.tenant.clone()).part(part);
    change.records = step.records;
    change
}

/// A change of the row beside a session, and of nothing else.
fn beside(session: &Session, talk: Talk) -> Change {
    let part = Part {
        on: On::Session(session.id.clone()),
        guard: Guard::seen(session),
        writes: smallvec![Write::Update(Box::default()), Write::Talk(Box::new(talk))],
    };
    Change::new(session.tenant.clone()).part(part)
}

/// What looking back leaves: new candidates, a description where no person wrote one, and a line in the log.
fn look_back(
    session: &Session,
    talk: &Talk,
    to: u64,
    found: &[Candidate],
    description: Option<&str>,
) -> Result<(Plan, Vec<&'static str>)> {
    let mut wrote = Vec::new();
    let mut after = talk.clone();
    if let Some(open) = &mut after.sitting {
        let held = |one: &&Candidate| {
            !open
                .buffer
                .candidates
                .iter()
                .any(|known| (&known.what, known.sequence) == (&one.what, one.sequence))
        };
        let new: Vec<Candidate> = found.iter().filter(held).cloned().collect();
        if !new.is_empty() && !open.buffer.emptied {
            wrote.push("candidates");
            open.buffer.hold(new);
        }
    }
    let mut update = Update::default();
    if let Some(text) = description
        && session.details.description_source != Some(DescriptionSource::User)
        && session.details.description.as_deref() != Some(text)
    {
        let text: String = text.chars().take(limits::DESCRIPTION_CHARS_MAX).collect();
        update.description = Some((Some(text.into()), Some(DescriptionSource::Introspection)));
        wrote.push("description");
    }
    let metadata = Json::of(&serde_json::json!({
        "reason": "manual", "from_sequence": talk.looked_back_to + 1, "to_sequence": to,
    }))?;
    after.looked_back_to = to;
    let event = NewEvent::engine(EventType::known("session.introspection"), Some(metadata));
    let step = Step { events: vec![event], ..Step::of(update) };
    Ok((Plan { step, talk: after }, wrote))
}

/// The session and its talk as they stand after a commit.
fn landed(mut session: Session, mut talk: Talk, done: Committed) -> Result<(Session, Talk, Vec<Appended>)> {
    let part = done.parts.into_iter().next().ok_or_else(|| Error::internal("a commit lost its part"))?;
    session.head = part.head;
    talk.land(&part.appended, done.at);
    Ok((session, talk, part.appended))
}

fn new_event(slot: Appended) -> Option<Arc<Event>> {
    match slot {
        Appended::New(event) => Some(event),
        Appended::Repeat(_) => None,
    }
}

/// The message of a post that kept nothing yet.
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
