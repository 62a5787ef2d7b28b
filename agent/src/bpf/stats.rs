//! Reads the counters and adds the CPUs up.

use super::{
    Error, Pins,
    found::entries,
    maps::{Counts, Table, failed, now_ns, open_counters, pinned},
};
use crate::stats::{ReadStats, Snapshot};
use aya::maps::{Map, MapData, PerCpuArray, PerCpuValues};
use std::collections::BTreeMap;
use weir_common::abi::{
    ids::{BackendStateId, EndpointId, StatsId},
    stats::{Counter, Histogram, HistogramKey, LegRecord, LegStats, Measure, RejectKey},
    tables::{BackendState, EndpointState},
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A second set of handles on the counters, for readers beside the one who applies.
pub struct StatsReader {
    stats: Counts<StatsId, LegRecord>,
    rejects: Counts<RejectKey, u64>,
    counters: PerCpuArray<MapData, u64>,
    endpoint_states: Table<EndpointId, EndpointState>,
    backend_states: Table<BackendStateId, BackendState>,
}

impl StatsReader {
    /// Opens the counters by their pins.
    pub(super) fn open(pins: &Pins) -> Result<Self, Error> {
        Ok(Self {
            stats: pinned(pins, "STATS", Map::PerCpuHashMap)?,
            rejects: pinned(pins, "REJECTS", Map::PerCpuHashMap)?,
            counters: open_counters(pins)?,
            endpoint_states: pinned(pins, "ENDPOINT_STATES", Map::HashMap)?,
            backend_states: pinned(pins, "BACKEND_STATES", Map::HashMap)?,
        })
    }

    /// Reads everything once.
    ///
    /// # Errors
    ///
    /// If a map cannot be read.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        let mut counters = BTreeMap::new();
        for counter in Counter::ALL {
            let values = self.counters.get(&(counter as u32), 0).map_err(|error| failed("COUNTERS", error))?;
            counters.insert(counter, values.iter().sum());
        }
        let records = summed(&self.stats, "STATS", add_records)?;
        let histograms = records.iter().flat_map(|(id, record)| {
            let times = Measure::ALL.into_iter().zip(record.times);
            times.map(|(measure, times)| (HistogramKey::new(*id, measure), times))
        });
        Ok(Snapshot {
            at_ns: now_ns(),
            legs: records.iter().map(|(id, record)| (*id, record.stats)).collect(),
            rejects: summed(&self.rejects, "REJECTS", |sum: &mut u64, one| *sum += one)?,
            histograms: histograms.collect(),
            counters,
            endpoints: entries(&self.endpoint_states, "ENDPOINT_STATES")?,
            backends: entries(&self.backend_states, "BACKEND_STATES")?,
        })
    }
}

impl ReadStats for StatsReader {
    fn snapshot(&self) -> Result<Snapshot, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self::snapshot(self)?)
    }
}

fn summed<K, V>(map: &Counts<K, V>, name: &'static str, add: fn(&mut V, &V)) -> Result<BTreeMap<K, V>, Error>
where
    K: FromBytes + IntoBytes + Immutable + Copy + Ord + 'static,
    V: FromBytes + IntoBytes + Immutable + Copy + 'static,
{
    let mut sums = BTreeMap::new();
    for entry in map.iter() {
        let (key, values): (_, PerCpuValues<_>) = entry.map_err(|error| failed(name, error))?;
        let mut cpus = values.iter().map(|value| value.0);
        let Some(mut sum) = cpus.next() else { continue };
        for value in cpus {
            add(&mut sum, &value);
        }
        sums.insert(key.0, sum);
    }
    Ok(sums)
}

fn add_records(sum: &mut LegRecord, one: &LegRecord) {
    add_legs(&mut sum.stats, &one.stats);
    for (sum, one) in sum.times.iter_mut().zip(&one.times) {
        add_histograms(sum, one);
    }
}

fn add_legs(sum: &mut LegStats, one: &LegStats) {
    sum.forwarded += one.forwarded;
    sum.attempted += one.attempted;
    sum.opened += one.opened;
    sum.closed += one.closed;
    for (sum, one) in sum.failed.iter_mut().zip(one.failed) {
        *sum += one;
    }
    sum.transferred.sent += one.transferred.sent;
    sum.transferred.received += one.transferred.received;
    sum.transferred.retransmissions += one.transferred.retransmissions;
    sum.connect_ns += one.connect_ns;
    sum.lifetime_ns += one.lifetime_ns;
    sum.rtt_ns += one.rtt_ns;
}

fn add_histograms(sum: &mut Histogram, one: &Histogram) {
    for (sum, one) in sum.buckets.iter_mut().zip(one.buckets) {
        *sum += one;
    }
}
