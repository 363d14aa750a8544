//! Commands on people who come through channels: who says a message, and how accounts are linked by codes.

use std::sync::Arc;

use uuid::Uuid;

use super::people::audit;
use super::{Engine, Post};
use crate::access::{self, Actor, Role, Verb};
use crate::error::{Error, Result};
use crate::event::{EventType, NewEvent};
use crate::ids::UserId;
use crate::json::Json;
use crate::limits;
use crate::memory::owner::TurnSpeaker;
use crate::people::channel::{self, ChannelSender, LinkCode};
use crate::people::{KnownBy, User};
use crate::session::source::Company;
use crate::session::{MemoryMode, Session, SourceKind};
use crate::store::{Change, IdemKey, KeyNote, Record};
use crate::talk::route::MessageSender;
use crate::time::Timestamp;

/// Who says a message, as it is now.
pub(super) struct BroughtMessage {
    pub sender: MessageSender,
    pub speaker: TurnSpeaker,
    /// The person behind an account on a platform. One of whom the engine did not know is made by `record`.
    pub person: Option<User>,
    pub record: Option<Record>,
}

/// What a person is told at once, without a model, and what is written with it.
pub(super) struct AtOnce {
    pub told: String,
    pub record: Record,
    /// What the log says of it.
    pub event: Option<NewEvent>,
    /// The message asks for nothing else.
    pub is_all: bool,
}

impl BroughtMessage {
    /// A message that no person has sent.
    pub(super) fn of_nobody(speaker: TurnSpeaker) -> Self {
        Self { sender: MessageSender::Nobody, speaker, person: None, record: None }
    }
}

impl Engine {
    /// Who says a message that this caller posts. The rights are the person's of now.
    /// `is_first`: the message is not decided again, so it counts.
    pub(super) async fn brought(
        &self,
        actor: &Actor,
        post: &Post,
        is_first: bool,
        now: Timestamp,
    ) -> Result<BroughtMessage> {
        match &post.sender {
            Some(sender) => self.brought_for(actor, sender, is_first, now).await,
            None => {
                let speaker = TurnSpeaker::of(actor, post.user.as_deref())?;
                Ok(BroughtMessage { sender: sender_of(actor), ..BroughtMessage::of_nobody(speaker) })
            }
        }
    }

    /// Who says a message that a channel brings for this sender.
    pub(super) async fn brought_for(
        &self,
        actor: &Actor,
        sender: &ChannelSender,
        is_first: bool,
        now: Timestamp,
    ) -> Result<BroughtMessage> {
        sender.check(actor)?;
        if sender.is_bot {
            return Ok(BroughtMessage::of_nobody(TurnSpeaker::default()));
        }
        let known = self.tenant.user_by_identity(&actor.tenant, &sender.identity).await?;
        if is_first && known.as_ref().is_none_or(|user| user.known_by.is_none()) {
            self.strangers.count(actor, &sender.identity, now)?;
        }
        let (person, record) = match known {
            Some(user) => (user, None),
            None => {
                let guest = sender.guest(now, &*self.ids);
                (guest.clone(), Some(Record::AddGuest(Box::new(guest))))
            }
        };
        let is_admitted = person.is_active() && actor.rules.who.admits(person.known_by);
        let speaker = TurnSpeaker {
            caller: Some(person.id.clone()),
            user: Some(person.id.clone()),
            is_owner: person.role == Role::Owner,
            ..TurnSpeaker::default()
        };
        let sender = MessageSender::Person { role: person.role, is_admitted };
        Ok(BroughtMessage { sender, speaker, person: Some(person), record })
    }

    /// What a person in a direct chat is told at once: a code, if they ask for one; else, if they may not start turns,
    /// once a day that nobody answers them.
    pub(super) fn at_once(
        &self,
        sender: Option<&ChannelSender>,
        brought: &BroughtMessage,
        company: Company,
        text: &str,
        now: Timestamp,
    ) -> Result<Option<AtOnce>> {
        let (Some(sender), Some(person)) = (sender, &brought.person) else { return Ok(None) };
        if company == Company::Group || !person.is_active() {
            return Ok(None);
        }
        if channel::asks_for_code(text, person.known_by) {
            let code = channel::drawn_code(&*self.ids);
            let hash = channel::code_hash(&code).ok_or_else(|| Error::internal("a code that is none"))?;
            let kept = LinkCode {
                identity: sender.identity.clone(),
                name: sender.name.as_deref().map(crate::talk::speaker_name::shown_name),
                expires_at: now.plus(limits::LINK_CODE_LIFE),
            };
            let record = Record::PutLinkCode { code: Box::new(kept), hash: hash.into() };
            return Ok(Some(AtOnce { told: channel::code_told(&code), record, event: None, is_all: true }));
        }
        let is_barred = matches!(brought.sender, MessageSender::Person { is_admitted: false, .. });
        let told_today = person.told_at.is_some_and(|told| told.plus(limits::STRANGER_TOLD_EVERY) > now);
        if !is_barred || told_today {
            return Ok(None);
        }
        let metadata = Json::of(&serde_json::json!({"kind": "stranger_told"}))?;
        let event = NewEvent::engine(EventType::known("external.event"), Some(metadata));
        let record = Record::NoteStrangerTold { id: person.id.clone() };
        let told = channel::STRANGER_TOLD.to_owned();
        Ok(Some(AtOnce { told, record, event: Some(event), is_all: false }))
    }

