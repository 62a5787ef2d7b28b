//! Builds the table of a split from its legs.

use crate::abi::{
    ids::SequenceId,
    tables::{Leg, MAX_LEGS, MAX_WEIGHT, Policy, Split},
};

/// Why a split cannot be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BuildError {
    /// There are no legs, or more than 16.
    LegCount,
    /// A weight is above 1,000,000.
    Weight,
    /// All weights are zero: nothing may be chosen.
    NoWeight,
}

/// Builds a split.
///
/// # Errors
///
/// If there are no legs or more than 16, if a weight is above 1,000,000, or if all are zero.
pub fn build(legs: &[Leg], policy: Policy, sequence: SequenceId, phase: u64) -> Result<Split, BuildError> {
    if legs.is_empty() || legs.len() > MAX_LEGS {
        return Err(BuildError::LegCount);
    }
    let mut split = Split {
        sequence,
        phase,
        total: 0,
        n_legs: legs.len() as u32,
        policy: policy as u8,
        reserved: [0; 7],
        cumulative: [0; MAX_LEGS],
        legs: [Leg::default(); MAX_LEGS],
    };
    for (i, leg) in legs.iter().enumerate() {
        if leg.weight() > MAX_WEIGHT {
            return Err(BuildError::Weight);
        }
        split.total += leg.weight();
        split.cumulative[i] = split.total;
        split.legs[i] = *leg;
    }
    if split.total == 0 {
        return Err(BuildError::NoWeight);
    }
    for unused in &mut split.cumulative[legs.len()..] {
        *unused = split.total;
    }
    Ok(split)
}
