//! Reads the kernel's sampled events and logs them, at most one line a second for each subject.

use crate::{bpf::EventRing, view::Published};
use std::{
    collections::BTreeMap,
    io,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{io::unix::AsyncFd, sync::watch};
use weir_common::{
    abi::{
        ids::{EndpointId, StatsId},
        stats::{Event, EventKind},
    },
    reason::Reason,
};
use zerocopy::FromBytes;

/// At most one line for the same subject in this time.
const QUIET: Duration = Duration::from_secs(1);
/// Subjects that are remembered at once; past that all are forgotten.
const MAX_SUBJECTS: usize = 1_024;

/// Logs events until the ring buffer is gone.
///
/// # Errors
///
/// If the ring buffer cannot be waited for.
pub async fn log(ring: EventRing, published: watch::Receiver<Arc<Published>>) -> io::Result<()> {
    // SAFETY: the ring buffer owns its file descriptor and keeps it, the same one, as long as it lives.
    let mut ring = unsafe { AsyncFd::register(ring) }?;
    let mut limiter = Limiter::default();
    loop {
        let mut ready = ring.readable_mut().await?;
        while let Some(item) = ready.get_inner_mut().next() {
            if let Ok(event) = Event::read_from_bytes(&item)
                && limiter.admits((event.stats, event.kind, event.detail), Instant::now())
            {
                tell(&event, &published.borrow());
            }
        }
        ready.clear_ready();
    }
}

fn tell(event: &Event, published: &Published) {
    let names = &published.names;
    let (route, backend_ref) = match names.stats.get(&event.stats) {
        Some(name) => (name.route.to_string(), name.leg.clone().unwrap_or_default()),
        None => return, // Its route is gone since.
    };
    if event.kind == EventKind::Rejected as u64 {
        let reason = Reason::from_abi(u8::try_from(event.detail).unwrap_or(u8::MAX));
        tracing::warn!(route, backend_ref, reason = reason.label(), "rejected connections: {}", reason.text());
    } else if event.kind == EventKind::Ejected as u64 {
        let backend = published.tables.backend_of(EndpointId(event.detail)).and_then(|id| names.backends.get(&id));
        let backend = backend.map(ToString::to_string).unwrap_or_default();
        tracing::warn!(route, backend_ref, backend, "an endpoint is ejected for a while: connects to it fail");
    }
}

type Subject = (StatsId, u64, u64);

/// Lets each subject through once in a while.
#[derive(Default)]
struct Limiter {
    last: BTreeMap<Subject, Instant>,
}

impl Limiter {
    fn admits(&mut self, subject: Subject, now: Instant) -> bool {
        if self.last.get(&subject).is_some_and(|last| now.duration_since(*last) < QUIET) {
            return false;
        }
        if self.last.len() >= MAX_SUBJECTS {
            self.last.clear();
        }
        self.last.insert(subject, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_logged_once_a_second() {
        let mut limiter = Limiter::default();
        let start = Instant::now();
        assert!(limiter.admits((StatsId(1), 0, 4), start));
        assert!(!limiter.admits((StatsId(1), 0, 4), start + QUIET / 2));
        assert!(limiter.admits((StatsId(2), 0, 4), start + QUIET / 2));
        assert!(limiter.admits((StatsId(1), 0, 4), start + QUIET));
    }
}
