//! The tables as plain ordered collections, and the names behind their ids.

use super::path::Path;
use crate::ir::{BackendKey, RouteKey};
use std::{collections::BTreeMap, time::Duration};
use weir_common::{
    abi::{
        ids::{BackendId, BackendStateId, EndpointId, NamespaceId, SplitId, StatsId},
        tables::{
            Backend, ClientKey, Endpoint, FrontendKey, FrontendValue, RingValue, ScopedKey, SlotKey, Split, Target,
            TargetKind,
        },
    },
    hello::{Candidate, NameKey, NameValue},
};

/// A frontend as the clients of one namespace see it, or as everyone else does.
pub type Place = (FrontendKey, Option<NamespaceId>);

/// Everything the agent writes into kernel maps, except settings and heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// `FRONTENDS`.
    pub frontends: BTreeMap<FrontendKey, FrontendValue>,
    /// `SCOPED`.
    pub scoped: BTreeMap<ScopedKey, Target>,
    /// `SPLITS`.
    pub splits: BTreeMap<SplitId, Split>,
    /// `NAMES`: server names, and the splits that they lead to. As immutable as the splits.
    pub names: BTreeMap<NameKey, NameValue>,
    /// The routes that ask for ALPN, by set ([`NameValue::alpn`]) and protocol. The kernel has no such
    /// table: only the acceptor looks here.
    pub alpns: BTreeMap<u64, BTreeMap<Vec<u8>, Candidate>>,
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
    /// The paths of frontends with TLSRoutes.
    pub paths: BTreeMap<Place, Path>,
    /// How long connections of a TLSRoute may be idle on the accept path, by the counters of the route
    /// itself; a route that is not here has no limit.
    pub idle_timeouts: BTreeMap<StatsId, Duration>,
}

/// Whose counters a row holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StatsName {
    /// The route.
    pub route: RouteKey,
    /// The leg's label; `None` for the route itself (rejected before a leg was chosen).
    pub leg: Option<String>,
}

/// Which paths of TLS any frontend takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The kernel verifies ClientHellos.
    pub verify: bool,
    /// The acceptor takes connections.
    pub accept: bool,
}

impl Tables {
    /// Says which paths of TLS are needed.
    #[must_use]
    pub fn demand(&self) -> Demand {
        let targets = self.frontends.values().map(|frontend| &frontend.everyone).chain(self.scoped.values());
        targets.fold(Demand::default(), |demand, target| match target.kind() {
            TargetKind::Verify(..) => Demand { verify: true, ..demand },
            TargetKind::Accept(_) => Demand { accept: true, ..demand },
            TargetKind::Pass | TargetKind::Split(_) | TargetKind::Reject(_) => demand,
        })
    }

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
