//! The Kubernetes kinds that Weir reads and that k8s-openapi does not carry.
//!
//! Gateway API v1.6: one `ParentReference` and one `BackendRef` for all route kinds. Fields that the
//! CRD gives a default are optional here, because objects may come from files, not from a server.

mod backend;
pub mod check;
mod client_group;
mod reference_grant;
mod refs;
mod route;
mod tcp_route;
mod tls_route;

pub use backend::{Backend, BackendSpec, StaticEndpoint};
pub use client_group::{ClientGroup, ClientGroupSpec, ClientSelector};
pub use reference_grant::{ReferenceGrant, ReferenceGrantFrom, ReferenceGrantSpec, ReferenceGrantTo};
pub use refs::{BackendRef, ParentReference};
pub use route::{Route, RouteRule};
pub use tcp_route::{TCPRoute, TCPRouteSpec};
pub use tls_route::{TLSRoute, TLSRouteSpec};

/// API group of the Gateway API.
pub const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";
/// API group of Weir's own kinds and annotations.
pub const WEIR_GROUP: &str = "weir.dev";
/// Annotation on a route: how a leg and an endpoint are chosen
/// (`weir_common::abi::tables::Policy::name`).
pub const LOAD_BALANCING: &str = "weir.dev/load-balancing";
/// Annotation on a TLSRoute: protocols, with commas between them, one of which the client must offer
/// (`ir::TlsMatch::alpn`).
pub const ALPN: &str = "weir.dev/alpn";
/// Annotation on a TLSRoute: how long a connection of the accept path may be idle, spelled as
/// [`crate::time::seconds`] reads it (`ir::TlsMatch::idle_timeout`).
pub const IDLE_TIMEOUT: &str = "weir.dev/idle-timeout";
/// Prefix of Weir's annotations.
pub const WEIR_PREFIX: &str = "weir.dev/";
/// Label of an EndpointSlice: the name of its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Returns a host name in lower case, so that equal names compare equal. A final dot stays: it says that
/// the search list of the machine does not apply.
#[must_use]
pub fn normal_host_name(name: &str) -> String {
    name.to_ascii_lowercase()
}
