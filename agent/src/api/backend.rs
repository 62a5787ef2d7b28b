//! Backend (`weir.dev/v1alpha1`): endpoints outside of any Service.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Spec of a Backend: static addresses, host names, or both.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "weir.dev",
    version = "v1alpha1",
    kind = "Backend",
    plural = "backends",
    namespaced,
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct BackendSpec {
    /// The endpoints, 1..=1,000.
    pub endpoints: Vec<StaticEndpoint>,
}

/// One endpoint of a Backend; has an `address` or a `hostname`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticEndpoint {
    /// IPv4 or IPv6 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Host name: every address that DNS gives for it (A and AAAA) is an endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Port, 1..=65535.
    pub port: i64,
}
