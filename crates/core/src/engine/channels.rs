//! Commands of channels: what a platform tells one is kept in a single commit with its key, and a node holds a channel
//! by a lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::{SmallVec, smallvec};

use super::channel_people::{BroughtMessage, new_holder};
use super::log::{DraftEvent, check_batch};
use super::sittings::{LookbackResult, look_back};
use super::talk::{RunningTurn, change_from_plan, landed, new_event};
use super::{CommandOutcome, Decided, Engine};
use crate::access::{Actor, Verb, check_general};
use crate::channel::conversation::{self, ConversationOpening};
use crate::channel::inbound::{ChannelProfile, InboundMessage};
use crate::channel::lease::LeaseFate;
use crate::channel::{
    ChannelFigures, ChannelState, ChannelStateChange, ConversationKey, Delivery, EpochRule, LeaseChange,
};
use crate::error::{Conflict, Error, Result};
use crate::event::{Event, NewEvent};
use crate::ids::{SessionId, TenantId};
use crate::json::Json;
use crate::limits;
use crate::memory::owner::TurnSpeaker;
use crate::people::User;
use crate::session::Session;
use crate::session::decide::{SessionStep, created_event};
use crate::session::source::Company;
use crate::store::{Change, ChangePart, Guard, NewSession, PartTarget, Record, Update, Write};
use crate::talk::route::{Arrival, Routing, SpeakerPrefix, route};
use crate::talk::turn::{self, EndFirst, IncomingMessage, MessagePlan, OnBusy, TurnHost, TurnPlan};
use crate::talk::{Talk, Tier};
use crate::time::Timestamp;

/// What a conversation is told when `/new` has begun a fresh one.
const BEGUN_ANEW: &str = "A new conversation has begun.";

/// What became of something that a platform has told.
#[derive(Debug)]
pub enum ReceivedMessage {
    /// It was told before: nothing was written now.
    Repeated,
    /// It is in the log, and wakes nobody. Where it asked for a code to link the account with, the person is told that
    /// code at once: only its hash is kept.
    Kept { session: SessionId, code: Option<String> },
    /// Its turn is open; the caller must run it.
    Started(Box<RunningTurn>, Arc<Event>),
    /// It waits for its turn.
    Waits(SessionId),
    /// The open sitting must be ended first; nothing was written.
    EndFirst(SessionId, EndFirst),
}

/// A node's hold on a channel: what it writes under an older one is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelHold {
    pub tenant: TenantId,
    pub channel: Box<str>,
    pub(super) epoch: u64,
}

/// What is decided about a message of a platform.
enum ReceivedFate {
    /// The speaker of the turn, and whether it opens a sitting.
    Starts(TurnSpeaker, bool),
    Waits,
    /// The code that the person is told.
    Kept(Option<String>),
}

/// A conversation as it is before something arrives in it.
struct FoundConversation {
    session: Session,
    talk: Talk,
    /// Set where the arrival makes the session.
    new: Option<NewSession>,
}

