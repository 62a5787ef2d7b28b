//! Routes that change all the time, under load.

use crate::outages::{assert_even, split, weigh};
use anyhow::Result;
use weir_tests::cluster::Cluster;

/// Changes, one after the other: kubectl makes well over 300 a minute.
const CHANGES: u32 = 60;

#[test]
fn changes_without_a_pause_lose_no_connection() -> Result<()> {
    let cluster = Cluster::get()?;
    let space = split(&cluster, "churn")?;
    let [address, _] = space.addresses("shop")?;
    let load = space.load("client", address, 80, &["--pause-us", "1000"])?;
    for change in 0..CHANGES {
        // Other weights, the same shares.
        let weight = 1 + change % 7;
        weigh(&space, [weight, weight])?;
    }
    assert_even(&load.end()?, u64::from(CHANGES) / 2);
    Ok(())
}
