//! One scrape: values of the families, out of what was published and one reading of the counters.

use super::*;
use crate::{
    compile::{path::Path, tables::StatsName},
    ir::{BackendKey, Leg, RouteKey},
    stats::Snapshot,
    view::{Published, Severity},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use weir_common::{
    abi::{
        ids::StatsId,
        maps::MAPS,
        stats::{BUCKETS, ConnectFailure, Counter, Histogram, HistogramKey, LegStats, Measure},
    },
    endpoint::eject::is_ejected,
    reason::Reason,
};

/// The family that shows a counter of the node.
const fn family_of(counter: Counter) -> Family {
    match counter {
        Counter::UnknownClient => UNKNOWN_CLIENTS,
        Counter::TableMiss => TABLE_MISSES,
        Counter::Bypassed => BYPASSED,
        Counter::NoSocketRecord => UNTRACKED,
        Counter::EventLost => EVENTS_LOST,
        Counter::Ejected => EJECTIONS,
        Counter::VerifyBegan => VERIFY_BEGAN,
        Counter::VerifyEnded => VERIFY_ENDED,
        Counter::RequestLost => REQUESTS_LOST,
        Counter::NoRoom => NO_ROOM,
    }
}

/// One scrape.
#[derive(Debug)]
pub(super) struct Scrape {
    pub(super) published: Arc<Published>,
    pub(super) snapshot: Snapshot,
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Writer { encoder };
        self.legs(&mut out)?;
        self.backends(&mut out)?;
        self.counters(&mut out)?;
        self.acceptor(&mut out)?;
        self.node(&mut out)
    }
}

/// One backendRef with its labels.
struct LegRow<'a> {
    id: StatsId,
    labels: Labels<'a, 4>,
    leg: &'a Leg,
    share: f64,
    /// `None` until the first connection: then only the families that say so begin at 0.
    stats: Option<&'a LegStats>,
}

impl Scrape {
    fn legs(&self, out: &mut Writer<'_>) -> fmt::Result {
        let rows = self.leg_rows();
        let seen: Vec<_> = rows.iter().filter_map(|row| Some((row, row.stats?))).collect();
        let counts = |get: fn(&LegStats) -> u64| {
            seen.iter().map(move |(row, stats)| (row.labels, Value::Count(get(stats)))).collect::<Vec<_>>()
        };
        let forwarded = |row: &LegRow<'_>| row.stats.map_or(0, |stats| stats.forwarded);
        out.family(FORWARDED, rows.iter().map(|row| (row.labels, Value::Count(forwarded(row)))))?;
        out.family(ATTEMPTED, counts(|stats| stats.attempted))?;
        out.family(OPENED, counts(|stats| stats.opened))?;
        out.family(CLOSED, counts(|stats| stats.closed))?;
        let failed = seen.iter().flat_map(|(row, stats)| {
            let kinds = ConnectFailure::ALL.into_iter().zip(stats.failed);
            kinds.map(|(kind, count)| ((row.labels, [("reason", kind.label())]), Value::Count(count)))
        });
        out.family(FAILED, failed)?;
        let rejected = self.rejected(&rows);
        let series = rejected
            .iter()
            .map(|((labels, reason), count)| ((*labels, [("reason", reason.label())]), Value::Count(*count)));
        out.family(REJECTED, series)?;
        let active = |stats: &LegStats| Value::Level(stats.opened.saturating_sub(stats.closed) as f64);
        out.family(ACTIVE, seen.iter().map(|(row, stats)| (row.labels, active(stats))))?;
        out.family(WANTED, rows.iter().map(|row| (row.labels, Value::Level(row.share))))?;
        out.family(SENT, counts(|stats| stats.transferred.sent))?;
        out.family(RECEIVED, counts(|stats| stats.transferred.received))?;
        out.family(RETRANSMISSIONS, counts(|stats| stats.transferred.retransmissions))?;
        self.times(out, CONNECT, &seen, Measure::ConnectLatency, |stats| stats.connect_ns)?;
        self.times(out, ROUND_TRIP, &seen, Measure::RoundTrip, |stats| stats.rtt_ns)?;
        self.times(out, LIFETIME, &seen, Measure::Lifetime, |stats| stats.lifetime_ns)
    }

