//! `weir clean` takes the programs away, and connections go where they went before.

use crate::stage::{Family, Stage, families, shop_route};
use anyhow::Result;

families!(clean_detaches_everything);

fn clean_detaches_everything(family: Family) -> Result<()> {
    let mut stage = Stage::set(&shop_route(&[("shop/a", 80, 1)]))?;
    let _servers = stage.serve_shop(family)?;
    let _untouched = stage.serve_untouched(family.frontend())?;
    let dial = family.dial_frontend();
    assert_eq!(stage.connect(&dial, 10)?.answered_by("a/"), 10);
    stage.agent.terminate()?;
    assert_eq!(stage.connect(&dial, 10)?.answered_by("a/"), 10, "programs and pins stay");
    stage.agent.clean()?;
    assert_eq!(stage.connect(&dial, 10)?.answered("untouched"), 10, "and are gone now");
    assert!(!stage.pins.path().exists(), "the pin folder is removed, too");
    stage.agent.clean()?;
    Ok(())
}
