//! Every metric that the shipped alerts and the dashboard ask for is in a scrape of each agent.

use anyhow::Result;
use std::collections::BTreeSet;
use weir_tests::cluster::Cluster;

const SHIPPED: [&str; 2] =
    [include_str!("../../deploy/prometheus/alerts.yaml"), include_str!("../../deploy/grafana/weir.json")];

/// Reads the names of metric families that a text asks for.
fn asked_for(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let metrics = words.filter(|word| word.starts_with("weir_"));
    metrics.map(|word| word.strip_suffix("_bucket").unwrap_or(word)).collect()
}

/// Whether a scrape has a family. Counters are declared with `_total` or without.
fn has(scrape: &str, family: &str) -> bool {
    let declared = |name: &str| scrape.lines().any(|line| line.starts_with(&format!("# TYPE {name} ")));
    declared(family) || family.strip_suffix("_total").is_some_and(declared)
}

#[test]
fn what_alerts_and_dashboard_ask_for_is_scraped() -> Result<()> {
    let cluster = Cluster::get()?;
    let asked: BTreeSet<&str> = SHIPPED.into_iter().flat_map(asked_for).collect();
    assert!(asked.len() > 20, "{asked:?}");
    for node in &cluster.nodes {
        let scrape = cluster.admin(node, "/metrics")?;
        let missing: Vec<_> = asked.iter().filter(|family| !has(&scrape, family)).collect();
        assert!(missing.is_empty(), "{node} does not have {missing:?}");
    }
    Ok(())
}
