//! The end of the acceptor.

use crate::{
    is_root, soon,
    stage::{Stage, exactly, is_reset},
    until,
};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use weir::accept::Options;
use weir_common::{abi::tls::Listener, addr::Family};

#[tokio::test]
async fn a_shutdown_lets_open_connections_come_to_their_end() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    let (mut client, mut backend) = stage.connected(Family::V4).await;
    let (cookie, metrics, parts) = (stage.cookie(), stage.acceptor.metrics(), stage.into_parts());
    let stopping = tokio::spawn(parts.acceptor.shutdown(Duration::from_secs(3_600)));
    until("no listener", || parts.fake.listener(cookie).is_none()).await;
    backend.write_all(b"still here").await.unwrap();
    assert_eq!(exactly(&mut client, 10).await, b"still here");
    assert!(!stopping.is_finished());
    drop((client, backend));
    assert_eq!(soon("the end", stopping).await.unwrap(), 0);
    assert_eq!(metrics.read().open, 0);
}

#[tokio::test]
async fn after_the_drain_timeout_what_is_open_is_reset() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    let (mut client, mut backend) = stage.connected(Family::V4).await;
    let (metrics, parts) = (stage.acceptor.metrics(), stage.into_parts());
    assert_eq!(soon("the end", parts.acceptor.shutdown(Duration::from_millis(300))).await, 1);
    is_reset(&mut client).await;
    is_reset(&mut backend).await;
    assert_eq!(metrics.read().open, 0);
}

#[tokio::test]
async fn a_listener_that_a_newer_agent_has_replaced_stays_announced() {
    use weir::accept::AcceptMaps as _;
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    let (cookie, newer) = (stage.cookie(), Listener::new(1, 2));
    stage.fake.set_listener(cookie, newer).unwrap();
    let parts = stage.into_parts();
    soon("the end", parts.acceptor.shutdown(Duration::from_secs(3_600))).await;
    assert_eq!(parts.fake.listener(cookie), Some(newer));
}
