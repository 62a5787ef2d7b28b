//! Tells when a name appears in the folder of named namespaces, or goes. Looks at nothing itself.

use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{ModifyKind, RemoveKind},
};
use std::{fs, os::unix::fs::MetadataExt as _, path::PathBuf, sync::Arc};
use tokio::sync::Notify;

/// A watch of one folder, which need not be there yet.
#[derive(Debug)]
pub(super) struct Watch {
    /// `None` for want of inotify instances: names are then found by the regular looks.
    watcher: Option<RecommendedWatcher>,
    changes: Arc<Notify>,
    folder: PathBuf,
    /// Device and inode of the folder that is watched.
    watched: Option<(u64, u64)>,
}

impl Watch {
    /// Makes a watch; [`Watch::renew`] begins it.
    pub(super) fn new(folder: PathBuf) -> Self {
        let changes = Arc::new(Notify::new());
        let teller = Arc::clone(&changes);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| concerns_names(event.kind)) {
                teller.notify_one();
            }
        });
        let watcher = watcher
            .inspect_err(|error| tracing::warn!(folder = %folder.display(), %error, "cannot watch for new names"))
            .ok();
        Self { watcher, changes, folder, watched: None }
    }

    /// Begins to watch the folder if it has come, or another has taken its place.
    pub(super) fn renew(&mut self) {
        let now = fs::metadata(&self.folder).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        let Some(watcher) = self.watcher.as_mut().filter(|_| now != self.watched) else { return };
        if self.watched.take().is_some() {
            // A folder that is gone is no longer watched by itself.
            let _ = watcher.unwatch(&self.folder);
        }
        if now.is_some() {
            match watcher.watch(&self.folder, RecursiveMode::NonRecursive) {
                Ok(()) => self.watched = now,
                // Regular looks go on.
                Err(error) => tracing::debug!(folder = %self.folder.display(), %error, "cannot watch"),
            }
        }
    }

    /// Waits for a change. Dropping the future loses nothing.
    pub(super) async fn changed(&self) {
        self.changes.notified().await;
    }
}

/// Looking at the folder must not cause another look.
fn concerns_names(kind: EventKind) -> bool {
    match kind {
        EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_)) => true,
        EventKind::Remove(RemoveKind::Any | RemoveKind::File | RemoveKind::Folder | RemoveKind::Other) => true,
        EventKind::Any | EventKind::Access(_) | EventKind::Other => false,
        EventKind::Modify(ModifyKind::Any | ModifyKind::Data(_) | ModifyKind::Metadata(_) | ModifyKind::Other) => false,
    }
}
