//! Bytes that differ from place to place, so that a lost, doubled or moved block shows at once.

use std::sync::OnceLock;

/// After how many bytes the pattern repeats: a prime, so that no buffer's size divides it.
const PERIOD: usize = 65_521;

/// A place in the endless pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    at: u64,
}

impl Pattern {
    /// Returns the next bytes, at most `limit` and at most what is left of this period, and goes on.
    pub fn take(&mut self, limit: usize) -> &'static [u8] {
        let start = (self.at % PERIOD as u64) as usize;
        let end = PERIOD.min(start.saturating_add(limit));
        self.at += (end - start) as u64;
        &period()[start..end]
    }

    /// Compares bytes with the next ones and goes on; returns whether they are equal.
    pub fn matches(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let wanted = self.take(bytes.len());
            let (these, rest) = bytes.split_at(wanted.len());
            if these != wanted {
                return false;
            }
            bytes = rest;
        }
        true
    }
}

fn period() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    // Fibonacci hashing of the place: neighbours have nothing in common.
    BYTES.get_or_init(|| (0..PERIOD as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_byte_a_doubled_one_and_a_moved_block_show() {
        let mut all = Vec::new();
        let mut writer = Pattern::default();
        while all.len() < 200_000 {
            all.extend_from_slice(writer.take(10_000));
        }
        assert!(Pattern::default().matches(&all));
        let cut = [&all[..70_000], &all[70_001..]].concat();
        assert!(!Pattern::default().matches(&cut));
        let doubled = [&all[..70_000], &all[69_999..]].concat();
        assert!(!Pattern::default().matches(&doubled));
        let moved = [&all[..16_384], &all[32_768..49_152], &all[16_384..32_768]].concat();
        assert!(!Pattern::default().matches(&moved));
    }
}
