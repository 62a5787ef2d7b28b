//! What the acceptor asks of the kernel border, and of the tables. No code of its own.

use crate::bpf;
use std::{
    net::{IpAddr, SocketAddr},
    os::fd::BorrowedFd,
    time::Duration,
};
use weir_common::{
    abi::{
        ids::{SplitId, StatsId},
        socket::SocketRecord,
        tls::{AcceptKey, AcceptRecord, DIAL_PORT, DIAL_V4, DIAL_V6, Dial, Listener},
    },
    addr::Family,
    hello::{Found, Records},
    reason::Reason,
};

/// The acceptor's part of the kernel border. Shared between tasks: all methods take `&self` and do
/// one system call.
pub trait AcceptMaps: Send + Sync + 'static {
    /// Announces the listeners of a network namespace.
    ///
    /// # Errors
    ///
    /// If the table is full.
    fn set_listener(&self, netns: u64, listener: Listener) -> Result<(), bpf::Error>;

    /// Withdraws them; no error if there are none.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    fn remove_listener(&self, netns: u64) -> Result<(), bpf::Error>;

    /// Lists all that are announced, also those of an earlier agent.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    fn listeners(&self) -> Result<Vec<(u64, Listener)>, bpf::Error>;

    /// Looks up what the hook knew of a connection, and deletes it.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    fn take_accepted(&self, key: &AcceptKey) -> Result<Option<AcceptRecord>, bpf::Error>;

    /// Says what the next connect() of the socket with this cookie shall lead to.
    ///
    /// # Errors
    ///
    /// If the table is full.
    fn set_dial(&self, cookie: u64, dial: Dial) -> Result<(), bpf::Error>;

    /// Takes that back; no error if it is not there.
    fn remove_dial(&self, cookie: u64);

    /// Reads what the programs remember of a socket; `None` if they sent it nowhere.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    fn socket_record(&self, socket: BorrowedFd<'_>) -> Result<Option<SocketRecord>, bpf::Error>;
}

/// The current tables: where a whole ClientHello leads.
pub trait Decisions: Send + Sync + 'static {
    /// Chooses the route of a connection to the frontend that the record names. Takes no ticket.
    ///
    /// # Errors
    ///
    /// [`Rejected`], if no route is for it.
    fn decide(&self, record: &AcceptRecord, hello: &Records<'_>, found: &Found) -> Result<Chosen, Rejected>;
}

/// The route of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The route's split.
    pub split: SplitId,
    /// The route's counters.
    pub route_stats: StatsId,
    /// How long a connection may lie idle; `None` for ever.
    pub idle_timeout: Option<Duration>,
}

/// Why a connection has no route, and where that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Counters of a route.
    pub stats: StatsId,
    /// The reason.
    pub reason: Reason,
}

/// What a socket connects to, to have a choice made.
pub trait Connector: Send + Sync + 'static {
    /// Returns the address to dial.
    fn target(&self, family: Family, dial: &Dial) -> SocketAddr;
}

/// The addresses that the hook on the agent's own sockets replaces.
#[derive(Clone, Copy, Debug)]
pub struct Hooked;

impl Connector for Hooked {
    fn target(&self, family: Family, _dial: &Dial) -> SocketAddr {
        let address = match family {
            Family::V4 => IpAddr::V4(DIAL_V4),
            Family::V6 => IpAddr::V6(DIAL_V6),
        };
        SocketAddr::new(address, DIAL_PORT)
    }
}
