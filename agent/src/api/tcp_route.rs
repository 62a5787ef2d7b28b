//! TCPRoute v1 (Gateway API v1.6, Standard channel).

use super::{BackendRef, ParentReference};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Spec of a TCPRoute.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "gateway.networking.k8s.io",
    version = "v1",
    kind = "TCPRoute",
    plural = "tcproutes",
    namespaced,
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct TCPRouteSpec {
    /// What the route attaches to, at most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parent_refs: Vec<ParentReference>,
    /// Exactly one rule.
    pub rules: Vec<TCPRouteRule>,
}

/// A rule of a TCPRoute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TCPRouteRule {
    /// Name of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where connections go, 1..=16.
    pub backend_refs: Vec<BackendRef>,
}
