//! Adds up what came of connections.

use crate::connection::{Connection, Failure};
use weir_tests::report::{Report, Times};

/// One worker's sums.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    report: Report,
    connect_ns: Vec<u64>,
    failure_ns: Vec<u64>,
    late_ns: Vec<u64>,
}

impl Tally {
    /// Counts an attempt that began at `start` (CLOCK_MONOTONIC, nanoseconds).
    pub(crate) fn count(&mut self, start: u64, outcome: &Result<Connection, Failure>) {
        self.report.attempts += 1;
        match outcome {
            Ok(connection) => {
                self.connect_ns.push(connection.connect_ns);
                *self.report.answers.entry(connection.server.clone()).or_default() += 1;
                *self.report.peers.entry(connection.peer.clone()).or_default() += 1;
                for (counts, seen) in
                    [(&mut self.report.sources, &connection.source), (&mut self.report.protocols, &connection.protocol)]
                {
                    if let Some(seen) = seen {
                        *counts.entry(seen.clone()).or_default() += 1;
                    }
                }
                self.report.early += u64::from(connection.took_early);
                self.report.first_ns.entry(connection.server.clone()).or_insert(start);
                self.report.sent += connection.sent;
                self.report.received += connection.received;
            }
            Err(failure) => {
                self.failure_ns.extend(failure.connect_ns);
                self.late_ns.extend(failure.late_ns);
                self.error(&failure.error, start);
            }
        }
    }

    /// Counts bytes that went to and fro on a connection that had been counted.
    pub(crate) fn moved(&mut self, bytes: u64) {
        self.report.sent += bytes;
        self.report.received += bytes;
    }

    /// Counts a failure of a connection that had been answered.
    pub(crate) fn error(&mut self, error: &str, at: u64) {
        *self.report.errors.entry(error.to_owned()).or_default() += 1;
        self.report.first_error_ns.entry(error.to_owned()).or_insert(at);
    }

    /// Adds what another worker has counted.
    pub(crate) fn add(&mut self, other: Self) {
        self.report = std::mem::take(&mut self.report).merge(other.report);
        self.connect_ns.extend(other.connect_ns);
        self.failure_ns.extend(other.failure_ns);
        self.late_ns.extend(other.late_ns);
    }

    /// Adds up workers.
    pub(crate) fn sum(workers: impl IntoIterator<Item = Self>) -> Report {
        let mut all = Self::default();
        for worker in workers {
            all.add(worker);
        }
        all.report.connect = Times::of(&mut all.connect_ns);
        all.report.failure = Times::of(&mut all.failure_ns);
        all.report.late_failure = Times::of(&mut all.late_ns);
        all.report
    }
}
