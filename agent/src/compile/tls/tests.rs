//! Tests of the tables of TLSRoutes: which name leads where, and on which path.

use super::*;
use crate::{
    compile::{
        Compiled, FoundClients, compile, name_outcome,
        path::{Capabilities, Why},
    },
    ir::{Backend, BackendKey, BackendKind, Desired, Endpoint, Frontend, Leg as IrLeg, RouteKind, Scope, TlsMatch},
    resources::ObjectKey,
};
use std::time::Duration;
use weir_common::{
    abi::tables::{EndpointReadiness, FrontendKey, LegKind, Policy, TargetKind},
    addr::Address,
};

const ADDRESS: Address = Address::from_v4_octets([10, 0, 0, 1]);

fn key(name: &str) -> RouteKey {
    RouteKey { kind: RouteKind::Tls, object: ObjectKey::new("shop", name) }
}

fn service(name: &str) -> BackendKey {
    BackendKey { kind: BackendKind::Service, object: ObjectKey::new("shop", name), port: 443 }
}

/// A route of two legs to the same backends as every other, for these hostnames.
fn route(hostnames: &[&str]) -> Route {
    let leg = |name: &str, weight| IrLeg { label: name.to_owned(), weight, target: Ok(service(name)) };
    let tls = TlsMatch { hostnames: hostnames.iter().map(ToString::to_string).collect(), ..TlsMatch::default() };
    Route { policy: Policy::Random, legs: vec![leg("v1", 3), leg("v2", 1)], tls: Some(tls) }
}

fn asking(hostnames: &[&str], protocols: &[&str]) -> Route {
    let mut route = route(hostnames);
    let tls = route.tls.as_mut().expect("a TLSRoute");
    tls.alpn = protocols.iter().map(ToString::to_string).collect();
    route
}

fn desired(routes: &[(&str, Route)]) -> Desired {
    let mut desired = Desired::default();
    desired.routes.extend(routes.iter().map(|(name, route)| (key(name), route.clone())));
    let scope = Scope::Tls(routes.iter().map(|(name, _)| key(name)).collect());
    let service_key = ObjectKey::new("shop", "web");
    let frontend = Frontend { service: service_key, everyone: Some(scope), namespaces: BTreeMap::new() };
    desired.frontends.insert((ADDRESS, 443), frontend);
    for (host, name) in [(1, "v1"), (2, "v2")] {
        let address = Address::from_v4_octets([10, 1, 0, host]);
        let endpoint = Endpoint { address, port: 443, readiness: EndpointReadiness::Ready };
        desired.backends.insert(service(name), Backend { endpoints: [endpoint].into(), empty: None });
    }
    desired
}

fn compiled(routes: &[(&str, Route)]) -> Compiled {
    compile(&desired(routes), &FoundClients::new(), "node", &Capabilities::default())
}

fn target(compiled: &Compiled) -> Target {
    compiled.tables.frontends[&FrontendKey::tcp(ADDRESS, 443)].everyone
}

fn path(compiled: &Compiled) -> &Path {
    &compiled.names.paths[&(FrontendKey::tcp(ADDRESS, 443), None)]
}

/// Returns the name of the route that a hello selects.
fn selected(compiled: &Compiled, name: &str, protocols: &[&str]) -> Result<String, Reason> {
    let protocols: Vec<_> = protocols.iter().map(ToString::to_string).collect();
    let matched = name_outcome(&compiled.tables, &target(compiled), Some(name), &protocols)?;
    Ok(compiled.names.stats[&matched.route_stats].route.object.name.clone())
}

#[test]
fn routes_that_differ_in_nothing_but_names_are_verified_from_one_sequence_of_tickets() {
    let compiled = compiled(&[("one", route(&["a.example"])), ("two", route(&["*.b.example"]))]);
    assert_eq!(path(&compiled), &Path::Verify);
    let TargetKind::Verify(split, _) = target(&compiled).kind() else { panic!("{:?}", target(&compiled)) };
    assert_eq!(target(&compiled).route_stats, id::route_stats(&key("one")));
    let splits = &compiled.tables.splits;
    assert_eq!(splits.len(), 2, "each route counts for itself");
    let first = splits[&split];
    for other in splits.values() {
        assert_eq!((other.sequence, other.phase, other.cumulative), (first.sequence, first.phase, first.cumulative));
    }
    for (name, route) in [("a.example", "one"), ("x.b.example", "two")] {
        let matched = name_outcome(&compiled.tables, &target(&compiled), Some(name), &[]).expect("a match");
        assert_eq!(matched.route_stats, id::route_stats(&key(route)));
        for (leg, label) in splits[&matched.split].legs.iter().zip(["v1", "v2"]) {
            assert_eq!(leg.stats, id::leg_stats(&key(route), label));
        }
    }
}

#[test]
fn accepted_routes_have_a_sequence_of_tickets_each() {
    let mut other = route(&["b.example"]);
    other.legs[0].weight = 7;
    let compiled = compiled(&[("one", route(&["a.example"])), ("two", other)]);
    assert_eq!(path(&compiled), &Path::Accept(Why::Weights(key("one"), key("two"))));
    assert!(matches!(target(&compiled).kind(), TargetKind::Accept(_)));
    let mut sequences: Vec<_> = compiled.tables.splits.values().map(|split| split.sequence).collect();
    sequences.dedup();
    assert_eq!(sequences.len(), 2);
}

#[test]
fn of_two_routes_with_the_same_name_the_first_wins() {
    let routes = [("one", route(&["a.example"])), ("two", route(&["a.example", "b.example"]))];
    let compiled = compiled(&routes);
    assert_eq!(selected(&compiled, "a.example", &[]), Ok("one".to_owned()));
    assert_eq!(selected(&compiled, "b.example", &[]), Ok("two".to_owned()));
    assert_eq!(compiled.tables.names.len(), 2);
}

