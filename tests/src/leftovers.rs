//! Names of what a run makes, and the removal of what dead runs left behind.
//!
//! Every namespace, cgroup and folder is called `weir-PID-NUMBER-LABEL`. What carries the id of a
//! process that is gone belongs to nobody; the first name that a run takes removes it. Nothing else
//! is ever touched.

use crate::{cgroup, namespace};
use nix::{
    mount::{MntFlags, umount2},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Once,
        atomic::{AtomicU32, Ordering},
    },
};

const PREFIX: &str = "weir-";

/// Returns a name that no other run and no other call uses.
pub fn name(label: &str) -> String {
    static SWEPT: Once = Once::new();
    static NEXT: AtomicU32 = AtomicU32::new(0);
    SWEPT.call_once(sweep);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}{}-{number}-{label}", std::process::id())
}

/// Returns a path in the temporary folder with a [`name`].
pub fn folder(label: &str) -> PathBuf {
    std::env::temp_dir().join(name(label))
}

/// Whether a name is one of ours and its run is dead.
fn is_stale(name: &str) -> bool {
    let mut parts = name.strip_prefix(PREFIX).unwrap_or_default().split('-');
    let (Some(pid), Some(number)) = (parts.next(), parts.next()) else { return false };
    number.parse::<u32>().is_ok() && pid.parse::<u32>().is_ok_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

fn has_stale_component(path: &str) -> bool {
    path.split('/').any(is_stale)
}

/// Removes everything of dead runs. What cannot be removed now stays for the next run.
fn sweep() {
    end_processes();
    for point in mount_points().into_iter().filter(|point| has_stale_component(point)) {
        let _ = umount2(point.as_str(), MntFlags::MNT_DETACH);
    }
    for name in names_in(Path::new("/run/netns")) {
        let _ = namespace::delete(&name);
    }
    if let Ok(root) = cgroup::mount_point() {
        for name in names_in(&root) {
            let _ = cgroup::remove(&root.join(name));
        }
    }
    for name in names_in(&std::env::temp_dir()) {
        let _ = fs::remove_dir_all(std::env::temp_dir().join(name));
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| is_stale(name)).collect()
}

fn mount_points() -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().filter_map(|line| line.split(' ').nth(4)).map(str::to_owned).collect()
}

/// Ends agents and probes of dead runs: those whose arguments name a stale path.
fn end_processes() {
    let Ok(processes) = fs::read_dir("/proc") else { return };
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let arguments = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let mut arguments = arguments.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let program = arguments.next().unwrap_or_default().into_owned();
        let ours = program.ends_with("/weir") || program.ends_with("/weir-probe");
        if ours && arguments.any(|argument| has_stale_component(&argument)) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_dead_runs_are_stale() {
        assert!(!is_stale(&name("mine")), "this run is alive");
        // Process ids end below 2^22.
        assert!(is_stale("weir-99999999-0-client"));
        assert!(!is_stale("weir-99999999"));
        assert!(!is_stale("weir-x-0-client"));
        assert!(!is_stale("other-99999999-0-client"));
        assert!(has_stale_component("/tmp/weir-99999999-3-pins/v1"));
        assert!(!has_stale_component("/tmp/pins/v1"));
    }
}
