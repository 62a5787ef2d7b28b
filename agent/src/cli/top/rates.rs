//! What happened between two views: shares, rates and latencies of each leg.

use crate::view::{LegView, Timing, View};
use std::collections::BTreeMap;

/// Between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rates<'a> {
    legs: BTreeMap<(&'a str, &'a str), LegRates>,
}

/// One leg between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LegRates {
    /// Decisions for this leg by those of the whole route; none if there were none.
    pub share: Option<f64>,
    /// Decisions a second; none without an earlier reading.
    pub per_second: Option<f64>,
    /// Connects that failed a second, by kind, without the zeros.
    pub failed: BTreeMap<String, f64>,
    /// Rejected connections a second.
    pub rejected: f64,
    /// Connect latency of what was opened meanwhile.
    pub connect: Timing,
}

impl<'a> Rates<'a> {
    /// Compares two views; without an earlier one everything since counting began is compared.
    pub(super) fn between(before: Option<&View>, now: &'a View) -> Self {
        let mut earlier: BTreeMap<(&str, &str), &LegView> = BTreeMap::new();
        for route in before.into_iter().flat_map(|view| &view.routes) {
            earlier.extend(route.legs.iter().map(|leg| ((route.name.as_str(), leg.label.as_str()), leg)));
        }
        let seconds = before.map(|view| now.read_at_ns.saturating_sub(view.read_at_ns) as f64 / 1e9);
        let seconds = seconds.filter(|&seconds| seconds > 0.0);
        let mut legs = BTreeMap::new();
        for route in &now.routes {
            let deltas: Vec<Delta> = route
                .legs
                .iter()
                .map(|leg| Delta::new(leg, earlier.get(&(route.name.as_str(), leg.label.as_str())).copied()))
                .collect();
            let total: u64 = deltas.iter().map(|delta| delta.decided).sum();
            for (leg, delta) in route.legs.iter().zip(deltas) {
                legs.insert((route.name.as_str(), leg.label.as_str()), delta.rates(total, seconds));
            }
        }
        Self { legs }
    }

    /// Returns the rates of a leg.
    pub(super) fn leg(&self, route: &str, leg: &str) -> LegRates {
        self.legs.get(&(route, leg)).cloned().unwrap_or_default()
    }

    /// Returns the decisions a second of a route, or of all of them.
    pub(super) fn per_second(&self, route: Option<&str>) -> Option<f64> {
        let wanted = self.legs.iter().filter(|((name, _), _)| route.is_none_or(|route| route == *name));
        wanted.map(|(_, leg)| leg.per_second).sum()
    }
}

/// What was counted for a leg between two readings.
struct Delta {
    decided: u64,
    rejected: u64,
    failed: BTreeMap<String, u64>,
    connect: Timing,
}

impl Delta {
    /// Counters that went back are of tables made anew: then nothing is known of the time between.
    fn new(now: &LegView, before: Option<&LegView>) -> Self {
        let rejected = |leg: &LegView| leg.decided() - leg.forwarded;
        let earlier = |get: &dyn Fn(&LegView) -> u64| before.map_or(0, get);
        let failed = now.failed.iter().map(|(kind, &n)| {
            (kind.clone(), n.saturating_sub(earlier(&|leg| leg.failed.get(kind).copied().unwrap_or(0))))
        });
        Self {
            decided: now.decided().saturating_sub(earlier(&LegView::decided)),
            rejected: rejected(now).saturating_sub(earlier(&rejected)),
            failed: failed.filter(|(_, n)| *n > 0).collect(),
            connect: before.map_or_else(|| now.connect.clone(), |leg| now.connect.since(&leg.connect)),
        }
    }

    fn rates(self, total: u64, seconds: Option<f64>) -> LegRates {
        let per_second = |n: u64| seconds.map(|seconds| n as f64 / seconds);
        LegRates {
            share: (total > 0).then(|| self.decided as f64 / total as f64),
            per_second: per_second(self.decided),
            failed: self.failed.into_iter().filter_map(|(kind, n)| Some((kind, per_second(n)?))).collect(),
            rejected: per_second(self.rejected).unwrap_or(0.0),
            connect: self.connect,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::sample;

    const WEB: &str = "TCPRoute shop/web";

    fn before_and_now() -> (View, View) {
        let published = sample::published();
        let before = View::new(&published, &sample::snapshot());
        let mut later = sample::snapshot();
        later.at_ns += 2_000_000_000;
        for stats in later.legs.values_mut() {
            stats.forwarded += 100;
            stats.failed[0] += 4;
        }
        (before, View::new(&published, &later))
    }

    #[test]
    fn rates_are_of_the_time_between_the_readings() {
        let (before, now) = before_and_now();
        let rates = Rates::between(Some(&before), &now);
        let canary = rates.leg(WEB, "shop/web-v2:80");
        assert_eq!((canary.share, canary.per_second), (Some(0.5), Some(50.0)));
        assert_eq!(canary.failed, BTreeMap::from([("refused".to_owned(), 2.0)]));
        assert_eq!(canary.connect.count, 0);
        assert_eq!(rates.per_second(Some(WEB)), Some(100.0));
        assert_eq!(rates.leg(WEB, "shop/web-v3:80").share, Some(0.0));
    }

    #[test]
    fn the_first_reading_has_shares_but_no_rates() {
        let (now, _) = before_and_now();
        let rates = Rates::between(None, &now);
        let canary = rates.leg(WEB, "shop/web-v2:80");
        assert_eq!((canary.share, canary.per_second), (Some(0.08), None));
        assert_eq!(rates.per_second(None), None);
    }

    #[test]
    fn counters_that_went_back_are_no_negative_rates() {
        let (now, before) = before_and_now();
        let mut now = now;
        now.read_at_ns = before.read_at_ns + 1_000_000_000;
        let canary = Rates::between(Some(&before), &now).leg(WEB, "shop/web-v2:80");
        assert_eq!((canary.per_second, canary.failed.len()), (Some(0.0), 0));
    }
}
