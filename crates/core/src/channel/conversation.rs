//! The conversation on a platform that a session belongs to, and how it gets a fresh session. Owns the key, the
//! metadata in which sessions carry it, and the decisions behind `/new`.

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::{IdSource, Incarnation, SessionId, UserId};
use crate::json::Json;
use crate::session::source::Company;
use crate::session::{Details, Head, Session, SessionSource, SessionType, SourceKind, Status};
use crate::store::{NewSession, Update};
use crate::time::Timestamp;

/// The metadata that names the session which `/new` has opened in place of this one. Only the engine writes it.
pub const REPLACED_BY: &str = "replaced_by";

/// In which metadata a session of a platform carries the ids of its chat and of its thread.
const PLATFORM_PLACES: [(&str, &str, Option<&str>); 3] = [
    ("telegram", "telegram_chat_id", Some("telegram_thread_id")),
    ("slack", "slack_channel_id", Some("slack_thread_ts")),
    ("discord", "discord_channel_id", None),
];

/// A conversation as its platform tells it apart from others. Two bots may see the same chat id, so the channel is part
/// of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConversationKey {
    /// The name of the channel.
    pub channel: Box<str>,
    pub chat: Box<str>,
    /// The thread or topic within the chat; empty outside threads.
    pub thread: Box<str>,
}

impl ConversationKey {
    /// The chat and the thread in one text. A line break is in neither.
    pub fn place(&self) -> String {
        format!("{}\n{}", self.chat, self.thread)
    }

    /// The conversation of a session; `None` for a session that no declared channel has opened.
    pub fn of(session: &Session) -> Option<Self> {
        let source = &session.details.source;
        let channel = source.trigger_id.as_deref().filter(|_| source.kind == SourceKind::Channel)?;
        let (_, chat, thread) =
            PLATFORM_PLACES.iter().find(|(platform, ..)| source.platform.as_deref() == Some(*platform))?;
        let metadata = session.details.metadata.value();
        let text = |key: &str| metadata.get(key).and_then(Value::as_str);
        Some(Self {
            channel: channel.into(),
            chat: text(chat)?.into(),
            thread: thread.and_then(text).unwrap_or_default().into(),
        })
    }
}

/// What a new session of a conversation begins with.
#[derive(Clone, Debug)]
pub struct ConversationOpening<'a> {
    pub key: &'a ConversationKey,
    /// The platform, by its own name.
    pub platform: &'static str,
    pub company: Company,
    /// The name of the chat, if the platform says it.
    pub title: Option<&'a str>,
    pub agent_slug: Option<&'a str>,
    /// The person who speaks, in a direct chat: the session is theirs.
    pub holder: Option<&'a UserId>,
}

/// The session that a conversation begins, or goes on in after `/new`. Its id says the day and nothing of the person.
pub fn opened(opening: &ConversationOpening<'_>, now: Timestamp, ids: &dyn IdSource) -> Result<NewSession> {
    let is_group = opening.company == Company::Group;
    let holder = opening.holder.filter(|_| !is_group).cloned();
    let mut head = Head::blank(Incarnation::drawn(ids), SessionType::Mixed, Status::Idle, holder);
    head.is_talk = true;
    head.is_group = is_group;
    let source = SessionSource {
        kind: SourceKind::Channel,
        interactive: true,
        platform: Some(opening.platform.into()),
        trigger_id: Some(opening.key.channel.to_string()),
        company: opening.company,
    };
    let details = Details {
        metadata: placed_in(opening.platform, opening.key)?,
        agent_slug: opening.agent_slug.map(Into::into),
        title: opening.title.map(Into::into),
        ..Details::blank(source)
    };
    Ok(NewSession {
        id: drawn_id(opening.platform, now, ids.unordered()),
        head,
        details,
        participants: opening.holder.into_iter().cloned().collect(),
        fork_of: None,
    })
}

fn drawn_id(platform: &str, now: Timestamp, drawn: Uuid) -> SessionId {
    let drawn = drawn.simple().to_string();
    SessionId::stored(format!("{platform}:{}-{}", now.day(), &drawn[drawn.len() - 8..]))
}

