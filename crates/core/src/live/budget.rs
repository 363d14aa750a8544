//! How many streams may be open, and how many bytes they may hold that their readers have not taken.
//!
//! Every stream is counted in each of its accounts: all streams, its credential or share link, its address, its
//! tenant. A stream beyond a cap is refused; where the tenant's quota is exhausted, the refusal names it. The bytes
//! of a page are charged before it is read and released when it has been written; when an account has no room for a
//! page, its streams wait for each other, and no new one opens. The budget is used when a stream opens, reads a page
//! or closes; never by a write to a log.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::{Error, Result};
use crate::ids::{CredentialId, TenantId};
use crate::limits;
use crate::quota::{Quota, QuotaLimits};

/// The cap of one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCap {
    pub streams: usize,
    pub bytes: usize,
}

/// The cap of each kind of account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCaps {
    pub in_all: StreamCap,
    pub per_address: StreamCap,
    pub per_credential: StreamCap,
    pub per_link: StreamCap,
    pub per_link_and_address: StreamCap,
}

impl Default for StreamCaps {
    fn default() -> Self {
        let cap = |streams, bytes| StreamCap { streams, bytes };
        Self {
            in_all: cap(limits::STREAMS_MAX, limits::STREAM_BYTES_MAX),
            per_address: cap(limits::STREAMS_MAX / 4, limits::STREAM_BYTES_PER_CALLER_MAX),
            per_credential: cap(limits::STREAMS_PER_CREDENTIAL_MAX, limits::STREAM_BYTES_PER_CALLER_MAX),
            per_link: cap(limits::STREAMS_PER_LINK_MAX, limits::STREAM_BYTES_PER_LINK_MAX),
            per_link_and_address: cap(
                limits::STREAMS_PER_LINK_AND_ADDRESS_MAX,
                limits::STREAM_BYTES_PER_LINK_AND_ADDRESS_MAX,
            ),
        }
    }
}

/// An account that streams are counted in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StreamAccount {
    InAll,
    Address(IpAddr),
    Credential(TenantId, CredentialId),
    Link(TenantId, CredentialId),
    LinkAndAddress(TenantId, CredentialId, IpAddr),
    Tenant(TenantId),
}

impl StreamAccount {
    fn cap(&self, caps: &StreamCaps, quotas: &QuotaLimits) -> StreamCap {
        match self {
            Self::InAll => caps.in_all,
            Self::Address(_) => caps.per_address,
            Self::Credential(..) => caps.per_credential,
            Self::Link(..) => caps.per_link,
            Self::LinkAndAddress(..) => caps.per_link_and_address,
            // Bytes are bounded by the accounts of the tenant's callers.
            Self::Tenant(_) => StreamCap {
                streams: usize::try_from(quotas.tenant_streams).unwrap_or(usize::MAX),
                bytes: caps.in_all.bytes,
            },
        }
    }

    /// The refusal of a stream beyond this account's cap.
    fn refusal(&self, quotas: &QuotaLimits) -> Error {
        match self {
            Self::Tenant(_) => {
                Error::QuotaExceeded { quota: Quota::TenantStreams, limit: quotas.tenant_streams }
            }
            Self::InAll
            | Self::Address(_)
            | Self::Credential(..)
            | Self::Link(..)
            | Self::LinkAndAddress(..) => Error::RateLimited(limits::STREAM_RETRY_AFTER),
        }
    }
}

/// An account with its cap.
type CappedAccount = (StreamAccount, StreamCap);

/// What an account uses now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamUse {
    pub streams: usize,
    pub bytes: usize,
}

/// Counts the streams of one server.
#[derive(Debug, Default)]
pub struct StreamBudget {
    caps: StreamCaps,
    accounts: Mutex<HashMap<StreamAccount, StreamUse>>,
    freed: Notify,
}

impl StreamBudget {
    pub fn new(caps: StreamCaps) -> Self {
        Self { caps, ..Self::default() }
    }

    /// Counts one more stream in all of these accounts, or in none; `quotas` are those of its tenant.
    pub fn open(self: &Arc<Self>, accounts: Vec<StreamAccount>, quotas: &QuotaLimits) -> Result<StreamLease> {
        let mut used = self.accounts.lock();
        let is_full = |(account, cap): &CappedAccount| {
            let used = used.get(account).copied().unwrap_or_default();
            used.streams >= cap.streams || used.bytes >= cap.bytes
        };
        let accounts: Vec<_> = accounts
            .into_iter()
            .map(|account| {
                let cap = account.cap(&self.caps, quotas);
                (account, cap)
            })
            .collect();
        if let Some((full, _)) = accounts.iter().find(|account| is_full(account)) {
            return Err(full.refusal(quotas));
        }
        for (account, _) in &accounts {
            used.entry(account.clone()).or_default().streams += 1;
        }
        drop(used);
        Ok(StreamLease(Arc::new(StreamCount { budget: self.clone(), accounts })))
    }

