//! Waiting for a condition, with a deadline. Nothing here waits for time to pass.

use anyhow::{Result, bail};
use std::{
    thread,
    time::{Duration, Instant},
};

/// How long a condition may take that should hold soon, on a busy machine.
pub const SOON: Duration = Duration::from_secs(20);

/// Asks until there is an answer.
///
/// # Errors
///
/// If there is none within `limit`; the message says that `what` did not happen.
pub fn until<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        if start.elapsed() > limit {
            bail!("{what}: not within {limit:?}");
        }
        thread::sleep(Duration::from_millis(2));
    }
}
