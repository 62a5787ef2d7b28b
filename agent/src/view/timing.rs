//! Times out of a histogram: mean, and estimates of quantiles.

use serde::{Deserialize, Serialize};
use weir_common::abi::stats::{BUCKETS, Histogram};

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// How many times were measured.
    pub count: u64,
    /// Their sum, seconds.
    pub sum_seconds: f64,
    /// Mean, seconds.
    pub mean_seconds: Option<f64>,
    /// Estimate of the median, seconds.
    pub p50_seconds: Option<f64>,
    /// Estimate of the 99th percentile, seconds.
    pub p99_seconds: Option<f64>,
    /// Counts by power of two of microseconds (the first: below one), without the zeros at the end.
    pub buckets: Vec<u64>,
}

impl Timing {
    /// Makes a timing of a histogram and the exact sum of the same times in nanoseconds.
    #[must_use]
    pub fn new(histogram: &Histogram, sum_ns: u64) -> Self {
        Self::of(histogram.buckets.to_vec(), sum_ns as f64 / 1e9)
    }

    /// Returns what was measured after `before`, an earlier reading of the same distribution.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let earlier = before.buckets.iter().chain(std::iter::repeat(&0));
        let buckets = self.buckets.iter().zip(earlier).map(|(now, then)| now.saturating_sub(*then)).collect();
        Self::of(buckets, (self.sum_seconds - before.sum_seconds).max(0.0))
    }

    fn of(mut buckets: Vec<u64>, sum_seconds: f64) -> Self {
        let used = buckets.iter().rposition(|&n| n != 0).map_or(0, |last| last + 1);
        buckets.truncate(used);
        let count = buckets.iter().sum();
        let some = count > 0;
        Self {
            count,
            sum_seconds,
            mean_seconds: some.then(|| whole_nanoseconds(sum_seconds / count as f64)),
            p50_seconds: quantile(&buckets, count, 0.5),
            p99_seconds: quantile(&buckets, count, 0.99),
            buckets,
        }
    }
}

/// Rounds: more digits than the clock has say nothing, and are lost on the way through JSON.
fn whole_nanoseconds(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e9
}

/// Returns the lower and the upper bound of a bucket, seconds.
fn bounds(bucket: usize) -> (f64, f64) {
    let power = |exponent: usize| (1_u64 << exponent.min(BUCKETS)) as f64 / 1e6;
    if bucket == 0 { (0.0, power(0)) } else { (power(bucket - 1), power(bucket)) }
}

/// Estimates a quantile: the times of a bucket are taken to be spread evenly over it, so that the
/// answer is off by a factor of two at most.
fn quantile(buckets: &[u64], count: u64, q: f64) -> Option<f64> {
    if count == 0 {
        return None;
    }
    let rank = q * count as f64;
    let mut below = 0_u64;
    for (i, &n) in buckets.iter().enumerate() {
        if n > 0 && (below + n) as f64 >= rank {
            let (low, high) = bounds(i);
            return Some(whole_nanoseconds(low + (high - low) * (rank - below as f64) / n as f64));
        }
        below += n;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_micros(times: impl IntoIterator<Item = u64>) -> Timing {
        let mut histogram = Histogram::EMPTY;
        let mut sum = 0;
        for micros in times {
            histogram.buckets[Histogram::bucket(micros * 1_000)] += 1;
            sum += micros * 1_000;
        }
        Timing::new(&histogram, sum)
    }

    #[test]
    fn nothing_measured_has_no_mean_and_no_quantiles() {
        let timing = Timing::new(&Histogram::EMPTY, 0);
        assert_eq!(timing, Timing::default());
        assert_eq!((timing.mean_seconds, timing.p50_seconds, timing.p99_seconds), (None, None, None));
    }

    #[test]
    fn quantiles_are_within_a_factor_of_two_and_the_mean_is_exact() {
        let timing = of_micros(1..=1_000);
        assert_eq!(timing.count, 1_000);
        assert!((timing.mean_seconds.unwrap() - 500.5e-6).abs() < 1e-12);
        let p50 = timing.p50_seconds.unwrap();
        let p99 = timing.p99_seconds.unwrap();
        assert!((250e-6..=1000e-6).contains(&p50), "{p50}");
        assert!((500e-6..=1024e-6).contains(&p99), "{p99}");
        assert!(p50 < p99);
    }

    #[test]
    fn a_time_of_the_last_bucket_has_finite_quantiles() {
        let mut histogram = Histogram::EMPTY;
        histogram.buckets[BUCKETS - 1] = 1;
        assert!(Timing::new(&histogram, u64::MAX).p99_seconds.unwrap().is_finite());
    }

    #[test]
    fn the_difference_of_two_readings_holds_only_what_lies_between() {
        let before = of_micros([10, 10, 10]);
        let now = of_micros([10, 10, 10, 5_000]);
        let between = now.since(&before);
        assert_eq!(between.count, 1);
        assert!((between.mean_seconds.unwrap() - 5e-3).abs() < 1e-12);
        assert!((4.096e-3..=8.192e-3).contains(&between.p50_seconds.unwrap()));
    }
}
