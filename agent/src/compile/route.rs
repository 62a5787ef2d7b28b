//! A route in one address family: its legs and its split.

use super::{Compiler, id, tables::StatsName};
use crate::ir::{Route, RouteKey};
use weir_common::{
    abi::{
        ids::{SequenceId, SplitId, StatsId},
        tables::{Leg, Policy, Target},
    },
    addr::Family,
    reason::Reason,
    split::build::{BuildError, build},
};

impl Compiler<'_> {
    /// Writes a TCPRoute's tables.
    pub(super) fn route(&mut self, key: &RouteKey, route: &Route, family: Family) -> Target {
        let route_stats = self.route_stats(key);
        let legs = self.legs(key, route, family);
        let sequence = id::sequence(key, family, route.policy, &legs);
        match self.split(&legs, route.policy, sequence) {
            Ok(split) => Target::split(route_stats, split),
            // `translate` admits neither too many legs nor too large weights; what is left is a rule
            // that may not choose anything.
            Err(BuildError::NoWeight | BuildError::LegCount | BuildError::Weight) => {
                Target::reject(route_stats, Reason::NoWeight)
            }
        }
    }

    /// Names the counters of the route itself.
    pub(super) fn route_stats(&mut self, key: &RouteKey) -> StatsId {
        let stats = id::route_stats(key);
        self.out.names.stats.insert(stats, StatsName { route: key.clone(), leg: None });
        stats
    }

    /// Writes the backends, and returns the legs.
    pub(super) fn legs(&mut self, key: &RouteKey, route: &Route, family: Family) -> Vec<Leg> {
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
        legs
    }

    /// Writes a split that takes its tickets from `sequence`.
    ///
    /// # Errors
    ///
    /// If the legs make no split.
    pub(super) fn split(&mut self, legs: &[Leg], policy: Policy, sequence: SequenceId) -> Result<SplitId, BuildError> {
        let split = build(legs, policy, sequence, id::phase(self.node, sequence))?;
        let split_id = id::split(sequence, legs);
        self.out.tables.splits.insert(split_id, split);
        Ok(split_id)
    }
}
