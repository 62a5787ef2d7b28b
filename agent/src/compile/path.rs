//! Which path a frontend's TLS connections take: verified by the kernel, or accepted by the agent.
//!
//! The kernel chooses an endpoint before the ClientHello is there, so it can only verify: that must
//! come to the same as reading first, whatever name the client will send. Everything else is the
//! acceptor's.

use crate::ir::RouteKey;
use std::fmt;
use weir_common::abi::tables::{Leg, Policy};

/// What the running kernel can do. By default everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether it can verify server names, or why not: a phrase after "this kernel".
    pub verify: Result<(), String>,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self { verify: Ok(()) }
    }
}

/// How TLS connections get to their backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    /// Directly: the kernel checks the server name as the ClientHello passes.
    Verify,
    /// Through the agent, which reads the ClientHello first.
    Accept(Why),
}

impl Path {
    /// Returns its name in JSON and on the terminal.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::Accept(_) => "accept",
        }
    }

    /// Returns why it is not the direct one.
    #[must_use]
    pub const fn why(&self) -> Option<&Why> {
        match self {
            Self::Verify => None,
            Self::Accept(why) => Some(why),
        }
    }
}

/// Why the kernel alone does not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// This route matches on ALPN.
    Alpn(RouteKey),
    /// These two routes choose legs or endpoints in different ways.
    Policies(RouteKey, RouteKey),
    /// These two routes lead to different backends, or refuse for different reasons.
    Backends(RouteKey, RouteKey),
    /// These two routes lead to the same backends with different weights.
    Weights(RouteKey, RouteKey),
    /// The kernel cannot verify: a phrase after "this kernel".
    Kernel(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alpn(route) => write!(f, "{route} matches on ALPN"),
            Self::Policies(one, other) => {
                write!(f, "names lead to different load balancing: {one} and {other}")
            }
            Self::Backends(one, other) => write!(f, "names lead to different backends: {one} and {other}"),
            Self::Weights(one, other) => write!(f, "names lead to different weights: {one} and {other}"),
            Self::Kernel(what) => write!(f, "this kernel {what}"),
        }
    }
}

/// What the choice depends on: one route of a scope, in one address family.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// The route.
    pub route: &'a RouteKey,
    /// How its legs and endpoints are chosen.
    pub policy: Policy,
    /// Its legs; their counters do not matter.
    pub legs: &'a [Leg],
    /// Whether it matches on ALPN.
    pub alpn: bool,
}

/// Chooses the path of a scope, by all its routes.
#[must_use]
pub fn choose<'a>(routes: impl Iterator<Item = Shape<'a>> + Clone, capabilities: &Capabilities) -> Path {
    if let Some(asks) = routes.clone().find(|route| route.alpn) {
        return Path::Accept(Why::Alpn(asks.route.clone()));
    }
    let mut others = routes;
    if let Some(first) = others.next()
        && let Some(why) = others.find_map(|other| difference(&first, &other))
    {
        return Path::Accept(why);
    }
    match &capabilities.verify {
        Ok(()) => Path::Verify,
        Err(what) => Path::Accept(Why::Kernel(what.clone())),
    }
}

fn difference(one: &Shape<'_>, other: &Shape<'_>) -> Option<Why> {
    let why = |why: fn(RouteKey, RouteKey) -> Why| Some(why(one.route.clone(), other.route.clone()));
    if one.policy != other.policy {
        why(Why::Policies)
    } else if !one.legs.iter().map(Leg::kind).eq(other.legs.iter().map(Leg::kind)) {
        why(Why::Backends)
    } else if !one.legs.iter().map(Leg::weight).eq(other.legs.iter().map(Leg::weight)) {
        why(Why::Weights)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ir::RouteKind, resources::ObjectKey};
    use weir_common::{
        abi::ids::{BackendId, StatsId},
        reason::Reason,
    };

    fn key(name: &str) -> RouteKey {
        RouteKey { kind: RouteKind::Tls, object: ObjectKey::new("shop", name) }
    }

    fn legs(stats: u64) -> [Leg; 2] {
        [Leg::backend(StatsId(stats), 9, BackendId(1)), Leg::reject(StatsId(stats + 1), 1, Reason::BackendNotFound)]
    }

    /// Chooses for two routes, `one` with the usual legs and `two` with these.
    fn path(legs_of_two: &[Leg], change: impl FnOnce(&mut Shape<'_>)) -> Path {
        let (one, two, legs_of_one) = (key("one"), key("two"), legs(10));
        let one = Shape { route: &one, policy: Policy::Random, legs: &legs_of_one, alpn: false };
        let mut two = Shape { route: &two, policy: Policy::Random, legs: legs_of_two, alpn: false };
        change(&mut two);
        choose([one, two].into_iter(), &Capabilities::default())
    }

    #[test]
    fn routes_that_differ_in_their_counters_only_are_verified() {
        assert_eq!(path(&legs(20), |_| {}), Path::Verify);
    }

    #[test]
    fn a_route_that_matches_on_alpn_is_accepted() {
        let path = path(&legs(20), |two| two.alpn = true);
        assert_eq!(path, Path::Accept(Why::Alpn(key("two"))));
        assert_eq!(path.why().expect("a reason").to_string(), "TLSRoute shop/two matches on ALPN");
    }

    #[test]
    fn routes_to_different_backends_are_accepted() {
        let [to_backend, rejects] = legs(20);
        let mut others = vec![vec![to_backend], vec![rejects, to_backend], legs(20).to_vec(), legs(20).to_vec()];
        others[2][0] = Leg::backend(StatsId(20), 9, BackendId(2));
        others[3][1] = Leg::reject(StatsId(21), 1, Reason::PortNotFound);
        for legs in others {
            assert_eq!(path(&legs, |_| {}), Path::Accept(Why::Backends(key("one"), key("two"))), "{legs:?}");
        }
    }

    #[test]
    fn routes_with_different_weights_are_accepted() {
        let mut legs = legs(20);
        legs[0] = Leg::backend(StatsId(20), 8, BackendId(1));
        assert_eq!(path(&legs, |_| {}), Path::Accept(Why::Weights(key("one"), key("two"))));
    }

    #[test]
    fn routes_with_different_load_balancing_are_accepted() {
        let path = path(&legs(20), |two| two.policy = Policy::ClientHash);
        assert_eq!(path, Path::Accept(Why::Policies(key("one"), key("two"))));
    }

    #[test]
    fn a_kernel_that_cannot_verify_accepts() {
        let (key, legs) = (key("one"), legs(1));
        let shape = Shape { route: &key, policy: Policy::Random, legs: &legs, alpn: false };
        let capabilities = Capabilities { verify: Err("has no LPM trie".to_owned()) };
        let path = choose([shape].into_iter(), &capabilities);
        assert_eq!(path.why().expect("a reason").to_string(), "this kernel has no LPM trie");
        assert_eq!(choose([shape].into_iter(), &Capabilities::default()), Path::Verify);
    }
}
