//! The agent dies, restarts and is upgraded while clients connect: no connection notices.

use crate::stage::{Family, Stage, families, shop_route};
use anyhow::Result;
use std::time::Duration;
use weir_tests::{
    client::{Dial, Probe},
    share, wait,
};

const WEIGHTS: [(&str, u16, u32); 2] = [("shop/a", 80, 3), ("shop/b", 80, 1)];

families!(a_killed_agent_fails_no_connection);

fn a_killed_agent_fails_no_connection(family: Family) -> Result<()> {
    let mut stage = Stage::set(&shop_route(&WEIGHTS))?;
    let _servers = stage.serve_shop(family)?;
    let mut load = begin(&stage, family)?;
    stage.agent.kill_9()?;
    go_on(&mut load)?;
    expect_exact(load)?;
    // A client that starts when the agent is long gone.
    let report = stage.connect(&family.dial_frontend(), 100)?;
    share::check(100, &[("a", 3, report.answered_by("a/")), ("b", 1, report.answered_by("b/"))])
}

families!(a_terminated_agent_leaves_the_split_behind);

fn a_terminated_agent_leaves_the_split_behind(family: Family) -> Result<()> {
    let mut stage = Stage::set(&shop_route(&WEIGHTS))?;
    let _servers = stage.serve_shop(family)?;
    let mut load = begin(&stage, family)?;
    let status = stage.agent.terminate()?;
    assert!(status.success(), "SIGTERM is a normal end: {status}");
    go_on(&mut load)?;
    expect_exact(load)
}

families!(a_restart_fails_no_connection_and_counters_go_on);

fn a_restart_fails_no_connection_and_counters_go_on(family: Family) -> Result<()> {
    let mut stage = Stage::set(&shop_route(&WEIGHTS))?;
    let _servers = stage.serve_shop(family)?;
    stage.connect(&family.dial_frontend(), 40)?;
    let opened = |stage: &Stage| stage.agent.metric("weir_connections_opened_total", &[]);
    let before = opened(&stage)?;
    assert_eq!(before, 40.0);
    let mut held = stage.client(0)?.hold(&family.dial_frontend(), 5)?;
    assert_eq!(held.report()?.answered_in_all(), 5);
    let mut load = begin(&stage, family)?;
    for _ in 0..2 {
        stage.agent.restart()?;
        go_on(&mut load)?;
    }
    stage.agent.kill_9()?;
    stage.agent.restart()?;
    go_on(&mut load)?;
    let report = load.end()?;
    assert_eq!(report.failed_in_all(), 0, "{report:?}");
    assert_eq!(held.report()?.failed_in_all(), 0, "connections of before the restart");
    let wanted = 40 + 5 + report.attempts;
    wait::until("every connection in the counters", wait::SOON, || {
        opened(&stage).ok().filter(|now| *now == wanted as f64)
    })?;
    Ok(())
}

/// Starts a load and waits until it runs.
fn begin(stage: &Stage, family: Family) -> Result<Probe> {
    let mut load =
        stage.client(0)?.load(&Dial { pause: Duration::from_micros(300), ..family.dial_frontend() }.workers(2))?;
    go_on(&mut load)?;
    Ok(load)
}

/// Waits until a load has opened some hundred connections more.
fn go_on(load: &mut Probe) -> Result<()> {
    let now = load.report()?.attempts;
    wait::until("more connections", wait::SOON, || load.report().ok().filter(|report| report.attempts > now + 300))?;
    Ok(())
}

fn expect_exact(load: Probe) -> Result<()> {
    let report = load.end()?;
    assert_eq!(report.failed_in_all(), 0, "{report:?}");
    share::check(report.attempts, &[("a", 3, report.answered_by("a/")), ("b", 1, report.answered_by("b/"))])
}
