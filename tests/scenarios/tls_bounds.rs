//! Bounds: unfinished and slow ClientHellos cost others nothing.

use crate::{
    stage::{Family, PORT, Stage, families},
    tls_stage::{NAME, Path, alone, paths},
};
use anyhow::{Result, ensure};
use std::time::Duration;
use weir_tests::{
    tls::options::{Speech, TlsOptions},
    wait,
};

paths!(ten_thousand_half_hellos_change_nothing_for_others);

fn ten_thousand_half_hellos_change_nothing_for_others(path: Path, family: Family) -> Result<()> {
    const HALF: u64 = 10_000;
    let _turn = alone();
    let stage = Stage::with_options(&path.shop(&[("shop/b", PORT, 1)]), "--hello-timeout 60s")?;
    let _server = stage.listen(family, "b/11", 11).speech(Speech::Hello).start()?;
    let good = family.dial_hello().workers(2);
    let alone = stage.client(1)?.connect(&good, 500)?;
    ensure!(alone.answered("b/11") == 500, "{alone:?}");
    let before = stage.agent.resident_bytes()?;
    let half = family.dial_frontend().speaking(TlsOptions { half: 200, ..TlsOptions::hello(NAME) });
    let mut held = stage.client(0)?.hold(&half.workers(4), HALF)?;
    let report = held.report()?;
    ensure!(report.attempts == HALF, "{report:?}");
    let beside = stage.client(1)?.connect(&good, 500)?;
    ensure!(beside.answered("b/11") == 500, "{beside:?}");
    let grown = stage.agent.resident_bytes()?.saturating_sub(before);
    ensure!(grown < HALF * 16 * 1_024, "the agent has grown by {grown} bytes");
    Ok(())
}

families!(on_the_accept_path_a_slow_hello_ends_after_its_deadline);

fn on_the_accept_path_a_slow_hello_ends_after_its_deadline(family: Family) -> Result<()> {
    let stage = Stage::with_options(&Path::Accept.shop(&[("shop/b", PORT, 1)]), "--hello-timeout 2s")?;
    let server = stage.listen(family, "b/11", 11).speech(Speech::Hello).start()?;
    let half = family.dial_frontend().speaking(TlsOptions { half: 100, ..TlsOptions::hello(NAME) });
    let mut held = stage.client(0)?.hold(&half, 5)?;
    wait::until("the deadline", Duration::from_secs(10), || {
        held.report().ok().filter(|report| report.failed_in_all() == 5)
    })?;
    stage.expect_rejected("hello_too_slow", 5)?;
    ensure!(server.accepted() == 0);
    Ok(())
}
