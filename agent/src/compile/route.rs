//! A route in one address family: its legs and its split.

use super::{Compiler, id, tables::StatsName};
use crate::ir::{Route, RouteKey};
use weir_common::{
    abi::tables::{Leg, Target},
    addr::Family,
    reason::Reason,
    split::build::{BuildError, build},
};

impl Compiler<'_> {
    pub(super) fn route(&mut self, key: &RouteKey, route: &Route, family: Family) -> Target {
        let route_stats = id::route_stats(key);
        self.out.names.stats.insert(route_stats, StatsName { route: key.clone(), leg: None });
        let mut legs = Vec::with_capacity(route.legs.len());
        for leg in &route.legs {
            let stats = id::leg_stats(key, &leg.label);
            self.out.names.stats.insert(stats, StatsName { route: key.clone(), leg: Some(leg.label.clone()) });
            let target = leg.target.as_ref().map_err(|reason| *reason);
            legs.push(match target.and_then(|backend| self.backend(backend, family)) {
                Ok(backend) => Leg::backend(stats, leg.weight, backend),
                Err(reason) => Leg::reject(stats, leg.weight, reason),
            });
        }
        let sequence = id::sequence(key, family, route.policy, &legs);
        match build(&legs, route.policy, sequence, id::phase(self.node, sequence)) {
            Ok(split) => {
                let split_id = id::split(sequence, &legs);
                self.out.tables.splits.insert(split_id, split);
                Target::split(route_stats, split_id)
            }
            // `translate` admits neither too many legs nor too large weights; what is left is a rule
            // that may not choose anything.
            Err(BuildError::NoWeight | BuildError::LegCount | BuildError::Weight) => {
                Target::reject(route_stats, Reason::NoWeight)
            }
        }
    }
}
