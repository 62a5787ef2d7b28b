//! Chooses an endpoint of a backend. The number of endpoints never changes a leg's share.

use crate::{
    abi::{
        ids::{BackendId, EndpointId},
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

/// How long after the first failure of a row its failures weigh. Longer would keep an endpoint that
/// failed once from ever being chosen again where there are few connections; three failures eject it
/// anyway.
const RECENT_NS: u64 = 1_000_000_000;

/// An endpoint that may be taken, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The endpoint.
    pub endpoint: &'a Endpoint,
    /// Its state, if it has one.
    pub state: Option<&'a EndpointState>,
    /// Whether it is to be skipped.
    ejected: bool,
}

/// Chooses an endpoint of a backend with at least one. `None` means a broken table.
#[inline(always)]
pub fn choose<'a, E: Env>(env: &'a E, policy: Policy, id: BackendId, backend: &Backend) -> Option<Candidate<'a>> {
    let count = backend.count;
    let at = |slot| candidate(env, id, backend, slot);
    let first = match policy {
        Policy::PowerOfTwoChoices => power_of_two(env, count, at)?,
        Policy::RoundRobin => at((env.next_turn(backend.state) % u64::from(count.max(1))) as u32)?,
        Policy::Random => at(scale(env.random(), count))?,
        Policy::ClientHash => at(by_client(env, id, backend)?)?,
    };
    if !first.ejected {
        return Some(first);
    }
    // Others, in an order of their own for each connection (or client), so that an ejected endpoint's
    // share is spread over all of them instead of falling upon its neighbour.
    let seed = match policy {
        Policy::PowerOfTwoChoices | Policy::RoundRobin | Policy::Random => env.random(),
        Policy::ClientHash => env.client_hash(),
    };
    for attempt in 1..=TRIES {
        let next = at(scale(mix2(seed, u64::from(attempt)), count))?;
        if !next.ejected {
            return Some(next);
        }
    }
    Some(first)
}

/// Chooses a random endpoint other than `avoid` that is not ejected, or any if none was met in a few tries.
/// `None` means a broken table.
#[inline(always)]
pub fn choose_other<'a, E: Env>(
    env: &'a E,
    id: BackendId,
    backend: &Backend,
    avoid: EndpointId,
) -> Option<Candidate<'a>> {
    let seed = env.random();
    for attempt in 1..=TRIES {
        let next = candidate(env, id, backend, scale(mix2(seed, u64::from(attempt)), backend.count))?;
        if next.endpoint.id != avoid && !next.ejected {
            return Some(next);
        }
    }
    candidate(env, id, backend, scale(seed, backend.count))
}

/// Looks an endpoint up. The clock and the backend are only asked about one that was ejected.
#[inline(always)]
fn candidate<'a, E: Env>(env: &'a E, id: BackendId, backend: &Backend, slot: u32) -> Option<Candidate<'a>> {
    let endpoint = env.endpoint(&SlotKey::new(id, slot))?;
    let state = env.endpoint_state(endpoint.id);
    let ejected = state.is_some_and(|state| {
        state.ejected_until_ns != 0
            && is_ejected(state, env.now_ns())
            && env.backend_state(backend.state).is_some_and(|all| may_skip(all.ejected, backend.count))
    });
    Some(Candidate { endpoint, state, ejected })
}

