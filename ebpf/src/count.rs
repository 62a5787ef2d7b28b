//! Counters, histograms and events: what people see. Nothing here changes a decision.

#![expect(clippy::needless_borrows_for_generic_args, reason = "by value, an empty row would be copied to the stack")]

use crate::maps::{COUNTERS, EVENTS, HISTOGRAMS, REJECTS, STATS};
use aya_ebpf::{
    bindings::{BPF_ANY, BPF_NOEXIST},
    helpers::bpf_ktime_get_ns,
};
use weir_common::abi::{
    ids::StatsId,
    socket::Transferred,
    stats::{Counter, Event, EventKind, Histogram, HistogramKey, LegStats, Measure, RejectKey},
};

static NO_STATS: LegStats = LegStats {
    forwarded: 0,
    attempted: 0,
    opened: 0,
    closed: 0,
    failed: [0; 4],
    transferred: Transferred { sent: 0, received: 0, retransmissions: 0 },
    connect_ns: 0,
    lifetime_ns: 0,
    rtt_ns: 0,
};
static NO_TIMES: Histogram = Histogram::EMPTY;

/// Finds the counters of a leg, on this CPU; the first connection of a leg makes them.
#[inline(always)]
pub(crate) fn leg(stats: StatsId) -> Option<*mut LegStats> {
    if let Some(found) = STATS.get_ptr_mut(stats) {
        return Some(found);
    }
    let _ = STATS.insert(stats, &NO_STATS, BPF_NOEXIST.into());
    STATS.get_ptr_mut(stats)
}

/// Counts a rejected connection.
#[inline(always)]
pub(crate) fn reject(key: RejectKey) {
    if let Some(count) = REJECTS.get_ptr_mut(key) {
        // SAFETY: a live per-CPU value; only this CPU writes it.
        unsafe { *count += 1 };
    } else {
        let _ = REJECTS.insert(key, 1, BPF_ANY.into());
    }
}

/// Adds a time to a histogram of a leg.
#[inline(always)]
pub(crate) fn time(stats: StatsId, measure: Measure, ns: u64) {
    let key = HistogramKey::new(stats, measure);
    let histogram = match HISTOGRAMS.get_ptr_mut(key) {
        Some(histogram) => histogram,
        None => {
            let _ = HISTOGRAMS.insert(key, &NO_TIMES, BPF_NOEXIST.into());
            let Some(histogram) = HISTOGRAMS.get_ptr_mut(key) else { return };
            histogram
        }
    };
    // SAFETY: a live per-CPU value; only this CPU writes it.
    if let Some(bucket) = unsafe { (*histogram).buckets.get_mut(Histogram::bucket(ns)) } {
        *bucket += 1;
    }
}

/// Counts an event that belongs to no route.
#[inline(always)]
pub(crate) fn event(counter: Counter) {
    if let Some(count) = COUNTERS.get_ptr_mut(counter as u32) {
        // SAFETY: a live per-CPU value; only this CPU writes it.
        unsafe { *count += 1 };
    }
}

/// Tells the agent of an event, if there is room.
#[inline(always)]
pub(crate) fn tell(kind: EventKind, stats: StatsId, detail: u64) {
    // SAFETY: the helper has no preconditions.
    let at_ns = unsafe { bpf_ktime_get_ns() };
    match EVENTS.reserve::<Event>(0) {
        Some(mut entry) => {
            entry.write(Event { at_ns, stats, kind: kind as u64, detail });
            entry.submit(0);
        }
        None => event(Counter::EventLost),
    }
}
