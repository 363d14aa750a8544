//! Milestones: a notification that a run of a task has started, completed or failed. Sent after the commit, by the
//! node that made the commit, and so once however many nodes there are; if the node dies in between, none is sent.
//!
//! A milestone names the run and carries none of its content. Incognito sessions have none.

use std::time::Duration;

use crate::ids::{SessionId, TenantId};
use crate::session::{Details, Head, MemoryMode, Session, Status};
use crate::store::{NewSession, Update};
use crate::time::Timestamp;
use crate::work::ClaimedRun;

/// What happened to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Milestone {
    pub tenant: TenantId,
    pub session: SessionId,
    pub task_id: Box<str>,
    /// Whether it is a step of a run, rather than the whole run.
    pub is_step: bool,
    pub what: MilestoneKind,
    /// The code of the reason, if it has one.
    pub reason: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MilestoneKind {
    Started,
    /// How it ended, and when it had started, if it had.
    Ended {
        status: Status,
        started_at: Option<Timestamp>,
    },
}

impl Milestone {
    fn of(
        tenant: &TenantId,
        id: &SessionId,
        head: &Head,
        details: &Details,
        what: MilestoneKind,
    ) -> Option<Self> {
        let task_id = details.task_id.clone()?;
        let told = !head.is_talk && !head.is_bridge && details.memory_mode != MemoryMode::Incognito;
        told.then(|| Self {
            tenant: tenant.clone(),
            session: id.clone(),
            task_id,
            is_step: details.parent_id.is_some(),
            what,
            reason: None,
        })
    }

    /// The start of a run that needs no worker: the parent of a task with steps.
    pub fn begun(tenant: &TenantId, new: &NewSession) -> Option<Self> {
        let begins = new.head.status == Status::Running;
        begins.then(|| Self::of(tenant, &new.id, &new.head, &new.details, MilestoneKind::Started)).flatten()
    }

    /// The start of a run, by its first claim. A later attempt is the same run.
    pub fn taken(claimed: &ClaimedRun) -> Option<Self> {
        let Session { tenant, id, head, details, .. } = &claimed.session;
        let first = claimed.epoch == 1 && !claimed.again;
        first.then(|| Self::of(tenant, id, head, details, MilestoneKind::Started)).flatten()
    }

    /// The end of a run by this update.
    pub fn ended(session: &Session, update: &Update) -> Option<Self> {
        let Session { tenant, id, head, details, .. } = session;
        let status = update.status.filter(|to| to.is_terminal())?;
        let ended = Self::of(
            tenant,
            id,
            head,
            details,
            MilestoneKind::Ended { status, started_at: details.started_at },
        )?;
        Some(Self { reason: update.end_reason.clone(), ..ended })
    }

    /// The code of the failure, if this is one.
    pub fn failure(&self) -> Option<&str> {
        match self.what {
            MilestoneKind::Ended { status: Status::Failed, .. } => {
                Some(self.reason.as_deref().unwrap_or("run_failed"))
            }
            MilestoneKind::Started | MilestoneKind::Ended { .. } => None,
        }
    }

    /// The public name of the milestone.
    pub const fn name(&self) -> &'static str {
        match self.what {
            MilestoneKind::Started => "task.session_started",
            MilestoneKind::Ended { status: Status::Completed, .. } => "task.session_completed",
            MilestoneKind::Ended { .. } => "task.session_failed",
        }
    }

    /// How long the run took, if it ended at this time.
    pub fn took(&self, at: Timestamp) -> Option<Duration> {
        let MilestoneKind::Ended { started_at: Some(from), .. } = self.what else { return None };
        Some(Duration::from_micros(u64::try_from(at.as_micros() - from.as_micros()).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::decide::tests::session_in;

    fn run() -> Session {
        let mut session = session_in(Status::Running);
        session.details.task_id = Some("t".into());
        session.details.started_at = Some(Timestamp::from_micros(1_000_000));
        session
    }

    fn ending(to: Status) -> Update {
        Update { status: Some(to), ..Update::default() }
    }

    #[test]
    fn an_end_is_told_with_its_name_and_how_long_it_took() {
        for (to, name) in [
            (Status::Completed, Some("task.session_completed")),
            (Status::Failed, Some("task.session_failed")),
            (Status::Expired, Some("task.session_failed")),
            (Status::Abandoned, Some("task.session_failed")),
            (Status::Pending, None),
            (Status::WaitingHuman, None),
        ] {
            let told = Milestone::ended(&run(), &ending(to));
            assert_eq!(told.as_ref().map(Milestone::name), name, "{to}");
            if let Some(told) = told {
                assert_eq!(told.took(Timestamp::from_micros(3_500_000)), Some(Duration::from_millis(2_500)));
                assert_eq!(told.took(Timestamp::from_micros(0)), Some(Duration::ZERO), "clocks may differ");
            }
        }
        assert_eq!(Milestone::ended(&run(), &Update::default()), None);
        let mut never = run();
        never.details.started_at = None;
        assert_eq!(
            Milestone::ended(&never, &ending(Status::Expired)).unwrap().took(Timestamp::default()),
            None
        );
    }

    #[test]
    fn only_the_first_claim_is_a_start() {
        let claimed = |epoch, again| ClaimedRun {
            session: run(),
            epoch,
            lease_until: Timestamp::from_micros(9),
            again,
        };
        assert_eq!(Milestone::taken(&claimed(1, false)).unwrap().name(), "task.session_started");
        assert_eq!(Milestone::taken(&claimed(2, false)), None, "a second attempt");
        assert_eq!(Milestone::taken(&claimed(1, true)), None, "the answer to a repeated call");
    }

    #[test]
    fn what_is_no_tasks_or_leaves_no_trace_is_not_told_of() {
        let quiet: [fn(&mut Session); 3] = [
            |session| session.details.task_id = None,
            |session| session.details.memory_mode = MemoryMode::Incognito,
            |session| session.head.is_talk = true,
        ];
        for hush in quiet {
            let mut session = run();
            hush(&mut session);
            assert_eq!(Milestone::ended(&session, &ending(Status::Failed)), None);
        }
    }
}
