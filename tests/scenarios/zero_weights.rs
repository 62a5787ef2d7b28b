//! A weight of 0 gets nothing, even alone; a route without any weight rejects everything.

use crate::stage::{Family, Stage, families, shop_route};
use anyhow::Result;

families!(weight_zero_gets_nothing_even_alone);

fn weight_zero_gets_nothing_even_alone(family: Family) -> Result<()> {
    let stage = Stage::set(&shop_route(&[("shop/a", 80, 1), ("shop/b", 80, 0)]))?;
    let _servers = stage.serve_shop(family)?;
    let _left_alone = stage.serve_untouched(family.frontend())?;
    let dial = family.dial_frontend();
    assert_eq!(stage.connect(&dial, 50)?.answered_by("a/"), 50);
    stage.apply(&shop_route(&[("shop/a", 80, 0)]))?;
    assert_eq!(stage.connect(&dial, 50)?.refused(), 50);
    stage.apply(&shop_route(&[("shop/a", 80, 0), ("shop/b", 80, 0)]))?;
    assert_eq!(stage.connect(&dial, 50)?.refused(), 50);
    Ok(())
}
