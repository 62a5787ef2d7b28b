//! Tests of the plan: every prefix of the operations is safe, and retiring waits its time.

use super::*;
use crate::compile::{FoundClients, compile, host_env::HostEnv};
use crate::{
    ir::{self, BackendKey, BackendKind, Desired, RouteKey, RouteKind},
    resources::ObjectKey,
};
use proptest::prelude::*;
use std::sync::Arc;
use weir_common::{
    abi::tables::{EndpointReadiness, Policy},
    addr::Address,
    decide::{Verdict, decide},
    reason::Reason,
};

const NAMESPACES: [&str; 2] = ["one", "two"];

fn frontend_address(i: u8) -> Address {
    Address::from_v4_octets([10, 0, 0, i])
}

fn backend_key(i: u8) -> BackendKey {
    BackendKey { kind: BackendKind::Service, object: ObjectKey::new("shop", format!("backend-{i}")), port: 80 }
}

fn route_key(i: u8) -> RouteKey {
    RouteKey { kind: RouteKind::Tcp, object: ObjectKey::new("shop", format!("route-{i}")) }
}

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![Just(Policy::PowerOfTwoChoices), Just(Policy::RoundRobin), Just(Policy::ClientHash)]
}

fn legs() -> impl Strategy<Value = Vec<ir::Leg>> {
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

fn states() -> impl Strategy<Value = Desired> {
    let routes = prop::collection::vec((policies(), legs()), 3);
    let frontends = prop::collection::vec(
        prop::option::of((prop::option::of(0..3_u8), prop::option::of(0..3_u8), prop::option::of(0..3_u8))),
        2,
    );
    let backends = prop::collection::vec(prop::collection::btree_set(1..5_u8, 0..4), 3);
    (routes, frontends, backends).prop_map(|(routes, frontends, backends)| {
        let mut desired = Desired::default();
        for (i, (policy, legs)) in (0..).zip(routes) {
            desired.routes.insert(route_key(i), ir::Route { policy, legs, tls: None });
        }
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
                    everyone: everyone.map(|i| ir::Scope::Tcp(route_key(i))),
                    namespaces: scopes
                        .filter_map(|(name, route)| Some((name.to_owned(), ir::Scope::Tcp(route_key(route?)))))
                        .collect(),
                },
            );
        }
        desired
    })
}

/// What a client of a namespace gets for its n-th connection to a frontend.
fn answer(tables: &Tables, frontend: u8, namespace: Option<&str>, ticket: u64) -> String {
    let env = HostEnv::new(tables).in_namespace(namespace).at_ticket(ticket).with_random(ticket);
    match decide(&env, &FrontendKey::tcp(frontend_address(frontend), 80)) {
        Verdict::Pass(pass) => format!("{pass:?}"),
        Verdict::Forward(forward) => format!("{:?} {}", forward.leg, forward.endpoint.address),
        Verdict::Accept(accept) => format!("{accept:?}"),
        Verdict::Reject(reject) => format!("{reject:?}"),
    }
}

fn compiled(desired: &Desired) -> Arc<Tables> {
    compile(desired, &FoundClients::new(), "node").tables
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
        for op in diff(&old, &new) {
            tables.follow(&op);
            for frontend in 0..2 {
                for namespace in [None, Some("one"), Some("two")] {
                    let now = answer(&tables, frontend, namespace, ticket);
                    let before = answer(&old, frontend, namespace, ticket);
                    let after = answer(&new, frontend, namespace, ticket);
                    prop_assert!(
                        now == before || now == after,
                        "frontend {frontend} for {namespace:?} after {op:?}: {now}, not {before} nor {after}",
                    );
                }
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
        prop_assert_eq!(&maps.tables, &*new);
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
        prop_assert_eq!(&maps.tables, &*old);
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
        prop_assert_eq!(&maps.tables, &*new);
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
            if let Op::Retire(retired) = op {
                self.applied.retired(*retired);
            }
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
