//! Bytes and ends pass through unchanged: in bulk, half closed, reset, slowly read, over small packets.

use crate::{
    stage::{Family, PORT, Stage},
    tls_stage::{NAME, Path, WRONG_NAME, alone, expect_ended_at_once, paths},
};
use anyhow::{Result, ensure};
use std::time::Duration;
use weir_tests::{
    client::Dial,
    tls::{
        options::{Speech, TlsOptions},
        server::Conduct,
    },
    wait,
};

const MEGABYTE: u64 = 1_000_000;

paths!(a_hundred_megabytes_go_both_ways_unchanged);

fn a_hundred_megabytes_go_both_ways_unchanged(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    let _server = stage.listen(family, "b/11", 11).speech(Speech::Hello).conduct(Conduct::Transfer).start()?;
    let probe = stage.client(0)?.transfer(&family.dial_hello(), 1, 100 * MEGABYTE, 100 * MEGABYTE, false)?;
    let report = probe.end()?;
    ensure!(report.answered("b/11") == 1, "{report:?}");
    Ok(())
}

paths!(one_side_may_end_before_the_other);

fn one_side_may_end_before_the_other(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    let server = stage.listen(family, "b/11", 11).conduct(Conduct::Transfer).start()?;
    // The client ends its side long before the server has sent all, and the other way round.
    for (up, down) in [(0, 5 * MEGABYTE), (5 * MEGABYTE, 0)] {
        let report = stage.client(0)?.transfer(&family.dial_tls(), 3, up, down, false)?.end()?;
        ensure!(report.answered("b/11") == 3, "{report:?}");
    }
    drop(server);
    let _server = stage.listen(family, "b/11", 11).conduct(Conduct::CloseFirst).start()?;
    let report = stage.connect(&Dial { until_end: true, ..family.dial_tls() }, 5)?;
    ensure!(report.answered("b/11") == 5, "{report:?}");
    Ok(())
}

paths!(resets_are_passed_on_both_ways);

fn resets_are_passed_on_both_ways(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    let server = stage.listen(family, "b/11", 11).conduct(Conduct::Reset).start()?;
    let report = stage.connect(&Dial { bytes: 100, ..family.dial_tls() }, 5)?;
    ensure!(report.failed("after ECONNRESET") == 5, "{report:?}");
    drop(server);
    let server = stage.listen(family, "b/11", 11).start()?;
    let report = stage.connect(&Dial { bytes: 100, reset: true, ..family.dial_tls() }, 5)?;
    ensure!(report.answered("b/11") == 5, "{report:?}");
    wait::until("five resets at the server", wait::SOON, || (server.resets() == 5).then_some(()))
}

paths!(a_slow_reader_holds_no_more_than_buffers);

fn a_slow_reader_holds_no_more_than_buffers(path: Path, family: Family) -> Result<()> {
    const READERS: u64 = 10;
    const BYTES: u64 = 60 * MEGABYTE;
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    let server = stage.listen(family, "b/11", 11).speech(Speech::Hello).conduct(Conduct::Transfer).start()?;
    let before = stage.agent.resident_bytes()?;
    let mut probe = stage.client(0)?.transfer(&family.dial_hello(), READERS, 0, BYTES, true)?;
    let first = probe.opened()?;
    ensure!(first.failed_in_all() == 0, "{first:?}");
    let sent = settled(|| server.sent())?;
    ensure!(sent < READERS * 30 * MEGABYTE, "the server could send {sent} bytes to readers that do not read");
    let grown = stage.agent.resident_bytes()?.saturating_sub(before);
    ensure!(grown < 8 * MEGABYTE, "the agent has grown by {grown} bytes");
    // Others are served meanwhile.
    let other = stage.client(1)?.transfer(&family.dial_hello(), 1, MEGABYTE, MEGABYTE, false)?.end()?;
    ensure!(other.answered("b/11") == 1, "{other:?}");
    let report = probe.report()?;
    ensure!(report.answered("b/11") == READERS, "{report:?}");
    Ok(())
}

/// Waits until a value has not changed for a second.
fn settled(read: impl Fn() -> u64) -> Result<u64> {
    let (mut last, mut since) = (read(), std::time::Instant::now());
    wait::until("a value that stays", wait::SOON, || {
        let now = read();
        if now != last {
            (last, since) = (now, std::time::Instant::now());
        }
        (since.elapsed() > Duration::from_secs(1)).then_some(now)
    })
}

paths!(five_thousand_connections_are_open_at_once);

fn five_thousand_connections_are_open_at_once(path: Path, family: Family) -> Result<()> {
    const COUNT: u64 = 5_000;
    let _turn = alone();
    let stage = Stage::set(&path.shop(&[("shop/a", PORT, 1), ("shop/b", PORT, 1)]))?;
    let servers = stage.serve_tls_shop(family, Speech::Hello, Conduct::Greet)?;
    let mut held = stage.client(0)?.hold(&family.dial_hello().workers(8), COUNT)?;
    let report = held.report()?;
    ensure!(report.answered_in_all() == COUNT && report.failed_in_all() == 0, "{report:?}");
    ensure!(servers.iter().map(weir_tests::tls::server::TlsServer::open).sum::<u64>() == COUNT);
    let again = held.report()?;
    ensure!(again.failed_in_all() == 0, "{again:?}");
    held.end()?;
    wait::until("the end of all", wait::SOON, || servers.iter().all(|server| server.open() == 0).then_some(()))
}

paths!(small_packets_without_offload_change_nothing);

fn small_packets_without_offload_change_nothing(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    // Without these, the kernel hands a whole write on as one packet.
    for (namespace, device) in [(stage.net.client(0), "eth0"), (stage.net.backend(0), "eth0")] {
        namespace.ip(&format!("link set {device} mtu 1280 gso_max_segs 1\nlink set lo mtu 1280 gso_max_segs 1"))?;
    }
    let server = stage.listen(family, "b/11", 11).speech(Speech::Hello).conduct(Conduct::Transfer).start()?;
    for hello_bytes in [0, 3_000, 20_000] {
        let tls = TlsOptions { hello_bytes, ..TlsOptions::hello(NAME) };
        let dial = family.dial_frontend().speaking(tls);
        let report = stage.client(0)?.transfer(&dial, 1, 2 * MEGABYTE, 2 * MEGABYTE, false)?.end()?;
        ensure!(report.answered("b/11") == 1, "{hello_bytes}: {report:?}");
    }
    let greeted = server.greeted();
    let wrong = TlsOptions { hello_bytes: 3_000, ..TlsOptions::hello(WRONG_NAME) };
    expect_ended_at_once(&stage.connect(&family.dial_frontend().speaking(wrong), 5)?)?;
    ensure!(server.greeted() == greeted, "a wrong name arrived");
    Ok(())
}
