//! The decision tables. Ports are in host byte order, addresses in network byte order.

use super::ids::{
    BackendId, BackendStateId, EndpointId, FrontendId, NameTableId, NamespaceId, SequenceId, SplitId, StatsId,
};
use crate::{addr::Address, reason::Reason};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The most legs a split can have (Gateway API: 1..16 backendRefs a rule).
pub const MAX_LEGS: usize = 16;
/// The largest weight of one leg (Gateway API: 0..1,000,000).
pub const MAX_WEIGHT: u32 = 1_000_000;
/// IP protocol number of TCP.
pub const TCP: u8 = 6;

/// Key of `FRONTENDS`: what a client dials.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct FrontendKey {
    /// The dialled address.
    pub address: Address,
    /// The dialled port, host byte order.
    pub port: u16,
    /// IP protocol number, [`TCP`].
    pub protocol: u8,
    reserved: u8,
}

impl FrontendKey {
    /// Makes the key of a TCP frontend.
    #[inline(always)]
    #[must_use]
    pub const fn tcp(address: Address, port: u16) -> Self {
        Self { address, port, protocol: TCP, reserved: 0 }
    }
}

/// What happens to a connection of one scope. A tagged union: read it with [`Target::kind`].
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Target {
    /// Counters of the route that gave this target; 0 for [`TargetKind::Pass`].
    pub route_stats: StatsId,
    /// The split, if this is [`TargetKind::Split`] or [`TargetKind::Verify`].
    split: SplitId,
    /// The server names, if this is [`TargetKind::Verify`] or [`TargetKind::Accept`].
    names: NameTableId,
    kind: u8,
    reason: u8,
    reserved: [u8; 6],
}

/// [`Target`], as an enum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetKind {
    /// Nothing applies: leave the connection alone.
    Pass,
    /// Choose a leg of this split.
    Split(SplitId),
    /// Refuse every connection.
    Reject(Reason),
    /// TLS, and every server name leads to this split: choose a leg of it, and end the connection if
    /// the ClientHello asks for a name that is not in the table.
    Verify(SplitId, NameTableId),
    /// TLS, and the server name in the ClientHello chooses the split: the acceptor takes the connection.
    Accept(NameTableId),
}

impl Target {
    const NONE: Self = Self {
        route_stats: StatsId(0),
        split: SplitId(0),
        names: NameTableId(0),
        kind: 0,
        reason: 0,
        reserved: [0; 6],
    };

    /// Leaves the connection alone.
    #[must_use]
    pub const fn pass() -> Self {
        Self::NONE
    }

    /// Chooses a leg of `split`.
    #[must_use]
    pub const fn split(route_stats: StatsId, split: SplitId) -> Self {
        Self { route_stats, split, kind: 1, ..Self::NONE }
    }

    /// Refuses every connection for `reason`.
    #[must_use]
    pub const fn reject(route_stats: StatsId, reason: Reason) -> Self {
        Self { route_stats, kind: 2, reason: reason as u8, ..Self::NONE }
    }

    /// Chooses a leg of `split` and verifies the server name afterwards.
    #[must_use]
    pub const fn verify(route_stats: StatsId, split: SplitId, names: NameTableId) -> Self {
        Self { route_stats, split, names, kind: 3, ..Self::NONE }
    }

    /// Gives the connection to the acceptor.
    #[must_use]
    pub const fn accept(route_stats: StatsId, names: NameTableId) -> Self {
        Self { route_stats, names, kind: 4, ..Self::NONE }
    }

    /// Reads the target; an unknown tag rejects with [`Reason::TableMiss`].
    #[inline(always)]
    #[must_use]
    pub const fn kind(&self) -> TargetKind {
        match self.kind {
            0 => TargetKind::Pass,
            1 => TargetKind::Split(self.split),
            2 => TargetKind::Reject(Reason::from_abi(self.reason)),
            3 => TargetKind::Verify(self.split, self.names),
            4 => TargetKind::Accept(self.names),
            _ => TargetKind::Reject(Reason::TableMiss),
        }
    }
}

/// Value of `FRONTENDS`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct FrontendValue {
    /// Names this frontend in `SCOPED`.
    pub id: FrontendId,
    /// What applies to every client that has no target of its own.
    pub everyone: Target,
    /// 1 if `SCOPED` holds targets for some namespaces, else 0.
    scoped: u64,
}

