//! From the accept to the decision.

use crate::{
    fake::{FIRST_ROUTE, NAME, SPLIT},
    hello_bytes::{cut, named},
    is_root,
    stage::{FAMILIES, Stage, accept, connect, exactly, is_reset, loopback, rest},
    until,
};
use std::{net::SocketAddr, time::Duration};
use tokio::io::AsyncWriteExt as _;
use weir::accept::{Bound, Options};
use weir_common::{abi::tls::DialKind, addr::Family, reason::Reason};

#[tokio::test]
async fn a_hello_that_comes_byte_by_byte_is_read_and_sent_on() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    for family in FAMILIES {
        let server = stage.backend(family);
        let hello = named(NAME);
        let mut client = stage.client(family).await;
        client.set_nodelay(true).unwrap();
        for byte in &hello {
            client.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        let mut backend = accept(&server).await;
        assert_eq!(exactly(&mut backend, hello.len()).await, hello);
        backend.write_all(b"hello").await.unwrap();
        assert_eq!(exactly(&mut client, 5).await, b"hello");
    }
    assert_eq!(stage.fake.dialled(), [DialKind::Split(SPLIT), DialKind::Split(SPLIT)]);
    assert_eq!(stage.acceptor.unfinished(), Bound { count: 0, bytes: 0 });
    let reading = stage.acceptor.metrics().read();
    assert_eq!(reading.accepted, 2);
    assert_eq!(reading.first_bytes.values().flatten().sum::<u64>(), 2);
    assert!(stage.fake.is_clean());
}

#[tokio::test]
async fn a_hello_of_many_records_and_of_nearly_64_kib_is_read() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    for (padding, record) in [(3_000, 100), (64_000, 16_384)] {
        let server = stage.backend(Family::V4);
        let hello = cut(Some(NAME), padding, record);
        let mut client = stage.client(Family::V4).await;
        client.write_all(&hello).await.unwrap();
        let mut backend = accept(&server).await;
        assert_eq!(exactly(&mut backend, hello.len()).await, hello);
    }
}

#[tokio::test]
async fn bytes_right_behind_the_hello_are_sent_on() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    let server = stage.backend(Family::V4);
    let mut all = named(NAME);
    // Early data (0-RTT): application records behind the hello.
    all.extend([23, 3, 3, 0x40, 0]);
    all.extend((0..16_384_u32).map(|i| i as u8));
    let mut client = stage.client(Family::V4).await;
    client.write_all(&all).await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(rest(&mut accept(&server).await).await, all);
}

#[tokio::test]
async fn each_bad_hello_is_reset_at_once_and_counted_with_its_reason() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    let _server = stage.backend(Family::V4);
    let cases = [
        (Reason::NotTls, b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        (Reason::HelloTooBig, cut(Some(NAME), 65_000, 100)),
        (Reason::NoServerName, cut(None, 10, 16_384)),
        (Reason::NameNotMatched, named("other.example.com")),
    ];
    for family in FAMILIES {
        for (reason, bytes) in &cases {
            let mut client = stage.client(family).await;
            // The reset may come before all was written.
            let _ = client.write_all(bytes).await;
            is_reset(&mut client).await;
            until("the count", || stage.fake.dialled().last() == Some(&DialKind::Reject(FIRST_ROUTE, *reason))).await;
        }
    }
    let reading = stage.acceptor.metrics().read();
    assert_eq!(reading.rejected, cases.into_iter().map(|(reason, _)| (reason, 2)).collect());
    until("no open connections", || stage.acceptor.metrics().read().open == 0).await;
}

#[tokio::test]
async fn a_hello_that_is_not_whole_by_the_deadline_is_reset() {
    if !is_root() {
        return;
    }
    let options = Options { hello_deadline: Duration::from_millis(100), ..Options::default() };
    let stage = Stage::new(options).await;
    let hello = named(NAME);
    for sent in [0, 1, hello.len() - 1] {
        let mut client = stage.client(Family::V4).await;
        client.write_all(&hello[..sent]).await.unwrap();
        is_reset(&mut client).await;
    }
    let slow = DialKind::Reject(FIRST_ROUTE, Reason::HelloTooSlow);
    until("the counts", || stage.fake.dialled() == [slow, slow, slow]).await;
}

#[tokio::test]
async fn a_client_that_leaves_before_its_hello_is_whole_is_counted_as_gone_only() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    let mut client = stage.client(Family::V4).await;
    client.write_all(&named(NAME)[..40]).await.unwrap();
    drop(client);
    until("its end", || stage.acceptor.metrics().read().abandoned == 1).await;
    assert_eq!(stage.fake.dialled(), []);
}

#[tokio::test]
async fn a_stranger_is_reset_and_counted() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    let server = stage.backend(Family::V4);
    for family in FAMILIES {
        let to = SocketAddr::new(loopback(family), stage.port(family));
        let mut stranger = connect(stage.socket(loopback(family)), to).await;
        let _ = stranger.write_all(&named(NAME)).await;
        is_reset(&mut stranger).await;
    }
    let reading = stage.acceptor.metrics().read();
    assert_eq!((reading.strangers, reading.accepted), (2, 0));
    let mut client = stage.client(Family::V4).await;
    client.write_all(&named(NAME)).await.unwrap();
    accept(&server).await;
}

#[tokio::test]
async fn unfinished_hellos_are_bounded_in_count_and_room_is_made_by_their_end() {
    if !is_root() {
        return;
    }
    let unfinished_in_namespace = Bound { count: 2, bytes: 1 << 20 };
    let stage = Stage::new(Options { unfinished_in_namespace, ..Options::default() }).await;
    let server = stage.backend(Family::V4);
    let first = stage.client(Family::V4).await;
    let second = stage.client(Family::V6).await;
    until("two hellos", || stage.acceptor.unfinished() == Bound { count: 2, bytes: 0 }).await;
    is_reset(&mut stage.client(Family::V4).await).await;
    let full = DialKind::Reject(FIRST_ROUTE, Reason::AcceptorFull);
    until("the count", || stage.fake.dialled() == [full]).await;
    drop((first, second));
    until("room", || stage.acceptor.unfinished().count == 0).await;
    let mut client = stage.client(Family::V4).await;
    client.write_all(&named(NAME)).await.unwrap();
    accept(&server).await;
}

#[tokio::test]
async fn unfinished_hellos_are_bounded_in_bytes_and_small_ones_take_little() {
    if !is_root() {
        return;
    }
    let unfinished = Bound { count: 100, bytes: 3_000 };
    let stage = Stage::new(Options { unfinished, ..Options::default() }).await;
    let mut first = stage.client(Family::V4).await;
    first.write_all(&named(NAME)[..100]).await.unwrap();
    until("a buffer", || stage.acceptor.unfinished() == Bound { count: 1, bytes: 2_048 }).await;
    let mut second = stage.client(Family::V4).await;
    second.write_all(&named(NAME)[..100]).await.unwrap();
    is_reset(&mut second).await;
    drop(first);
    until("room", || stage.acceptor.unfinished() == Bound { count: 0, bytes: 0 }).await;
    assert_eq!(stage.fake.dialled(), [DialKind::Reject(FIRST_ROUTE, Reason::AcceptorFull)]);
}
