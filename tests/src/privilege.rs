//! What a test may do.

/// Whether this test runs as root; says what needs it if not. Never `false` in CI.
///
/// # Panics
///
/// Without root, where the variable `CI` is set: a test that skips itself there would prove nothing.
#[must_use]
pub fn is_root(what: &str) -> bool {
    if nix::unistd::Uid::effective().is_root() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "CI must run this test as root");
    eprintln!("skipped: {what} needs root");
    false
}
