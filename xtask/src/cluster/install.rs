//! What a cluster has beside Kubernetes: the Gateway API's kinds, cluster DNS, and Weir.

use super::{golang, kubectl::Kubectl, node::DNS_ADDRESS, place::Place};
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;

/// Image of cluster DNS.
pub(super) const DNS: &str = "weir.dev/dns:dev";

/// Where the shipped manifests expect the cgroup2 hierarchy of a test machine.
const HYBRID: &str = "/sys/fs/cgroup/unified";

/// Installs the kinds of the Gateway API and waits until they are served.
///
/// # Errors
///
/// If they cannot be had or the server refuses them.
pub(super) fn gateway_api(workspace: &Workspace, kubectl: &Kubectl) -> Result<()> {
    kubectl.apply(&golang::gateway_api(workspace)?)?;
    let kinds = ["crd/tcproutes", "crd/tlsroutes", "crd/referencegrants"]
        .map(|kind| format!("{kind}.gateway.networking.k8s.io"));
    let mut arguments = vec!["wait", "--for=condition=Established", "--timeout=60s"];
    arguments.extend(kinds.iter().map(String::as_str));
    kubectl.run(&arguments).map(drop)
}

/// Starts cluster DNS; it need not be ready yet.
///
/// # Errors
///
/// If the server refuses it.
pub(super) fn dns(workspace: &Workspace, kubectl: &Kubectl) -> Result<()> {
    let path = workspace.root().join("tests/cluster/dns/dns.yaml");
    let manifest = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest = manifest.replace("DNS_IMAGE", DNS).replace("DNS_ADDRESS", DNS_ADDRESS);
    kubectl.feed(&["apply", "--server-side", "-f", "-"], &manifest).map(drop)
}

/// Installs Weir by the shipped manifests, as they are overlaid for a test cluster, and waits until it is ready.
///
/// # Errors
///
/// If the server refuses them, or the agent does not get ready.
pub(super) fn weir(workspace: &Workspace, place: &Place, kubectl: &Kubectl) -> Result<()> {
    let overlay = workspace.root().join("tests/cluster/overlay");
    let manifest = kubectl.run(&["kustomize", &overlay.display().to_string()])?;
    let manifest = manifest.replace(HYBRID, &place.cgroup_mount().display().to_string());
    kubectl.feed(&["apply", "--server-side", "-f", "-"], &manifest)?;
    kubectl.rolled_out("weir-system", "daemonset/weir")
}
