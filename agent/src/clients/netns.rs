//! Cookies of network namespaces: the kernel's numbers for them, never used twice until a reboot.

use crate::netns::cookie;
use nix::sched::{CloneFlags, setns};
use std::{collections::BTreeMap, fs::File, io, os::unix::fs::MetadataExt, path::Path, thread};

/// Cookies that were asked for already, by device and inode of the namespace.
#[derive(Debug, Default)]
pub(super) struct Cookies {
    known: BTreeMap<(u64, u64), u64>,
}

impl Cookies {
    /// Returns the cookie of the namespace that a file names; `None` if there is none.
    pub(super) fn of(&mut self, path: &Path) -> Option<u64> {
        let namespace = File::open(path).ok()?;
        let metadata = namespace.metadata().ok()?;
        let identity = (metadata.dev(), metadata.ino());
        if let Some(cookie) = self.known.get(&identity) {
            return Some(*cookie);
        }
        match ask(namespace) {
            Ok(cookie) => {
                self.known.insert(identity, cookie);
                Some(cookie)
            }
            Err(error) => {
                tracing::warn!(namespace = %path.display(), %error, "cannot enter the network namespace");
                None
            }
        }
    }
}

/// Asks from a thread of its own, which enters the namespace and ends there.
fn ask(namespace: File) -> io::Result<u64> {
    let thread = thread::Builder::new().name("netns-cookie".to_owned()).spawn(move || {
        setns(namespace, CloneFlags::CLONE_NEWNET)?;
        cookie::here()
    })?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
}
