//! Finds the processes that ClientGroups name: cgroups by path or systemd unit, network namespaces by
//! name. They come and go, so the agent looks again from time to time.

mod cgroup;
mod netns;

use crate::ir::{Client, Processes};
use netns::Cookies;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use weir_common::abi::tables::ClientKey;

/// Where `ip netns` keeps named network namespaces.
const NETNS_DIR: &str = "/run/netns";

/// Looks for processes.
#[derive(Debug)]
pub struct Finder {
    cgroup_mount: PathBuf,
    netns_dir: PathBuf,
    cookies: Cookies,
}

/// The kernel keys of one client; empty if there is no such cgroup or namespace now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Who was looked for.
    pub client: Client,
    /// What was found.
    pub keys: Vec<ClientKey>,
}

impl Finder {
    /// Looks below a cgroup2 mount.
    #[must_use]
    pub fn new(cgroup_mount: &Path) -> Self {
        Self { cgroup_mount: cgroup_mount.to_owned(), netns_dir: NETNS_DIR.into(), cookies: Cookies::default() }
    }

    /// Looks for all of `clients`.
    pub fn find(&mut self, clients: &BTreeSet<Client>) -> Vec<Found> {
        let units: BTreeSet<&str> = clients
            .iter()
            .filter_map(|client| match &client.processes {
                Processes::SystemdUnit(unit) => Some(unit.as_str()),
                Processes::CgroupPath(_) | Processes::NetworkNamespace(_) => None,
            })
            .collect();
        // One walk over the tree serves all units.
        let units = cgroup::named(&self.cgroup_mount, &units);
        clients
            .iter()
            .map(|client| {
                let keys = match &client.processes {
                    Processes::SystemdUnit(unit) => {
                        units.iter().filter(|(name, _)| name == unit).map(|(_, id)| ClientKey::cgroup(*id)).collect()
                    }
                    Processes::CgroupPath(path) => {
                        cgroup::at(&self.cgroup_mount, path).map(ClientKey::cgroup).into_iter().collect()
                    }
                    Processes::NetworkNamespace(name) => self
                        .cookies
                        .of(&self.netns_dir.join(name))
                        .map(ClientKey::network_namespace)
                        .into_iter()
                        .collect(),
                };
                Found { client: client.clone(), keys }
            })
            .collect()
    }
}
