//! Bytes, ends and errors of a connection that is under way.

use crate::{
    fake::{NAME, ROUTE},
    hello_bytes::named,
    is_root, soon,
    stage::{FAMILIES, Stage, exactly, is_reset, reset, rest},
    until,
};
use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};
use weir::accept::Options;
use weir_common::addr::Family;

/// A pattern whose length is no multiple of a buffer's.
fn pattern(salt: u32) -> Vec<u8> {
    let mut state = salt;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..65_521).map(next).collect()
}

async fn send(mut to: impl AsyncWrite + Unpin, pattern: &[u8], times: usize) {
    for _ in 0..times {
        to.write_all(pattern).await.unwrap();
    }
    to.shutdown().await.unwrap();
}

/// Reads to the end; every byte must be the pattern's.
async fn check(mut from: impl AsyncRead + Unpin, pattern: &[u8]) -> usize {
    let mut buffer = vec![0; 65_536];
    let mut total = 0;
    loop {
        let count = from.read(&mut buffer).await.unwrap();
        if count == 0 {
            return total;
        }
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            let expected = &pattern[total % pattern.len()..];
            let part = rest.len().min(expected.len());
            assert!(rest[..part] == expected[..part], "a wrong byte behind {total}");
            total += part;
            rest = &rest[part..];
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_megabytes_go_each_way_unchanged() {
    if !is_root() {
        return;
    }
    const TIMES: usize = 1_600;
    let stage = Stage::new(Options::default()).await;
    for family in FAMILIES {
        let before = stage.acceptor.metrics().read();
        let (client, backend) = stage.connected(family).await;
        let (up, down) = (pattern(1), pattern(2));
        let total = up.len() * TIMES;
        assert!(total > 100_000_000);
        let (client_reads, client_writes) = client.into_split();
        let (backend_reads, backend_writes) = backend.into_split();
        let (_, _, sent, received) = soon("all bytes", async {
            tokio::join!(
                send(client_writes, &up, TIMES),
                send(backend_writes, &down, TIMES),
                check(backend_reads, &up),
                check(client_reads, &down)
            )
        })
        .await;
        assert_eq!((sent, received), (total, total));
        until("the end", || stage.acceptor.metrics().read().open == 0).await;
        let after = stage.acceptor.metrics().read();
        assert_eq!(after.to_backend - before.to_backend, (total + named(NAME).len()) as u64);
        assert_eq!(after.to_client - before.to_client, total as u64);
        assert_eq!(after.failed, 0);
    }
}

#[tokio::test]
async fn a_client_that_has_ended_its_half_still_gets_the_answer() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    for family in FAMILIES {
        let (mut client, mut backend) = stage.connected(family).await;
        client.write_all(b"question").await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(rest(&mut backend).await, b"question");
        backend.write_all(b"answer").await.unwrap();
        assert_eq!(exactly(&mut client, 6).await, b"answer");
        backend.shutdown().await.unwrap();
        assert_eq!(rest(&mut client).await, b"");
        until("the end", || stage.acceptor.metrics().read().open == 0).await;
    }
    assert_eq!(stage.acceptor.metrics().read().failed, 0);
}

#[tokio::test]
async fn a_backend_that_has_ended_its_half_still_gets_what_the_client_sends() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    for family in FAMILIES {
        let (mut client, mut backend) = stage.connected(family).await;
        backend.write_all(b"greeting").await.unwrap();
        backend.shutdown().await.unwrap();
        assert_eq!(rest(&mut client).await, b"greeting");
        client.write_all(b"more").await.unwrap();
        assert_eq!(exactly(&mut backend, 4).await, b"more");
        drop(client);
        assert_eq!(rest(&mut backend).await, b"");
        until("the end", || stage.acceptor.metrics().read().open == 0).await;
    }
}

#[tokio::test]
async fn a_server_that_closes_first_has_its_last_bytes_delivered() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    let (mut client, mut backend) = stage.connected(Family::V4).await;
    let answer = pattern(3);
    backend.write_all(&answer).await.unwrap();
    drop(backend);
    assert!(rest(&mut client).await == answer);
}

#[tokio::test]
async fn an_rst_of_one_side_becomes_an_rst_of_the_other() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    for family in FAMILIES {
        let (client, mut backend) = stage.connected(family).await;
        reset(client);
        is_reset(&mut backend).await;
        let (mut client, backend) = stage.connected(family).await;
        reset(backend);
        is_reset(&mut client).await;
    }
    until("the end", || stage.acceptor.metrics().read().open == 0).await;
    assert_eq!(stage.acceptor.metrics().read().failed, 4);
}

