//! Enters a cgroup, a network namespace and a CPU; called before there is a second thread.

use anyhow::{Context as _, Result};
use nix::{
    sched::{CloneFlags, CpuSet, sched_setaffinity, setns},
    unistd::Pid,
};
use std::{
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::Path,
    process::Command,
};

pub(crate) fn enter_cgroup(path: &Path) -> Result<()> {
    // 0 means the writing process (cgroups(7)).
    fs::write(path.join("cgroup.procs"), "0").with_context(|| format!("cannot enter the cgroup {}", path.display()))
}

pub(crate) fn enter_namespace(name: &str) -> Result<()> {
    let path = Path::new("/run/netns").join(name);
    let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    setns(file, CloneFlags::CLONE_NEWNET).with_context(|| format!("cannot enter {}", path.display()))
}

pub(crate) fn stay_on(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    // 0 means the calling thread; later ones inherit it.
    sched_setaffinity(Pid::from_raw(0), &set).with_context(|| format!("cannot stay on CPU {cpu}"))
}

/// Becomes another program, in the same places.
pub(crate) fn become_program(program: &str, arguments: &[String]) -> Result<()> {
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {program}"))
}
