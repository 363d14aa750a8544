//! Short forms of the commands that programs give most often. Each returns a request that is sent by `.await`, and that
//! can be given an idempotency key before.

use std::future::IntoFuture;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use sederunt_agents::talk::TurnReply;
use sederunt_core::access::Actor;
use sederunt_core::definitions::{Agent, Definition, StoredDefinition, Task};
use sederunt_core::engine::{Append, DraftEvent, Engine, Post};
use sederunt_core::error::Result;
use sederunt_core::event::Event;
use sederunt_core::ids::SessionId;
use sederunt_core::json::Json;
use sederunt_core::session::decide::OpenSession;
use sederunt_core::session::{Session, SessionType};
use sederunt_core::store::IdemKey;
use sederunt_core::{Error, strict};
use serde_json::Value;

use crate::Sederunt;

type Effect<T> = Box<dyn FnOnce(Engine, Option<IdemKey>) -> BoxFuture<'static, Result<T>> + Send>;

/// A command that has not been sent yet: `.await` sends it.
#[must_use = "a command is sent by `.await`"]
pub struct Command<T> {
    engine: Engine,
    /// What a key of this command belongs to, and what a repeat must say again.
    scope: Vec<String>,
    body: String,
    key: Option<String>,
    effect: Effect<T>,
}

impl<T> Command<T> {
    /// Gives the command a key of your own: however often it is sent under this key, it has one effect, and each answer
    /// is the first one. Another command under the same key is refused. Keys are kept for a day.
    pub fn key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }
}

impl<T> std::fmt::Debug for Command<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Command({})", self.scope.last().map_or("", String::as_str))
    }
}

impl<T: 'static> IntoFuture for Command<T> {
    type Output = Result<T>;
    type IntoFuture = BoxFuture<'static, Result<T>>;

    fn into_future(self) -> Self::IntoFuture {
        let key = self.key.map(|key| {
            let scope = self.scope.iter().map(String::as_bytes).chain([key.as_bytes()]);
            IdemKey::scoped(&scope.collect::<Vec<_>>(), self.body)
        });
        (self.effect)(self.engine, key)
    }
}

impl Sederunt {
    /// Opens a session of a type. The id is drawn, unless the command has a session of that id opened again: see
    /// [`open_session`](Self::open_session).
    pub fn start(&self, me: &Arc<Actor>, session_type: SessionType) -> Command<Session> {
        self.open_session(me, OpenSession { session_type: Some(session_type), ..OpenSession::default() })
    }

    /// Opens a session, or shows the existing one of its id again.
    pub fn open_session(&self, me: &Arc<Actor>, wish: OpenSession) -> Command<Session> {
        let (body, me) = (format!("{wish:?}"), me.clone());
        self.command(&me.clone(), "open_session", body, move |engine, key| {
            Box::pin(async move { Ok(engine.open(&me, wish, key).await?.session) })
        })
    }

    /// Appends one event of a type, such as `user.message`, with a text.
    pub fn append_text(
        &self,
        me: &Arc<Actor>,
        session: &SessionId,
        kind: &str,
        text: &str,
    ) -> Command<Arc<Event>> {
        let (me, session, kind) = (me.clone(), session.clone(), kind.to_owned());
        let content = Json::of(&text);
        let body = format!("{session} {kind} {text}");
        self.command(&me.clone(), "append_text", body, move |engine, key| {
            Box::pin(async move {
                let event = DraftEvent { kind, content: Some(content?), ..DraftEvent::default() };
                let done =
                    engine.append(&me, &session, Append { events: vec![event], ..Append::default() }, key);
                done.await?.events.pop().ok_or_else(|| Error::internal("an append without an event"))
            })
        })
    }

    /// Says something in a conversation, which is opened if there is none of this name, and waits for the reply.
    pub async fn say(&self, me: &Arc<Actor>, conversation: &str, text: &str) -> Result<TurnReply> {
        let session = self.conversations.open(me, conversation, None).await?;
        let taken = self.conversations.post(me, &session, Post::text(text)?, None).await?;
        self.conversations.reply_to(me, taken).await
    }

    /// Defines an agent, as the body of `POST /api/agents` does.
    pub fn define_agent(&self, me: &Arc<Actor>, agent: &Value) -> Command<StoredDefinition<Agent>> {
        self.define_json(me, "define_agent", agent)
    }

    /// Defines a task, as the body of `POST /api/tasks` does.
    pub fn define_task(&self, me: &Arc<Actor>, task: &Value) -> Command<StoredDefinition<Task>> {
        self.define_json(me, "define_task", task)
    }

    /// Starts a run of a task, by its slug or id.
    pub fn trigger_task(&self, me: &Arc<Actor>, task: &str, input: &Value) -> Command<Session> {
        let (me, task, input) = (me.clone(), task.to_owned(), Json::of(input));
        let body = format!("{task} {}", input.as_ref().map_or("", Json::as_str));
        self.command(&me.clone(), "trigger_task", body, move |engine, key| {
            Box::pin(async move { engine.trigger(&me, &task, Some(input?), key).await })
        })
    }

    fn define_json<T: Definition + Send + 'static>(
        &self,
        me: &Arc<Actor>,
        operation: &str,
        definition: &Value,
    ) -> Command<StoredDefinition<T>> {
        let (me, text) = (me.clone(), definition.to_string());
        self.command(&me.clone(), operation, text.clone(), move |engine, key| {
            Box::pin(async move { engine.define(&me, None, strict::read::<T>(&text)?, key).await })
        })
    }

    fn command<T>(
        &self,
        me: &Actor,
        operation: &str,
        body: String,
        effect: impl FnOnce(Engine, Option<IdemKey>) -> BoxFuture<'static, Result<T>> + Send + 'static,
    ) -> Command<T> {
        let user = me.author().unwrap_or_default();
        let scope = [me.tenant.as_str(), me.credential.as_str(), &user, "embedded", operation];
        Command {
            engine: self.engine.clone(),
            scope: scope.map(str::to_owned).to_vec(),
            body,
            key: None,
            effect: Box::new(effect),
        }
    }
}
