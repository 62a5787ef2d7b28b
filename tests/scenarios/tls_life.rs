//! The agent dies and restarts, and routes change, while TLS clients connect.

use crate::{
    stage::{Family, PORT, Stage, families, shop},
    tls_stage::{NAME, Path, go_on, paths},
};
use anyhow::{Result, ensure};
use std::time::Duration;
use weir_tests::{
    client::{Dial, Probe},
    manifest::{Manifest, Route},
    report::Report,
    share,
    tls::{
        options::{Speech, TlsOptions},
        server::Conduct,
    },
    wait,
};

const WEIGHTS: [(&str, u16, u32); 2] = [("shop/a", PORT, 3), ("shop/b", PORT, 1)];

/// How long a client of a dead agent may wait for its error.
const NEVER_A_HANG: Duration = Duration::from_secs(5);

fn begin(stage: &Stage, family: Family) -> Result<Probe> {
    let dial = Dial { pause: Duration::from_micros(500), ..family.dial_hello() };
    let mut load = stage.client(0)?.load(&dial.workers(2))?;
    go_on(&mut load, 100)?;
    Ok(load)
}

families!(on_the_verify_path_a_killed_agent_fails_no_connection);

fn on_the_verify_path_a_killed_agent_fails_no_connection(family: Family) -> Result<()> {
    let mut stage = Stage::set(&Path::Verify.shop(&WEIGHTS))?;
    let _servers = stage.serve_tls_shop(family, Speech::Hello, Conduct::Greet)?;
    let mut held = stage.client(0)?.hold(&family.dial_hello(), 10)?;
    ensure!(held.report()?.answered_in_all() == 10);
    let mut load = begin(&stage, family)?;
    stage.agent.kill_9()?;
    go_on(&mut load, 500)?;
    stage.agent.restart()?;
    go_on(&mut load, 500)?;
    let report = load.end()?;
    ensure!(report.failed_in_all() == 0, "{report:?}");
    share::check(report.attempts, &[("a", 3, report.answered_by("a/")), ("b", 1, report.answered_by("b/"))])?;
    ensure!(held.report()?.failed_in_all() == 0, "connections of before");
    Ok(())
}

families!(on_the_verify_path_wrong_names_end_in_time_while_the_agent_is_dead);

fn on_the_verify_path_wrong_names_end_in_time_while_the_agent_is_dead(family: Family) -> Result<()> {
    let mut stage = Stage::set(&Path::Verify.shop(&[("shop/b", PORT, 1)]))?;
    let server = stage.listen(family, "b/11", 11).speech(Speech::Hello).start()?;
    stage.agent.kill_9()?;
    // Connections from the moment of its death wait for the next agent; later ones end by themselves.
    let wrong = family.dial_frontend().speaking(TlsOptions::hello("wrong.example"));
    let mut waiting = stage.client(0)?.hold(&wrong.clone().workers(4), 4)?;
    wait::until("a wrong name that ends in time", Duration::from_secs(30), || {
        let mut one = stage.client(0).ok()?.hold(&wrong, 1).ok()?;
        wait::until("its error", Duration::from_secs(8), || {
            one.report().ok().filter(|report| report.failed_in_all() == 1)
        })
        .ok()
    })?;
    ensure!(stage.connect(&family.dial_hello(), 10)?.answered("b/11") == 10);
    stage.agent.restart()?;
    wait::until("the end of those that waited", Duration::from_secs(5), || {
        waiting.report().ok().filter(|report| report.failed_in_all() == 4)
    })?;
    ensure!(server.greeted() == 10, "a wrong name arrived");
    Ok(())
}

families!(on_the_accept_path_a_killed_agent_is_an_error_and_never_a_hang);

fn on_the_accept_path_a_killed_agent_is_an_error_and_never_a_hang(family: Family) -> Result<()> {
    let mut stage = Stage::set(&Path::Accept.shop(&[("shop/b", PORT, 1)]))?;
    let _server = stage.listen(family, "b/11", 11).speech(Speech::Hello).start()?;
    // After the hello, and during it.
    let mut after = stage.client(0)?.hold(&family.dial_hello(), 5)?;
    ensure!(after.report()?.answered("b/11") == 5);
    let half = family.dial_frontend().speaking(TlsOptions { half: 100, ..TlsOptions::hello(NAME) });
    let mut during = stage.client(0)?.hold(&half, 5)?;
    ensure!(during.report()?.failed_in_all() == 0);
    stage.agent.kill_9()?;
    for probe in [&mut after, &mut during] {
        wait::until("an error", NEVER_A_HANG, || probe.report().ok().filter(|report| report.failed_in_all() == 5))?;
    }
    // Before it.
    let report = stage.connect(&family.dial_hello(), 5)?;
    ensure!(report.failed_in_all() == 5, "{report:?}");
    let slowest = Duration::from_nanos(report.failure.max.max(report.late_failure.max));
    ensure!(slowest < NEVER_A_HANG, "failed after {slowest:?}");
    stage.agent.restart()?;
    let report = stage.connect(&family.dial_hello(), 10)?;
    ensure!(report.answered("b/11") == 10, "after the restart: {report:?}");
    Ok(())
}

