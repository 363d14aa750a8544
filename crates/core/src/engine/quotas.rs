//! The use of tenants' and users' quotas, as this node knows it.
//!
//! The store returns the use ([`Store::usage`]): at the first session that a tenant opens here, and then at intervals
//! in the background. In between, this node counts what it commits itself. So a quota is exact on one node, and with
//! several it is exceeded by at most what the others write between two reads. Before a refusal the store is asked
//! once more, so what was deleted anywhere is free at once. An append costs two look-ups in memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use dashmap::DashMap;
use parking_lot::Mutex;

use super::Engine;
use crate::access::Actor;
use crate::error::{Error, Result};
use crate::event::AppendOutcome;
use crate::ids::{TenantId, UserId};
use crate::limits;
use crate::quota::{Amount, QuotaLimits, QuotaSettings};
use crate::session::{MemoryMode, Status};
use crate::store::{Change, CommitResult, PartTarget, TenantStore, Write};

/// The use of every tenant that has written on this node.
#[derive(Debug, Default)]
pub(super) struct QuotaBook {
    settings: QuotaSettings,
    tenants: DashMap<TenantId, Arc<TenantUse>>,
}

#[derive(Debug, Default)]
struct TenantUse {
    total: Counters,
    users: DashMap<UserId, Arc<Counters>>,
    /// When the store was asked last.
    looked_at: Mutex<Option<Instant>>,
    /// When it is to be asked again, in milliseconds of [`since_start`]; every append reads this.
    look_again_at: AtomicU64,
    /// A caller is asking the store now.
    looking: AtomicBool,
    /// Something was deleted or has ended since the last read.
    freed: AtomicBool,
}

