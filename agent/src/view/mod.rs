//! The view: what people see of a running agent, as one JSON document.
//!
//! Pure: made of what the agent published and one reading of the counters. `weir status` and `weir
//! top` read nothing else, so whatever they show a script can have, too.

mod acceptor;
mod build;
mod name_tables;
mod published;
#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
pub(crate) mod sample_tls;
mod tables;
mod timing;

pub use acceptor::{AcceptorView, NamespaceView};
pub use published::{ClientView, ConditionView, Coverage, Notice, ObjectView, ProgramView, Published, Severity};
pub use tables::TablesView;
pub use timing::Timing;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The JSON of `/status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Weir's version.
    pub version: String,
    /// Name of the node.
    pub node: String,
    /// When the agent started, seconds since 1970.
    pub started_at: u64,
    /// How many states it applied since then.
    pub generation: u64,
    /// When it applied the last one, seconds since 1970.
    pub applied_at: Option<u64>,
    /// CLOCK_MONOTONIC of the reading of the counters, nanoseconds.
    pub read_at_ns: u64,
    /// What keeps the agent from being ready.
    pub missing: Vec<String>,
    /// Where it is attached and what it does not see.
    pub coverage: Coverage,
    /// How it was told to behave.
    pub settings: SettingsView,
    /// What clients dial.
    pub frontends: Vec<FrontendView>,
    /// The routes in force.
    pub routes: Vec<RouteView>,
    /// Their backends.
    pub backends: Vec<BackendView>,
    /// Clients of namespaces.
    pub clients: Vec<ClientView>,
    /// The acceptor of TLS connections.
    #[serde(default)]
    pub acceptor: AcceptorView,
    /// Counters that belong to no route, by name.
    pub counters: BTreeMap<String, u64>,
    /// What is wrong with the configuration as it was read.
    pub problems: Vec<Notice>,
    /// Conditions of objects.
    pub objects: Vec<ObjectView>,
}

/// Settings that people ask about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettingsView {
    /// `freeze`, `bypass` or `reject`.
    pub on_agent_loss: String,
    /// Connect failures in a row that eject an endpoint; 0 is never.
    pub eject_after_failures: u64,
    /// The failures must lie within this time, seconds.
    pub eject_window_seconds: f64,
    /// The first ejection lasts this long, seconds.
    pub eject_base_seconds: f64,
    /// No ejection lasts longer, seconds.
    pub eject_max_seconds: f64,
}

/// One address and port that clients dial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrontendView {
    /// Address and port, as `10.0.0.1:80`.
    pub address: String,
    /// The Service, as `namespace/name`.
    pub service: String,
    /// The route for everyone; none leaves connections alone.
    pub everyone: Option<String>,
    /// Consumer routes, by the clients' namespace.
    pub namespaces: BTreeMap<String, String>,
    /// The paths of TLS connections; none without TLSRoutes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathView>,
}

/// How TLS connections of some clients get to their backends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathView {
    /// The clients' namespace; none for everyone else.
    pub namespace: Option<String>,
    /// `verify`: directly, the kernel checks the server name; `accept`: through the agent.
    pub path: String,
    /// Why not directly.
    pub why: Option<String>,
}

/// A route and its legs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteView {
    /// Kind, namespace and name in one, as `TCPRoute shop/web`.
    pub name: String,
    /// How legs and endpoints are chosen.
    pub policy: String,
    /// Sum of the weights.
    pub total_weight: u64,
    /// Connections rejected before a leg was chosen, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// The legs, in the order of the backendRefs.
    pub legs: Vec<LegView>,
    /// What a TLSRoute matches; none for a TCPRoute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsView>,
}

/// What a TLSRoute matches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TlsView {
    /// Server names, `*.` in front for wildcards.
    pub hostnames: Vec<String>,
    /// ALPN protocols of which the client must offer one; empty if any client will do.
    pub alpn: Vec<String>,
    /// How long a connection through the agent may be idle, seconds; none for ever.
    pub idle_timeout_seconds: Option<f64>,
}

/// One backendRef.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LegView {
    /// The backendRef, as `shop/web:80`.
    pub label: String,
    /// Weight.
    pub weight: u32,
    /// Weight by the sum of weights, 0..=1.
    pub wanted_share: f64,
    /// Decisions for this leg by those of all legs since counting began, under whatever weights there
    /// were; none before the first.
    pub share: Option<f64>,
    /// The backend, if it leads to one.
    pub backend: Option<String>,
    /// The reason, if every connection of this leg is rejected now.
    pub rejects: Option<String>,
    /// Connections sent to an endpoint.
    pub forwarded: u64,
    /// Connections rejected, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Connections whose SYN left.
    pub attempted: u64,
    /// Connections established.
    pub opened: u64,
    /// Established connections that are over.
    pub closed: u64,
    /// Established connections now.
    pub active: u64,
    /// Connects that failed, by kind.
    pub failed: BTreeMap<String, u64>,
    /// Payload bytes to the backend.
    pub sent_bytes: u64,
    /// Payload bytes from the backend.
    pub received_bytes: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// From connect() to the end of the handshake.
    pub connect: Timing,
    /// Smoothed round-trip time at the end of connections.
    pub round_trip: Timing,
    /// From the handshake's end to the connection's.
    pub lifetime: Timing,
}

impl LegView {
    /// Returns how many decisions fell on this leg, forwarded or rejected.
    #[must_use]
    pub fn decided(&self) -> u64 {
        self.forwarded + self.rejected.values().sum::<u64>()
    }

    /// Returns how many connects failed, of all kinds.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }
}

/// A backend and its endpoints of both families.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackendView {
    /// The backend, as `shop/web:80`.
    pub name: String,
    /// The reason, if it has no endpoint at all.
    pub empty: Option<String>,
    /// Its endpoints.
    pub endpoints: Vec<EndpointView>,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndpointView {
    /// Address and port.
    pub address: String,
    /// Whether it is terminating and only used if no other is ready.
    pub terminating: bool,
    /// Connections of this node to it.
    pub open: u64,
    /// Connect failures in a row.
    pub failures: u64,
    /// How much longer it is skipped, seconds; none when it is not ejected.
    pub ejected_for_seconds: Option<f64>,
    /// How often in a row it was ejected.
    pub ejections: u64,
}
