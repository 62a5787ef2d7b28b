//! The end of a cluster, whole or not: everything is found by its name.

use super::{
    machine, network,
    place::{self, Place},
};
use anyhow::{Context as _, Result};
use std::{fs, io, path::Path, time::Duration};
use weir_tests::wait;

/// How long killed processes may take to be gone.
const SOON: Duration = Duration::from_secs(30);

/// Whether anything of a cluster is there.
pub(super) fn are_there(place: &Place) -> bool {
    let member = |name: &String| {
        network::file(name).exists() || place::hierarchies().iter().any(|hierarchy| hierarchy.join(name).exists())
    };
    place.state().exists() || place.members().iter().any(member)
}

/// Removes everything of a cluster. What is not there does not matter.
///
/// # Errors
///
/// If something cannot be removed; the rest is tried nevertheless.
pub(super) fn remove(place: &Place) -> Result<()> {
    let mut first = Ok(());
    let mut note = |result: Result<()>| {
        if first.is_ok() {
            first = result;
        }
    };
    for member in place.members() {
        note(end_processes(&place.cgroup(&member)));
    }
    note(network::remove(place));
    for member in place.members() {
        for hierarchy in place::hierarchies() {
            note(remove_groups(&hierarchy.join(&member)));
        }
    }
    if place.state().exists() {
        note(fs::remove_dir_all(place.state()).with_context(|| format!("cannot remove {}", place.state().display())));
    }
    note(machine::leave(place.name()));
    first
}

/// Kills everything below a cgroup of version 2 and waits until it is gone.
fn end_processes(group: &Path) -> Result<()> {
    if !group.exists() {
        return Ok(());
    }
    fs::write(group.join("cgroup.kill"), "1").with_context(|| format!("cannot end what is in {}", group.display()))?;
    wait::until(&format!("end of the processes in {}", group.display()), SOON, || {
        let events = fs::read_to_string(group.join("cgroup.events")).unwrap_or_default();
        (!events.contains("populated 1")).then_some(())
    })
}

/// Removes a cgroup and those below it. A group whose last process is being removed is busy for a moment.
fn remove_groups(group: &Path) -> Result<()> {
    let mut last = None;
    wait::until("removal of cgroups", SOON, || match remove_tree(group) {
        Ok(()) => Some(()),
        Err(error) => {
            last = Some(error);
            None
        }
    })
    .with_context(|| format!("cannot remove {}: {last:?}", group.display()))
}

fn remove_tree(group: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}
