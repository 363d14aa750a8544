//! Quotas: how much tenants and users may store and use, and the refusal that names the exhausted quota.
//!
//! Use is counted in memory on each node and corrected from the store at intervals ([`crate::engine`], room
//! `quotas`). Incognito sessions have budgets of their own, which are exact, because they live in one process.
//! Streams are counted in the process that serves them ([`crate::live::budget`]).

use std::collections::HashMap;
use std::time::Duration;

use crate::ids::{TenantId, UserId};
use crate::limits;

/// A countable resource with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quota {
    /// Sessions that a tenant keeps.
    TenantSessions,
    /// Work of a tenant that has not ended: pending, running or waiting.
    TenantRuns,
    /// Bytes of the logs that a tenant keeps.
    TenantBytes,
    /// Streams of a tenant that are open on this node.
    TenantStreams,
    /// The same for the sessions that one user holds.
    UserSessions,
    UserRuns,
    UserBytes,
    /// Bytes of one incognito session.
    IncognitoSessionBytes,
    /// Bytes of all incognito sessions of one user.
    IncognitoUserBytes,
    /// Bytes of all incognito sessions of this process.
    IncognitoTotalBytes,
    /// People who are present in one session.
    SessionPresence,
    /// The same in all sessions of a tenant, and in all sessions.
    TenantPresence,
    NodePresence,
}

/// What a caller can do about an exhausted quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Send less: the bytes do not fit.
    Shrink,
    /// End or delete some first.
    Reduce,
    /// Wait: other callers hold it.
    Wait,
}

impl Quota {
    /// The name by which refusals and the configuration call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TenantSessions => "quotas.tenant_sessions",
            Self::TenantRuns => "quotas.tenant_runs",
            Self::TenantBytes => "quotas.tenant_bytes",
            Self::TenantStreams => "quotas.tenant_streams",
            Self::UserSessions => "quotas.user_sessions",
            Self::UserRuns => "quotas.user_runs",
            Self::UserBytes => "quotas.user_bytes",
            Self::IncognitoSessionBytes => "incognito.session_bytes",
            Self::IncognitoUserBytes => "incognito.user_bytes",
            Self::IncognitoTotalBytes => "incognito.total_bytes",
            Self::SessionPresence => "presence.session_people",
            Self::TenantPresence => "presence.tenant_people",
            Self::NodePresence => "presence.node_people",
        }
    }

    /// Whether its limit is a number of bytes.
    pub const fn counts_bytes(self) -> bool {
        match self {
            Self::TenantBytes
            | Self::UserBytes
            | Self::IncognitoSessionBytes
            | Self::IncognitoUserBytes
            | Self::IncognitoTotalBytes => true,
            Self::TenantSessions
            | Self::TenantRuns
            | Self::TenantStreams
            | Self::UserSessions
            | Self::UserRuns
            | Self::SessionPresence
            | Self::TenantPresence
            | Self::NodePresence => false,
        }
    }

    pub const fn remedy(self) -> Remedy {
        match self {
            Self::TenantBytes | Self::UserBytes | Self::IncognitoSessionBytes | Self::IncognitoUserBytes => {
                Remedy::Shrink
            }
            Self::TenantSessions
            | Self::TenantRuns
            | Self::TenantStreams
            | Self::UserSessions
            | Self::UserRuns
            | Self::SessionPresence
            | Self::TenantPresence => Remedy::Reduce,
            Self::IncognitoTotalBytes | Self::NodePresence => Remedy::Wait,
        }
    }

    /// When a retry may succeed; never for what is too large.
    pub const fn retry_after(self) -> Option<Duration> {
        match (self, self.remedy()) {
            (Self::TenantStreams, _) => Some(limits::STREAM_RETRY_AFTER),
            (Self::SessionPresence | Self::TenantPresence | Self::NodePresence, _) => {
                Some(limits::PRESENCE_LIFE)
            }
            (_, Remedy::Reduce | Remedy::Wait) => Some(limits::QUOTA_RETRY_AFTER),
            (_, Remedy::Shrink) => None,
        }
    }

    /// The advice, as the end of a sentence.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::TenantSessions | Self::TenantBytes => {
                "an owner can delete sessions, or the operator can raise the quota"
            }
            Self::TenantStreams => "close streams that nobody reads, or the operator can raise the quota",
            Self::TenantRuns | Self::UserRuns => "wait until some of the work has ended, or cancel some",
            Self::UserSessions | Self::UserBytes => "delete sessions that you no longer need",
            Self::IncognitoSessionBytes => "delete this incognito session and open another",
            Self::IncognitoUserBytes => "delete an incognito session that you no longer need",
            Self::SessionPresence | Self::TenantPresence | Self::NodePresence => {
                "wait until some of the people have left"
            }
            Self::IncognitoTotalBytes => {
                "incognito sessions of this server take all the memory that they may; try again later"
            }
        }
    }
}

