//! What clients see of their sockets, and special sockets: bound, MPTCP; and who dials the listener of the
//! accept path without being sent there.

use crate::{
    stage::{Family, PORT, Stage, families, network},
    tls_stage::{NAME, Path, WRONG_NAME, expect_ended_at_once, paths},
};
use anyhow::{Context as _, Result, ensure};
use std::net::{IpAddr, SocketAddr};
use weir_tests::{
    client::{Client, Dial},
    namespace::Namespace,
    tls::options::{SocketOptions, Speech, TlsOptions},
    wait,
};

paths!(the_peer_is_the_frontend_and_the_server_sees_the_client);

fn the_peer_is_the_frontend_and_the_server_sees_the_client(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    let _server = stage.listen(family, "b/11", 11).start()?;
    let report = stage.connect(&family.dial_tls(), 10)?;
    let dialled = SocketAddr::new(family.source(family.frontend().ip()), PORT);
    ensure!(report.peers.keys().eq([&dialled.to_string()]), "{report:?}");
    ensure!(report.sources.keys().eq([&own_address(family).to_string()]), "{report:?}");
    Ok(())
}

paths!(sockets_bound_to_a_device_or_an_address_keep_it);

fn sockets_bound_to_a_device_or_an_address_keep_it(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    let _server = stage.listen(family, "b/11", 11).start()?;
    let second: IpAddr = if family == Family::V6 { "fd00:100::22" } else { "10.100.0.22" }.parse()?;
    let length = if second.is_ipv6() { "64 dev eth0 nodad" } else { "24 dev eth0" };
    stage.net.client(0).ip(&format!("address add {second}/{length}"))?;
    let dial = |socket| Dial { socket, bytes: 1_000, ..family.dial_tls() };
    let bound = dial(SocketOptions { source: Some(family.source(second)), ..SocketOptions::default() });
    let report = stage.connect(&bound, 5)?;
    ensure!(report.answered("b/11") == 5 && report.sources.keys().eq([&second.to_string()]), "{report:?}");
    let device = dial(SocketOptions { device: Some("eth0".to_owned()), ..SocketOptions::default() });
    let report = stage.connect(&device, 5)?;
    ensure!(report.answered("b/11") == 5, "{report:?}");
    let wrong = Dial { tls: TlsOptions::full(WRONG_NAME), ..device };
    ensure!(stage.connect(&wrong, 5)?.failed_in_all() == 5);
    Ok(())
}

paths!(an_mptcp_client_is_no_way_around);

fn an_mptcp_client_is_no_way_around(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    for mptcp_server in [false, true] {
        let listen = stage.listen(family, "b/11", 11).speech(Speech::Hello);
        let server = if mptcp_server { listen.mptcp().start()? } else { listen.start()? };
        let dial = |sni| Dial {
            socket: SocketOptions { mptcp: true, ..SocketOptions::default() },
            ..family.dial_frontend().speaking(TlsOptions::hello(sni))
        };
        let report = stage.connect(&dial(WRONG_NAME), 5)?;
        ensure!(server.greeted() == 0, "a wrong name arrived");
        expect_ended_at_once(&report)?;
        let report = stage.connect(&dial(NAME), 5)?;
        ensure!(report.answered("b/11") == 5, "a good name, MPTCP server {mptcp_server}: {report:?}");
    }
    Ok(())
}

paths!(a_client_in_a_namespace_that_appears_is_served);

fn a_client_in_a_namespace_that_appears_is_served(path: Path, family: Family) -> Result<()> {
    let stage = Stage::on(network(1)?, &path.shop(&[("shop/b", PORT, 1)]), "")?;
    let _server = stage.listen(family, "b/11", 11).start()?;
    for number in 1..3 {
        let namespace = stage.net.extra_client(number)?;
        let client = Client::new(&namespace, &stage.cgroup)?;
        let served = || client.connect(&family.dial_tls(), 1).ok().filter(|report| report.answered("b/11") == 1);
        // The first one may be rejected while the agent learns of the namespace; it is never left hanging.
        wait::until("a connection from a new namespace", wait::SOON, served)?;
        let report = client.connect(&family.dial_tls(), 20)?;
        ensure!(report.answered("b/11") == 20, "{report:?}");
    }
    Ok(())
}

families!(strangers_at_the_listener_are_closed);

fn strangers_at_the_listener_are_closed(family: Family) -> Result<()> {
    let stage = Stage::set(&Path::Accept.shop(&[("shop/b", PORT, 1)]))?;
    let _server = stage.listen(family, "b/11", 11).start()?;
    let report = stage.connect(&family.dial_tls(), 1)?;
    ensure!(report.answered("b/11") == 1, "{report:?}");
    let listeners = listeners(stage.net.client(0), family)?;
    ensure!(!listeners.is_empty(), "no listener in the client's namespace");
    for listener in listeners {
        let dial = Dial::to(listener).speaking(TlsOptions::full(NAME));
        let report = stage.connect(&dial, 3)?;
        ensure!(report.failed_in_all() == 3, "{listener}: {report:?}");
        // From elsewhere there is nothing to reach.
        let outside = SocketAddr::new(own_address(family), listener.port());
        let report = stage.client(1)?.connect(&Dial::to(outside).speaking(TlsOptions::full(NAME)), 1)?;
        ensure!(report.refused() == 1, "{outside}: {report:?}");
    }
    Ok(())
}

/// Finds what listens on the loopback address of a client's namespace, where nothing of the test does.
fn listeners(namespace: &Namespace, family: Family) -> Result<Vec<SocketAddr>> {
    let version = if family == Family::V6 { "-6" } else { "-4" };
    let text = namespace.command("ss", &["-Hltn", version], "")?;
    text.lines()
        // A listener may be bound to a device: `127.0.0.1%lo:1234`.
        .map(|line| line.split_whitespace().nth(3).context("ss")?.replace("%lo", "").parse().context(line.to_owned()))
        .collect()
}

fn own_address(family: Family) -> IpAddr {
    let text = if family == Family::V6 { "fd00:100::2" } else { "10.100.0.2" };
    text.parse().expect("a well-formed address")
}
