//! Chooses an endpoint of a backend. The number of endpoints never changes a leg's share.

use crate::{
    abi::{
        ids::BackendId,
        tables::{Backend, Endpoint, EndpointState, Policy, SlotKey},
    },
    endpoint::eject::{is_ejected, may_skip},
    env::Env,
    mix::{mix2, scale},
};

/// How many further endpoints are tried when the chosen one is ejected. At most half of a backend's
/// endpoints are ejected, so all of eight tries fail in less than 1 of 256 choices; the connection
/// then goes to the first one.
pub const TRIES: u32 = 8;

/// How many open connections one recent connect failure weighs in the power of two choices.
const FAILURE_PENALTY: u64 = 16;

/// Chooses an endpoint of a backend with at least one. `None` means a broken table.
#[inline(always)]
pub fn choose<'a, E: Env>(env: &'a E, policy: Policy, id: BackendId, backend: &Backend) -> Option<&'a Endpoint> {
    let skipping = env.backend_state(backend.state).is_some_and(|state| may_skip(state.ejected, backend.count));
    match policy {
        Policy::PowerOfTwoChoices => power_of_two(env, id, backend, skipping),
        Policy::RoundRobin => {
            let turn = env.next_turn(backend.state);
            walk(env, id, backend, skipping, (turn % u64::from(backend.count.max(1))) as u32)
        }
        Policy::Random => walk(env, id, backend, skipping, scale(env.random(), backend.count)),
        Policy::ClientHash => by_client(env, id, backend, skipping),
    }
}

#[inline(always)]
fn at<E: Env>(env: &E, id: BackendId, slot: u32) -> Option<(&Endpoint, EndpointState)> {
    let endpoint = env.endpoint(&SlotKey::new(id, slot))?;
    Some((endpoint, env.endpoint_state(endpoint.id).unwrap_or_default()))
}

/// Takes the endpoint at `start`, or the next one that is not ejected.
#[inline(always)]
fn walk<'a, E: Env>(env: &'a E, id: BackendId, backend: &Backend, skipping: bool, start: u32) -> Option<&'a Endpoint> {
    let (first, state) = at(env, id, start)?;
    if !skipping || !is_ejected(&state, env.now_ns()) {
        return Some(first);
    }
    let mut slot = start;
    for _ in 0..TRIES {
        slot += 1;
        if slot >= backend.count {
            slot = 0;
        }
        let (endpoint, state) = at(env, id, slot)?;
        if !is_ejected(&state, env.now_ns()) {
            return Some(endpoint);
        }
    }
    Some(first)
}

/// Takes the less loaded of two different random endpoints (Mitzenmacher: "The power of two choices
/// in randomized load balancing", 2001).
#[inline(always)]
fn power_of_two<'a, E: Env>(env: &'a E, id: BackendId, backend: &Backend, skipping: bool) -> Option<&'a Endpoint> {
    let random = env.random();
    let one = scale(random, backend.count);
    if backend.count == 1 {
        return at(env, id, one).map(|(endpoint, _)| endpoint);
    }
    // The second among the others: shift a draw from 0..count-1 past the first.
    let mut other = scale(mix2(random, 1), backend.count - 1);
    if other >= one {
        other += 1;
    }
    let (first, first_state) = at(env, id, one)?;
    let (second, second_state) = at(env, id, other)?;
    if skipping {
        let now = env.now_ns();
        match (is_ejected(&first_state, now), is_ejected(&second_state, now)) {
            (false, false) => {}
            (false, true) => return Some(first),
            (true, false) => return Some(second),
            (true, true) => return walk(env, id, backend, skipping, one),
        }
    }
    if load(&second_state) < load(&first_state) { Some(second) } else { Some(first) }
}

#[inline(always)]
fn load(state: &EndpointState) -> u64 {
    state.open + state.failures * FAILURE_PENALTY
}

/// Follows the client's hash around the backend's ring; an ejected endpoint's clients go to the
/// next buckets' endpoints until it is back.
#[inline(always)]
fn by_client<'a, E: Env>(env: &'a E, id: BackendId, backend: &Backend, skipping: bool) -> Option<&'a Endpoint> {
    let client = env.client_hash();
    if backend.ring == 0 {
        return walk(env, id, backend, skipping, scale(client, backend.count));
    }
    let mut fallback = None;
    for attempt in 0..TRIES {
        // Another hash, not the next bucket: an ejected endpoint's clients spread over all others.
        let bucket = scale(mix2(client, u64::from(attempt)), backend.ring);
        let slot = env.ring(&SlotKey::new(id, bucket))?.slot;
        let (endpoint, state) = at(env, id, slot)?;
        if !skipping || !is_ejected(&state, env.now_ns()) {
            return Some(endpoint);
        }
        if fallback.is_none() {
            fallback = Some(endpoint);
        }
    }
    fallback
}