impl Engine {
    /// Takes in a message that a platform has told, in the session of its conversation, which is made or shown again: by
    /// the rule of [`route`], its turn starts or waits, or it is only kept. One commit holds the message and the key by
    /// which a repeat is recognised.
    pub async fn receive(
        &self,
        profile: &ChannelProfile,
        inbound: &InboundMessage,
        hold: &TurnHost,
    ) -> Result<ReceivedMessage> {
        let actor = profile.actor();
        let event = message_of(&actor, profile, inbound)?;
        let decided_before = AtomicBool::new(false);
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    if self.was_told(profile, &inbound.update_key).await? {
                        return Ok(Decided::Nothing(ReceivedMessage::Repeated));
                    }
                    let is_first = !decided_before.swap(true, Ordering::Relaxed);
                    let now = self.tenant.now().await?;
                    let brought = self.brought_by(profile, inbound, is_first, now).await?;
                    let mut found =
                        self.found_conversation(profile, inbound, brought.person.as_ref(), now).await?;
                    let holder = match found.new {
                        Some(_) => None,
                        None => new_holder(&found.session, &brought.speaker),
                    };
                    if holder.is_some() {
                        found.session.head.holder.clone_from(&holder);
                    }
                    let author = brought.person.as_ref().map(|person| person.id.as_str().into());
                    let event = NewEvent { author: author.or(event.author.clone()), ..event.clone() };
                    let mut is_directed = inbound.is_directed;
                    if inbound.company == Company::Group {
                        found.talk.is_said_to_agent(
                            profile.rules.threads,
                            inbound.thread(),
                            &mut is_directed,
                        );
                    }
                    let sender = inbound.person(profile);
                    let at_once =
                        self.at_once(sender.as_ref(), &brought, inbound.company, &inbound.text, now)?;
                    let is_all = at_once.as_ref().is_some_and(|at_once| at_once.is_all);
                    let mut records = Vec::from_iter(brought.record);
                    let (plan, fate) =
                        match route(inbound.company, brought.sender, is_directed, Arrival::Message) {
                            Routing::Trigger { prefix } if !is_all => {
                                let is_aside = prefix == SpeakerPrefix::NameAside;
                                let speaker = TurnSpeaker { is_aside, ..brought.speaker };
                                let opens = found.talk.sitting.is_none();
                                let message = IncomingMessage {
                                    event,
                                    on_busy: OnBusy::Queue,
                                    tier: Tier::Fast,
                                    speaker: speaker.clone(),
                                };
                                let settings = &self.settings.talk;
                                match turn::begin(&found.session, &found.talk, message, hold, now, settings)?
                                {
                                    MessagePlan::Started(plan) => {
                                        (*plan, ReceivedFate::Starts(speaker, opens))
                                    }
                                    MessagePlan::Queued(plan) => (*plan, ReceivedFate::Waits),
                                    MessagePlan::EndFirst(first) => {
                                        let id = found.session.id;
                                        return Ok(Decided::Nothing(ReceivedMessage::EndFirst(id, first)));
                                    }
                                }
                            }
                            Routing::Trigger { .. } | Routing::Keep | Routing::Drop => {
                                let (mut events, mut code) = (vec![event], None);
                                if let Some(at_once) = at_once {
                                    events.extend(at_once.event);
                                    records.push(at_once.record);
                                    match at_once.is_all {
                                        true => code = Some(at_once.told),
                                        false => {
                                            records.push(sentence(inbound, &found.session.id, &at_once.told))
                                        }
                                    }
                                }
                                let plan = turn::keep(
                                    &found.session, &found.talk, &brought.speaker, events, true, now,
                                )?;
                                let plan =
                                    plan.ok_or_else(|| Error::internal("a kept message has no plan"))?;
                                (plan, ReceivedFate::Kept(code))
                            }
                        };
                    let plan = plan.held_by(holder);
                    let died = turn::died(&found.session, now);
                    let change = self.turn_change(&found.session, &plan, died).await?;
                    let mut change = found
                        .placed(&inbound.conversation, change)?
                        .record(told(profile, &inbound.update_key));
                    change.records.extend(records);
                    Ok(Decided::Change(Box::new(change), Some((found.session, plan.talk, fate))))
                })
            })
            .await;
        let (done, planned) = match done {
            Ok(CommandOutcome::Done(done, planned)) => (done, planned),
            Ok(CommandOutcome::Nothing(received)) => return Ok(received),
            // The same thing was told twice at once.
            Err(Error::Conflict(Conflict::AlreadyExists)) => return Ok(ReceivedMessage::Repeated),
            Err(error) => return Err(error),
        };
        let (session, talk, fate) =
            planned.ok_or_else(|| Error::internal("a received message was not planned"))?;
        let (session, talk, appended) = landed(session, talk, *done)?;
        match fate {
            ReceivedFate::Kept(code) => Ok(ReceivedMessage::Kept { session: session.id, code }),
            ReceivedFate::Waits => Ok(ReceivedMessage::Waits(session.id)),
            ReceivedFate::Starts(speaker, opened) => {
                let message = appended
                    .into_iter()
                    .filter_map(new_event)
                    .find(|event| event.kind.as_str() == "user.message")
                    .ok_or_else(|| Error::internal("a commit lost its message"))?;
                let (epoch, turn, hold) = (session.head.epoch, message.sequence, hold.clone());
                let begun = RunningTurn {
                    session,
                    talk,
                    epoch,
                    turn,
                    opened,
                    tier: Tier::Fast,
                    speaker,
                    resume: None,
                    hold,
                };
                Ok(ReceivedMessage::Started(Box::new(begun), message))
            }
        }
    }

    /// Begins a conversation anew, as `/new` asks: what looking back has found is written, the session is hidden and
    /// names its successor, and the conversation goes on in that. One commit; a repeat of the command does nothing.
    /// `None`: nobody who may ask for it has.
    pub async fn start_over(
        &self,
        profile: &ChannelProfile,
        inbound: &InboundMessage,
        found: Option<&LookbackResult>,
    ) -> Result<Option<SessionId>> {
        let decided_before = AtomicBool::new(false);
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let is_told = self.was_told(profile, &inbound.update_key).await?;
                    let is_first = !decided_before.swap(true, Ordering::Relaxed);
                    let now = self.tenant.now().await?;
                    let brought = self.brought_by(profile, inbound, is_first, now).await?;
                    let routing =
                        route(inbound.company, brought.sender, inbound.is_directed, Arrival::Message);
                    if is_told || !matches!(routing, Routing::Trigger { .. }) {
                        return Ok(Decided::Nothing(()));
                    }
                    let key = &inbound.conversation;
                    let new = self.fresh_session(profile, inbound, brought.person.as_ref(), now)?;
                    let (id, made) = (new.id.clone(), created_event(&new)?);
                    let mut change = Change::new(profile.tenant.clone());
                    let before = self.conversation_of_key(&profile.tenant, key).await?;
                    let instead_of = before.as_ref().map(|(session, _)| session.id.clone());
                    if let Some((session, talk)) = before {
                        let mut plan = match found {
                            Some(found) if talk.looked_back_to < found.to && !turn::runs(&session, now) => {
                                look_back(&session, &talk, found, "new_session")?.0
                            }
                            _ => TurnPlan { step: SessionStep::of(Update::default()), talk },
                        };
                        conversation::replace(&mut plan.step.update, &session, &id)?;
                        change = change_from_plan(&session, &plan);
                    }
                    change.parts.push(creation_part(new, smallvec![Write::Append(vec![made])]));
                    let mut change = change
                        .record(Record::BindConversation {
                            key: key.clone(),
                            session: id.clone(),
                            instead_of,
                        })
                        .record(sentence(inbound, &id, BEGUN_ANEW))
                        .record(told(profile, &inbound.update_key));
                    change.records.extend(brought.record);
                    Ok(Decided::Change(Box::new(change), Some(id)))
                })
            })
            .await;
        match done {
            Ok(CommandOutcome::Done(_, id)) => Ok(id),
            Ok(CommandOutcome::Nothing(())) | Err(Error::Conflict(Conflict::AlreadyExists)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The session that a conversation is held in now, with its talk row.
    pub async fn conversation_of_key(
        &self,
        tenant: &TenantId,
        key: &ConversationKey,
    ) -> Result<Option<(Session, Talk)>> {
        match self.tenant.conversation_session(tenant, key).await? {
            Some(id) => self.sessions.talk(tenant, &id).await,
            None => Ok(None),
        }
    }

    /// Lets a node hold a channel, if no other one does and no operator has paused it.
    pub async fn hold_channel(&self, profile: &ChannelProfile, node: &str) -> Result<Option<ChannelHold>> {
        let row = self.tenant.channel(&profile.tenant, &profile.name).await?;
        let seen = row.as_ref().map(|row| row.epoch);
        let row = row.unwrap_or_default();
        let hold =
            |epoch| ChannelHold { tenant: profile.tenant.clone(), channel: profile.name.clone(), epoch };
        match row.fate_of(node, self.tenant.now().await?) {
            LeaseFate::Own => return Ok(Some(hold(row.epoch))),
            LeaseFate::Refused => return Ok(None),
            LeaseFate::Free => {}
        }
        let lease = LeaseChange::Take { node: node.into(), lease: limits::CHANNEL_LEASE };
        let change = ChannelStateChange {
            epoch: EpochRule::Seen(seen),
            lease: Some(lease),
            ..ChannelStateChange::default()
        };
        match self.commit(channel_change(&profile.tenant, &profile.name, change)).await {
            Ok(_) => Ok(Some(hold(row.epoch + 1))),
            // Another node was faster.
            Err(Error::Conflict(Conflict::SessionBusy)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Renews a node's hold on a channel. Returns whether the node holds it still: it must stop if not, or once the
    /// lease has ended without an answer.
    pub async fn renew_channel(&self, hold: &ChannelHold) -> Result<bool> {
        let row = self.tenant.channel(&hold.tenant, &hold.channel).await?.unwrap_or_default();
        if row.paused {
            self.release_channel(hold).await?;
            return Ok(false);
        }
        let lease = Some(LeaseChange::Renew(limits::CHANNEL_LEASE));
        self.write_under(hold, ChannelStateChange { lease, ..ChannelStateChange::default() }).await
    }

    /// Lets go of a channel, so that another node need not wait for the end of the lease.
    pub async fn release_channel(&self, hold: &ChannelHold) -> Result<()> {
        let lease = Some(LeaseChange::Release);
        self.write_under(hold, ChannelStateChange { lease, ..ChannelStateChange::default() }).await.map(drop)
    }

    /// Notes what went wrong in a channel, or that all is well again.
    pub async fn report_channel(&self, hold: &ChannelHold, error: Option<&str>) -> Result<bool> {
        let error = Some(error.map(Into::into));
        self.write_under(hold, ChannelStateChange { error, ..ChannelStateChange::default() }).await
    }

    async fn write_under(&self, hold: &ChannelHold, change: ChannelStateChange) -> Result<bool> {
        let change = ChannelStateChange { epoch: EpochRule::Seen(Some(hold.epoch)), ..change };
        match self.commit(channel_change(&hold.tenant, &hold.channel, change)).await {
            Ok(_) => Ok(true),
            Err(Error::Conflict(Conflict::SessionBusy)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Pauses a channel, or lets it go on. A paused one neither reads nor sends; what is to be sent waits.
    pub async fn pause_channel(&self, actor: &Actor, name: &str, paused: bool) -> Result<()> {
        check_general(actor, Verb::Administer)?;
        let change = ChannelStateChange { paused: Some(paused), ..ChannelStateChange::default() };
        self.commit(channel_change(&actor.tenant, name, change)).await.map(drop)
    }

    /// How a channel stands.
    pub async fn channel_standing(
        &self,
        actor: &Actor,
        name: &str,
    ) -> Result<(ChannelState, ChannelFigures)> {
        check_general(actor, Verb::Administer)?;
        let state = self.tenant.channel(&actor.tenant, name).await?.unwrap_or_default();
        Ok((state, self.tenant.channel_figures(&actor.tenant, name).await?))
    }

    /// Forgets what a channel was told so long ago that no platform repeats it. Returns how many rows went.
    pub async fn forget_channel_updates(&self, hold: &ChannelHold, limit: usize) -> Result<u64> {
        let before = self.tenant.now().await?.minus(limits::CHANNEL_UPDATE_KEPT);
        self.tenant.forget_channel_updates(&hold.tenant, &hold.channel, before, limit).await
    }

    async fn was_told(&self, profile: &ChannelProfile, update_key: &str) -> Result<bool> {
        self.tenant.has_channel_update(&profile.tenant, &profile.name, update_key).await
    }

    /// Who says a message on a platform, with the rights of now.
    async fn brought_by(
        &self,
        profile: &ChannelProfile,
        inbound: &InboundMessage,
        is_first: bool,
        now: Timestamp,
    ) -> Result<BroughtMessage> {
        match inbound.person(profile) {
            Some(sender) => self.brought_for(&profile.actor(), &sender, is_first, now).await,
            None => Ok(BroughtMessage::of_nobody(TurnSpeaker::default())),
        }
    }

    async fn found_conversation(
        &self,
        profile: &ChannelProfile,
        inbound: &InboundMessage,
        user: Option<&User>,
        now: Timestamp,
    ) -> Result<FoundConversation> {
        if let Some((session, talk)) =
            self.conversation_of_key(&profile.tenant, &inbound.conversation).await?
        {
            return Ok(FoundConversation { session, talk, new: None });
        }
        let new = self.fresh_session(profile, inbound, user, now)?;
        let session = new.clone().made(profile.tenant.clone(), new.head.clone(), now);
        Ok(FoundConversation { session, talk: Talk::default(), new: Some(new) })
    }

    fn fresh_session(
        &self,
        profile: &ChannelProfile,
        inbound: &InboundMessage,
        user: Option<&User>,
        now: Timestamp,
    ) -> Result<NewSession> {
        let opening = ConversationOpening {
            key: &inbound.conversation,
            platform: profile.platform,
            company: inbound.company,
            title: inbound.chat_title.as_deref(),
            agent_slug: profile.agent_slug.as_deref(),
            holder: user.map(|user| &user.id),
        };
        conversation::opened(&opening, now, &*self.ids)
    }
}

impl FoundConversation {
    /// The change of a plan, in a session that may have to be made.
    fn placed(&self, key: &ConversationKey, mut change: Change) -> Result<Change> {
        let Some(new) = &self.new else { return Ok(change) };
        let part = change.parts.pop().ok_or_else(|| Error::internal("a plan has no part"))?;
        let mut writes: SmallVec<[Write; 2]> = smallvec![Write::Append(vec![created_event(new)?])];
        writes.extend(part.writes);
        let bound = Record::BindConversation { key: key.clone(), session: new.id.clone(), instead_of: None };
        Ok(change.part(creation_part(new.clone(), writes)).record(bound))
    }
}

fn creation_part(new: NewSession, writes: SmallVec<[Write; 2]>) -> ChangePart {
    ChangePart { on: PartTarget::New(Box::new(new)), guard: Guard::default(), writes }
}

fn channel_change(tenant: &TenantId, name: &str, change: ChannelStateChange) -> Change {
    Change::new(tenant.clone()).record(Record::PutChannel { channel: name.into(), change })
}

fn told(profile: &ChannelProfile, update_key: &str) -> Record {
    Record::AddChannelUpdate { channel: profile.name.clone(), update_key: update_key.into() }
}

/// A fixed sentence to the conversation of a message; a repeat of that message files no second one.
fn sentence(inbound: &InboundMessage, session: &SessionId, text: &str) -> Record {
    let about = format!("to:{}", inbound.update_key);
    Record::AddDelivery(Box::new(Delivery::sentence(&inbound.conversation, session, &about, text)))
}

fn message_of(actor: &Actor, profile: &ChannelProfile, inbound: &InboundMessage) -> Result<NewEvent> {
    let draft = DraftEvent {
        kind: "user.message".to_owned(),
        content: Some(Json::of(&inbound.text)?),
        metadata: Some(inbound.metadata(profile)?),
        external_event_id: Some(inbound.external_event_id()),
        ..DraftEvent::default()
    };
    check_batch(actor, vec![draft])?.pop().ok_or_else(|| Error::internal("a draft is gone"))
}
