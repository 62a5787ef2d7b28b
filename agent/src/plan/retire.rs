//! Retiring: entries leave the maps only after they were unwanted for a whole grace period, so that
//! a program that read a pointer just before the flip still finds what it names.

use super::{Op, Retired};
use crate::compile::{name::table, tables::Tables};
use std::collections::{BTreeSet, HashSet};

/// Entries that wait for their removal.
#[derive(Clone, Debug, Default)]
pub struct Retiring {
    /// Unwanted since the last tick or longer.
    waiting: BTreeSet<Retired>,
    /// What may be in the maps beside the tables: rows of counters, and shared states that an earlier
    /// agent left.
    beside: BTreeSet<Retired>,
    /// Whether anything may have become unwanted since the last tick that found nothing.
    changed: bool,
}

impl Retiring {
    /// Starts; `beside` are the entries found in the maps that are not part of the tables.
    #[must_use]
    pub fn new(beside: BTreeSet<Retired>) -> Self {
        Self { waiting: BTreeSet::new(), beside, changed: true }
    }

    /// Takes note of a new wanted state, before it is applied: what is wanted again is saved from
    /// removal, and the counters of `last`, the state before it, are looked at in the next tick.
    pub fn keep(&mut self, last: &Tables, wanted: &Tables) {
        self.changed = true;
        self.beside.extend(counted(last));
        self.save(wanted);
    }

    /// Saves from removal what is wanted again by a part of a new state, which goes ahead of the whole.
    pub fn save(&mut self, part: &Tables) {
        if !self.waiting.is_empty() {
            let named = named(part);
            self.waiting.retain(|retired| !named.contains(retired));
        }
    }

    /// Returns what was unwanted for the whole time since the last call, and begins the next grace
    /// period for the rest. `stale` are the entries of the maps that are not in `wanted`, the state in
    /// force.
    pub fn tick(&mut self, stale: &Tables, wanted: &Tables) -> Vec<Op> {
        if !self.changed && self.waiting.is_empty() {
            return Vec::new();
        }
        let named = named(wanted);
        let due = std::mem::take(&mut self.waiting);
        self.beside.retain(|retired| !due.contains(retired) && !named.contains(retired));
        let held = held(stale).chain(self.beside.iter().copied());
        self.waiting = held.filter(|retired| !named.contains(retired) && !due.contains(retired)).collect();
        self.changed = !self.waiting.is_empty();
        let names = stale.names.keys().filter(|key| due.contains(&Retired::NameTable(table(key))));
        let names: Vec<Op> = names.map(|key| Op::DeleteName(*key)).collect();
        let others = due.into_iter().filter(|retired| !matches!(retired, Retired::NameTable(_)));
        names.into_iter().chain(others.map(Op::Retire)).collect()
    }
}

/// Everything that tables hold and that can retire.
fn held(tables: &Tables) -> impl Iterator<Item = Retired> + '_ {
    let splits = tables.splits.iter().flat_map(|(id, split)| [Retired::Split(*id), Retired::Tickets(split.sequence)]);
    let backends =
        tables.backends.iter().flat_map(|(id, value)| [Retired::Backend(*id), Retired::BackendState(value.state)]);
    let endpoints =
        tables.endpoints.iter().flat_map(|(key, value)| [Retired::Endpoint(*key), Retired::EndpointState(value.id)]);
    let rings = tables.rings.keys().map(|key| Retired::Ring(*key));
    let names = tables.names.keys().map(|key| Retired::NameTable(table(key)));
    splits.chain(backends).chain(endpoints).chain(rings).chain(names)
}

/// The rows of counters that tables name.
fn counted(tables: &Tables) -> impl Iterator<Item = Retired> + '_ {
    let targets = tables.frontends.values().map(|frontend| &frontend.everyone).chain(tables.scoped.values());
    let routes = targets.map(|target| Retired::Stats(target.route_stats));
    let named = tables.names.values().filter(|value| value.plain != 0).map(|value| Retired::Stats(value.route_stats));
    let asking = tables.alpns.values().flatten().map(|(_, candidate)| Retired::Stats(candidate.matched.route_stats));
    let legs = tables
        .splits
        .values()
        .flat_map(|split| split.legs.iter().take(split.n_legs as usize).map(|leg| Retired::Stats(leg.stats)));
    routes.chain(named).chain(asking).chain(legs)
}

/// Everything that must stay while `tables` are wanted, counters included.
fn named(tables: &Tables) -> HashSet<Retired> {
    held(tables).chain(counted(tables)).collect()
}
