//! Chooses a leg: exactly by weight, or (client-hash) always the same for the same client.
//!
//! Exact: ticket n of a split sits at `phase + n · φ⁻¹` (mod 1) on the unit circle, a Weyl sequence
//! with the golden ratio, whose points are spread more evenly than those of any other step. Each leg
//! owns an arc as long as its share, so after any n connections it has had its share to within a few
//! connections, where random choice is off by about √n.

use crate::{
    abi::tables::{Leg, MAX_LEGS, Policy, Split},
    env::Env,
    mix::{mix2, scale},
};
use core::hint::black_box;

/// 2⁶⁴ divided by the golden ratio, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Chooses a leg of `split`; returns its number, 0..[`MAX_LEGS`].
#[inline(always)]
pub fn pick<E: Env>(env: &E, split: &Split) -> usize {
    match split.policy() {
        Policy::PowerOfTwoChoices | Policy::RoundRobin | Policy::Random => {
            by_ticket(split, env.next_ticket(split.sequence))
        }
        Policy::ClientHash => by_client(split, env.client_hash()),
    }
}

/// Returns the number of the leg of the n-th ticket.
#[inline(always)]
#[must_use]
pub fn by_ticket(split: &Split, ticket: u64) -> usize {
    let point = split.phase.wrapping_add(ticket.wrapping_mul(GOLDEN));
    // The black box keeps the compiler from seeing comparisons and making them branches.
    let at = black_box(u64::from(scale(point, split.total)));
    // A scan over the whole fixed array, without branches: for the verifier that is one path, where a
    // scan with an early end would be sixteen. The unused legs' cumulative weights are the total, so
    // they are never counted.
    let mut leg = 0;
    for cumulative in &split.cumulative {
        leg += is_less(at, u64::from(*cumulative)) ^ 1;
    }
    index(leg)
}

/// Bounds a leg's number in a way that the verifier sees. It is in bounds anyway.
#[inline(always)]
const fn index(leg: u64) -> usize {
    (leg as usize) & (MAX_LEGS - 1)
}

/// Returns 1 if `a < b`, else 0, as arithmetic; both below 2⁶³.
#[inline(always)]
fn is_less(a: u64, b: u64) -> u64 {
    a.wrapping_sub(b) >> 63
}

/// Returns the number of the leg of a client: weighted rendezvous hashing.
///
/// Each leg draws an exponential variate −ln(u)/weight from the client's hash and the leg's name,
/// and the smallest wins: a client's leg follows the weights, and when one weight changes, clients
/// move only to or from that leg (Thaler, Ravishankar: "A name-based mapping scheme for
/// rendezvous", 1998, with weights by Schindelhauer and Schomaker, 2005).
#[inline(always)]
#[must_use]
pub fn by_client(split: &Split, client: u64) -> usize {
    // Larger than any draw, so that the first leg with a weight wins over it.
    let mut best = Draw { leg: 0, value: 1 << 42, weight: 1 };
    for (i, leg) in (0..).zip(&split.legs) {
        best = best.or_better(i, leg, client);
    }
    index(best.leg)
}

/// The winning leg so far.
#[derive(Clone, Copy)]
struct Draw {
    leg: u64,
    /// −log₂ of the leg's hash, below 2⁴³.
    value: u64,
    weight: u64,
}

impl Draw {
    /// Returns the leg at `i` if it draws value/weight smaller, else this one.
    #[inline(always)]
    fn or_better(self, i: u64, leg: &Leg, client: u64) -> Self {
        let weight = u64::from(leg.weight());
        let value = minus_log2(mix2(client, leg.stats.0));
        // A comparison of fractions without a division: both products fit in 63 bits, since values are
        // below 2^43 and weights below 2^20. A weight of 0 never wins.
        let wins = is_less(value * self.weight, self.value * weight);
        // The black box hides that this is 0 or 1, so that the product does not become a branch.
        let wins = black_box(wins);
        let chosen = |a: u64, b: u64| b.wrapping_add(a.wrapping_sub(b).wrapping_mul(wins));
        Self { leg: chosen(i, self.leg), value: chosen(value, self.value), weight: chosen(weight, self.weight) }
    }
}

