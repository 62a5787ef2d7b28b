//! Several routes on one Service port: one wins in each scope, the others are told.
//!
//! Oldest creationTimestamp first, then namespace and name (Gateway API). Objects from files have no
//! timestamp and are equally old. Producer and consumer routes never compete: they have different
//! scopes, and consumer routes replace producer routes for their own namespace's clients.

use super::route::{Judged, Parent};
use crate::{
    ir::RouteKey,
    resources::{ObjectKey, Resources},
};
use std::collections::{BTreeMap, btree_map::Entry};
use weir_common::addr::Address;

/// The routes in force on one Service port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scopes {
    pub(super) everyone: Option<RouteKey>,
    pub(super) namespaces: BTreeMap<String, RouteKey>,
}

/// Who won where.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) ports: BTreeMap<(ObjectKey, u16), Scopes>,
    /// Why a route is not in force at a parent, by the places of route and parent in their lists.
    pub(super) superseded: BTreeMap<(usize, usize), Vec<String>>,
}

/// Decides which routes are in force.
pub(super) fn settle(routes: &[Judged<'_>]) -> Settled {
    let mut order: Vec<usize> = (0..routes.len()).collect();
    order.sort_by_key(|i| (&routes[*i].object.metadata.creation_timestamp, &routes[*i].key.object));
    let mut settled = Settled::default();
    for i in order {
        let route = &routes[i];
        for (j, attachment) in attachments(route) {
            for port in &attachment.ports {
                let scopes = settled.ports.entry((attachment.service.clone(), *port)).or_default();
                let winner = if route.key.object.namespace == attachment.service.namespace {
                    scopes.everyone.get_or_insert_with(|| route.key.clone())
                } else {
                    scopes.namespaces.entry(route.key.object.namespace.clone()).or_insert_with(|| route.key.clone())
                };
                if *winner != route.key {
                    let message = format!(
                        "port {port} of Service {}: {winner} comes first (the oldest wins, then the first by namespace \
                         and name)",
                        attachment.service
                    );
                    settled.superseded.entry((i, j)).or_default().push(message);
                }
            }
        }
    }
    settled
}

/// Returns the parents at which a route takes part, with their places.
pub(super) fn attachments<'r>(route: &'r Judged<'_>) -> impl Iterator<Item = (usize, &'r super::attach::Attachment)> {
    let taking_part = |(_, parent): &(usize, &Parent<'_>)| route.takes_part(parent);
    let found = route.parents.iter().enumerate().filter(taking_part);
    found.filter_map(|(j, parent)| parent.attachment.as_ref().ok().map(|attachment| (j, attachment)))
}

/// Decides which Service an address and port belong to, where two Services claim the same: the older
/// one, then the first by namespace and name.
pub(super) fn owners<'s>(
    resources: &Resources,
    ports: &'s BTreeMap<(ObjectKey, u16), Scopes>,
) -> BTreeMap<(Address, u16), &'s ObjectKey> {
    let mut owners: BTreeMap<(Address, u16), &ObjectKey> = BTreeMap::new();
    for (service, port) in ports.keys() {
        let Some(object) = resources.services.get(service) else {
            continue;
        };
        for address in super::attach::cluster_ips(object) {
            match owners.entry((address, *port)) {
                Entry::Vacant(free) => {
                    free.insert(service);
                }
                Entry::Occupied(mut taken) => {
                    let age = |key| resources.services.get(key).map(|found| &found.metadata.creation_timestamp);
                    if (age(service), service) < (age(taken.get()), *taken.get()) {
                        taken.insert(service);
                    }
                }
            }
        }
    }
    owners
}
