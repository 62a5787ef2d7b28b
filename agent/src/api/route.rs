//! What the route kinds have in common.

use super::{BackendRef, ParentReference, check::Check};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A rule of a TCPRoute or a TLSRoute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteRule {
    /// Name of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where connections go, 1..=16.
    pub backend_refs: Vec<BackendRef>,
}

/// A route of any kind.
pub trait Route: Check {
    /// Returns the object's metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Returns what the route attaches to.
    fn parent_refs(&self) -> &[ParentReference];

    /// Returns the server names that the route matches, as they are written; none for a TCPRoute.
    fn hostnames(&self) -> &[String];

    /// Returns the rules.
    fn rules(&self) -> &[RouteRule];
}
