//! getpeername() shows the address that was dialled, and servers that wait for the client's first
//! word are served like those that speak first.

use crate::stage::{Family, Stage, families, shop_route};
use anyhow::Result;
use std::net::{IpAddr, SocketAddr};
use weir_tests::{
    client::Dial,
    server::{Behaviour, Server},
};

families!(the_peer_is_the_frontend);

fn the_peer_is_the_frontend(family: Family) -> Result<()> {
    let stage = Stage::set(&shop_route(&[("shop/a", 80, 1), ("shop/b", 80, 1)]))?;
    let _greeting = stage.serve(family, "a", &[1, 2, 3])?;
    let waiting = Server::tcp(stage.net.backend(0), family.endpoint(11), "b/11", Behaviour::Greet)?;
    let report = stage.connect(&family.dial_frontend(), 20)?;
    assert_eq!(report.answered_in_all(), 20, "{report:?}");
    let dialled = match (family, family.frontend().ip()) {
        (Family::Mapped, IpAddr::V4(address)) => {
            SocketAddr::new(address.to_ipv6_mapped().into(), family.frontend().port())
        }
        (_, address) => SocketAddr::new(address, family.frontend().port()),
    };
    assert_eq!(report.peers.keys().collect::<Vec<_>>(), [&dialled.to_string()]);
    // Connections that were left alone show who they are.
    let direct = stage.connect(&family.dial(family.endpoint(1)), 5)?;
    assert!(direct.peers.keys().all(|peer| peer.contains("201")), "{direct:?}");
    drop(waiting);
    Ok(())
}

families!(a_server_that_waits_for_the_client_is_served_alike);

fn a_server_that_waits_for_the_client_is_served_alike(family: Family) -> Result<()> {
    let stage = Stage::set(&shop_route(&[("shop/b", 80, 1)]))?;
    let _waiting = Server::tcp(stage.net.backend(0), family.endpoint(11), "b/11", Behaviour::Answer)?;
    let report = stage.connect(&Dial { speaks_first: true, ..family.dial_frontend() }, 20)?;
    assert_eq!(report.answered("b/11"), 20, "{report:?}");
    Ok(())
}
