//! The decision: frontend, scope, leg, endpoint. The same code in the kernel and on the host.

use crate::{
    abi::{
        ids::{BackendStateId, StatsId},
        settings::OnAgentLoss,
        tables::{Endpoint, EndpointState, FrontendKey, LegKind, ScopedKey, TargetKind},
    },
    endpoint::choose::choose,
    env::Env,
    reason::Reason,
    split::pick::pick,
};

/// The outcome for one new connection.
#[derive(Clone, Copy, Debug)]
pub enum Verdict<'a> {
    /// Not ours: leave it alone.
    Pass(Pass),
    /// Connect to this endpoint instead.
    Forward(Forward<'a>),
    /// Refuse it.
    Reject(Reject),
}

/// Why a connection is left alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pass {
    /// The destination is not a frontend.
    NotFrontend,
    /// It is one, but no route applies to this client.
    NotForThisClient,
    /// The agent is gone and the policy is to step aside.
    AgentLost,
}

/// Where a connection goes.
#[derive(Clone, Copy, Debug)]
pub struct Forward<'a> {
    /// Counters of the leg.
    pub leg: StatsId,
    /// The backend.
    pub backend: BackendStateId,
    /// How many endpoints it has.
    pub n_endpoints: u32,
    /// The endpoint.
    pub endpoint: &'a Endpoint,
    /// What is known of it.
    pub state: Option<&'a EndpointState>,
}

/// Why a connection is refused, and where that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reject {
    /// Counters of the leg, or of the route if no leg was chosen.
    pub stats: StatsId,
    /// The reason.
    pub reason: Reason,
}

/// Decides one new connection to `key`.
///
/// Takes a ticket of the split (and a turn of the backend), so it must be called once a connection.
#[inline(always)]
pub fn decide<'a, E: Env>(env: &'a E, key: &FrontendKey) -> Verdict<'a> {
    let Some(frontend) = env.frontend(key) else {
        return Verdict::Pass(Pass::NotFrontend);
    };
    let mut target = &frontend.everyone;
    if frontend.is_scoped()
        && let Some(namespace) = env.client_namespace()
        && let Some(own) = env.scoped(&ScopedKey { frontend: frontend.id, namespace })
    {
        target = own;
    }
    let split = match target.kind() {
        TargetKind::Pass => return Verdict::Pass(Pass::NotForThisClient),
        TargetKind::Split(split) => split,
        TargetKind::Reject(reason) => return Verdict::Reject(Reject { stats: target.route_stats, reason }),
    };
    match env.agent_lost() {
        None | Some(OnAgentLoss::Freeze) => {}
        Some(OnAgentLoss::Bypass) => return Verdict::Pass(Pass::AgentLost),
        Some(OnAgentLoss::Reject) => {
            return Verdict::Reject(Reject { stats: target.route_stats, reason: Reason::AgentLost });
        }
    }
    let missing = Verdict::Reject(Reject { stats: target.route_stats, reason: Reason::TableMiss });
    let Some(value) = env.split(split) else {
        return missing;
    };
    let Some(leg) = pick(env, value) else {
        return missing;
    };
    let id = match leg.kind() {
        LegKind::Backend(backend) => backend,
        LegKind::Reject(reason) => return Verdict::Reject(Reject { stats: leg.stats, reason }),
    };
    let reject = |reason| Verdict::Reject(Reject { stats: leg.stats, reason });
    let Some(backend) = env.backend(id) else {
        return reject(Reason::TableMiss);
    };
    if backend.count == 0 {
        return reject(Reason::NoEndpoints);
    }
    match choose(env, value.policy(), id, backend) {
        Some(chosen) => Verdict::Forward(Forward {
            leg: leg.stats,
            backend: backend.state,
            n_endpoints: backend.count,
            endpoint: chosen.endpoint,
            state: chosen.state,
        }),
        None => reject(Reason::TableMiss),
    }
}
