//! The decision: frontend, scope, leg, endpoint. The same code in the kernel and on the host.

use crate::{
    abi::{
        ids::{BackendStateId, EndpointId, FrontendId, NameTableId, NamespaceId, SplitId, StatsId},
        settings::OnAgentLoss,
        tables::{Endpoint, EndpointState, FrontendKey, Leg, LegKind, ScopedKey, Split, TargetKind},
        tls::{Dial, DialKind},
    },
    endpoint::choose::{choose, choose_other},
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
    /// Give it to the acceptor, which reads the ClientHello and decides by [`dial`].
    Accept(Accept),
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
    /// The leg's place in its split.
    pub leg_index: u8,
    /// The backend.
    pub backend: BackendStateId,
    /// How many endpoints it has.
    pub n_endpoints: u32,
    /// The endpoint.
    pub endpoint: &'a Endpoint,
    /// What is known of it.
    pub state: Option<&'a EndpointState>,
    /// The server names of which the ClientHello must have one, if the route is for TLS.
    pub verify: Option<Verify>,
}

/// What the ClientHello of a forwarded connection is verified against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verify {
    /// The server names.
    pub names: NameTableId,
    /// The split that leg and endpoint were chosen from.
    pub split: SplitId,
    /// Counters of the first route of the target: for what no name can be given to.
    pub route_stats: StatsId,
}

/// What the acceptor needs to know of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accept {
    /// The frontend.
    pub frontend: FrontendId,
    /// The client's namespace, if its own routes decide.
    pub namespace: Option<NamespaceId>,
    /// Counters of the first route of the target.
    pub route_stats: StatsId,
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
    let mut scope = None;
    if frontend.is_scoped()
        && let Some(namespace) = env.client_namespace()
        && let Some(own) = env.scoped(&ScopedKey { frontend: frontend.id, namespace })
    {
        target = own;
        scope = Some(namespace);
    }
    let reject = |reason| Verdict::Reject(Reject { stats: target.route_stats, reason });
    let kind = target.kind();
    match kind {
        TargetKind::Pass => return Verdict::Pass(Pass::NotForThisClient),
        TargetKind::Reject(reason) => return reject(reason),
        TargetKind::Split(_) | TargetKind::Verify(_, _) | TargetKind::Accept(_) => {}
    }
    match env.agent_lost() {
        None | Some(OnAgentLoss::Freeze) => {}
        Some(OnAgentLoss::Bypass) => return Verdict::Pass(Pass::AgentLost),
        Some(OnAgentLoss::Reject) => return reject(Reason::AgentLost),
    }
    let (split, verify) = match kind {
        TargetKind::Split(split) => (split, None),
        TargetKind::Verify(split, names) if env.can_verify() => {
            (split, Some(Verify { names, split, route_stats: target.route_stats }))
        }
        // The acceptor looks in the same table of names.
        TargetKind::Verify(..) | TargetKind::Accept(_) => {
            return Verdict::Accept(Accept {
                frontend: frontend.id,
                namespace: scope,
                route_stats: target.route_stats,
            });
        }
        // Both have returned above.
        TargetKind::Pass | TargetKind::Reject(_) => return reject(Reason::TableMiss),
    };
    let Some(value) = env.split(split) else {
        return reject(Reason::TableMiss);
    };
    let index = pick(env, value);
    follow(env, value, index, target.route_stats, EndpointId(0), verify)
}

/// Decides what a connection of the acceptor leads to.
///
/// Takes a ticket if the split's weights decide, so it must be called once a connection.
#[inline(always)]
pub fn dial<'a, E: Env>(env: &'a E, dial: &Dial) -> Verdict<'a> {
    // A leg's number where there is none, too: in an option, the kernel's verifier would see a read of what
    // was never written.
    let (split, by_weight, leg, avoid) = match dial.kind() {
        DialKind::Reject(stats, reason) => return Verdict::Reject(Reject { stats, reason }),
        DialKind::Split(split) => (split, true, 0, EndpointId(0)),
        DialKind::Leg(split, leg, avoid) => (split, false, leg, avoid),
    };
    let Some(value) = env.split(split) else {
        return Verdict::Reject(Reject { stats: StatsId(0), reason: Reason::TableMiss });
    };
    let index = if by_weight { pick(env, value) } else { usize::from(leg) };
    follow(env, value, index, StatsId(0), avoid, None)
}

/// Follows a leg to one of its endpoints, if possible another than `avoid`.
#[inline(always)]
fn follow<'a, E: Env>(
    env: &'a E,
    split: &Split,
    index: usize,
    route_stats: StatsId,
    avoid: EndpointId,
    verify: Option<Verify>,
) -> Verdict<'a> {
    let Some(leg): Option<&Leg> = split.legs.get(index) else {
        return Verdict::Reject(Reject { stats: route_stats, reason: Reason::TableMiss });
    };
    let reject = |reason| Verdict::Reject(Reject { stats: leg.stats, reason });
    let id = match leg.kind() {
        LegKind::Backend(backend) => backend,
        LegKind::Reject(reason) => return reject(reason),
    };
    let Some(backend) = env.backend(id) else {
        return reject(Reason::TableMiss);
    };
    if backend.count == 0 {
        return reject(Reason::NoEndpoints);
    }
    let chosen = if avoid == EndpointId(0) {
        choose(env, split.policy(), id, backend)
    } else {
        choose_other(env, id, backend, avoid)
    };
    match chosen {
        Some(chosen) => Verdict::Forward(Forward {
            leg: leg.stats,
            leg_index: index as u8,
            backend: backend.state,
            n_endpoints: backend.count,
            endpoint: chosen.endpoint,
            state: chosen.state,
            verify,
        }),
        None => reject(Reason::TableMiss),
    }
}
