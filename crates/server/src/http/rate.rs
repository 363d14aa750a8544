//! Rate limits. Counted by credential, so that one busy caller does not cause another's refusal; strangers are
//! counted by their address, and only for failed authentications.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use dashmap::DashMap;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use sederunt_core::{Actor, Error};

use super::auth::Caller;
use super::refused_credentials::RefusedCounts;
use crate::config::{Rate, Rates};

/// The counters of one server.
#[derive(Debug)]
pub struct Counters {
    credentials: Option<Counter>,
    shares: Option<Counter>,
    forms: Option<Counter>,
    leads: Option<Counter>,
    failures: Option<Counter>,
    /// How often credentials were refused: for the audit trail.
    pub refused: RefusedCounts,
    /// Blocks of addresses with too many failures, and until when they must wait.
    guessing: DashMap<u64, Instant>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Counter {
    limiter: DefaultKeyedRateLimiter<u64>,
    clock: DefaultClock,
}

impl Counter {
    fn new(rate: Rate) -> Self {
        let quota = Quota::per_second(rate.per_second).allow_burst(rate.burst);
        Self { limiter: RateLimiter::keyed(quota), clock: DefaultClock::default() }
    }

    fn hourly(per_hour: NonZeroU32, burst: NonZeroU32) -> Self {
        let quota = Quota::per_hour(per_hour).allow_burst(burst);
        Self { limiter: RateLimiter::keyed(quota), clock: DefaultClock::default() }
    }

    fn count(&self, key: u64) -> Result<(), Error> {
        self.limiter
            .check_key(&key)
            .map_err(|refused| Error::RateLimited(refused.wait_time_from(self.clock.now())))
    }
}

impl Counters {
    pub fn new(rates: Rates) -> Self {
        Self {
            credentials: rates.per_credential.map(Counter::new),
            shares: rates.per_share.map(Counter::new),
            forms: rates.forms_per_peer.map(Counter::new),
            leads: rates.leads_per_link.map(|(per_hour, burst)| Counter::hourly(per_hour, burst)),
            failures: rates.failures_per_peer.map(Counter::new),
            refused: RefusedCounts::default(),
            guessing: DashMap::new(),
            hasher: RandomState::new(),
        }
    }

    /// Counts a request of an authenticated caller. The local owner is not counted.
    pub fn request(&self, caller: &Caller) -> Result<(), Error> {
        let counter = match (caller.is_share(), caller.can_be_revoked()) {
            (true, _) => &self.shares,
            (false, true) => &self.credentials,
            (false, false) => return Ok(()),
        };
        let Some(counter) = counter else { return Ok(()) };
        counter.count(self.hasher.hash_one((&caller.actor.tenant, &caller.actor.credential)))
    }

    /// Counts an answer through a link, by its address: one busy stranger does not block the other holders of the
    /// link.
    pub fn form(&self, caller: &Caller, peer: Option<IpAddr>) -> Result<(), Error> {
        let Some(counter) = &self.forms else { return Ok(()) };
        let Actor { tenant, credential, .. } = &*caller.actor;
        counter.count(self.hasher.hash_one((tenant, credential, peer.map(block))))
    }

    /// Counts a failed authentication.
    pub fn failure(&self, peer: IpAddr) -> Result<(), Error> {
        self.refused.note_wrong(block(peer));
        match &self.failures {
            None => Ok(()),
            Some(counter) => {
                let key = self.hasher.hash_one(block(peer));
                let counted = counter.count(key);
                if let Err(Error::RateLimited(wait)) = &counted {
                    self.guessing.insert(key, Instant::now() + *wait);
                }
                counted
            }
        }
    }

    /// Notes a credential that was not looked up, because its address must wait.
    pub fn unchecked(&self, peer: IpAddr) {
        self.refused.note_unchecked(block(peer));
    }

    /// How long an address with too many failures must wait before it may try another credential.
    pub fn must_wait(&self, peer: IpAddr) -> Option<Duration> {
        let until = *self.guessing.get(&self.hasher.hash_one(block(peer)))?;
        until.checked_duration_since(Instant::now()).filter(|wait| !wait.is_zero())
    }

    /// Counts a person who registers through a link as a lead.
    pub fn lead(&self, caller: &Caller) -> Result<(), Error> {
        let Some(counter) = self.leads.as_ref().filter(|_| caller.is_share()) else { return Ok(()) };
        counter.count(self.hasher.hash_one((&caller.actor.tenant, &caller.actor.credential)))
    }

    /// Drops the counters of quiet callers.
    pub fn forget_quiet(&self) {
        let now = Instant::now();
        self.guessing.retain(|_, until| *until > now);
        let counters = [&self.credentials, &self.shares, &self.forms, &self.leads, &self.failures];
        for counter in counters.into_iter().flatten() {
            counter.limiter.retain_recent();
            counter.limiter.shrink_to_fit();
        }
    }
}

/// How often quiet callers are dropped.
pub const FORGET_EVERY: Duration = Duration::from_secs(60);

/// The block of addresses that one caller is taken to own: with IPv6 a whole /64.
pub fn block(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sederunt_core::{CredentialId, Role, limits};

    use super::*;

    #[test]
    fn failures_are_counted_by_address() {
        let rates = Rates { failures_per_peer: Rate::new(1, 3), ..Rates::default() };
        let counters = Counters::new(rates);
        let peer = |text: &str| text.parse::<IpAddr>().unwrap();
        for _ in 0..3 {
            assert!(counters.failure(peer("192.0.2.1")).is_ok());
        }
        match counters.failure(peer("192.0.2.1")) {
            Err(Error::RateLimited(wait)) => assert!(wait <= Duration::from_secs(1)),
            other => panic!("{other:?}"),
        }
        assert!(counters.must_wait(peer("192.0.2.1")).is_some_and(|wait| wait <= Duration::from_secs(1)));
        assert_eq!(counters.must_wait(peer("192.0.2.2")), None);
        assert!(counters.failure(peer("192.0.2.2")).is_ok());
        assert_eq!(block(peer("2001:db8::1")), block(peer("2001:db8::2:3:4:5")));
        assert_eq!(block(peer("::ffff:192.0.2.1")), peer("192.0.2.1"));
    }

    #[test]
    fn the_owner_of_this_machine_is_not_counted() {
        let counters = Counters::new(Rates { per_credential: Rate::new(1, 1), ..Rates::default() });
        for _ in 0..10 {
            assert!(counters.request(&Caller::local()).is_ok());
        }
    }

    #[test]
    fn one_lead_past_the_burst_of_its_link_waits_for_its_share_of_an_hour() {
        let counters = Counters::new(Rates::default());
        let link = |credential: &str| {
            let actor = Actor {
                credential: CredentialId::stored(credential),
                role: Role::Share,
                ..(*Caller::local().actor).clone()
            };
            let mut caller = Caller::local();
            caller.actor = Arc::new(actor);
            caller
        };
        for n in 0..limits::LEADS_PER_LINK_BURST {
            assert!(counters.lead(&link("a")).is_ok(), "{n}");
        }
        match counters.lead(&link("a")) {
            Err(Error::RateLimited(wait)) => {
                assert!(wait <= Duration::from_secs(3600) / limits::LEADS_PER_LINK_AND_HOUR, "{wait:?}");
                assert!(wait > Duration::ZERO);
            }
            other => panic!("{other:?}"),
        }
        assert!(counters.lead(&link("b")).is_ok(), "another link has its own");
    }
}
