//! TCPRoute v1 (Gateway API v1.6, Standard channel).

use super::{ParentReference, Route, RouteRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
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
    pub rules: Vec<RouteRule>,
}

impl Route for TCPRoute {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn parent_refs(&self) -> &[ParentReference] {
        &self.spec.parent_refs
    }

    fn hostnames(&self) -> &[String] {
        &[]
    }

    fn rules(&self) -> &[RouteRule] {
        &self.spec.rules
    }
}
