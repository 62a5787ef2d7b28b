//! Every map: name, kind, sizes and capacity. The agent checks pinned maps against this list.

use super::{ids, settings, socket, stats, tables, tls};
use crate::hello::{NameKey, NameValue};
use core::mem::size_of;

/// What a map must look like before it is reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapSpec {
    /// Name of the map in the object and of its pin.
    pub name: &'static str,
    /// Kernel map type.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key: usize,
    /// Bytes of a value.
    pub value: usize,
    /// Most entries (bytes, for a ring buffer).
    pub capacity: u32,
}

/// The kernel's map types that Weir uses, with the numbers of `enum bpf_map_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum MapKind {
    /// BPF_MAP_TYPE_HASH
    Hash = 1,
    /// BPF_MAP_TYPE_ARRAY
    Array = 2,
    /// BPF_MAP_TYPE_PROG_ARRAY
    ProgramArray = 3,
    /// BPF_MAP_TYPE_PERCPU_HASH
    PerCpuHash = 5,
    /// BPF_MAP_TYPE_PERCPU_ARRAY
    PerCpuArray = 6,
    /// BPF_MAP_TYPE_LRU_HASH
    LruHash = 9,
    /// BPF_MAP_TYPE_LPM_TRIE
    LpmTrie = 11,
    /// BPF_MAP_TYPE_SK_STORAGE
    SocketStorage = 24,
    /// BPF_MAP_TYPE_RINGBUF
    RingBuffer = 27,
}

/// Most frontends: addresses times ports of Services with routes.
pub const MAX_FRONTENDS: u32 = 262_144;
/// Most consumer targets.
pub const MAX_SCOPED: u32 = 262_144;
/// Most splits, old ones in their grace period included.
pub const MAX_SPLITS: u32 = 262_144;
/// Most backends.
pub const MAX_BACKENDS: u32 = 262_144;
/// Most endpoints, counted once a backend, old lists in their grace period included.
pub const MAX_ENDPOINTS: u32 = 2_097_152;
/// Most client keys (cgroups and network namespaces).
pub const MAX_CLIENTS: u32 = 65_536;
/// Most server names, counted once a frontend and scope, old tables in their grace period included.
pub const MAX_NAMES: u32 = 1_048_576;
/// Most network namespaces with listeners of the acceptor.
pub const MAX_LISTENERS: u32 = 16_384;
/// Most connections on their way to the acceptor or from it.
pub const MAX_ACCEPTS: u32 = 65_536;
/// Bytes of the ring buffer of requests to the agent.
pub const REQUEST_BYTES: u32 = 2 * 1024 * 1024;
/// Longest ClientHello that the kernel program gathers from pieces, bytes; a power of two.
pub const GATHER_BYTES: usize = 8_192;
/// Bytes of the event ring buffer.
pub const EVENT_BYTES: u32 = 256 * 1024;

const fn spec(name: &'static str, kind: MapKind, key: usize, value: usize, capacity: u32) -> MapSpec {
    MapSpec { name, kind, key, value, capacity }
}

/// All maps.
pub const MAPS: [MapSpec; 26] = [
    spec(
        "FRONTENDS",
        MapKind::Hash,
        size_of::<tables::FrontendKey>(),
        size_of::<tables::FrontendValue>(),
        MAX_FRONTENDS,
    ),
    spec("SCOPED", MapKind::Hash, size_of::<tables::ScopedKey>(), size_of::<tables::Target>(), MAX_SCOPED),
    spec("SPLITS", MapKind::Hash, size_of::<ids::SplitId>(), size_of::<tables::Split>(), MAX_SPLITS),
    spec("TICKETS", MapKind::Hash, size_of::<ids::SequenceId>(), 8, MAX_SPLITS),
    spec("BACKENDS", MapKind::Hash, size_of::<ids::BackendId>(), size_of::<tables::Backend>(), MAX_BACKENDS),
    spec(
        "BACKEND_STATES",
        MapKind::Hash,
        size_of::<ids::BackendStateId>(),
        size_of::<tables::BackendState>(),
        MAX_BACKENDS,
    ),
    spec("ENDPOINTS", MapKind::Hash, size_of::<tables::SlotKey>(), size_of::<tables::Endpoint>(), MAX_ENDPOINTS),
    spec(
        "ENDPOINT_STATES",
        MapKind::Hash,
        size_of::<ids::EndpointId>(),
        size_of::<tables::EndpointState>(),
        MAX_ENDPOINTS,
    ),
    spec("RINGS", MapKind::Hash, size_of::<tables::SlotKey>(), size_of::<tables::RingValue>(), MAX_ENDPOINTS),
    spec("CLIENTS", MapKind::Hash, size_of::<tables::ClientKey>(), size_of::<ids::NamespaceId>(), MAX_CLIENTS),
    spec("SETTINGS", MapKind::Array, 4, size_of::<settings::Settings>(), 1),
    spec("HEARTBEAT", MapKind::Array, 4, size_of::<settings::Heartbeat>(), 1),
    spec("STATS", MapKind::PerCpuHash, size_of::<ids::StatsId>(), size_of::<stats::LegRecord>(), MAX_SPLITS),
    spec("REJECTS", MapKind::PerCpuHash, size_of::<stats::RejectKey>(), 8, MAX_SPLITS),
    spec("COUNTERS", MapKind::PerCpuArray, 4, 8, stats::Counter::COUNT),
    spec("EVENTS", MapKind::RingBuffer, 0, 0, EVENT_BYTES),
    spec("NAMES", MapKind::LpmTrie, size_of::<NameKey>(), size_of::<NameValue>(), MAX_NAMES),
    spec("LISTENERS", MapKind::Hash, 8, size_of::<tls::Listener>(), MAX_LISTENERS),
    spec("ACCEPTS", MapKind::Hash, size_of::<tls::AcceptKey>(), size_of::<tls::AcceptRecord>(), MAX_ACCEPTS),
    spec("DIALS", MapKind::Hash, 8, size_of::<tls::Dial>(), MAX_ACCEPTS),
    spec("RULINGS", MapKind::LruHash, 8, size_of::<tls::Ruling>(), MAX_ACCEPTS),
    spec("REQUESTS", MapKind::RingBuffer, 0, 0, REQUEST_BYTES),
    spec("NAME_SCRATCH", MapKind::PerCpuArray, 4, size_of::<NameKey>(), 1),
    spec("EGRESS_PIECE", MapKind::ProgramArray, 4, 4, 1),
    spec("GATHERED", MapKind::SocketStorage, 4, size_of::<tls::Gathered>(), 0),
    spec("SOCKETS", MapKind::SocketStorage, 4, size_of::<socket::SocketRecord>(), 0),
];
