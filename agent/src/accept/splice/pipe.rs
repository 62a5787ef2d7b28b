//! Pipes that hold the bytes between two sockets, and a pool of empty ones.

use nix::{
    fcntl::{OFlag, SpliceFFlags, splice},
    unistd::pipe2,
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// What a pipe of the kernel's default size holds, in bytes.
const CAPACITY: usize = 64 * 1024;

/// A pipe. Bytes go through it without being copied.
#[derive(Debug)]
pub(super) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    filled: usize,
}

impl Pipe {
    fn new() -> io::Result<Self> {
        let (read, write) = pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)?;
        Ok(Self { read, write, filled: 0 })
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Fills the pipe, which is empty, from a socket. Returns how many bytes, 0 at the stream's end.
    pub(super) fn fill(&mut self, from: impl AsFd) -> io::Result<usize> {
        let moved = splice(from, None, &self.write, None, CAPACITY, flags())?;
        self.filled += moved;
        Ok(moved)
    }

    /// Empties the pipe into a socket, as far as that takes it. Returns how many bytes.
    pub(super) fn empty(&mut self, to: impl AsFd) -> io::Result<usize> {
        let moved = splice(&self.read, None, to, None, self.filled, flags())?;
        self.filled -= moved;
        Ok(moved)
    }
}

const fn flags() -> SpliceFFlags {
    SpliceFFlags::SPLICE_F_MOVE.union(SpliceFFlags::SPLICE_F_NONBLOCK)
}

/// Empty pipes, so that connections which move nothing have none.
#[derive(Debug)]
pub(in crate::accept) struct Pool {
    empty: Mutex<Vec<Pipe>>,
    /// How many empty ones are kept.
    keep: usize,
    /// How many there may be.
    most: usize,
    made: AtomicUsize,
}

impl Pool {
    pub(in crate::accept) const fn new(keep: usize, most: usize) -> Self {
        Self { empty: Mutex::new(Vec::new()), keep, most, made: AtomicUsize::new(0) }
    }

    /// Returns how many pipes lie here.
    pub(in crate::accept) fn len(&self) -> usize {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Takes a pipe, unless there are as many as there may be.
    pub(super) fn take(&self) -> Option<Pipe> {
        if let Some(pipe) = self.empty.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Some(pipe);
        }
        let within = |made: usize| (made < self.most).then_some(made + 1);
        self.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).ok()?;
        let made = Pipe::new();
        if made.is_err() {
            self.made.fetch_sub(1, Ordering::Relaxed);
        }
        made.ok()
    }

    /// Takes a pipe back, and keeps it if it is empty and there is room for it.
    pub(super) fn give(&self, pipe: Pipe) {
        let mut empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        if pipe.is_empty() && empty.len() < self.keep {
            empty.push(pipe);
        } else {
            self.made.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_keeps_empty_pipes_up_to_its_bound() {
        let pool = Pool::new(1, 3);
        let (one, other, mut full) = (pool.take().unwrap(), pool.take().unwrap(), pool.take().unwrap());
        assert!(pool.take().is_none(), "there are as many as there may be");
        full.filled = 1;
        pool.give(full);
        assert_eq!(pool.len(), 0, "its bytes would come out in another connection");
        pool.give(one);
        pool.give(other);
        assert_eq!(pool.len(), 1);
        let pipes = [pool.take(), pool.take(), pool.take()];
        assert!(pipes.iter().all(|pipe| pipe.as_ref().is_some_and(Pipe::is_empty)));
        assert!(pool.take().is_none());
    }
}
