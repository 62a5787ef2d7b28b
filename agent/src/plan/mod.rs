//! From the tables in force to the wanted ones: operations as data, in an order that is safe at
//! every step.
//!
//! Pure. Splits, backends and tables of server names are never changed, only made and, after a grace
//! period, removed. So a change is: make what is new, flip one pointer a frontend, and retire what no
//! pointer names any more. At every prefix of the operations a look-up gives the old answer or the
//! new one.

mod applied;
mod apply;
mod retire;

pub use applied::Applied;
pub use retire::Retiring;

use crate::compile::tables::Tables;
use std::collections::BTreeMap;
use weir_common::{
    abi::{
        ids::{BackendId, BackendStateId, EndpointId, NameTableId, NamespaceId, SequenceId, SplitId, StatsId},
        tables::{
            Backend, ClientKey, Endpoint, FrontendKey, FrontendValue, RingValue, ScopedKey, SlotKey, Split, Target,
        },
    },
    hello::{NameKey, NameValue},
};

/// One change of one map entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Makes the shared state of an endpoint, unless it is there.
    MakeEndpointState(EndpointId),
    /// Makes the shared state of a backend, unless it is there.
    MakeBackendState(BackendStateId),
    /// Makes a ticket counter, unless it is there.
    MakeTickets(SequenceId),
    /// Writes an endpoint of a new backend.
    PutEndpoint(SlotKey, Endpoint),
    /// Writes a ring bucket of a new backend.
    PutRing(SlotKey, RingValue),
    /// Writes a new backend.
    PutBackend(BackendId, Backend),
    /// Writes a new split.
    PutSplit(SplitId, Split),
    /// Writes a server name of a new table.
    PutName(NameKey, NameValue),
    /// Says which namespace a client belongs to.
    PutClient(ClientKey, NamespaceId),
    /// Points the clients of a namespace to a target.
    PutScoped(ScopedKey, Target),
    /// Points a frontend to its target.
    PutFrontend(FrontendKey, FrontendValue),
    /// Leaves an address and port alone again.
    DeleteFrontend(FrontendKey),
    /// Gives the clients of a namespace back to everyone's target.
    DeleteScoped(ScopedKey),
    /// Forgets a client.
    DeleteClient(ClientKey),
    /// Removes a server name of a table that no pointer names any more.
    DeleteName(NameKey),
    /// Removes what no pointer names any more; of a table of server names each name by
    /// [`Op::DeleteName`].
    Retire(Retired),
}

impl Op {
    /// Whether a look-up may give another answer after this operation.
    #[must_use]
    pub const fn is_flip(&self) -> bool {
        match self {
            Self::MakeEndpointState(_)
            | Self::MakeBackendState(_)
            | Self::MakeTickets(_)
            | Self::PutEndpoint(..)
            | Self::PutRing(..)
            | Self::PutBackend(..)
            | Self::PutSplit(..)
            | Self::PutName(..)
            | Self::DeleteName(..)
            | Self::Retire(_) => false,
            Self::PutClient(..)
            | Self::PutScoped(..)
            | Self::PutFrontend(..)
            | Self::DeleteFrontend(_)
            | Self::DeleteScoped(_)
            | Self::DeleteClient(_) => true,
        }
    }
}

/// An entry that no pointer names any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Retired {
    /// A split.
    Split(SplitId),
    /// A ticket counter.
    Tickets(SequenceId),
    /// A backend.
    Backend(BackendId),
    /// The shared state of a backend.
    BackendState(BackendStateId),
    /// An endpoint of a backend.
    Endpoint(SlotKey),
    /// A ring bucket of a backend.
    Ring(SlotKey),
    /// A table of server names. Not each name: their keys are long, and there are sets of these.
    NameTable(NameTableId),
    /// The shared state of an endpoint.
    EndpointState(EndpointId),
    /// A row of counters with its rejects and histograms.
    Stats(StatsId),
}

/// Returns the operations that lead from `applied` to `wanted`, without the retiring.
///
/// `applied` is what the maps hold, entries on their way out included.
#[must_use]
pub fn diff(applied: &Tables, wanted: &Tables) -> Vec<Op> {
    let mut ops = Vec::new();
    // Make: nothing points here yet. States come before what names them.
    for (slot, endpoint) in fresh(&applied.endpoints, &wanted.endpoints) {
        ops.push(Op::MakeEndpointState(endpoint.id));
        ops.push(Op::PutEndpoint(slot, endpoint));
    }
    ops.extend(fresh(&applied.rings, &wanted.rings).map(|(slot, value)| Op::PutRing(slot, value)));
    for (id, backend) in fresh(&applied.backends, &wanted.backends) {
        ops.push(Op::MakeBackendState(backend.state));
        ops.push(Op::PutBackend(id, backend));
    }
    for (id, split) in fresh(&applied.splits, &wanted.splits) {
        ops.push(Op::MakeTickets(split.sequence));
        ops.push(Op::PutSplit(id, split));
    }
    ops.extend(fresh(&applied.names, &wanted.names).map(|(key, value)| Op::PutName(key, value)));
    // Flip. A client's namespace only matters once a scope names it, and a scope only once its
    // frontend's flag is up; so namespaces first, then scopes, then frontends. On the way down the
    // other way round.
    ops.extend(fresh(&applied.clients, &wanted.clients).map(|(key, id)| Op::PutClient(key, id)));
    ops.extend(fresh(&applied.scoped, &wanted.scoped).map(|(key, target)| Op::PutScoped(key, target)));
    ops.extend(fresh(&applied.frontends, &wanted.frontends).map(|(key, value)| Op::PutFrontend(key, value)));
    ops.extend(gone(&applied.frontends, &wanted.frontends).map(Op::DeleteFrontend));
    ops.extend(gone(&applied.scoped, &wanted.scoped).map(Op::DeleteScoped));
    ops.extend(gone(&applied.clients, &wanted.clients).map(Op::DeleteClient));
    ops
}

/// Entries that are new or different, in order.
fn fresh<'a, K: Ord + Copy, V: PartialEq + Copy>(
    applied: &'a BTreeMap<K, V>,
    wanted: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (K, V)> + 'a {
    let mut old = applied.iter().peekable();
    // Both are walked once, side by side: a look-up for each entry of large tables would cost more
    // than all the rest of a small change.
    wanted.iter().filter_map(move |(key, value)| {
        while old.next_if(|(old, _)| *old < key).is_some() {}
        let same = old.peek().is_some_and(|(old, there)| *old == key && *there == value);
        (!same).then_some((*key, *value))
    })
}

/// Keys that are not wanted any more, in order.
fn gone<'a, K: Ord + Copy, V>(applied: &'a BTreeMap<K, V>, wanted: &'a BTreeMap<K, V>) -> impl Iterator<Item = K> + 'a {
    let mut new = wanted.keys().peekable();
    applied.keys().filter_map(move |key| {
        while new.next_if(|new| *new < key).is_some() {}
        (new.peek() != Some(&key)).then_some(*key)
    })
}

#[cfg(test)]
mod tests;
