//! The machine's DNS configuration, also when it changes.

use super::Resolvers;
use hickory_resolver::{TokioResolver, net::NetError};
use std::{fs, os::unix::fs::MetadataExt, sync::Arc, time::Duration};
use tokio::{sync::watch, task::JoinHandle, time::MissedTickBehavior};

/// Files that decide where names are looked up.
const FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];
/// How often to look whether they changed.
const LOOK: Duration = Duration::from_secs(5);

/// Makes a resolver now and a new one whenever the configuration changes.
pub(super) fn resolvers() -> (Resolvers, JoinHandle<()>) {
    let mut seen = stamps();
    let (send, receive) = watch::channel(build());
    let task = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let now = stamps();
            // A configuration that cannot be read may become readable without a change of its stamp.
            if now != seen || send.borrow().is_none() {
                seen = now;
                let resolver = build();
                if resolver.is_some() || send.borrow().is_some() {
                    send.send_replace(resolver);
                }
            }
        }
    });
    (receive, task)
}

fn build() -> Option<Arc<TokioResolver>> {
    let attempt = || -> Result<TokioResolver, NetError> {
        let mut builder = TokioResolver::builder_tokio()?;
        // Names are asked for when their TTL is over: a cache would only get in the way.
        builder.options_mut().cache_size = 0;
        builder.build()
    };
    attempt()
        .inspect_err(|error| tracing::warn!(%error, "cannot read {}: host names are not resolved now", FILES[0]))
        .ok()
        .map(Arc::new)
}

/// What tells one version of the files from the next. Missing ones have no stamp.
fn stamps() -> [Option<(u64, i64, i64, u64)>; 2] {
    FILES.map(|path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.len()))
    })
}
