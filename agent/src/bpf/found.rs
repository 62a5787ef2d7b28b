//! What is there already: the tables of an earlier agent, and facts about the running kernel.

use super::{
    Error,
    maps::{Counts, Maps, Table, failed},
};
use crate::{compile::tables::Tables, plan::Retired};
use btf_rs::{Btf, Type};
use std::collections::{BTreeMap, BTreeSet};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Reads the tables that the maps hold.
pub(super) fn tables(maps: &Maps) -> Result<Tables, Error> {
    Ok(Tables {
        frontends: entries(&maps.frontends, "FRONTENDS")?,
        scoped: entries(&maps.scoped, "SCOPED")?,
        splits: entries(&maps.splits, "SPLITS")?,
        backends: entries(&maps.backends, "BACKENDS")?,
        endpoints: entries(&maps.endpoints, "ENDPOINTS")?,
        rings: entries(&maps.rings, "RINGS")?,
        clients: entries(&maps.clients, "CLIENTS")?,
    })
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

/// Returns the offset of `sk_err` in the running kernel's `struct sock`, 0 if it cannot be found.
///
/// Connect failures are then counted, but not by kind.
pub(super) fn sk_err_offset() -> u32 {
    match find_sk_err() {
        Ok(offset) => offset,
        Err(error) => {
            tracing::warn!(%error, "failed connects cannot be told apart by kind: the kernel's BTF does not help");
            0
        }
    }
}

fn find_sk_err() -> anyhow::Result<u32> {
    let btf = Btf::from_file("/sys/kernel/btf/vmlinux")?;
    for kind in btf.resolve_types_by_name("sock")? {
        let Type::Struct(sock) = kind else { continue };
        for member in &sock.members {
            if btf.resolve_name(member)? == "sk_err" {
                return Ok(member.bit_offset() / 8);
            }
        }
    }
    anyhow::bail!("struct sock has no sk_err")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sk_err_is_found_in_the_running_kernel() {
        if std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
            let offset = find_sk_err().expect("an offset");
            assert!(offset > 0 && offset < 4_096 && offset.is_multiple_of(4), "{offset}");
        } else {
            assert!(find_sk_err().is_err());
        }
    }
}
