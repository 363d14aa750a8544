//! Rate limits. Counted by credential, so that one busy caller does not cause another's refusal. Many people hold one
//! share link: they are counted by their respondent's cookie or, without one, by their address, and all links together
//! by address. Failed authentications are counted by address.
//!
//! A caller is one of [`BUCKETS`] numbers, and quiet ones are dropped every minute, so the counters have a bound
//! whatever comes in.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use dashmap::DashMap;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use sederunt_core::view::Respondent;
use sederunt_core::{Actor, Error, limits};

use super::auth::Caller;
use super::refused_credentials::RefusedCounts;
use crate::config::{Rate, Rates};

/// The counters of one server.
#[derive(Debug)]
pub struct Counters {
    credentials: Option<Counter>,
    shares: Option<Counter>,
    share_addresses: Option<Counter>,
    forms: Option<Counter>,
    new_respondents: Option<Counter>,
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

    /// The whole minute's number may come at once.
    fn minutely(per_minute: NonZeroU32) -> Self {
        let quota = Quota::per_minute(per_minute);
        Self { limiter: RateLimiter::keyed(quota), clock: DefaultClock::default() }
    }

    fn count(&self, key: u64) -> Result<(), Error> {
        self.limiter
            .check_key(&(key % BUCKETS))
            .map_err(|refused| Error::RateLimited(refused.wait_time_from(self.clock.now())))
    }
}

impl Counters {
    pub fn new(rates: Rates) -> Self {
        Self {
            credentials: rates.per_credential.map(Counter::new),
            shares: rates.per_share.map(Counter::new),
            share_addresses: rates.per_share.and_then(of_an_address).map(Counter::new),
            forms: rates.forms_per_respondent.map(Counter::new),
            new_respondents: rates.new_respondents_per_peer.map(Counter::minutely),
            leads: rates.leads_per_link.map(|(per_hour, burst)| Counter::hourly(per_hour, burst)),
            failures: rates.failures_per_peer.map(Counter::new),
            refused: RefusedCounts::default(),
            guessing: DashMap::new(),
            hasher: RandomState::new(),
        }
    }

    /// Counts a request through any link by its address alone.
    pub fn address(&self, caller: &Caller, peer: Option<IpAddr>) -> Result<(), Error> {
        match (&self.share_addresses, peer) {
            (Some(counter), Some(peer)) if caller.is_share() => {
                counter.count(self.hasher.hash_one(block(peer)))
            }
            _ => Ok(()),
        }
    }

    /// Counts a request of an authenticated caller. The local owner is not counted.
    pub fn request(&self, caller: &Caller, peer: Option<IpAddr>) -> Result<(), Error> {
        let (counter, key) = match (caller.is_share(), caller.can_be_revoked()) {
            (true, _) => (&self.shares, self.link_key(caller, peer)),
            (false, true) => (&self.credentials, self.credential_key(caller)),
            (false, false) => return Ok(()),
        };
        counter.as_ref().map_or(Ok(()), |counter| counter.count(key))
    }

    /// Counts an answer through a link by a respondent who is known. One who is not known yet is counted as a new
    /// respondent.
    pub fn form(&self, caller: &Caller) -> Result<(), Error> {
        let is_known = caller.respondent.is_some() || caller.actor.user.is_some();
        match &self.forms {
            Some(counter) if is_known => counter.count(self.link_key(caller, None)),
            _ => Ok(()),
        }
    }

    /// Counts a stranger who becomes a respondent: who gets a cookie for the first time, or answers without one.
    pub fn new_respondent(&self, caller: &Caller, peer: Option<IpAddr>) -> Result<(), Error> {
        let is_known = caller.respondent.is_some() || caller.actor.user.is_some();
        match (&self.new_respondents, peer) {
            (Some(counter), Some(peer)) if caller.is_share() && !is_known => {
                counter.count(self.hasher.hash_one(block(peer)))
            }
            _ => Ok(()),
        }
    }

    fn credential_key(&self, caller: &Caller) -> u64 {
        self.hasher.hash_one((&caller.actor.tenant, &caller.actor.credential))
    }

    /// A holder of a link: the respondent, the user of a personal link, or else all who come from one address.
    fn link_key(&self, caller: &Caller, peer: Option<IpAddr>) -> u64 {
        let Actor { tenant, credential, user, .. } = &*caller.actor;
        match (&caller.respondent, user) {
            (Some(known), _) => {
                let Respondent { kind, id } = &known.who;
                self.hasher.hash_one((tenant, &known.view_id, kind.as_str(), id))
            }
            (None, Some(_)) => self.credential_key(caller),
            (None, None) => self.hasher.hash_one((tenant, credential, peer.map(block))),
        }
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
                    self.guessing.insert(key % BUCKETS, Instant::now() + *wait);
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
        let until = *self.guessing.get(&(self.hasher.hash_one(block(peer)) % BUCKETS))?;
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
        let counters = [
            &self.credentials, &self.shares, &self.share_addresses, &self.forms, &self.new_respondents,
            &self.leads, &self.failures,
        ];
        for counter in counters.into_iter().flatten() {
            counter.limiter.retain_recent();
            counter.limiter.shrink_to_fit();
        }
    }
}

/// The numbers that a counter tells callers apart by. Two callers share one by chance, and then its rate.
const BUCKETS: u64 = 1 << 20;

