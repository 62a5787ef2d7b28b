//! Several TLSRoutes that match the same server name: the first in order of precedence has it.
//!
//! Routes that ask for different ALPN protocols share a name: a client is led by what it offers. So
//! what a route claims is each of its names with each protocol that it asks for, or with none.

use super::route::Judged;
use crate::ir::{RouteKey, TlsMatch};
use std::collections::{BTreeMap, BTreeSet};

/// A message names so many host names; of more it says how many they are.
const TOLD: usize = 3;

/// A host name, and the ALPN protocol that is asked for with it.
type Claim<'a> = (&'a str, Option<&'a str>);

/// What a route has lost to others that come before it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lost<'a> {
    /// The claims and who has them, in the order of the host names.
    claims: Vec<(Claim<'a>, &'a RouteKey)>,
    /// Whether nothing is left to the route.
    pub(super) all: bool,
}

/// Finds what routes have lost, by their places; `order` is that of precedence. Routes that keep
/// everything are left out.
pub(super) fn lost<'a>(routes: &'a [Judged<'_>], order: &[usize]) -> BTreeMap<usize, Lost<'a>> {
    let mut owners: BTreeMap<Claim<'a>, &'a RouteKey> = BTreeMap::new();
    let mut all_lost = BTreeMap::new();
    for place in order {
        let key = &routes[*place].key;
        let Some(tls) = routes[*place].route.as_ref().ok().and_then(|route| route.tls.as_ref()) else {
            continue;
        };
        let mut lost = Lost { claims: Vec::new(), all: true };
        for claim in claims(tls) {
            let owner = *owners.entry(claim).or_insert(key);
            if owner == key {
                lost.all = false;
            } else {
                lost.claims.push((claim, owner));
            }
        }
        if !lost.claims.is_empty() {
            all_lost.insert(*place, lost);
        }
    }
    all_lost
}

fn claims(tls: &TlsMatch) -> impl Iterator<Item = Claim<'_>> {
    tls.hostnames.iter().flat_map(|name| {
        let without = tls.alpn.is_empty().then_some(None);
        without
            .into_iter()
            .chain(tls.alpn.iter().map(|protocol| Some(protocol.as_str())))
            .map(|alpn| (name.as_str(), alpn))
    })
}

impl Lost<'_> {
    /// Names the routes that come first.
    pub(super) fn winners(&self) -> String {
        let winners: BTreeSet<&RouteKey> = self.claims.iter().map(|(_, owner)| *owner).collect();
        let names = list(winners.into_iter().map(ToString::to_string));
        format!("to {names}")
    }

    /// Names what is lost, and to whom.
    pub(super) fn names_and_winners(&self) -> String {
        list(self.claims.iter().map(|((name, alpn), owner)| match alpn {
            None => format!("{name} to {owner}"),
            Some(protocol) => format!("{name} with ALPN {protocol} to {owner}"),
        }))
    }
}

fn list(items: impl ExactSizeIterator<Item = String>) -> String {
    let more = items.len().saturating_sub(TOLD);
    let told: Vec<String> = items.take(TOLD).collect();
    let told = told.join(", ");
    if more == 0 { told } else { format!("{told} and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ir::{Route, RouteKind},
        resources::ObjectKey,
    };
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use weir_common::abi::tables::Policy;

    fn judged<'a>(metadata: &'a ObjectMeta, name: &str, hostnames: &[&str], alpn: &[&str]) -> Judged<'a> {
        let owned = |texts: &[&str]| texts.iter().copied().map(str::to_owned).collect();
        let tls = TlsMatch { hostnames: owned(hostnames), alpn: owned(alpn), idle_timeout: None };
        Judged {
            key: RouteKey { kind: RouteKind::Tls, object: ObjectKey::new("shop", name) },
            metadata,
            route: Ok(Route { policy: Policy::default(), legs: Vec::new(), tls: Some(tls) }),
            unresolved: None,
            parents: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Says who loses what: `(all, what)`, `None` for nothing.
    fn outcome(routes: &[(&[&str], &[&str])]) -> Vec<Option<(bool, String)>> {
        let metadata = ObjectMeta::default();
        let routes: Vec<Judged<'_>> = routes
            .iter()
            .enumerate()
            .map(|(i, (hostnames, alpn))| judged(&metadata, &format!("r{i}"), hostnames, alpn))
            .collect();
        let order: Vec<usize> = (0..routes.len()).collect();
        let lost = lost(&routes, &order);
        order.iter().map(|i| lost.get(i).map(|lost| (lost.all, lost.names_and_winners()))).collect()
    }

    #[test]
    fn of_two_routes_with_a_name_the_first_has_it() {
        assert_eq!(
            outcome(&[(&["a.x", "b.x"], &[]), (&["b.x", "c.x"], &[]), (&["c.x", "a.x"], &[])]),
            [
                None,
                Some((false, "b.x to TLSRoute shop/r0".to_owned())),
                Some((true, "c.x to TLSRoute shop/r1, a.x to TLSRoute shop/r0".to_owned())),
            ]
        );
    }

    #[test]
    fn a_wildcard_and_a_name_under_it_do_not_compete() {
        assert_eq!(outcome(&[(&["*.x"], &[]), (&["a.x"], &[]), (&["*.a.x"], &[])]), [None, None, None]);
    }

    #[test]
    fn routes_that_ask_for_different_protocols_share_a_name() {
        assert_eq!(outcome(&[(&["a.x"], &["h2"]), (&["a.x"], &["http/1.1"]), (&["a.x"], &[])]), [None, None, None]);
        assert_eq!(
            outcome(&[(&["a.x"], &["h2"]), (&["a.x"], &["h2", "http/1.1"]), (&["a.x"], &["http/1.1", "h2"])]),
            [
                None,
                Some((false, "a.x with ALPN h2 to TLSRoute shop/r0".to_owned())),
                Some((
                    true,
                    "a.x with ALPN http/1.1 to TLSRoute shop/r1, a.x with ALPN h2 to TLSRoute shop/r0".to_owned()
                )),
            ]
        );
    }

    #[test]
    fn a_route_at_two_parents_does_not_lose_to_itself() {
        let metadata = ObjectMeta::default();
        let routes = [judged(&metadata, "r", &["a.x"], &["h2"])];
        assert!(lost(&routes, &[0, 0]).is_empty());
    }

    #[test]
    fn a_message_names_three_and_counts_the_rest() {
        let names: &[&str] = &["a", "b", "c", "d", "e"];
        let told = outcome(&[(names, &[]), (names, &[])])[1].clone().expect("a loss").1;
        assert!(told.ends_with("c to TLSRoute shop/r0 and 2 more"), "{told}");
    }
}
