//! Several routes on one Service port: what is in force in each scope; the others are told.
//!
//! Oldest creationTimestamp first, then namespace and name (Gateway API). Objects from files have no
//! timestamp and are equally old. Producer and consumer routes never compete: they have different
//! scopes, and consumer routes replace producer routes for their own namespace's clients, whatever
//! their kinds. In a scope a TLSRoute comes before every TCPRoute (GEP-1294); of several TCPRoutes one
//! wins; several TLSRoutes are in force together, see [`super::names`].

use super::{
    names,
    route::{Judged, Parent},
};
use crate::{
    ir::{RouteKind, Scope},
    resources::{ObjectKey, Resources},
};
use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};
use weir_common::addr::Address;

/// How routes of one kind are ordered, for messages.
const ORDER: &str = "the oldest wins, then the first by namespace and name";

/// What is in force on one Service port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scopes {
    pub(super) everyone: Option<Scope>,
    pub(super) namespaces: BTreeMap<String, Scope>,
}

/// Who won where.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) ports: BTreeMap<(ObjectKey, u16), Scopes>,
    /// Why a route is not in force at a parent, by the places of route and parent in their lists.
    pub(super) superseded: BTreeMap<(usize, usize), Vec<String>>,
    /// Which host names of a route in force lead elsewhere, by the place of the route.
    pub(super) partial: BTreeMap<usize, BTreeSet<String>>,
}

/// Routes that compete for the same clients of a Service port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    service: ObjectKey,
    port: u16,
    /// The clients' namespace; `None` for producer routes.
    namespace: Option<String>,
}

/// A member of a group: the places of a route and of its parent.
type Member = (usize, usize);

/// Decides which routes are in force.
pub(super) fn settle(routes: &[Judged<'_>]) -> Settled {
    let mut settled = Settled::default();
    for (group, members) in groups(routes) {
        let scope = settled.settle(routes, &group, &members);
        let scopes = settled.ports.entry((group.service, group.port)).or_default();
        match group.namespace {
            None => scopes.everyone = scope,
            Some(namespace) => scopes.namespaces.extend(scope.map(|scope| (namespace, scope))),
        }
    }
    settled
}

/// Returns who competes with whom, in order of precedence.
fn groups(routes: &[Judged<'_>]) -> BTreeMap<Group, Vec<Member>> {
    let mut order: Vec<usize> = (0..routes.len()).collect();
    order.sort_by_key(|i| {
        let route = &routes[*i];
        let after_tls = route.key.kind != RouteKind::Tls;
        (after_tls, &route.metadata.creation_timestamp, &route.key.object)
    });
    let mut groups: BTreeMap<Group, Vec<Member>> = BTreeMap::new();
    for i in order {
        let namespace = &routes[i].key.object.namespace;
        for (j, attachment) in attachments(&routes[i]) {
            let consumer = (*namespace != attachment.service.namespace).then(|| namespace.clone());
            for port in &attachment.ports {
                let group = Group { service: attachment.service.clone(), port: *port, namespace: consumer.clone() };
                groups.entry(group).or_default().push((i, j));
            }
        }
    }
    groups
}

impl Settled {
    /// Decides what is in force in one group, and writes down what is not.
    fn settle(&mut self, routes: &[Judged<'_>], group: &Group, members: &[Member]) -> Option<Scope> {
        let first = &routes[members.first()?.0].key;
        let tls: Vec<Member> = members.iter().copied().filter(|(i, _)| routes[*i].key.kind == RouteKind::Tls).collect();
        for member in &members[tls.len()..] {
            let key = &routes[member.0].key;
            let why = match first.kind {
                RouteKind::Tls => "a TLSRoute comes before every TCPRoute",
                RouteKind::Tcp => ORDER,
            };
            if key != first {
                self.supersede(*member, group, &format!("{first} comes first ({why})"));
            }
        }
        Some(if tls.is_empty() { Scope::Tcp(first.clone()) } else { self.merge(routes, group, &tls) })
    }

    /// Merges TLSRoutes; the first of them is always in force.
    fn merge(&mut self, routes: &[Judged<'_>], group: &Group, members: &[Member]) -> Scope {
        let mut in_force = Vec::new();
        let places: Vec<usize> = members.iter().map(|(i, _)| *i).collect();
        let lost = names::lost(routes, &places);
        for member in members {
            let key = &routes[member.0].key;
            match lost.get(&member.0) {
                Some(lost) if lost.all => {
                    let message = format!("all its host names lead elsewhere: {} ({ORDER})", lost.winners());
                    self.supersede(*member, group, &message);
                    continue;
                }
                Some(lost) => {
                    let message = format!(
                        "port {} of Service {}: some of its host names lead elsewhere: {} ({ORDER})",
                        group.port,
                        group.service,
                        lost.names_and_winners()
                    );
                    self.partial.entry(member.0).or_default().insert(message);
                }
                None => {}
            }
            // A route that names the port by two parentRefs is in force once.
            if in_force.last() != Some(key) {
                in_force.push(key.clone());
            }
        }
        Scope::Tls(in_force)
    }

    fn supersede(&mut self, member: Member, group: &Group, why: &str) {
        let message = format!("port {} of Service {}: {why}", group.port, group.service);
        self.superseded.entry(member).or_default().push(message);
    }
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
