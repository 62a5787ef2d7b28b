//! File descriptors: how many this process may have, and what to do when there are no more.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::{
    fs,
    fs::File,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// What the agent needs besides its connections: maps, programs, links, listeners of some namespaces.
const RESERVED: usize = 2_048;
/// One of so many file descriptors is for pipes.
const PIPES_SHARE: usize = 8;
/// What is asked for if the kernel does not tell the most there can be.
const MOST: u64 = 1 << 20;

/// Raises the limit on open files as far as this process may, and returns it.
pub(super) fn raise_limit() -> u64 {
    let most = fs::read_to_string("/proc/sys/fs/nr_open").ok().and_then(|text| text.trim().parse().ok());
    let most = most.unwrap_or(MOST).min(MOST);
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 0 };
    // Beyond the hard limit with CAP_SYS_RESOURCE only.
    for wanted in [most, hard] {
        if soft >= wanted || setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted)).is_ok() {
            return soft.max(wanted);
        }
    }
    soft
}

/// Returns how many sockets and how many pipes a limit on open files is enough for.
pub(super) fn divide(limit: u64) -> (usize, usize) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let for_pipes = limit / PIPES_SHARE;
    (limit - for_pipes - RESERVED.min(limit / 2), for_pipes / 2)
}

/// How many sockets connections may have.
#[derive(Debug)]
pub(super) struct Slots {
    most: usize,
    taken: AtomicUsize,
}

impl Slots {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: AtomicUsize::new(0) })
    }

    /// Takes room for a socket, if there is some.
    pub(super) fn take(self: &Arc<Self>) -> Option<Slot> {
        let within = |taken: usize| (taken < self.most).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).ok()?;
        Some(Slot(Arc::clone(self)))
    }
}

/// Room for one socket.
#[derive(Debug)]
pub(super) struct Slot(Arc<Slots>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A file descriptor kept for the time when there are no more: with it a connection can be taken out
/// of the queue, only to be closed.
#[derive(Debug)]
pub(super) struct Spare(Mutex<Option<File>>);

impl Spare {
    pub(super) fn new() -> Self {
        Self(Mutex::new(open().ok()))
    }

    /// Runs something that needs one file descriptor, without which there is none left.
    pub(super) fn lend<T>(&self, function: impl FnOnce() -> T) -> T {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(spare.take());
        let result = function();
        *spare = open().ok();
        result
    }
}

fn open() -> io::Result<File> {
    File::open("/dev/null")
}

/// Whether an error says that there are no file descriptors, or no memory for them.
pub(super) fn are_out(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_divided_between_sockets_pipes_and_the_rest() {
        assert_eq!(divide(1_048_576), (915_456, 65_536));
        assert_eq!(divide(20_000), (15_452, 1_250));
        assert_eq!(divide(1_024), (384, 64));
        assert_eq!(divide(0), (0, 0));
    }

    #[test]
    fn there_are_no_more_slots_than_allowed_and_each_comes_back() {
        let slots = Slots::new(1);
        let slot = slots.take().unwrap();
        assert!(slots.take().is_none());
        drop(slot);
        assert!(slots.take().is_some());
    }
}
