//! Tests of the plan: every prefix of the operations is safe, and retiring waits its time.

use super::*;
use crate::compile::{FoundClients, compile, host_env::HostEnv, name_outcome, path::Capabilities};
use crate::{
    ir::{self, BackendKey, BackendKind, Desired, RouteKey, RouteKind},
    resources::ObjectKey,
};
use proptest::prelude::*;
use std::{collections::BTreeSet, sync::Arc};
use weir_common::{
    abi::{
        tables::{EndpointReadiness, Policy},
        tls::Dial,
    },
    addr::Address,
    decide::{Forward, Verdict, decide, dial},
    reason::Reason,
};

const NAMESPACES: [&str; 2] = ["one", "two"];
const HOSTNAMES: [&str; 3] = ["a.example", "*.example", "*.a.example"];
const PROTOCOLS: [&str; 3] = ["h2", "http/1.1", "spdy/3"];

fn frontend_address(i: u8) -> Address {
    Address::from_v4_octets([10, 0, 0, i])
}

fn backend_key(i: u8) -> BackendKey {
    BackendKey { kind: BackendKind::Service, object: ObjectKey::new("shop", format!("backend-{i}")), port: 80 }
}

fn route_key(i: u8) -> RouteKey {
    RouteKey { kind: RouteKind::Tcp, object: ObjectKey::new("shop", format!("route-{i}")) }
}

fn tls_key(i: u8) -> RouteKey {
    RouteKey { kind: RouteKind::Tls, object: ObjectKey::new("shop", format!("tls-{i}")) }
}

fn policies() -> impl Strategy<Value = Policy> + Clone {
    prop_oneof![Just(Policy::PowerOfTwoChoices), Just(Policy::RoundRobin), Just(Policy::ClientHash)]
}

fn legs() -> impl Strategy<Value = Vec<ir::Leg>> + Clone {
    prop::collection::vec((0..4_u8, 0..3_u32), 1..4).prop_map(|legs| {
        legs.into_iter()
            .enumerate()
            .map(|(i, (backend, weight))| ir::Leg {
                label: format!("{i}"),
                weight,
                target: if backend == 3 { Err(Reason::BackendNotFound) } else { Ok(backend_key(backend)) },
            })
            .collect()
    })
}

fn tcp_routes() -> impl Strategy<Value = Vec<ir::Route>> {
    prop::collection::vec((policies(), legs()).prop_map(|(policy, legs)| ir::Route { policy, legs, tls: None }), 3)
}

/// How a route chooses, and among what.
type Choice = (Policy, Vec<ir::Leg>);