/// Small and fixed buffers in the namespace.
fn small_buffers(stage: &Stage) -> usize {
    const BYTES: usize = 131_072;
    let sizes = format!("4096 65536 {BYTES}");
    stage.namespace.sysctl(&[("ipv4.tcp_rmem", &sizes), ("ipv4.tcp_wmem", &sizes)]).unwrap();
    BYTES
}

/// Writes until nothing has been taken for a while. Returns how much was.
async fn stuff(to: &mut (impl AsyncWrite + Unpin)) -> usize {
    let block = [5; 16_384];
    let mut total = 0;
    while let Ok(written) = timeout(Duration::from_millis(300), to.write(&block)).await {
        total += written.unwrap();
    }
    total
}

#[tokio::test]
async fn a_slow_reader_holds_no_more_than_the_sockets_buffers_and_two_pipes() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    let buffer = small_buffers(&stage);
    let (mut client, mut backend) = stage.connected(Family::V4).await;
    // Two connections, each with a sending and a receiving end.
    let most = 4 * buffer + 2 * 65_536;
    let down = stuff(&mut backend).await;
    let up = stuff(&mut client).await;
    assert!(down <= most && up <= most, "{down} and {up} bytes were taken, {most} allowed");
    // Everything is still there once it is read.
    let (mut client_reads, mut client_writes) = client.split();
    let (mut backend_reads, mut backend_writes) = backend.split();
    client_writes.shutdown().await.unwrap();
    backend_writes.shutdown().await.unwrap();
    let (mut received, mut sent) = (Vec::new(), Vec::new());
    let both = async { tokio::join!(client_reads.read_to_end(&mut received), backend_reads.read_to_end(&mut sent)) };
    let _ = soon("all bytes", both).await;
    assert_eq!((received.len(), sent.len()), (down, up));
}

#[tokio::test]
async fn a_client_that_resets_while_the_backend_reads_nothing_is_noticed() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    small_buffers(&stage);
    let (mut client, backend) = stage.connected(Family::V4).await;
    stuff(&mut client).await;
    reset(client);
    until("its end", || stage.acceptor.metrics().read().open == 0).await;
    drop(backend);
}

#[tokio::test]
async fn an_answer_before_an_rst_is_delivered_though_the_client_went_on_sending() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    let (mut client, mut backend) = stage.connected(Family::V4).await;
    client.write_all(b"unread").await.unwrap();
    soon("the bytes", backend.peek(&mut [0])).await.unwrap();
    backend.write_all(b"answer").await.unwrap();
    // Unread bytes make the close an RST.
    drop(backend);
    assert_eq!(exactly(&mut client, 6).await, b"answer");
    is_reset(&mut client).await;
}

#[tokio::test]
async fn a_connection_on_which_nothing_moves_ends_after_the_idle_timeout() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    *stage.fake.idle_timeout.lock().unwrap() = Some(Duration::from_millis(200));
    let (mut client, mut backend) = stage.connected(Family::V4).await;
    let start = std::time::Instant::now();
    // Longer than the timeout, and never idle.
    while start.elapsed() < Duration::from_millis(500) {
        backend.write_all(&[1]).await.unwrap();
        assert_eq!(exactly(&mut client, 1).await, [1]);
    }
    assert_eq!(rest(&mut client).await, b"");
    assert_eq!(rest(&mut backend).await, b"");
    until("the end", || stage.acceptor.metrics().read().open == 0).await;
}

#[tokio::test]
async fn an_idle_connection_holds_no_pipe_and_the_first_byte_is_timed_by_route() {
    if !is_root() {
        return;
    }
    let stage = Stage::new(Options::default()).await;
    let (mut client, mut backend) = stage.connected(Family::V4).await;
    assert!(stage.acceptor.metrics().read().first_bytes[&ROUTE].iter().all(|count| *count == 0));
    backend.write_all(b"one").await.unwrap();
    exactly(&mut client, 3).await;
    client.write_all(b"two").await.unwrap();
    exactly(&mut backend, 3).await;
    until("the pipe's return", || stage.acceptor.idle_pipes() > 0).await;
    let reading = stage.acceptor.metrics().read();
    assert_eq!(reading.first_bytes[&ROUTE].iter().sum::<u64>(), 1);
    stage.acceptor.metrics().keep_routes(|_| false);
    assert!(stage.acceptor.metrics().read().first_bytes.is_empty());
}
