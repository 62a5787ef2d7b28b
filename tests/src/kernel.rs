//! What the kernel says of attached programs and pinned maps: run times and memory.
//!
//! Read-only: asks by id and by pin, changes nothing.

use crate::{cgroup::Cgroup, syscall};
use anyhow::{Context as _, Result};
use std::{
    ffi::CString,
    fs::{self, File},
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

/// Where programs are attached to a cgroup (`enum bpf_attach_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Hook {
    /// Life-cycle of TCP sockets.
    SockOps = 3,
    /// connect() of IPv4 sockets.
    Connect4 = 10,
    /// connect() of IPv6 sockets.
    Connect6 = 11,
}

/// How often a program ran, and how long in all. Counted while `kernel.bpf_stats_enabled` is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// Runs.
    pub count: u64,
    /// Nanoseconds.
    pub ns: u64,
}

impl Runs {
    /// Returns what came since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { count: self.count - earlier.count, ns: self.ns - earlier.ns }
    }

    /// Returns the mean of one run, nanoseconds.
    #[must_use]
    pub fn mean_ns(self) -> f64 {
        if self.count == 0 { 0.0 } else { self.ns as f64 / self.count as f64 }
    }
}

/// Reads the runs of all programs on a hook of a cgroup.
///
/// # Errors
///
/// Without root.
pub fn runs(cgroup: &Cgroup, hook: Hook) -> Result<Runs> {
    let folder = File::open(cgroup.path())?;
    let ids = syscall::programs_on(folder.as_fd(), hook as u32).context("cannot ask for the programs of a cgroup")?;
    let mut runs = Runs::default();
    for id in ids {
        let program = syscall::program_by_id(id).with_context(|| format!("cannot open program {id}"))?;
        runs.count += field(&program, "run_cnt")?;
        runs.ns += field(&program, "run_time_ns")?;
    }
    Ok(runs)
}

/// Adds up the memory of the maps that are pinned in a folder and below it, bytes.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn map_memory(pins: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(pins).with_context(|| format!("cannot read {}", pins.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            bytes += map_memory(&path)?;
            continue;
        }
        let name = CString::new(path.as_os_str().as_bytes())?;
        let object = syscall::open_pin(&name).with_context(|| format!("cannot open {}", path.display()))?;
        // Links and programs have no such line, or one that is not a map's.
        if field(&object, "map_type").is_ok() {
            bytes += field(&object, "memlock")?;
        }
    }
    Ok(bytes)
}

/// Reads a number from what the kernel says of a descriptor.
fn field(descriptor: &OwnedFd, name: &str) -> Result<u64> {
    let path = format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd());
    let text = fs::read_to_string(&path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = line.with_context(|| format!("{path} has no {name}"))?;
    value.trim().parse().with_context(|| format!("{path}: {name} is {value}"))
}
