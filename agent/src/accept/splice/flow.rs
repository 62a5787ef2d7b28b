//! One direction of a connection: from a socket through a pipe to another, then the FIN.

use super::pipe::{Pipe, Pool};
use crate::accept::peer::Peer;
use std::{
    io,
    task::{Context, Poll, ready},
};
use tokio::io::Interest;

/// Why a direction failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The source's connection is broken.
    Source(io::Error),
    /// The destination takes no more.
    Destination(io::Error),
}

/// What is read where there is no pipe, in bytes.
const COPY: usize = 16 * 1024;

/// One direction.
#[derive(Debug)]
pub(super) struct Flow {
    /// Bytes that are not in a pipe and go first: the hello, or what was read for want of a pipe.
    copied: Vec<u8>,
    copied_sent: usize,
    /// Only while there are bytes in it.
    pipe: Option<Pipe>,
    at_end: bool,
    moved: u64,
}

impl Flow {
    pub(super) const fn new(first: Vec<u8>) -> Self {
        Self { copied: first, copied_sent: 0, pipe: None, at_end: false, moved: 0 }
    }

    /// Returns the bytes moved since this was asked last.
    pub(super) const fn moved(&mut self) -> u64 {
        std::mem::replace(&mut self.moved, 0)
    }

    /// Moves bytes until both sockets would block; ready when the FIN was passed on.
    ///
    /// The pipe is filled only when it is empty: so "would block" can only mean the socket.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        pool: &Pool,
        source: &Peer,
        destination: &Peer,
    ) -> Poll<Result<(), Failure>> {
        loop {
            if !self.copied.is_empty() {
                ready!(destination.poll_write_ready(context)).map_err(Failure::Destination)?;
                self.send_copied(destination).map_err(Failure::Destination)?;
            } else if let Some(mut pipe) = self.pipe.take() {
                let sent = poll_out(context, &mut pipe, destination);
                if matches!(sent, Poll::Ready(Err(_))) || pipe.is_empty() {
                    pool.give(pipe);
                } else {
                    self.pipe = Some(pipe);
                }
                self.moved += ready!(sent).map_err(Failure::Destination)?;
            } else if self.at_end {
                return Poll::Ready(destination.finish().map_err(Failure::Destination));
            } else {
                ready!(source.poll_read_ready(context)).map_err(Failure::Source)?;
                self.take_in(pool, source).map_err(Failure::Source)?;
            }
        }
    }

    /// Gives up what has not been moved.
    pub(super) fn abandon(&mut self, pool: &Pool) {
        if let Some(pipe) = self.pipe.take() {
            pool.give(pipe);
        }
    }

    fn send_copied(&mut self, destination: &Peer) -> io::Result<()> {
        let rest = self.copied.get(self.copied_sent..).unwrap_or_default();
        if let Some(sent) = unless_blocked(destination.try_write(rest))? {
            self.copied_sent += sent;
            self.moved += sent as u64;
        }
        if self.copied_sent == self.copied.len() {
            self.copied = Vec::new();
            self.copied_sent = 0;
        }
        Ok(())
    }

    /// Reads as much as there is room for, or finds the end of the stream.
    fn take_in(&mut self, pool: &Pool, source: &Peer) -> io::Result<()> {
        let Some(mut pipe) = pool.take() else { return self.copy_in(source) };
        let moved = unless_blocked(source.try_io(Interest::READABLE, || pipe.fill(&**source)));
        if let Ok(Some(1..)) = moved {
            self.pipe = Some(pipe);
        } else {
            pool.give(pipe);
        }
        self.at_end = moved? == Some(0);
        Ok(())
    }

    fn copy_in(&mut self, source: &Peer) -> io::Result<()> {
        let mut buffer = vec![0; COPY];
        if let Some(read) = unless_blocked(source.try_read(&mut buffer))? {
            buffer.truncate(read);
            self.at_end = read == 0;
            self.copied = buffer;
        }
        Ok(())
    }
}

/// Makes "would block" a `None`.
fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        result => result.map(Some),
    }
}

/// Empties a pipe as far as the socket takes it at once. Returns how many bytes, never 0.
fn poll_out(context: &mut Context<'_>, pipe: &mut Pipe, destination: &Peer) -> Poll<io::Result<u64>> {
    loop {
        ready!(destination.poll_write_ready(context))?;
        match destination.try_io(Interest::WRITABLE, || pipe.empty(&**destination)) {
            Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Ok(sent) => return Poll::Ready(Ok(sent as u64)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accept::files::Slots;
    use std::{future::poll_fn, net::Ipv4Addr};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    /// Two ends of a connection; the second is the acceptor's.
    async fn connection(slots: &std::sync::Arc<Slots>) -> (TcpStream, Peer) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (one, other) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (one.unwrap(), Peer::new(other.unwrap().0, slots.take().unwrap()))
    }

    /// Moves more than all buffers hold, with so many pipes.
    async fn moves_everything(pipes: usize) {
        let pool = Pool::new(pipes, pipes);
        let slots = Slots::new(2);
        let (mut client, source) = connection(&slots).await;
        let (mut server, destination) = connection(&slots).await;
        let sent: Vec<u8> = (0..20_000_000_u32).map(|i| (i % 251) as u8).collect();
        let mut flow = Flow::new(b"first".to_vec());
        let mut received = Vec::new();
        let (_, moved, _) = tokio::join!(
            async {
                client.write_all(&sent).await.unwrap();
                client.shutdown().await.unwrap();
            },
            poll_fn(|context| flow.poll(context, &pool, &source, &destination)),
            server.read_to_end(&mut received),
        );
        moved.unwrap();
        assert_eq!(flow.moved(), 5 + sent.len() as u64);
        assert!(received.strip_prefix(b"first") == Some(&sent));
        assert_eq!(pool.len(), pipes, "the pipe is back");
    }

    #[tokio::test]
    async fn everything_is_moved_through_a_pipe() {
        moves_everything(1).await;
    }

    #[tokio::test]
    async fn without_pipes_everything_is_copied() {
        moves_everything(0).await;
    }
}
