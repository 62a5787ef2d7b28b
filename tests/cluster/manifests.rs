//! The Helm chart gives a working DaemonSet, as the manifests do by which the other scenarios' cluster got it.

use crate::outages::split;
use anyhow::{Context as _, Result, bail};
use serde_json::json;
use std::{env, process::Command};
use weir_tests::cluster::Cluster;

/// Names the program.
const HELM: &str = "WEIR_HELM";

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/helm/weir");

#[test]
fn the_chart_installs_an_agent_that_splits() -> Result<()> {
    let cluster = Cluster::get()?;
    cluster.run(&["delete", "namespace", "weir-system"])?;
    cluster.run(&["delete", "clusterrole,clusterrolebinding", "weir"])?;

    // What the overlay sets for the other scenarios.
    let environment = json!([
        {"name": "WEIR_CGROUP_ROOT", "value": format!("{}/$(WEIR_NODE_NAME)", cluster.cgroups.display())},
        {"name": "WEIR_PIN_DIR", "value": "/sys/fs/bpf/$(WEIR_NODE_NAME)"},
    ]);
    let mut helm = Command::new(env::var_os(HELM).context("run `cargo xtask test --cluster`, which builds Helm")?);
    helm.args(["template", "weir", CHART, "--namespace", "weir-system", "--include-crds"]);
    helm.args(["--set", "namespace.create=true", "--set-json", &format!("agent.env={environment}")]);
    let output = helm.output().context("cannot start helm")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    cluster.apply(String::from_utf8(output.stdout)?)?;
    cluster.run(&["-n", "weir-system", "rollout", "status", "daemonset/weir", "--timeout=180s"])?;

    let space = split(&cluster, "chart")?;
    for address in space.addresses("shop")? {
        let report = space.dial("client", address, 80, &[], 100)?;
        assert_eq!(report.failed_in_all(), 0, "{report:?}");
        assert!(report.answered("v1").abs_diff(50) <= 4, "{report:?}");
    }
    Ok(())
}
