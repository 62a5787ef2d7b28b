//! Atomic read-modify-write on map values. Core's atomic types have none on the BPF target.

use core::intrinsics::{AtomicOrdering, atomic_cxchg, atomic_xadd};

/// Adds to a word that other CPUs change too, and returns what it was.
///
/// # Safety
///
/// `word` points to a live, aligned map value.
#[inline(always)]
pub(crate) unsafe fn fetch_add(word: *mut u64, n: u64) -> u64 {
    // SAFETY: the caller passes a live, aligned word.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::SeqCst }>(word, n) }
}

/// Replaces `old` by `new`; returns whether the word was `old`.
///
/// # Safety
///
/// `word` points to a live, aligned map value.
#[inline(always)]
pub(crate) unsafe fn replace(word: *mut u64, old: u64, new: u64) -> bool {
    // SAFETY: the caller passes a live, aligned word.
    unsafe { atomic_cxchg::<u64, { AtomicOrdering::SeqCst }, { AtomicOrdering::SeqCst }>(word, old, new).1 }
}
