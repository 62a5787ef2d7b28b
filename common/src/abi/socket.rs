//! What the programs remember of a socket (`SOCKETS`, socket storage).

use super::ids::{BackendStateId, EndpointId, StatsId};
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
    /// Always 0.
    pub reserved: [u8; 6],
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
