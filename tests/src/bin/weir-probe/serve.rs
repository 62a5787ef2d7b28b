//! The servers of the bench: blocking, a thread a connection at a time, and nothing that costs.

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use rustls::{ServerConfig, ServerConnection, Stream};
use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};
use weir_tests::tls::{identity::Identity, padding::HELLO};

/// Bytes of the answer to a ClientHello: a server's first flight with a certificate or two.
pub(crate) const ANSWER: usize = 3_000;

/// What a server does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Sends the first bytes back and closes: so the closed connection waits here, not at the client.
    Once,
    /// Sends everything back until the client closes.
    Echo,
    /// Reads until the client closes, then says how many bytes came.
    Sink,
    /// Reads a ClientHello, answers, and closes.
    HelloOnce,
    /// Reads a ClientHello, says one byte, and is an echo then.
    HelloEcho,
    /// Reads a ClientHello, says one byte, and is a sink then.
    HelloSink,
    /// Reads a ClientHello, says one byte, and sends until the client closes.
    HelloSource,
    /// Shakes hands, sends 64 bytes back, and closes.
    Handshake,
}

/// Serves until standard input ends.
pub(crate) fn run(listen: &[SocketAddr], mode: Mode, threads: usize) -> Result<()> {
    let mut tls = Identity::shared().server()?;
    // Nobody resumes: tickets would be made for nothing.
    tls.send_tls13_tickets = 0;
    let tls = Arc::new(tls);
    for address in listen {
        let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        let listener = Arc::new(listener);
        for _ in 0..threads {
            let (listener, tls) = (Arc::clone(&listener), Arc::clone(&tls));
            thread::spawn(move || {
                loop {
                    // Whatever goes wrong with a connection, its client reports it.
                    if let Ok((stream, _)) = listener.accept() {
                        let _ = serve(stream, mode, &tls);
                    }
                }
            });
        }
    }
    println!("ready");
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop).context("standard input")
}

fn serve(mut stream: TcpStream, mode: Mode, tls: &Arc<ServerConfig>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match mode {
        Mode::Once => {
            let mut buffer = [0; 4_096];
            let read = stream.read(&mut buffer)?;
            stream.write_all(&buffer[..read])
        }
        Mode::Echo => echo(stream),
        Mode::Sink => sink(stream),
        Mode::HelloOnce => {
            stream.read_exact(&mut [0; HELLO])?;
            stream.write_all(&[b'x'; ANSWER])
        }
        Mode::HelloEcho => hello(stream).and_then(echo),
        Mode::HelloSink => hello(stream).and_then(sink),
        Mode::HelloSource => hello(stream).and_then(source),
        Mode::Handshake => handshake(stream, tls),
    }
}

fn hello(mut stream: TcpStream) -> io::Result<TcpStream> {
    stream.read_exact(&mut [0; HELLO])?;
    stream.write_all(b"x")?;
    Ok(stream)
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 4_096];
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..read])?;
    }
}

fn sink(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 256 * 1_024];
    let mut total: u64 = 0;
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return stream.write_all(&total.to_be_bytes());
        }
        total += read as u64;
    }
}

fn source(mut stream: TcpStream) -> io::Result<()> {
    let buffer = vec![0; 256 * 1_024];
    loop {
        stream.write_all(&buffer)?;
    }
}

fn handshake(mut socket: TcpStream, tls: &Arc<ServerConfig>) -> io::Result<()> {
    let mut connection = ServerConnection::new(Arc::clone(tls)).map_err(io::Error::other)?;
    let mut stream = Stream::new(&mut connection, &mut socket);
    let mut message = [0; 64];
    stream.read_exact(&mut message)?;
    stream.write_all(&message)?;
    stream.conn.send_close_notify();
    stream.flush()
}
