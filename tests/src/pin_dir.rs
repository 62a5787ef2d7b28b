//! A bpffs of a run's own, to pin into.

use crate::leftovers;
use anyhow::{Context as _, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A mounted bpffs. Dropping it unmounts it, and with the pins go links and maps.
#[derive(Debug)]
pub struct PinDir {
    mount: PathBuf,
    pins: PathBuf,
}

impl PinDir {
    /// Mounts a bpffs on a new folder.
    ///
    /// # Errors
    ///
    /// Without root, or on a kernel without BPF.
    pub fn new() -> Result<Self> {
        let path = leftovers::folder("pins");
        fs::create_dir(&path)?;
        let none: Option<&str> = None;
        mount(Some("bpf"), &path, Some("bpf"), MsFlags::empty(), none)
            .with_context(|| format!("cannot mount a bpffs on {}", path.display()))?;
        let pins = path.join("weir");
        Ok(Self { mount: path, pins })
    }

    /// Returns the folder for `--pin-dir`; the agent makes it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.pins
    }

    /// Returns the root of the bpffs, for pins that are not Weir's.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.mount
    }
}

impl Drop for PinDir {
    fn drop(&mut self) {
        if let Err(error) = umount2(&self.mount, MntFlags::MNT_DETACH) {
            eprintln!("cannot unmount {}: {error}", self.mount.display());
        }
        let _ = fs::remove_dir(&self.mount);
    }
}
