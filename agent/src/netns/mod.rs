//! The network namespaces of this machine: which there are, and how to do something inside one.
//!
//! They are found from processes and from a folder of named namespaces, and let go when neither
//! leads to them any more: an open file would keep a namespace alive. What is done inside is others'
//! business.

mod scan;
mod watch;

pub(crate) mod cookie;
mod enter;

use enter::{Place, Traveller};
use scan::Seen;
use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    sync::watch as signal,
    time::{Instant as Deadline, sleep_until},
};
use watch::Watch;

/// How long after a name has appeared its namespace may take to be there, in looks and between two.
const QUICK_LOOKS: (u32, Duration) = (20, Duration::from_millis(20));

/// Where to look, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// The procfs.
    pub proc_dir: PathBuf,
    /// The folder of named namespaces; it need not be there.
    pub names_dir: PathBuf,
    /// Time between two looks while somebody needs them.
    pub rescan: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            proc_dir: PathBuf::from("/proc"),
            names_dir: PathBuf::from("/run/netns"),
            rescan: Duration::from_secs(1),
        }
    }
}

/// How a namespace was found. The first in this order is shown if there are several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The agent is in it.
    Host,
    /// By its name in the folder.
    Name(String),
    /// By this process.
    Process(u32),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Name(name) => f.write_str(name),
            Self::Process(pid) => write!(f, "pid {pid}"),
        }
    }
}

/// Why something could not be done in a namespace.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be entered.
    #[error("cannot enter the network namespace: {0}{hint}", hint = hint(.0))]
    Enter(#[source] io::Error),
    /// Its file cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The namespace has no cookie.
    #[error("the kernel tells no cookie for the network namespace ({0}): weir needs Linux 5.14 or later")]
    Cookie(#[source] io::Error),
    /// No namespace has this cookie, or none any more.
    #[error("no network namespace has the cookie {0}: it is gone, or was not seen yet")]
    Unknown(u64),
    /// The job did not come to its end.
    #[error("a job inside the network namespace did not end: see the log")]
    Ended,
}

fn hint(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied {
        ": give the agent CAP_SYS_ADMIN, and CAP_SYS_PTRACE for processes of other users"
    } else {
        ""
    }
}

/// A namespace, as it is told to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// The kernel's number for it, or why that is not known.
    pub cookie: Result<u64, String>,
    /// Inode of its file.
    pub inode: u64,
    /// How it was found.
    pub origin: Origin,
}

/// What the last look cost and could not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// How many looks there were.
    pub times: u64,
    /// Processes seen.
    pub processes: usize,
    /// Processes whose namespace may not be read (CAP_SYS_PTRACE).
    pub unreadable: usize,
    /// Time that it took.
    pub took: Duration,
}

#[derive(Debug)]
struct Entry {
    seen: Seen,
    place: Place,
    cookie: Result<u64, String>,
}

/// All namespaces. Shared between those that need them.
#[derive(Debug)]
pub struct Registry {
    options: Options,
    traveller: Traveller,
    /// Inode of the namespace that this process is in.
    home: u64,
    entries: Mutex<BTreeMap<u64, Entry>>,
    /// Held through a look, so that none undoes what a newer one found.
    turn: tokio::sync::Mutex<()>,
    looked: signal::Sender<Looked>,
    needed: signal::Sender<bool>,
}

impl Registry {
    /// Makes an empty registry.
    ///
    /// # Errors
    ///
    /// If the procfs cannot be read or no thread can be started.
    pub fn new(options: Options) -> io::Result<Arc<Self>> {
        let home = std::fs::metadata("/proc/self/ns/net")?.ino();
        Ok(Arc::new(Self {
            options,
            traveller: Traveller::start()?,
            home,
            entries: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            looked: signal::Sender::default(),
            needed: signal::Sender::default(),
        }))
    }

    /// Says whether somebody needs to know of namespaces: only then are they looked for.
    pub fn set_needed(&self, needed: bool) {
        self.needed.send_if_modified(|before| std::mem::replace(before, needed) != needed);
    }

