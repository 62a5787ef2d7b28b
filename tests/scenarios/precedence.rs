//! Of several routes on one Service the oldest wins, then the first by name; the losers are told.

use crate::stage::{Family, Stage, families, shop};
use anyhow::Result;
use weir_tests::manifest::{Manifest, Route};

families!(the_oldest_route_wins_and_then_the_first_by_name);

fn the_oldest_route_wins_and_then_the_first_by_name(family: Family) -> Result<()> {
    let old = "2024-01-01T00:00:00Z";
    let young = "2025-01-01T00:00:00Z";
    let stage = Stage::set(&routes(young, old))?;
    let _servers = stage.serve_shop(family)?;
    let dial = family.dial_frontend();
    assert_eq!(stage.connect(&dial, 20)?.answered_by("b/"), 20, "the older one");

    let config = stage.config.path().display().to_string();
    let check = stage.agent.run(&["check", &config])?;
    let text = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(text.contains("Superseded"), "weir check names the loser:\n{text}");

    stage.apply(&routes(old, young))?;
    assert_eq!(stage.connect(&dial, 20)?.answered_by("a/"), 20, "the older one, after the change");
    stage.apply(&routes(old, old))?;
    assert_eq!(stage.connect(&dial, 20)?.answered_by("a/"), 20, "of equal age the first by name");
    Ok(())
}

/// Two routes: `shop/first` to `a`, `shop/second` to `b`.
fn routes(first: &str, second: &str) -> Manifest {
    shop()
        .route(&Route { created: Some(first), ..Route::new("shop/first", "shop/web", &[("shop/a", 80, 1)]) })
        .route(&Route { created: Some(second), ..Route::new("shop/second", "shop/web", &[("shop/b", 80, 1)]) })
}