/// How much a tenant or user uses, or may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    pub sessions: u64,
    pub runs: u64,
    pub bytes: u64,
}

impl std::ops::Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            sessions: self.sessions.saturating_add(other.sessions),
            runs: self.runs.saturating_add(other.runs),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// What the sessions of each holder use, and those without one.
pub type UseByHolder = Vec<(Option<UserId>, Amount)>;

/// What a tenant may use, and each of its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaLimits {
    pub tenant: Amount,
    /// Streams that the tenant may have open on one node.
    pub tenant_streams: u64,
    pub user: Amount,
}

impl Default for QuotaLimits {
    fn default() -> Self {
        Self {
            tenant: Amount {
                sessions: limits::QUOTA_TENANT_SESSIONS,
                runs: limits::QUOTA_TENANT_RUNS,
                bytes: limits::QUOTA_TENANT_BYTES,
            },
            tenant_streams: limits::QUOTA_TENANT_STREAMS,
            user: Amount {
                sessions: limits::QUOTA_USER_SESSIONS,
                runs: limits::QUOTA_USER_RUNS,
                bytes: limits::QUOTA_USER_BYTES,
            },
        }
    }
}

impl QuotaLimits {
    /// The first quota that `more` would exceed on top of what is used.
    pub fn exceeded(&self, tenant: Amount, user: Amount, more: Amount) -> Option<(Quota, u64)> {
        let table = [
            (tenant.sessions, more.sessions, self.tenant.sessions, Quota::TenantSessions),
            (tenant.runs, more.runs, self.tenant.runs, Quota::TenantRuns),
            (tenant.bytes, more.bytes, self.tenant.bytes, Quota::TenantBytes),
            (user.sessions, more.sessions, self.user.sessions, Quota::UserSessions),
            (user.runs, more.runs, self.user.runs, Quota::UserRuns),
            (user.bytes, more.bytes, self.user.bytes, Quota::UserBytes),
        ];
        table
            .into_iter()
            .find(|(used, more, limit, _)| *more > 0 && used.saturating_add(*more) > *limit)
            .map(|(_, _, limit, quota)| (quota, limit))
    }
}

/// The quotas of an installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaSettings {
    /// For tenants that have none of their own.
    pub standard: QuotaLimits,
    pub tenants: HashMap<TenantId, QuotaLimits>,
}

impl QuotaSettings {
    pub fn of(&self, tenant: &TenantId) -> QuotaLimits {
        self.tenants.get(tenant).copied().unwrap_or(self.standard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_past_each_quota_is_named_and_what_adds_nothing_is_not_refused() {
        let amount = |sessions, runs, bytes| Amount { sessions, runs, bytes };
        let limits =
            QuotaLimits { tenant: amount(20, 10, 200), user: amount(10, 5, 100), ..QuotaLimits::default() };
        let none = Amount::default();
        let table = [
            (amount(19, 0, 0), none, amount(1, 0, 0), None),
            (amount(20, 0, 0), none, amount(1, 0, 0), Some((Quota::TenantSessions, 20))),
            (amount(0, 10, 0), none, amount(0, 1, 0), Some((Quota::TenantRuns, 10))),
            (amount(0, 0, 199), none, amount(0, 0, 2), Some((Quota::TenantBytes, 200))),
            (none, amount(9, 4, 99), amount(1, 1, 1), None),
            (none, amount(10, 0, 0), amount(1, 0, 0), Some((Quota::UserSessions, 10))),
            (none, amount(0, 5, 0), amount(0, 1, 0), Some((Quota::UserRuns, 5))),
            (none, amount(0, 0, 100), amount(0, 0, 1), Some((Quota::UserBytes, 100))),
            (amount(99, 99, 999), amount(99, 99, 999), none, None),
        ];
        for (tenant, user, more, expected) in table {
            assert_eq!(limits.exceeded(tenant, user, more), expected, "{tenant:?} {user:?} {more:?}");
        }
    }

    #[test]
    fn a_tenant_may_have_quotas_of_its_own() {
        let own = QuotaLimits { tenant: Amount::default(), ..QuotaLimits::default() };
        let tenants = HashMap::from([(TenantId::stored("acme"), own)]);
        let settings = QuotaSettings { tenants, ..QuotaSettings::default() };
        assert_eq!(settings.of(&TenantId::stored("acme")), own);
        assert_eq!(settings.of(&TenantId::stored("beta")), QuotaLimits::default());
    }
}
