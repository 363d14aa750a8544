//! How many bytes incognito sessions may take: each, those of one user, and all of this process. They live in memory,
//! so nothing else bounds them.
//!
//! Counted is what was written (events, rows, memories), not what the database makes of it, which is about as much. A
//! session gives back everything that it was charged when it is deleted.

use std::collections::HashMap;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::ids::{SessionId, TenantId, UserId};
use crate::json::Json;
use crate::limits;
use crate::quota::Quota;
use crate::time::Timestamp;

use super::{Change, PartTarget, Record, Update, Write};

/// What every event and every row takes beside its text.
const ROW_BYTES: u64 = 256;

/// How much incognito sessions may take, and for how long one may be silent before it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateLimits {
    pub session_bytes: u64,
    pub user_bytes: u64,
    pub total_bytes: u64,
    pub idle_after: Duration,
}

impl Default for PrivateLimits {
    fn default() -> Self {
        Self {
            session_bytes: limits::INCOGNITO_SESSION_BYTES,
            user_bytes: limits::INCOGNITO_USER_BYTES,
            total_bytes: limits::INCOGNITO_TOTAL_BYTES,
            idle_after: limits::INCOGNITO_IDLE_AFTER,
        }
    }
}

type SessionKey = (TenantId, SessionId);
type UserKey = (TenantId, Option<UserId>);

/// What one change adds to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Charge {
    pub session: SessionId,
    pub bytes: u64,
    /// Who holds it, where the change makes the session.
    pub holder: Option<Option<UserId>>,
    /// Whether it can be refused. What the engine writes to end something, such as a turn, is counted and never
    /// refused: a session must not be left half done.
    pub refusable: bool,
}

/// What incognito sessions take now.
#[derive(Debug, Default)]
pub(super) struct PrivateUse {
    sessions: HashMap<SessionKey, SessionUse>,
    users: HashMap<UserKey, u64>,
    total: u64,
}

#[derive(Debug)]
struct SessionUse {
    holder: Option<UserId>,
    bytes: u64,
    last_at: Timestamp,
}

impl PrivateUse {
    /// Counts what a change adds, before it is written: all of it, or none.
    pub(super) fn charge(
        &mut self,
        limits: &PrivateLimits,
        tenant: &TenantId,
        charges: &[Charge],
        now: Timestamp,
    ) -> Result<()> {
        for (n, charge) in charges.iter().enumerate() {
            if let Err(refused) = self.charge_one(limits, tenant, charge, now) {
                self.refund(tenant, &charges[..n]);
                return Err(refused);
            }
        }
        Ok(())
    }

    fn charge_one(
        &mut self,
        limits: &PrivateLimits,
        tenant: &TenantId,
        charge: &Charge,
        now: Timestamp,
    ) -> Result<()> {
        let key = (tenant.clone(), charge.session.clone());
        let known = self.sessions.get(&key);
        let holder = known.map(|used| used.holder.clone()).or_else(|| charge.holder.clone()).flatten();
        let of_session = known.map_or(0, |used| used.bytes) + charge.bytes;
        let user = (tenant.clone(), holder.clone());
        let of_user = self.users.get(&user).copied().unwrap_or_default() + charge.bytes;
        let total = self.total + charge.bytes;
        for (used, limit, quota) in [
            (of_session, limits.session_bytes, Quota::IncognitoSessionBytes),
            (of_user, limits.user_bytes, Quota::IncognitoUserBytes),
            (total, limits.total_bytes, Quota::IncognitoTotalBytes),
        ] {
            if used > limit && charge.bytes > 0 && charge.refusable {
                return Err(Error::QuotaExceeded { quota, limit });
            }
        }
        self.sessions.insert(key, SessionUse { holder, bytes: of_session, last_at: now });
        self.users.insert(user, of_user);
        self.total = total;
        Ok(())
    }

    /// Takes a charge back: the change was not written.
    pub(super) fn refund(&mut self, tenant: &TenantId, charges: &[Charge]) {
        for charge in charges {
            let key = (tenant.clone(), charge.session.clone());
            let Some(used) = self.sessions.get_mut(&key) else { continue };
            used.bytes = used.bytes.saturating_sub(charge.bytes);
            let user = (tenant.clone(), used.holder.clone());
            if used.bytes == 0 {
                self.sessions.remove(&key);
            }
            self.give_back(user, charge.bytes);
        }
    }

