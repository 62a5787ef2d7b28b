//! Waiting for a condition while Ctrl-C is obeyed.

use crate::interrupt;
use anyhow::{Result, bail};
use std::{
    thread,
    time::{Duration, Instant},
};

/// How long anything may take that a busy machine does at last.
pub(super) const LONG: Duration = Duration::from_secs(120);

const PERIOD: Duration = Duration::from_millis(50);

/// Asks until there is an answer.
///
/// # Errors
///
/// If asking fails, if there is no answer within `limit`, or if a signal came.
pub(super) fn until<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        interrupt::check()?;
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if start.elapsed() > limit {
            bail!("{what}: not within {limit:?}");
        }
        thread::sleep(PERIOD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_with_the_answer_with_a_failure_and_with_the_limit() {
        let mut asked = 0;
        let answer = until("it", LONG, || {
            asked += 1;
            Ok((asked == 2).then_some(7))
        });
        assert_eq!(answer.unwrap(), 7);
        let failed = until("it", LONG, || -> Result<Option<()>> { bail!("broken") }).unwrap_err();
        assert_eq!(failed.to_string(), "broken");
        let late = until("the sun", Duration::ZERO, || Ok(None::<()>)).unwrap_err();
        assert!(late.to_string().starts_with("the sun: not within"), "{late}");
    }
}
