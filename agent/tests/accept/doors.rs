//! Where there are listeners, and who can reach them.

use crate::{
    fake::NAME,
    hello_bytes::named,
    is_root, soon,
    stage::{FAMILIES, Stage, accept, connect, exactly, listen_in, loopback},
    until,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};
use tokio::{io::AsyncWriteExt as _, net::TcpStream, time::timeout};
use weir::accept::Options;
use weir_common::addr::Family;
use weir_tests::namespace::Namespace;

#[tokio::test]
async fn there_are_listeners_only_while_they_are_needed_and_open_connections_go_on() {
    if !is_root() {
        return;
    }
    let stage = Stage::idle(Options::default());
    stage.registry.look().await.unwrap();
    let view = stage.view().expect("the namespace");
    assert_eq!((view.listener, stage.ports()), (None, None));
    stage.acceptor.set_needed(true);
    until("a listener", || stage.ports().is_some()).await;
    assert_eq!(stage.view().unwrap().listener, stage.ports().map(Ok));
    let host = stage.acceptor.view().into_iter().find(|view| view.name == "host").expect("the host");
    assert!(matches!(host.listener, Some(Ok(_))), "the host's own namespace has listeners, too");
    let (mut client, mut backend) = stage.connected(Family::V4).await;
    let port = stage.port(Family::V4);
    stage.acceptor.set_needed(false);
    until("no listener", || stage.ports().is_none()).await;
    until("a closed port", || is_closed(&stage, Family::V4, port)).await;
    backend.write_all(b"still here").await.unwrap();
    assert_eq!(exactly(&mut client, 10).await, b"still here");
    stage.acceptor.set_needed(true);
    until("a listener again", || stage.ports().is_some()).await;
    stage.connected(Family::V6).await;
}

fn is_closed(stage: &Stage, family: Family, port: u16) -> bool {
    let to = SocketAddr::new(loopback(family), port);
    let refused = stage.namespace.run(|| std::net::TcpStream::connect(to));
    refused.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[tokio::test]
async fn a_connection_that_was_sent_to_a_listener_before_its_end_is_served() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    let server = stage.backend(Family::V4);
    let mut client = stage.client(Family::V4).await;
    stage.acceptor.set_needed(false);
    client.write_all(&named(NAME)).await.unwrap();
    accept(&server).await;
}

#[tokio::test]
async fn a_namespace_that_appears_gets_listeners_and_one_that_vanishes_loses_them() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    let (cookie, port) = (stage.cookie(), stage.port(Family::V6));
    stage.hide();
    until("no listener", || stage.fake.listener(cookie).is_none()).await;
    until("a closed port", || is_closed(&stage, Family::V6, port)).await;
    assert_eq!(stage.view(), None);
    stage.show();
    until("a listener", || stage.ports().is_some()).await;
    assert_eq!(stage.cookie(), cookie);
    for family in FAMILIES {
        stage.connected(family).await;
    }
}

#[tokio::test]
async fn without_its_loopback_device_a_namespace_has_a_problem_in_words_until_it_is_up() {
    if !is_root() {
        return;
    }
    let stage = Stage::idle(Options::default());
    stage.namespace.ip("link set lo down").unwrap();
    stage.acceptor.set_needed(true);
    until("a problem", || matches!(stage.view().and_then(|view| view.listener), Some(Err(_)))).await;
    let problem = stage.view().unwrap().listener.unwrap().unwrap_err();
    assert!(problem.contains("loopback device"), "{problem}");
    assert_eq!(stage.ports(), None);
    stage.namespace.ip("link set lo up").unwrap();
    until("a listener", || stage.ports().is_some()).await;
}

#[tokio::test]
async fn without_ipv6_only_the_ipv4_listener_is_announced() {
    if !is_root() {
        return;
    }
    let stage = Stage::idle(Options::default());
    stage.namespace.sysctl(&[("ipv6.conf.all.disable_ipv6", "1")]).unwrap();
    stage.acceptor.set_needed(true);
    until("a listener", || stage.ports().is_some()).await;
    assert_eq!(stage.port(Family::V6), 0);
    stage.connected(Family::V4).await;
}

/// Dials 127.0.0.1 of a namespace from its neighbour, over their link.
async fn dial_neighbour(neighbour: &Namespace, port: u16) -> io::Result<TcpStream> {
    let socket =
        neighbour.run(|| Socket::new(Domain::IPV4, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::new(10, 5, 0, 2), 0)).into())?;
    match socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let stream = TcpStream::from_std(socket.into())?;
    timeout(Duration::from_secs(2), stream.writable()).await??;
    stream.take_error()?.map_or(Ok(stream), Err)
}

#[tokio::test]
async fn a_listener_is_out_of_reach_from_other_namespaces_even_where_loopback_is_routed() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    let neighbour = Namespace::new("neighbour").unwrap();
    stage
        .namespace
        .ip(&format!(
            "link add near type veth peer name near netns {}\naddress add 10.5.0.1/24 dev near\nlink set near up",
            neighbour.name()
        ))
        .unwrap();
    // Its own 127.0.0.1 gives way to the neighbour's.
    neighbour
        .ip("address add 10.5.0.2/24 dev near\nlink set near up\naddress del 127.0.0.1/8 dev lo\n\
             route add 127.0.0.1 via 10.5.0.1 dev near")
        .unwrap();
    for namespace in [&stage.namespace, &neighbour] {
        namespace
            .sysctl(&[
                ("ipv4.conf.all.route_localnet", "1"),
                ("ipv4.conf.all.rp_filter", "0"),
                ("ipv4.conf.near.rp_filter", "0"),
            ])
            .unwrap();
    }
    // The way is open: an ordinary listener is reached.
    let ordinary = listen_in(&stage.namespace, Ipv4Addr::LOCALHOST.into());
    dial_neighbour(&neighbour, ordinary.local_addr().unwrap().port()).await.expect("a way to 127.0.0.1");
    accept(&ordinary).await;
    let error = dial_neighbour(&neighbour, stage.port(Family::V4)).await.expect_err("a closed port");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{error}");
    assert_eq!(stage.acceptor.metrics().read().strangers, 0);
    // From inside, it is reached.
    let to = SocketAddr::new(loopback(Family::V4), stage.port(Family::V4));
    soon("a connect from inside", connect(stage.socket(loopback(Family::V4)), to)).await;
}
