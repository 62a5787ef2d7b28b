//! A connected socket that is reset unless it is closed on purpose.
//!
//! So a connection that ends early (rejected, failed, out of time, its task aborted) is over for the
//! other side at once, and never looks like an orderly end.

use super::files::Slot;
use socket2::SockRef;
use std::{net::Shutdown, ops::Deref, time::Duration};
use tokio::net::TcpStream;

/// The socket. Dropping it sends RST.
#[derive(Debug)]
pub(super) struct Peer {
    stream: TcpStream,
    reset: bool,
    _slot: Slot,
}

impl Peer {
    /// Takes a socket.
    pub(super) const fn new(stream: TcpStream, slot: Slot) -> Self {
        Self { stream, reset: true, _slot: slot }
    }

    /// Closes it in order: what was written is still delivered, then FIN.
    pub(super) fn close(mut self) {
        self.reset = false;
    }

    /// Sends FIN; reading goes on.
    pub(super) fn finish(&self) -> std::io::Result<()> {
        SockRef::from(&self.stream).shutdown(Shutdown::Write)
    }
}

impl Deref for Peer {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.stream
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if self.reset {
            end_with_rst(&self.stream);
        }
    }
}

/// Lets a socket's close send RST.
pub(super) fn end_with_rst(stream: &TcpStream) {
    // It fails on no TCP socket; without it the end would be a FIN.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
