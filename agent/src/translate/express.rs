//! The express way for the most frequent change, other weights: translates the changed rules and
//! nothing else, so that they are in force long before a large state is translated as a whole.
//!
//! It only takes changes of rules that leave everything else as it was, and its outcome is a part of
//! what `translate` says of the same resources. Whoever uses it translates the whole afterwards.

use super::{
    condition::Notes,
    endpoints::{self, Slices},
    route,
};
use crate::{
    api::TCPRoute,
    ir::Desired,
    resources::{ObjectKey, Resources},
};
use std::{collections::BTreeMap, sync::Arc};

/// More changed routes than this are better translated with all others.
const MAX_ROUTES: usize = 64;

/// Returns the part of the wanted state that has changed from `old` to `new`, given the wanted state
/// of `old`; `None` if more than rules of routes has changed.
#[must_use]
pub fn express(old: &Resources, new: &Resources, desired: &Desired) -> Option<Desired> {
    let changed = changed_rules(old, new)?;
    let mut part = Desired::default();
    for key in changed {
        let judged = route::judge(new, key, new.tcp_routes.get(key)?);
        part.routes.insert(judged.key, judged.route.ok()?);
    }
    for (address, frontend) in &desired.frontends {
        let mut routes = frontend.routes();
        if routes.clone().any(|key| part.routes.contains_key(key)) {
            part.frontends.insert(*address, frontend.clone());
            for key in routes.by_ref() {
                if !part.routes.contains_key(key) {
                    part.routes.insert(key.clone(), desired.routes.get(key)?.clone());
                }
            }
        }
    }
    let mut slices = None;
    for key in part.routes.values().flat_map(|route| &route.legs).filter_map(|leg| leg.target.as_ref().ok()) {
        let backend = desired.backends.get(key).cloned().unwrap_or_else(|| {
            let slices = slices.get_or_insert_with(|| Slices::new(new, &mut Notes::default()));
            endpoints::endpoints(new, slices, key, &mut Notes::default())
        });
        part.backends.insert(key.clone(), backend);
    }
    Some(part)
}

/// Returns the routes of which nothing but the rules has changed, if that is all that has changed.
fn changed_rules<'a>(old: &Resources, new: &'a Resources) -> Option<Vec<&'a ObjectKey>> {
    let unchanged = same(&old.services, &new.services)
        && same(&old.endpoint_slices, &new.endpoint_slices)
        && same(&old.namespaces, &new.namespaces)
        && same(&old.reference_grants, &new.reference_grants)
        && same(&old.backends, &new.backends)
        && same(&old.client_groups, &new.client_groups)
        && old.resolved == new.resolved
        && old.tcp_routes.len() == new.tcp_routes.len();
    if !unchanged {
        return None;
    }
    let mut changed = Vec::new();
    for ((old_key, old), (key, new)) in old.tcp_routes.iter().zip(&new.tcp_routes) {
        if old_key != key {
            return None;
        }
        if Arc::ptr_eq(old, new) || old == new {
            continue;
        }
        if !only_rules_differ(old, new) || changed.len() == MAX_ROUTES {
            return None;
        }
        changed.push(key);
    }
    (!changed.is_empty()).then_some(changed)
}

fn only_rules_differ(old: &TCPRoute, new: &TCPRoute) -> bool {
    old.spec.parent_refs == new.spec.parent_refs
        && old.metadata.annotations == new.metadata.annotations
        && old.metadata.creation_timestamp == new.metadata.creation_timestamp
}

/// Whether two maps hold the very same objects. The provider shares what it did not read again.
fn same<K: Ord, V>(old: &BTreeMap<K, Arc<V>>, new: &BTreeMap<K, Arc<V>>) -> bool {
    old.len() == new.len()
        && old.iter().zip(new).all(|((old_key, old), (new_key, new))| old_key == new_key && Arc::ptr_eq(old, new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        compile::{FoundClients, compile, path::Capabilities},
        provider::file,
        translate::translate,
    };
    use std::path::Path;

    fn canary() -> Resources {
        file::read_dir(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples/canary")).resources
    }

    fn change_route(resources: &mut Resources, change: impl Fn(&mut TCPRoute)) {
        let route = resources.tcp_routes.values_mut().next().expect("a route");
        change(Arc::make_mut(route));
    }

    #[test]
    fn changed_weights_take_the_express_way_to_the_same_tables() {
        let old = canary();
        let desired = translate(&old).desired;
        let mut new = old.clone();
        change_route(&mut new, |route| route.spec.rules[0].backend_refs[0].weight = Some(7));
        let part = express(&old, &new, &desired).expect("the express way");
        let part = compile(&part, &FoundClients::new(), "node", &Capabilities::default()).tables;
        let whole = compile(&translate(&new).desired, &FoundClients::new(), "node", &Capabilities::default()).tables;
        assert_eq!(*part, *whole, "the example has one route, so its part is the whole");
        assert_ne!(*part, *compile(&desired, &FoundClients::new(), "node", &Capabilities::default()).tables);
    }

    #[test]
    fn a_leg_to_a_backend_that_no_route_had_gets_its_endpoints() {
        let old = canary();
        let mut without = old.clone();
        change_route(&mut without, |route| {
            route.spec.rules[0].backend_refs.remove(1);
        });
        let desired = translate(&without).desired;
        let part = express(&without, &old, &desired).expect("the express way");
        assert_eq!(part, translate(&old).desired);
    }

    #[test]
    fn everything_else_takes_the_whole_way() {
        let old = canary();
        let desired = translate(&old).desired;
        assert!(express(&old, &old, &desired).is_none(), "nothing has changed");
        type Change = fn(&mut Resources);
        let changes: [Change; 5] = [
            |new| change_route(new, |route| route.spec.parent_refs[0].port = Some(1)),
            |new| {
                change_route(new, |route| {
                    route.metadata.annotations =
                        Some([("weir.dev/load-balancing".to_owned(), "random".to_owned())].into());
                });
            },
            |new| new.tcp_routes.clear(),
            |new| {
                new.services.pop_first();
            },
            |new| {
                let slice = new.endpoint_slices.values_mut().next().expect("a slice");
                Arc::make_mut(slice).service = None;
            },
        ];
        for (i, change) in changes.into_iter().enumerate() {
            let mut new = old.clone();
            change(&mut new);
            assert!(express(&old, &new, &desired).is_none(), "change {i}");
        }
    }

    #[test]
    fn a_route_that_becomes_invalid_takes_the_whole_way() {
        let old = canary();
        let desired = translate(&old).desired;
        let mut new = old.clone();
        change_route(&mut new, |route| route.spec.rules.clear());
        assert!(express(&old, &new, &desired).is_none());
    }
}
