//! A client's socket that cuts what it sends first.

use crate::syscall;
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    os::fd::AsFd as _,
    thread,
    time::{Duration, Instant},
};

/// How long a piece may stay unacknowledged before the next one is written all the same: a frontend
/// that has seen enough may hold it back until it has decided.
const PATIENCE: Duration = Duration::from_millis(100);

/// A socket that writes in pieces, each one packet of its own, until something is read.
#[derive(Debug)]
pub struct Pieces {
    stream: TcpStream,
    /// Bytes of a piece; 0 when nothing is cut any more.
    size: usize,
}

impl Pieces {
    /// Cuts into `size` bytes a piece; 0 cuts nothing.
    ///
    /// # Errors
    ///
    /// If the socket is broken.
    pub fn new(stream: TcpStream, size: usize) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, size })
    }

    /// Returns the socket.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.size = 0;
        self.stream.read(buffer)
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.size == 0 {
            return self.stream.write(bytes);
        }
        let written = self.stream.write(&bytes[..self.size.min(bytes.len())])?;
        // What waits in the socket would become one packet together with the next piece.
        let start = Instant::now();
        while syscall::unacknowledged(self.stream.as_fd())? > 0 && start.elapsed() < PATIENCE {
            thread::yield_now();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
