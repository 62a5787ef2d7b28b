//! Moves a connection's bytes between its two sockets with splice(2), without copying them.
//!
//! A FIN is passed on and the other direction goes on; an RST is passed on as one. What is under way
//! is bounded by the sockets' buffers and two pipes.

mod flow;
mod pipe;

pub(super) use pipe::Pool;

use super::{Shared, hand_over::Accepted, metrics::Latency, peer::Peer};
use flow::{Failure, Flow};
use std::{
    future::{Future as _, poll_fn},
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::{
    io::Interest,
    time::{Sleep, sleep},
};

/// Moves bytes until both directions have ended, or nothing has moved for the idle timeout.
///
/// # Errors
///
/// If a side breaks off; the other was then reset.
pub(super) async fn run(shared: &Shared, accepted: Accepted) -> io::Result<()> {
    let Accepted { client, backend, hello, route_stats, idle_timeout, whole_at, open, .. } = accepted;
    let mut both = Both {
        up: Way::Open(Flow::new(hello)),
        down: Way::Open(Flow::new(Vec::new())),
        awaited: Some(Box::new((whole_at, shared.metrics.first_bytes(route_stats)))),
        idle: idle_timeout.map(|timeout| Box::new(Idle::new(timeout))),
    };
    {
        // While the backend does not read, nothing is read of the client that would tell its end.
        let mut client_lost = pin!(client.ready(Interest::ERROR));
        let over = poll_fn(|context| match both.poll(context, shared, &client, &backend) {
            Poll::Pending => client_lost.as_mut().poll(context).map(|_| Err(io::ErrorKind::ConnectionReset.into())),
            over => over,
        });
        let over = over.await;
        both.up.abandon(&shared.pipes);
        both.down.abandon(&shared.pipes);
        over?;
    }
    client.close();
    backend.close();
    drop(open);
    Ok(())
}

/// One direction, and what has become of it.
#[derive(Debug)]
enum Way {
    Open(Flow),
    /// The FIN was passed on.
    Ended,
    /// Its destination takes no more.
    Broken(Option<io::Error>),
}

#[derive(Debug)]
struct Both {
    /// From the client to the backend.
    up: Way,
    down: Way,
    /// Since when the backend's first byte is awaited, and where that time is counted.
    awaited: Option<Box<(Instant, Arc<Latency>)>>,
    idle: Option<Box<Idle>>,
}

impl Both {
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        shared: &Shared,
        client: &Peer,
        backend: &Peer,
    ) -> Poll<io::Result<()>> {
        let (sent, up) = self.up.poll(context, &shared.pipes, client, backend);
        let (received, down) = self.down.poll(context, &shared.pipes, backend, client);
        shared.metrics.moved_to_backend(sent);
        shared.metrics.moved_to_client(received);
        if received > 0
            && let Some(awaited) = self.awaited.take()
        {
            let (since, latency) = *awaited;
            latency.count(since.elapsed());
        }
        match up {
            // It may have answered before it broke off: the answer is still delivered.
            Err(Failure::Destination(error)) => self.up = Way::Broken(Some(error)),
            Err(Failure::Source(error)) => return Poll::Ready(Err(error)),
            Ok(()) => {}
        }
        if let Err(Failure::Source(error) | Failure::Destination(error)) = down {
            return Poll::Ready(Err(error));
        }
        match (&mut self.up, &self.down) {
            (Way::Broken(error), Way::Ended | Way::Broken(_)) => {
                return Poll::Ready(Err(error.take().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into())));
            }
            (Way::Ended, Way::Ended | Way::Broken(_)) => return Poll::Ready(Ok(())),
            (Way::Open(_), _) | (_, Way::Open(_)) => {}
        }
        self.idle.as_mut().map_or(Poll::Pending, |idle| idle.poll(context, sent + received > 0)).map(Ok)
    }
}

impl Way {
    fn abandon(&mut self, pool: &Pool) {
        if let Self::Open(flow) = self {
            flow.abandon(pool);
        }
    }

    /// Returns how many bytes were moved, and how it failed.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        pool: &Pool,
        source: &Peer,
        destination: &Peer,
    ) -> (u64, Result<(), Failure>) {
        let Self::Open(flow) = self else { return (0, Ok(())) };
        let result = flow.poll(context, pool, source, destination);
        let moved = flow.moved();
        match result {
            Poll::Pending => (moved, Ok(())),
            Poll::Ready(Ok(())) => {
                *self = Self::Ended;
                (moved, Ok(()))
            }
            Poll::Ready(Err(failure)) => (moved, Err(failure)),
        }
    }
}

/// Ends a connection on which nothing moves.
#[derive(Debug)]
struct Idle {
    timeout: Duration,
    last: Instant,
    /// Set off rarely: it is moved only when it goes off too early.
    alarm: Pin<Box<Sleep>>,
}

impl Idle {
    fn new(timeout: Duration) -> Self {
        Self { timeout, last: Instant::now(), alarm: Box::pin(sleep(timeout)) }
    }

    fn poll(&mut self, context: &mut Context<'_>, moved: bool) -> Poll<()> {
        if moved {
            self.last = Instant::now();
        }
        while self.alarm.as_mut().poll(context).is_ready() {
            let until = self.last + self.timeout;
            if until <= Instant::now() {
                return Poll::Ready(());
            }
            self.alarm.as_mut().reset(until.into());
        }
        Poll::Pending
    }
}
