//! A consumer route replaces the producer route for the clients of its own namespace, and for no
//! others. Clients are known by their network namespace or by their cgroup.

use crate::stage::{Family, Stage, families, network, shop_route};
use anyhow::Result;
use weir_tests::{
    cgroup::Cgroup,
    client::Client,
    manifest::{Manifest, Route},
};

families!(clients_of_a_network_namespace_have_a_route_of_their_own);

fn clients_of_a_network_namespace_have_a_route_of_their_own(family: Family) -> Result<()> {
    let net = network(2)?;
    let manifest = consumer_route(&format!("networkNamespace: {}", net.client(0).name()));
    let stage = Stage::on(net, &manifest, "")?;
    let _servers = stage.serve_shop(family)?;
    let dial = family.dial_frontend();
    assert_eq!(stage.client(0)?.connect(&dial, 30)?.answered_by("b/"), 30, "a client of the group");
    assert_eq!(stage.client(1)?.connect(&dial, 30)?.answered_by("a/"), 30, "any other client");

    // Without the consumer route everybody has the producer's.
    stage.apply(&shop_route(&[("shop/a", 80, 1)]))?;
    assert_eq!(stage.client(0)?.connect(&dial, 30)?.answered_by("a/"), 30);
    Ok(())
}

families!(clients_of_a_cgroup_have_a_route_of_their_own);

fn clients_of_a_cgroup_have_a_route_of_their_own(family: Family) -> Result<()> {
    let stage = Stage::set(&shop_route(&[("shop/a", 80, 1)]))?;
    let _servers = stage.serve_shop(family)?;
    let group = stage.cgroup.child("billing")?;
    let deeper = group.child("worker")?;
    stage.apply(&consumer_route(&format!("cgroupPath: {}", group.below_root()?)))?;
    let dial = family.dial_frontend();
    let from = |cgroup: &Cgroup| Client::new(stage.net.client(0), cgroup)?.connect(&dial, 30);
    assert_eq!(from(&group)?.answered_by("b/"), 30, "a process in the group");
    assert_eq!(from(&deeper)?.answered_by("b/"), 30, "a process further down");
    assert_eq!(from(&stage.cgroup)?.answered_by("a/"), 30, "a process outside of it");
    drop(deeper);
    drop(group);
    Ok(())
}

/// A producer route to `a`, and a consumer route to `b` for a group of clients.
fn consumer_route(selector: &str) -> Manifest {
    shop_route(&[("shop/a", 80, 1)]).route(&Route::new("billing/web", "shop/web", &[("shop/b", 80, 1)])).yaml(&format!(
        "apiVersion: weir.dev/v1alpha1\nkind: ClientGroup\nmetadata: {{name: batch, namespace: billing}}\n\
             spec:\n  clients:\n  - {selector}\n"
    ))
}
