//! Each leg gets its share to within three connections, also one that rejects, however many
//! endpoints it has and however many workers connect at once.

use crate::stage::{Family, Stage, families, shop_route};
use anyhow::Result;
use std::time::Duration;
use weir_tests::share;

families!(each_leg_gets_its_exact_share_and_an_invalid_one_rejects_its_own);

fn each_leg_gets_its_exact_share_and_an_invalid_one_rejects_its_own(family: Family) -> Result<()> {
    let stage = Stage::set(&shop_route(&[("shop/a", 80, 70), ("shop/b", 80, 20), ("shop/missing", 80, 10)]))?;
    let _servers = stage.serve_shop(family)?;
    let report = stage.connect(&family.dial_frontend().workers(4), 1_000)?;
    share::check(
        1_000,
        &[("a", 70, report.answered_by("a/")), ("b", 20, report.answered_by("b/")), ("rejected", 10, report.refused())],
    )?;
    assert_eq!(report.failed_in_all(), report.refused(), "{report:?}");
    // A refusal that came as a packet would take a round trip, one that was never sent a second.
    let slowest = Duration::from_nanos(report.failure.p99);
    assert!(slowest < Duration::from_millis(50), "rejected after {slowest:?}");
    Ok(())
}

families!(one_in_a_hundred_is_one_in_each_hundred);

fn one_in_a_hundred_is_one_in_each_hundred(family: Family) -> Result<()> {
    let stage = Stage::set(&shop_route(&[("shop/a", 80, 99), ("shop/b", 80, 1)]))?;
    let _servers = stage.serve_shop(family)?;
    for _ in 0..5 {
        let report = stage.connect(&family.dial_frontend(), 100)?;
        let canary = report.answered_by("b/");
        assert!((1..=2).contains(&canary) || canary == 0 && report.answered_by("a/") == 100, "{report:?}");
        share::check(100, &[("a", 99, report.answered_by("a/")), ("b", 1, canary)])?;
    }
    Ok(())
}
