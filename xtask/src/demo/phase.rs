//! What a phase wanted and what it got, and whether that is right.

use serde::Serialize;
use std::collections::BTreeMap;
use weir_tests::{
    report::Report,
    share::{self, TOLERANCE},
};

/// Address families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// The legs in the order of the route; the last one leads nowhere.
pub(super) const LEGS: [&str; 3] = ["checkout-v1", "checkout-v2", "rejected"];

/// Figures of a phase, in connections.
#[derive(Debug, Serialize)]
pub(super) struct Phase {
    name: String,
    wanted: BTreeMap<&'static str, u64>,
    got: BTreeMap<&'static str, u64>,
    errors: u64,
    rejected: u64,
}

impl Phase {
    /// Compares a report with the weights.
    pub(super) fn new(name: &str, weights: [u64; 3], report: &Report) -> Self {
        let total = weights.iter().sum();
        let wanted = LEGS.iter().zip(weights).map(|(leg, weight)| (*leg, share::of(weight, total, report.attempts)));
        let got = [report.answered_by(LEGS[0]), report.answered_by(LEGS[1]), report.refused()];
        Self {
            name: name.to_owned(),
            wanted: wanted.collect(),
            got: LEGS.iter().copied().zip(got).collect(),
            errors: report.failed_in_all() - report.refused(),
            rejected: report.refused(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns wanted and got connections of a leg.
    pub(super) fn leg(&self, leg: &str) -> (u64, u64) {
        (self.wanted.get(leg).copied().unwrap_or_default(), self.got.get(leg).copied().unwrap_or_default())
    }

    /// Whether every leg is within a few connections of its share and nothing else failed.
    pub(super) fn is_right(&self) -> bool {
        self.errors == 0 && self.worst() <= TOLERANCE
    }

    /// Returns the largest distance of a leg from its share, connections.
    pub(super) fn worst(&self) -> u64 {
        let distance = |leg: &&str| {
            let (wanted, got) = self.leg(leg);
            wanted.abs_diff(got)
        };
        LEGS.iter().map(distance).max().unwrap_or_default()
    }

    pub(super) fn errors(&self) -> u64 {
        self.errors
    }

    /// Says what is wrong.
    pub(super) fn complaint(&self) -> String {
        format!("wanted {:?}, got {:?}, {} errors", self.wanted, self.got, self.errors)
    }
}

/// Counts connections that failed and should not have: every error but the refusals that are the
/// share of the leg that leads nowhere.
pub(super) fn failed(report: &Report, weights: [u64; 3]) -> u64 {
    let due = share::of(weights[2], weights.iter().sum(), report.attempts);
    let others = report.failed_in_all() - report.refused();
    others + report.refused().saturating_sub(due + TOLERANCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(answers: &[(&str, u64)], errors: &[(&str, u64)]) -> Report {
        let owned = |pairs: &[(&str, u64)]| pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let attempts = answers.iter().chain(errors).map(|(_, count)| count).sum();
        Report { attempts, answers: owned(answers), errors: owned(errors), ..Report::default() }
    }

    #[test]
    fn a_share_may_be_three_connections_off_and_nothing_may_fail() {
        let right =
            report(&[("checkout-v1/a", 700), ("checkout-v1/b", 702), ("checkout-v2/a", 399)], &[("ECONNREFUSED", 199)]);
        assert!(Phase::new("p", [70, 20, 10], &right).is_right());
        assert_eq!(failed(&right, [70, 20, 10]), 0);
        let off = report(&[("checkout-v1/a", 1_404), ("checkout-v2/a", 396)], &[("ECONNREFUSED", 200)]);
        assert!(!Phase::new("p", [70, 20, 10], &off).is_right());
        let failing =
            report(&[("checkout-v1/a", 1_399), ("checkout-v2/a", 400)], &[("ECONNREFUSED", 200), ("ETIMEDOUT", 1)]);
        assert!(!Phase::new("p", [70, 20, 10], &failing).is_right());
        assert_eq!(failed(&failing, [70, 20, 10]), 1);
    }

    #[test]
    fn refusals_beyond_the_rejecting_legs_share_are_failures() {
        let refused = report(&[("checkout-v1/a", 1_300), ("checkout-v2/a", 400)], &[("ECONNREFUSED", 300)]);
        assert_eq!(failed(&refused, [70, 20, 10]), 97);
    }
}