    /// A session is gone, with everything that it was charged.
    pub(super) fn release(&mut self, tenant: &TenantId, session: &SessionId) {
        if let Some(used) = self.sessions.remove(&(tenant.clone(), session.clone())) {
            self.give_back((tenant.clone(), used.holder), used.bytes);
        }
    }

    pub(super) fn release_tenant(&mut self, tenant: &TenantId) {
        let gone: Vec<SessionId> =
            self.sessions.keys().filter(|(of, _)| of == tenant).map(|(_, session)| session.clone()).collect();
        gone.iter().for_each(|session| self.release(tenant, session));
    }

    fn give_back(&mut self, user: UserKey, bytes: u64) {
        self.total = self.total.saturating_sub(bytes);
        if let Some(of_user) = self.users.get_mut(&user) {
            *of_user = of_user.saturating_sub(bytes);
            if *of_user == 0 {
                self.users.remove(&user);
            }
        }
    }

    /// Sessions to which nothing was written since then.
    pub(super) fn silent_since(&self, at: Timestamp) -> Vec<SessionKey> {
        self.sessions.iter().filter(|(_, used)| used.last_at < at).map(|(key, _)| key.clone()).collect()
    }

    #[cfg(test)]
    pub(super) fn total(&self) -> u64 {
        self.total
    }
}

/// What a change adds, by session.
pub(super) fn charges(change: &Change) -> Vec<Charge> {
    let mut charges: Vec<Charge> = Vec::with_capacity(change.parts.len());
    for part in &change.parts {
        let written: u64 = part.writes.iter().map(write_bytes).sum();
        charges.push(match &part.on {
            PartTarget::Session(session) => {
                let refusable = part.guard.append.is_some() || part.writes.iter().any(is_said_by_a_caller);
                Charge { session: session.clone(), bytes: written, holder: None, refusable }
            }
            PartTarget::New(new) => {
                let details = &new.details;
                let texts = [&details.input, &details.draft_values, &details.run, &details.working_memory];
                let row = json_bytes(Some(&details.metadata))
                    + texts.iter().map(|text| json_bytes(text.as_ref())).sum::<u64>();
                let bytes = 2 * ROW_BYTES + row + written;
                Charge {
                    session: new.id.clone(),
                    bytes,
                    holder: Some(new.head.holder.clone()),
                    refusable: true,
                }
            }
        });
    }
    for record in &change.records {
        let (session, bytes) = match record {
            Record::PutMemory(memory) => (memory.owner.session_id(), ROW_BYTES + memory.text().len() as u64),
            Record::AddShare { share, .. } => (share.session.clone(), ROW_BYTES),
            _ => (None, 0),
        };
        if let Some(session) = session.filter(|_| bytes > 0) {
            charges.push(Charge { session, bytes, holder: None, refusable: false });
        }
    }
    charges
}

fn is_said_by_a_caller(write: &Write) -> bool {
    let is_message = |event: &crate::event::NewEvent| event.kind.as_str() == "user.message";
    matches!(write, Write::Append(events) if events.iter().any(is_message))
}

fn write_bytes(write: &Write) -> u64 {
    match write {
        Write::Append(events) => events
            .iter()
            .map(|event| ROW_BYTES + json_bytes(event.content.as_ref()) + json_bytes(event.metadata.as_ref()))
            .sum(),
        Write::Update(update) => update_bytes(update),
        Write::Talk(_) | Write::Delete => 0,
    }
}

/// The texts of a row that replace what was there: counted as if they were added.
fn update_bytes(update: &Update) -> u64 {
    let draft_values = update.draft_values.as_ref().and_then(Option::as_ref);
    [update.metadata.as_ref(), update.run.as_ref(), update.result.as_ref(), draft_values]
        .into_iter()
        .map(json_bytes)
        .sum()
}

