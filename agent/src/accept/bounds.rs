//! Bounds on unfinished ClientHellos: how many, and of how many bytes, a namespace and in all.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// How much there may be at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Unfinished hellos.
    pub count: usize,
    /// Bytes of their buffers.
    pub bytes: usize,
}

/// How much there is, against a bound.
#[derive(Debug)]
pub(super) struct Usage {
    bound: Bound,
    count: AtomicUsize,
    bytes: AtomicUsize,
}

impl Usage {
    pub(super) fn new(bound: Bound) -> Arc<Self> {
        Arc::new(Self { bound, count: AtomicUsize::new(0), bytes: AtomicUsize::new(0) })
    }

    /// Returns how much there is now.
    pub(super) fn now(&self) -> Bound {
        Bound { count: self.count.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

/// Adds to a number unless it would go beyond its bound.
fn take(number: &AtomicUsize, more: usize, bound: usize) -> bool {
    let within = |now: usize| now.checked_add(more).filter(|sum| *sum <= bound);
    number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
}

/// The admission of one unfinished hello. Dropping it makes room.
#[derive(Debug)]
pub(super) struct Admission {
    namespace: Arc<Usage>,
    total: Arc<Usage>,
    bytes: usize,
}

impl Admission {
    /// Admits one hello, without a buffer yet.
    pub(super) fn new(namespace: &Arc<Usage>, total: &Arc<Usage>) -> Option<Self> {
        if !take(&namespace.count, 1, namespace.bound.count) {
            return None;
        }
        if !take(&total.count, 1, total.bound.count) {
            namespace.count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Self { namespace: Arc::clone(namespace), total: Arc::clone(total), bytes: 0 })
    }

    /// Lets the buffer grow to so many bytes.
    #[must_use]
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if !take(&self.namespace.bytes, more, self.namespace.bound.bytes) {
            return false;
        }
        if !take(&self.total.bytes, more, self.total.bound.bytes) {
            self.namespace.bytes.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.bytes += more;
        true
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        for usage in [&self.namespace, &self.total] {
            usage.count.fetch_sub(1, Ordering::Relaxed);
            usage.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_count_nor_bytes_go_beyond_a_bound_and_all_is_given_back() {
        let total = Usage::new(Bound { count: 3, bytes: 100 });
        let one = Usage::new(Bound { count: 2, bytes: 80 });
        let other = Usage::new(Bound { count: 2, bytes: 80 });
        let mut first = Admission::new(&one, &total).unwrap();
        let second = Admission::new(&one, &total).unwrap();
        assert!(Admission::new(&one, &total).is_none(), "the namespace is full");
        let mut third = Admission::new(&other, &total).unwrap();
        assert!(Admission::new(&other, &total).is_none(), "all are full");
        assert!(first.grow(40) && first.grow(80));
        assert!(!first.grow(81), "the namespace's bytes");
        assert!(third.grow(20));
        assert!(!third.grow(21), "all bytes");
        assert_eq!(total.now(), Bound { count: 3, bytes: 100 });
        drop((first, second, third));
        for usage in [total, one, other] {
            assert_eq!(usage.now(), Bound { count: 0, bytes: 0 });
        }
    }
}