    /// The account that a code is for, for an owner to look at before linking it.
    pub async fn link_code(&self, actor: &Actor, code: &str) -> Result<LinkCode> {
        access::check_general(actor, Verb::Administer)?;
        self.found_code(actor, code).await.map(|(_, found)| found)
    }

    /// Links the account that a code is for. It becomes `into`'s with everything that its guest has; without `into`, its
    /// guest is known from now on.
    pub async fn link_by_code(
        &self,
        actor: &Actor,
        code: &str,
        into: Option<&UserId>,
        key: Option<IdemKey>,
    ) -> Result<User> {
        access::check_general(actor, Verb::Administer)?;
        let (hash, found) = match self.found_code(actor, code).await {
            Ok(found) => found,
            Err(error) => return self.linked_before(actor, into, key).await?.ok_or(error),
        };
        let holder = self.tenant.user_by_identity(&actor.tenant, &found.identity).await?;
        let holder = holder.ok_or_else(unknown_code)?;
        let linked = into.unwrap_or(&holder.id);
        let change = match into {
            Some(into) if *into != holder.id => {
                self.user(actor, into).await.map_err(|_| Error::invalid("user_id", "names no user"))?;
                self.merge_change(actor, &holder.id, into).await?
            }
            _ => Change::new(actor.tenant.clone())
                .record(Record::KnowUser { id: holder.id.clone(), known_by: KnownBy::Linked }),
        };
        let note = Uuid::parse_str(linked.as_str()).ok().map(KeyNote);
        let change = change
            .record(Record::UseLinkCode { hash: hash.into() })
            .audited(audit(actor, "user.link", linked.as_str()))
            .keyed(key.map(|key| IdemKey { note, ..key }));
        match self.commit(change).await {
            Err(Error::NotFound) => Err(unknown_code()),
            done => done.map(drop),
        }?;
        self.user(actor, linked).await
    }

    /// The user that the first request with this key linked an account to.
    async fn linked_before(
        &self,
        actor: &Actor,
        into: Option<&UserId>,
        key: Option<IdemKey>,
    ) -> Result<Option<User>> {
        let Some(key) = key else { return Ok(None) };
        let Some(replay) = self.sessions.recall(&actor.tenant, key).await? else { return Ok(None) };
        let noted = replay.note.map(|note| UserId::stored(note.0.to_string()));
        match into.cloned().or(noted) {
            Some(linked) => self.user(actor, &linked).await.map(Some),
            None => Ok(None),
        }
    }

    async fn found_code(&self, actor: &Actor, typed: &str) -> Result<(String, LinkCode)> {
        let hash = channel::code_hash(typed).ok_or_else(unknown_code)?;
        let found = self.tenant.link_code(&actor.tenant, &hash).await?;
        let now = self.tenant.now().await?;
        let found = found.filter(|found| found.expires_at > now).ok_or_else(unknown_code)?;
        Ok((hash, found))
    }
}

fn unknown_code() -> Error {
    Error::invalid(
        "code",
        "is unknown, was used, or is older than ten minutes; the person asks for another with /link",
    )
}

/// Who says what this credential brings without a sender. A channel's key speaks for nobody by itself.
fn sender_of(actor: &Actor) -> MessageSender {
    match actor.role {
        Role::Channel | Role::Worker => MessageSender::Nobody,
        Role::Share => MessageSender::Person { role: Role::Guest, is_admitted: true },
        role => MessageSender::Person { role, is_admitted: true },
    }
}

/// Whose session this becomes: a direct chat of a channel is that of the first person who speaks in it.
pub(super) fn new_holder(session: &Session, speaker: &TurnSpeaker) -> Option<UserId> {
    let is_free = session.details.source.kind == SourceKind::Channel
        && !session.head.is_group
        && session.head.holder.is_none();
    speaker.caller.clone().filter(|_| is_free)
}

/// A channel's people are kept in the durable store, so they do not speak in a conversation that leaves no trace.
pub(super) fn check_leaves_trace(session: &Session, sender: Option<&ChannelSender>) -> Result<()> {
    match sender {
        Some(_) if session.details.memory_mode == MemoryMode::Incognito => {
            Err(Error::invalid("sender", "an incognito conversation has no people of channels"))
        }
        _ => Ok(()),
    }
}

/// What the log says of a sender, beside the author.
pub(super) fn sender_note(sender: &ChannelSender) -> serde_json::Value {
    serde_json::json!({
        "platform": sender.identity.platform,
        "external_id": sender.identity.external_id,
        "name": sender.name.as_deref().map(crate::talk::speaker_name::shown_name),
        "is_bot": sender.is_bot,
    })
}

/// The counters of what strangers send.
pub(super) type Strangers = Arc<crate::people::StrangerRates>;