/// How much speaks against an endpoint.
#[inline(always)]
fn load<E: Env>(env: &E, candidate: &Candidate<'_>) -> u64 {
    let Some(state) = candidate.state else { return 0 };
    if state.failures == 0 || env.now_ns().saturating_sub(state.first_failure_ns) > RECENT_NS {
        return state.open;
    }
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
    let second_wins =
        if first.ejected == second.ejected { load(env, &second) < load(env, &first) } else { first.ejected };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        abi::{
            ids::{BackendStateId, EndpointId, NamespaceId, SequenceId, SplitId},
            settings::OnAgentLoss,
            tables::{
                BackendState, EndpointReadiness, FrontendKey, FrontendValue, RingValue, ScopedKey, Split, Target,
            },
        },
        addr::Address,
        mix::mix,
    };
    use std::{cell::Cell, vec, vec::Vec};

    /// A backend with endpoints 0, 1, 2, …; the slot is the endpoint's id.
    struct Fixture {
        endpoints: Vec<Endpoint>,
        states: Vec<EndpointState>,
        now_ns: u64,
        chance: Cell<u64>,
        turn: Cell<u64>,
    }

    const NOW: u64 = 100_000_000_000;

    impl Fixture {
        fn new(n: usize) -> Self {
            let endpoint = |i| {
                Endpoint::new(EndpointId(i), Address::from_v4_octets([10, 0, 0, i as u8]), 80, EndpointReadiness::Ready)
            };
            Self {
                endpoints: (0..n as u64).map(endpoint).collect(),
                states: vec![EndpointState::default(); n],
                now_ns: NOW,
                chance: Cell::new(0),
                turn: Cell::new(0),
            }
        }

        fn eject(mut self, slots: &[usize]) -> Self {
            for &slot in slots {
                self.states[slot].ejected_until_ns = NOW + 1;
            }
            self
        }

        fn counts(&self, policy: Policy, choices: usize) -> Vec<usize> {
            let backend = Backend { state: BackendStateId(1), count: self.endpoints.len() as u32, ring: 0 };
            let mut counts = vec![0; self.endpoints.len()];
            for _ in 0..choices {
                let endpoint = choose(self, policy, BackendId(1), &backend).expect("an endpoint").endpoint;
                counts[endpoint.id.0 as usize] += 1;
            }
            counts
        }
    }

    impl Env for Fixture {
        fn frontend(&self, _: &FrontendKey) -> Option<&FrontendValue> {
            None
        }
        fn scoped(&self, _: &ScopedKey) -> Option<&Target> {
            None
        }
        fn client_namespace(&self) -> Option<NamespaceId> {
            None
        }
        fn split(&self, _: SplitId) -> Option<&Split> {
            None
        }
        fn next_ticket(&self, _: SequenceId) -> u64 {
            0
        }
        fn backend(&self, _: BackendId) -> Option<&Backend> {
            None
        }
        fn backend_state(&self, _: BackendStateId) -> Option<BackendState> {
            let ejected = self.states.iter().filter(|state| state.ejected_until_ns != 0).count() as u64;
            Some(BackendState { ejected, turn: 0 })
        }
        fn next_turn(&self, _: BackendStateId) -> u64 {
            self.turn.replace(self.turn.get() + 1)
        }
        fn endpoint(&self, key: &SlotKey) -> Option<&Endpoint> {
            self.endpoints.get(key.slot as usize)
        }
        fn endpoint_state(&self, id: EndpointId) -> Option<&EndpointState> {
            self.states.get(id.0 as usize)
        }
        fn ring(&self, _: &SlotKey) -> Option<&RingValue> {
            None
        }
        fn can_verify(&self) -> bool {
            true
        }

        fn client_hash(&self) -> u64 {
            mix(7)
        }
        fn random(&self) -> u64 {
            self.chance.set(self.chance.get() + 1);
            mix(self.chance.get())
        }
        fn now_ns(&self) -> u64 {
            self.now_ns
        }
        fn agent_lost(&self) -> Option<OnAgentLoss> {
            None
        }
    }

    #[test]
    fn round_robin_takes_the_endpoints_in_turn() {
        assert_eq!(Fixture::new(4).counts(Policy::RoundRobin, 40), [10, 10, 10, 10]);
    }

    #[test]
    fn an_ejected_endpoint_is_skipped_and_its_share_is_spread() {
        for policy in [Policy::PowerOfTwoChoices, Policy::RoundRobin, Policy::Random] {
            let counts = Fixture::new(4).eject(&[2]).counts(policy, 3_000);
            assert_eq!(counts[2], 0, "{policy:?}: {counts:?}");
            for slot in [0, 1, 3] {
                assert!(counts[slot] > 850, "{policy:?}: {counts:?}");
            }
        }
    }

    #[test]
    fn when_more_than_half_is_ejected_nothing_is_skipped() {
        let counts = Fixture::new(4).eject(&[0, 1, 2]).counts(Policy::RoundRobin, 40);
        assert_eq!(counts, [10, 10, 10, 10]);
    }

    #[test]
    fn the_endpoint_with_fewer_open_connections_wins() {
        let mut fixture = Fixture::new(2);
        fixture.states[0].open = 5;
        assert_eq!(fixture.counts(Policy::PowerOfTwoChoices, 100), [0, 100]);
    }

    #[test]
    fn recent_failures_count_against_an_endpoint_and_old_ones_do_not() {
        let mut fixture = Fixture::new(2);
        fixture.states[0].failures = 1;
        fixture.states[0].first_failure_ns = NOW - RECENT_NS;
        assert_eq!(fixture.counts(Policy::PowerOfTwoChoices, 100), [0, 100]);
        fixture.states[0].first_failure_ns = NOW - RECENT_NS - 1;
        assert!(fixture.counts(Policy::PowerOfTwoChoices, 100)[0] > 20, "it must be tried again");
    }

    #[test]
    fn a_client_keeps_its_endpoint() {
        let counts = Fixture::new(5).counts(Policy::ClientHash, 50);
        assert_eq!(counts.iter().filter(|&&count| count == 50).count(), 1, "{counts:?}");
    }
}
