//! Ready endpoints first; without any, those that serve while they terminate; without these, reject.

use crate::stage::{Family, Stage, WEB_IPS, addresses, families};
use anyhow::Result;
use weir_tests::manifest::{Manifest, Route};

const READY: &str = "ready: true, serving: true, terminating: false";
const SERVING: &str = "ready: false, serving: true, terminating: true";
const GONE: &str = "ready: false, serving: false, terminating: true";

families!(terminating_endpoints_are_used_only_if_none_is_ready);

fn terminating_endpoints_are_used_only_if_none_is_ready(family: Family) -> Result<()> {
    let stage = Stage::set(&endpoints(&[(1, READY), (2, SERVING), (3, GONE)]))?;
    let _servers = stage.serve(family, "a", &[1, 2, 3])?;
    let dial = family.dial_frontend();
    assert_eq!(stage.connect(&dial, 20)?.answered("a/1"), 20, "the ready one");
    stage.apply(&endpoints(&[(2, SERVING), (3, GONE)]))?;
    assert_eq!(stage.connect(&dial, 20)?.answered("a/2"), 20, "the one that still serves");
    stage.apply(&endpoints(&[(3, GONE)]))?;
    assert_eq!(stage.connect(&dial, 20)?.refused(), 20, "none");
    stage.apply(&endpoints(&[(1, READY), (3, GONE)]))?;
    assert_eq!(stage.connect(&dial, 20)?.answered("a/1"), 20, "a ready one again");
    Ok(())
}

fn endpoints(states: &[(u8, &str)]) -> Manifest {
    let mut manifest = Manifest::new()
        .service("shop/web", &WEB_IPS, &[("http", 80)])
        .service("shop/a", &[], &[("http", 80)])
        .route(&Route::new("shop/web", "shop/web", &[("shop/a", 80, 1)]));
    for (host, conditions) in states {
        manifest = manifest.endpoints_in_state("shop/a", "http", 80, &addresses(&[*host]), conditions);
    }
    manifest
}
