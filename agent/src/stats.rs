//! What the kernel counted, added up over CPUs: one consistent reading for metrics, status and top.

use std::{collections::BTreeMap, error::Error};
use weir_common::abi::{
    ids::{BackendStateId, EndpointId, StatsId},
    stats::{Counter, Histogram, HistogramKey, LegStats, RejectKey},
    tables::{BackendState, EndpointState},
};

/// One reading of all counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// CLOCK_MONOTONIC of the reading, nanoseconds.
    pub at_ns: u64,
    /// Counters by leg.
    pub legs: BTreeMap<StatsId, LegStats>,
    /// Rejected connections by leg or route and reason.
    pub rejects: BTreeMap<RejectKey, u64>,
    /// Histograms.
    pub histograms: BTreeMap<HistogramKey, Histogram>,
    /// Counters that belong to no route.
    pub counters: BTreeMap<Counter, u64>,
    /// Endpoints: open connections, failures, ejection.
    pub endpoints: BTreeMap<EndpointId, EndpointState>,
    /// Backends: how many of their endpoints are ejected.
    pub backends: BTreeMap<BackendStateId, BackendState>,
}

/// Reads the counters. The agent reads kernel maps; tests make readings up.
pub trait ReadStats: Send + Sync {
    /// Takes a reading.
    ///
    /// # Errors
    ///
    /// If the counters cannot be read.
    fn snapshot(&self) -> Result<Snapshot, Box<dyn Error + Send + Sync>>;
}
