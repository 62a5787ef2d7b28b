//! What a probe saw: the JSON line between `weir-probe` and the harness.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts of one probe run. Errors after connect() succeeded have `after ` before their name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Connections tried.
    pub attempts: u64,
    /// Connections answered, by the name that the server gave.
    pub answers: BTreeMap<String, u64>,
    /// Failures, by the name of the errno, `timeout`, `eof` or `corrupt`.
    pub errors: BTreeMap<String, u64>,
    /// What getpeername() gave, once a connection.
    pub peers: BTreeMap<String, u64>,
    /// Under which address the servers saw the client, where they tell.
    #[serde(default)]
    pub sources: BTreeMap<String, u64>,
    /// Application protocols that were agreed upon.
    #[serde(default)]
    pub protocols: BTreeMap<String, u64>,
    /// Connections whose early data the server took.
    #[serde(default)]
    pub early: u64,
    /// Payload bytes sent and received.
    pub sent: u64,
    /// See `sent`.
    pub received: u64,
    /// When connect() was called for the first connection that each server answered, CLOCK_MONOTONIC
    /// nanoseconds.
    pub first_ns: BTreeMap<String, u64>,
    /// The same for each kind of error.
    pub first_error_ns: BTreeMap<String, u64>,
    /// How long connect() took when it succeeded.
    pub connect: Times,
    /// How long connect() took when it failed.
    pub failure: Times,
    /// From the client's first byte to the error, where connect() succeeded and the rest failed.
    #[serde(default)]
    pub late_failure: Times,
}

/// What a client of the bench measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Connections, round trips or bytes.
    pub count: u64,
    /// Connections that failed.
    pub failures: u64,
    /// How long it took.
    pub elapsed_ns: u64,
    /// connect() alone.
    pub connect: Times,
    /// A whole connection or round trip.
    pub whole: Times,
}

impl Measured {
    /// Returns the count a second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.count as f64 * 1e9 / self.elapsed_ns as f64 }
    }
}

/// Quantiles of durations, nanoseconds; 0 when there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest.
    pub max: u64,
}

impl Times {
    fn larger(self, other: Self) -> Self {
        Self { p50: self.p50.max(other.p50), p99: self.p99.max(other.p99), max: self.max.max(other.max) }
    }

    /// Summarizes durations; sorts them on the way.
    pub fn of(durations: &mut [u64]) -> Self {
        durations.sort_unstable();
        let at = |part: usize| durations.get((durations.len() * part / 1_000).min(durations.len().saturating_sub(1)));
        let value = |part| at(part).copied().unwrap_or_default();
        Self { p50: value(500), p99: value(990), max: value(1_000) }
    }
}

impl Report {
    /// Adds the counts of another report. Of times, the larger ones stay: quantiles cannot be added.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.attempts += other.attempts;
        self.sent += other.sent;
        self.received += other.received;
        self.early += other.early;
        let counts = [
            (&mut self.answers, other.answers),
            (&mut self.errors, other.errors),
            (&mut self.peers, other.peers),
            (&mut self.sources, other.sources),
            (&mut self.protocols, other.protocols),
        ];
        for (to, from) in counts {
            for (key, count) in from {
                *to.entry(key).or_default() += count;
            }
        }
        for (to, from) in [(&mut self.first_ns, other.first_ns), (&mut self.first_error_ns, other.first_error_ns)] {
            for (key, at) in from {
                to.entry(key).and_modify(|known| *known = at.min(*known)).or_insert(at);
            }
        }
        self.connect = self.connect.larger(other.connect);
        self.failure = self.failure.larger(other.failure);
        self.late_failure = self.late_failure.larger(other.late_failure);
        self
    }

    /// Returns how many connections one server answered.
    #[must_use]
    pub fn answered(&self, server: &str) -> u64 {
        self.answers.get(server).copied().unwrap_or_default()
    }

    /// Returns how many connections the servers answered whose name begins so.
    #[must_use]
    pub fn answered_by(&self, prefix: &str) -> u64 {
        self.answers.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, count)| count).sum()
    }

    /// Returns how many connections any server answered.
    #[must_use]
    pub fn answered_in_all(&self) -> u64 {
        self.answers.values().sum()
    }

    /// Returns how many connections were refused by connect().
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.failed("ECONNREFUSED")
    }

    /// Returns how many connections failed in one way.
    #[must_use]
    pub fn failed(&self, error: &str) -> u64 {
        self.errors.get(error).copied().unwrap_or_default()
    }

    /// Returns how many connections failed.
    #[must_use]
    pub fn failed_in_all(&self) -> u64 {
        self.errors.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_few_and_of_no_durations() {
        assert_eq!(Times::of(&mut []), Times::default());
        assert_eq!(Times::of(&mut [5]), Times { p50: 5, p99: 5, max: 5 });
        let mut hundred: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(Times::of(&mut hundred), Times { p50: 51, p99: 100, max: 100 });
    }
}
