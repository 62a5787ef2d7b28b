//! ClientGroup (`weir.dev/v1alpha1`): which processes of this machine are clients of its namespace.

#![expect(unreachable_pub, reason = "KubeSchema copies the types into a function")]

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// Spec of a ClientGroup: a process belongs to it if one of the selectors names it.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "weir.dev",
    version = "v1alpha1",
    kind = "ClientGroup",
    plural = "clientgroups",
    namespaced,
    derive = "PartialEq",
    doc = "Names processes of a machine, outside of Kubernetes, as clients of a namespace.",
    printcolumn = r#"{"name": "First unit", "type": "string", "jsonPath": ".spec.clients[0].systemdUnit"}"#,
    printcolumn = r#"{"name": "First cgroup", "type": "string", "jsonPath": ".spec.clients[0].cgroupPath"}"#,
    printcolumn = r#"{"name": "First network namespace", "type": "string", "jsonPath": ".spec.clients[0].networkNamespace"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ClientGroupSpec {
    /// The selectors, 1..=64.
    #[schemars(length(min = 1, max = 64))]
    pub clients: Vec<ClientSelector>,
}

/// Names processes in exactly one of three ways.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.systemdUnit), has(self.cgroupPath), has(self.networkNamespace)].filter(x, x).size() == 1")
    .message("write exactly one of systemdUnit, cgroupPath, networkNamespace"))]
pub struct ClientSelector {
    /// Name of a systemd unit, for instance `billing.service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), regex(pattern = r"^[^/]*\.[^/]*$"))]
    pub systemd_unit: Option<String>,
    /// Path of a cgroup below the root of the cgroup2 hierarchy, for instance `/batch.slice`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4_095), regex(pattern = "^/.+$"))]
    #[x_kube(validation = Rule::new("!self.matches('/\\\\.\\\\.(/|$)')")
        .message("leads out of the cgroup2 root: write it like /batch.slice, without .."))]
    pub cgroup_path: Option<String>,
    /// Name of a network namespace, as `ip netns` knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255), regex(pattern = "^[^/]+$"))]
    #[x_kube(validation = Rule::new("!(self in ['.', '..'])")
        .message("is not the name of a network namespace: write one that `ip netns` lists"))]
    pub network_namespace: Option<String>,
}
