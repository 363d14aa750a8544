//! Interleaved rounds: contestants take turns, and each is represented by the median of its rounds, so that a moment
//! of noise affects all of them or is left out.

use std::time::Duration;

use anyhow::Result;

/// The result of one round of one contestant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    pub per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
}

impl Sample {
    pub fn new(done: u64, took: Duration, latencies: &mut Latencies) -> Self {
        Self {
            per_s: done as f64 / took.as_secs_f64(),
            p50_ms: latencies.at(0.50),
            p99_ms: latencies.at(0.99),
            p999_ms: latencies.at(0.999),
        }
    }

    pub fn rate(done: u64, took: Duration) -> Self {
        Self { per_s: done as f64 / took.as_secs_f64(), ..Self::default() }
    }
}

/// One contestant's way to run a round.
pub type Contestant<'a> = &'a mut dyn FnMut() -> Result<Sample>;

/// Lets each contestant run once per round, and returns their medians in the same order.
pub fn interleave<const N: usize>(
    rounds: usize,
    mut contestants: [Contestant<'_>; N],
) -> Result<[Sample; N]> {
    let mut samples: [Vec<Sample>; N] = std::array::from_fn(|_| Vec::with_capacity(rounds));
    for _ in 0..rounds {
        for (contestant, samples) in contestants.iter_mut().zip(&mut samples) {
            samples.push(contestant()?);
        }
    }
    Ok(samples.map(|samples| Sample {
        per_s: median(samples.iter().map(|sample| sample.per_s)),
        p50_ms: median(samples.iter().map(|sample| sample.p50_ms)),
        p99_ms: median(samples.iter().map(|sample| sample.p99_ms)),
        p999_ms: median(samples.iter().map(|sample| sample.p999_ms)),
    }))
}

pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// Times of single operations, in microseconds.
#[derive(Clone, Debug, Default)]
pub struct Latencies(Vec<u32>);

impl Latencies {
    pub fn add(&mut self, took: Duration) {
        self.0.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
    }

    pub fn join(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The time, in milliseconds, within which this share of the operations was done.
    pub fn at(&mut self, share: f64) -> f64 {
        if self.0.is_empty() {
            return f64::NAN;
        }
        let at = ((self.0.len() as f64 * share) as usize).min(self.0.len() - 1);
        let (_, value, _) = self.0.select_nth_unstable(at);
        f64::from(*value) / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_leave_out_the_odd_round() {
        assert_eq!(median([3.0, 100.0, 2.0].into_iter()), 3.0);
        assert_eq!(median([1.0, 2.0].into_iter()), 1.5);
        assert!(median(std::iter::empty()).is_nan());
    }

    #[test]
    fn a_percentile_is_the_time_within_which_that_share_was_done() {
        let mut times = Latencies::default();
        (1..=100).for_each(|ms| times.add(Duration::from_millis(ms)));
        assert_eq!(times.at(0.50), 51.0);
        assert_eq!(times.at(0.99), 100.0);
    }
}
