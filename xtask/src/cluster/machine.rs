//! What all clusters of a machine share: its settings that a kubelet changes, and folders that it wants.
//!
//! The first cluster saves them; with the last one they are put back.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    path::{Path, PathBuf},
};

/// Where this is noted. It need not outlive the machine's next start, after which all settings are new.
const FOLDER: &str = "/run/weir-cluster";

/// What kubelet and containerd set.
const SETTINGS: [&str; 6] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];

/// Where nodes mount what is their own: each sees its own folder there, the machine an empty one.
pub(super) const NODE_FOLDERS: [&str; 4] =
    ["/var/lib/kubelet", "/run/containerd", "/var/log/pods", "/var/log/containers"];

/// The machine as it was before the first cluster, and the clusters there are.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Machine {
    settings: BTreeMap<String, String>,
    made: Vec<PathBuf>,
    clusters: BTreeSet<String>,
}

/// Notes a cluster that is about to be made.
///
/// # Errors
///
/// If the notes or folders cannot be written.
pub(super) fn enter(cluster: &str) -> Result<()> {
    locked(Path::new(FOLDER), |machine| {
        if machine.clusters.is_empty() {
            machine.settings = SETTINGS.iter().filter_map(|name| Some(((*name).to_owned(), read(name)?))).collect();
        }
        machine.clusters.insert(cluster.to_owned());
        for folder in NODE_FOLDERS.map(Path::new) {
            make(folder, &mut machine.made)?;
        }
        Ok(())
    })
}

/// Strikes a cluster out; after the last one the machine is as it was.
///
/// # Errors
///
/// If the notes cannot be written.
pub(super) fn leave(cluster: &str) -> Result<()> {
    if !Path::new(FOLDER).exists() {
        return Ok(());
    }
    let is_last = locked(Path::new(FOLDER), |machine| {
        machine.clusters.remove(cluster);
        if !machine.clusters.is_empty() {
            return Ok(false);
        }
        for (name, value) in std::mem::take(&mut machine.settings) {
            if read(&name).is_some_and(|now| now != value) {
                fs::write(path_of(&name), &value).with_context(|| format!("cannot put {name} back to {value}"))?;
            }
        }
        // The innermost folder first; one with something in it has come into use meanwhile.
        for folder in std::mem::take(&mut machine.made).iter().rev() {
            let _ = fs::remove_dir(folder);
        }
        Ok(true)
    })?;
    if is_last {
        fs::remove_dir_all(FOLDER).with_context(|| format!("cannot remove {FOLDER}"))?;
    }
    Ok(())
}

/// Makes a folder and notes which parts of it were not there.
fn make(folder: &Path, made: &mut Vec<PathBuf>) -> Result<()> {
    let mut missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
    missing.reverse();
    for folder in missing {
        fs::create_dir(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        made.push(folder.to_owned());
    }
    Ok(())
}

fn locked<T>(folder: &Path, change: impl FnOnce(&mut Machine) -> Result<T>) -> Result<T> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let lock = File::create(folder.join("lock"))?;
    lock.lock().with_context(|| format!("cannot lock {}", folder.display()))?;
    let notes = folder.join("machine.json");
    let mut machine = match fs::read(&notes) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| format!("cannot read {}", notes.display()))?,
        Err(_) => Machine::default(),
    };
    let result = change(&mut machine);
    // Also after a failure: what was saved or made until then must be known.
    fs::write(&notes, serde_json::to_vec_pretty(&machine)?)
        .with_context(|| format!("cannot write {}", notes.display()))?;
    result
}

fn path_of(setting: &str) -> PathBuf {
    Path::new("/proc/sys").join(setting)
}

fn read(setting: &str) -> Option<String> {
    Some(fs::read_to_string(path_of(setting)).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_that_were_not_there_are_noted() {
        let root = tempfile::tempdir().unwrap();
        let mut made = Vec::new();
        make(&root.path().join("a/b"), &mut made).unwrap();
        make(&root.path().join("a/b"), &mut made).unwrap();
        assert_eq!(made, [root.path().join("a"), root.path().join("a/b")]);
    }

    #[test]
    fn what_a_failed_change_did_is_noted() {
        let root = tempfile::tempdir().unwrap();
        let failed: Result<()> = locked(root.path(), |machine| {
            machine.clusters.insert("one".to_owned());
            anyhow::bail!("full")
        });
        assert_eq!(failed.unwrap_err().to_string(), "full");
        let clusters = locked(root.path(), |machine| Ok(machine.clusters.clone())).unwrap();
        assert_eq!(clusters, BTreeSet::from(["one".to_owned()]));
    }
}
