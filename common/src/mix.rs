//! Mixing of 64-bit words: cheap, stateless, the same on host and kernel. Not for secrets.

/// Mixes one 64-bit word so that every input bit changes about half of the output bits.
///
/// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014): bijective, so different words never collide.
#[inline(always)]
#[must_use]
pub const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Mixes two words into one.
#[inline(always)]
#[must_use]
pub const fn mix2(a: u64, b: u64) -> u64 {
    mix(mix(a.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ b)
}

/// Scales a uniform 64-bit word to `0..n` without division, exact to 2⁻⁶⁴ (multiply-shift).
///
/// Returns 0 for `n == 0`. Written with 64-bit products only, because BPF has no 128-bit multiply.
#[inline(always)]
#[must_use]
pub const fn scale(word: u64, n: u32) -> u32 {
    let n = n as u64;
    let high = (word >> 32) * n;
    let low = (word & 0xffff_ffff) * n;
    ((high + (low >> 32)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn scale_equals_the_128_bit_product(word: u64, n: u32) {
            let wide = (u128::from(word) * u128::from(n)) >> 64;
            prop_assert_eq!(u128::from(scale(word, n)), wide);
        }

        #[test]
        fn scale_stays_below_n(word: u64, n in 1u32..) {
            prop_assert!(scale(word, n) < n);
        }
    }
}
