//! The connection to the backend.

use crate::{
    fake::{ENDPOINT, LEG, NAME, SPLIT},
    hello_bytes::named,
    is_root,
    stage::{FAMILIES, Stage, accept, exactly, is_reset, listen_in, loopback},
    until,
};
use std::{
    net::{IpAddr, SocketAddr},
    sync::atomic::Ordering,
    time::Duration,
};
use tokio::io::AsyncWriteExt as _;
use weir::accept::Options;
use weir_common::{abi::tls::DialKind, addr::Family, reason::Reason};
use weir_tests::namespace::Namespace;

const AGAIN: DialKind = DialKind::Leg(SPLIT, 3, ENDPOINT);

/// An address of the namespace where nobody listens.
fn nobody(stage: &Stage, family: Family) -> SocketAddr {
    stage.server(family).local_addr().unwrap()
}

#[tokio::test]
async fn a_connect_that_fails_is_tried_once_more_on_another_endpoint_of_the_leg() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    for family in FAMILIES {
        let server = stage.server(family);
        stage.fake.lead_to(nobody(&stage, family), server.local_addr().unwrap());
        let hello = named(NAME);
        let mut client = stage.client(family).await;
        client.write_all(&hello).await.unwrap();
        assert_eq!(exactly(&mut accept(&server).await, hello.len()).await, hello);
    }
    assert_eq!(stage.fake.dialled(), [DialKind::Split(SPLIT), AGAIN, DialKind::Split(SPLIT), AGAIN]);
}

#[tokio::test]
async fn after_two_connects_that_fail_the_client_is_reset_and_the_leg_counts_it() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    stage.fake.lead_to(nobody(&stage, Family::V4), nobody(&stage, Family::V4));
    let mut client = stage.client(Family::V4).await;
    client.write_all(&named(NAME)).await.unwrap();
    is_reset(&mut client).await;
    let counted = DialKind::Reject(LEG, Reason::BackendUnreachable);
    until("the count", || stage.fake.dialled() == [DialKind::Split(SPLIT), AGAIN, counted]).await;
}

#[tokio::test]
async fn what_the_hook_refuses_is_neither_tried_nor_counted_again() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    stage.fake.refuses.store(true, Ordering::Relaxed);
    let mut client = stage.client(Family::V4).await;
    client.write_all(&named(NAME)).await.unwrap();
    is_reset(&mut client).await;
    until("its end", || stage.acceptor.metrics().read().open == 0).await;
    assert_eq!(stage.fake.dialled(), [DialKind::Split(SPLIT)]);
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_is_given_up_after_the_connect_timeout() {
    if !is_root() {
        return;
    }
    let options = Options { connect_timeout: Duration::from_millis(100), ..Options::default() };
    let stage = Stage::new(options).await;
    // A link on whose other end nobody answers.
    stage
        .namespace
        .ip("link add hole type veth peer name end\naddress add 10.9.0.1/24 dev hole\nlink set hole up\nlink set end up\n\
             neigh add 10.9.0.2 lladdr 02:00:00:00:00:01 dev hole")
        .unwrap();
    let server = stage.server(Family::V4);
    stage.fake.lead_to("10.9.0.2:1".parse().unwrap(), server.local_addr().unwrap());
    let mut client = stage.client(Family::V4).await;
    client.write_all(&named(NAME)).await.unwrap();
    accept(&server).await;
    assert_eq!(stage.fake.dialled(), [DialKind::Split(SPLIT), AGAIN]);
}

/// A second namespace behind two links, with a server on an address that both lead to.
fn behind_two_links(stage: &Stage) -> Namespace {
    let other = Namespace::new("backend").unwrap();
    let name = other.name();
    stage
        .namespace
        .ip(&format!(
            "link add near type veth peer name near netns {name}\nlink add far type veth peer name far netns {name}\n\
             address add 10.1.0.1/24 dev near\naddress add 10.2.0.1/24 dev far\n\
             address add fd01::1/64 dev near nodad\naddress add fd02::1/64 dev far nodad"
        ))
        .unwrap();
    other
        .ip("address add 10.1.0.2/24 dev near\naddress add 10.2.0.2/24 dev far\n\
             address add fd01::2/64 dev near nodad\naddress add fd02::2/64 dev far nodad\n\
             address add 10.3.0.1/32 dev lo\naddress add fd03::1/128 dev lo nodad\n\
             link set near up\nlink set far up")
        .unwrap();
    for namespace in [&stage.namespace, &other] {
        namespace.sysctl(&[("ipv4.conf.all.rp_filter", "0"), ("ipv4.conf.far.rp_filter", "0")]).unwrap();
    }
    stage
        .namespace
        .ip("link set near up\nlink set far up\n\
             route add 10.3.0.1 via 10.1.0.2\nroute add 10.3.0.1 via 10.2.0.2 metric 9\n\
             route add fd03::1 via fd01::2 metric 1\nroute add fd03::1 via fd02::2 metric 9")
        .unwrap();
    other
}

#[tokio::test]
async fn the_backend_sees_the_clients_source_address_and_the_clients_interface_is_used() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    let other = behind_two_links(&stage);
    let far = stage.namespace.run(|| nix::net::if_::if_nametoindex("far").unwrap());
    let address = |text: &str| -> IpAddr { text.parse().unwrap() };
    for (server, cases) in [
        (
            "10.3.0.1",
            [
                (loopback(Family::V4), 0, "10.1.0.1"),
                (address("10.2.0.1"), 0, "10.2.0.1"),
                (loopback(Family::V4), far, "10.2.0.1"),
                (address("10.2.0.1"), far, "10.2.0.1"),
            ],
        ),
        (
            "fd03::1",
            [
                (loopback(Family::V6), 0, "fd01::1"),
                (address("fd02::1"), 0, "fd02::1"),
                (loopback(Family::V6), far, "fd02::1"),
                (address("fd02::1"), far, "fd02::1"),
            ],
        ),
    ] {
        let server = listen_in(&other, address(server));
        stage.fake.lead_to(server.local_addr().unwrap(), server.local_addr().unwrap());
        for (source, device, seen) in cases {
            let mut client = stage.client_from(source, device).await;
            client.write_all(&named(NAME)).await.unwrap();
            let backend = accept(&server).await;
            assert_eq!(backend.peer_addr().unwrap().ip(), address(seen), "from {source}, device {device}");
        }
    }
}
