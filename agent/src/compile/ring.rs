//! Consistent-hash rings: which endpoint a bucket of clients belongs to.

use weir_common::{abi::ids::EndpointId, mix::mix2};

/// Buckets of a ring. The same for every backend: with another number clients would move.
pub(super) const BUCKETS: u32 = 1_024;

/// Returns, for each bucket, the position of its endpoint in `endpoints`.
///
/// Rendezvous hashing: every bucket goes to the endpoint that draws the highest for it, so when an
/// endpoint comes or goes, only its own buckets move.
pub(super) fn ring(endpoints: &[EndpointId]) -> impl Iterator<Item = u32> {
    (0..BUCKETS).map(|bucket| {
        let winner = endpoints
            .iter()
            .enumerate()
            .max_by_key(|(_, endpoint)| mix2(endpoint.0, u64::from(bucket)))
            .map_or(0, |(slot, _)| slot);
        winner as u32
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_common::mix::mix;

    fn endpoints(n: u64) -> Vec<EndpointId> {
        (1..=n).map(|i| EndpointId(mix(i))).collect()
    }

    #[test]
    fn buckets_are_spread_over_all_endpoints() {
        let endpoints = endpoints(8);
        let mut counts = [0_u32; 8];
        for slot in ring(&endpoints) {
            counts[slot as usize] += 1;
        }
        // 128 each in the mean; four standard deviations are 42.
        assert!(counts.iter().all(|count| (86..=170).contains(count)), "{counts:?}");
    }

    #[test]
    fn an_endpoint_that_goes_moves_only_its_own_buckets() {
        let before = endpoints(8);
        let mut after = before.clone();
        let gone = after.remove(3);
        for (old, new) in ring(&before).zip(ring(&after)) {
            let old = before[old as usize];
            assert!(old == gone || old == after[new as usize]);
        }
    }
}
