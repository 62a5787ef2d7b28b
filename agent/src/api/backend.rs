//! Backend (`weir.dev/v1alpha1`): endpoints outside of any Service.

#![expect(unreachable_pub, reason = "KubeSchema copies the types into a function")]

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// Spec of a Backend: static addresses, host names, or both.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "weir.dev",
    version = "v1alpha1",
    kind = "Backend",
    plural = "backends",
    namespaced,
    derive = "PartialEq",
    doc = "Endpoints outside of any Service, to which a TCPRoute or TLSRoute can send connections.",
    printcolumn = r#"{"name": "First address", "type": "string", "jsonPath": ".spec.endpoints[0].address"}"#,
    printcolumn = r#"{"name": "First hostname", "type": "string", "jsonPath": ".spec.endpoints[0].hostname"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct BackendSpec {
    /// The endpoints, 1..=1,000.
    #[schemars(length(min = 1, max = 1_000))]
    pub endpoints: Vec<StaticEndpoint>,
}

/// One endpoint of a Backend; has an `address` or a `hostname`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.address) != has(self.hostname)")
    .message("has neither address nor hostname, or both: write one of them"))]
pub struct StaticEndpoint {
    /// IPv4 or IPv6 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 45))]
    #[x_kube(validation = Rule::new("isIP(self) && (ip(self).isGlobalUnicast() || ip(self).isLinkLocalUnicast() || ip(self).isLoopback())")
        .message("is not an IPv4 or IPv6 address that one can connect to: for a host name, use the field hostname"))]
    pub address: Option<String>,
    /// Host name: every address that DNS gives for it (A and AAAA) is an endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 254), regex(pattern = r"^[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?$"))]
    pub hostname: Option<String>,
    /// Port, 1..=65535.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: i64,
}