    pub fn used(&self, account: &StreamAccount) -> StreamUse {
        self.accounts.lock().get(account).copied().unwrap_or_default()
    }

    /// Charges bytes if every account has room for them. An account that holds nothing has room for anything:
    /// one page at a time always gets through.
    fn try_charge(&self, accounts: &[CappedAccount], bytes: usize) -> bool {
        let mut used = self.accounts.lock();
        let has_room = |(account, cap): &CappedAccount| {
            let held = used.get(account).map_or(0, |used| used.bytes);
            held == 0 || held + bytes <= cap.bytes
        };
        let fits = accounts.iter().all(has_room);
        if fits {
            charge(&mut used, accounts, bytes);
        }
        fits
    }

    fn give_back(&self, accounts: &[CappedAccount], bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut used = self.accounts.lock();
        for (account, _) in accounts {
            if let Some(used) = used.get_mut(account) {
                used.bytes = used.bytes.saturating_sub(bytes);
            }
        }
        drop(used);
        self.freed.notify_waiters();
    }
}

fn charge(used: &mut HashMap<StreamAccount, StreamUse>, accounts: &[CappedAccount], bytes: usize) {
    for (account, _) in accounts {
        used.entry(account.clone()).or_default().bytes += bytes;
    }
}

#[derive(Debug)]
struct StreamCount {
    budget: Arc<StreamBudget>,
    accounts: Vec<CappedAccount>,
}

impl Drop for StreamCount {
    fn drop(&mut self) {
        let mut used = self.budget.accounts.lock();
        for (account, _) in &self.accounts {
            if let Some(left) = used.get_mut(account) {
                left.streams -= 1;
                if left.streams == 0 {
                    used.remove(account);
                }
            }
        }
    }
}

/// An open stream: counted until this, and every [`HeldBytes`] of it, is dropped.
#[derive(Debug)]
pub struct StreamLease(Arc<StreamCount>);

impl StreamLease {
    /// Holds bytes in every account as soon as all of them have room. Safe to drop while waiting.
    pub async fn hold(&self, bytes: usize) -> HeldBytes {
        let StreamCount { budget, accounts } = &*self.0;
        loop {
            let freed = budget.freed.notified();
            if budget.try_charge(accounts, bytes) {
                return HeldBytes { counted: self.0.clone(), bytes };
            }
            freed.await;
        }
    }

    /// Holds bytes that are already in memory, with or without room for them.
    pub fn hold_now(&self, bytes: usize) -> HeldBytes {
        charge(&mut self.0.budget.accounts.lock(), &self.0.accounts, bytes);
        HeldBytes { counted: self.0.clone(), bytes }
    }
}

/// Bytes of a page that its reader has not taken yet.
#[derive(Debug)]
pub struct HeldBytes {
    counted: Arc<StreamCount>,
    bytes: usize,
}

