//! Keeps the agent small: reading a large configuration needs for a moment twice what it leaves.

/// Lets all threads share one heap, so that what one of them frees another one can use. Call it before
/// the first thread starts.
pub fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call only sets a limit of the allocator, and no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives free pages back to the system.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call has no preconditions; it only returns free pages of the allocator.
    unsafe {
        libc::malloc_trim(0);
    }
}
