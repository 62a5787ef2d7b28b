//! Every map. Names, sizes and meanings are in `weir_common::abi`; the loader pins them by path.

use aya_ebpf::{
    bindings::BPF_F_NO_PREALLOC,
    btf_maps::SkStorage,
    macros::{btf_map, map},
    maps::{Array, HashMap, LpmTrie, LruHashMap, PerCpuArray, PerCpuHashMap, ProgramArray, RingBuf},
};
use weir_common::abi::{
    ids::{BackendId, BackendStateId, EndpointId, NamespaceId, SequenceId, SplitId, StatsId},
    maps::{
        EVENT_BYTES, MAX_ACCEPTS, MAX_BACKENDS, MAX_CLIENTS, MAX_ENDPOINTS, MAX_FRONTENDS, MAX_LISTENERS, MAX_NAMES,
        MAX_SCOPED, MAX_SPLITS, REQUEST_BYTES,
    },
    settings::{Heartbeat, Settings},
    socket::SocketRecord,
    stats::{Counter, LegRecord, RejectKey},
    tables::{
        Backend, BackendState, ClientKey, Endpoint, EndpointState, FrontendKey, FrontendValue, RingValue, ScopedKey,
        SlotKey, Split, Target,
    },
    tls::{AcceptKey, AcceptRecord, Dial, Gathered, Listener, Ruling},
};
use weir_common::hello::{NameKey, NameValue};

// Without preallocation a map costs memory for what it holds, not for what it could hold, and a
// value is never changed under a reader: an update puts a new element in place of the old one.
const FLAGS: u32 = BPF_F_NO_PREALLOC;

#[map]
pub(crate) static FRONTENDS: HashMap<FrontendKey, FrontendValue> = HashMap::with_max_entries(MAX_FRONTENDS, FLAGS);
#[map]
pub(crate) static SCOPED: HashMap<ScopedKey, Target> = HashMap::with_max_entries(MAX_SCOPED, FLAGS);
#[map]
pub(crate) static SPLITS: HashMap<SplitId, Split> = HashMap::with_max_entries(MAX_SPLITS, FLAGS);
#[map]
pub(crate) static TICKETS: HashMap<SequenceId, u64> = HashMap::with_max_entries(MAX_SPLITS, FLAGS);
#[map]
pub(crate) static BACKENDS: HashMap<BackendId, Backend> = HashMap::with_max_entries(MAX_BACKENDS, FLAGS);
#[map]
pub(crate) static BACKEND_STATES: HashMap<BackendStateId, BackendState> =
    HashMap::with_max_entries(MAX_BACKENDS, FLAGS);
#[map]
pub(crate) static ENDPOINTS: HashMap<SlotKey, Endpoint> = HashMap::with_max_entries(MAX_ENDPOINTS, FLAGS);
#[map]
pub(crate) static ENDPOINT_STATES: HashMap<EndpointId, EndpointState> = HashMap::with_max_entries(MAX_ENDPOINTS, FLAGS);
#[map]
pub(crate) static RINGS: HashMap<SlotKey, RingValue> = HashMap::with_max_entries(MAX_ENDPOINTS, FLAGS);
#[map]
pub(crate) static CLIENTS: HashMap<ClientKey, NamespaceId> = HashMap::with_max_entries(MAX_CLIENTS, FLAGS);
#[map]
pub(crate) static SETTINGS: Array<Settings> = Array::with_max_entries(1, 0);
#[map]
pub(crate) static HEARTBEAT: Array<Heartbeat> = Array::with_max_entries(1, 0);
#[map]
pub(crate) static STATS: PerCpuHashMap<StatsId, LegRecord> = PerCpuHashMap::with_max_entries(MAX_SPLITS, FLAGS);
#[map]
pub(crate) static REJECTS: PerCpuHashMap<RejectKey, u64> = PerCpuHashMap::with_max_entries(MAX_SPLITS, FLAGS);
#[map]
pub(crate) static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(Counter::COUNT, 0);
#[map]
pub(crate) static EVENTS: RingBuf = RingBuf::with_byte_size(EVENT_BYTES, 0);
/// The trie's key is a [`NameKey`]: its first word and then this many bytes.
#[map]
pub(crate) static NAMES: LpmTrie<[u8; size_of::<NameKey>() - 4], NameValue> =
    LpmTrie::with_max_entries(MAX_NAMES, FLAGS);
#[map]
pub(crate) static LISTENERS: HashMap<u64, Listener> = HashMap::with_max_entries(MAX_LISTENERS, FLAGS);
#[map]
pub(crate) static ACCEPTS: HashMap<AcceptKey, AcceptRecord> = HashMap::with_max_entries(MAX_ACCEPTS, FLAGS);
#[map]
pub(crate) static DIALS: HashMap<u64, Dial> = HashMap::with_max_entries(MAX_ACCEPTS, FLAGS);
#[map]
pub(crate) static RULINGS: LruHashMap<u64, Ruling> = LruHashMap::with_max_entries(MAX_ACCEPTS, 0);
#[map]
pub(crate) static REQUESTS: RingBuf = RingBuf::with_byte_size(REQUEST_BYTES, 0);
/// Where a key is made: it is too long for the stack.
#[map]
pub(crate) static NAME_SCRATCH: PerCpuArray<NameKey> = PerCpuArray::with_max_entries(1, 0);
/// The second program that judges packets, called by the first.
#[map]
pub(crate) static EGRESS_PIECE: ProgramArray = ProgramArray::with_max_entries(1, 0);
#[btf_map]
pub(crate) static GATHERED: SkStorage<Gathered> = SkStorage::new();
#[btf_map]
pub(crate) static SOCKETS: SkStorage<SocketRecord> = SkStorage::new();
