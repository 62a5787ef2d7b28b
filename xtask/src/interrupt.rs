//! Ctrl-C and its like: noted, so that a command ends by the way that removes what it has made.

use anyhow::{Context as _, Result, bail};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Begins to note signals instead of dying of them.
///
/// # Errors
///
/// If the system has no room for a thread.
pub(crate) fn watch() -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot watch signals")?;
    let guard = runtime.enter();
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let [mut int, mut term, mut hup] = [signal(kinds[0])?, signal(kinds[1])?, signal(kinds[2])?];
    drop(guard);
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async move {
            loop {
                tokio::select! {
                    _ = int.recv() => {}
                    _ = term.recv() => {}
                    _ = hup.recv() => {}
                }
                INTERRUPTED.store(true, Ordering::Relaxed);
            }
        });
    })?;
    Ok(())
}

/// Whether a signal came.
pub(crate) fn came() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Fails if a signal came.
///
/// # Errors
///
/// As said.
pub(crate) fn check() -> Result<()> {
    if came() {
        bail!("interrupted");
    }
    Ok(())
}
