//! The status of a route says what became of it, for the generation that it has, and stays when the writer is lost.

use crate::outages::{split, weigh};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use weir_tests::{
    cluster::{Cluster, LONG, Space},
    manifest::Route,
    wait,
};

/// Conditions of a route for its one parent, by type: status, reason and the generation that they are of.
type Conditions = BTreeMap<String, (String, String, u64)>;

fn conditions(space: &Space<'_>, route: &str) -> Result<(u64, Conditions)> {
    let route: Value = serde_json::from_str(&space.run(&["get", "tcproute", route, "-o", "json"])?)?;
    let generation = route["metadata"]["generation"].as_u64().context("a route without a generation")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let listed = route["status"]["parents"][0]["conditions"].as_array().cloned().unwrap_or_default();
    let named = listed.iter().map(|condition| {
        let of = condition["observedGeneration"].as_u64().unwrap_or_default();
        (text(&condition["type"]), (text(&condition["status"]), text(&condition["reason"]), of))
    });
    Ok((generation, named.collect()))
}

/// Waits until conditions have this status and reason, for the newest generation.
fn become_so(space: &Space<'_>, route: &str, wanted: &[(&str, &str, &str)]) -> Result<()> {
    let mut last = (0, Conditions::new());
    let became = wait::until(&format!("{wanted:?}"), LONG, || {
        last = conditions(space, route).ok()?;
        let (generation, conditions) = &last;
        let is_so = |(kind, status, reason): &(&str, &str, &str)| {
            conditions.get(*kind).is_some_and(|found| *found == ((*status).into(), (*reason).into(), *generation))
        };
        wanted.iter().all(is_so).then_some(())
    });
    became.with_context(|| format!("{last:?}"))
}

const RIGHT: [(&str, &str, &str); 2] = [("Accepted", "True", "Accepted"), ("ResolvedRefs", "True", "ResolvedRefs")];

#[test]
fn the_status_follows_the_generation_and_names_what_is_wrong() -> Result<()> {
    let cluster = Cluster::get()?;
    let space = split(&cluster, "status")?;
    become_so(&space, "split", &RIGHT)?;
    weigh(&space, [3, 1])?;
    become_so(&space, "split", &RIGHT)?;

    let name = |object: &str| format!("{}/{object}", space.name());
    let (route, shop, gone) = (name("lost"), name("v1"), name("gone"));
    space.route(&Route { port: Some(80), ..Route::new(&route, &shop, &[(&gone, 80, 1)]) })?;
    let lost = [("Accepted", "True", "Accepted"), ("ResolvedRefs", "False", "BackendNotFound")];
    become_so(&space, "lost", &lost)?;
    space.service("gone", "v2")?;
    become_so(&space, "lost", &RIGHT)
}

#[test]
fn when_the_writer_is_lost_another_goes_on() -> Result<()> {
    let cluster = Cluster::get()?;
    let space = split(&cluster, "leader")?;
    become_so(&space, "split", &RIGHT)?;
    let holder = "jsonpath={.items[0].spec.holderIdentity}";
    let leader = || cluster.run(&["-n", "weir-system", "get", "leases", "-o", holder]);
    let first = leader()?;
    let pods = "jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName}{\"\\n\"}{end}";
    let pods = cluster.run(&["-n", "weir-system", "get", "pods", "-o", pods])?;
    let pod = pods.lines().filter_map(|line| line.split_once(' ')).find(|(pod, node)| {
        // The identity has the one or the other.
        first.contains(pod) || first.contains(node)
    });
    let (pod, _) = pod.with_context(|| format!("the writer {first} is none of\n{pods}"))?;
    cluster.run(&["-n", "weir-system", "delete", "pod", pod, "--grace-period=0", "--force"])?;
    weigh(&space, [1, 2])?;
    become_so(&space, "split", &RIGHT)?;
    cluster.run(&["-n", "weir-system", "rollout", "status", "daemonset/weir", "--timeout=180s"]).map(drop)
}
