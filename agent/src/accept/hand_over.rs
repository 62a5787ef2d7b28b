//! The end of the acceptor's work: two connected sockets and what was read of the client.

use super::{Shared, metrics::Open, peer::Peer, splice};
use std::time::{Duration, Instant};
use weir_common::abi::ids::{FrontendId, StatsId};

/// A connection whose route is decided and whose backend is connected.
#[derive(Debug)]
pub(super) struct Accepted {
    /// The client's socket.
    pub(super) client: Peer,
    /// The backend's, in the same network namespace.
    pub(super) backend: Peer,
    /// The client's first bytes: the hello, and what came with it. The backend has none of them.
    pub(super) hello: Vec<u8>,
    /// What the client dialled.
    pub(super) frontend: FrontendId,
    /// Counters of the route.
    pub(super) route_stats: StatsId,
    /// How long the connection may lie idle; `None` for ever.
    pub(super) idle_timeout: Option<Duration>,
    /// When the hello was whole.
    pub(super) whole_at: Instant,
    /// Counts it as open.
    pub(super) open: Open,
}

/// Moves the connection's bytes until it is over.
pub(super) async fn hand_over(shared: &Shared, accepted: Accepted) {
    let frontend = accepted.frontend;
    if let Err(error) = splice::run(shared, accepted).await {
        shared.metrics.failed();
        tracing::debug!(frontend = frontend.0, %error, "a connection ended with an error");
    }
}
