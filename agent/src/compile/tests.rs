//! Tests of `compile`: what reaches the tables, and that ids depend on nothing but names.

use super::*;
use crate::{
    ir::{Backend, BackendKey, BackendKind, Endpoint, Frontend, Leg, Route, RouteKey, RouteKind},
    resources::ObjectKey,
};
use std::net::IpAddr;
use weir_common::{
    abi::tables::{EndpointReadiness, LegKind, TargetKind},
    addr::Address,
    reason::Reason,
};

fn ip(text: &str) -> Address {
    text.parse::<IpAddr>().expect("an address").into()
}

fn service(name: &str) -> BackendKey {
    BackendKey { kind: BackendKind::Service, object: ObjectKey::new("shop", name), port: 80 }
}

fn endpoint(address: &str, readiness: EndpointReadiness) -> Endpoint {
    Endpoint { address: ip(address), port: 8080, readiness }
}

fn route_key(name: &str) -> RouteKey {
    RouteKey { kind: RouteKind::Tcp, object: ObjectKey::new("shop", name) }
}

fn leg(label: &str, weight: u32, target: Result<BackendKey, Reason>) -> Leg {
    Leg { label: label.into(), weight, target }
}

fn desired() -> Desired {
    let mut desired = Desired::default();
    for address in ["10.0.0.1", "fd00::1"] {
        desired.frontends.insert(
            (ip(address), 80),
            Frontend {
                service: ObjectKey::new("shop", "web"),
                everyone: Some(ir::Scope::Tcp(route_key("web"))),
                namespaces: BTreeMap::new(),
            },
        );
    }
    desired.routes.insert(
        route_key("web"),
        Route {
            policy: Policy::PowerOfTwoChoices,
            legs: vec![leg("shop/v1:80", 90, Ok(service("v1"))), leg("shop/v2:80", 10, Err(Reason::BackendNotFound))],
            tls: None,
        },
    );
    desired.backends.insert(
        service("v1"),
        Backend {
            endpoints: [
                endpoint("10.1.0.1", EndpointReadiness::Ready),
                endpoint("10.1.0.2", EndpointReadiness::ServingTerminating),
                endpoint("fd01::1", EndpointReadiness::ServingTerminating),
            ]
            .into(),
            empty: None,
        },
    );
    desired
}

fn tables(desired: &Desired) -> Arc<Tables> {
    compile(desired, &FoundClients::new(), "node", &Capabilities::default()).tables
}

#[test]
fn equal_input_gives_equal_tables() {
    assert_eq!(tables(&desired()), tables(&desired()));
}

#[test]
fn only_the_phase_differs_between_nodes() {
    let one = compile(&desired(), &FoundClients::new(), "one", &Capabilities::default()).tables;
    let mut other = (*compile(&desired(), &FoundClients::new(), "other", &Capabilities::default()).tables).clone();
    assert_ne!(*one, other);
    for (split, here) in other.splits.values_mut().zip(one.splits.values()) {
        split.phase = here.phase;
    }
    assert_eq!(*one, other);
}

#[test]
fn ready_endpoints_exclude_terminating_ones_in_each_family() {
    let tables = tables(&desired());
    let got: BTreeSet<_> = tables.endpoints.values().map(|e| (e.address, e.readiness())).collect();
    let wanted = BTreeSet::from([
        (ip("10.1.0.1"), EndpointReadiness::Ready),
        (ip("fd01::1"), EndpointReadiness::ServingTerminating),
    ]);
    assert_eq!(got, wanted);
}

#[test]
fn an_invalid_leg_keeps_its_weight_and_rejects() {
    let tables = tables(&desired());
    for split in tables.splits.values() {
        assert_eq!(split.total, 100);
        assert_eq!(split.legs[1].kind(), LegKind::Reject(Reason::BackendNotFound));
        assert_eq!(split.legs[1].weight(), 10);
    }
}

#[test]
fn endpoints_come_and_go_without_a_new_sequence_and_with_the_same_counters() {
    let before = desired();
    let mut after = before.clone();
    let backend = after.backends.get_mut(&service("v1")).expect("v1");
    backend.endpoints.insert(endpoint("10.1.0.9", EndpointReadiness::Ready));
    let (before, after) = (tables(&before), tables(&after));
    let sequences = |tables: &Tables| -> BTreeSet<_> { tables.splits.values().map(|s| s.sequence).collect() };
    let stats = |tables: &Tables| -> BTreeSet<_> { tables.splits.values().map(|s| s.legs[0].stats).collect() };
    assert_eq!(sequences(&before), sequences(&after));
    assert_eq!(stats(&before), stats(&after));
    assert_ne!(before.splits.keys().collect::<Vec<_>>(), after.splits.keys().collect::<Vec<_>>());
}

#[test]
fn changed_weights_begin_a_new_sequence_with_the_same_counters() {
    let before = desired();
    let mut after = before.clone();
    after.routes.get_mut(&route_key("web")).expect("web").legs[0].weight = 50;
    let (before, after) = (tables(&before), tables(&after));
    for (old, new) in before.splits.values().flat_map(|s| after.splits.values().map(move |t| (s, t))) {
        assert_ne!(old.sequence, new.sequence);
        assert_eq!(old.legs[0].stats, new.legs[0].stats);
    }
}

#[test]
fn all_weights_zero_rejects_at_the_route() {
    let mut desired = desired();
    for leg in &mut desired.routes.get_mut(&route_key("web")).expect("web").legs {
        leg.weight = 0;
    }
    let tables = tables(&desired);
    for frontend in tables.frontends.values() {
        assert_eq!(frontend.everyone.kind(), TargetKind::Reject(Reason::NoWeight));
    }
}

#[test]
fn a_backend_without_endpoints_rejects_for_what_is_known() {
    let mut desired = desired();
    let backend = desired.backends.get_mut(&service("v1")).expect("v1");
    backend.endpoints.clear();
    assert!(tables(&desired).backends.values().all(|backend| backend.count == 0));
    desired.backends.get_mut(&service("v1")).expect("v1").empty = Some(Reason::NotResolved);
    let tables = tables(&desired);
    assert!(tables.splits.values().all(|split| split.legs[0].kind() == LegKind::Reject(Reason::NotResolved)));
}

#[test]
fn consumer_routes_are_scoped_and_everyone_else_is_left_alone_without_a_producer() {
    let mut desired = desired();
    for frontend in desired.frontends.values_mut() {
        let route = frontend.everyone.take().expect("a route");
        frontend.namespaces.insert("team".into(), route);
    }
    let tables = tables(&desired);
    for frontend in tables.frontends.values() {
        assert!(frontend.is_scoped());
        assert_eq!(frontend.everyone.kind(), TargetKind::Pass);
    }
    assert_eq!(tables.scoped.len(), 2);
}

#[test]
fn only_client_hash_makes_rings() {
    let mut desired = desired();
    assert!(tables(&desired).rings.is_empty());
    desired.routes.get_mut(&route_key("web")).expect("web").policy = Policy::ClientHash;
    let tables = tables(&desired);
    assert_eq!(tables.rings.len(), 2 * ring::BUCKETS as usize);
    assert!(tables.backends.values().all(|backend| backend.ring == ring::BUCKETS));
}

#[test]
fn a_table_that_would_overflow_is_named() {
    let mut tables = Tables::default();
    for id in 0..=u64::from(MAX_CLIENTS) {
        tables.clients.insert(ClientKey::cgroup(id), id::namespace("shop"));
    }
    let error = tables.check_capacity().expect_err("too many");
    assert_eq!(error.table, "CLIENTS");
    assert_eq!(tables.clients.len(), error.wanted);
}
