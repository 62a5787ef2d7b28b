//! A cgroup of a run's own: the hooks are attached to it, so they see this run's clients only.

use crate::{leftovers, wait};
use anyhow::{Context as _, Result, anyhow};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// A cgroup (version 2). Dropping it ends the processes in it, which this run started, and removes it.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Makes a group below the root of the hierarchy.
    ///
    /// # Errors
    ///
    /// If no cgroup2 file system is mounted, or without root.
    pub fn new(label: &str) -> Result<Self> {
        Self::make(mount_point()?.join(leftovers::name(label)))
    }

    /// Makes a group inside this one. Drop it first.
    ///
    /// # Errors
    ///
    /// If the group exists.
    pub fn child(&self, name: &str) -> Result<Self> {
        Self::make(self.path.join(name))
    }

    fn make(path: PathBuf) -> Result<Self> {
        fs::create_dir(&path).with_context(|| format!("cannot make the cgroup {}", path.display()))?;
        Ok(Self { path })
    }

    /// Returns its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path below the root of the hierarchy, with a leading slash.
    ///
    /// # Errors
    ///
    /// If the hierarchy is no longer mounted.
    pub fn below_root(&self) -> Result<String> {
        let below = self.path.strip_prefix(mount_point()?)?;
        Ok(format!("/{}", below.display()))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            eprintln!("{error:#}");
        }
    }
}

/// Finds where the cgroup2 file system is mounted.
///
/// # Errors
///
/// If it is not mounted.
pub fn mount_point() -> Result<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("cannot read /proc/self/mountinfo")?;
    find_mount(&table).ok_or_else(|| anyhow!("needs a cgroup2 file system: mount -t cgroup2 none /sys/fs/cgroup"))
}

/// Finds the cgroup2 line of a mountinfo table (proc(5)): the type follows the lone dash.
fn find_mount(table: &str) -> Option<PathBuf> {
    table.lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        (source.split(' ').next() == Some("cgroup2")).then(|| mount.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// Ends what runs in a group and removes it.
pub(crate) fn remove(path: &Path) -> Result<()> {
    // Kernels before 5.14 have no cgroup.kill; there the group is only removed when it is empty.
    let _ = fs::write(path.join("cgroup.kill"), "1");
    let mut last = None;
    wait::until("removal of the cgroup", Duration::from_secs(5), || match fs::remove_dir(path) {
        Ok(()) => Some(()),
        Err(error) => {
            last = Some(error);
            None
        }
    })
    .with_context(|| format!("cannot remove {}: {last:?}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_found_by_its_type_in_hybrid_layouts_too() {
        let table = "30 20 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
                     31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:5 - cgroup2 cgroup2 rw\n";
        assert_eq!(find_mount(table), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(find_mount("30 20 0:26 / /cgroup2 rw - tmpfs cgroup2 rw\n"), None);
    }
}
