//! Resources to desired state and conditions: the rules of the Gateway API, one rule set a file.
//!
//! Pure, and it never fails: bad input becomes a condition, and the rest goes on. No object can stop
//! another from being applied.

mod annotation;
mod attach;
mod backend_ref;
mod clients;
pub mod condition;
mod conflict;
mod endpoints;
mod express;
pub mod grant;
mod names;
mod route;
mod status;

pub use condition::{Condition, ConditionStatus, ConditionType, ObjectStatus, ParentStatus};
pub use express::express;

use crate::{
    ir::{self, RouteKey},
    resources::Resources,
};
use condition::Notes;
use conflict::Settled;
use endpoints::Slices;
use route::Judged;
use std::collections::BTreeMap;
use weir_common::addr::Address;

/// The outcome of a translation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// What the node should do.
    pub desired: ir::Desired,
    /// What there is to say about the objects: routes, Backends and ClientGroups always, others only
    /// if there is a note.
    pub objects: Vec<ObjectStatus>,
}

/// Translates a snapshot.
#[must_use]
pub fn translate(resources: &Resources) -> Translation {
    let mut notes = Notes::default();
    let routes = route::judge_all(resources);
    let settled = conflict::settle(&routes);
    let owners = conflict::owners(resources, &settled.ports);
    let frontends = frontends(&settled, &owners);
    let slices = Slices::new(resources, &mut notes);
    let (in_force, backends) = in_force(resources, &routes, &frontends, &slices, &mut notes);
    let (clients, client_groups) = clients::clients(resources, &mut notes);
    let desired = ir::Desired { frontends, routes: in_force, backends, clients };
    let objects = status::statuses(resources, &routes, &settled, &owners, &desired, client_groups, notes);
    Translation { desired, objects }
}

fn frontends(
    settled: &Settled,
    owners: &BTreeMap<(Address, u16), &crate::resources::ObjectKey>,
) -> BTreeMap<(Address, u16), ir::Frontend> {
    let mut frontends = BTreeMap::new();
    for ((address, port), service) in owners {
        let Some(scopes) = settled.ports.get(&((*service).clone(), *port)) else {
            continue;
        };
        let frontend = ir::Frontend {
            service: (*service).clone(),
            everyone: scopes.everyone.clone(),
            namespaces: scopes.namespaces.clone(),
        };
        frontends.insert((*address, *port), frontend);
    }
    frontends
}

/// Returns the routes that some frontend refers to, and the backends that some leg of them refers to.
fn in_force(
    resources: &Resources,
    routes: &[Judged<'_>],
    frontends: &BTreeMap<(Address, u16), ir::Frontend>,
    slices: &Slices<'_>,
    notes: &mut Notes,
) -> (BTreeMap<RouteKey, ir::Route>, BTreeMap<ir::BackendKey, ir::Backend>) {
    let by_key: BTreeMap<&RouteKey, &Judged<'_>> = routes.iter().map(|route| (&route.key, route)).collect();
    let mut in_force = BTreeMap::new();
    let mut backends = BTreeMap::new();
    for key in frontends.values().flat_map(ir::Frontend::routes) {
        let Some(Ok(route)) = by_key.get(key).map(|judged| judged.route.as_ref()) else {
            continue;
        };
        if in_force.contains_key(key) {
            continue;
        }
        in_force.insert(key.clone(), route.clone());
        for backend in route.legs.iter().filter_map(|leg| leg.target.as_ref().ok()) {
            if !backends.contains_key(backend) {
                backends.insert(backend.clone(), endpoints::endpoints(resources, slices, backend, notes));
            }
        }
    }
    (in_force, backends)
}
