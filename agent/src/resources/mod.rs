//! The input of `translate`: objects as they were written, from files or from a cluster.

mod slice;

pub use slice::{EndpointSlice, SliceEndpoint, SlicePort};

use crate::api::{self, Backend, ClientGroup, ReferenceGrant, TCPRoute, TLSRoute};
use k8s_openapi::api::core::v1::{Namespace, Service};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    sync::Arc,
};

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectKey {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// Makes a key.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Everything that decides what the tables hold. Ordered, so that equal input gives equal output.
///
/// Objects are shared with the provider that read them: a snapshot of many objects costs no copies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resources {
    /// Services.
    pub services: BTreeMap<ObjectKey, Arc<Service>>,
    /// EndpointSlices; they name their Service by the label `kubernetes.io/service-name`.
    pub endpoint_slices: BTreeMap<ObjectKey, Arc<EndpointSlice>>,
    /// Namespaces, by name.
    pub namespaces: BTreeMap<String, Arc<Namespace>>,
    /// TCPRoutes.
    pub tcp_routes: BTreeMap<ObjectKey, Arc<TCPRoute>>,
    /// TLSRoutes.
    pub tls_routes: BTreeMap<ObjectKey, Arc<TLSRoute>>,
    /// ReferenceGrants.
    pub reference_grants: BTreeMap<ObjectKey, Arc<ReferenceGrant>>,
    /// Backends.
    pub backends: BTreeMap<ObjectKey, Arc<Backend>>,
    /// ClientGroups.
    pub client_groups: BTreeMap<ObjectKey, Arc<ClientGroup>>,
    /// Last good DNS answers for the host names of Backends; a name that was never resolved is absent.
    pub resolved: BTreeMap<String, Vec<IpAddr>>,
}

impl Resources {
    /// Returns the host names that Backends refer to, in the form that `resolved` is keyed by.
    #[must_use]
    pub fn host_names(&self) -> BTreeSet<String> {
        let endpoints = self.backends.values().flat_map(|backend| &backend.spec.endpoints);
        endpoints.filter_map(|endpoint| endpoint.hostname.as_deref()).map(api::normal_host_name).collect()
    }
}
