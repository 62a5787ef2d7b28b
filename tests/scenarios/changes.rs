//! Changes of weights and endpoints: new connections follow soon, open ones stay where they are.

use crate::stage::{Family, Stage, WEB_IPS, addresses, families, shop, shop_route};
use anyhow::Result;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;
use weir_tests::{
    client::Dial,
    manifest::{Manifest, Route},
    wait,
};

/// A quiet machine takes a few milliseconds beside the 100 that a folder of files may settle; this
/// bound is for a busy one.
const FOLLOWED: Duration = Duration::from_millis(1_000);

families!(new_connections_follow_a_changed_weight_soon);

fn new_connections_follow_a_changed_weight_soon(family: Family) -> Result<()> {
    let stage = Stage::set(&shop_route(&[("shop/a", 80, 1), ("shop/b", 80, 0)]))?;
    let _servers = stage.serve_shop(family)?;
    let mut load = stage.client(0)?.load(&Dial { pause: Duration::from_micros(200), ..family.dial_frontend() })?;
    wait::until("the first connection", wait::SOON, || load.report().ok().filter(|report| report.attempts > 10))?;
    let manifest = shop_route(&[("shop/a", 80, 0), ("shop/b", 80, 1)]);
    let written = now()?;
    stage.config.write("main.yaml", &manifest)?;
    wait::until("a connection that follows", wait::SOON, || load.report().ok().filter(|r| r.answered_by("b/") > 10))?;
    let report = load.end()?;
    assert_eq!(report.failed_in_all(), 0, "{report:?}");
    let followed = Duration::from_nanos(report.first_ns["b/11"]).saturating_sub(written);
    assert!(followed < FOLLOWED, "the first connection followed after {followed:?}");
    Ok(())
}

families!(open_connections_survive_changed_weights_and_removed_endpoints);

fn open_connections_survive_changed_weights_and_removed_endpoints(family: Family) -> Result<()> {
    let stage = Stage::set(&shop_route(&[("shop/a", 80, 1), ("shop/b", 80, 1)]))?;
    let _servers = stage.serve_shop(family)?;
    let mut held = stage.client(0)?.hold(&family.dial_frontend(), 20)?;
    let before = held.report()?;
    assert_eq!(before.answered_in_all(), 20, "{before:?}");
    stage.apply(&shop_route(&[("shop/a", 80, 0), ("shop/b", 80, 1)]))?;
    assert_eq!(held.report()?.failed_in_all(), 0, "after the change of weights");
    stage.apply(&shop().route(&Route::new("shop/web", "shop/web", &[("shop/missing", 80, 1)])))?;
    assert_eq!(held.report()?.failed_in_all(), 0, "after the removal of both legs");
    stage.apply(&without_backends())?;
    let after = held.report()?;
    assert_eq!(after.failed_in_all(), 0, "after the removal of every endpoint");
    assert_eq!(after.answers, before.answers);
    assert_eq!(stage.connect(&family.dial_frontend(), 5)?.refused(), 5, "new ones are rejected");
    Ok(())
}

families!(a_hundred_changes_a_second_fail_no_connection);

fn a_hundred_changes_a_second_fail_no_connection(family: Family) -> Result<()> {
    const CHANGES: u32 = 200;
    let stage = Stage::set(&churn(0))?;
    let _servers = stage.serve_shop(family)?;
    let before = stage.agent.generation()?;
    let mut load =
        stage.client(0)?.load(&Dial { pause: Duration::from_micros(300), ..family.dial_frontend() }.workers(2))?;
    wait::until("the first connection", wait::SOON, || load.report().ok().filter(|report| report.attempts > 10))?;
    for change in 1..=CHANGES {
        stage.config.write("main.yaml", churn(change))?;
        // The rate of the changes.
        std::thread::sleep(Duration::from_millis(10));
    }
    let during = stage.agent.generation()? - before;
    stage.apply(&shop_route(&[("shop/a", 80, 1), ("shop/b", 80, 1)]))?;
    let report = load.end()?;
    assert_eq!(report.failed_in_all(), 0, "{report:?}");
    assert!(during >= 3, "steady writing must not keep changes waiting: {during} states in 2 s");
    Ok(())
}

/// Weights and endpoints that differ from one number to the next, all of them good.
fn churn(number: u32) -> Manifest {
    let endpoints: &[u8] = [&[1, 2, 3][..], &[1], &[2, 3], &[3, 1]][number as usize % 4];
    Manifest::new()
        .service("shop/web", &WEB_IPS, &[("http", 80)])
        .service("shop/a", &[], &[("http", 80)])
        .service("shop/b", &[], &[("http", 80)])
        .endpoints("shop/a", "http", 80, &addresses(endpoints))
        .endpoints("shop/b", "http", 80, &addresses(&[11]))
        .route(&Route::new("shop/web", "shop/web", &[("shop/a", 80, number % 7 + 1), ("shop/b", 80, number % 5)]))
}

fn without_backends() -> Manifest {
    Manifest::new().service("shop/web", &WEB_IPS, &[("http", 80)]).route(&Route::new(
        "shop/web",
        "shop/web",
        &[("shop/a", 80, 1)],
    ))
}

fn now() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_MONOTONIC)?.into())
}
