//! Desired state to tables: names become ids, weights become cumulative tables.
//!
//! Pure. Ids are hashes of what they name, so equal input gives equal tables, also after a restart.

mod backend;
pub mod host_env;
mod id;
pub mod name;
mod outcome;
pub mod path;
mod ring;
mod route;
pub mod tables;
mod tls;

pub use id::namespace as namespace_id;
pub use outcome::{hello_outcome, name_outcome, tls_outcome};

use crate::ir::{self, Desired};
use path::Capabilities;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tables::{Names, Place, Tables};
use weir_common::abi::{
    maps::{MAX_BACKENDS, MAX_CLIENTS, MAX_ENDPOINTS, MAX_FRONTENDS, MAX_NAMES, MAX_SCOPED, MAX_SPLITS},
    tables::{ClientKey, Endpoint, FrontendKey, FrontendValue, Policy, ScopedKey, SlotKey, Target},
};

/// The processes behind [`ir::Client`]s as far as they exist now: kernel keys by namespace name.
pub type FoundClients = BTreeMap<ClientKey, String>;

/// The outcome of [`compile`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// What the kernel maps shall hold.
    pub tables: Arc<Tables>,
    /// What the ids in it mean.
    pub names: Arc<Names>,
}

/// The outcome while it is made.
#[derive(Default)]
struct Draft {
    tables: Tables,
    names: Names,
    /// Collected here and sorted once: by far the largest table, and its keys come in no order.
    endpoints: Vec<(SlotKey, Endpoint)>,
}

/// Compiles the wanted state of the node called `node`, for a kernel that can do so much.
#[must_use]
pub fn compile(desired: &Desired, clients: &FoundClients, node: &str, capabilities: &Capabilities) -> Compiled {
    let mut compiler = Compiler { desired, node, capabilities, ringed: ringed(desired), out: Draft::default() };
    for (&(address, port), frontend) in &desired.frontends {
        compiler.frontend(FrontendKey::tcp(address, port), frontend);
    }
    for (&key, namespace) in clients {
        let id = id::namespace(namespace);
        compiler.out.names.namespaces.insert(id, namespace.clone());
        compiler.out.tables.clients.insert(key, id);
    }
    compiler.out.tables.endpoints = compiler.out.endpoints.into_iter().collect();
    Compiled { tables: Arc::new(compiler.out.tables), names: Arc::new(compiler.out.names) }
}

/// Backends that some route reaches by client hash: they need a ring.
fn ringed(desired: &Desired) -> BTreeSet<&ir::BackendKey> {
    desired
        .routes
        .values()
        .filter(|route| route.policy == Policy::ClientHash)
        .flat_map(|route| route.legs.iter().filter_map(|leg| leg.target.as_ref().ok()))
        .collect()
}

struct Compiler<'a> {
    desired: &'a Desired,
    node: &'a str,
    capabilities: &'a Capabilities,
    ringed: BTreeSet<&'a ir::BackendKey>,
    out: Draft,
}

impl<'a> Compiler<'a> {
    fn frontend(&mut self, key: FrontendKey, frontend: &'a ir::Frontend) {
        let id = id::frontend(&key);
        let everyone = frontend.everyone.as_ref().map_or(Target::pass(), |scope| self.scope((key, None), scope));
        for (namespace, scope) in &frontend.namespaces {
            let namespace_id = id::namespace(namespace);
            let target = self.scope((key, Some(namespace_id)), scope);
            self.out.names.namespaces.insert(namespace_id, namespace.clone());
            self.out.tables.scoped.insert(ScopedKey { frontend: id, namespace: namespace_id }, target);
        }
        let value = FrontendValue::new(id, everyone, !frontend.namespaces.is_empty());
        self.out.tables.frontends.insert(key, value);
    }

    fn scope(&mut self, place: Place, scope: &'a ir::Scope) -> Target {
        let family = place.0.address.family();
        // `translate` puts every route that a frontend names into the routes.
        let routes = &self.desired.routes;
        match scope {
            ir::Scope::Tcp(key) => routes.get(key).map_or(Target::pass(), |route| self.route(key, route, family)),
            ir::Scope::Tls(keys) => {
                let routes: Vec<_> = keys.iter().filter_map(|key| Some((key, routes.get(key)?))).collect();
                self.tls(place, &routes)
            }
        }
    }
}

/// A table that cannot hold what is wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{table} needs {wanted} entries and holds {capacity} at most: remove routes, or split them over more nodes")]
pub struct TableFull {
    /// Name of the table.
    pub table: &'static str,
    /// How many entries the wanted state needs.
    pub wanted: usize,
    /// How many it may have.
    pub capacity: usize,
}

impl Tables {
    /// Checks that the kernel maps can hold these tables beside the ones in force.
    ///
    /// # Errors
    ///
    /// Names the first table that is too small.
    pub fn check_capacity(&self) -> Result<(), TableFull> {
        let half = |capacity: u32| capacity as usize / 2;
        // Old and new entries of the immutable tables stand side by side during a change.
        let checks = [
            ("FRONTENDS", self.frontends.len(), MAX_FRONTENDS as usize),
            ("SCOPED", self.scoped.len(), MAX_SCOPED as usize),
            ("SPLITS", self.splits.len(), half(MAX_SPLITS)),
            ("NAMES", self.names.len(), half(MAX_NAMES)),
            ("BACKENDS", self.backends.len(), half(MAX_BACKENDS)),
            ("ENDPOINTS", self.endpoints.len(), half(MAX_ENDPOINTS)),
            ("RINGS", self.rings.len(), half(MAX_ENDPOINTS)),
            ("CLIENTS", self.clients.len(), MAX_CLIENTS as usize),
        ];
        match checks.into_iter().find(|(_, wanted, capacity)| wanted > capacity) {
            Some((table, wanted, capacity)) => Err(TableFull { table, wanted, capacity }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
