//! Counters and histograms, per CPU; the agent adds the CPUs up.

use super::{ids::StatsId, socket::Transferred};
use crate::reason::Reason;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Value of `STATS`, keyed by [`StatsId`] of a leg: one look-up finds all that a connection counts.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct LegRecord {
    /// The counters.
    pub stats: LegStats,
    /// The histograms, in the order of [`Measure::ALL`].
    pub times: [Histogram; Measure::ALL.len()],
}

impl LegRecord {
    /// A leg that nothing happened to.
    pub const EMPTY: Self = Self {
        stats: LegStats {
            forwarded: 0,
            attempted: 0,
            opened: 0,
            closed: 0,
            failed: [0; ConnectFailure::COUNT],
            transferred: Transferred { sent: 0, received: 0, retransmissions: 0 },
            connect_ns: 0,
            lifetime_ns: 0,
            rtt_ns: 0,
        },
        times: [Histogram::EMPTY; Measure::ALL.len()],
    };
}

/// Counters of a leg. All fields only grow.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct LegStats {
    /// Connections that the connect hook sent to an endpoint of this leg.
    pub forwarded: u64,
    /// Of these, those whose SYN left and that were established or failed since.
    pub attempted: u64,
    /// Of these, those established.
    pub opened: u64,
    /// Established connections that are over.
    pub closed: u64,
    /// Connects that failed, by [`ConnectFailure`].
    pub failed: [u64; ConnectFailure::COUNT],
    /// Payload bytes and retransmissions.
    pub transferred: Transferred,
    /// Sum of the connect latencies of opened connections, nanoseconds.
    pub connect_ns: u64,
    /// Sum of the life times of closed connections, nanoseconds.
    pub lifetime_ns: u64,
    /// Sum of the smoothed round-trip times of closed connections at their end, nanoseconds.
    pub rtt_ns: u64,
}

/// Why a connect failed after its SYN left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum ConnectFailure {
    /// The endpoint answered with RST (ECONNREFUSED).
    Refused = 0,
    /// No answer (ETIMEDOUT).
    TimedOut = 1,
    /// No way there (EHOSTUNREACH, ENETUNREACH).
    Unreachable = 2,
    /// The client gave up, or another error.
    Aborted = 3,
}

impl ConnectFailure {
    /// How many kinds there are.
    pub const COUNT: usize = 4;
    /// Every kind in ABI order.
    pub const ALL: [Self; Self::COUNT] = [Self::Refused, Self::TimedOut, Self::Unreachable, Self::Aborted];

    /// Reads the socket's error number (Linux errno).
    #[inline(always)]
    #[must_use]
    pub const fn from_errno(errno: u32) -> Self {
        match errno {
            111 => Self::Refused,
            110 => Self::TimedOut,
            101 | 113 => Self::Unreachable,
            _ => Self::Aborted,
        }
    }

    /// Whether the failure speaks against the endpoint (and not for an impatient client).
    #[inline(always)]
    #[must_use]
    pub const fn blames_endpoint(self) -> bool {
        match self {
            Self::Refused | Self::TimedOut | Self::Unreachable => true,
            Self::Aborted => false,
        }
    }

    /// Returns the metric label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::TimedOut => "timed_out",
            Self::Unreachable => "unreachable",
            Self::Aborted => "aborted",
        }
    }
}

/// Key of `REJECTS`; the value is a count.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct RejectKey {
    /// The leg, or the route if no leg was chosen.
    pub stats: StatsId,
    reason: u64,
}

impl RejectKey {
    /// Makes a key.
    #[inline(always)]
    #[must_use]
    pub const fn new(stats: StatsId, reason: Reason) -> Self {
        Self { stats, reason: reason as u64 }
    }

    /// Reads the reason.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        Reason::from_abi(if self.reason > 255 { 255 } else { self.reason as u8 })
    }
}

/// What a histogram measures.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u64)]
pub enum Measure {
    /// From connect() to the end of the handshake.
    ConnectLatency = 0,
    /// Smoothed round-trip time at the connection's end.
    RoundTrip = 1,
    /// From the handshake's end to the connection's.
    Lifetime = 2,
}

impl Measure {
    /// Every measure.
    pub const ALL: [Self; 3] = [Self::ConnectLatency, Self::RoundTrip, Self::Lifetime];
}

/// Names a histogram of a leg in a reading. In the kernel it is part of [`LegRecord`].
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct HistogramKey {
    /// The leg.
    pub stats: StatsId,
    measure: u64,
}

impl HistogramKey {
    /// Makes a key.
    #[inline(always)]
    #[must_use]
    pub const fn new(stats: StatsId, measure: Measure) -> Self {
        Self { stats, measure: measure as u64 }
    }
}

