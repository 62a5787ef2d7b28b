//! The TLSRoutes of one scope: their splits, and the table of their server names.

use super::{
    Compiler, id,
    name::name_key,
    path::{Path, Shape, choose},
    tables::Place,
};
use crate::ir::{Route, RouteKey};
use std::collections::BTreeMap;
use weir_common::{
    abi::{
        ids::{NameTableId, SequenceId, StatsId},
        tables::{Leg, Target},
    },
    hello::{Candidate, Matched, NameValue},
    reason::Reason,
    split::build::build,
};

/// A route with its legs in one address family.
struct Drawn<'a> {
    key: &'a RouteKey,
    route: &'a Route,
    stats: StatsId,
    legs: Vec<Leg>,
}

impl Drawn<'_> {
    fn alpn(&self) -> &[String] {
        self.route.tls.as_ref().map_or(&[], |tls| &tls.alpn)
    }

    fn hostnames(&self) -> &[String] {
        self.route.tls.as_ref().map_or(&[], |tls| &tls.hostnames)
    }

    fn shape(&self) -> Shape<'_> {
        Shape { route: self.key, policy: self.route.policy, legs: &self.legs, alpn: !self.alpn().is_empty() }
    }
}

/// The routes of one server name.
#[derive(Default)]
struct NameRoutes {
    plain: Option<Matched>,
    alpn: BTreeMap<Vec<u8>, Candidate>,
}

impl<'a> Compiler<'a> {
    /// Writes the tables of TLSRoutes, which are in order of precedence.
    pub(super) fn tls(&mut self, place: Place, routes: &[(&'a RouteKey, &'a Route)]) -> Target {
        let family = place.0.address.family();
        let drawn: Vec<Drawn<'a>> = routes.iter().map(|&(key, route)| self.draw(place, key, route)).collect();
        let Some(first) = drawn.first() else { return Target::pass() };
        let path = choose(drawn.iter().map(Drawn::shape), self.capabilities);
        let sequence = |of: &Drawn<'_>| id::sequence(of.key, family, of.route.policy, &of.legs);
        // Verified connections take the ticket before their name is known: all from one sequence.
        let common = (path == Path::Verify).then(|| sequence(first));
        let mut matched = Vec::with_capacity(drawn.len());
        for route in &drawn {
            let sequence = common.unwrap_or_else(|| sequence(route));
            // `draw` has left out what makes no split.
            let Ok(split) = self.split(&route.legs, route.route.policy, sequence) else { return Target::pass() };
            matched.push(Matched { split, route_stats: route.stats });
        }
        let names = self.names(&drawn, &matched);
        let target = match (&path, matched.first()) {
            (Path::Verify, Some(first)) => Target::verify(first.route_stats, first.split, names),
            (_, _) => Target::accept(first.stats, names),
        };
        self.out.names.paths.insert(place, path);
        target
    }

    fn draw(&mut self, place: Place, key: &'a RouteKey, route: &'a Route) -> Drawn<'a> {
        let stats = self.route_stats(key);
        if let Some(limit) = route.tls.as_ref().and_then(|tls| tls.idle_timeout) {
            self.out.names.idle_timeouts.insert(stats, limit);
        }
        let mut legs = self.legs(key, route, place.0.address.family());
        if build(&legs, route.policy, SequenceId(0), 0).is_err() {
            // A name must lead to a split. This one rejects where a TCPRoute's target would.
            legs = vec![Leg::reject(stats, 1, Reason::NoWeight)];
        }
        Drawn { key, route, stats, legs }
    }

    /// Writes the table of server names. For each name and protocol the first route wins.
    fn names(&mut self, routes: &[Drawn<'_>], matched: &[Matched]) -> NameTableId {
        let mut names: BTreeMap<&str, NameRoutes> = BTreeMap::new();
        for (rank, (route, &matched)) in (0..).zip(routes.iter().zip(matched)) {
            for name in route.hostnames() {
                let of_name = names.entry(name).or_default();
                if route.alpn().is_empty() {
                    of_name.plain.get_or_insert(matched);
                }
                for protocol in route.alpn() {
                    let candidate = Candidate { rank, matched };
                    of_name.alpn.entry(protocol.clone().into_bytes()).or_insert(candidate);
                }
            }
        }
        let mut values = BTreeMap::new();
        for (name, routes) in names {
            // `translate` admits only names that can be matched.
            let Ok(key) = name_key(NameTableId(0), name) else { continue };
            values.insert(name.to_owned(), NameValue { bits: key.bits, ..self.name_value(routes) });
        }
        let table = id::names(&values);
        let entries = values.into_iter().filter_map(|(name, value)| Some((name_key(table, &name).ok()?, value)));
        self.out.tables.names.extend(entries);
        table
    }

    fn name_value(&mut self, routes: NameRoutes) -> NameValue {
        let mut value = NameValue::default();
        if let Some(Matched { split, route_stats }) = routes.plain {
            value = NameValue { split, route_stats, plain: 1, ..value };
        }
        if !routes.alpn.is_empty() {
            value.alpn = id::alpns(&routes.alpn);
            self.out.tables.alpns.insert(value.alpn, routes.alpn);
        }
        value
    }
}

#[cfg(test)]
mod tests;