families!(on_the_accept_path_a_new_agent_takes_over_while_the_old_one_drains);

fn on_the_accept_path_a_new_agent_takes_over_while_the_old_one_drains(family: Family) -> Result<()> {
    let mut stage = Stage::with_options(&Path::Accept.shop(&[("shop/b", PORT, 1)]), "--drain-timeout 20s")?;
    let _server = stage.listen(family, "b/11", 11).speech(Speech::Hello).start()?;
    let mut held = stage.client(0)?.hold(&family.dial_hello(), 5)?;
    ensure!(held.report()?.answered("b/11") == 5);
    let old = stage.agent.replace()?;
    ensure!(held.report()?.failed_in_all() == 0, "open connections stay with the old agent");
    let report = stage.connect(&family.dial_hello(), 20)?;
    ensure!(report.answered("b/11") == 20, "new ones go to the new agent: {report:?}");
    ensure!(held.end()?.failed_in_all() == 0);
    old.wait_end()
}

families!(a_frontend_moves_between_the_paths_without_a_failed_connection);

fn a_frontend_moves_between_the_paths_without_a_failed_connection(family: Family) -> Result<()> {
    let stage = Stage::set(&Path::Verify.shop(&WEIGHTS))?;
    let _servers = stage.serve_tls_shop(family, Speech::Hello, Conduct::Greet)?;
    let mut load = begin(&stage, family)?;
    let mut held = Vec::new();
    for _ in 0..3 {
        for path in [Path::Accept, Path::Verify] {
            held.push(stage.client(1)?.hold(&family.dial_hello(), 3)?);
            stage.apply(&path.shop(&WEIGHTS))?;
            go_on(&mut load, 200)?;
        }
    }
    let report = load.end()?;
    ensure!(report.failed_in_all() == 0, "{report:?}");
    for mut held in held {
        let report = held.report()?;
        ensure!(report.answered_in_all() == 3 && report.failed_in_all() == 0, "connections under way: {report:?}");
    }
    Ok(())
}

families!(a_port_moves_between_tcproute_and_tlsroute_without_a_failed_connection);

fn a_port_moves_between_tcproute_and_tlsroute_without_a_failed_connection(family: Family) -> Result<()> {
    let plain = shop().route(&Route::new("shop/tcp", "shop/web", &WEIGHTS));
    let stage = Stage::set(&plain)?;
    let _servers = stage.serve_tls_shop(family, Speech::Hello, Conduct::Greet)?;
    let mut load = begin(&stage, family)?;
    for manifest in [Path::Verify.shop(&WEIGHTS), plain.clone(), Path::Accept.shop(&WEIGHTS), plain] {
        stage.apply(&manifest)?;
        go_on(&mut load, 200)?;
    }
    let report = load.end()?;
    ensure!(report.failed_in_all() == 0, "{report:?}");
    Ok(())
}

paths!(names_and_weights_change_without_a_failed_connection);

fn names_and_weights_change_without_a_failed_connection(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&WEIGHTS))?;
    let _servers = stage.serve_tls_shop(family, Speech::Hello, Conduct::Greet)?;
    let mut load = begin(&stage, family)?;
    for number in 1..8_u32 {
        let weights = [("shop/a", PORT, number), ("shop/b", PORT, 8 - number)];
        stage.apply(&with_more_names(path, number, &weights))?;
        go_on(&mut load, 50)?;
    }
    let report: Report = load.end()?;
    ensure!(report.failed_in_all() == 0, "{report:?}");
    Ok(())
}

/// The route, and one more with other names and the same legs.
fn with_more_names(path: Path, number: u32, weights: &[(&str, u16, u32)]) -> Manifest {
    let name = format!("n{number}.example");
    path.shop(weights).route(&Route::tls("shop/more", "shop/web", &[&name], weights))
}
