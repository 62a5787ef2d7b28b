//! What the acceptor counts. Rejections are counted by the kernel, too; here they are for the
//! acceptor's own part of the picture.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use weir_common::{
    abi::{
        ids::StatsId,
        stats::{BUCKETS, Histogram},
    },
    reason::Reason,
};

/// The counters.
#[derive(Debug, Default)]
pub struct Metrics {
    open: AtomicUsize,
    accepted: AtomicU64,
    strangers: AtomicU64,
    abandoned: AtomicU64,
    retried: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    to_backend: AtomicU64,
    to_client: AtomicU64,
    rejected: [AtomicU64; Reason::ALL.len()],
    first_bytes: RwLock<BTreeMap<StatsId, Arc<Latency>>>,
}

/// A reading of [`Metrics`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Connections from clients that are open now, unfinished hellos among them.
    pub open: usize,
    /// Connections that clients were sent here with.
    pub accepted: u64,
    /// Connections that reached a listener without having been sent there.
    pub strangers: u64,
    /// Connections that the client ended before its ClientHello was whole.
    pub abandoned: u64,
    /// Connections for which a second endpoint was tried.
    pub retried: u64,
    /// Connections that were closed for want of file descriptors or memory.
    pub refused: u64,
    /// Connections that ended with an error of one side.
    pub failed: u64,
    /// Bytes moved to backends.
    pub to_backend: u64,
    /// Bytes moved to clients.
    pub to_client: u64,
    /// Rejections by reason, those at 0 left out.
    pub rejected: BTreeMap<Reason, u64>,
    /// Times from the whole ClientHello to the backend's first byte, by route.
    pub first_bytes: BTreeMap<StatsId, [u64; BUCKETS]>,
}

impl Metrics {
    /// Reads all counters.
    #[must_use]
    pub fn read(&self) -> Reading {
        let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let rejected = Reason::ALL.into_iter().zip(&self.rejected).map(|(reason, count)| (reason, get(count)));
        let first_bytes = self.first_bytes.read().unwrap_or_else(PoisonError::into_inner);
        Reading {
            open: self.open(),
            accepted: get(&self.accepted),
            strangers: get(&self.strangers),
            abandoned: get(&self.abandoned),
            retried: get(&self.retried),
            refused: get(&self.refused),
            failed: get(&self.failed),
            to_backend: get(&self.to_backend),
            to_client: get(&self.to_client),
            rejected: rejected.filter(|(_, count)| *count > 0).collect(),
            first_bytes: first_bytes.iter().map(|(stats, latency)| (*stats, latency.read())).collect(),
        }
    }

    /// Forgets the histograms of routes that are gone.
    pub fn keep_routes(&self, keep: impl Fn(StatsId) -> bool) {
        self.first_bytes.write().unwrap_or_else(PoisonError::into_inner).retain(|stats, _| keep(*stats));
    }

    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Counts a connection as open until the guard is dropped.
    pub(super) fn opened(self: &Arc<Self>) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(self))
    }

    pub(super) fn accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stranger(&self) {
        self.strangers.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn abandoned(&self) {
        self.abandoned.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn retried(&self) {
        self.retried.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn rejected(&self, reason: Reason) {
        if let Some(count) = self.rejected.get(usize::from(reason as u8)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn moved_to_backend(&self, bytes: u64) {
        self.to_backend.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn moved_to_client(&self, bytes: u64) {
        self.to_client.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the histogram of a route.
    pub(super) fn first_bytes(&self, stats: StatsId) -> Arc<Latency> {
        if let Some(latency) = self.first_bytes.read().unwrap_or_else(PoisonError::into_inner).get(&stats) {
            return Arc::clone(latency);
        }
        Arc::clone(self.first_bytes.write().unwrap_or_else(PoisonError::into_inner).entry(stats).or_default())
    }
}

/// Counts a connection as open.
#[derive(Debug)]
pub(super) struct Open(Arc<Metrics>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A histogram of times, with the buckets of [`Histogram`].
#[derive(Debug)]
pub(super) struct Latency([AtomicU64; BUCKETS]);

impl Default for Latency {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }
}

impl Latency {
    pub(super) fn count(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.0.get(Histogram::bucket(ns)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read(&self) -> [u64; BUCKETS] {
        std::array::from_fn(|bucket| self.0.get(bucket).map_or(0, |count| count.load(Ordering::Relaxed)))
    }
}
