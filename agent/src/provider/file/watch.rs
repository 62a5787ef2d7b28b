//! Follows a folder: reads it again when something in it changes, and publishes each reading.
//!
//! It has a thread of its own, because reading blocks. Events only say *that* something changed; what
//! changed is found by comparing stamps, so a lost event costs time (the next look) and never truth.

use super::{Reading, folder::Folder, store::Store};
use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};
use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// A change is read when nothing more has happened for this long.
const SETTLE: Duration = Duration::from_millis(25);
/// A folder that never comes to rest is read this often all the same.
const NEVER_AT_REST: Duration = Duration::from_millis(250);
/// How often to look without being told of a change.
const LOOK: Duration = Duration::from_secs(10);

/// Reads a folder and keeps reading it. Stops when dropped.
#[derive(Debug)]
pub struct FileProvider {
    wakes: mpsc::Sender<Wake>,
    thread: Option<JoinHandle<()>>,
}

/// Why a folder cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no such folder, or it cannot be read.
    #[error("configuration folder {}: {source}; give --config a folder that exists and can be read", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system gives no more watches.
    #[error("cannot watch files: {0}; raise fs.inotify.max_user_instances")]
    Watch(#[from] notify::Error),
    /// No thread could be started.
    #[error("cannot start the thread that reads files: {0}")]
    Thread(io::Error),
}

enum Wake {
    /// Something happened at these paths; none means that it is not known where.
    Changed(Vec<PathBuf>),
    Reload,
    Stop,
}

impl FileProvider {
    /// Reads `dir` and starts to follow it. The receiver has the first reading already.
    ///
    /// # Errors
    ///
    /// If the folder cannot be listed now or files cannot be watched. What is wrong inside the folder
    /// is no error, nor is a folder that vanishes later.
    pub fn start(dir: PathBuf) -> Result<(Self, watch::Receiver<Arc<Reading>>), StartError> {
        let failed = |source| StartError::Folder { path: dir.clone(), source };
        fs::read_dir(&dir).map_err(failed)?;
        // Events carry absolute paths. Links in it are kept: they may be swapped.
        let dir = std::path::absolute(&dir).map_err(failed)?;
        let (wakes, woken) = mpsc::channel();
        let events = wakes.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if let Some(paths) = changed(event) {
                // Nobody listens any more once the provider was dropped.
                let _ = events.send(Wake::Changed(paths));
            }
        })?;
        let mut follower =
            Follower { watches: Watches::new(watcher, &dir), store: Store::new(dir), woken, publish: None };
        follower.look(true);
        let (publish, readings) = watch::channel(Arc::new(follower.store.reading()));
        follower.publish = Some(publish);
        let thread = thread::Builder::new()
            .name("files".to_owned())
            .spawn(move || follower.follow())
            .map_err(StartError::Thread)?;
        Ok((Self { wakes, thread: Some(thread) }, readings))
    }

    /// Reads everything again, whether it changed or not, and publishes it (SIGHUP).
    pub fn reload(&self) {
        // The thread ends only when this is dropped.
        let _ = self.wakes.send(Wake::Reload);
    }
}

impl Drop for FileProvider {
    fn drop(&mut self) {
        let _ = self.wakes.send(Wake::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that reads files has panicked");
        }
    }
}

/// Returns where something changed, or `None` if nothing did.
fn changed(event: notify::Result<Event>) -> Option<Vec<PathBuf>> {
    match event {
        // Reading a file is an event, too: following it would never end.
        Ok(Event { kind: EventKind::Access(kind), .. }) if kind != AccessKind::Close(AccessMode::Write) => None,
        Ok(event) if event.need_rescan() => Some(Vec::new()),
        Ok(event) => Some(event.paths),
        Err(error) => {
            tracing::warn!(%error, "watching files: reading the folder again");
            Some(Vec::new())
        }
    }
}

struct Follower {
    store: Store,
    watches: Watches,
    woken: mpsc::Receiver<Wake>,
    publish: Option<watch::Sender<Arc<Reading>>>,
}

