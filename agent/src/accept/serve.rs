//! One accepted connection, from the listener's queue to the hand-over.

use super::{
    Shared,
    bounds::{Admission, Usage},
    dial::{self, Failed, Source},
    hand_over::{Accepted, hand_over},
    hello::{self, Ended},
    maps::Rejected,
    metrics::Open,
    peer::{Peer, end_with_rst},
};
use std::{net::SocketAddr, num::NonZeroU32, sync::Arc, time::Instant};
use tokio::{net::TcpStream, time::timeout};
use weir_common::{
    abi::{
        ids::StatsId,
        tls::{AcceptKey, AcceptRecord},
    },
    hello::Records,
    reason::Reason,
};

/// The listener that a connection came to.
#[derive(Clone, Debug)]
pub(super) struct Door {
    /// Cookie of its network namespace.
    pub(super) netns: u64,
    /// Unfinished hellos there.
    pub(super) unfinished: Arc<Usage>,
}

/// Takes a connection: only one that the hook sent here. Any other is reset.
pub(super) fn take(shared: &Shared, door: &Door, port: u16, client: SocketAddr, stream: TcpStream) -> Option<Arrived> {
    // The record was written before the SYN left.
    let key = AcceptKey::new(door.netns, client.ip().into(), client.port(), port);
    let record = match shared.maps.take_accepted(&key) {
        Ok(Some(record)) => record,
        Ok(None) => {
            shared.metrics.stranger();
            end_with_rst(&stream);
            return None;
        }
        Err(error) => {
            tracing::warn!(%error, "cannot look up an accepted connection");
            shared.metrics.refused();
            end_with_rst(&stream);
            return None;
        }
    };
    shared.metrics.accepted();
    let Some(slot) = shared.slots.take() else {
        end_with_rst(&stream);
        dial::count_rejection(shared, record.route_stats, Reason::AcceptorFull);
        return None;
    };
    let peer = Peer::new(stream, slot);
    Some(Arrived { netns: door.netns, client, peer, record, open: shared.metrics.opened() })
}

/// A connection that the hook sent here.
#[derive(Debug)]
pub(super) struct Arrived {
    netns: u64,
    client: SocketAddr,
    peer: Peer,
    record: AcceptRecord,
    open: Open,
}

impl Arrived {
    /// Serves it until it is over.
    pub(super) async fn serve(self, shared: Arc<Shared>, door: Door) {
        // Boxed, because they are long over while a connection's bytes move.
        let accepted = match Box::pin(self.decide(&shared, door)).await {
            Ok(accepted) => accepted,
            Err(Some(Rejected { stats, reason })) => return dial::count_rejection(&shared, stats, reason),
            Err(None) => return,
        };
        hand_over(&shared, accepted).await;
    }

    /// Reads the hello, decides, connects. Without a result the client is reset; it is then still to
    /// be counted why, unless that is counted already.
    async fn decide(self, shared: &Shared, door: Door) -> Result<Accepted, Option<Rejected>> {
        let reject = |reason| Some(Rejected { stats: self.record.route_stats, reason });
        let mut admission = Admission::new(&door.unfinished, &shared.unfinished).ok_or(reject(Reason::AcceptorFull))?;
        let read = timeout(shared.options.hello_deadline, hello::read(&self.peer, &mut admission)).await;
        let (hello, found) = match read {
            Ok(Ok(whole)) => whole,
            Ok(Err(Ended::Rejected(reason))) => return Err(reject(reason)),
            Ok(Err(Ended::Abandoned)) => {
                shared.metrics.abandoned();
                return Err(None);
            }
            Err(_) => return Err(reject(Reason::HelloTooSlow)),
        };
        drop(admission);
        let whole_at = Instant::now();
        let chosen = shared.decisions.decide(&self.record, &Records::new(&hello), &found).map_err(Some)?;
        let backend = dial::dial(shared, self.source(), &chosen).await.map_err(|failed| match failed {
            Failed::Rejected => None,
            Failed::Full => reject(Reason::AcceptorFull),
            Failed::Unreachable(stats, error) => {
                tracing::debug!(%error, "no connection to the backend");
                Some(unreachable_for(stats.unwrap_or(chosen.route_stats)))
            }
        })?;
        Ok(Accepted {
            client: self.peer,
            backend,
            hello,
            frontend: self.record.frontend,
            route_stats: chosen.route_stats,
            idle_timeout: chosen.idle_timeout,
            whole_at,
            open: self.open,
        })
    }

    fn source(&self) -> Source {
        Source {
            netns: self.netns,
            family: self.record.frontend_address.family(),
            client: self.client.ip(),
            device: NonZeroU32::new(self.record.device),
        }
    }
}

const fn unreachable_for(stats: StatsId) -> Rejected {
    Rejected { stats, reason: Reason::BackendUnreachable }
}
