//! The kernel's answers to a decision: look-ups in maps, the client's identity, time and chance.

use crate::{
    atomic, count,
    maps::{
        BACKEND_STATES, BACKENDS, CLIENTS, ENDPOINT_STATES, ENDPOINTS, FRONTENDS, HEARTBEAT, RINGS, SCOPED, SETTINGS,
        SPLITS, TICKETS,
    },
};
use aya_ebpf::{
    EbpfContext,
    helpers::{
        bpf_get_current_ancestor_cgroup_id, bpf_get_netns_cookie, bpf_get_prandom_u32, bpf_ktime_get_ns,
        generated::bpf_skc_to_mptcp_sock,
    },
    programs::SockAddrContext,
};
use weir_common::{
    abi::{
        ids::{BackendId, BackendStateId, EndpointId, NamespaceId, SequenceId, SplitId},
        settings::OnAgentLoss,
        stats::Counter,
        tables::{
            Backend, BackendState, ClientKey, Endpoint, EndpointState, FrontendKey, FrontendValue, RingValue,
            ScopedKey, SlotKey, Split, Target,
        },
    },
    env::Env,
    mix::mix,
};

/// How deep in the cgroup tree a client's group is looked for. Kubernetes with systemd uses 5.
const MAX_CGROUP_DEPTH: i32 = 16;

/// Looks around from one connect() call.
pub(crate) struct Kernel<'a>(pub(crate) &'a SockAddrContext);

/// Looks a value up.
///
/// The reference stays good until the program ends: maps without preallocation free a replaced
/// element only after the read-side section that the program runs in.
macro_rules! look_up {
    ($map:ident, $key:expr) => {
        // SAFETY: the map has no preallocation, so its values are replaced, never changed in place.
        unsafe { $map.get($key) }
    };
}

impl Env for Kernel<'_> {
    #[inline(always)]
    fn frontend(&self, key: &FrontendKey) -> Option<&FrontendValue> {
        look_up!(FRONTENDS, key)
    }

    #[inline(always)]
    fn scoped(&self, key: &ScopedKey) -> Option<&Target> {
        look_up!(SCOPED, key)
    }

    #[inline(always)]
    fn client_namespace(&self) -> Option<NamespaceId> {
        // From the deepest cgroup up, so that the closest group wins.
        for up in 1..=MAX_CGROUP_DEPTH {
            // SAFETY: the helper has no preconditions; it returns 0 below the task's own depth.
            let id = unsafe { bpf_get_current_ancestor_cgroup_id(MAX_CGROUP_DEPTH - up) };
            if id != 0
                && let Some(namespace) = look_up!(CLIENTS, ClientKey::cgroup(id))
            {
                return Some(*namespace);
            }
        }
        // SAFETY: the context is the one this program was called with.
        let cookie = unsafe { bpf_get_netns_cookie(self.0.as_ptr()) };
        if let Some(namespace) = look_up!(CLIENTS, ClientKey::network_namespace(cookie)) {
            return Some(*namespace);
        }
        count::event(Counter::UnknownClient);
        None
    }

    #[inline(always)]
    fn split(&self, id: SplitId) -> Option<&Split> {
        look_up!(SPLITS, id)
    }

    #[inline(always)]
    fn next_ticket(&self, id: SequenceId) -> u64 {
        match TICKETS.get_ptr_mut(id) {
            // SAFETY: a live map value.
            Some(ticket) => unsafe { atomic::fetch_add(ticket, 1) },
            // The agent makes the counter with the split; without it chance still gives fair shares.
            None => self.random(),
        }
    }

    #[inline(always)]
    fn backend(&self, id: BackendId) -> Option<&Backend> {
        look_up!(BACKENDS, id)
    }

    #[inline(always)]
    fn backend_state(&self, id: BackendStateId) -> Option<BackendState> {
        look_up!(BACKEND_STATES, id).copied()
    }

    #[inline(always)]
    fn next_turn(&self, id: BackendStateId) -> u64 {
        match BACKEND_STATES.get_ptr_mut(id) {
            // SAFETY: a live map value.
            Some(state) => unsafe { atomic::fetch_add(&raw mut (*state).turn, 1) },
            None => self.random(),
        }
    }

    #[inline(always)]
    fn endpoint(&self, key: &SlotKey) -> Option<&Endpoint> {
        look_up!(ENDPOINTS, key)
    }

    #[inline(always)]
    fn endpoint_state(&self, id: EndpointId) -> Option<&EndpointState> {
        // Other CPUs change this value meanwhile. A choice by a number that is a moment old is as good.
        look_up!(ENDPOINT_STATES, id)
    }

    #[inline(always)]
    fn ring(&self, key: &SlotKey) -> Option<&RingValue> {
        look_up!(RINGS, key)
    }

    #[inline(always)]
    fn can_verify(&self) -> bool {
        // Bytes of an MPTCP connection can leave through other sockets, and the kernel has no way to end it
        // at both ends.
        // SAFETY: the context and its socket are valid while the program runs.
        unsafe {
            let socket = (*self.0.sock_addr).__bindgen_anon_1.sk;
            socket.is_null() || bpf_skc_to_mptcp_sock(socket.cast()).is_null()
        }
    }

    #[inline(always)]
    fn client_hash(&self) -> u64 {
        // All sockets of one network namespace (a pod, a container, or the host) are one client: the
        // source address is not chosen yet in this hook, and this is what it would be chosen from.
        // SAFETY: the context is the one this program was called with.
        mix(unsafe { bpf_get_netns_cookie(self.0.as_ptr()) })
    }

    #[inline(always)]
    fn random(&self) -> u64 {
        // SAFETY: the helper has no preconditions.
        mix(u64::from(unsafe { bpf_get_prandom_u32() }))
    }

    #[inline(always)]
    fn now_ns(&self) -> u64 {
        // SAFETY: the helper has no preconditions.
        unsafe { bpf_ktime_get_ns() }
    }

    #[inline(always)]
    fn agent_lost(&self) -> Option<OnAgentLoss> {
        let settings = SETTINGS.get(0)?;
        let policy = OnAgentLoss::from_abi(settings.on_agent_loss);
        match policy {
            OnAgentLoss::Freeze => return None,
            OnAgentLoss::Bypass | OnAgentLoss::Reject => {}
        }
        let last = HEARTBEAT.get(0)?.last_ns;
        let stale = self.now_ns().saturating_sub(last) > settings.agent_lost_after_ns;
        stale.then_some(policy)
    }
}
