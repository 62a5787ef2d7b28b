//! The TLS part of the kernel border: listeners, accepted and dialled connections, rulings, requests.

use super::ids::{EndpointId, FrontendId, NameTableId, NamespaceId, SplitId, StatsId};
use super::maps::GATHER_BYTES;
use crate::{addr::Address, reason::Reason};
use core::net::{Ipv4Addr, Ipv6Addr};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What the acceptor dials to have a choice made: the hook on the agent's own sockets replaces it by an
/// endpoint. A dummy address (RFC 7600) that no host has.
pub const DIAL_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);
/// The same for IPv6: in the discard-only prefix (RFC 6666).
pub const DIAL_V6: Ipv6Addr = Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 8);
/// The port dialled with it.
pub const DIAL_PORT: u16 = 9;

/// Value of `LISTENERS`, keyed by the cookie of a network namespace: the ports of the acceptor's
/// listeners on 127.0.0.1 and ::1 there, host byte order; 0 where there is none.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Listener {
    /// Port on 127.0.0.1.
    pub port_v4: u16,
    /// Port on ::1.
    pub port_v6: u16,
    reserved: u32,
}

impl Listener {
    /// Makes a value.
    #[must_use]
    pub const fn new(port_v4: u16, port_v6: u16) -> Self {
        Self { port_v4, port_v6, reserved: 0 }
    }
}

/// Key of `ACCEPTS`: a connection to a listener, as the acceptor sees it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct AcceptKey {
    /// Cookie of the network namespace.
    pub netns: u64,
    /// The client's address.
    pub client: Address,
    /// The client's port, host byte order.
    pub client_port: u16,
    /// The listener's port, host byte order.
    pub listener_port: u16,
    reserved: u32,
}

impl AcceptKey {
    /// Makes a key.
    #[inline(always)]
    #[must_use]
    pub const fn new(netns: u64, client: Address, client_port: u16, listener_port: u16) -> Self {
        Self { netns, client, client_port, listener_port, reserved: 0 }
    }
}

/// Value of `ACCEPTS`: what the connect hook knew of the connection. Written as the SYN leaves, removed
/// by the acceptor that takes the connection, or when the client's socket closes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct AcceptRecord {
    /// What the client dialled.
    pub frontend_address: Address,
    /// The frontend.
    pub frontend: FrontendId,
    /// The client's namespace if its own routes decide, else 0.
    pub namespace: NamespaceId,
    /// Counters of the first route of the target.
    pub route_stats: StatsId,
    /// CLOCK_MONOTONIC of the connect(), nanoseconds.
    pub started_ns: u64,
    /// Interface that the client's socket was bound to, 0 for none.
    pub device: u32,
    /// The dialled port, host byte order.
    pub frontend_port: u16,
    /// Always 0.
    pub reserved: u16,
}

/// Value of `DIALS`, keyed by the cookie of a socket of the acceptor: what its next connect() to
/// [`DIAL_V4`] or [`DIAL_V6`] shall lead to.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Dial {
    split: SplitId,
    stats: StatsId,
    avoid: EndpointId,
    kind: u8,
    leg: u8,
    reason: u8,
    reserved: [u8; 5],
}

/// [`Dial`], as an enum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DialKind {
    /// Take a ticket of the split: leg and endpoint are chosen as for every connection.
    Split(SplitId),
    /// A second try: an endpoint of this leg of the split, another than the one that failed, if there
    /// is another.
    Leg(SplitId, u8, EndpointId),
    /// Refuse, and count it: the acceptor ends the client's connection for this reason.
    Reject(StatsId, Reason),
}

impl Dial {
    const NONE: Self = Self {
        split: SplitId(0),
        stats: StatsId(0),
        avoid: EndpointId(0),
        kind: 0,
        leg: 0,
        reason: 0,
        reserved: [0; 5],
    };

    /// Chooses by the split's weights.
    #[must_use]
    pub const fn split(split: SplitId) -> Self {
        Self { split, ..Self::NONE }
    }

    /// Chooses another endpoint of leg `leg` of the split.
    #[must_use]
    pub const fn leg(split: SplitId, leg: u8, avoid: EndpointId) -> Self {
        Self { split, leg, avoid, kind: 1, ..Self::NONE }
    }

    /// Refuses for `reason`, counted under `stats`.
    #[must_use]
    pub const fn reject(stats: StatsId, reason: Reason) -> Self {
        Self { stats, reason: reason as u8, kind: 2, ..Self::NONE }
    }

