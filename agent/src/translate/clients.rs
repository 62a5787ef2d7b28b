//! ClientGroups to clients: which processes belong to which namespace.

use super::condition::{Notes, ObjectStatus};
use crate::{
    api::{ClientGroup, ClientSelector},
    ir::{Client, Processes},
    resources::{ObjectKey, Resources},
};
use std::collections::{BTreeMap, BTreeSet};

/// Collects the clients. Processes named by groups of two namespaces belong to the older group's, then
/// to the one that comes first by namespace and name.
pub(super) fn clients(resources: &Resources, notes: &mut Notes) -> (BTreeSet<Client>, Vec<ObjectStatus>) {
    let mut groups: Vec<(&ObjectKey, &ClientGroup)> =
        resources.client_groups.iter().map(|(key, group)| (key, group.as_ref())).collect();
    groups.sort_by_key(|(key, group)| (&group.metadata.creation_timestamp, *key));
    let mut owners: BTreeMap<Processes, &ObjectKey> = BTreeMap::new();
    for (key, group) in &groups {
        for (i, selector) in group.spec.clients.iter().enumerate() {
            let Some(processes) = processes(selector) else {
                notes.add(
                    "ClientGroup",
                    key,
                    format!("spec.clients[{i}] is ignored: it names processes in no single way"),
                );
                continue;
            };
            let owner = *owners.entry(processes).or_insert(key);
            if owner.namespace != key.namespace {
                notes.add(
                    "ClientGroup",
                    key,
                    format!(
                        "spec.clients[{i}] has no effect: ClientGroup {owner} names the same processes and comes first"
                    ),
                );
            }
        }
    }
    let clients =
        owners.into_iter().map(|(processes, owner)| Client { namespace: owner.namespace.clone(), processes }).collect();
    let statuses = resources.client_groups.keys().map(|key| ObjectStatus {
        kind: "ClientGroup",
        key: key.clone(),
        parents: Vec::new(),
        notes: notes.take("ClientGroup", key),
    });
    (clients, statuses.collect())
}

fn processes(selector: &ClientSelector) -> Option<Processes> {
    match (&selector.systemd_unit, &selector.cgroup_path, &selector.network_namespace) {
        (Some(unit), None, None) => Some(Processes::SystemdUnit(unit.clone())),
        // The same cgroup may be written with and without a final slash.
        (None, Some(path), None) => Some(Processes::CgroupPath(path.trim_end_matches('/').to_owned())),
        (None, None, Some(name)) => Some(Processes::NetworkNamespace(name.clone())),
        _ => None,
    }
}