    fn times(
        &self,
        out: &mut Writer<'_>,
        family: Family,
        seen: &[(&LegRow<'_>, &LegStats)],
        measure: Measure,
        sum_ns: fn(&LegStats) -> u64,
    ) -> fmt::Result {
        let series = seen.iter().filter_map(|(row, stats)| {
            let histogram = self.snapshot.histograms.get(&HistogramKey::new(row.id, measure))?;
            Some((row.labels, Value::Times(measure, histogram, sum_ns(stats))))
        });
        out.family(family, series)
    }

    fn leg_rows(&self) -> Vec<LegRow<'_>> {
        let mut rows = Vec::new();
        for (&id, StatsName { route, leg }) in &self.published.names.stats {
            let Some((label, found)) = leg.as_deref().zip(self.published.desired.routes.get(route)) else { continue };
            let Some(leg) = found.legs.iter().find(|leg| leg.label == label) else { continue };
            let total: u64 = found.legs.iter().map(|leg| u64::from(leg.weight)).sum();
            let share = if total == 0 { 0.0 } else { f64::from(leg.weight) / total as f64 };
            let labels = route_labels(route, label);
            rows.push(LegRow { id, labels, leg, share, stats: self.snapshot.legs.get(&id) });
        }
        rows.sort_by_key(|row| row.labels);
        rows
    }

    /// Rejections by labels and reason; those that a backendRef must come to begin at 0.
    fn rejected<'a>(&'a self, rows: &[LegRow<'a>]) -> BTreeMap<(Labels<'a, 4>, Reason), u64> {
        let mut labels: BTreeMap<StatsId, Labels<'a, 4>> = rows.iter().map(|row| (row.id, row.labels)).collect();
        for (&id, StatsName { route, leg }) in &self.published.names.stats {
            if leg.is_none() && self.published.desired.routes.contains_key(route) {
                labels.insert(id, route_labels(route, ""));
            }
        }
        let mut rejected = BTreeMap::new();
        for row in rows {
            if let Err(reason) = row.leg.target {
                rejected.insert((row.labels, reason), 0);
            }
        }
        for (key, count) in &self.snapshot.rejects {
            if let Some(labels) = labels.get(&key.stats) {
                *rejected.entry((*labels, key.reason())).or_default() += count;
            }
        }
        rejected
    }

    fn backends(&self, out: &mut Writer<'_>) -> fmt::Result {
        #[derive(Default)]
        struct Sum {
            endpoints: u64,
            ejected: u64,
            open: u64,
        }
        let desired = &self.published.desired.backends;
        let mut sums: BTreeMap<&BackendKey, Sum> = BTreeMap::new();
        for (key, backend) in desired {
            sums.insert(key, Sum { endpoints: backend.endpoints.len() as u64, ..Sum::default() });
        }
        for (endpoint, backend) in self.published.tables.endpoints_of_backends() {
            let key = self.published.names.backends.get(&backend);
            let Some(sum) = key.and_then(|key| sums.get_mut(key)) else { continue };
            let Some(state) = self.snapshot.endpoints.get(&endpoint.id) else { continue };
            sum.ejected += u64::from(is_ejected(state, self.snapshot.at_ns));
            sum.open += state.open;
        }
        let ports: Vec<String> = sums.keys().map(|key| key.port.to_string()).collect();
        let rows: Vec<(Labels<'_, 4>, Sum)> =
            sums.into_iter().zip(&ports).map(|((key, sum), port)| (backend_labels(key, port), sum)).collect();
        let levels = |get: fn(&Sum) -> u64| {
            rows.iter().map(move |(labels, sum)| (*labels, Value::Level(get(sum) as f64))).collect::<Vec<_>>()
        };
        out.family(ENDPOINTS, levels(|sum| sum.endpoints))?;
        out.family(EJECTED, levels(|sum| sum.ejected))?;
        out.family(BACKEND_OPEN, levels(|sum| sum.open))
    }

    fn counters(&self, out: &mut Writer<'_>) -> fmt::Result {
        for counter in Counter::ALL {
            let count = self.snapshot.counters.get(&counter).copied().unwrap_or(0);
            out.single(family_of(counter), Value::Count(count))?;
        }
        Ok(())
    }

    fn acceptor(&self, out: &mut Writer<'_>) -> fmt::Result {
        let mut verified = BTreeSet::new();
        let mut accepted = BTreeSet::new();
        // One with routes of several namespaces may have both.
        for ((frontend, _), path) in &self.published.names.paths {
            match path {
                Path::Verify => verified.insert(frontend),
                Path::Accept(_) => accepted.insert(frontend),
            };
        }
        let level = |n: usize| Value::Level(n as f64);
        let paths = [("verify", verified.len()), ("accept", accepted.len())];
        out.family(TLS_PATHS, paths.map(|(path, n)| ([("path", path)], level(n))))?;
        let acceptor = &self.published.acceptor;
        let listening = acceptor.namespaces.iter().filter(|namespace| namespace.listening).count();
        let states = [("listening", listening), ("failed", acceptor.namespaces.len() - listening)];
        out.family(ACCEPTOR_NAMESPACES, states.map(|(state, n)| ([("state", state)], level(n))))?;
        out.single(ACCEPTOR_OPEN, Value::Level(acceptor.open_connections as f64))?;
        out.single(UNFINISHED_HELLOS, Value::Level(acceptor.unfinished_hellos as f64))?;
        out.single(HELLO_BYTES, Value::Level(acceptor.hello_bytes as f64))?;
        out.single(ACCEPTED, Value::Count(acceptor.accepted))?;
        out.single(RETRIED, Value::Count(acceptor.retried))?;
        out.single(STRANGERS, Value::Count(acceptor.refused_strangers))?;
        out.single(ABORTED, Value::Count(acceptor.aborted))?;
        out.single(NOT_ABORTED, Value::Count(acceptor.not_aborted))?;
        out.single(PIECES, Value::Count(acceptor.hello_pieces))
    }

    fn node(&self, out: &mut Writer<'_>) -> fmt::Result {
        let published = &self.published;
        out.family(BUILD, [([("version", published.version)], Value::Level(1.0))])?;
        out.single(READY, Value::Level(f64::from(u8::from(published.missing().is_empty()))))?;
        out.single(STARTED, Value::Level(seconds(published.started_at)))?;
        out.single(GENERATION, Value::Level(published.generation as f64))?;
        // Before the first apply there is no time to tell: 0 would read as 1970.
        let applied = published.applied_at.map(|at| ([("", ""); 0], Value::Level(seconds(at))));
        out.family(APPLIED, applied)?;
        let took = published.applied_at.map(|_| ([("", ""); 0], Value::Level(published.applied_in.as_secs_f64())));
        out.family(APPLY_TIME, took)?;
        out.single(READINGS, Value::Count(published.readings))?;
        let problems = Severity::ALL.map(|severity| {
            let n = published.problems.iter().filter(|problem| problem.severity == severity).count();
            ([("severity", severity.label())], Value::Level(n as f64))
        });
        out.family(PROBLEMS, problems)?;
        let tables = &published.tables;
        let entries = [
            ("FRONTENDS", tables.frontends.len()),
            ("SCOPED", tables.scoped.len()),
            ("SPLITS", tables.splits.len()),
            ("NAMES", tables.names.len()),
            ("BACKENDS", tables.backends.len()),
            ("ENDPOINTS", tables.endpoints.len()),
            ("RINGS", tables.rings.len()),
            ("CLIENTS", tables.clients.len()),
        ];
        out.family(TABLE_ENTRIES, entries.map(|(table, n)| ([("table", table)], Value::Level(n as f64))))?;
        let held = MAPS.iter().filter(|map| entries.iter().any(|(table, _)| *table == map.name));
        out.family(TABLE_CAPACITY, held.map(|map| ([("table", map.name)], Value::Level(f64::from(map.capacity)))))
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

fn route_labels<'a>(route: &'a RouteKey, leg: &'a str) -> Labels<'a, 4> {
    let object = &route.object;
    [(ROUTE[0], route.kind.name()), (ROUTE[1], &object.namespace), (ROUTE[2], &object.name), (ROUTE[3], leg)]
}

fn backend_labels<'a>(key: &'a BackendKey, port: &'a str) -> Labels<'a, 4> {
    let object = &key.object;
    [(BACKEND[0], key.kind.name()), (BACKEND[1], &object.namespace), (BACKEND[2], &object.name), (BACKEND[3], port)]
}

enum Value<'a> {
    Count(u64),
    Level(f64),
    /// A histogram and its exact sum in nanoseconds.
    Times(Measure, &'a Histogram, u64),
}

struct Writer<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Writer<'_> {
    fn single(&mut self, family: Family, value: Value<'_>) -> fmt::Result {
        self.family(family, [([("", ""); 0], value)])
    }

    fn family<'v, S: EncodeLabelSet>(
        &mut self,
        family: Family,
        series: impl IntoIterator<Item = (S, Value<'v>)>,
    ) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(family.name, family.help.trim(), None, family.kind)?;
        for (labels, value) in series {
            value.encode(&mut metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Value<'_> {
    fn encode(&self, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => metric.encode_counter::<NoLabelSet, _, f64>(count, None),
            Self::Level(level) => metric.encode_gauge(level),
            Self::Times(measure, histogram, sum_ns) => {
                let count = histogram.buckets.iter().sum();
                metric.encode_histogram::<NoLabelSet>(*sum_ns as f64 / 1e9, count, &buckets(*measure, histogram), None)
            }
        }
    }
}

/// Adds the kernel's forty buckets up to the dozen that are shown, each with its upper bound in
/// seconds: all of them, for three measures of every backendRef, would be most of a scrape.
fn buckets(measure: Measure, histogram: &Histogram) -> Vec<(f64, u64)> {
    // The n-th kernel bucket ends at 2^n microseconds.
    let ends: &[usize] = match measure {
        Measure::ConnectLatency | Measure::RoundTrip => &[5, 7, 9, 11, 13, 15, 17, 19, 21, 23],
        Measure::Lifetime => &[10, 13, 16, 19, 22, 25, 28, 31, 34],
    };
    let mut from = 0;
    let mut shown = Vec::with_capacity(ends.len() + 1);
    for &end in ends {
        shown.push(((1_u64 << end) as f64 / 1e6, histogram.buckets[from..=end].iter().sum()));
        from = end + 1;
    }
    shown.push((f64::INFINITY, histogram.buckets[from..BUCKETS].iter().sum()));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_buckets_hold_every_measured_time_once() {
        let mut histogram = Histogram::EMPTY;
        for (i, bucket) in histogram.buckets.iter_mut().enumerate() {
            *bucket = 1 << i;
        }
        for measure in Measure::ALL {
            let shown = buckets(measure, &histogram);
            assert_eq!(shown.iter().map(|(_, n)| n).sum::<u64>(), (1 << BUCKETS) - 1);
            for (end, _) in &shown[..shown.len() - 1] {
                let below: u64 = shown.iter().filter(|(other, _)| other <= end).map(|(_, n)| n).sum();
                let exact: u64 = (0..BUCKETS).filter(|&i| (1_u64 << i) as f64 / 1e6 <= *end).map(|i| 1_u64 << i).sum();
                assert_eq!(below, exact, "{measure:?} up to {end} s");
            }
        }
    }
}
