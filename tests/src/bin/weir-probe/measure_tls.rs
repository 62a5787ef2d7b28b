//! The clients of the TLS bench: a ClientHello first, then as little as possible between two system calls.

use crate::{connection::now_ns, measure, serve::ANSWER};
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use rustls::Stream;
use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::Barrier,
    thread,
    time::Duration,
};
use weir_tests::{
    report::{Measured, Times},
    tls::{
        hello,
        options::TlsOptions,
        padding::{HELLO, padded},
    },
};

/// What is sent at a time where throughput is measured, and received.
const CHUNK: usize = 256 * 1_024;

/// What to measure, on which connections.
#[derive(Args)]
pub(crate) struct Options {
    /// What to measure.
    #[arg(long, value_enum)]
    task: Task,
    /// Addresses and ports, dialled in turn.
    #[arg(long, required = true)]
    to: Vec<SocketAddr>,
    /// How long, milliseconds.
    #[arg(long)]
    for_ms: u64,
    /// Clients or streams at once.
    #[arg(long, default_value_t = 1)]
    clients: usize,
    /// Bytes of a message of `ping-pong`.
    #[arg(long, default_value_t = 64)]
    bytes: usize,
    /// Server name of the ClientHello.
    #[arg(long)]
    sni: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Task {
    /// New connections: a ClientHello, an answer, the end.
    Hello,
    /// New connections with a TLS handshake and a message echoed.
    Handshake,
    /// New connections with a name that nobody has: until the error.
    Reject,
    /// Messages to and fro.
    PingPong,
    /// Bytes sent.
    Up,
    /// Bytes received.
    Down,
}

pub(crate) fn run(options: &Options) -> Result<Measured> {
    let hello = padded(&options.sni, HELLO)?;
    let length = Duration::from_millis(options.for_ms);
    let rate = |round: &(dyn Fn(SocketAddr) -> _ + Sync)| measure::rate(&options.to, options.clients, length, round);
    match options.task {
        Task::Hello => rate(&|to| answered(to, &hello)),
        Task::Reject => rate(&|to| rejected(to, &hello)),
        Task::Handshake => {
            let tls = TlsOptions::full(&options.sni);
            let config = hello::config(&tls)?;
            rate(&|to| {
                let connection = hello::connection(&config, &tls).map_err(io::Error::other)?;
                handshake(to, connection)
            })
        }
        Task::PingPong => ping_pong(options.to[0], &hello, options.bytes, length),
        Task::Up => streams(options, &hello, up),
        Task::Down => streams(options, &hello, down),
    }
}

/// One connection that is answered; returns when connect() was through, as all of these.
fn answered(to: SocketAddr, hello: &[u8]) -> io::Result<u64> {
    let mut stream = TcpStream::connect(to)?;
    let connected = now_ns();
    stream.write_all(hello)?;
    let (mut answer, mut read) = ([0; ANSWER + 1], 0);
    // The server closes first; then the connection is over on both sides.
    loop {
        match stream.read(&mut answer[read..])? {
            0 if read == ANSWER => return Ok(connected),
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            more => read += more,
        }
    }
}

fn rejected(to: SocketAddr, hello: &[u8]) -> io::Result<u64> {
    let mut stream = TcpStream::connect(to)?;
    let connected = now_ns();
    let ends = [ErrorKind::ConnectionReset, ErrorKind::ConnectionAborted, ErrorKind::BrokenPipe];
    match stream.write_all(hello).and_then(|()| stream.read(&mut [0])) {
        Err(error) if ends.contains(&error.kind()) => Ok(connected),
        Err(error) => Err(error),
        Ok(_) => Err(ErrorKind::InvalidData.into()),
    }
}

fn handshake(to: SocketAddr, mut connection: rustls::ClientConnection) -> io::Result<u64> {
    let mut socket = TcpStream::connect(to)?;
    let connected = now_ns();
    socket.set_nodelay(true)?;
    let mut stream = Stream::new(&mut connection, &mut socket);
    let message = [b'x'; 64];
    stream.write_all(&message)?;
    let mut answer = [0; 64];
    stream.read_exact(&mut answer)?;
    // Until the server has ended.
    match stream.read(&mut answer)? {
        0 => Ok(connected),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

fn begin(to: SocketAddr, hello: &[u8]) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(to).with_context(|| format!("cannot connect to {to}"))?;
    stream.set_nodelay(true)?;
    stream.write_all(hello)?;
    // Whatever decides by the hello has decided when this is back.
    stream.read_exact(&mut [0]).context("no answer to the ClientHello")?;
    Ok(stream)
}

fn ping_pong(to: SocketAddr, hello: &[u8], bytes: usize, length: Duration) -> Result<Measured> {
    let mut stream = begin(to, hello)?;
    let (message, mut answer) = (vec![b'x'; bytes], vec![0; bytes]);
    let mut whole = Vec::with_capacity(1 << 20);
    let start = now_ns();
    let end = start + length.as_nanos() as u64;
    let mut now = start;
    while now < end {
        stream.write_all(&message)?;
        stream.read_exact(&mut answer)?;
        let after = now_ns();
        whole.push(after - now);
        now = after;
    }
    let count = whole.len() as u64;
    Ok(Measured { count, elapsed_ns: now - start, whole: Times::of(&mut whole), ..Measured::default() })
}

/// Moves bytes on all connections at once; `move_bytes` returns how many it moved until its end.
fn streams(
    options: &Options,
    hello: &[u8],
    move_bytes: impl Fn(TcpStream, u64) -> io::Result<u64> + Sync,
) -> Result<Measured> {
    let mut open = Vec::new();
    for at in 0..options.clients {
        open.push(begin(options.to[at % options.to.len()], hello)?);
    }
    let barrier = Barrier::new(open.len());
    let length = options.for_ms * 1_000_000;
    let one = &|stream| {
        barrier.wait();
        let start = now_ns();
        Ok((move_bytes(stream, start + length)?, now_ns() - start))
    };
    let moved: Vec<io::Result<(u64, u64)>> = thread::scope(|scope| {
        let streams: Vec<_> = open.into_iter().map(|stream| scope.spawn(move || one(stream))).collect();
        streams.into_iter().map(|stream| stream.join().expect("a stream of the bench")).collect()
    });
    let mut measured = Measured::default();
    for moved in moved {
        let (bytes, ns) = moved?;
        measured.count += bytes;
        measured.elapsed_ns = measured.elapsed_ns.max(ns);
    }
    Ok(measured)
}

/// Sends as much as goes; counts what the server says has arrived.
fn up(mut stream: TcpStream, end: u64) -> io::Result<u64> {
    let chunk = vec![0; CHUNK];
    while now_ns() < end {
        stream.write_all(&chunk)?;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut total = [0; 8];
    stream.read_exact(&mut total)?;
    Ok(u64::from_be_bytes(total))
}

fn down(mut stream: TcpStream, end: u64) -> io::Result<u64> {
    let (mut chunk, mut total) = (vec![0; CHUNK], 0);
    while now_ns() < end {
        match stream.read(&mut chunk)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => total += read as u64,
        }
    }
    Ok(total)
}
