//! ClientGroup (`weir.dev/v1alpha1`): which processes of this machine are clients of its namespace.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Spec of a ClientGroup: a process belongs to it if one of the selectors names it.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "weir.dev",
    version = "v1alpha1",
    kind = "ClientGroup",
    plural = "clientgroups",
    namespaced,
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ClientGroupSpec {
    /// The selectors, 1..=64.
    pub clients: Vec<ClientSelector>,
}

/// Names processes in exactly one of three ways.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientSelector {
    /// Name of a systemd unit, for instance `billing.service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub systemd_unit: Option<String>,
    /// Path of a cgroup below the root of the cgroup2 hierarchy, for instance `/batch.slice`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_path: Option<String>,
    /// Name of a network namespace, as `ip netns` knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_namespace: Option<String>,
}
