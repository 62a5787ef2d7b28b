//! Producer and consumer routes, of TCP and TLS, for clients on both nodes.

use anyhow::Result;
use std::net::IpAddr;
use weir_tests::{
    cluster::{Cluster, LONG, Space},
    manifest::Route,
    report::Report,
    wait,
};

/// How a client speaks TLS to the servers.
const TLS: [&str; 4] = ["--speech", "full", "--sni", "shop.example"];

/// Most connections that a share may be off.
const OFF: u64 = 4;

/// A Service `shop` whose pods are v1, and one for each of two versions.
fn shop<'a>(cluster: &'a Cluster, label: &str) -> Result<Space<'a>> {
    let space = cluster.space(label)?;
    for (version, node) in [("v1", &cluster.nodes[0]), ("v2", &cluster.nodes[1])] {
        space.server(version, node)?;
        space.service(version, version)?;
    }
    space.service("shop", "v1")?;
    for node in &cluster.nodes {
        space.client(&format!("client-on-{node}"), node)?;
    }
    Ok(space)
}

/// Waits until a client's connections reach exactly these servers.
fn reaches(
    space: &Space<'_>,
    client: &str,
    address: IpAddr,
    port: u16,
    options: &[&str],
    servers: &[&str],
) -> Result<()> {
    let mut last = Report::default();
    let reached = wait::until(&format!("{client} reaches {servers:?}"), LONG, || {
        last = space.dial(client, address, port, options, 40).ok()?;
        let names: Vec<&str> = last.answers.keys().map(String::as_str).collect();
        (names == servers && last.failed_in_all() == 0).then_some(())
    });
    reached.map_err(|error| error.context(format!("{last:?}")))
}

fn assert_share(report: &Report, server: &str, wanted: u64) {
    assert_eq!(report.failed_in_all(), 0, "{report:?}");
    assert!(report.answered(server).abs_diff(wanted) <= OFF, "{server}: wanted {wanted}: {report:?}");
}

#[test]
fn a_producer_route_splits_for_clients_on_both_nodes() -> Result<()> {
    let cluster = Cluster::get()?;
    let space = shop(&cluster, "producer")?;
    space.ready()?;
    let name = |object: &str| format!("{}/{object}", space.name());
    let (shop, v1, v2) = (name("shop"), name("v1"), name("v2"));
    let backends = [(v1.as_str(), 80, 75), (v2.as_str(), 80, 25)];
    space.route(&Route { port: Some(80), ..Route::new(&name("canary"), &shop, &backends) })?;
    for node in &cluster.nodes {
        let client = format!("client-on-{node}");
        for address in space.addresses("shop")? {
            reaches(&space, &client, address, 80, &[], &["v1", "v2"])?;
            assert_share(&space.dial(&client, address, 80, &[], 400)?, "v2", 100);
            // The other port has no route.
            assert_share(&space.dial(&client, address, 443, &TLS, 20)?, "v1", 20);
        }
    }
    Ok(())
}

#[test]
fn a_consumer_route_moves_its_namespace_only() -> Result<()> {
    let cluster = Cluster::get()?;
    let space = shop(&cluster, "consumed")?;
    let team = cluster.space("team")?;
    for node in &cluster.nodes {
        team.client(&format!("client-on-{node}"), node)?;
    }
    space.ready()?;
    team.ready()?;
    let name = |object: &str| format!("{}/{object}", space.name());
    let (shop, v1, v2) = (name("shop"), name("v1"), name("v2"));
    space.route(&Route { port: Some(80), ..Route::new(&name("all"), &shop, &[(&v1, 80, 1)]) })?;
    space.route(&Route { port: Some(443), ..Route::tls(&name("all"), &shop, &["shop.example"], &[(&v1, 443, 1)]) })?;
    // The team may refer to backends of the shop.
    cluster.apply(format!(
        "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\nmetadata: {{name: team, namespace: {}}}\n\
         spec:\n  from:\n  - {{group: gateway.networking.k8s.io, kind: TCPRoute, namespace: {team}}}\n  \
         - {{group: gateway.networking.k8s.io, kind: TLSRoute, namespace: {team}}}\n  to:\n  \
         - {{group: \"\", kind: Service}}\n",
        space.name(),
        team = team.name(),
    ))?;
    let own = format!("{}/own", team.name());
    let (tcp, tls) = ([(v2.as_str(), 80, 1)], [(v2.as_str(), 443, 1)]);
    let cases: [(u16, &[&str], Route<'_>); 2] = [
        (80, &[], Route { port: Some(80), ..Route::new(&own, &shop, &tcp) }),
        (443, &TLS, Route { port: Some(443), ..Route::tls(&own, &shop, &["shop.example"], &tls) }),
    ];
    for (port, options, route) in &cases {
        team.route(route)?;
        for node in &cluster.nodes {
            let client = format!("client-on-{node}");
            for address in space.addresses("shop")? {
                reaches(&team, &client, address, *port, options, &["v2"])?;
                reaches(&space, &client, address, *port, options, &["v1"])?;
            }
        }
    }
    for kind in ["tcproute", "tlsroute"] {
        team.run(&["delete", kind, "own"])?;
    }
    for (port, options, _) in &cases {
        let client = format!("client-on-{}", cluster.nodes[0]);
        reaches(&team, &client, space.addresses("shop")?[0], *port, options, &["v1"])?;
    }
    Ok(())
}
