//! Typed handles of the maps.

use super::{Error, Pins, wire::Wire};
use aya::{
    Ebpf,
    maps::{
        Array, HashMap, Map, MapData, MapError, PerCpuArray, PerCpuHashMap, ProgramArray, RingBuf,
        lpm_trie::{Key, LpmTrie},
    },
};
use nix::time::{ClockId, clock_gettime};
use weir_common::{
    abi::{
        ids::{BackendId, BackendStateId, EndpointId, NamespaceId, SequenceId, SplitId, StatsId},
        settings::{Heartbeat, Settings},
        stats::{LegRecord, RejectKey},
        tables::{
            Backend, BackendState, ClientKey, Endpoint, EndpointState, FrontendKey, FrontendValue, RingValue,
            ScopedKey, SlotKey, Split, Target,
        },
    },
    hello::{NameKey, NameValue},
};
use zerocopy::IntoBytes;

pub(super) type Table<K, V> = HashMap<MapData, Wire<K>, Wire<V>>;
pub(super) type Counts<K, V> = PerCpuHashMap<MapData, Wire<K>, Wire<V>>;
pub(super) type NameTrie = LpmTrie<MapData, [u8; NAME_DATA], Wire<NameValue>>;
pub(super) type HeartbeatMap = Array<MapData, Wire<Heartbeat>>;

/// Bytes of a server name's key behind its length.
const NAME_DATA: usize = size_of::<NameKey>() - size_of::<u32>();

/// Every map that the agent uses.
pub(super) struct Maps {
    pub(super) frontends: Table<FrontendKey, FrontendValue>,
    pub(super) scoped: Table<ScopedKey, Target>,
    pub(super) splits: Table<SplitId, Split>,
    pub(super) tickets: Table<SequenceId, u64>,
    pub(super) names: NameTrie,
    pub(super) backends: Table<BackendId, Backend>,
    pub(super) backend_states: Table<BackendStateId, BackendState>,
    pub(super) endpoints: Table<SlotKey, Endpoint>,
    pub(super) endpoint_states: Table<EndpointId, EndpointState>,
    pub(super) rings: Table<SlotKey, RingValue>,
    pub(super) clients: Table<ClientKey, NamespaceId>,
    pub(super) settings: Array<MapData, Wire<Settings>>,
    pub(super) heartbeat: HeartbeatMap,
    pub(super) stats: Counts<StatsId, LegRecord>,
    pub(super) rejects: Counts<RejectKey, u64>,
    pub(super) events: Option<RingBuf<MapData>>,
    pub(super) egress_piece: ProgramArray<MapData>,
}

impl Maps {
    /// Takes the maps out of a loaded object.
    pub(super) fn take(object: &mut Ebpf) -> Result<Self, Error> {
        Ok(Self {
            frontends: typed(object, "FRONTENDS")?,
            scoped: typed(object, "SCOPED")?,
            splits: typed(object, "SPLITS")?,
            tickets: typed(object, "TICKETS")?,
            names: typed(object, "NAMES")?,
            backends: typed(object, "BACKENDS")?,
            backend_states: typed(object, "BACKEND_STATES")?,
            endpoints: typed(object, "ENDPOINTS")?,
            endpoint_states: typed(object, "ENDPOINT_STATES")?,
            rings: typed(object, "RINGS")?,
            clients: typed(object, "CLIENTS")?,
            settings: typed(object, "SETTINGS")?,
            heartbeat: typed(object, "HEARTBEAT")?,
            stats: typed(object, "STATS")?,
            rejects: typed(object, "REJECTS")?,
            events: Some(typed(object, "EVENTS")?),
            egress_piece: typed(object, "EGRESS_PIECE")?,
        })
    }

    pub(super) fn set_settings(&mut self, settings: &Settings) -> Result<(), Error> {
        self.settings.set(0, Wire(*settings), 0).map_err(|source| failed("SETTINGS", source))
    }

    pub(super) fn beat(&mut self) -> Result<(), Error> {
        beat(&mut self.heartbeat)
    }
}

/// Returns the trie's form of a server name's key.
pub(super) fn trie_key(key: &NameKey) -> Key<[u8; NAME_DATA]> {
    let mut data = [0; NAME_DATA];
    data.copy_from_slice(&key.as_bytes()[size_of::<u32>()..]);
    Key::new(key.bits, data)
}

/// Returns the server name's key of one of the trie.
pub(super) fn name_key(key: &Key<[u8; NAME_DATA]>) -> NameKey {
    let mut name = NameKey::EMPTY;
    name.as_mut_bytes()[size_of::<u32>()..].copy_from_slice(&key.data());
    name.bits = key.prefix_len();
    name
}

/// Writes the time into the heartbeat.
pub(super) fn beat(map: &mut HeartbeatMap) -> Result<(), Error> {
    map.set(0, Wire(Heartbeat { last_ns: now_ns() }), 0).map_err(|source| failed("HEARTBEAT", source))
}

/// Opens the heartbeat by its pin.
pub(super) fn open_heartbeat(pins: &Pins) -> Result<HeartbeatMap, Error> {
    pinned(pins, "HEARTBEAT", Map::Array)
}

/// Opens a map by its pin.
pub(super) fn pinned<M>(pins: &Pins, name: &'static str, kind: fn(MapData) -> Map) -> Result<M, Error>
where
    M: TryFrom<Map, Error = MapError>,
{
    MapData::from_pin(pins.map(name)).and_then(|data| M::try_from(kind(data))).map_err(|source| failed(name, source))
}

fn typed<M: TryFrom<Map, Error = MapError>>(object: &mut Ebpf, name: &'static str) -> Result<M, Error> {
    let map = object.take_map(name).ok_or_else(|| Error::Load {
        what: format!("map {name}"),
        source: anyhow::anyhow!("it is not in the object"),
    })?;
    M::try_from(map).map_err(|source| failed(name, source))
}

/// Makes "not there" an answer.
pub(super) fn unless_absent<T>(result: Result<T, MapError>) -> Result<Option<T>, MapError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(MapError::KeyNotFound) => Ok(None),
        Err(MapError::SyscallError(call)) if call.io_error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Names the map of an error, and whether it is full.
pub(super) fn failed(map: &'static str, source: MapError) -> Error {
    let full = matches!(&source, MapError::SyscallError(call) if call.io_error.raw_os_error() == Some(libc::E2BIG));
    Error::Map { map, full, source }
}

/// Returns CLOCK_MONOTONIC in nanoseconds, the clock of the kernel programs.
pub(super) fn now_ns() -> u64 {
    // The clock exists on every Linux; a time before the boot does not.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned())
}

/// Opens the map of counters that belong to no route.
pub(super) fn open_counters(pins: &Pins) -> Result<PerCpuArray<MapData, u64>, Error> {
    pinned(pins, "COUNTERS", Map::PerCpuArray)
}
