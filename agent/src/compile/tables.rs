//! The tables as plain ordered collections, and the names behind their ids.

use crate::ir::{BackendKey, RouteKey};
use std::collections::BTreeMap;
use weir_common::abi::{
    ids::{BackendId, BackendStateId, EndpointId, NamespaceId, SplitId, StatsId},
    tables::{Backend, ClientKey, Endpoint, FrontendKey, FrontendValue, RingValue, ScopedKey, SlotKey, Split, Target},
};

/// Everything the agent writes into kernel maps, except settings and heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// `FRONTENDS`.
    pub frontends: BTreeMap<FrontendKey, FrontendValue>,
    /// `SCOPED`.
    pub scoped: BTreeMap<ScopedKey, Target>,
    /// `SPLITS`.
    pub splits: BTreeMap<SplitId, Split>,
    /// `BACKENDS`.
    pub backends: BTreeMap<BackendId, Backend>,
    /// `ENDPOINTS`.
    pub endpoints: BTreeMap<SlotKey, Endpoint>,
    /// `RINGS`.
    pub rings: BTreeMap<SlotKey, RingValue>,
    /// `CLIENTS`.
    pub clients: BTreeMap<ClientKey, NamespaceId>,
}

/// What the ids mean, for people and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Rows of counters.
    pub stats: BTreeMap<StatsId, StatsName>,
    /// Backends, per address family.
    pub backends: BTreeMap<BackendStateId, BackendKey>,
    /// Namespaces of clients.
    pub namespaces: BTreeMap<NamespaceId, String>,
}

/// Whose counters a row holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StatsName {
    /// The route.
    pub route: RouteKey,
    /// The leg's label; `None` for the route itself (rejected before a leg was chosen).
    pub leg: Option<String>,
}

impl Tables {
    /// Returns every endpoint with its backend.
    pub fn endpoints_of_backends(&self) -> impl Iterator<Item = (&Endpoint, BackendStateId)> {
        self.endpoints.iter().filter_map(|(key, endpoint)| Some((endpoint, self.backends.get(&key.backend)?.state)))
    }

    /// Returns the backend of an endpoint. Looks at all of them: for rare events.
    #[must_use]
    pub fn backend_of(&self, id: EndpointId) -> Option<BackendStateId> {
        self.endpoints_of_backends().find(|(endpoint, _)| endpoint.id == id).map(|(_, backend)| backend)
    }
}