    /// Reads it; an unknown tag rejects with [`Reason::TableMiss`].
    #[inline(always)]
    #[must_use]
    pub const fn kind(&self) -> DialKind {
        match self.kind {
            0 => DialKind::Split(self.split),
            1 => DialKind::Leg(self.split, self.leg, self.avoid),
            2 => DialKind::Reject(self.stats, Reason::from_abi(self.reason)),
            _ => DialKind::Reject(self.stats, Reason::TableMiss),
        }
    }
}

/// Value of `RULINGS`, keyed by a socket's cookie: the agent's answer about a ClientHello that the kernel
/// program could not read.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Ruling {
    /// The split that the name leads to, if it may pass.
    pub split: SplitId,
    /// Counters of the route that the name selected, if it may pass.
    pub route_stats: StatsId,
    /// Bytes of the stream that may leave before the decision.
    pub may_leave: u32,
    verdict: u8,
    reason: u8,
    reserved: [u8; 2],
}

/// [`Ruling`], as an enum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RulingKind {
    /// Not decided; this many bytes of the stream may leave.
    More(u32),
    /// The name leads to this split and route.
    Pass(SplitId, StatsId),
    /// End the connection.
    Reject(Reason),
}

impl Ruling {
    const NONE: Self =
        Self { split: SplitId(0), route_stats: StatsId(0), may_leave: 0, verdict: 0, reason: 0, reserved: [0; 2] };

    /// Lets the first `may_leave` bytes go.
    #[must_use]
    pub const fn more(may_leave: u32) -> Self {
        Self { may_leave, ..Self::NONE }
    }

    /// Lets everything go.
    #[must_use]
    pub const fn pass(split: SplitId, route_stats: StatsId) -> Self {
        Self { split, route_stats, verdict: 1, ..Self::NONE }
    }

    /// Ends the connection.
    #[must_use]
    pub const fn reject(reason: Reason) -> Self {
        Self { verdict: 2, reason: reason as u8, ..Self::NONE }
    }

    /// Reads it; an unknown tag rejects with [`Reason::TableMiss`].
    #[inline(always)]
    #[must_use]
    pub const fn kind(&self) -> RulingKind {
        match self.verdict {
            0 => RulingKind::More(self.may_leave),
            1 => RulingKind::Pass(self.split, self.route_stats),
            2 => RulingKind::Reject(Reason::from_abi(self.reason)),
            _ => RulingKind::Reject(Reason::TableMiss),
        }
    }
}

/// What an entry of `REQUESTS` asks of the agent: its first word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum RequestKind {
    /// End this connection at both ends ([`SocketRequest`]).
    Abort = 0,
    /// Open a listener in this network namespace ([`SocketRequest`], addresses empty).
    Listen = 1,
    /// Read this part of a ClientHello ([`PieceRequest`]).
    Piece = 2,
}

/// A request that is about a socket, or about the network namespace that it is in.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct SocketRequest {
    /// [`RequestKind`] as number.
    pub kind: u32,
    /// Process that called connect().
    pub pid: u32,
    /// Cookie of the network namespace.
    pub netns: u64,
    /// Cookie of the socket.
    pub cookie: u64,
    /// The socket's own address.
    pub client: Address,
    /// Its peer: the endpoint.
    pub peer: Address,
    /// The socket's own port, host byte order.
    pub client_port: u16,
    /// The peer's port, host byte order.
    pub peer_port: u16,
    /// [`Reason`] as ABI number.
    pub reason: u32,
}

/// Most bytes of a ClientHello in one [`PieceRequest`].
pub const PIECE_BYTES: usize = 4_096;

/// A part of a ClientHello that the kernel program cannot read.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct PieceRequest {
    /// The socket; its kind is [`RequestKind::Piece`].
    pub socket: SocketRequest,
    /// The server names to look in.
    pub names: NameTableId,
    /// Counters of the first route of the target.
    pub route_stats: StatsId,
    /// Where in the stream the bytes begin.
    pub offset: u32,
    /// How many of `bytes` count, 1..=[`PIECE_BYTES`].
    pub len: u32,
    /// The bytes.
    pub bytes: [u8; PIECE_BYTES],
}

/// Value of `GATHERED`, socket storage: a ClientHello that comes in pieces.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Gathered {
    /// How many bytes from the stream's first on are there.
    pub len: u32,
    /// The reader's own: the offset that it read last.
    pub cursor: u32,
    /// The bytes; a second half of zeros so that a masked index and a length stay inside.
    pub bytes: [u8; 2 * GATHER_BYTES],
}
