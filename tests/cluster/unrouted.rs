//! A Service without a route is kube-proxy's, as if Weir were not there.

use anyhow::Result;
use weir_tests::cluster::Cluster;

#[test]
fn a_service_without_a_route_is_left_alone() -> Result<()> {
    let cluster = Cluster::get()?;
    let space = cluster.space("unrouted")?;
    space.server("one", &cluster.nodes[0])?;
    space.service("plain", "one")?;
    for node in &cluster.nodes {
        space.client(&format!("client-on-{node}"), node)?;
    }
    space.ready()?;
    for node in &cluster.nodes {
        for address in space.addresses("plain")? {
            let report = space.dial(&format!("client-on-{node}"), address, 80, &[], 20)?;
            assert_eq!((report.answered("one"), report.failed_in_all()), (20, 0), "{node} {address}: {report:?}");
            // Nobody replaced the address at connect().
            assert_eq!(report.peers.keys().next(), Some(&std::net::SocketAddr::new(address, 80).to_string()));
        }
    }
    Ok(())
}
