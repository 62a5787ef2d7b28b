//! Endpoints of one family serve clients of that family; the other's clients are rejected at once.

use crate::stage::{Family, Stage, WEB_IPS, scenario};
use anyhow::Result;
use weir_tests::manifest::{Manifest, Route};

scenario!(a_backend_of_one_family_rejects_the_other);

fn a_backend_of_one_family_rejects_the_other() -> Result<()> {
    let manifest = Manifest::new()
        .service("shop/web", &WEB_IPS, &[("http", 80)])
        .service("shop/a", &[], &[("http", 80)])
        .service("shop/b", &[], &[("http", 80)])
        .endpoints("shop/a", "http", 80, &["10.201.0.1"])
        .endpoints("shop/b", "http", 80, &["10.201.0.11", "fd00:201::11"])
        .route(&Route::new("shop/web", "shop/web", &[("shop/a", 80, 3), ("shop/b", 80, 1)]));
    let stage = Stage::set(&manifest)?;
    let _v4 = [stage.serve(Family::V4, "a", &[1])?, stage.serve(Family::V4, "b", &[11])?];
    let _v6 = stage.serve(Family::V6, "b", &[11])?;
    let v4 = stage.connect(&Family::V4.dial_frontend(), 100)?;
    assert_eq!(v4.failed_in_all(), 0, "{v4:?}");
    assert!(v4.answered_by("a/").abs_diff(75) <= 3, "{v4:?}");
    let v6 = stage.connect(&Family::V6.dial_frontend(), 100)?;
    assert!(v6.refused().abs_diff(75) <= 3, "the leg keeps its share and rejects it: {v6:?}");
    assert_eq!(v6.answered_by("b/") + v6.refused(), 100, "{v6:?}");
    Ok(())
}