impl HeldBytes {
    /// Releases what a page did not need, once its size is known.
    pub fn shrink_to(&mut self, bytes: usize) {
        if let Some(spare) = self.bytes.checked_sub(bytes) {
            self.counted.budget.give_back(&self.counted.accounts, spare);
            self.bytes = bytes;
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.counted.budget.give_back(&self.counted.accounts, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn cap(streams: usize, bytes: usize) -> StreamCap {
        StreamCap { streams, bytes }
    }

    fn open(budget: &Arc<StreamBudget>, accounts: Vec<StreamAccount>) -> Result<StreamLease> {
        budget.open(accounts, &QuotaLimits::default())
    }

    fn link(address: u8) -> Vec<StreamAccount> {
        let (tenant, link) = (TenantId::stored("t"), CredentialId::stored("link"));
        let address = IpAddr::from([192, 0, 2, address]);
        vec![
            StreamAccount::InAll,
            StreamAccount::Address(address),
            StreamAccount::Link(tenant.clone(), link.clone()),
            StreamAccount::LinkAndAddress(tenant, link, address),
        ]
    }

    #[test]
    fn one_stream_past_any_cap_is_refused_and_counted_nowhere() {
        let roomy = cap(100, 100);
        let all = StreamCaps {
            in_all: roomy,
            per_address: roomy,
            per_credential: roomy,
            per_link: roomy,
            per_link_and_address: roomy,
        };
        let table = [
            (StreamCaps { in_all: cap(2, 100), ..all }, [1, 2, 3]),
            (StreamCaps { per_address: cap(2, 100), ..all }, [1, 1, 1]),
            (StreamCaps { per_link: cap(2, 100), ..all }, [1, 2, 3]),
            (StreamCaps { per_link_and_address: cap(2, 100), ..all }, [1, 1, 1]),
        ];
        for (caps, addresses) in table {
            let budget = Arc::new(StreamBudget::new(caps));
            let mut leases: Vec<_> =
                addresses[..2].iter().map(|address| open(&budget, link(*address)).unwrap()).collect();
            match open(&budget, link(addresses[2])) {
                Err(Error::RateLimited(wait)) => assert_eq!(wait, limits::STREAM_RETRY_AFTER),
                other => panic!("{caps:?}: {other:?}"),
            }
            assert_eq!(budget.used(&StreamAccount::InAll).streams, 2);
            leases.pop();
            leases.push(open(&budget, link(addresses[2])).unwrap());
            leases.clear();
            assert!(budget.accounts.lock().is_empty(), "what is not used is not remembered");
        }
        let budget = Arc::new(StreamBudget::new(StreamCaps { per_credential: cap(1, 100), ..all }));
        let credential = || vec![StreamAccount::Credential(TenantId::stored("t"), CredentialId::stored("c"))];
        let _lease = open(&budget, credential()).unwrap();
        assert!(open(&budget, credential()).is_err());
    }

    #[test]
    fn one_stream_past_the_quota_of_its_tenant_is_refused_by_name_until_one_ends() {
        let budget = Arc::new(StreamBudget::default());
        let quotas = QuotaLimits { tenant_streams: 2, ..QuotaLimits::default() };
        let of = |tenant, credential| {
            let tenant = TenantId::stored(tenant);
            let credential = StreamAccount::Credential(tenant.clone(), CredentialId::stored(credential));
            vec![StreamAccount::InAll, credential, StreamAccount::Tenant(tenant)]
        };
        let first = budget.open(of("acme", "ann"), &quotas).unwrap();
        let _second = budget.open(of("acme", "bob"), &quotas).unwrap();
        match budget.open(of("acme", "eve"), &quotas) {
            Err(Error::QuotaExceeded { quota: Quota::TenantStreams, limit: 2 }) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(budget.used(&StreamAccount::InAll).streams, 2, "what is refused is counted nowhere");
        let _other_tenant = budget.open(of("beta", "eve"), &quotas).unwrap();
        drop(first);
        let _third = budget.open(of("acme", "eve"), &quotas).unwrap();
    }

    #[tokio::test]
    async fn pages_of_one_link_wait_for_each_other_and_hold_no_more_than_its_cap() {
        let caps = StreamCaps { per_link: cap(100, 250), ..StreamCaps::default() };
        let budget = Arc::new(StreamBudget::new(caps));
        let leases: Vec<_> = (1..=4).map(|address| open(&budget, link(address)).unwrap()).collect();
        let first = leases[0].hold(100).now_or_never().unwrap();
        let mut second = leases[1].hold(100).now_or_never().unwrap();
        let mut third = Box::pin(leases[2].hold(100));
        assert!(third.as_mut().now_or_never().is_none(), "there is no room for a third page");
        assert_eq!(budget.used(&link(1)[2]).bytes, 200);
        second.shrink_to(40);
        let third = third.now_or_never().unwrap();
        assert_eq!(budget.used(&link(1)[2]).bytes, 240);
        let live = leases[3].hold_now(50);
        assert_eq!(budget.used(&link(1)[2]).bytes, 290, "what is in memory already is counted");
        assert!(open(&budget, link(5)).is_err(), "and no stream opens beyond the bytes");
        drop((first, second, third, live));
        assert_eq!(budget.used(&StreamAccount::InAll), StreamUse { streams: 4, bytes: 0 });
        assert!(open(&budget, link(5)).is_ok());
    }

    #[tokio::test]
    async fn a_page_larger_than_its_cap_is_read_alone() {
        let caps = StreamCaps { per_link: cap(100, 10), ..StreamCaps::default() };
        let budget = Arc::new(StreamBudget::new(caps));
        let (one, two) = (open(&budget, link(1)).unwrap(), open(&budget, link(2)).unwrap());
        let held = one.hold(100).now_or_never().unwrap();
        assert!(two.hold(1).now_or_never().is_none());
        drop(held);
        assert!(two.hold(100).now_or_never().is_some());
    }
}
