//! Ids as hashes of what they name. The encoding is part of the ABI: a restarted or upgraded agent
//! must come to the same ids.

use crate::ir::{BackendKey, BackendKind, RouteKey};
use siphasher::sip::SipHasher13;
use std::{collections::BTreeMap, hash::Hasher};
use weir_common::{
    abi::{
        ids::{
            BackendId, BackendStateId, EndpointId, FrontendId, NameTableId, NamespaceId, SequenceId, SplitId, StatsId,
        },
        tables::{Endpoint, FrontendKey, Leg, Policy},
    },
    addr::{Address, Family},
    hello::{Candidate, NameValue},
};
use zerocopy::IntoBytes;

/// Hashes fields, each with its length before it, so that no two different lists of fields look alike.
struct Encoder(SipHasher13);

impl Encoder {
    fn new(kind: &str) -> Self {
        Self(SipHasher13::new()).field(kind.as_bytes())
    }

    fn field(mut self, bytes: &[u8]) -> Self {
        self.0.write(&(bytes.len() as u64).to_le_bytes());
        self.0.write(bytes);
        self
    }

    fn route(self, key: &RouteKey) -> Self {
        self.field(key.kind.name().as_bytes()).field(key.object.namespace.as_bytes()).field(key.object.name.as_bytes())
    }

    fn family(self, family: Family) -> Self {
        self.field(family.name().as_bytes())
    }

    /// Returns the hash, never 0: that means "none" in tables.
    fn finish(self) -> u64 {
        self.0.finish().max(1)
    }
}

pub(super) fn frontend(key: &FrontendKey) -> FrontendId {
    FrontendId(Encoder::new("frontend").field(key.as_bytes()).finish())
}

/// Names a namespace of clients.
#[must_use]
pub fn namespace(name: &str) -> NamespaceId {
    NamespaceId(Encoder::new("namespace").field(name.as_bytes()).finish())
}

pub(super) fn route_stats(route: &RouteKey) -> StatsId {
    StatsId(Encoder::new("route").route(route).finish())
}

pub(super) fn leg_stats(route: &RouteKey, label: &str) -> StatsId {
    StatsId(Encoder::new("leg").route(route).field(label.as_bytes()).finish())
}

pub(super) fn backend_state(key: &BackendKey, family: Family) -> BackendStateId {
    let kind = match key.kind {
        BackendKind::Service => "Service",
        BackendKind::Backend => "Backend",
    };
    BackendStateId(
        Encoder::new("backend state")
            .field(kind.as_bytes())
            .field(key.object.namespace.as_bytes())
            .field(key.object.name.as_bytes())
            .field(&key.port.to_le_bytes())
            .family(family)
            .finish(),
    )
}

pub(super) fn endpoint(backend: BackendStateId, address: Address, port: u16) -> EndpointId {
    EndpointId(
        Encoder::new("endpoint").field(backend.as_bytes()).field(&address.octets()).field(&port.to_le_bytes()).finish(),
    )
}

pub(super) fn backend(state: BackendStateId, ring: u32, endpoints: &[Endpoint]) -> BackendId {
    BackendId(
        Encoder::new("backend").field(state.as_bytes()).field(&ring.to_le_bytes()).field(endpoints.as_bytes()).finish(),
    )
}

pub(super) fn sequence(route: &RouteKey, family: Family, policy: Policy, legs: &[Leg]) -> SequenceId {
    let mut encoder = Encoder::new("sequence").route(route).family(family).field(policy.name().as_bytes());
    for leg in legs {
        encoder = encoder.field(leg.stats.as_bytes()).field(&leg.weight().to_le_bytes());
    }
    SequenceId(encoder.finish())
}

pub(super) fn split(sequence: SequenceId, legs: &[Leg]) -> SplitId {
    SplitId(Encoder::new("split").field(sequence.as_bytes()).field(legs.as_bytes()).finish())
}

/// Names the routes that ask for ALPN under one server name.
pub(super) fn alpns(set: &BTreeMap<Vec<u8>, Candidate>) -> u64 {
    let mut encoder = Encoder::new("alpn");
    for (protocol, Candidate { rank, matched }) in set {
        encoder = encoder
            .field(protocol)
            .field(&rank.to_le_bytes())
            .field(matched.split.as_bytes())
            .field(matched.route_stats.as_bytes());
    }
    encoder.finish()
}

/// Names a table of server names.
pub(super) fn names(names: &BTreeMap<String, NameValue>) -> NameTableId {
    let mut encoder = Encoder::new("names");
    for (name, value) in names {
        encoder = encoder.field(name.as_bytes()).field(value.as_bytes());
    }
    NameTableId(encoder.finish())
}

/// Where a node starts in a sequence: different nodes, and a sequence that begins anew, start at
/// different places, so that the first connections of all of them do not meet the same leg.
pub(super) fn phase(node: &str, sequence: SequenceId) -> u64 {
    Encoder::new("phase").field(node.as_bytes()).field(sequence.as_bytes()).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_the_same_over_versions() {
        // A changed number here means that an upgraded agent does not find its tables: raise
        // ABI_VERSION together with it.
        assert_eq!(namespace("shop"), NamespaceId(17_723_523_122_574_145_691));
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let one = Encoder::new("x").field(b"ab").field(b"c").finish();
        let other = Encoder::new("x").field(b"a").field(b"bc").finish();
        assert_ne!(one, other);
    }
}