#[test]
fn the_exact_name_wins_and_then_the_longest_wildcard() {
    let compiled = compiled(&[
        ("short", route(&["*.example"])),
        ("long", route(&["*.a.example"])),
        ("exact", route(&["b.a.example"])),
    ]);
    let cases = [
        ("B.a.example", Ok("exact")),
        ("c.a.example", Ok("long")),
        ("d.c.a.example", Ok("long")),
        ("a.example", Ok("short")),
        ("example", Err(Reason::NameNotMatched)),
        ("xa.example", Ok("short")),
        ("not a name", Err(Reason::NameNotMatched)),
    ];
    for (name, wanted) in cases {
        assert_eq!(selected(&compiled, name, &[]), wanted.map(str::to_owned), "{name}");
    }
}

#[test]
fn a_route_that_asks_for_alpn_has_precedence_where_the_client_offers_it() {
    let compiled = compiled(&[
        ("any", route(&["a.example"])),
        ("one", asking(&["a.example"], &["h2"])),
        ("two", asking(&["a.example"], &["h2", "http/1.1"])),
    ]);
    assert_eq!(path(&compiled), &Path::Accept(Why::Alpn(key("one"))));
    let cases: [(&[&str], _); 4] =
        [(&[], "any"), (&["http/1.1"], "two"), (&["http/1.1", "h2"], "one"), (&["spdy/3"], "any")];
    for (protocols, wanted) in cases {
        assert_eq!(selected(&compiled, "a.example", protocols), Ok(wanted.to_owned()), "{protocols:?}");
    }
}

#[test]
fn a_name_all_of_whose_routes_ask_for_other_alpn_is_passed_over() {
    let compiled = compiled(&[("h2", asking(&["a.example"], &["h2"])), ("any", route(&["*.example"]))]);
    assert_eq!(selected(&compiled, "a.example", &["h2"]), Ok("h2".to_owned()));
    assert_eq!(selected(&compiled, "a.example", &[]), Ok("any".to_owned()));
}

#[test]
fn each_address_family_has_a_path_of_its_own() {
    let mut two = route(&["b.example"]);
    two.legs[0].target = Ok(service("other"));
    let mut desired = desired(&[("one", route(&["a.example"])), ("two", two)]);
    let v6 = Address::from("fd00::1".parse::<std::net::Ipv6Addr>().expect("an address"));
    let frontend = desired.frontends[&(ADDRESS, 443)].clone();
    desired.frontends.insert((v6, 443), frontend);
    // In IPv6 the backends of both routes are missing for the same reason.
    desired.backends.insert(service("other"), desired.backends[&service("v1")].clone());
    for backend in desired.backends.values_mut() {
        backend.empty = Some(Reason::NotResolved);
    }
    let compiled = compile(&desired, &FoundClients::new(), "node", &Capabilities::default());
    assert_eq!(path(&compiled), &Path::Accept(Why::Backends(key("one"), key("two"))));
    assert_eq!(compiled.names.paths[&(FrontendKey::tcp(v6, 443), None)], Path::Verify);
}

#[test]
fn a_kernel_that_cannot_verify_leaves_every_name_to_the_acceptor() {
    let capabilities = Capabilities { verify: Err("is too old".to_owned()) };
    let desired = desired(&[("one", route(&["a.example"]))]);
    let compiled = compile(&desired, &FoundClients::new(), "node", &capabilities);
    assert_eq!(path(&compiled).why().expect("a reason").to_string(), "this kernel is too old");
    assert!(matches!(target(&compiled).kind(), TargetKind::Accept(_)));
}

#[test]
fn a_name_of_a_route_with_no_weight_leads_to_a_split_that_rejects() {
    let mut none = route(&["a.example"]);
    none.legs.iter_mut().for_each(|leg| leg.weight = 0);
    let compiled = compiled(&[("none", none), ("some", route(&["b.example"]))]);
    let matched = name_outcome(&compiled.tables, &target(&compiled), Some("a.example"), &[]).expect("a match");
    let split = compiled.tables.splits[&matched.split];
    assert_eq!((split.n_legs, split.legs[0].kind()), (1, LegKind::Reject(Reason::NoWeight)));
    assert_eq!(split.legs[0].stats, id::route_stats(&key("none")));
    assert_eq!(selected(&compiled, "b.example", &[]), Ok("some".to_owned()));
}

#[test]
fn equal_names_share_a_table_and_a_changed_split_makes_a_new_one() {
    let mut desired = desired(&[("one", route(&["a.example"]))]);
    let frontend = desired.frontends[&(ADDRESS, 443)].clone();
    desired.frontends.insert((Address::from_v4_octets([10, 0, 0, 2]), 443), frontend);
    let capabilities = Capabilities::default();
    let before = compile(&desired, &FoundClients::new(), "node", &capabilities).tables;
    assert_eq!((before.frontends.len(), before.names.len()), (2, 1));
    desired.routes.get_mut(&key("one")).expect("one").legs[0].weight = 5;
    let after = compile(&desired, &FoundClients::new(), "node", &capabilities).tables;
    assert!(before.names.keys().all(|key| !after.names.contains_key(key)));
}

#[test]
fn the_idle_timeout_is_found_by_the_route_s_own_counters() {
    let mut limited = route(&["a.example"]);
    limited.tls.as_mut().expect("a TLSRoute").idle_timeout = Some(Duration::from_secs(30));
    let compiled = compiled(&[("limited", limited), ("for-ever", route(&["b.example"]))]);
    let timeouts: Vec<_> = compiled.names.idle_timeouts.iter().collect();
    assert_eq!(timeouts, [(&id::route_stats(&key("limited")), &Duration::from_secs(30))]);
}
