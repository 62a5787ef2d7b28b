//! The API server is gone for a while; the agent is replaced, or killed, under load.

use anyhow::{Result, ensure};
use nix::sys::signal::{Signal, kill};
use weir_tests::{
    cluster::{Cluster, LONG, Space},
    manifest::Route,
    report::Report,
    wait,
};

const AGENT: &str = "/weir";

/// A Service `shop` that a route splits evenly between v1 and v2, and a client on the second node.
pub(crate) fn split<'a>(cluster: &'a Cluster, label: &str) -> Result<Space<'a>> {
    let space = cluster.space(label)?;
    for version in ["v1", "v2"] {
        space.server(version, &cluster.nodes[0])?;
        space.service(version, version)?;
    }
    space.service("shop", "v1")?;
    space.client("client", &cluster.nodes[1])?;
    space.ready()?;
    weigh(&space, [1, 1])?;
    let [address, _] = space.addresses("shop")?;
    wait::until("the split", LONG, || {
        space.dial("client", address, 80, &[], 20).ok().filter(|report| report.answers.len() == 2)
    })?;
    Ok(space)
}

/// Writes the weights of the split.
pub(crate) fn weigh(space: &Space<'_>, weights: [u32; 2]) -> Result<()> {
    let name = |object: &str| format!("{}/{object}", space.name());
    let backends = [(name("v1"), 80, weights[0]), (name("v2"), 80, weights[1])];
    let backends: Vec<(&str, u16, u32)> =
        backends.iter().map(|(name, port, weight)| (name.as_str(), *port, *weight)).collect();
    space.route(&Route { port: Some(80), ..Route::new(&name("split"), &name("shop"), &backends) })
}

/// Most connections that a share is off with one table.
const OFF: u64 = 4;

/// No connection failed, and each version has its half but for some.
pub(crate) fn assert_even(report: &Report, off: u64) {
    assert_eq!(report.failed_in_all(), 0, "{report:?}");
    let (one, other) = (report.answered("v1"), report.answered("v2"));
    assert!(one + other > 500 && one.abs_diff(other) <= 2 * off, "{report:?}");
}

#[test]
fn without_the_api_server_nothing_changes_and_afterwards_changes_follow() -> Result<()> {
    let cluster = Cluster::get()?;
    let space = split(&cluster, "outage")?;
    let [address, _] = space.addresses("shop")?;
    let mut load = space.load("client", address, 80, &["--pause-us", "1000"])?;
    cluster.kill("kube-apiserver")?;
    wait::until("end of the API server", LONG, || cluster.run(&["get", "--raw", "/readyz"]).is_err().then_some(()))?;
    let before = load.report()?.answered_in_all();
    wait::until("500 connections without an API server", LONG, || {
        load.report().ok().filter(|report| report.answered_in_all() > before + 500)
    })?;
    cluster.start("kube-apiserver")?;
    wait::until("the API server's return", LONG, || cluster.run(&["get", "--raw", "/readyz"]).ok())?;
    assert_even(&load.end()?, OFF);
    weigh(&space, [0, 1])?;
    wait::until("the change after the outage", LONG, || {
        space.dial("client", address, 80, &[], 20).ok().filter(|report| report.answered("v2") == 20)
    })?;
    Ok(())
}

#[test]
fn a_rolling_update_under_load_loses_no_connection() -> Result<()> {
    let cluster = Cluster::get()?;
    let space = split(&cluster, "rolling")?;
    let [_, address] = space.addresses("shop")?;
    let load = space.load("client", address, 80, &["--pause-us", "1000", "--workers", "2"])?;
    cluster.run(&["-n", "weir-system", "rollout", "restart", "daemonset/weir"])?;
    cluster.run(&["-n", "weir-system", "rollout", "status", "daemonset/weir", "--timeout=180s"])?;
    assert_even(&load.end()?, OFF);
    Ok(())
}

#[test]
fn a_killed_agent_under_load_loses_no_connection() -> Result<()> {
    let cluster = Cluster::get()?;
    let space = split(&cluster, "killed")?;
    let [address, _] = space.addresses("shop")?;
    let load = space.load("client", address, 80, &["--pause-us", "1000", "--workers", "2"])?;
    for node in &cluster.nodes {
        let agents = cluster.processes(node, AGENT)?;
        ensure!(agents.len() == 1, "{node} has the agents {agents:?}");
        kill(agents[0], Signal::SIGKILL)?;
        wait::until("a new agent", LONG, || {
            let now = cluster.processes(node, AGENT).ok()?;
            (now.len() == 1 && now != agents).then_some(())
        })?;
    }
    cluster.run(&["-n", "weir-system", "rollout", "status", "daemonset/weir", "--timeout=180s"])?;
    assert_even(&load.end()?, OFF);
    Ok(())
}
