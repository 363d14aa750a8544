//! Reads of a conversation: its messages, its state and its liveness, from its log and its talk row. Nothing is
//! changed here.

use std::collections::HashMap;
use std::sync::Arc;

use super::Engine;
use super::talk::{RunningTurn, is_posted};
use crate::access::{self, Actor, Verb};
use crate::error::{Error, Result};
use crate::event::{Event, EventQuery, MESSAGE_TYPES};
use crate::ids::{SessionId, UserId};
use crate::limits;
use crate::session::Session;
use crate::store::DueSession;
use crate::talk::state::{self, StateFields};
use crate::talk::turn;
use crate::talk::{Liveness, Talk};

/// The event types that a model is given of a conversation with tools.
const STEP_TYPES: [&str; 6] = [
    "user.message", "user.tool_confirmation", "agent.message", "agent.tool_call", "agent.tool_result",
    "tool.invocation_started",
];

/// The state of a conversation, as a caller sees it.
#[derive(Debug)]
pub struct TalkStanding {
    pub session: Session,
    pub talk: Talk,
    pub liveness: Liveness,
}

impl Engine {
    /// The newest messages up to a turn, oldest first.
    pub async fn said_before(&self, session: &Session, before: u64, limit: usize) -> Result<Vec<Event>> {
        self.newest_of(session, Some(before), &MESSAGE_TYPES, limit).await
    }

    /// The newest messages of a conversation with the tool calls between them, oldest first.
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
        let mut events = self.sessions.events(&session.tenant, &session.id, query).await?.events;
        events.reverse();
        Ok(events)
    }

    /// The names of those who say these, by user. A user without a name, and one whom this tenant does not have, is left
    /// out, and so are those beyond the newest [`limits::SPEAKERS_NAMED_MAX`].
    pub async fn speaker_names(
        &self,
        session: &Session,
        events: &[Event],
    ) -> Result<HashMap<String, String>> {
        let mut names = HashMap::new();
        let mut seen: Vec<&str> = Vec::new();
        for author in events.iter().rev().filter_map(|event| event.author.as_deref()) {
            if seen.contains(&author) || seen.len() == limits::SPEAKERS_NAMED_MAX {
                continue;
            }
            seen.push(author);
            let user = self.tenant.user(&session.tenant, &UserId::stored(author)).await?;
            if let Some(name) = user.and_then(|user| user.name) {
                names.insert(author.to_owned(), name);
            }
        }
        Ok(names)
    }

    /// The message that a turn answers.
    pub async fn said_at(&self, begun: &RunningTurn) -> Result<Event> {
        self.message_at(&begun.session, begun.turn).await
    }

    /// One message of a conversation.
    pub async fn message_at(&self, session: &Session, sequence: u64) -> Result<Event> {
        let query = EventQuery { after: sequence - 1, limit: 1, ..EventQuery::default() };
        let page = self.sessions.events(&session.tenant, &session.id, query).await?;
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

    /// The oldest messages after a sequence, in order.
    pub async fn said_after(&self, session: &Session, after: u64, limit: usize) -> Result<Vec<Event>> {
        let types = MESSAGE_TYPES.iter().map(|kind| (*kind).to_owned()).collect();
        let query = EventQuery { after, types, limit, ..EventQuery::default() };
        Ok(self.sessions.events(&session.tenant, &session.id, query).await?.events)
    }

    /// The newest messages of a conversation, oldest first. One that has not begun has none; another user's looks the
    /// same.
    pub async fn history(&self, actor: &Actor, id: &SessionId, limit: usize) -> Result<Vec<Event>> {
        match self.load_log(actor, id).await {
            Ok(session) => self.said_since(&session, None, limit).await,
            Err(Error::NotFound) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The current state of a conversation that may not have begun: then, and for another user's, it is `None`.
    pub async fn standing_if_begun(&self, actor: &Actor, id: &SessionId) -> Result<Option<TalkStanding>> {
        match self.standing(actor, id).await {
            Ok(standing) => Ok(Some(standing)),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The current state of a conversation.
    pub async fn standing(&self, actor: &Actor, id: &SessionId) -> Result<TalkStanding> {
        let (session, talk) = self.conversation(actor, Verb::Read, id).await?;
        access::check_log(actor, &session, self.activity.owners_read)?;
        let liveness = turn::liveness(&session, &talk, self.tenant.now().await?, &self.settings.talk);
        Ok(TalkStanding { session, talk, liveness })
    }

    /// The state as it was after a sequence, read from the log.
    pub async fn state_at(&self, actor: &Actor, id: &SessionId, at: u64) -> Result<StateFields> {
        let session = self.load_log(actor, id).await?;
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
            let page = self.sessions.events(&session.tenant, &session.id, query).await?;
            before = Some(page.next_after);
            let whole = page.events.iter().position(state::is_whole);
            let end = whole.map_or(page.events.len(), |place| place + 1);
            saying.extend(page.events.into_iter().take(end));
            if whole.is_some() || !page.has_more {
                break;
            }
        }
        let mut fields = StateFields::default();
        for event in saying.iter().rev() {
            state::take(&mut fields, event);
        }
        Ok(fields)
    }

    /// A session with its talk row, if the caller may do this with it.
    pub async fn conversation(&self, actor: &Actor, verb: Verb, id: &SessionId) -> Result<(Session, Talk)> {
        let (session, talk) = self.sessions.talk(&actor.tenant, id).await?.ok_or(Error::NotFound)?;
        access::check(actor, verb, &session)?;
        Ok((session, talk))
    }

    /// The same, for background work without a caller.
    pub async fn conversation_of(&self, due: &DueSession) -> Result<Option<(Session, Talk)>> {
        self.sessions.talk(&due.tenant, &due.session).await
    }

    pub(super) async fn message_among(
        &self,
        actor: &Actor,
        id: &SessionId,
        sequences: &[u64],
    ) -> Result<Arc<Event>> {
        self.events_at(actor, id, sequences)
            .await?
            .into_iter()
            .find(|event| is_posted(event))
            .ok_or(Error::NotFound)
    }
}
