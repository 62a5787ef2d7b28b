//! The tables with names beside their ids: the JSON of `/tables`, and what `weir dump` prints.

use super::{build::socket, name_tables::NameTable};
use crate::compile::tables::{Names, Tables};
use serde::Serialize;
use std::{collections::BTreeMap, fmt::Display};
use weir_common::abi::{
    ids::{BackendId, NamespaceId, SplitId, StatsId},
    tables::{
        self, Endpoint, EndpointReadiness, FrontendKey, FrontendValue, Leg, LegKind, SlotKey, Split, Target, TargetKind,
    },
};

/// Every table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TablesView {
    frontends: Vec<Frontend>,
    scoped: Vec<Scoped>,
    splits: Vec<SplitRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<NameTable>,
    backends: Vec<Backend>,
    clients: Vec<Client>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Frontend {
    id: String,
    address: String,
    protocol: u8,
    everyone: TargetRow,
    scoped: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Scoped {
    frontend: String,
    namespace: String,
    target: TargetRow,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum TargetRow {
    Pass,
    Split { split: String, route: String },
    Reject { reason: &'static str, route: String },
    Verify { split: String, names: String, route: String },
    Accept { names: String, route: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct SplitRow {
    id: String,
    policy: &'static str,
    total: u32,
    sequence: String,
    phase: String,
    legs: Vec<LegRow>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct LegRow {
    stats: String,
    name: String,
    weight: u32,
    cumulative: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rejects: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Backend {
    id: String,
    name: String,
    state: String,
    /// Buckets of the consistent-hash ring; how many each slot has is in its endpoint.
    ring: u32,
    endpoints: Vec<Slot>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Slot {
    slot: u32,
    id: String,
    address: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ring_buckets: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Client {
    kind: &'static str,
    id: u64,
    namespace: String,
}

impl TablesView {
    /// Puts names to the tables.
    #[must_use]
    pub fn new(tables: &Tables, names: &Names) -> Self {
        let name = Namer { tables, names };
        Self {
            frontends: name.frontends(),
            scoped: name.scoped(),
            splits: tables.splits.iter().map(|(id, split)| name.split(*id, split)).collect(),
            names: name.name_tables(),
            backends: name.backends(),
            clients: name.clients(),
        }
    }
}

/// Returns the endpoints of one backend, by slot.
pub(super) fn slots(tables: &Tables, backend: BackendId) -> impl Iterator<Item = (u32, &Endpoint)> {
    let range = SlotKey::new(backend, 0)..=SlotKey::new(backend, u32::MAX);
    tables.endpoints.range(range).map(|(key, endpoint)| (key.slot, endpoint))
}

pub(super) fn hex(id: u64) -> String {
    format!("{id:016x}")
}

/// Names what has a name, and the rest by its id: tables may hold what is about to go.
pub(super) struct Namer<'a> {
    pub(super) tables: &'a Tables,
    names: &'a Names,
}

impl Namer<'_> {
    fn known(name: Option<impl Display>, id: u64) -> String {
        name.map_or_else(|| hex(id), |name| name.to_string())
    }

    pub(super) fn stats(&self, id: StatsId) -> String {
        let name = self.names.stats.get(&id).map(|name| match &name.leg {
            Some(leg) => format!("{} -> {leg}", name.route),
            None => name.route.to_string(),
        });
        Self::known(name, id.0)
    }

    fn namespace(&self, id: NamespaceId) -> String {
        Self::known(self.names.namespaces.get(&id), id.0)
    }

    fn target(&self, target: &Target) -> TargetRow {
        match target.kind() {
            TargetKind::Pass => TargetRow::Pass,
            TargetKind::Split(split) => TargetRow::Split { split: hex(split.0), route: self.stats(target.route_stats) },
            TargetKind::Verify(split, names) => {
                TargetRow::Verify { split: hex(split.0), names: hex(names.0), route: self.stats(target.route_stats) }
            }
            TargetKind::Accept(names) => {
                TargetRow::Accept { names: hex(names.0), route: self.stats(target.route_stats) }
            }
            TargetKind::Reject(reason) => {
                TargetRow::Reject { reason: reason.label(), route: self.stats(target.route_stats) }
            }
        }
    }

    fn frontends(&self) -> Vec<Frontend> {
        let row = |(key, value): (&FrontendKey, &FrontendValue)| Frontend {
            id: hex(value.id.0),
            address: socket(key.address, key.port),
            protocol: key.protocol,
            everyone: self.target(&value.everyone),
            scoped: value.is_scoped(),
        };
        self.tables.frontends.iter().map(row).collect()
    }

    fn scoped(&self) -> Vec<Scoped> {
        let addresses: BTreeMap<_, _> =
            self.tables.frontends.iter().map(|(key, value)| (value.id, socket(key.address, key.port))).collect();
        let rows = self.tables.scoped.iter().map(|(key, target)| Scoped {
            frontend: Self::known(addresses.get(&key.frontend), key.frontend.0),
            namespace: self.namespace(key.namespace),
            target: self.target(target),
        });
        rows.collect()
    }

    fn split(&self, id: SplitId, split: &Split) -> SplitRow {
        let used = split.legs.iter().zip(split.cumulative).take(split.n_legs as usize);
        SplitRow {
            id: hex(id.0),
            policy: split.policy().name(),
            total: split.total,
            sequence: hex(split.sequence.0),
            phase: hex(split.phase),
            legs: used.map(|(leg, cumulative)| self.leg(leg, cumulative)).collect(),
        }
    }

    fn leg(&self, leg: &Leg, cumulative: u32) -> LegRow {
        let (backend, rejects) = match leg.kind() {
            LegKind::Backend(id) => (Some(hex(id.0)), None),
            LegKind::Reject(reason) => (None, Some(reason.label())),
        };
        LegRow {
            stats: hex(leg.stats.0),
            name: self.stats(leg.stats),
            weight: leg.weight(),
            cumulative,
            backend,
            rejects,
        }
    }

    fn backends(&self) -> Vec<Backend> {
        let row = |(id, backend): (&BackendId, &tables::Backend)| Backend {
            id: hex(id.0),
            name: Self::known(self.names.backends.get(&backend.state), backend.state.0),
            state: hex(backend.state.0),
            ring: backend.ring,
            endpoints: self.slots(*id, backend.ring),
        };
        self.tables.backends.iter().map(row).collect()
    }

    fn slots(&self, backend: BackendId, ring: u32) -> Vec<Slot> {
        let mut shares: BTreeMap<u32, usize> = BTreeMap::new();
        for value in self.tables.rings.range(SlotKey::new(backend, 0)..=SlotKey::new(backend, u32::MAX)).map(|(_, v)| v)
        {
            *shares.entry(value.slot).or_default() += 1;
        }
        let row = |(slot, endpoint): (u32, &Endpoint)| Slot {
            slot,
            id: hex(endpoint.id.0),
            address: socket(endpoint.address, endpoint.port),
            state: match endpoint.readiness() {
                EndpointReadiness::Ready => "ready",
                EndpointReadiness::ServingTerminating => "serving_terminating",
            },
            ring_buckets: (ring > 0).then(|| shares.get(&slot).copied().unwrap_or(0)),
        };
        slots(self.tables, backend).map(row).collect()
    }

    fn clients(&self) -> Vec<Client> {
        let rows = self.tables.clients.iter().map(|(key, namespace)| Client {
            kind: if key.is_cgroup() { "cgroup" } else { "network_namespace" },
            id: key.id,
            namespace: self.namespace(*namespace),
        });
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::sample;

    #[test]
    fn every_id_that_has_a_name_is_shown_with_it() {
        let published = sample::published();
        let view = TablesView::new(&published.tables, &published.names);
        insta::assert_snapshot!(serde_json::to_string_pretty(&view).expect("JSON"));
    }
}