fn json_bytes(json: Option<&Json>) -> u64 {
    json.map_or(0, |json| json.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);
    const LIMITS: PrivateLimits = PrivateLimits {
        session_bytes: 100,
        user_bytes: 150,
        total_bytes: 200,
        idle_after: Duration::from_secs(1),
    };

    fn tenant() -> TenantId {
        TenantId::stored("t")
    }

    fn opens(session: &str, user: &str, bytes: u64) -> Charge {
        Charge {
            session: SessionId::stored(session),
            bytes,
            holder: Some(Some(UserId::stored(user))),
            refusable: true,
        }
    }

    fn adds(session: &str, bytes: u64) -> Charge {
        Charge { session: SessionId::stored(session), bytes, holder: None, refusable: true }
    }

    fn exceeded(done: Result<()>) -> Option<&'static str> {
        match done {
            Ok(()) => None,
            Err(Error::QuotaExceeded { quota, .. }) => Some(quota.name()),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn one_byte_past_each_budget_is_refused_by_its_name_and_counts_nothing() {
        let mut used = PrivateUse::default();
        let mut charge = |charges: &[Charge]| exceeded(used.charge(&LIMITS, &tenant(), charges, NOW));
        assert_eq!(charge(&[opens("a", "ann", 100)]), None);
        assert_eq!(charge(&[adds("a", 1)]), Some("incognito.session_bytes"));
        assert_eq!(charge(&[opens("b", "ann", 50)]), None);
        assert_eq!(charge(&[opens("c", "ann", 1)]), Some("incognito.user_bytes"));
        assert_eq!(charge(&[opens("d", "bob", 50)]), None);
        assert_eq!(charge(&[opens("e", "cyd", 1)]), Some("incognito.total_bytes"));
        assert_eq!(charge(&[opens("f", "cyd", 0), adds("d", 1)]), Some("incognito.total_bytes"));
        assert_eq!(charge(&[adds("a", 0)]), None, "what adds nothing is always possible");
        let ends_a_turn = Charge { refusable: false, ..adds("a", 7) };
        assert_eq!(charge(&[ends_a_turn]), None, "what ends something is never refused");
        assert_eq!(used.total(), 207);
    }

    #[test]
    fn what_is_deleted_or_was_not_written_is_given_back() {
        let mut used = PrivateUse::default();
        let opened = [opens("a", "ann", 100)];
        used.charge(&LIMITS, &tenant(), &opened, NOW).unwrap();
        used.release(&tenant(), &SessionId::stored("a"));
        assert_eq!(used.total(), 0);
        used.charge(&LIMITS, &tenant(), &opened, NOW).unwrap();
        used.refund(&tenant(), &opened);
        assert_eq!((used.total(), used.users.len(), used.sessions.len()), (0, 0, 0));
        used.charge(&LIMITS, &tenant(), &opened, NOW).unwrap();
        used.release_tenant(&tenant());
        assert_eq!((used.total(), used.users.len()), (0, 0));
    }

    #[test]
    fn a_session_is_silent_since_its_last_write() {
        let mut used = PrivateUse::default();
        used.charge(&LIMITS, &tenant(), &[opens("a", "ann", 1)], NOW).unwrap();
        assert!(used.silent_since(NOW).is_empty());
        assert_eq!(used.silent_since(Timestamp::from_micros(1_000_001)).len(), 1);
    }

    #[test]
    fn one_byte_past_each_default_budget_is_refused() {
        let defaults = PrivateLimits::default();
        let mut used = PrivateUse::default();
        let mut charge = |charges: &[Charge]| exceeded(used.charge(&defaults, &tenant(), charges, NOW));
        let most = limits::INCOGNITO_SESSION_BYTES;
        let per_user = limits::INCOGNITO_USER_BYTES / most;
        let users = limits::INCOGNITO_TOTAL_BYTES / limits::INCOGNITO_USER_BYTES;
        for user in 0..users {
            for session in 0..per_user {
                let (id, name) = (format!("{user}.{session}"), format!("user{user}"));
                assert_eq!(charge(&[opens(&id, &name, most)]), None);
                assert_eq!(charge(&[adds(&id, 1)]), Some("incognito.session_bytes"));
            }
            let one_more = opens(&format!("{user}.more"), &format!("user{user}"), 1);
            assert_eq!(charge(&[one_more]), Some("incognito.user_bytes"));
        }
        assert_eq!(charge(&[opens("more", "other", 1)]), Some("incognito.total_bytes"));
        assert_eq!(used.total(), limits::INCOGNITO_TOTAL_BYTES);
    }
}