impl FrontendValue {
    /// Makes a value; `scoped` says that consumer routes exist.
    #[must_use]
    pub const fn new(id: FrontendId, everyone: Target, scoped: bool) -> Self {
        Self { id, everyone, scoped: scoped as u64 }
    }

    /// Whether `SCOPED` must be consulted.
    #[inline(always)]
    #[must_use]
    pub const fn is_scoped(&self) -> bool {
        self.scoped != 0
    }
}

/// Key of `SCOPED`: a frontend as the clients of one namespace see it. Its value is a [`Target`].
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ScopedKey {
    /// The frontend.
    pub frontend: FrontendId,
    /// The clients' namespace.
    pub namespace: NamespaceId,
}

/// How a leg and an endpoint inside it are chosen (annotation `weir.dev/load-balancing`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Policy {
    /// Of two random endpoints the one with fewer open connections and recent failures.
    #[default]
    PowerOfTwoChoices = 0,
    /// The endpoints in turn.
    RoundRobin = 1,
    /// A random endpoint.
    Random = 2,
    /// The same client always gets the same leg and endpoint, as far as weights and endpoints allow.
    ClientHash = 3,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Self; 4] = [Self::PowerOfTwoChoices, Self::RoundRobin, Self::Random, Self::ClientHash];

    /// Reads the ABI number; an unknown one is the default policy.
    #[inline(always)]
    #[must_use]
    pub const fn from_abi(number: u8) -> Self {
        match number {
            1 => Self::RoundRobin,
            2 => Self::Random,
            3 => Self::ClientHash,
            _ => Self::PowerOfTwoChoices,
        }
    }

    /// Returns the spelling of the annotation's value.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PowerOfTwoChoices => "power-of-two-choices",
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
            Self::ClientHash => "client-hash",
        }
    }
}

/// One leg of a split: leads to a backend, or rejects and keeps its share.
#[repr(C)]
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Leg {
    /// Counters of this backendRef.
    pub stats: StatsId,
    backend: BackendId,
    weight: u32,
    rejects: u8,
    reason: u8,
    reserved: [u8; 2],
}

/// [`Leg`]'s outcome, as an enum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LegKind {
    /// Choose an endpoint of this backend.
    Backend(BackendId),
    /// Reject.
    Reject(Reason),
}

impl Leg {
    /// Makes a leg that leads to a backend; `weight` is 0..=[`MAX_WEIGHT`].
    #[must_use]
    pub const fn backend(stats: StatsId, weight: u32, backend: BackendId) -> Self {
        Self { stats, backend, weight, rejects: 0, reason: 0, reserved: [0; 2] }
    }

    /// Makes a leg that rejects its share.
    #[must_use]
    pub const fn reject(stats: StatsId, weight: u32, reason: Reason) -> Self {
        Self { stats, backend: BackendId(0), weight, rejects: 1, reason: reason as u8, reserved: [0; 2] }
    }

    /// Returns the weight, 0..=[`MAX_WEIGHT`].
    #[inline(always)]
    #[must_use]
    pub const fn weight(&self) -> u32 {
        self.weight
    }

    /// Reads the outcome.
    #[inline(always)]
    #[must_use]
    pub const fn kind(&self) -> LegKind {
        if self.rejects == 0 { LegKind::Backend(self.backend) } else { LegKind::Reject(Reason::from_abi(self.reason)) }
    }
}

/// Value of `SPLITS`, keyed by [`SplitId`]: a weighted choice. Build it with `split::build`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Split {
    /// Names the ticket counter in `TICKETS`.
    pub sequence: SequenceId,
    /// Where this node starts in the Weyl sequence.
    pub phase: u64,
    /// Sum of all weights, 1..=16,000,000.
    pub total: u32,
    /// How many of `legs` are in use, 1..=16.
    pub n_legs: u32,
    /// [`Policy`] as ABI number.
    pub policy: u8,
    pub(crate) reserved: [u8; 7],
    /// Sum of the weights of legs `0..=i`; unused ones hold `total`.
    pub cumulative: [u32; MAX_LEGS],
    /// The legs.
    pub legs: [Leg; MAX_LEGS],
}