fn placed_in(platform: &str, key: &ConversationKey) -> Result<Json> {
    let (_, chat, thread) = PLATFORM_PLACES
        .iter()
        .find(|(name, ..)| *name == platform)
        .ok_or_else(|| Error::internal(format!("`{platform}` is no platform")))?;
    let mut metadata = Map::new();
    metadata.insert((*chat).to_owned(), (&*key.chat).into());
    if let Some(thread) = thread.filter(|_| !key.thread.is_empty()) {
        metadata.insert(thread.to_owned(), (&*key.thread).into());
    }
    Json::of(&metadata)
}

/// What `/new` does to the row of the session that the conversation had: it is hidden, names its successor, and a turn
/// that runs in it is asked to stop.
pub fn replace(update: &mut Update, session: &Session, by: &SessionId) -> Result<()> {
    let mut metadata = session.details.metadata.value();
    if let Some(fields) = metadata.as_object_mut() {
        fields.insert(REPLACED_BY.to_owned(), by.as_str().into());
    }
    update.metadata = Some(Json::of(&metadata)?);
    update.inactive = Some(true);
    update.stop_requested = session.head.claim.is_some().then_some(true);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::CountedIds;

    fn key(thread: &str) -> ConversationKey {
        ConversationKey { channel: "desk".into(), chat: "-100200".into(), thread: thread.into() }
    }

    fn opening(key: &ConversationKey, platform: &'static str, company: Company) -> NewSession {
        let ann = UserId::stored("ann");
        let opening =
            ConversationOpening { key, platform, company, title: None, agent_slug: None, holder: Some(&ann) };
        opened(&opening, Timestamp::from_micros(1_000_000), &CountedIds::default()).unwrap()
    }

    fn made(new: NewSession) -> Session {
        let head = new.head.clone();
        new.made(crate::ids::TenantId::stored("t"), head, Timestamp::default())
    }

    #[test]
    fn a_session_carries_the_conversation_that_it_was_opened_for() {
        for (platform, thread) in
            [("telegram", ""), ("telegram", "7"), ("slack", "1700.000100"), ("discord", "")]
        {
            let session = made(opening(&key(thread), platform, Company::Group));
            assert_eq!(ConversationKey::of(&session), Some(key(thread)), "{platform} {thread:?}");
            assert!(session.id.as_str().starts_with(&format!("{platform}:1970-01-01-")), "{}", session.id);
            assert!(!session.id.as_str().contains("ann"));
        }
    }

    #[test]
    fn a_session_that_no_declared_channel_opened_belongs_to_no_conversation() {
        let mut session = made(opening(&key(""), "telegram", Company::Direct));
        session.details.source.trigger_id = None;
        assert_eq!(ConversationKey::of(&session), None, "a channel of the operator's own");
        let mut session = made(opening(&key(""), "telegram", Company::Direct));
        session.details.source.kind = SourceKind::Api;
        assert_eq!(ConversationKey::of(&session), None);
    }

    #[test]
    fn a_direct_chat_is_the_speakers_and_a_group_is_nobodys() {
        let direct = opening(&key(""), "telegram", Company::Direct);
        assert_eq!(direct.head.holder, Some(UserId::stored("ann")));
        let group = opening(&key(""), "telegram", Company::Group);
        assert_eq!((group.head.holder, group.head.is_group), (None, true));
        assert_eq!(group.participants, [UserId::stored("ann")]);
    }

    #[test]
    fn a_replaced_session_is_hidden_and_names_its_successor() {
        let session = made(opening(&key(""), "telegram", Company::Direct));
        let mut update = Update::default();
        replace(&mut update, &session, &SessionId::stored("next")).unwrap();
        assert_eq!((update.inactive, update.stop_requested), (Some(true), None));
        let metadata = update.metadata.unwrap().value();
        assert_eq!(metadata[REPLACED_BY], "next");
        assert_eq!(metadata["telegram_chat_id"], "-100200", "the rest stays");
    }
}