/// Returns −log₂(u / 2⁶⁴) in units of 2⁻³², with an error below 10⁻⁴; less than 2³⁸.
#[inline(always)]
fn minus_log2(u: u64) -> u64 {
    // The word's leading one gives the whole part; the next 31 bits, x in 0..1, the fraction
    // log2(1 + x), here by the polynomial x + x(1-x)(c0 - c1 x + c2 x² - c3 x³) (least squares).
    let u = u | 1;
    let zeros = u64::from(u.leading_zeros());
    let normal = u << zeros;
    let x = ((normal << 1) >> 33) as i64;
    let mut sum = COEFFICIENTS[4];
    sum = COEFFICIENTS[3] + ((sum * x) >> 31);
    sum = COEFFICIENTS[2] + ((sum * x) >> 31);
    sum = COEFFICIENTS[1] + ((sum * x) >> 31);
    sum = COEFFICIENTS[0] + ((sum * x) >> 31);
    let bend = (x * ((1 << 31) - x)) >> 31;
    let fraction = x + ((bend * sum) >> 31);
    ((zeros + 1) << 32) - ((fraction as u64) << 1)
}

/// log₂(1+x) ≈ x + x(1−x)·Σ cᵢxⁱ on 0..1, least squares, in units of 2⁻³¹; error below 5·10⁻⁶.
const COEFFICIENTS: [i64; 5] = [950_524_512, -593_346_925, 394_354_001, -208_753_282, 55_735_274];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        abi::ids::{BackendId, SequenceId, StatsId},
        split::build::{BuildError, build},
    };
    use proptest::prelude::*;
    use std::{collections::BTreeMap, vec, vec::Vec};

    fn split(weights: &[u32], policy: Policy, phase: u64) -> Split {
        let legs: Vec<Leg> =
            (1_u64..).zip(weights).map(|(i, &weight)| Leg::backend(StatsId(i), weight, BackendId(i))).collect();
        build(&legs, policy, SequenceId(1), phase).expect("valid weights")
    }

    /// The largest distance, over all prefixes of `n` tickets, of a leg's count from its share.
    fn largest_error(weights: &[u32], phase: u64, n: u64) -> f64 {
        let split = split(weights, Policy::PowerOfTwoChoices, phase);
        let mut got = vec![0_u64; weights.len()];
        let mut worst = 0_f64;
        for ticket in 0..n {
            let leg = split.legs.get(by_ticket(&split, ticket)).expect("a leg");
            got[leg.stats.0 as usize - 1] += 1;
            for (count, weight) in got.iter().zip(weights) {
                let share = (ticket + 1) as f64 * f64::from(*weight) / f64::from(split.total);
                worst = worst.max((*count as f64 - share).abs());
            }
        }
        worst
    }

    #[test]
    fn any_prefix_of_ten_thousand_tickets_is_within_four_connections_of_the_shares() {
        let cases: [&[u32]; 10] = [
            &[1, 1],
            &[99, 1],
            &[70, 30],
            &[90, 9, 1],
            &[50, 30, 15, 5],
            &[1_000_000, 1],
            &[1, 1_000_000],
            &[0, 7, 0, 3],
            &[1; 16],
            &[1_000_000; 16],
        ];
        for weights in cases {
            for phase in 0..16_u64 {
                let error = largest_error(weights, phase << 60 | 0x1234_5678, 10_000);
                assert!(error <= 4.0, "weights {weights:?}, phase {phase}: off by {error}");
            }
        }
    }

    #[test]
    fn one_in_a_million_is_met_over_millions_of_tickets() {
        let split = split(&[1, 1_000_000], Policy::PowerOfTwoChoices, 0);
        let hits =
            (0..10_000_010).filter(|&t| split.legs.get(by_ticket(&split, t)).unwrap().stats == StatsId(1)).count();
        assert!((8..=12).contains(&hits), "{hits} hits instead of 10");
    }

    proptest! {
        #[test]
        fn shares_are_exact_for_any_weights(
            weights in prop::collection::vec(0..=1_000_000_u32, 1..=16),
            phase: u64,
        ) {
            prop_assume!(weights.iter().any(|&w| w > 0));
            // The Weyl sequence's discrepancy grows like log n. Over every arc of the circle, whatever
            // its place and length, the worst within 2,000 tickets is 4.09.
            prop_assert!(largest_error(&weights, phase, 2_000) <= 4.1);
        }

        #[test]
        fn weight_zero_never_gets_a_connection(
            weights in prop::collection::vec(prop_oneof![Just(0_u32), 0..=1_000_000_u32], 1..=16),
            phase: u64,
            ticket: u64,
            policy in prop_oneof![Just(Policy::PowerOfTwoChoices), Just(Policy::ClientHash)],
        ) {
            prop_assume!(weights.iter().any(|&w| w > 0));
            let split = split(&weights, policy, phase);
            let leg = match policy {
                Policy::ClientHash => split.legs.get(by_client(&split, ticket)),
                Policy::PowerOfTwoChoices | Policy::RoundRobin | Policy::Random => split.legs.get(by_ticket(&split, ticket)),
            };
            prop_assert!(leg.expect("a leg").weight() > 0);
        }

        #[test]
        fn the_logarithm_is_exact_to_a_hundred_thousandth(u in 1_u64..) {
            let expected = 64.0 - (u as f64).log2();
            let got = minus_log2(u) as f64 / 4_294_967_296.0;
            prop_assert!((expected - got).abs() < 1e-5, "{u}: {got} instead of {expected}");
        }
    }

    #[test]
    fn a_single_leg_gets_everything() {
        let split = split(&[7], Policy::PowerOfTwoChoices, 99);
        assert!((0..1_000).all(|t| split.legs.get(by_ticket(&split, t)).unwrap().stats == StatsId(1)));
    }

    #[test]
    fn all_weights_zero_cannot_be_built() {
        let legs = [Leg::backend(StatsId(1), 0, BackendId(1))];
        assert_eq!(build(&legs, Policy::Random, SequenceId(1), 0), Err(BuildError::NoWeight));
        assert_eq!(build(&[], Policy::Random, SequenceId(1), 0), Err(BuildError::LegCount));
        let heavy = [Leg::backend(StatsId(1), 1_000_001, BackendId(1))];
        assert_eq!(build(&heavy, Policy::Random, SequenceId(1), 0), Err(BuildError::Weight));
        assert_eq!(build(&[legs[0]; 17], Policy::Random, SequenceId(1), 0), Err(BuildError::LegCount));
    }

    fn clients_by_leg(weights: &[u32], clients: u64) -> Vec<u64> {
        let split = split(weights, Policy::ClientHash, 0);
        (0..clients).map(|c| split.legs.get(by_client(&split, crate::mix::mix(c))).expect("a leg").stats.0).collect()
    }

    #[test]
    fn clients_follow_the_weights() {
        let mut counts = BTreeMap::new();
        for leg in clients_by_leg(&[70, 25, 5], 100_000) {
            *counts.entry(leg).or_insert(0_i64) += 1;
        }
        // Three standard deviations of 100,000 draws are below 450.
        assert!((counts[&1] - 70_000).abs() < 450, "{counts:?}");
        assert!((counts[&2] - 25_000).abs() < 450, "{counts:?}");
        assert!((counts[&3] - 5_000).abs() < 450, "{counts:?}");
    }

    #[test]
    fn a_changed_weight_moves_clients_only_to_or_from_its_leg() {
        let before = clients_by_leg(&[70, 25, 5], 20_000);
        let after = clients_by_leg(&[70, 25, 20], 20_000);
        for (client, (old, new)) in before.iter().zip(&after).enumerate() {
            assert!(old == new || *new == 3, "client {client} moved from leg {old} to leg {new}");
        }
    }
}
