//! What `translate` makes of the resources: names instead of ids, rules applied, errors in place.
//!
//! Pure data. It holds what is wrong, too: a leg that cannot be followed keeps its weight and says why.

use crate::resources::ObjectKey;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};
use weir_common::{
    abi::tables::{EndpointReadiness, Policy},
    addr::Address,
    reason::Reason,
};

/// The wanted state of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// What clients dial, by address and Service port (TCP).
    pub frontends: BTreeMap<(Address, u16), Frontend>,
    /// Every route that some frontend refers to.
    pub routes: BTreeMap<RouteKey, Route>,
    /// Every backend that some leg refers to.
    pub backends: BTreeMap<BackendKey, Backend>,
    /// Which processes are clients of which namespace.
    pub clients: BTreeSet<Client>,
}

/// A frontend: one address and port of a Service that routes attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontend {
    /// The Service.
    pub service: ObjectKey,
    /// What applies to every client that has no route of its own; `None` leaves them alone.
    pub everyone: Option<Scope>,
    /// Consumer routes, by the clients' namespace.
    pub namespaces: BTreeMap<String, Scope>,
}

impl Frontend {
    /// Returns everything that applies to some clients.
    pub fn scopes(&self) -> impl Iterator<Item = &Scope> + Clone {
        self.everyone.iter().chain(self.namespaces.values())
    }

    /// Returns every route that is in force for some clients.
    pub fn routes(&self) -> impl Iterator<Item = &RouteKey> + Clone {
        self.scopes().flat_map(Scope::routes)
    }
}

/// The routes in force for the same clients of a frontend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One TCPRoute.
    Tcp(RouteKey),
    /// TLSRoutes, at least one, in order of precedence: of two with the same server name the first wins.
    Tls(Vec<RouteKey>),
}

impl Scope {
    /// Returns its routes, in order of precedence.
    #[must_use]
    pub fn routes(&self) -> &[RouteKey] {
        match self {
            Self::Tcp(route) => std::slice::from_ref(route),
            Self::Tls(routes) => routes,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, route) in self.routes().iter().enumerate() {
            write!(f, "{}{route}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Names a route. Later kinds sort beside TCPRoute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RouteKey {
    /// Kind.
    pub kind: RouteKind,
    /// Namespace and name.
    #[serde(flatten)]
    pub object: ObjectKey,
}

impl fmt::Display for RouteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.object)
    }
}

/// Kinds of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum RouteKind {
    /// TCPRoute.
    #[serde(rename = "TCPRoute")]
    Tcp,
    /// TLSRoute.
    #[serde(rename = "TLSRoute")]
    Tls,
}

impl RouteKind {
    /// Returns the kind as it is written in objects.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCPRoute",
            Self::Tls => "TLSRoute",
        }
    }
}

/// A route's one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// How legs and endpoints are chosen.
    pub policy: Policy,
    /// The legs in the order of the backendRefs, 1..=16.
    pub legs: Vec<Leg>,
    /// What a TLSRoute matches; `None` for a TCPRoute.
    pub tls: Option<TlsMatch>,
}

/// What a TLSRoute matches, and how it treats its connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsMatch {
    /// Server names, lower case, `*.` in front for wildcards; 1..=1,024.
    pub hostnames: Vec<String>,
    /// ALPN protocols, one of which the client must offer (annotation `weir.dev/alpn`); empty if any
    /// client will do.
    pub alpn: Vec<String>,
    /// How long a connection of the accept path may be idle (annotation `weir.dev/idle-timeout`); `None`
    /// for ever.
    pub idle_timeout: Option<Duration>,
}

/// A backendRef with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The backendRef for people and metrics: `[Kind ]namespace/name:port`, kind only if not Service;
    /// a second leg to the same backend has `#2` behind it, and so on: unique inside the route.
    pub label: String,
    /// 0..=1,000,000.
    pub weight: u32,
    /// Where it leads, or why it rejects.
    pub target: Result<BackendKey, Reason>,
}

/// Names a backend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct BackendKey {
    /// Kind.
    pub kind: BackendKind,
    /// Namespace and name.
    #[serde(flatten)]
    pub object: ObjectKey,
    /// Service port; 0 for a kind that has no ports of its own.
    pub port: u16,
}

impl fmt::Display for BackendKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            BackendKind::Service => write!(f, "{}:{}", self.object, self.port),
            BackendKind::Backend => write!(f, "Backend {}", self.object),
        }
    }
}

/// Kinds of backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum BackendKind {
    /// A Service.
    Service,
    /// A Backend (`weir.dev/v1alpha1`).
    Backend,
}

impl BackendKind {
    /// Returns the kind as it is written in objects.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::Backend => "Backend",
        }
    }
}

/// A backend's endpoints, of both families.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backend {
    /// Endpoints that may be used at all: ready, or serving while they terminate.
    pub endpoints: BTreeSet<Endpoint>,
    /// Why there are no endpoints, if there are none; `NoEndpoints` unless something better is known.
    pub empty: Option<Reason>,
}

/// One address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Address.
    pub address: Address,
    /// Port.
    pub port: u16,
    /// Ready, or serving while terminating.
    pub readiness: EndpointReadiness,
}

/// Processes that are clients of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Client {
    /// The namespace.
    pub namespace: String,
    /// The processes.
    pub processes: Processes,
}

/// A way to name processes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Processes {
    /// Those in any cgroup of this name (a systemd unit).
    SystemdUnit(String),
    /// Those in the cgroup at this path below the cgroup2 root, or further down.
    CgroupPath(String),
    /// Those in the named network namespace.
    NetworkNamespace(String),
}