/// What all links together may be used from one address, by the rate of one of their holders.
fn of_an_address(rate: Rate) -> Option<Rate> {
    let all = |one: NonZeroU32| one.get().saturating_mul(limits::LINK_HOLDERS_PER_ADDRESS);
    Rate::new(all(rate.per_second), all(rate.burst))
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

    use sederunt_core::{CredentialId, Role, UserId};

    use super::super::respondent::ProvenRespondent;
    use super::*;

    fn link(credential: &str) -> Caller {
        let actor = Actor {
            credential: CredentialId::stored(credential),
            role: Role::Share,
            ..(*Caller::local().actor).clone()
        };
        let mut caller = Caller::local();
        caller.actor = Arc::new(actor);
        caller
    }

    fn known(credential: &str, name: &str) -> Caller {
        let who = Respondent::cookie(name.to_owned());
        let mut caller = link(credential);
        let proven = ProvenRespondent { view_id: "v".into(), who, cookie: "sealed".into() };
        caller.respondent = Some(Arc::new(proven));
        caller
    }

    fn at(peer: &str) -> Option<IpAddr> {
        Some(peer.parse().unwrap())
    }

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
            assert!(counters.request(&Caller::local(), None).is_ok());
        }
    }

    #[test]
    fn one_lead_past_the_burst_of_its_link_waits_for_its_share_of_an_hour() {
        let counters = Counters::new(Rates::default());
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

    #[test]
    fn holders_of_a_link_are_counted_by_their_cookie_or_else_by_their_address() {
        let counters = Counters::new(Rates { per_share: Rate::new(1, 2), ..Rates::default() });
        let spends = |caller: &Caller, peer: &str| {
            (0..3).map(|_| counters.request(caller, at(peer)).is_ok()).collect::<Vec<_>>()
        };
        let spent = [true, true, false];
        assert_eq!(spends(&link("a"), "192.0.2.1"), spent);
        assert_eq!(spends(&link("a"), "192.0.2.2"), spent, "another address has its own");
        assert_eq!(spends(&link("b"), "192.0.2.1"), spent, "another link has its own");
        assert_eq!(spends(&known("a", "ann"), "192.0.2.1"), spent, "a respondent has their own");
        assert_eq!(spends(&known("a", "bob"), "192.0.2.1"), spent);
        assert_eq!(spends(&known("b", "bob"), "192.0.2.3"), [false; 3], "wherever they come from");
        let mut personal = link("p");
        personal.actor = Arc::new(Actor { user: Some(UserId::stored("u")), ..(*personal.actor).clone() });
        assert_eq!(spends(&personal, "192.0.2.1"), spent);
        assert_eq!(spends(&personal, "192.0.2.2"), [false; 3], "a personal link is one person's");
    }

    #[test]
    fn all_links_together_are_counted_by_address() {
        let counters = Counters::new(Rates { per_share: Rate::new(1, 2), ..Rates::default() });
        let most = 2 * limits::LINK_HOLDERS_PER_ADDRESS;
        for n in 0..most {
            let caller = known("a", &n.to_string());
            assert!(counters.address(&caller, at("192.0.2.1")).is_ok(), "{n}");
        }
        for caller in [link("b"), known("a", "new")] {
            assert!(matches!(counters.address(&caller, at("192.0.2.1")), Err(Error::RateLimited(_))));
            assert!(counters.address(&caller, at("192.0.2.2")).is_ok());
            assert!(counters.address(&caller, None).is_ok(), "an unknown address is not one");
        }
        assert!(counters.address(&Caller::local(), at("192.0.2.1")).is_ok(), "it comes through no link");
    }

    #[test]
    fn one_new_respondent_past_the_minute_of_an_address_waits() {
        let counters = Counters::new(Rates::default());
        for n in 0..limits::NEW_RESPONDENTS_PER_ADDRESS_AND_MINUTE {
            assert!(counters.new_respondent(&link(&n.to_string()), at("192.0.2.1")).is_ok(), "{n}");
        }
        match counters.new_respondent(&link("a"), at("192.0.2.1")) {
            Err(Error::RateLimited(wait)) => assert!(wait > Duration::ZERO && wait <= Duration::from_secs(1)),
            other => panic!("{other:?}"),
        }
        assert!(counters.new_respondent(&known("a", "ann"), at("192.0.2.1")).is_ok(), "she is not new");
        assert!(counters.new_respondent(&link("a"), at("192.0.2.2")).is_ok());
    }

    #[test]
    fn counters_forget_and_have_a_bound() {
        let rates = Rates { per_share: Rate::new(1_000_000, 1), ..Rates::default() };
        let counters = Counters::new(rates);
        for n in 0..1_000 {
            let _ = counters.request(&known("a", &n.to_string()), at("192.0.2.1"));
        }
        let shares = counters.shares.as_ref().unwrap();
        assert!(shares.limiter.len() > 900, "{}", shares.limiter.len());
        std::thread::sleep(Duration::from_millis(5));
        counters.forget_quiet();
        assert_eq!(shares.limiter.len(), 0);
        assert!(shares.count(BUCKETS + 7).is_ok());
        std::thread::sleep(Duration::from_millis(1));
        assert!(shares.count(7).is_ok());
        assert_eq!(shares.limiter.len(), 1, "no more keys than buckets");
    }
}
