//! What is there already: the tables of an earlier agent, and facts about the running kernel.

use super::{
    Error,
    btf::Btf,
    maps::{Counts, Maps, Table, failed, name_key},
};
use crate::{compile::tables::Tables, plan::Retired};
use std::collections::{BTreeMap, BTreeSet};
use weir_common::{
    abi::settings::SockOffsets,
    hello::{NameKey, NameValue},
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Reads the tables that the maps hold.
pub(super) fn tables(maps: &Maps) -> Result<Tables, Error> {
    Ok(Tables {
        frontends: entries(&maps.frontends, "FRONTENDS")?,
        scoped: entries(&maps.scoped, "SCOPED")?,
        splits: entries(&maps.splits, "SPLITS")?,
        names: names(maps)?,
        // The kernel has no such table: the routes that ask for ALPN come with the first state.
        alpns: BTreeMap::new(),
        backends: entries(&maps.backends, "BACKENDS")?,
        endpoints: entries(&maps.endpoints, "ENDPOINTS")?,
        rings: entries(&maps.rings, "RINGS")?,
        clients: entries(&maps.clients, "CLIENTS")?,
    })
}

fn names(maps: &Maps) -> Result<BTreeMap<NameKey, NameValue>, Error> {
    maps.names
        .iter()
        .map(|entry| entry.map(|(key, value)| (name_key(&key), value.0)))
        .collect::<Result<_, _>>()
        .map_err(|error| failed("NAMES", error))
}

/// Lists shared states, tickets and counters: they may be left over from what is gone from the tables.
pub(super) fn leftovers(maps: &Maps) -> Result<BTreeSet<Retired>, Error> {
    let mut found = BTreeSet::new();
    found.extend(entries(&maps.tickets, "TICKETS")?.into_keys().map(Retired::Tickets));
    found.extend(entries(&maps.backend_states, "BACKEND_STATES")?.into_keys().map(Retired::BackendState));
    found.extend(entries(&maps.endpoint_states, "ENDPOINT_STATES")?.into_keys().map(Retired::EndpointState));
    found.extend(keys(&maps.stats, "STATS")?.into_iter().map(Retired::Stats));
    found.extend(keys(&maps.rejects, "REJECTS")?.into_iter().map(|key| Retired::Stats(key.stats)));
    Ok(found)
}

/// Reads all entries of a map.
pub(super) fn entries<K, V>(map: &Table<K, V>, name: &'static str) -> Result<BTreeMap<K, V>, Error>
where
    K: FromBytes + IntoBytes + Immutable + Copy + Ord + 'static,
    V: FromBytes + IntoBytes + Immutable + Copy + 'static,
{
    map.iter()
        .map(|entry| entry.map(|(key, value)| (key.0, value.0)))
        .collect::<Result<_, _>>()
        .map_err(|error| failed(name, error))
}

fn keys<K, V>(map: &Counts<K, V>, name: &'static str) -> Result<Vec<K>, Error>
where
    K: FromBytes + IntoBytes + Immutable + Copy + 'static,
    V: FromBytes + IntoBytes + Immutable + Copy + 'static,
{
    map.keys().map(|key| key.map(|key| key.0)).collect::<Result<_, _>>().map_err(|error| failed(name, error))
}

/// Returns the offsets in the running kernel's `struct sock`, 0 for what cannot be found.
///
/// Without them failed connects are counted, but not by kind, and byte counts may be off by one a
/// connection.
pub(super) fn sock_offsets() -> SockOffsets {
    find_sock_offsets().unwrap_or_else(|error| {
        tracing::warn!(%error, "failed connects cannot be told apart by kind, and no endpoint is ejected");
        SockOffsets::default()
    })
}

const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

fn find_sock_offsets() -> anyhow::Result<SockOffsets> {
    let bytes = std::fs::read(KERNEL_BTF)?;
    let btf = Btf::parse(&bytes)?;
    Ok(SockOffsets {
        err: btf.offset("sock", "sk_err")?,
        // `sk_flags` is a name for this; a socket begins with its `struct sock_common`.
        flags: btf.offset("sock_common", "skc_flags")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_kernel_s_sockets_are_known() {
        let found = sock_offsets();
        let known = std::path::Path::new(KERNEL_BTF).exists();
        for offset in [found.err, found.flags] {
            assert_eq!(offset > 0, known);
            assert!(offset < 4_096 && offset.is_multiple_of(4), "{found:?}");
        }
    }
}