/// Routes of which some are alike but for their names, so that the kernel can verify.
fn tls_routes() -> impl Strategy<Value = Vec<ir::Route>> {
    let words = |of: [&'static str; 3], some| prop::sample::subsequence(of.to_vec(), some);
    let tls = (words(HOSTNAMES, 1..=3), prop_oneof![3 => Just(Vec::new()), 1 => words(PROTOCOLS, 1..=3)]);
    let own = prop::option::weighted(0.3, (policies(), legs()));
    (policies(), legs(), prop::collection::vec((own, tls), 3)).prop_map(|(policy, legs, routes)| {
        let owned = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect();
        let route = |(own, (names, alpn)): (Option<Choice>, (Vec<&str>, Vec<&str>))| {
            let (policy, legs) = own.unwrap_or_else(|| (policy, legs.clone()));
            let tls = ir::TlsMatch { hostnames: owned(names), alpn: owned(alpn), idle_timeout: None };
            ir::Route { policy, legs, tls: Some(tls) }
        };
        routes.into_iter().map(route).collect()
    })
}

fn scopes() -> impl Strategy<Value = Option<ir::Scope>> + Clone {
    let tls = prop::sample::subsequence(vec![0, 1, 2_u8], 1..=3).prop_shuffle();
    prop::option::of(prop_oneof![
        (0..3_u8).prop_map(|i| ir::Scope::Tcp(route_key(i))),
        tls.prop_map(|routes| ir::Scope::Tls(routes.into_iter().map(tls_key).collect())),
    ])
}

fn states() -> impl Strategy<Value = Desired> {
    let frontends = prop::collection::vec(prop::option::of((scopes(), scopes(), scopes())), 2);
    let backends = prop::collection::vec(prop::collection::btree_set(1..5_u8, 0..4), 3);
    (tcp_routes(), tls_routes(), frontends, backends).prop_map(|(tcp, tls, frontends, backends)| {
        let mut desired = Desired::default();
        desired.routes.extend((0..).map(route_key).zip(tcp));
        desired.routes.extend((0..).map(tls_key).zip(tls));
        for (i, endpoints) in (0..).zip(backends) {
            let endpoints = endpoints.into_iter().map(|host| ir::Endpoint {
                address: Address::from_v4_octets([10, 1, i, host]),
                port: 80,
                readiness: EndpointReadiness::Ready,
            });
            desired.backends.insert(backend_key(i), ir::Backend { endpoints: endpoints.collect(), empty: None });
        }
        for (i, frontend) in (0..).zip(frontends) {
            let Some((everyone, one, two)) = frontend else { continue };
            let scopes = NAMESPACES.into_iter().zip([one, two]);
            desired.frontends.insert(
                (frontend_address(i), 80),
                ir::Frontend {
                    service: ObjectKey::new("shop", "web"),
                    everyone,
                    namespaces: scopes.filter_map(|(name, scope)| Some((name.to_owned(), scope?))).collect(),
                },
            );
        }
        desired
    })
}

/// A connection: its frontend, its client's namespace, and what its ClientHello says.
#[derive(Clone, Copy, Debug)]
struct Connection {
    frontend: u8,
    namespace: Option<&'static str>,
    name: Option<&'static str>,
    protocol: Option<&'static str>,
}

fn connections() -> Vec<Connection> {
    let mut connections = Vec::new();
    for frontend in 0..2 {
        for namespace in [None, Some("one"), Some("two")] {
            for name in [None, Some("a.example"), Some("b.a.example"), Some("c.example"), Some("other")] {
                for protocol in [None, Some("h2")] {
                    connections.push(Connection { frontend, namespace, name, protocol });
                }
            }
        }
    }
    connections
}

/// What the n-th connection of a kind gets.
fn answer(tables: &Tables, connection: Connection, ticket: u64) -> String {
    let env = HostEnv::new(tables).in_namespace(connection.namespace).at_ticket(ticket).with_random(ticket);
    let key = FrontendKey::tcp(frontend_address(connection.frontend), 80);
    let protocols: Vec<_> = connection.protocol.into_iter().map(str::to_owned).collect();
    let by_name = |target: &Target| name_outcome(tables, target, connection.name, &protocols);
    match decide(&env, &key) {
        Verdict::Forward(Forward { verify: Some(verify), leg_index, endpoint, .. }) => {
            // The kernel counts under the leg of the name's own split.
            match by_name(&Target::verify(verify.route_stats, verify.split, verify.names)) {
                Ok(matched) => {
                    let leg = tables.splits.get(&matched.split).map(|split| split.legs[usize::from(leg_index)].stats);
                    format!("{matched:?} {leg:?} {}", endpoint.address)
                }
                Err(reason) => format!("{:?} {reason:?}", verify.route_stats),
            }
        }
        Verdict::Accept(accept) => {
            let namespace = accept.namespace.unwrap_or_default();
            let target = tables.scope_target(&key, namespace).expect("the target that was just found");
            match by_name(&target) {
                Ok(matched) => format!("{matched:?} {}", shown(dial(&env, &Dial::split(matched.split)))),
                Err(reason) => format!("{:?} {reason:?}", accept.route_stats),
            }
        }
        verdict @ (Verdict::Pass(_) | Verdict::Forward(_) | Verdict::Reject(_)) => shown(verdict),
    }
}

fn shown(verdict: Verdict<'_>) -> String {
    match verdict {
        Verdict::Pass(pass) => format!("{pass:?}"),
        Verdict::Forward(forward) => format!("{:?} {}", forward.leg, forward.endpoint.address),
        Verdict::Accept(accept) => format!("{accept:?}"),
        Verdict::Reject(reject) => format!("{reject:?}"),
    }
}

fn compiled(desired: &Desired) -> Arc<Tables> {
    compile(desired, &FoundClients::new(), "node", &Capabilities::default()).tables
}

/// The tables without those that the kernel does not have.
fn in_kernel(tables: &Tables) -> Tables {
    Tables { alpns: BTreeMap::new(), ..tables.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn at_every_prefix_a_look_up_gives_the_old_answer_or_the_new_one(
        old in states(),
        new in states(),
        ticket: u64,
    ) {
        let (old, new) = (compiled(&old), compiled(&new));
        let mut tables = (*old).clone();
        // Sets of the agent's memory, named by what is in them.
        tables.alpns.extend(new.alpns.clone());
        let answers = connections().into_iter().map(|connection| {
            (connection, answer(&old, connection, ticket), answer(&new, connection, ticket))
        });
        let answers: Vec<_> = answers.collect();
        for op in diff(&old, &new) {
            tables.follow(&op);
            for (connection, before, after) in &answers {
                let now = answer(&tables, *connection, ticket);
                prop_assert!(
                    now == *before || now == *after,
                    "{connection:?} after {op:?}: {now}, not {before} nor {after}",
                );
            }
        }
        let unretired = diff(&tables, &new);
        prop_assert!(unretired.is_empty(), "{unretired:?}");
    }

    #[test]
    fn retiring_leaves_exactly_what_is_wanted(old in states(), new in states()) {
        let (old, new) = (compiled(&old), compiled(&new));
        let mut maps = Maps::holding(&old);
        maps.apply(&new);
        prop_assert!(maps.tick().is_empty(), "something retired without a grace period");
        maps.tick();
        prop_assert_eq!(in_kernel(&maps.tables), in_kernel(&new));
        prop_assert!(maps.tick().is_empty());
    }

    #[test]
    fn what_is_wanted_again_does_not_retire(old in states(), new in states()) {
        let (old, new) = (compiled(&old), compiled(&new));
        let mut maps = Maps::holding(&old);
        maps.apply(&new);
        maps.tick();
        maps.apply(&old);
        maps.tick();
        let missing = diff(&maps.tables, &old);
        prop_assert!(missing.is_empty(), "{missing:?}");
        maps.tick();
        maps.tick();
        prop_assert_eq!(in_kernel(&maps.tables), in_kernel(&old));
    }

    #[test]
    fn an_apply_that_stopped_half_way_is_finished_by_the_next(old in states(), new in states(), at in 0..64_usize) {
        let (old, new) = (compiled(&old), compiled(&new));
        let mut maps = Maps::holding(&old);
        let mut ops = maps.applied.plan(&new);
        ops.truncate(at);
        for op in &ops {
            maps.tables.follow(op);
        }
        maps.applied.partly(&ops);
        maps.apply(&new);
        for _ in 0..3 {
            maps.tick();
        }
        prop_assert_eq!(in_kernel(&maps.tables), in_kernel(&new));
    }
}

/// Maps as the loop uses them: a model, and what really is there.
struct Maps {
    applied: Applied,
    retiring: Retiring,
    tables: Tables,
}

impl Maps {
    fn holding(tables: &Arc<Tables>) -> Self {
        Self { applied: Applied::new((**tables).clone()), retiring: Retiring::default(), tables: (**tables).clone() }
    }

    fn apply(&mut self, wanted: &Arc<Tables>) {
        self.retiring.keep(self.applied.current(), wanted);
        for op in self.applied.plan(wanted) {
            self.tables.follow(&op);
        }
        self.applied.done(Arc::clone(wanted));
    }

    /// Returns the removals of entries; counters are not part of the tables.
    fn tick(&mut self) -> Vec<Op> {
        let mut ops = self.retiring.tick(self.applied.stale(), self.applied.current());
        for op in &ops {
            self.tables.follow(op);
            self.applied.retired(op);
        }
        ops.retain(|op| !matches!(op, Op::Retire(Retired::Stats(_))));
        ops
    }
}

#[test]
fn equal_tables_need_no_operation() {
    let tables = Tables::default();
    assert!(diff(&tables, &tables).is_empty());
}

/// Two TLSRoutes of which one is only reached by its ALPN.
fn tls_state() -> Desired {
    let mut desired = Desired::default();
    let leg = ir::Leg { label: "0".to_owned(), weight: 1, target: Ok(backend_key(0)) };
    for (i, alpn) in [vec![], vec!["h2".to_owned()]].into_iter().enumerate() {
        let tls = ir::TlsMatch { hostnames: vec!["a.example".to_owned()], alpn, idle_timeout: None };
        let route = ir::Route { policy: Policy::Random, legs: vec![leg.clone()], tls: Some(tls) };
        desired.routes.insert(tls_key(i as u8), route);
    }
    desired.frontends.insert(
        (frontend_address(0), 80),
        ir::Frontend {
            service: ObjectKey::new("shop", "web"),
            everyone: Some(ir::Scope::Tls(vec![tls_key(0), tls_key(1)])),
            namespaces: BTreeMap::new(),
        },
    );
    desired
}

#[test]
fn counters_that_only_a_server_name_leads_to_stay_as_long_as_the_name() {
    let tables = compiled(&tls_state());
    let plain = tables.names.values().map(|value| value.route_stats);
    let asking = tables.alpns.values().flatten().map(|(_, candidate)| candidate.matched.route_stats);
    let legs = tables.splits.values().map(|split| split.legs[0].stats);
    let counted: BTreeSet<_> = plain.chain(asking).chain(legs).map(Retired::Stats).collect();
    assert_eq!(counted.len(), 4);
    let mut retiring = Retiring::new(counted.clone());
    for _ in 0..3 {
        assert_eq!(retiring.tick(&Tables::default(), &tables), []);
    }
    retiring.keep(&tables, &Tables::default());
    assert_eq!(retiring.tick(&tables, &Tables::default()), []);
    let due = retiring.tick(&tables, &Tables::default());
    assert!(counted.into_iter().all(|stats| due.contains(&Op::Retire(stats))), "{due:?}");
}

#[test]
fn names_and_splits_are_there_before_a_frontend_points_to_them() {
    let ops = diff(&Tables::default(), &compiled(&tls_state()));
    let place = |of: fn(&Op) -> bool| ops.iter().rposition(of).expect("such an operation");
    let split = place(|op| matches!(op, Op::PutSplit(_, _)));
    let name = place(|op| matches!(op, Op::PutName(_, _)));
    let frontend = ops.iter().position(|op| matches!(op, Op::PutFrontend(_, _))).expect("a frontend");
    assert!(split < name && name < frontend);
}
