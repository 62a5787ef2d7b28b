//! Names of everything that a cluster makes on this machine, by which `down` finds it again.
//!
//! A cluster called `weir` has the network namespaces `weir-cp`, `weir-node1` and `weir-node2`, cgroups of the
//! same names in every hierarchy, and one state folder. Nothing else of the machine is changed but the
//! settings in [`super::machine`].

use crate::workspace::Workspace;
use anyhow::{Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
};
use weir_tests::cgroup;

/// How many nodes a cluster has.
pub(super) const NODES: usize = 2;

/// Address of the control plane on the network of the nodes, which no other network of the machine knows.
pub(super) const CONTROL_ADDRESS: &str = "10.99.0.1";

/// A cluster's places.
#[derive(Clone, Debug)]
pub(super) struct Place {
    name: String,
    state: PathBuf,
    cgroups: PathBuf,
}

impl Place {
    /// Names the places of a cluster.
    ///
    /// # Errors
    ///
    /// If the name is not one, or there is no cgroup2 hierarchy.
    pub(super) fn new(workspace: &Workspace, name: &str) -> Result<Self> {
        let fits = (1..=20).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && name.starts_with(|first: char| first.is_ascii_lowercase());
        if !fits {
            bail!(
                "`{name}` cannot be the name of a cluster: use 1 to 20 lower-case letters and digits, a letter first"
            );
        }
        let state = workspace.cache().join("cluster").join(name);
        Ok(Self { name: name.to_owned(), state, cgroups: cgroup::mount_point()? })
    }

    /// The cluster's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Keys, kubeconfigs, logs, and the disks of the nodes.
    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    /// Name of the control plane's network namespace and cgroup.
    pub(super) fn control(&self) -> String {
        format!("{}-cp", self.name)
    }

    /// Name of a node, 1 being the first; its namespace and cgroup are called the same.
    pub(super) fn node(&self, number: usize) -> String {
        format!("{}-node{number}", self.name)
    }

    /// Names of the nodes.
    pub(super) fn nodes(&self) -> Vec<String> {
        (1..=NODES).map(|number| self.node(number)).collect()
    }

    /// Everything of which each has a network namespace and a cgroup.
    pub(super) fn members(&self) -> Vec<String> {
        let mut members = self.nodes();
        members.push(self.control());
        members
    }

    /// Kubeconfig of a user of the cluster.
    pub(super) fn kubeconfig(&self, user: &str) -> PathBuf {
        self.state.join("users").join(format!("{user}.kubeconfig"))
    }

    /// Cgroup (version 2) of a member, below which all its processes are.
    pub(super) fn cgroup(&self, member: &str) -> PathBuf {
        self.cgroups.join(member)
    }

    /// Where the cgroup2 hierarchy is mounted.
    pub(super) fn cgroup_mount(&self) -> &Path {
        &self.cgroups
    }
}

/// Returns where the cgroup hierarchies are mounted, of both versions.
pub(super) fn hierarchies() -> Vec<PathBuf> {
    find_hierarchies(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
}

/// Finds cgroup mounts in a mountinfo table (proc(5)): the type follows the lone dash.
fn find_hierarchies(table: &str) -> Vec<PathBuf> {
    let mount = |line: &str| {
        let (mount, source) = line.split_once(" - ")?;
        let is_cgroup = matches!(source.split(' ').next(), Some("cgroup" | "cgroup2"));
        is_cgroup.then(|| mount.split(' ').nth(4).map(PathBuf::from))?
    };
    table.lines().filter_map(mount).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_found() {
        let table = "30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                     40 30 0:36 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(find_hierarchies(table), [Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup/unified")]);
    }

    #[test]
    fn a_name_is_short_and_plain() {
        let workspace = Workspace::find().unwrap();
        for bad in ["", "A", "a-b", "1a", "a/b", &"x".repeat(21)] {
            assert!(Place::new(&workspace, bad).unwrap_err().to_string().contains("cannot be the name"), "{bad}");
        }
    }
}
