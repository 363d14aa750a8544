//! Who may make a session pending. The one rule for every way to do so: starting a task, opening a pending session,
//! starting a draft, retrying, and going on after a decision, an answer or a finished step. Pure.

use crate::access::{Actor, Right, Role, Verb, right};
use crate::definitions::{StoredDefinition, Task};
use crate::error::{Error, Result};
use crate::session::Session;
use crate::work::run::Run;

/// Why a session is queued.
#[derive(Clone, Copy, Debug)]
pub enum QueueCause<'a> {
    /// A run of this task, as the task is now.
    Task(&'a StoredDefinition<Task>),
    /// Work without a task, or whose task is gone: only owners start it.
    NoTask,
    /// The session's own run goes on.
    Continues(&'a Session),
}

/// Refuses to queue a session, unless the caller has the trigger right now or the run goes on.
pub fn check_may_queue(actor: &Actor, cause: QueueCause<'_>) -> Result<()> {
    let reach = right(actor.role, Verb::Trigger);
    match cause {
        QueueCause::Task(task) => match reach {
            Right::All => Ok(()),
            Right::OwnOrAssigned if is_own_or_assigned(actor, task) => Ok(()),
            _ => Err(Error::denied(match actor.role {
                Role::Member => "you may start your own tasks and those assigned to you",
                _ => "you may not start this work; ask an owner to start it",
            })),
        },
        QueueCause::NoTask if reach == Right::All => Ok(()),
        QueueCause::NoTask => Err(Error::denied("you may not start this work; ask an owner to start it")),
        QueueCause::Continues(session) => check_continues(session),
    }
}

/// Refuses to queue a session again that no caller with the right ever queued.
pub fn check_continues(session: &Session) -> Result<()> {
    if was_started(session) {
        return Ok(());
    }
    Err(Error::denied("this session was never started; ask an owner to start it"))
}

/// Why a retry is queued: for its task where it has one, else to continue the run.
pub fn cause_of_retry<'a>(session: &'a Session, task: Option<&'a StoredDefinition<Task>>) -> QueueCause<'a> {
    match task {
        Some(task) => QueueCause::Task(task),
        None if session.details.task_id.is_none() && was_started(session) => QueueCause::Continues(session),
        None => QueueCause::NoTask,
    }
}

fn is_own_or_assigned(actor: &Actor, task: &StoredDefinition<Task>) -> bool {
    actor.user.as_ref().is_some_and(|user| {
        task.created_by.as_ref() == Some(user) || task.value.assigned_to.as_deref() == Some(user.as_str())
    })
}

/// Whether a worker has claimed the session, or a trigger made it.
fn was_started(session: &Session) -> bool {
    session.head.epoch > 0 || Run::of(session).task_slug.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{CredentialId, TenantId, UserId};
    use crate::session::decide::tests::session_in;
    use crate::session::{SourceKind, Status};
    use crate::time::Timestamp;

    fn actor(role: Role, user: Option<&str>) -> Actor {
        Actor {
            tenant: TenantId::stored("t"),
            credential: CredentialId::stored("c"),
            user: user.map(UserId::stored),
            role,
            ..Actor::local(SourceKind::Api)
        }
    }

    fn task(made_by: Option<&str>, assigned_to: Option<&str>) -> StoredDefinition<Task> {
        let mut value: Task = crate::strict::read(r#"{"slug":"t","name":"T"}"#).unwrap();
        value.assigned_to = assigned_to.map(str::to_owned);
        StoredDefinition {
            id: "t".into(),
            value,
            version: 1,
            created_by: made_by.map(UserId::stored),
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        }
    }

    #[test]
    fn a_session_is_queued_by_the_trigger_right_of_now_or_by_the_run_that_it_continues() {
        let (mine, assigned, taken_away, nobodys) =
            (task(Some("m"), None), task(Some("o"), Some("m")), task(Some("o"), Some("x")), task(None, None));
        let draft = session_in(Status::Draft);
        let mut claimed = session_in(Status::WaitingHuman);
        claimed.head.epoch = 1;
        let mut triggered = session_in(Status::WaitingHuman);
        triggered.details.run =
            Some(Run { task_slug: Some("t".into()), ..Run::default() }.to_json().unwrap());
        let mut answered = session_in(Status::Draft);
        answered.details.run = Some(Run::default().to_json().unwrap());
        let causes = [
            (QueueCause::Task(&mine), [true, true, false, false]),
            (QueueCause::Task(&assigned), [true, true, false, false]),
            (QueueCause::Task(&taken_away), [true, false, false, false]),
            (QueueCause::Task(&nobodys), [true, false, false, false]),
            (QueueCause::NoTask, [true, false, false, false]),
            (QueueCause::Continues(&claimed), [true; 4]),
            (QueueCause::Continues(&triggered), [true; 4]),
            (QueueCause::Continues(&draft), [false; 4]),
            (QueueCause::Continues(&answered), [false; 4]),
        ];
        let actors = [
            actor(Role::Owner, None),
            actor(Role::Member, Some("m")),
            actor(Role::Guest, Some("m")),
            actor(Role::Member, None),
        ];
        for (cause, expected) in causes {
            for (actor, may) in actors.iter().zip(expected) {
                let answer = check_may_queue(actor, cause);
                assert_eq!(answer.is_ok(), may, "{:?} {cause:?}", actor.role);
            }
        }
    }

    #[test]
    fn a_retry_is_judged_by_the_task_and_without_one_by_what_the_session_was() {
        let member = actor(Role::Member, Some("m"));
        let mine = task(Some("m"), None);
        let mut failed = session_in(Status::Failed);
        let may = |session: &Session, task: Option<&StoredDefinition<Task>>| {
            check_may_queue(&member, cause_of_retry(session, task)).is_ok()
        };
        assert!(!may(&failed, None), "an abandoned draft was never started");
        failed.head.epoch = 1;
        assert!(may(&failed, None));
        failed.details.task_id = Some("t".into());
        assert!(!may(&failed, None), "its task is gone");
        assert!(may(&failed, Some(&mine)));
        assert!(!may(&failed, Some(&task(Some("o"), None))), "its task was taken away");
    }
}
