//! Counters, histograms and events: what people see. Nothing here changes a decision.

#![expect(clippy::needless_borrows_for_generic_args, reason = "by value, an empty row would be copied to the stack")]

use crate::maps::{COUNTERS, EVENTS, REJECTS, STATS};
use aya_ebpf::{
    bindings::{BPF_ANY, BPF_NOEXIST},
    helpers::bpf_ktime_get_ns,
};
use weir_common::abi::{
    ids::StatsId,
    socket::SocketRecord,
    stats::{Counter, Event, EventKind, LegRecord, Measure, RejectKey},
};

static NOTHING: LegRecord = LegRecord::EMPTY;

/// Finds the counters of a leg, on this CPU; the first connection of a leg makes them.
#[inline(always)]
pub(crate) fn leg(stats: StatsId) -> Option<*mut LegRecord> {
    if let Some(found) = STATS.get_ptr_mut(stats) {
        return Some(found);
    }
    let _ = STATS.insert(stats, &NOTHING, BPF_NOEXIST.into());
    STATS.get_ptr_mut(stats)
}

/// Counts a connection as opened under a leg that is known only now: by the name in its ClientHello.
#[inline(always)]
pub(crate) fn settled(record: &SocketRecord) {
    let latency = record.opened_ns.saturating_sub(record.started_ns);
    if let Some(leg) = leg(record.leg_stats) {
        // SAFETY: a live per-CPU value; only this CPU writes it.
        unsafe {
            (*leg).stats.forwarded += 1;
            (*leg).stats.attempted += 1;
            (*leg).stats.opened += 1;
            (*leg).stats.connect_ns += latency;
            (*leg).times[Measure::ConnectLatency as usize].count(latency);
        }
    }
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
