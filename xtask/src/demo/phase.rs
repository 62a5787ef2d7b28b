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

/// One way that connections of a phase may go, and its weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    /// Name of the backend, or [`REJECTED`].
    pub(super) name: &'static str,
    weight: u64,
    /// Errors that a rejecting leg's clients get; a backend's have none.
    errors: &'static [&'static str],
}

/// Name of a leg whose connections are rejected.
pub(super) const REJECTED: &str = "rejected";

impl Leg {
    /// Leads to the servers whose names begin with this one and a slash.
    pub(super) const fn backend(name: &'static str, weight: u64) -> Self {
        Self { name, weight, errors: &[] }
    }

    /// Leads nowhere: connect() fails.
    pub(super) const fn refused(weight: u64) -> Self {
        Self { name: REJECTED, weight, errors: &["ECONNREFUSED"] }
    }

    /// Is ended after the ClientHello.
    pub(super) const fn ended(weight: u64) -> Self {
        Self { name: REJECTED, weight, errors: &["after ECONNABORTED", "after ECONNRESET", "after EPIPE"] }
    }

    /// Whether its connections are rejected.
    pub(super) const fn rejects(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Whether they are rejected after connect() has succeeded.
    pub(super) fn is_late(&self) -> bool {
        self.errors.iter().any(|error| error.starts_with("after "))
    }

    fn got(&self, report: &Report) -> u64 {
        if self.rejects() {
            self.errors.iter().map(|error| report.failed(error)).sum()
        } else {
            report.answered_by(&format!("{}/", self.name))
        }
    }
}

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
    /// Compares a report with the weights of the legs.
    pub(super) fn new(name: &str, legs: &[Leg], report: &Report) -> Self {
        let total = legs.iter().map(|leg| leg.weight).sum();
        let wanted = legs.iter().map(|leg| (leg.name, share::of(leg.weight, total, report.attempts)));
        let got: BTreeMap<_, _> = legs.iter().map(|leg| (leg.name, leg.got(report))).collect();
        Self {
            name: name.to_owned(),
            wanted: wanted.collect(),
            errors: report.attempts.saturating_sub(got.values().sum()),
            rejected: got.get(REJECTED).copied().unwrap_or_default(),
            got,
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
        let distance = |leg: &&'static str| {
            let (wanted, got) = self.leg(leg);
            wanted.abs_diff(got)
        };
        self.wanted.keys().map(distance).max().unwrap_or_default()
    }

    /// Returns how many connections went none of the legs' ways.
    pub(super) fn errors(&self) -> u64 {
        self.errors
    }

    /// Says what is wrong.
    pub(super) fn complaint(&self) -> String {
        format!("wanted {:?}, got {:?}, {} errors", self.wanted, self.got, self.errors)
    }
}

/// Counts connections that failed and should not have: every error but the rejections that are the
/// share of the leg that leads nowhere.
pub(super) fn failed(report: &Report, legs: &[Leg]) -> u64 {
    let total = legs.iter().map(|leg| leg.weight).sum();
    let rejecting = legs.iter().filter(|leg| leg.rejects());
    let (rejected, due) = rejecting.fold((0, 0), |(rejected, due), leg| {
        (rejected + leg.got(report), due + share::of(leg.weight, total, report.attempts) + TOLERANCE)
    });
    report.failed_in_all() - rejected + rejected.saturating_sub(due)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANARY: [Leg; 3] = [Leg::backend("checkout-v1", 70), Leg::backend("checkout-v2", 20), Leg::refused(10)];

    fn report(answers: &[(&str, u64)], errors: &[(&str, u64)]) -> Report {
        let owned = |pairs: &[(&str, u64)]| pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let attempts = answers.iter().chain(errors).map(|(_, count)| count).sum();
        Report { attempts, answers: owned(answers), errors: owned(errors), ..Report::default() }
    }

    #[test]
    fn a_share_may_be_three_connections_off_and_nothing_may_fail() {
        let right =
            report(&[("checkout-v1/a", 700), ("checkout-v1/b", 702), ("checkout-v2/a", 399)], &[("ECONNREFUSED", 199)]);
        assert!(Phase::new("p", &CANARY, &right).is_right());
        assert_eq!(failed(&right, &CANARY), 0);
        let off = report(&[("checkout-v1/a", 1_404), ("checkout-v2/a", 396)], &[("ECONNREFUSED", 200)]);
        assert!(!Phase::new("p", &CANARY, &off).is_right());
        let failing =
            report(&[("checkout-v1/a", 1_399), ("checkout-v2/a", 400)], &[("ECONNREFUSED", 200), ("ETIMEDOUT", 1)]);
        assert!(!Phase::new("p", &CANARY, &failing).is_right());
        assert_eq!(failed(&failing, &CANARY), 1);
    }

    #[test]
    fn refusals_beyond_the_rejecting_legs_share_are_failures() {
        let refused = report(&[("checkout-v1/a", 1_300), ("checkout-v2/a", 400)], &[("ECONNREFUSED", 300)]);
        assert_eq!(failed(&refused, &CANARY), 97);
    }

    #[test]
    fn what_goes_no_legs_way_is_an_error() {
        let wrong_name = [Leg::ended(1)];
        let right = report(&[], &[("after ECONNABORTED", 50), ("after ECONNRESET", 50)]);
        assert!(Phase::new("p", &wrong_name, &right).is_right());
        let served = report(&[("api/a", 1)], &[("after ECONNABORTED", 99)]);
        assert_eq!(Phase::new("p", &wrong_name, &served).errors(), 1);
        let ended = report(&[("api/a", 99)], &[("after ECONNRESET", 1)]);
        assert_eq!(Phase::new("p", &[Leg::backend("api", 1)], &ended).errors(), 1);
        assert_eq!(failed(&ended, &[Leg::backend("api", 1)]), 1);
    }
}
