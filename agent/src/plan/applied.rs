//! What the kernel maps hold: the state that was applied last, and entries on their way out.

use super::{Op, diff};
use crate::compile::tables::Tables;
use std::{collections::BTreeMap, sync::Arc};

/// A model of the kernel maps that shares the applied state with whoever wanted it.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    current: Arc<Tables>,
    /// Splits, server names, backends, endpoints and rings of earlier states, not in `current`.
    stale: Tables,
}

impl Applied {
    /// Starts with what was found in the maps.
    #[must_use]
    pub fn new(found: Tables) -> Self {
        Self { current: Arc::new(found), stale: Tables::default() }
    }

    /// Returns the state that was applied last.
    #[must_use]
    pub fn current(&self) -> &Tables {
        &self.current
    }

    /// Returns the entries of earlier states.
    #[must_use]
    pub fn stale(&self) -> &Tables {
        &self.stale
    }

    /// Returns the operations that lead to `wanted`.
    #[must_use]
    pub fn plan(&self, wanted: &Tables) -> Vec<Op> {
        diff(&self.current, wanted)
    }

    /// Takes note that all operations to `wanted` were carried out.
    pub fn done(&mut self, wanted: Arc<Tables>) {
        let last = std::mem::replace(&mut self.current, wanted);
        leave(&mut self.stale.splits, &last.splits, &self.current.splits);
        leave(&mut self.stale.names, &last.names, &self.current.names);
        leave(&mut self.stale.backends, &last.backends, &self.current.backends);
        leave(&mut self.stale.endpoints, &last.endpoints, &self.current.endpoints);
        leave(&mut self.stale.rings, &last.rings, &self.current.rings);
    }

    /// Takes note that only these first operations were carried out.
    pub fn partly(&mut self, done: &[Op]) {
        let mut current = (*self.current).clone();
        for op in done {
            current.follow(op);
        }
        self.current = Arc::new(current);
    }

    /// Takes note of a removal that [`super::Retiring::tick`] asked for.
    pub fn retired(&mut self, removal: &Op) {
        self.stale.follow(removal);
    }
}

/// Moves what is gone from the current state to the stale entries, and what is back away from them.
fn leave<K: Ord + Copy, V: Copy>(stale: &mut BTreeMap<K, V>, last: &BTreeMap<K, V>, current: &BTreeMap<K, V>) {
    stale.retain(|key, _| !current.contains_key(key));
    stale.extend(super::gone(last, current).filter_map(|key| Some((key, *last.get(&key)?))));
}
