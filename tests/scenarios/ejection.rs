//! An endpoint whose connects fail is skipped for a while, but never more than half of a backend.

use crate::stage::{ENDPOINT_NET, Family, Stage, WEB_IPS, addresses, families};
use anyhow::Result;
use std::{net::IpAddr, time::Duration};
use weir_tests::{
    client::Dial,
    manifest::{Manifest, Route},
    report::Report,
    wait,
};

const OPTIONS: &str = "--eject-failures 3 --eject-base 1s";

families!(a_refusing_endpoint_is_skipped_and_comes_back);

fn a_refusing_endpoint_is_skipped_and_comes_back(family: Family) -> Result<()> {
    let stage = Stage::with_options(&four(), OPTIONS)?;
    let _well = stage.serve(family, "a", &[1, 2, 3])?;
    let dial = family.dial_frontend();
    let report = stage.connect(&dial, 100)?;
    // Three failures eject it; a second ejection may run out meanwhile, and then one more is tried.
    assert!((3..=5).contains(&report.refused()), "{report:?}");
    assert_eq!(ejected(&stage)?, 1.0);
    let _ill_no_more = stage.serve(family, "a", &[4])?;
    wait::until("the endpoint's return", wait::SOON, || {
        stage.connect(&dial, 8).ok().filter(|report| report.answered("a/4") > 0)
    })?;
    wait::until("an end of the ejection", wait::SOON, || ejected(&stage).ok().filter(|count| *count == 0.0))?;
    let report = stage.connect(&dial, 40)?;
    assert_eq!((report.failed_in_all(), report.answered("a/4")), (0, 10), "{report:?}");
    Ok(())
}

families!(at_most_half_of_a_backend_is_skipped);

fn at_most_half_of_a_backend_is_skipped(family: Family) -> Result<()> {
    let stage = Stage::with_options(&four(), "--eject-failures 3 --eject-base 60s")?;
    let _well = stage.serve(family, "a", &[1])?;
    let report = stage.connect(&family.dial_frontend(), 200)?;
    assert_eq!(ejected(&stage)?, 2.0, "{report:?}");
    let report = stage.connect(&family.dial_frontend(), 100)?;
    assert!(report.refused() >= 30, "the third ill endpoint goes on being tried: {report:?}");
    assert!(report.answered("a/1") >= 30, "{report:?}");
    Ok(())
}

families!(an_endpoint_without_a_way_is_skipped);

fn an_endpoint_without_a_way_is_skipped(family: Family) -> Result<()> {
    let stage = Stage::with_options(&four(), "--eject-failures 3 --eject-base 60s")?;
    let _servers = stage.serve(family, "a", &[1, 2, 3, 4])?;
    stage.net.no_route(0, family.address(ENDPOINT_NET, 4))?;
    skipped_in_the_end(&stage, &family.dial_frontend(), |report| report.failed("EHOSTUNREACH"))
}

families!(an_endpoint_that_does_not_answer_is_skipped);

fn an_endpoint_that_does_not_answer_is_skipped(family: Family) -> Result<()> {
    let stage = Stage::with_options(&four(), "--eject-failures 3 --eject-base 60s")?;
    let _servers = stage.serve(family, "a", &[1, 2, 3, 4])?;
    // The kernel gives up after one SYN more, a second or three later.
    stage.net.client(0).sysctl(&[("ipv4.tcp_syn_retries", "1")])?;
    let hole: IpAddr = family.address(ENDPOINT_NET, 4);
    stage.net.black_hole(hole)?;
    skipped_in_the_end(&stage, &family.dial_frontend().workers(4), |report| report.failed("ETIMEDOUT"))
}

/// Connects until a hundred connections in a row have no failure of a kind, and expects some before.
fn skipped_in_the_end(stage: &Stage, dial: &Dial, failures: impl Fn(&Report) -> u64) -> Result<()> {
    let mut seen = 0;
    wait::until("a hundred connections without a failure", Duration::from_secs(60), || {
        let report = stage.connect(dial, 100).ok()?;
        seen += failures(&report);
        assert_eq!(failures(&report), report.failed_in_all(), "{report:?}");
        (report.failed_in_all() == 0).then_some(())
    })?;
    assert!(seen >= 3, "it was tried {seen} times");
    assert_eq!(ejected(stage)?, 1.0);
    Ok(())
}

/// A backend of four endpoints, taken in turn.
fn four() -> Manifest {
    Manifest::new()
        .service("shop/web", &WEB_IPS, &[("http", 80)])
        .service("shop/a", &[], &[("http", 80)])
        .endpoints("shop/a", "http", 80, &addresses(&[1, 2, 3, 4]))
        .route(&Route { policy: Some("round-robin"), ..Route::new("shop/web", "shop/web", &[("shop/a", 80, 1)]) })
}

fn ejected(stage: &Stage) -> Result<f64> {
    stage.agent.metric("weir_backend_endpoints_ejected", &[])
}