/// Milliseconds since the first call.
fn since_start() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[derive(Debug, Default)]
struct Counters {
    sessions: AtomicU64,
    runs: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    fn amount(&self) -> Amount {
        Amount {
            sessions: self.sessions.load(Ordering::Relaxed),
            runs: self.runs.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    fn set(&self, amount: Amount) {
        self.sessions.store(amount.sessions, Ordering::Relaxed);
        self.runs.store(amount.runs, Ordering::Relaxed);
        self.bytes.store(amount.bytes, Ordering::Relaxed);
    }

    fn add(&self, amount: Amount) {
        self.sessions.fetch_add(amount.sessions, Ordering::Relaxed);
        self.runs.fetch_add(amount.runs, Ordering::Relaxed);
        self.bytes.fetch_add(amount.bytes, Ordering::Relaxed);
    }
}

impl TenantUse {
    fn of_user(&self, user: Option<&UserId>) -> Amount {
        user.and_then(|user| self.users.get(user)).map(|counters| counters.amount()).unwrap_or_default()
    }

    fn add(&self, user: Option<&UserId>, amount: Amount) {
        self.total.add(amount);
        if let Some(user) = user {
            match self.users.get(user) {
                Some(counters) => counters.add(amount),
                None => self.users.entry(user.clone()).or_default().add(amount),
            }
        }
    }

    async fn look(&self, store: &dyn TenantStore, tenant: &TenantId) -> Result<()> {
        let began = Instant::now();
        self.freed.store(false, Ordering::Relaxed);
        let used = store.usage(tenant).await?;
        let mut total = Amount::default();
        let mut seen: Vec<UserId> = Vec::with_capacity(used.len());
        for (user, amount) in used {
            total.sessions += amount.sessions;
            total.runs += amount.runs;
            total.bytes += amount.bytes;
            if let Some(user) = user {
                self.users.entry(user.clone()).or_default().set(amount);
                seen.push(user);
            }
        }
        self.users.retain(|user, _| seen.contains(user));
        self.total.set(total);
        // Less often where reading takes long.
        let wait = limits::QUOTA_LOOK_AGAIN.max(began.elapsed() * 200);
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.look_again_at.store(since_start().saturating_add(wait), Ordering::Relaxed);
        *self.looked_at.lock() = Some(Instant::now());
        Ok(())
    }

    /// Whether asking the store again could change a refusal.
    fn may_have_moved(&self) -> bool {
        self.freed.load(Ordering::Relaxed)
            || self.looked_at.lock().is_none_or(|at| at.elapsed() >= limits::QUOTA_LOOK_AGAIN_MIN)
    }

    /// Whether it is time to ask the store again.
    fn is_old(&self) -> bool {
        since_start() >= self.look_again_at.load(Ordering::Relaxed)
    }
}

impl QuotaBook {
    pub(super) fn new(settings: QuotaSettings) -> Self {
        Self { settings, tenants: DashMap::new() }
    }

    fn of(&self, tenant: &TenantId) -> Arc<TenantUse> {
        match self.tenants.get(tenant) {
            Some(used) => used.clone(),
            None => self.tenants.entry(tenant.clone()).or_default().clone(),
        }
    }
}

impl Engine {
    /// What a tenant may use, and each of its users.
    pub fn quotas_of(&self, tenant: &TenantId) -> QuotaLimits {
        self.quotas.settings.of(tenant)
    }

    /// Refuses an append of a caller whose byte quota is exhausted. Costs two look-ups where there is room.
    pub(super) async fn check_byte_quota(&self, actor: &Actor) -> Result<()> {
        let (none, more) = (Amount::default(), Amount { bytes: 1, ..Amount::default() });
        self.check_quota(&actor.tenant, actor.user.as_ref(), none, more).await
    }

    /// Refuses a change that would make more sessions or runs than the quotas allow. All that it makes count together.
    pub(super) async fn check_session_quota(&self, tenant: &TenantId, made: &[MadeSession]) -> Result<()> {
        let used = self.quotas.of(tenant);
        if used.looked_at.lock().is_none() {
            used.look(&*self.tenant, tenant).await?;
        }
        let mut by_holder: Vec<(Option<&UserId>, Amount)> = Vec::with_capacity(1);
        for session in made {
            let holder = session.holder.as_ref();
            match by_holder.iter_mut().find(|(known, _)| *known == holder) {
                Some((_, sum)) => *sum = *sum + session.amount(),
                None => by_holder.push((holder, session.amount())),
            }
        }
        let mut ahead = Amount::default();
        for (holder, more) in by_holder {
            self.check_quota(tenant, holder, ahead, more).await?;
            ahead = ahead + more;
        }
        Ok(())
    }

    /// `ahead`: what the same change makes for other users.
    async fn check_quota(
        &self,
        tenant: &TenantId,
        user: Option<&UserId>,
        ahead: Amount,
        more: Amount,
    ) -> Result<()> {
        let used = self.quotas.of(tenant);
        let limits = self.quotas.settings.of(tenant);
        let exceeded = || limits.exceeded(used.total.amount() + ahead, used.of_user(user), more);
        if exceeded().is_none() {
            return Ok(());
        }
        if used.may_have_moved() {
            used.look(&*self.tenant, tenant).await?;
        }
        exceeded().map_or(Ok(()), |(quota, limit)| Err(Error::QuotaExceeded { quota, limit }))
    }

    /// Counts what was committed here.
    pub(super) fn count_use(
        &self,
        tenant: &TenantId,
        made: &[MadeSession],
        freed: bool,
        done: &CommitResult,
    ) {
        let used = self.quotas.of(tenant);
        for session in made {
            used.add(session.holder.as_ref(), session.amount());
        }
        for part in &done.parts {
            let bytes: usize = part
                .appended
                .iter()
                .map(|appended| match appended {
                    AppendOutcome::New(event) => event.bytes(),
                    AppendOutcome::Repeat(_) => 0,
                })
                .sum();
            used.add(part.head.holder.as_ref(), Amount { bytes: bytes as u64, ..Amount::default() });
        }
        if freed {
            used.freed.store(true, Ordering::Relaxed);
        }
        if used.is_old() && !used.looking.swap(true, Ordering::AcqRel) {
            let (store, tenant) = (self.tenant.clone(), tenant.clone());
            tokio::spawn(async move {
                if let Err(error) = used.look(&*store, &tenant).await {
                    tracing::warn!(
                        target: "sederunt::quotas",
                        code = error.code(),
                        "the store could not count what a tenant uses; the next change of the tenant tries again"
                    );
                }
                used.looking.store(false, Ordering::Release);
            });
        }
    }
}

/// A session that a change makes, as quotas count it.
#[derive(Debug)]
pub(super) struct MadeSession {
    holder: Option<UserId>,
    is_run: bool,
}

impl MadeSession {
    fn amount(&self) -> Amount {
        Amount { sessions: 1, runs: u64::from(self.is_run), bytes: 0 }
    }
}

/// The sessions that a change makes, and whether it frees anything.
pub(super) fn foreseen(change: &Change) -> (Vec<MadeSession>, bool) {
    let mut made = Vec::new();
    let mut freed = false;
    for part in &change.parts {
        match &part.on {
            PartTarget::New(new) if new.details.memory_mode != MemoryMode::Incognito => {
                made.push(MadeSession {
                    holder: new.head.holder.clone(),
                    is_run: !new.head.is_talk && !new.head.is_bridge && new.head.status.is_live(),
                })
            }
            PartTarget::New(_) => {}
            PartTarget::Session(_) => {
                freed |= part.writes.iter().any(|write| match write {
                    Write::Delete => true,
                    Write::Update(update) => update.status.is_some_and(Status::is_terminal),
                    Write::Append(_) | Write::Talk(_) => false,
                });
            }
        }
    }
    (made, freed)
}