/// Value of `BACKENDS`, keyed by [`BackendId`]: a backend with one list of endpoints.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Backend {
    /// Names what is known of the backend in `BACKEND_STATES`.
    pub state: BackendStateId,
    /// Number of endpoints in the list; slots are `0..count`. 0 rejects with NoEndpoints.
    pub count: u32,
    /// Number of buckets of the consistent-hash ring in `RINGS`, 0 if no route asks for it.
    pub ring: u32,
}

/// Key of `ENDPOINTS` (slot `0..count`) and of `RINGS` (bucket `0..ring`, value a slot).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct SlotKey {
    /// The backend.
    pub backend: BackendId,
    /// Position in its list.
    pub slot: u32,
    reserved: u32,
}

impl SlotKey {
    /// Makes a key.
    #[inline(always)]
    #[must_use]
    pub const fn new(backend: BackendId, slot: u32) -> Self {
        Self { backend, slot, reserved: 0 }
    }
}

/// Value of `RINGS`: the slot that a bucket of the ring leads to.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct RingValue {
    /// Slot in the same list.
    pub slot: u32,
    reserved: u32,
}

impl RingValue {
    /// Makes a value.
    #[must_use]
    pub const fn new(slot: u32) -> Self {
        Self { slot, reserved: 0 }
    }
}

/// Value of `ENDPOINTS`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Endpoint {
    /// Names this endpoint in `ENDPOINT_STATES`.
    pub id: EndpointId,
    /// Where to connect.
    pub address: Address,
    /// Port, host byte order.
    pub port: u16,
    /// 0 ready, 1 serving while terminating.
    state: u8,
    reserved: [u8; 5],
}

/// The part of an endpoint's life in which it may be used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EndpointReadiness {
    /// Ready.
    Ready,
    /// Terminating, but still serving; used only if no endpoint is ready.
    ServingTerminating,
}

impl Endpoint {
    /// Makes an endpoint.
    #[must_use]
    pub const fn new(id: EndpointId, address: Address, port: u16, readiness: EndpointReadiness) -> Self {
        Self { id, address, port, state: readiness as u8, reserved: [0; 5] }
    }

    /// Reads the readiness.
    #[must_use]
    pub const fn readiness(&self) -> EndpointReadiness {
        if self.state == 0 { EndpointReadiness::Ready } else { EndpointReadiness::ServingTerminating }
    }
}

/// Value of `ENDPOINT_STATES`, keyed by [`EndpointId`]: written by the kernel programs only.
///
/// All times are nanoseconds of CLOCK_MONOTONIC, 0 is "never".
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct EndpointState {
    /// Connections of this node to it, connecting or established.
    pub open: u64,
    /// Connect attempts that failed in a row within the window.
    pub failures: u64,
    /// When the first failure of the row was.
    pub first_failure_ns: u64,
    /// Until when it is skipped; 0 when it is not ejected.
    pub ejected_until_ns: u64,
    /// How often in a row it was ejected; the time grows with it.
    pub ejections: u64,
    /// Times it was chosen since the last SYN to it left: grows when there is no route to it.
    pub unsent: u64,
    /// When `unsent` left 0.
    pub first_unsent_ns: u64,
}

/// Value of `BACKEND_STATES`, keyed by [`BackendStateId`]: written by the kernel programs only.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct BackendState {
    /// Endpoints of it that are ejected now.
    pub ejected: u64,
    /// Position of round-robin.
    pub turn: u64,
}

/// Key of `CLIENTS`; the value is a [`NamespaceId`].
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ClientKey {
    /// Cgroup id (inode number of its folder), or network-namespace cookie.
    pub id: u64,
    kind: u64,
}

impl ClientKey {
    /// Names clients by a cgroup that they are in, directly or further down.
    #[inline(always)]
    #[must_use]
    pub const fn cgroup(id: u64) -> Self {
        Self { id, kind: 0 }
    }

    /// Names clients by the cookie of their network namespace.
    #[inline(always)]
    #[must_use]
    pub const fn network_namespace(cookie: u64) -> Self {
        Self { id: cookie, kind: 1 }
    }

    /// Whether this is a cgroup id.
    #[must_use]
    pub const fn is_cgroup(&self) -> bool {
        self.kind == 0
    }
}
