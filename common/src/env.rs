//! What a decision needs from its surroundings. The kernel answers from BPF maps, the agent
//! (`weir explain`) and tests from plain collections.

use crate::abi::{
    ids::{BackendId, BackendStateId, EndpointId, NamespaceId, SequenceId, SplitId},
    settings::OnAgentLoss,
    tables::{
        Backend, BackendState, Endpoint, EndpointState, FrontendKey, FrontendValue, RingValue, ScopedKey, SlotKey,
        Split, Target,
    },
};

/// The tables, and the few facts about the moment and the client that a choice depends on.
///
/// Look-ups return `None` for what is not there; [`crate::decide::decide`] says what that means.
pub trait Env {
    /// Looks up what a client dialled.
    fn frontend(&self, key: &FrontendKey) -> Option<&FrontendValue>;
    /// Looks up the target of one namespace's clients.
    fn scoped(&self, key: &ScopedKey) -> Option<&Target>;
    /// Returns the namespace of the client, if known. Only asked where consumer routes exist.
    fn client_namespace(&self) -> Option<NamespaceId>;
    /// Looks up a split.
    fn split(&self, id: SplitId) -> Option<&Split>;
    /// Takes the next ticket of a sequence: 0, 1, 2, … over all CPUs, each once.
    fn next_ticket(&self, id: SequenceId) -> u64;
    /// Looks up a backend.
    fn backend(&self, id: BackendId) -> Option<&Backend>;
    /// Looks up what is known of a backend's endpoints as a whole.
    fn backend_state(&self, id: BackendStateId) -> Option<BackendState>;
    /// Takes the next turn of a backend: 0, 1, 2, …
    fn next_turn(&self, id: BackendStateId) -> u64;
    /// Looks up an endpoint by its place in a list.
    fn endpoint(&self, key: &SlotKey) -> Option<&Endpoint>;
    /// Looks up what is known of an endpoint.
    fn endpoint_state(&self, id: EndpointId) -> Option<&EndpointState>;
    /// Looks up a bucket of a consistent-hash ring.
    fn ring(&self, key: &SlotKey) -> Option<&RingValue>;
    /// Whether the client's ClientHello can be read as it leaves. Only asked where it is to be verified.
    fn can_verify(&self) -> bool;
    /// Returns a hash of the client's identity, for [`crate::abi::tables::Policy::ClientHash`].
    fn client_hash(&self) -> u64;
    /// Returns 64 random bits.
    fn random(&self) -> u64;
    /// Returns CLOCK_MONOTONIC, nanoseconds.
    fn now_ns(&self) -> u64;
    /// Returns the policy to follow now if the agent's heartbeat is stale, else `None`.
    fn agent_lost(&self) -> Option<OnAgentLoss>;
}
