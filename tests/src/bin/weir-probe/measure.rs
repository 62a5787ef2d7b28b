//! The clients of the bench: as little as possible between two system calls.

use crate::connection::now_ns;
use anyhow::{Context as _, Result};
use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::Barrier,
    thread,
    time::Duration,
};
use weir_tests::report::{Measured, Times};

/// Bytes of a request and of its answer.
const MESSAGE: [u8; 64] = [b'x'; 64];

/// Opens and ends a connection, again and again on each of some clients. Each client dials the addresses
/// in turn. `round` is one connection; it returns when connect() was through.
pub(crate) fn rate(
    to: &[SocketAddr],
    clients: usize,
    length: Duration,
    round: impl Fn(SocketAddr) -> io::Result<u64> + Sync,
) -> Result<Measured> {
    let barrier = Barrier::new(clients);
    let rounds = thread::scope(|scope| {
        let clients: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(|| {
                    let mut connect = Vec::with_capacity(1 << 16);
                    let mut whole = Vec::with_capacity(1 << 16);
                    let mut failures = 0;
                    barrier.wait();
                    let start = now_ns();
                    let end = start + length.as_nanos() as u64;
                    let mut now = start;
                    for to in to.iter().cycle().copied() {
                        if now >= end {
                            break;
                        }
                        match round(to) {
                            Ok(connected) => {
                                let after = now_ns();
                                connect.push(connected - now);
                                whole.push(after - now);
                                now = after;
                            }
                            Err(_) => {
                                failures += 1;
                                now = now_ns();
                            }
                        }
                    }
                    (connect, whole, failures, now - start)
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("a client of the bench")).collect::<Vec<_>>()
    });
    let mut measured = Measured::default();
    let (mut connect, mut whole) = (Vec::new(), Vec::new());
    for (connects, wholes, failures, ns) in rounds {
        measured.count += wholes.len() as u64;
        measured.failures += failures;
        measured.elapsed_ns = measured.elapsed_ns.max(ns);
        connect.extend(connects);
        whole.extend(wholes);
    }
    measured.connect = Times::of(&mut connect);
    measured.whole = Times::of(&mut whole);
    Ok(measured)
}

/// A connection with a message echoed; returns when connect() was through.
pub(crate) fn round(to: SocketAddr) -> io::Result<u64> {
    let mut stream = TcpStream::connect(to)?;
    let connected = now_ns();
    let mut answer = [0; MESSAGE.len() + 1];
    stream.write_all(&MESSAGE)?;
    let mut read = 0;
    // The server closes first; then the connection is over on both sides.
    loop {
        match stream.read(&mut answer[read..])? {
            0 if read == MESSAGE.len() => return Ok(connected),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => read += more,
        }
    }
}

/// Sends a message to and fro on one connection.
pub(crate) fn ping_pong(to: SocketAddr, length: Duration) -> Result<Measured> {
    let mut stream = TcpStream::connect(to).with_context(|| format!("cannot connect to {to}"))?;
    stream.set_nodelay(true)?;
    let mut whole = Vec::with_capacity(1 << 20);
    let mut answer = [0; MESSAGE.len()];
    let start = now_ns();
    let end = start + length.as_nanos() as u64;
    let mut now = start;
    while now < end {
        stream.write_all(&MESSAGE)?;
        stream.read_exact(&mut answer)?;
        let after = now_ns();
        whole.push(after - now);
        now = after;
    }
    Ok(Measured {
        count: whole.len() as u64,
        elapsed_ns: now - start,
        whole: Times::of(&mut whole),
        ..Measured::default()
    })
}

/// Sends as much as goes; counts what the server says has arrived.
pub(crate) fn stream(to: SocketAddr, length: Duration) -> Result<Measured> {
    let mut stream = TcpStream::connect(to).with_context(|| format!("cannot connect to {to}"))?;
    let chunk = vec![0; 256 * 1_024];
    let start = now_ns();
    let end = start + length.as_nanos() as u64;
    while now_ns() < end {
        stream.write_all(&chunk)?;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut total = [0; 8];
    stream.read_exact(&mut total)?;
    Ok(Measured { count: u64::from_be_bytes(total), elapsed_ns: now_ns() - start, ..Measured::default() })
}
