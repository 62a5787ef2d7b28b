//! The servers of the bench: blocking, a thread a connection at a time, and nothing that costs.

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

/// What a server does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Sends the first bytes back and closes: so the closed connection waits here, not at the client.
    Once,
    /// Sends everything back until the client closes.
    Echo,
    /// Reads until the client closes, then says how many bytes came.
    Sink,
}

/// Serves until standard input ends.
pub(crate) fn run(listen: &[SocketAddr], mode: Mode, threads: usize) -> Result<()> {
    for address in listen {
        let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        let listener = Arc::new(listener);
        for _ in 0..threads {
            let listener = Arc::clone(&listener);
            thread::spawn(move || {
                loop {
                    // Whatever goes wrong with a connection, its client reports it.
                    if let Ok((stream, _)) = listener.accept() {
                        let _ = serve(stream, mode);
                    }
                }
            });
        }
    }
    println!("ready");
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop).context("standard input")
}

fn serve(mut stream: TcpStream, mode: Mode) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match mode {
        Mode::Once => {
            let mut buffer = [0; 4_096];
            let read = stream.read(&mut buffer)?;
            stream.write_all(&buffer[..read])
        }
        Mode::Echo => {
            let mut buffer = [0; 4_096];
            loop {
                let read = stream.read(&mut buffer)?;
                if read == 0 {
                    return Ok(());
                }
                stream.write_all(&buffer[..read])?;
            }
        }
        Mode::Sink => {
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
    }
}
