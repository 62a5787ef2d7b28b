//! The harness itself: without an agent, clients reach the servers they dial and nothing else.

use crate::stage::{Family, families};
use anyhow::Result;
use std::net::SocketAddr;
use weir_tests::{
    cgroup::Cgroup,
    client::{Client, Dial},
    server::{Behaviour, Server},
    topology::Topology,
};

families!(clients_reach_the_servers_that_they_dial);

fn clients_reach_the_servers_that_they_dial(family: Family) -> Result<()> {
    let net = Topology::new(1, &[&["10.201.0.0/16", "fd00:201::/32"]])?;
    let cgroup = Cgroup::new("harness")?;
    let client = Client::new(net.client(0), &cgroup)?;
    let address = SocketAddr::new(family.address(201, 1), 80);
    let server = Server::tcp(net.backend(0), address, "one", Behaviour::Greet)?;
    let _udp = Server::udp(net.backend(0), address, "datagram")?;

    let dial = family.dial(address).workers(2);
    let report = client.connect(&Dial { bytes: 100_000, ..dial.clone() }, 20)?;
    assert_eq!(report.answered("one"), 20, "{report:?}");
    assert_eq!(report.failed_in_all(), 0, "{report:?}");
    assert_eq!((report.sent, report.received), (2_000_000, 2_000_080));
    assert_eq!(server.accepted(), 20);

    let udp = client.connect(&Dial { udp: true, ..dial.clone() }, 3)?;
    assert_eq!(udp.answered("datagram"), 3, "{udp:?}");

    let mut held = client.hold(&dial, 5)?;
    assert_eq!(held.report()?.answered("one"), 5);
    drop(server);
    let after = held.end()?;
    assert_eq!(after.failed_in_all(), 0, "nothing was read after the servers' end: {after:?}");

    let refused = client.connect(&dial, 3)?;
    assert_eq!(refused.refused(), 3, "{refused:?}");
    net.no_route(0, family.address(201, 9))?;
    let unreachable = client.connect(&family.dial(SocketAddr::new(family.address(201, 9), 80)), 1)?;
    assert_eq!(unreachable.failed("EHOSTUNREACH"), 1, "{unreachable:?}");
    net.black_hole(family.address(201, 8))?;
    let patient = Dial {
        patience: std::time::Duration::from_millis(50),
        ..family.dial(SocketAddr::new(family.address(201, 8), 80))
    };
    assert_eq!(client.connect(&patient, 1)?.failed("timeout"), 1);

    let reset = Server::tcp(net.backend(0), address, "rude", Behaviour::Reset)?;
    let report = client.connect(&Dial { bytes: 10, ..dial.clone() }, 2)?;
    assert_eq!(report.failed("after ECONNRESET"), 2, "{report:?}");
    drop(reset);
    let _polite = Server::tcp(net.backend(0), address, "polite", Behaviour::Answer)?;
    assert_eq!(client.connect(&Dial { speaks_first: true, ..dial }, 2)?.answered("polite"), 2);
    Ok(())
}