/// Number of buckets of a [`Histogram`].
pub const BUCKETS: usize = 40;

/// Times: bucket `i` counts values of 2^(i-1) up to, not including, 2^i
/// microseconds; bucket 0 those below one microsecond, the last one also all longer ones.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Histogram {
    /// The counts.
    pub buckets: [u64; BUCKETS],
}

impl Histogram {
    /// A histogram of nothing.
    pub const EMPTY: Self = Self { buckets: [0; BUCKETS] };

    /// Counts a time in nanoseconds.
    #[inline(always)]
    pub fn count(&mut self, ns: u64) {
        if let Some(bucket) = self.buckets.get_mut(Self::bucket(ns)) {
            *bucket += 1;
        }
    }

    /// Returns the bucket of a time in nanoseconds, `0..BUCKETS`.
    #[inline(always)]
    #[must_use]
    pub const fn bucket(ns: u64) -> usize {
        let mut micros = ns / 1_000;
        let mut bucket = 0;
        // A leading-zeros count by halves: the BPF target has no instruction for it.
        if micros >> 32 != 0 {
            bucket += 32;
            micros >>= 32;
        }
        if micros >> 16 != 0 {
            bucket += 16;
            micros >>= 16;
        }
        if micros >> 8 != 0 {
            bucket += 8;
            micros >>= 8;
        }
        if micros >> 4 != 0 {
            bucket += 4;
            micros >>= 4;
        }
        if micros >> 2 != 0 {
            bucket += 2;
            micros >>= 2;
        }
        if micros >> 1 != 0 {
            bucket += 1;
            micros >>= 1;
        }
        bucket += micros as usize;
        if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
    }
}

/// Index into `COUNTERS`: events that belong to no route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Counter {
    /// A frontend has consumer routes and the client's namespace is not known.
    UnknownClient = 0,
    /// A table named an entry that is not there.
    TableMiss = 1,
    /// A frontend was passed because the agent is gone (`--on-agent-loss bypass`).
    Bypassed = 2,
    /// No memory for a socket's record: forwarded, but not counted further.
    NoSocketRecord = 3,
    /// An event found no room in the ring buffer.
    EventLost = 4,
    /// An endpoint was ejected.
    Ejected = 5,
    /// A connection whose ClientHello is to be verified sent its SYN.
    VerifyBegan = 6,
    /// A ClientHello was verified or rejected, or its connection ended before. Never more than those begun.
    VerifyEnded = 7,
    /// A request to the agent found no room in the ring buffer; it is made again with the next packet.
    RequestLost = 8,
    /// No memory for a record of a connection to the acceptor, or for a ClientHello in pieces.
    NoRoom = 9,
}

impl Counter {
    /// How many counters there are.
    pub const COUNT: u32 = 10;
    /// Every counter.
    pub const ALL: [Self; Self::COUNT as usize] = [
        Self::UnknownClient,
        Self::TableMiss,
        Self::Bypassed,
        Self::NoSocketRecord,
        Self::EventLost,
        Self::Ejected,
        Self::VerifyBegan,
        Self::VerifyEnded,
        Self::RequestLost,
        Self::NoRoom,
    ];

    /// Returns the metric label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::UnknownClient => "unknown_client",
            Self::TableMiss => "table_miss",
            Self::Bypassed => "bypassed",
            Self::NoSocketRecord => "no_socket_record",
            Self::EventLost => "event_lost",
            Self::Ejected => "ejected",
            Self::VerifyBegan => "verify_began",
            Self::VerifyEnded => "verify_ended",
            Self::RequestLost => "request_lost",
            Self::NoRoom => "no_room",
        }
    }
}

/// An entry of `EVENTS`: sampled, for people, never needed for correctness.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Event {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub at_ns: u64,
    /// The leg or route concerned.
    pub stats: StatsId,
    /// [`EventKind`] as number.
    pub kind: u64,
    /// Reason number (rejected), or [`super::ids::EndpointId`] (ejected).
    pub detail: u64,
}

/// What an [`Event`] tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum EventKind {
    /// A connection was rejected.
    Rejected = 0,
    /// An endpoint was ejected.
    Ejected = 1,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_powers_of_two_of_microseconds() {
        assert_eq!(Histogram::bucket(0), 0);
        assert_eq!(Histogram::bucket(999), 0);
        assert_eq!(Histogram::bucket(1_000), 1);
        for i in 1..BUCKETS - 1 {
            let least = 1_000_u64 << (i - 1);
            assert_eq!(Histogram::bucket(least), i);
            assert_eq!(Histogram::bucket(least * 2 - 1), i);
        }
        assert_eq!(Histogram::bucket(u64::MAX), BUCKETS - 1);
    }
}