impl Follower {
    fn follow(mut self) {
        let mut next_look = Instant::now() + LOOK;
        loop {
            let everything = match self.woken.recv_timeout(next_look.saturating_duration_since(Instant::now())) {
                Ok(Wake::Changed(paths)) if !self.watches.concerns(&paths) => continue,
                Ok(Wake::Changed(_)) => match self.settle() {
                    Some(everything) => everything,
                    None => return,
                },
                Ok(Wake::Reload) => true,
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => false,
            };
            next_look = Instant::now() + LOOK;
            if (self.look(everything) || everything)
                && let Some(publish) = &self.publish
            {
                publish.send_replace(Arc::new(self.store.reading()));
            }
        }
    }

    /// Waits until nothing more happens. Returns whether to read everything, `None` to stop.
    fn settle(&self) -> Option<bool> {
        let start = Instant::now();
        let mut everything = false;
        let mut quiet_since = start;
        loop {
            let until = (quiet_since + SETTLE).min(start + NEVER_AT_REST);
            match self.woken.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Wake::Changed(paths)) => {
                    if self.watches.concerns(&paths) {
                        quiet_since = Instant::now();
                    }
                }
                Ok(Wake::Reload) => everything = true,
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => return Some(everything),
            }
            if start.elapsed() >= NEVER_AT_REST {
                return Some(everything);
            }
        }
    }

    /// Reads what changed and watches what there is now. Returns whether anything may be different.
    fn look(&mut self, everything: bool) -> bool {
        let mut changed = false;
        let mut everything = everything;
        loop {
            let (folder, different) = self.store.refresh(everything);
            changed |= different;
            everything = false;
            // What was made between the look and a new watch told nobody: look again.
            if !self.watches.follow(folder.as_ref()) {
                return changed;
            }
        }
    }
}

/// The folders that the system tells of.
struct Watches {
    watcher: RecommendedWatcher,
    root: PathBuf,
    /// Where the folder itself stands: watched, because it may be removed, made again or swapped.
    above: Option<PathBuf>,
    watched: BTreeMap<PathBuf, (u64, u64)>,
    /// Whether `above` holds files, too, because links lead there.
    above_holds_files: bool,
}

impl Watches {
    fn new(watcher: RecommendedWatcher, root: &Path) -> Self {
        let above = root.parent().and_then(|parent| fs::canonicalize(parent).ok());
        Self { watcher, root: root.to_owned(), above, watched: BTreeMap::new(), above_holds_files: false }
    }

    /// Whether an event can be about us: what happens beside the folder is not.
    fn concerns(&self, paths: &[PathBuf]) -> bool {
        let Some(above) = self.above.as_deref().filter(|_| !self.above_holds_files) else {
            return true;
        };
        paths.is_empty()
            || paths.iter().any(|path| path.parent() != Some(above) || path.file_name() == self.root.file_name())
    }

    /// Watches the folders that there are now. Returns whether one is new.
    fn follow(&mut self, folder: Option<&Folder>) -> bool {
        let mut wanted = folder.map(|folder| folder.watch.clone()).unwrap_or_default();
        if let Some(above) = &self.above {
            self.above_holds_files = wanted.contains_key(above);
            if let Ok(metadata) = fs::metadata(above) {
                wanted.insert(above.clone(), (metadata.dev(), metadata.ino()));
            }
        }
        // A folder that was made again under its old name is another one, and its watch is dead.
        let gone: Vec<PathBuf> = self
            .watched
            .iter()
            .filter(|(path, inode)| wanted.get(*path) != Some(*inode))
            .map(|(path, _)| path.clone())
            .collect();
        for path in gone {
            self.watched.remove(&path);
            // Fails for a folder that is gone; the system has removed that watch itself.
            let _ = self.watcher.unwatch(&path);
        }
        let mut new = false;
        for (path, inode) in wanted {
            if self.watched.contains_key(&path) {
                continue;
            }
            match self.watcher.watch(&path, RecursiveMode::NonRecursive) {
                Ok(()) => new = true,
                Err(error) => tracing::warn!(
                    folder = %path.display(),
                    %error,
                    "cannot watch a folder: its changes are seen within {LOOK:?}; raise fs.inotify.max_user_watches"
                ),
            }
            // Also after a failure: trying it again at every look would flood the log.
            self.watched.insert(path, inode);
        }
        new
    }
}
