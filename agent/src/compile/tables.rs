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
    /// Endpoints: their backend. Address and port are in `Tables::endpoints`.
    pub endpoints: BTreeMap<EndpointId, BackendStateId>,
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
