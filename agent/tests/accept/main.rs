//! The acceptor on real sockets in namespaces of its own. The kernel's hook is emulated: see `fake`.
//! Needs root.

mod fake;
mod hello_bytes;
mod stage;

mod dialling;
mod doors;
mod hellos;
mod moving;
mod scale;
mod stopping;

use tokio::time::timeout;
use weir_tests::wait::SOON;

/// Whether this test can run; says why not.
fn is_root() -> bool {
    weir_tests::privilege::is_root("making network namespaces")
}

/// Waits for something that should come soon.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.unwrap_or_else(|_| panic!("{what}: not within {SOON:?}"))
}

/// Waits for a condition.
async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    soon(what, async {
        while !condition() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    })
    .await;
}
