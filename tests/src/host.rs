//! Whether this machine can run a scenario at all.

use crate::cgroup;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::Write as _;

/// Returns whether the tests that need a kernel can run. If not, the reason is printed; in CI (the
/// variable `CI` is set) that is a failure.
///
/// # Panics
///
/// In CI, if something is missing.
#[must_use]
pub fn is_ready() -> bool {
    let Some(missing) = missing() else { return true };
    assert!(std::env::var_os("CI").is_none(), "this test cannot run here: {missing}");
    // Not `eprintln!`: the test runner would keep that to itself when the test passes.
    let _ = writeln!(std::io::stderr(), "skipped: {missing}");
    false
}

/// Lets this process have as many files open as root may give it: thousands of connections are.
pub fn raise_file_limit() {
    const WANTED: u64 = 65_536;
    let hard = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(_, hard)| hard);
    // Without root, what the hard limit allows has to do.
    if setrlimit(Resource::RLIMIT_NOFILE, WANTED, hard.max(WANTED)).is_err() {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

fn missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("needs root; `cargo xtask test` runs it with sudo".to_owned());
    }
    cgroup::mount_point().err().map(|error| error.to_string())
}
