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
    api::Route,
    ir::{Desired, RouteKind},
    resources::{ObjectKey, Resources},
};
use std::{collections::BTreeMap, sync::Arc};

/// More changed routes than this are better translated with all others.
const MAX_ROUTES: usize = 64;

/// Returns the part of the wanted state that has changed from `old` to `new`, given the wanted state
/// of `old`; `None` if more than rules of routes has changed.
#[must_use]
pub fn express(old: &Resources, new: &Resources, desired: &Desired) -> Option<Desired> {
    let mut part = Desired::default();
    for (kind, key, object) in changed_rules(old, new)? {
        let judged = route::judge(new, kind, key, object);
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

/// A route of which nothing but the rules has changed.
type Changed<'a> = (RouteKind, &'a ObjectKey, &'a dyn Route);

/// Returns the routes of which nothing but the rules has changed, if that is all that has changed.
fn changed_rules<'a>(old: &Resources, new: &'a Resources) -> Option<Vec<Changed<'a>>> {
    let unchanged = same(&old.services, &new.services)
        && same(&old.endpoint_slices, &new.endpoint_slices)
        && same(&old.namespaces, &new.namespaces)
        && same(&old.reference_grants, &new.reference_grants)
        && same(&old.backends, &new.backends)
        && same(&old.client_groups, &new.client_groups)
        && old.resolved == new.resolved;
    if !unchanged {
        return None;
    }
    let mut changed = Vec::new();
    changed_routes(RouteKind::Tcp, &old.tcp_routes, &new.tcp_routes, &mut changed)?;
    changed_routes(RouteKind::Tls, &old.tls_routes, &new.tls_routes, &mut changed)?;
    (!changed.is_empty() && changed.len() <= MAX_ROUTES).then_some(changed)
}

/// Adds the changed routes of a kind; `None` if more than their rules has changed.
fn changed_routes<'a, R: Route + PartialEq>(
    kind: RouteKind,
    old: &BTreeMap<ObjectKey, Arc<R>>,
    new: &'a BTreeMap<ObjectKey, Arc<R>>,
    changed: &mut Vec<Changed<'a>>,
) -> Option<()> {
    if old.len() != new.len() {
        return None;
    }
    for ((old_key, old), (key, new)) in old.iter().zip(new) {
        if old_key != key {
            return None;
        }
        if Arc::ptr_eq(old, new) || old == new {
            continue;
        }
        if !only_rules_differ(old.as_ref(), new.as_ref()) {
            return None;
        }
        changed.push((kind, key, new.as_ref()));
    }
    Some(())
}

fn only_rules_differ(old: &impl Route, new: &impl Route) -> bool {
    // A route that was kept out by its rules may now take host names from others.
    old.mistakes().is_empty()
        && old.parent_refs() == new.parent_refs()
        && old.hostnames() == new.hostnames()
        && old.metadata().annotations == new.metadata().annotations
        && old.metadata().creation_timestamp == new.metadata().creation_timestamp
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
        api::{TCPRoute, TLSRoute},
        compile::{FoundClients, compile, path::Capabilities},
        ir::{Frontend, RouteKey},
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

    #[test]
    fn a_route_that_becomes_valid_takes_the_whole_way() {
        let new = canary();
        let mut old = new.clone();
        change_route(&mut old, |route| route.spec.rules.clear());
        let desired = translate(&old).desired;
        assert!(express(&old, &new, &desired).is_none());
    }

    fn tls() -> Resources {
        file::read_dir(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples/tls")).resources
    }

    fn change_tls_route(resources: &mut Resources, name: &str, change: impl Fn(&mut TLSRoute)) {
        let route = resources.tls_routes.get_mut(&ObjectKey::new("shop", name)).expect("the route");
        change(Arc::make_mut(route));
    }

    #[test]
    fn changed_weights_of_a_tls_route_give_all_routes_of_its_scopes_as_the_whole_way_does() {
        let old = tls();
        let desired = translate(&old).desired;
        for name in ["web", "api"] {
            let mut new = old.clone();
            change_tls_route(&mut new, name, |route| route.spec.rules[0].backend_refs[0].weight = Some(7));
            let part = express(&old, &new, &desired).expect("the express way");
            let whole = translate(&new).desired;
            let key = RouteKey { kind: RouteKind::Tls, object: ObjectKey::new("shop", name) };
            assert!(whole.routes[&key].legs[0].weight == 7 && part.routes.contains_key(&key), "{name}");
            for (address, frontend) in &whole.frontends {
                let touched = frontend.routes().any(|route| *route == key);
                assert_eq!(part.frontends.get(address), touched.then_some(frontend), "{name}");
            }
            let of_part = part.frontends.values().flat_map(Frontend::routes);
            assert!(of_part.clone().all(|route| part.routes.contains_key(route)), "{name}");
            assert!(part.routes.iter().all(|(key, route)| whole.routes.get(key) == Some(route)), "{name}");
            assert!(part.backends.iter().all(|(key, backend)| whole.backends.get(key) == Some(backend)), "{name}");
        }
    }

    #[test]
    fn changed_host_names_and_annotations_of_a_tls_route_take_the_whole_way() {
        let old = tls();
        let desired = translate(&old).desired;
        type Change = fn(&mut TLSRoute);
        let changes: [Change; 4] = [
            |route| route.spec.hostnames.push("new.shop.example".to_owned()),
            |route| {
                route.metadata.annotations.get_or_insert_default().insert("weir.dev/alpn".to_owned(), "h2".to_owned());
            },
            |route| route.spec.parent_refs[0].port = Some(1),
            |route| route.spec.hostnames.clear(),
        ];
        for (i, change) in changes.into_iter().enumerate() {
            let mut new = old.clone();
            change_tls_route(&mut new, "web", change);
            assert!(express(&old, &new, &desired).is_none(), "change {i}");
        }
        let mut new = old.clone();
        new.tls_routes.pop_first();
        assert!(express(&old, &new, &desired).is_none(), "a route is gone");
    }
}
