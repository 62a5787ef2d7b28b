//! What the programs remember of a socket (`SOCKETS`, socket storage).

use super::ids::{BackendStateId, EndpointId, NameTableId, NamespaceId, SplitId, StatsId};
use crate::addr::Address;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Where a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Stage {
    /// Chosen in the connect hook; no SYN was sent yet.
    Chosen = 0,
    /// The SYN left.
    Connecting = 1,
    /// Established.
    Open = 2,
    /// Over and counted.
    Done = 3,
}

/// What a connection is to Weir.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Path {
    /// Sent to an endpoint in the connect hook, by a TCPRoute or for the acceptor.
    Direct = 0,
    /// The same, and its ClientHello is verified.
    Verify = 1,
    /// Sent to the acceptor.
    Accept = 2,
}

/// How far the ClientHello of a connection of [`Path::Verify`] was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Hello {
    /// There is none to read.
    None = 0,
    /// It is not whole yet.
    Pending = 1,
    /// The agent reads it.
    Held = 2,
    /// It may pass, and all that follows.
    Verified = 3,
    /// It may not; the connection is being ended.
    Rejected = 4,
}

/// Value of `SOCKETS`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct SocketRecord {
    /// What the client dialled.
    pub frontend_address: Address,
    /// Where it was sent.
    pub endpoint_address: Address,
    /// Counters of the leg.
    pub leg_stats: StatsId,
    /// The backend chosen.
    pub backend: BackendStateId,
    /// The endpoint chosen.
    pub endpoint: EndpointId,
    /// CLOCK_MONOTONIC of the choice, nanoseconds.
    pub started_ns: u64,
    /// CLOCK_MONOTONIC of the handshake's end, nanoseconds.
    pub opened_ns: u64,
    /// The dialled port, host byte order.
    pub frontend_port: u16,
    /// The endpoint's port, host byte order.
    pub endpoint_port: u16,
    /// How many endpoints the backend had.
    pub n_endpoints: u32,
    /// [`Stage`] as number.
    pub stage: u8,
    /// 1 if the endpoint had failures or was ejected when it was chosen: a success then clears it.
    pub suspect: u8,
    /// [`Path`] as number.
    pub path: u8,
    /// [`Hello`] as number.
    pub hello: u8,
    /// The leg's place in its split.
    pub leg_index: u8,
    /// [`crate::reason::Reason`] as number, once the hello is rejected.
    pub reason: u8,
    /// Always 0.
    pub reserved: [u8; 2],
    /// What only TLS needs; all 0 on [`Path::Direct`].
    pub tls: TlsRecord,
}

/// What is remembered of a connection by a TLSRoute.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct TlsRecord {
    /// The server names ([`Path::Verify`]).
    pub names: NameTableId,
    /// The split that was chosen from ([`Path::Verify`]).
    pub split: SplitId,
    /// Counters of the first route of the target.
    pub route_stats: StatsId,
    /// The frontend's id ([`Path::Accept`]).
    pub frontend: u64,
    /// The client's namespace, if its own routes decide ([`Path::Accept`]).
    pub namespace: NamespaceId,
    /// Cookie of the client's network namespace.
    pub netns: u64,
    /// Process that called connect().
    pub pid: u32,
    /// Interface that the socket was bound to ([`Path::Accept`]).
    pub device: u32,
    /// TCP sequence number of the hello's first byte.
    pub hello_seq: u32,
    /// Bytes of the stream that the agent was sent ([`Hello::Held`]).
    pub told: u32,
    /// Bytes of the stream that may leave before the decision ([`Hello::Held`]).
    pub may_leave: u32,
    /// 1 once `hello_seq` is known.
    pub started: u32,
    /// The socket's own TCP_USER_TIMEOUT, milliseconds, while Weir's is in its place.
    pub user_timeout: u32,
    /// 1 while Weir's is in its place.
    pub hurried: u32,
}

impl SocketRecord {
    /// Whether the ClientHello still has to be read.
    #[inline(always)]
    #[must_use]
    pub const fn awaits_hello(&self) -> bool {
        self.hello == Hello::Pending as u8 || self.hello == Hello::Held as u8
    }
}

/// What a connection moved.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Transferred {
    /// Payload bytes that the backend acknowledged.
    pub sent: u64,
    /// Payload bytes received from the backend.
    pub received: u64,
    /// Segments sent again.
    pub retransmissions: u64,
}
