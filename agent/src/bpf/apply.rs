//! Carries out operations on the maps.

use super::{
    Error,
    maps::{Maps, Table, failed, trie_key, unless_absent},
    wire::Wire,
};
use crate::plan::{Op, Retired};
use aya::maps::MapError;
use weir_common::abi::{
    ids::StatsId,
    stats::RejectKey,
    tables::{BackendState, EndpointState},
};
use weir_common::reason::Reason;
use zerocopy::{FromBytes, Immutable, IntoBytes};

const ANY: u64 = 0;
const NO_EXIST: u64 = 1;

pub(super) fn apply(maps: &mut Maps, op: &Op) -> Result<(), Error> {
    match *op {
        Op::MakeEndpointState(id) => make(&mut maps.endpoint_states, "ENDPOINT_STATES", id, EndpointState::default()),
        Op::MakeBackendState(id) => make(&mut maps.backend_states, "BACKEND_STATES", id, BackendState::default()),
        Op::MakeTickets(id) => make(&mut maps.tickets, "TICKETS", id, 0),
        Op::PutEndpoint(key, value) => put(&mut maps.endpoints, "ENDPOINTS", key, value),
        Op::PutRing(key, value) => put(&mut maps.rings, "RINGS", key, value),
        Op::PutBackend(key, value) => put(&mut maps.backends, "BACKENDS", key, value),
        Op::PutSplit(key, value) => put(&mut maps.splits, "SPLITS", key, value),
        Op::PutName(key, value) => {
            maps.names.insert(&trie_key(&key), Wire(value), ANY).map_err(|error| failed("NAMES", error))
        }
        Op::PutClient(key, value) => put(&mut maps.clients, "CLIENTS", key, value),
        Op::PutScoped(key, value) => put(&mut maps.scoped, "SCOPED", key, value),
        Op::PutFrontend(key, value) => put(&mut maps.frontends, "FRONTENDS", key, value),
        Op::DeleteFrontend(key) => delete(&mut maps.frontends, "FRONTENDS", key),
        Op::DeleteScoped(key) => delete(&mut maps.scoped, "SCOPED", key),
        Op::DeleteClient(key) => delete(&mut maps.clients, "CLIENTS", key),
        Op::DeleteName(key) => absent(maps.names.remove(&trie_key(&key))).map_err(|error| failed("NAMES", error)),
        Op::Retire(retired) => match retired {
            Retired::Split(id) => delete(&mut maps.splits, "SPLITS", id),
            Retired::Tickets(id) => delete(&mut maps.tickets, "TICKETS", id),
            Retired::Backend(id) => delete(&mut maps.backends, "BACKENDS", id),
            Retired::BackendState(id) => delete(&mut maps.backend_states, "BACKEND_STATES", id),
            Retired::Endpoint(key) => delete(&mut maps.endpoints, "ENDPOINTS", key),
            Retired::Ring(key) => delete(&mut maps.rings, "RINGS", key),
            Retired::EndpointState(id) => delete(&mut maps.endpoint_states, "ENDPOINT_STATES", id),
            // Each of its names is an operation.
            Retired::NameTable(_) => Ok(()),
            Retired::Stats(id) => forget_counts(maps, id),
        },
    }
}

/// Removes a row of counters with everything that hangs on it.
pub(super) fn forget_counts(maps: &mut Maps, id: StatsId) -> Result<(), Error> {
    absent(maps.stats.remove(&Wire(id))).map_err(|error| failed("STATS", error))?;
    for reason in Reason::ALL {
        absent(maps.rejects.remove(&Wire(RejectKey::new(id, reason)))).map_err(|error| failed("REJECTS", error))?;
    }
    Ok(())
}

fn put<K, V>(map: &mut Table<K, V>, name: &'static str, key: K, value: V) -> Result<(), Error>
where
    K: FromBytes + IntoBytes + Immutable + Copy + 'static,
    V: FromBytes + IntoBytes + Immutable + Copy + 'static,
{
    map.insert(Wire(key), Wire(value), ANY).map_err(|error| failed(name, error))
}

/// Makes an entry that the programs then change; one that is there stays as it is.
fn make<K, V>(map: &mut Table<K, V>, name: &'static str, key: K, value: V) -> Result<(), Error>
where
    K: FromBytes + IntoBytes + Immutable + Copy + 'static,
    V: FromBytes + IntoBytes + Immutable + Copy + 'static,
{
    match map.insert(Wire(key), Wire(value), NO_EXIST) {
        Err(MapError::SyscallError(call)) if call.io_error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        done => done.map_err(|error| failed(name, error)),
    }
}

fn delete<K, V>(map: &mut Table<K, V>, name: &'static str, key: K) -> Result<(), Error>
where
    K: FromBytes + IntoBytes + Immutable + Copy + 'static,
    V: FromBytes + IntoBytes + Immutable + Copy + 'static,
{
    absent(map.remove(&Wire(key))).map_err(|error| failed(name, error))
}

/// Takes "not there" for done.
fn absent(result: Result<(), MapError>) -> Result<(), MapError> {
    unless_absent(result).map(drop)
}