    /// Lists the namespaces, by inode.
    #[must_use]
    pub fn list(&self) -> Vec<Namespace> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let namespace = |(inode, entry): (&u64, &Entry)| Namespace {
            cookie: entry.cookie.clone(),
            inode: *inode,
            origin: entry.seen.origin.clone(),
        };
        entries.iter().map(namespace).collect()
    }

    /// Tells of every look that was taken.
    #[must_use]
    pub fn looks(&self) -> signal::Receiver<Looked> {
        self.looked.subscribe()
    }

    /// Looks for namespaces while they are needed: regularly, and when a name appears or goes.
    pub async fn run(&self) {
        let mut watch = Watch::new(self.options.names_dir.clone());
        let mut needed = self.needed.subscribe();
        loop {
            // The sender is in `self`.
            let _ = needed.wait_for(|needed| *needed).await;
            self.look_while_needed(&mut watch, &mut needed).await;
        }
    }

    async fn look_while_needed(&self, watch: &mut Watch, needed: &mut signal::Receiver<bool>) {
        let mut quick = 0_u32;
        loop {
            watch.renew();
            let unfinished = match self.look().await {
                Ok(unfinished) => unfinished,
                Err(error) => {
                    tracing::warn!(%error, "cannot look for network namespaces");
                    false
                }
            };
            let wait = if unfinished && quick > 0 { QUICK_LOOKS.1 } else { self.options.rescan };
            quick = quick.saturating_sub(1);
            tokio::select! {
                () = sleep_until(Deadline::now() + wait) => {}
                () = watch.changed() => quick = QUICK_LOOKS.0,
                _ = needed.wait_for(|needed| !*needed) => return,
            }
        }
    }

    /// Looks once. Returns whether a name leads nowhere yet.
    ///
    /// Costs a directory read and one readlink() a process; only what is new is opened and entered.
    ///
    /// # Errors
    ///
    /// If the procfs cannot be read.
    pub async fn look(&self) -> io::Result<bool> {
        let turn = self.turn.lock().await;
        let start = Instant::now();
        let (proc_dir, names_dir) = (self.options.proc_dir.clone(), self.options.names_dir.clone());
        let found = tokio::task::spawn_blocking(move || scan::scan(&proc_dir, &names_dir)).await??;
        self.let_go(&found.namespaces);
        for (inode, seen) in found.namespaces {
            self.see(inode, seen).await;
        }
        drop(turn);
        self.looked.send_modify(|looked| {
            *looked = Looked {
                times: looked.times + 1,
                processes: found.processes,
                unreadable: found.unreadable,
                took: start.elapsed(),
            };
        });
        Ok(found.unfinished > 0)
    }

    /// Looks now at the namespaces that a process and its threads are in.
    pub async fn look_at(&self, pid: u32) {
        let turn = self.turn.lock().await;
        let proc_dir = self.options.proc_dir.clone();
        let found = tokio::task::spawn_blocking(move || scan::of_process(&proc_dir, pid)).await.unwrap_or_default();
        for (inode, seen) in found {
            self.see(inode, seen).await;
        }
        drop(turn);
        self.looked.send_modify(|looked| looked.times += 1);
    }

    /// Does a short job inside the namespace with this cookie and returns its result. The job runs on
    /// a thread that others wait for: a few system calls.
    ///
    /// # Errors
    ///
    /// [`Error`], if the namespace is not known or cannot be entered.
    pub async fn enter<T: Send + 'static>(
        &self,
        cookie: u64,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let place = self.place(cookie).ok_or(Error::Unknown(cookie))?;
        self.traveller.run(place, job).await
    }

    fn place(&self, cookie: u64) -> Option<Place> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.values().find(|entry| entry.cookie == Ok(cookie)).map(|entry| entry.place.clone())
    }

    /// Drops the namespaces that nothing leads to.
    fn let_go(&self, found: &BTreeMap<u64, Seen>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        // A thread's namespace is found by looking at its process only.
        entries.retain(|inode, entry| found.contains_key(inode) || scan::leads_to(&entry.seen.path, *inode));
    }

    /// Takes in a namespace that was seen, if it is new or could not be entered before.
    async fn see(&self, inode: u64, seen: Seen) {
        if let Some(entry) = self.entries.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&inode)
            && entry.cookie.is_ok()
        {
            entry.seen = seen;
            return;
        }
        let place = if inode == self.home { Ok(Some(Place::Home)) } else { open(&seen.path, inode) };
        let (place, cookie) = match place {
            Ok(Some(place)) => {
                let cookie = self.ask(place.clone()).await.map_err(|error| error.to_string());
                (place, cookie)
            }
            // It has gone meanwhile.
            Ok(None) => return,
            // No job is done in a namespace without a cookie.
            Err(error) => (Place::Home, Err(error.to_string())),
        };
        let entry = Entry { seen, place, cookie };
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).insert(inode, entry);
    }

    async fn ask(&self, place: Place) -> Result<u64, Error> {
        self.traveller.run(place, cookie::here).await?.map_err(Error::Cookie)
    }
}

/// Opens a namespace, if the path still leads to it.
fn open(path: &Path, inode: u64) -> Result<Option<Place>, Error> {
    let inside = |source| Error::Open { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(inside(error)),
    };
    let same = file.metadata().map_err(inside)?.ino() == inode;
    Ok(same.then(|| Place::Other(Arc::new(file))))
}
