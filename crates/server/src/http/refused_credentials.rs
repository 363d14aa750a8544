//! Counts refused credentials by address, for the audit trail. The counts in memory and the audit lines are bounded,
//! from however many addresses a caller guesses.

use std::collections::HashMap;
use std::net::IpAddr;

use parking_lot::Mutex;
use sederunt_core::limits;
use sederunt_core::people::RefusedCredentials;

use super::App;

/// The counts since they were last taken.
#[derive(Debug, Default)]
pub struct RefusedCounts(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    by_address: HashMap<IpAddr, RefusedCredentials>,
    /// Of further addresses, when too many were counted already.
    of_others: RefusedCredentials,
}

impl RefusedCounts {
    /// Counts an invalid credential.
    pub fn note_wrong(&self, address: IpAddr) {
        self.note(address, RefusedCredentials { times: 1, unchecked: 0 });
    }

    /// Counts a credential that was not looked up, after too many invalid ones.
    pub fn note_unchecked(&self, address: IpAddr) {
        self.note(address, RefusedCredentials { times: 1, unchecked: 1 });
    }

    fn note(&self, address: IpAddr, refused: RefusedCredentials) {
        let mut counts = self.0.lock();
        let is_full = counts.by_address.len() >= limits::REFUSED_ADDRESSES_COUNTED_MAX
            && !counts.by_address.contains_key(&address);
        let count =
            if is_full { &mut counts.of_others } else { counts.by_address.entry(address).or_default() };
        *count += refused;
    }

    /// The counts by address, the highest first, and those of all other addresses together (`None`). Counting starts
    /// anew.
    pub fn take(&self) -> Vec<(Option<IpAddr>, RefusedCredentials)> {
        let Counts { by_address, mut of_others } = std::mem::take(&mut *self.0.lock());
        let mut counts: Vec<_> =
            by_address.into_iter().map(|(address, count)| (Some(address), count)).collect();
        counts.sort_unstable_by_key(|(address, count)| (std::cmp::Reverse(count.times), *address));
        for (_, count) in counts.drain(limits::REFUSED_ADDRESSES_AUDITED_MAX.min(counts.len())..) {
            of_others += count;
        }
        if of_others.times > 0 {
            counts.push((None, of_others));
        }
        counts
    }
}

/// Writes audit lines about the credentials refused since the last call.
pub async fn audit_refused(app: &App) {
    for (address, refused) in app.counters.refused.take() {
        let address = address.map_or_else(|| "other addresses".to_owned(), |address| address.to_string());
        if let Err(error) = app.engine.note_refused_credentials(&address, refused).await {
            tracing::warn!(
                target: "sederunt::upkeep",
                code = error.code(),
                %error,
                times = refused.times,
                "refused credentials could not be written into the audit trail; this minute's count is dropped"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: usize) -> IpAddr {
        IpAddr::from([10, 0, (n / 256) as u8, (n % 256) as u8])
    }

    #[test]
    fn as_many_addresses_are_named_as_the_trail_takes_the_loudest_first() {
        let counts = RefusedCounts::default();
        let last = limits::REFUSED_ADDRESSES_AUDITED_MAX;
        for n in 0..=last {
            counts.note_wrong(address(n));
        }
        counts.note_unchecked(address(last));
        let taken = counts.take();
        assert_eq!(taken.len(), limits::REFUSED_ADDRESSES_AUDITED_MAX + 1);
        assert_eq!(taken[0], (Some(address(last)), RefusedCredentials { times: 2, unchecked: 1 }));
        assert_eq!(taken[1].0, Some(address(0)));
        assert_eq!(taken[last], (None, RefusedCredentials { times: 1, unchecked: 0 }));
        assert!(counts.take().is_empty());
    }

    #[test]
    fn beyond_the_addresses_that_are_told_apart_nothing_goes_uncounted() {
        let counts = RefusedCounts::default();
        for n in 0..limits::REFUSED_ADDRESSES_COUNTED_MAX + 5 {
            counts.note_wrong(address(n));
        }
        counts.note_wrong(address(0));
        assert_eq!(counts.0.lock().by_address.len(), limits::REFUSED_ADDRESSES_COUNTED_MAX);
        let taken = counts.take();
        assert_eq!(taken[0], (Some(address(0)), RefusedCredentials { times: 2, unchecked: 0 }));
        let times: u64 = taken.iter().map(|(_, count)| count.times).sum();
        assert_eq!(times as usize, limits::REFUSED_ADDRESSES_COUNTED_MAX + 6);
    }
}
