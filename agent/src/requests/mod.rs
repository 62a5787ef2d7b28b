//! What the kernel programs ask of the agent: to end a connection, to listen in a network namespace, to
//! read a ClientHello that they cannot.
//!
//! Requests that came while no agent ran wait in the pinned ring buffer. One that found no room is made
//! again with the connection's next packet.

mod destroy;
mod hellos;

use crate::{
    bpf::{Border, RequestRing},
    netns::Registry,
    reconcile::InForce,
};
use destroy::{Destroyer, Outcome};
use hellos::Hellos;
use std::{
    collections::BTreeSet,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{io::unix::AsyncFd, select, sync::watch, time::interval};
use weir_common::abi::tls::{PieceRequest, RequestKind, SocketRequest};
use zerocopy::FromBytes;

pub use destroy::probe;

/// How often what is remembered of namespaces and unfinished hellos is looked through.
const TIDY: Duration = Duration::from_secs(1);

/// How requests were answered, for status and metrics.
#[derive(Debug, Default)]
pub struct Answered {
    /// Connections ended.
    pub aborted: AtomicU64,
    /// Connections that could not be ended: their network namespace cannot be entered, or the kernel
    /// refused.
    pub not_aborted: AtomicU64,
    /// ClientHellos read for the programs.
    pub read: AtomicU64,
}

/// Answers requests.
pub struct Requests {
    border: Arc<Border>,
    registry: Arc<Registry>,
    in_force: watch::Receiver<InForce>,
    answered: Arc<Answered>,
    destroyer: Destroyer,
    hellos: Hellos,
}

impl Requests {
    /// Prepares.
    #[must_use]
    pub fn new(border: Arc<Border>, registry: Arc<Registry>, in_force: watch::Receiver<InForce>) -> Self {
        let destroyer = Destroyer::new(Arc::clone(&registry));
        Self { border, registry, in_force, answered: Arc::default(), destroyer, hellos: Hellos::default() }
    }

    /// Returns the counts of answers, which go on with the answering.
    #[must_use]
    pub fn answered(&self) -> Arc<Answered> {
        Arc::clone(&self.answered)
    }

    /// Answers for ever.
    ///
    /// # Errors
    ///
    /// If the ring buffer cannot be waited for.
    pub async fn run(mut self, ring: RequestRing) -> io::Result<()> {
        // SAFETY: the ring buffer owns its file descriptor and keeps it, the same one, as long as it lives.
        let mut ring = unsafe { AsyncFd::register(ring) }?;
        let mut tidy = interval(TIDY);
        loop {
            select! {
                ready = ring.readable_mut() => {
                    let mut ready = ready?;
                    // Copied out first: an entry blocks the ring buffer as long as it is borrowed.
                    let mut batch = Vec::new();
                    while let Some(item) = ready.get_inner_mut().next() {
                        batch.push(item.to_vec());
                    }
                    ready.clear_ready();
                    self.answer(&batch).await;
                }
                _ = tidy.tick() => {
                    let cookies = self.registry.list().into_iter().filter_map(|namespace| namespace.cookie.ok());
                    self.destroyer.keep(&cookies.collect());
                    self.hellos.forget_old(Instant::now());
                }
            }
        }
    }

    async fn answer(&mut self, batch: &[Vec<u8>]) {
        let mut listened = BTreeSet::new();
        for item in batch {
            let Ok((request, _)) = SocketRequest::read_from_prefix(item) else { continue };
            if request.kind == RequestKind::Abort as u32 {
                self.abort(&request).await;
            } else if request.kind == RequestKind::Listen as u32 {
                // Of all clients that were refused in a namespace, one is enough to find it.
                if listened.insert(request.netns) {
                    self.registry.look_at(request.pid).await;
                }
            } else if request.kind == RequestKind::Piece as u32
                && let Ok(piece) = PieceRequest::ref_from_bytes(item)
            {
                self.read(piece);
            }
        }
    }

    async fn abort(&mut self, request: &SocketRequest) {
        match self.destroyer.destroy(request).await {
            // It has closed meanwhile: that is what was wanted.
            Ok(Outcome::Destroyed | Outcome::Gone) => {
                self.answered.aborted.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                // The program asks again with each packet that TCP tries.
                self.answered.not_aborted.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    pid = request.pid,
                    error = format!("{error:#}"),
                    "a rejected TLS connection could not be ended: its client waits"
                );
            }
        }
    }

    fn read(&mut self, piece: &PieceRequest) {
        let tables = Arc::clone(&self.in_force.borrow().tables);
        if let Some(ruling) = self.hellos.add(piece, &tables, Instant::now()) {
            self.answered.read.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = self.border.set_ruling(piece.socket.cookie, ruling) {
                tracing::warn!(%error, "a ClientHello was read, but the kernel cannot be told");
            }
        }
    }
}
