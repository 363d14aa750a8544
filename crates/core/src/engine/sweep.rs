//! The sweeper: frees lost leases, ends overdue sessions, hides silent ones. It reads only rows that a store lists as
//! due, and every change is checked again under the lock: a heartbeat or an answer that came in between wins.

use smallvec::smallvec;

use super::Engine;
use super::talk::change_from_plan;
use crate::approval;
use crate::error::Result;
use crate::limits;
use crate::session::Session;
use crate::session::decide::{SessionStep, check_at_rest, move_to};
use crate::session::status::Authority;
use crate::store::{Change, ChangePart, DueApproval, DueSession, Guard, PartTarget, Refusal, Update, Write};
use crate::talk::{self, pause::AbandonReason};
use crate::time::Timestamp;
use crate::work;

/// What one sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepCounts {
    /// Sessions that were examined.
    pub looked_at: usize,
    pub leases_lost: usize,
    pub overdue: usize,
    pub hidden: usize,
    /// Incognito sessions that were deleted after their idle time.
    pub expired: usize,
    /// Promotions that nobody decided in time.
    pub promotions_expired: usize,
}

enum SweepReason {
    Lapsed,
    Overdue,
    Silent,
}

impl Engine {
    /// Settles due sessions, in rounds, until none is left.
    pub async fn sweep(&self) -> Result<SweepCounts> {
        let mut swept = SweepCounts {
            expired: self.expire_incognito().await?,
            promotions_expired: self.expire_promotions().await?,
            ..SweepCounts::default()
        };
        loop {
            let now = self.tenant.now().await?;
            let silent_since = now.minus(limits::INACTIVE_AFTER);
            let due = self.sessions.due(silent_since, limits::SWEEP_ROWS_MAX).await?;
            let full = due.len() == limits::SWEEP_ROWS_MAX;
            let before = swept;
            for due in due {
                swept.looked_at += 1;
                match self.sweep_one(&due, now, silent_since).await? {
                    Some(SweepReason::Lapsed) => swept.leases_lost += 1,
                    Some(SweepReason::Overdue) => swept.overdue += 1,
                    Some(SweepReason::Silent) => swept.hidden += 1,
                    None => {}
                }
            }
            let worked = (swept.leases_lost, swept.overdue, swept.hidden)
                != (before.leases_lost, before.overdue, before.hidden);
            if !full || !worked {
                return Ok(swept);
            }
        }
    }

    /// Removes idempotency keys after their retention.
    pub async fn purge_idempotency_keys(&self) -> Result<u64> {
        let now = self.tenant.now().await?;
        self.sessions.purge_keys(now.minus(limits::IDEMPOTENCY_KEPT)).await
    }

    /// Deletes silent incognito sessions. One that runs or waits for a decision is left for the next sweep.
    async fn expire_incognito(&self) -> Result<usize> {
        let Some(incognito) = &self.incognito else { return Ok(0) };
        let mut expired = 0;
        for due in incognito.idle().await? {
            let Some(session) = self.sessions.session(&due.tenant, &due.session).await? else { continue };
            if check_at_rest(&session).is_err() {
                continue;
            }
            let part = ChangePart {
                on: PartTarget::Session(session.id.clone()),
                guard: Guard { sequence: Some(session.head.last_sequence), ..Guard::seen(&session) },
                writes: smallvec![Write::Delete],
            };
            let mut change = Change::new(due.tenant).part(part);
            change.parts.extend(self.hand_retries_on(&session).await?);
            match self.try_commit(change).await {
                Ok(_) => expired += 1,
                Err(Refusal::Stale) => {}
                Err(Refusal::Rejected(crate::Error::Conflict(_) | crate::Error::NotFound)) => {}
                Err(Refusal::Rejected(error)) => return Err(error),
            }
        }
        Ok(expired)
    }

    /// Expires the promotions that nobody decided in time. Their sessions are closed and have no deadline.
    async fn expire_promotions(&self) -> Result<usize> {
        let mut expired = 0;
        loop {
            let due = self.sessions.due_promotions(limits::SWEEP_ROWS_MAX).await?;
            let (full, before) = (due.len() == limits::SWEEP_ROWS_MAX, expired);
            for due in due {
                expired += usize::from(self.expire_promotion(&due).await?);
            }
            if !full || expired == before {
                return Ok(expired);
            }
        }
    }

    /// Whether this promotion was expired now. A decision that was committed in between wins.
    async fn expire_promotion(&self, due: &DueApproval) -> Result<bool> {
        let Some(approval) = self.sessions.approval(&due.tenant, &due.approval).await? else {
            return Ok(false);
        };
        let Some(session) = self.sessions.session(&due.tenant, &approval.session).await? else {
            return Ok(false);
        };
        let now = self.tenant.now().await?;
        let Some(settled) = approval::promotion::expire(&approval, now)? else { return Ok(false) };
        match self.try_commit(self.settled(&session, settled).await?).await {
            Ok(_) => Ok(true),
            Err(Refusal::Stale) => Ok(false),
            Err(Refusal::Rejected(crate::Error::Conflict(_) | crate::Error::NotFound)) => Ok(false),
            Err(Refusal::Rejected(error)) => Err(error),
        }
    }

