//! The surroundings of a decision on plain tables: for `weir explain`, and for tests. Takes its
//! tickets and its chance from the caller, so that a decision can be repeated.

use super::{id, tables::Tables};
use std::cell::Cell;
use weir_common::{
    abi::{
        ids::{BackendId, BackendStateId, EndpointId, NamespaceId, SequenceId, SplitId},
        settings::OnAgentLoss,
        tables::{
            Backend, BackendState, Endpoint, EndpointState, FrontendKey, FrontendValue, RingValue, ScopedKey, SlotKey,
            Split, Target,
        },
    },
    env::Env,
    mix::mix,
};

/// A client, a ticket and the tables.
#[derive(Clone, Debug)]
pub struct HostEnv<'a> {
    tables: &'a Tables,
    namespace: Option<NamespaceId>,
    ticket: Cell<u64>,
    random: Cell<u64>,
    client: u64,
}

impl<'a> HostEnv<'a> {
    /// Starts with an unknown client, ticket 0 and a fixed chance.
    #[must_use]
    pub fn new(tables: &'a Tables) -> Self {
        Self { tables, namespace: None, ticket: Cell::new(0), random: Cell::new(0), client: mix(1) }
    }

    /// Makes the client one of a namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: Option<&str>) -> Self {
        self.namespace = namespace.map(id::namespace);
        self
    }

    /// Gives the next decision this ticket, and further ones the following.
    #[must_use]
    pub fn at_ticket(self, ticket: u64) -> Self {
        self.ticket.set(ticket);
        self
    }

    /// Seeds the chance.
    #[must_use]
    pub fn with_random(self, seed: u64) -> Self {
        self.random.set(seed);
        self
    }

    /// Makes the client another one, for client hashing.
    #[must_use]
    pub fn as_client(mut self, client: u64) -> Self {
        self.client = mix(client);
        self
    }

    fn take_ticket(&self) -> u64 {
        let ticket = self.ticket.get();
        self.ticket.set(ticket.wrapping_add(1));
        ticket
    }
}

impl Env for HostEnv<'_> {
    fn frontend(&self, key: &FrontendKey) -> Option<&FrontendValue> {
        self.tables.frontends.get(key)
    }

    fn scoped(&self, key: &ScopedKey) -> Option<&Target> {
        self.tables.scoped.get(key)
    }

    fn client_namespace(&self) -> Option<NamespaceId> {
        self.namespace
    }

    fn split(&self, id: SplitId) -> Option<&Split> {
        self.tables.splits.get(&id)
    }

    fn next_ticket(&self, _: SequenceId) -> u64 {
        self.take_ticket()
    }

    fn backend(&self, id: BackendId) -> Option<&Backend> {
        self.tables.backends.get(&id)
    }

    fn backend_state(&self, _: BackendStateId) -> Option<BackendState> {
        None
    }

    fn next_turn(&self, _: BackendStateId) -> u64 {
        self.ticket.get()
    }

    fn endpoint(&self, key: &SlotKey) -> Option<&Endpoint> {
        self.tables.endpoints.get(key)
    }

    fn endpoint_state(&self, _: EndpointId) -> Option<&EndpointState> {
        None
    }

    fn ring(&self, key: &SlotKey) -> Option<&RingValue> {
        self.tables.rings.get(key)
    }

    fn can_verify(&self) -> bool {
        true
    }

    fn client_hash(&self) -> u64 {
        self.client
    }

    fn random(&self) -> u64 {
        let seed = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(seed);
        mix(seed)
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn agent_lost(&self) -> Option<OnAgentLoss> {
        None
    }
}
