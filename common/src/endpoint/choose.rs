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

/// An endpoint that may be taken.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    slot: u32,
    endpoint: &'a Endpoint,
    /// Connections and failures that speak against it.
    load: u64,
    ejected: bool,
}

/// Chooses an endpoint of a backend with at least one. `None` means a broken table.
#[inline(always)]
pub fn choose<'a, E: Env>(env: &'a E, policy: Policy, id: BackendId, backend: &Backend) -> Option<&'a Endpoint> {
    let skipping = env.backend_state(backend.state).is_some_and(|state| may_skip(state.ejected, backend.count));
    let now_ns = if skipping { env.now_ns() } else { u64::MAX };
    let count = backend.count;
    let at = |slot| candidate(env, id, slot, now_ns);
    let first = match policy {
        Policy::PowerOfTwoChoices => power_of_two(env, count, at)?,
        Policy::RoundRobin => at((env.next_turn(backend.state) % u64::from(count.max(1))) as u32)?,
        Policy::Random => at(scale(env.random(), count))?,
        Policy::ClientHash => at(by_client(env, id, backend)?)?,
    };
    if !first.ejected {
        return Some(first.endpoint);
    }
    // Its neighbours in turn. A client that is hashed starts at a place of its own, so that an ejected
    // endpoint's clients spread over all others instead of falling upon one.
    let mut slot = match policy {
        Policy::PowerOfTwoChoices | Policy::RoundRobin | Policy::Random => first.slot,
        Policy::ClientHash => scale(mix2(env.client_hash(), 1), count),
    };
    for _ in 0..TRIES {
        slot += 1;
        if slot >= count {
            slot = 0;
        }
        let next = at(slot)?;
        if !next.ejected {
            return Some(next.endpoint);
        }
    }
    Some(first.endpoint)
}

/// Looks an endpoint up. Nothing is ejected at the end of time, which stands for "do not skip".
#[inline(always)]
fn candidate<'a, E: Env>(env: &'a E, id: BackendId, slot: u32, now_ns: u64) -> Option<Candidate<'a>> {
    let endpoint = env.endpoint(&SlotKey::new(id, slot))?;
    Some(match env.endpoint_state(endpoint.id) {
        Some(state) => Candidate { slot, endpoint, load: load(&state), ejected: is_ejected(&state, now_ns) },
        None => Candidate { slot, endpoint, load: 0, ejected: false },
    })
}

#[inline(always)]
fn load(state: &EndpointState) -> u64 {
    state.open + state.failures * FAILURE_PENALTY
}

/// Takes the less loaded of two different random endpoints (Mitzenmacher: "The power of two choices
/// in randomized load balancing", 2001).
#[inline(always)]
fn power_of_two<'a, E: Env>(
    env: &'a E,
    count: u32,
    at: impl Fn(u32) -> Option<Candidate<'a>>,
) -> Option<Candidate<'a>> {
    let random = env.random();
    let one = scale(random, count);
    let first = at(one)?;
    if count < 2 {
        return Some(first);
    }
    // The second among the others: a draw from 0..count-1, shifted past the first.
    let mut other = scale(mix2(random, 1), count - 1);
    if other >= one {
        other += 1;
    }
    let second = at(other)?;
    let second_wins = if first.ejected == second.ejected { second.load < first.load } else { first.ejected };
    Some(if second_wins { second } else { first })
}

/// Follows the client's hash to its bucket of the backend's ring.
#[inline(always)]
fn by_client<E: Env>(env: &E, id: BackendId, backend: &Backend) -> Option<u32> {
    let client = env.client_hash();
    if backend.ring == 0 {
        return Some(scale(client, backend.count));
    }
    Some(env.ring(&SlotKey::new(id, scale(client, backend.ring)))?.slot)
}