    async fn sweep_one(
        &self,
        due: &DueSession,
        now: Timestamp,
        silent_since: Timestamp,
    ) -> Result<Option<SweepReason>> {
        let Some((session, talk)) = self.sessions.talk(&due.tenant, &due.session).await? else {
            return Ok(None);
        };
        let Some((reason, step)) = decide(&session, now, silent_since, self.settings.attempts_max)? else {
            return Ok(None);
        };
        let of_talk = match reason {
            SweepReason::Overdue => talk::pause::give_up(&session, &talk, AbandonReason::TimedOut)?,
            SweepReason::Lapsed if session.head.is_talk => Some(talk::turn::interrupted(&session, &talk)?),
            SweepReason::Lapsed | SweepReason::Silent => None,
        };
        let mut change = match (of_talk, &reason) {
            (Some(plan), SweepReason::Lapsed) => self.turn_change(&session, &plan, true).await?,
            (Some(plan), _) => change_from_plan(&session, &plan),
            (None, SweepReason::Overdue) => {
                let pending = self.pending_of(&session).await?;
                match pending
                    .map(|pending| approval::decide::expire(&session, &pending, now, &*self.ids))
                    .transpose()?
                {
                    Some(Some(settled)) => self.settled(&session, settled).await?,
                    Some(None) | None => self.change_for(&session, step).await?,
                }
            }
            (None, _) => self.change_for(&session, step).await?,
        };
        if let Some(own) = change.parts.first_mut() {
            match reason {
                SweepReason::Lapsed => own.guard.lapsed = true,
                SweepReason::Overdue => own.guard.overdue = true,
                SweepReason::Silent => own.guard.sequence = Some(session.head.last_sequence),
            }
        }
        match self.try_commit(change).await {
            Ok(_) => Ok(Some(reason)),
            // Another caller changed the session first: it is no longer due, or will be found again.
            Err(Refusal::Stale) => Ok(None),
            Err(Refusal::Rejected(crate::Error::Conflict(_) | crate::Error::NotFound)) => Ok(None),
            Err(Refusal::Rejected(error)) => Err(error),
        }
    }
}

fn decide(
    session: &Session,
    now: Timestamp,
    silent_since: Timestamp,
    attempts_max: u32,
) -> Result<Option<(SweepReason, SessionStep)>> {
    let head = &session.head;
    if let Some(claim) = &head.claim {
        if claim.lease_until > now {
            return Ok(None);
        }
        return work::decide::lapse(session, attempts_max).map(|step| Some((SweepReason::Lapsed, step)));
    }
    if head.deadline_at.is_some_and(|deadline| deadline <= now)
        && let Some(to) = head.when_overdue()
    {
        let mut step = move_to(session, to, Authority::Sweeper, Some("deadline"))?;
        if to.is_terminal() {
            step.update.end_reason = Some("deadline".into());
        }
        return Ok(Some((SweepReason::Overdue, step)));
    }
    if !head.inactive && !head.status.is_live() && head.last_at < silent_since {
        let update = Update { inactive: Some(true), ..Update::default() };
        return Ok(Some((SweepReason::Silent, SessionStep::of(update))));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::CredentialId;
    use crate::session::decide::tests::session_in;
    use crate::session::row::Claim;
    use crate::session::{SessionType, Status};

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);
    const LONG_AGO: Timestamp = Timestamp::from_micros(0);

    fn outcome(session: &Session) -> Option<Option<Status>> {
        decide(session, NOW, LONG_AGO, 3).unwrap().map(|(_, step)| step.update.status)
    }

    #[test]
    fn a_live_lease_is_left_alone_and_a_lapsed_one_is_not() {
        let mut session = session_in(Status::Running);
        let lease = |until| Claim {
            worker: "w".into(),
            credential: CredentialId::stored("c"),
            lease_until: Timestamp::from_micros(until),
        };
        session.head.claim = Some(lease(1_000_001));
        assert_eq!(outcome(&session), None);
        session.head.claim = Some(lease(1_000_000));
        assert_eq!(outcome(&session), Some(Some(Status::Pending)));
    }

    #[test]
    fn a_running_session_without_a_claim_is_never_swept() {
        let mut session = session_in(Status::Running);
        session.head.last_at = NOW;
        assert_eq!(outcome(&session), None);
    }

    #[test]
    fn a_passed_deadline_ends_each_kind_of_waiting_as_the_table_says() {
        for (status, talk, kind, to) in [
            (Status::Pending, false, SessionType::Agent, Some(Status::Expired)),
            (Status::WaitingHuman, false, SessionType::Agent, Some(Status::Expired)),
            (Status::AwaitingTool, false, SessionType::Agent, Some(Status::Expired)),
            (Status::WaitingHuman, true, SessionType::Mixed, Some(Status::Idle)),
            (Status::Draft, false, SessionType::Response, Some(Status::Abandoned)),
            (Status::Running, false, SessionType::Response, Some(Status::Abandoned)),
            (Status::Draft, false, SessionType::Tool, Some(Status::Abandoned)),
            (Status::Running, false, SessionType::Tool, Some(Status::Abandoned)),
        ] {
            let mut session = session_in(status);
            session.head.last_at = NOW;
            session.head.is_talk = talk;
            session.head.session_type = kind;
            session.head.deadline_at = Some(NOW);
            assert_eq!(outcome(&session), Some(to), "{status} {kind:?}");
        }
    }

    #[test]
    fn silence_hides_what_is_not_live() {
        let mut session = session_in(Status::Completed);
        session.head.last_at = Timestamp::from_micros(-1);
        assert_eq!(outcome(&session), Some(None));
        session.head.status = Status::WaitingHuman;
        assert_eq!(outcome(&session), None);
    }
}
