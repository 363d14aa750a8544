//! Commands on the human bridge: start, stop, forget, and what is recorded in it.

use std::sync::Arc;

use smallvec::smallvec;

use super::log::check_batch;
use super::sessions::audit_name;
use super::{Append, AppendResult, CommandOutcome, Decided, Engine};
use crate::access::{Actor, Verb};
use crate::activity::bridge::{self, BridgeStart, TaskSwitch};
use crate::definitions::{StoredDefinition, Task};
use crate::error::{Error, Result};
use crate::event::{AppendOutcome, Event, Kinds, NewEvent};
use crate::ids::{SessionId, check_name};
use crate::limits;
use crate::people::Audit;
use crate::session::Session;
use crate::session::decide::created_event;
use crate::store::{
    AppendRule, Change, ChangePart, CommitResult, Guard, GuardRows, IdemKey, KeyNote, PartTarget, Refusal,
    Update, Write,
};
use crate::time::Timestamp;

/// The bridge that a person works in, with its task.
#[derive(Clone, Debug)]
pub struct StartedBridge {
    pub session: Session,
    pub task: StoredDefinition<Task>,
    /// Whether this call made it.
    pub created: bool,
}

impl Engine {
    /// Records that the caller works on a task from now on. A bridge that runs for another task is completed in the
    /// same commit; one that runs for this task stays.
    pub async fn start_bridge(
        &self,
        actor: &Actor,
        task: Option<&str>,
        key: Option<IdemKey>,
    ) -> Result<StartedBridge> {
        let holder = bridge::person(actor, &self.activity)?;
        let task = task.ok_or_else(|| Error::invalid("task_id", "is required"))?;
        check_name("task_id", task)?;
        let task: StoredDefinition<Task> = self.definition(actor, task).await?;
        let drawn = self.ids.ordered();
        let key = key.map(|key| IdemKey { note: Some(KeyNote(drawn)), ..key });
        // A caller that loses a race against another start of the same person decides again, on what the other made.
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let running = self.tenant.running_bridge(&actor.tenant, holder.as_ref()).await?;
                    let now = self.tenant.now().await?;
                    let (ended, mut new) =
                        match bridge::start(holder.clone(), &task, running.as_ref(), now, &*self.ids)? {
                            BridgeStart::Running => {
                                let kept = running.ok_or_else(|| Error::internal("a bridge is gone"))?;
                                return Ok(Decided::Nothing(kept));
                            }
                            BridgeStart::New { ended, new } => (ended, new),
                        };
                    new.id = SessionId::stored(drawn.to_string());
                    // The end comes first: the database allows one running bridge of a person.
                    let mut change = match (&running, ended) {
                        (Some(former), Some(step)) => self.change_for(former, *step).await?,
                        _ => Change::new(actor.tenant.clone()),
                    };
                    let events = vec![created_event(&new)?];
                    change.parts.push(ChangePart {
                        on: PartTarget::New(new),
                        guard: Guard::default(),
                        writes: smallvec![Write::Append(events)],
                    });
                    Ok(Decided::change(change.keyed(key)))
                })
            })
            .await;
        match self.or_replayed(actor, key, done).await? {
            CommandOutcome::Nothing(session) => Ok(StartedBridge { session, task, created: false }),
            CommandOutcome::Done(done, ()) => {
                let first = done.replay.as_ref().and_then(|replay| replay.note).map_or(drawn, |note| note.0);
                let id = SessionId::stored(first.to_string());
                Ok(StartedBridge {
                    session: self.session_after(actor, &id, &done).await?,
                    task,
                    created: true,
                })
            }
        }
    }

    /// The bridge that runs for the caller, with its task, if the task still exists and the caller may still see it.
    pub async fn active_bridge(
        &self,
        actor: &Actor,
    ) -> Result<Option<(Session, Option<StoredDefinition<Task>>)>> {
        let holder = bridge::person(actor, &self.activity)?;
        let Some(session) = self.tenant.running_bridge(&actor.tenant, holder.as_ref()).await? else {
            return Ok(None);
        };
        if bridge::is_overdue(&session.head, self.tenant.now().await?) {
            return Ok(None);
        }
        let task = match &session.details.task_id {
            Some(id) => match self.definition(actor, id).await {
                Err(Error::NotFound) => None,
                task => Some(task?),
            },
            None => None,
        };
        Ok(Some((session, task)))
    }

    /// Completes a bridge of the caller. One that has ended stays as it is.
    pub async fn stop_bridge(
        &self,
        actor: &Actor,
        id: Option<&str>,
        key: Option<IdemKey>,
    ) -> Result<Session> {
        bridge::person(actor, &self.activity)?;
        let id = id.ok_or_else(|| Error::invalid("session_id", "is required"))?;
        let id = &SessionId::parse(id).map_err(|error| match error {
            Error::Invalid { message, .. } => Error::invalid("session_id", message),
            other => other,
        })?;
        let done = self
            .decide_and_commit(|| {
                Box::pin(async {
                    let session = self.sessions.session(&actor.tenant, id).await?.ok_or(Error::NotFound)?;
                    if !actor.holds_bridge(&session.head) {
                        return Err(Error::NotFound);
                    }
                    match bridge::stop(&session)? {
                        None => Ok(Decided::Nothing(session)),
                        Some(step) => Ok(Decided::change(self.change_for(&session, step).await?.keyed(key))),
                    }
                })
            })
            .await;
        match self.or_replayed(actor, key, done).await? {
            CommandOutcome::Nothing(session) => Ok(session),
            CommandOutcome::Done(done, ()) => self.session_after(actor, id, &done).await,
        }
    }

    /// Deletes the caller's bridges with their events: those that ended before a time, or all of them and the running
    /// one too. Each commit deletes a bounded number of them.
    pub async fn forget_bridges(&self, actor: &Actor, before: Option<Timestamp>) -> Result<usize> {
        let holder = bridge::person(actor, &self.activity)?;
        let mut deleted = 0;
        loop {
            let done = self
                .decide_and_commit(|| {
                    Box::pin(async {
                        let mut sessions = self
                            .tenant
                            .ended_bridges(
                                &actor.tenant,
                                holder.as_ref(),
                                before,
                                limits::FORGET_SESSIONS_MAX,
                            )
                            .await?;
                        if before.is_none() {
                            let running = self.tenant.running_bridge(&actor.tenant, holder.as_ref()).await?;
                            sessions.extend(running);
                        }
                        if sessions.is_empty() {
                            return Ok(Decided::Nothing(()));
                        }
                        let mut change = Change::new(actor.tenant.clone()).audited(Audit {
                            actor: audit_name(actor),
                            action: "human.forget",
                            target: sessions.len().to_string(),
                        });
                        change.parts = sessions
                            .iter()
                            .map(|session| ChangePart {
                                on: PartTarget::Session(session.id.clone()),
                                guard: Guard::seen(session),
                                writes: smallvec![Write::Delete],
                            })
                            .collect();
                        Ok(Decided::Change(Box::new(change), sessions.len()))
                    })
                })
                .await?;
            match done {
                CommandOutcome::Nothing(()) => return Ok(deleted),
                CommandOutcome::Done(_, count) => deleted += count,
            }
        }
    }

    /// Appends a batch that holds a person's own activity: whole or not at all, but for repeated views of an entity
    /// and paths that the operator excluded, which are dropped and counted.
    pub(super) async fn record(
        &self,
        actor: &Arc<Actor>,
        id: &SessionId,
        wish: Append,
        key: Option<IdemKey>,
    ) -> Result<AppendResult> {
        if wish.events.len() > limits::BRIDGE_BATCH_EVENTS_MAX {
            return Err(Error::TooLarge {
                what: "batch of human events (in events)",
                limit: limits::BRIDGE_BATCH_EVENTS_MAX,
            });
        }
        let given = wish.events.len();
        let mut events = check_batch(actor, wish.events)?;
        let rule = AppendRule {
            actor: actor.clone(),
            kinds: Kinds::of(events.iter().map(|event| &event.kind)),
            epoch: wish.epoch,
        };
        // The guard cannot know whether the operator is the one person of this installation.
        if actor.names_users() {
            bridge::person(actor, &self.activity)?;
        }
        self.check_byte_quota(actor).await?;
        events.retain(|event| !bridge::is_excluded(event, &self.activity));
        let guard = Guard { sequence: wish.expected_sequence, append: Some(rule), ..Guard::default() };
        if events.is_empty() {
            return self.nothing_recorded(actor, id, &guard, given).await;
        }
        let is_switch = |event: &NewEvent| event.kind.as_str() == bridge::TASK_SWITCH;
        let done = if events.iter().any(is_switch) {
            let done = self
                .decide_and_commit(|| {
                    let (guard, events) = (guard.clone(), events.clone());
                    Box::pin(async move {
                        let part = self.switched(actor, id, guard, events).await?;
                        Ok(Decided::<()>::change(Change::new(actor.tenant.clone()).part(part).keyed(key)))
                    })
                })
                .await;
            match self.or_replayed(actor, key, done).await? {
                CommandOutcome::Done(done, ()) => *done,
                CommandOutcome::Nothing(()) => return Err(Error::internal("a switch that changes nothing")),
            }
        } else {
            let part = ChangePart {
                on: PartTarget::Session(id.clone()),
                guard,
                writes: smallvec![Write::Append(events)],
            };
            self.commit(Change::new(actor.tenant.clone()).part(part).keyed(key)).await?
        };
        self.recorded(actor, id, done, given).await
    }

    /// The answer to a batch of which nothing is kept. It is refused as the batch would have been.
    async fn nothing_recorded(
        &self,
        actor: &Actor,
        id: &SessionId,
        guard: &Guard,
        dropped: usize,
    ) -> Result<AppendResult> {
        let session = self.load(actor, Verb::Read, id).await?;
        check_now(guard, &session, self.tenant.now().await?)?;
        Ok(AppendResult {
            events: Vec::new(),
            last_sequence: session.head.last_sequence,
            stop_requested: false,
            dropped: Some(dropped),
        })
    }

    /// The part that records moves to other tasks: the bridge's row moves with the log.
    async fn switched(
        &self,
        actor: &Actor,
        id: &SessionId,
        guard: Guard,
        mut events: Vec<NewEvent>,
    ) -> Result<ChangePart> {
        let session = self.load(actor, Verb::Read, id).await?;
        check_now(&guard, &session, self.tenant.now().await?)?;
        let mut current = session.details.task_id.clone();
        let mut title = None;
        for event in &mut events {
            let Some(wish) = TaskSwitch::of(&event.kind, event.metadata.as_ref()) else { continue };
            let from = self.task_id_of(actor, &wish.from_task_id, current.as_deref()).await?;
            let to: StoredDefinition<Task> = self.definition(actor, &wish.to_task_id).await?;
            let (name, metadata) = bridge::switch(
                current.as_deref(),
                from.as_deref(),
                &to,
                event.metadata.as_ref().unwrap_or(&crate::json::Json::empty_object()),
            )?;
            event.metadata = Some(metadata);
            (title, current) = (Some(name), Some(to.id));
        }
        let update = Update { task_id: current, title: title.map(Some), ..Update::default() };
        Ok(ChangePart {
            on: PartTarget::Session(session.id.clone()),
            guard: Guard {
                incarnation: Some(session.head.incarnation),
                version: Some(session.head.version),
                ..guard
            },
            writes: smallvec![Write::Append(events), Write::Update(Box::new(update))],
        })
    }

    /// The id of the task that a client names by its id or slug. `None`: the client means no task that it may see.
    async fn task_id_of(&self, actor: &Actor, name: &str, current: Option<&str>) -> Result<Option<Box<str>>> {
        if current == Some(name) {
            return Ok(Some(name.into()));
        }
        match self.definition::<Task>(actor, name).await {
            Ok(task) => Ok(Some(task.id)),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The answer to a recorded batch, or to the first one with its key.
    async fn recorded(
        &self,
        actor: &Actor,
        id: &SessionId,
        done: CommitResult,
        given: usize,
    ) -> Result<AppendResult> {
        let (events, last_sequence) = match &done.replay {
            Some(replay) => {
                let session = self.session_after(actor, id, &done).await?;
                let events = first_of_batch(self.events_at(actor, id, &replay.sequences).await?);
                let last = replay.sequences.iter().copied().max();
                (events, last.unwrap_or(session.head.last_sequence))
            }
            None => {
                let part =
                    done.parts.into_iter().next().ok_or_else(|| Error::internal("a commit lost its part"))?;
                let events = part.appended.into_iter().filter_map(|outcome| match outcome {
                    AppendOutcome::New(event) => Some(event),
                    AppendOutcome::Repeat(_) => None,
                });
                (events.collect::<Vec<_>>(), part.head.last_sequence)
            }
        };
        let dropped = Some(given - events.len().min(given));
        Ok(AppendResult { events, last_sequence, stop_requested: false, dropped })
    }
}

/// Judges a session as the store would judge it now.
fn check_now(guard: &Guard, session: &Session, now: Timestamp) -> Result<()> {
    match guard.check(&session.id, &session.head, &GuardRows::default(), now) {
        Ok(()) => Ok(()),
        Err(Refusal::Rejected(error)) => Err(error),
        Err(Refusal::Stale) => Err(Error::internal("a guard without a version went stale")),
    }
}

/// The events that a batch itself wrote, out of those that its answer refers to: they are consecutive, of one time,
/// and the last in the log. The others are earlier views of an entity that the batch repeated.
fn first_of_batch(referred: Vec<Arc<Event>>) -> Vec<Arc<Event>> {
    let Some(newest) = referred.iter().max_by_key(|event| event.sequence).cloned() else {
        return Vec::new();
    };
    let mut events: Vec<Arc<Event>> = Vec::new();
    for event in referred {
        let follows = events.last().is_none_or(|last| event.sequence == last.sequence + 1);
        if event.at == newest.at && follows {
            events.push(event);
        }
    }
    events
}
