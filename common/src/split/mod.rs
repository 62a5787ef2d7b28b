//! Splits: weights made into a table, and one leg chosen from it.

pub mod build;
pub mod pick;

use crate::abi::tables::{Policy, Split};

impl Split {
    /// Reads the policy.
    #[inline(always)]
    #[must_use]
    pub const fn policy(&self) -> Policy {
        Policy::from_abi(self.policy)
    }
}
