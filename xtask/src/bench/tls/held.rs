//! What open connections cost: unfinished ClientHellos, idle connections, readers that do not read.

use super::{
    super::{
        sample::Sample,
        table::{Cell, Table},
        tcp::rates,
    },
    arena::{HANDSHAKE, HOLD, NAME, TRANSFER},
    paths::{Path, Paths},
};
use crate::interrupt;
use anyhow::{Result, ensure};
use std::{thread, time::Duration};
use weir_tests::{
    client::{Dial, Probe},
    tls::options::TlsOptions,
    wait,
};

/// Connections at once.
const OPEN: u64 = 10_000;
/// Bytes of an unfinished hello.
const HALF: usize = 200;
/// Clients that do not read, and what each of them asks for, bytes.
const SLOW: u64 = 50;
const ASKED: u64 = 256 << 20;

/// Opens connections and keeps them; returns how many there are.
fn hold(paths: &Paths<'_>, path: Path, tls: TlsOptions) -> Result<(Probe, u64)> {
    interrupt::check()?;
    let (client, to) = paths.client(path, HOLD.1);
    let mut held = client.hold(&Dial::to(to[0]).speaking(tls).workers(4), OPEN)?;
    let report = held.report()?;
    Ok((held, report.attempts - report.failed_in_all()))
}

/// The rate of good handshakes beside unfinished ones.
pub(super) fn half_hellos(paths: &Paths<'_>) -> Result<Table> {
    let mut table = Table::new(
        "TLS: real handshakes beside unfinished ClientHellos, everything on one CPU",
        &["path", "unfinished", "handshakes, to those without", "without, a second", "with, a second"],
    );
    for path in [Path::Verify, Path::Accept] {
        let (mut without, mut with, mut open) = (Vec::new(), Vec::new(), 0);
        for _ in 0..paths.plan.rounds.min(3) {
            let measure = || paths.measure(path, HANDSHAKE.1, paths.plan.round, "handshake", "");
            without.push(measure()?);
            let half = TlsOptions { half: HALF, ..TlsOptions::hello(NAME) };
            let (held, count) = hold(paths, path, half)?;
            open = count;
            with.push(measure()?);
            drop(held.end()?);
        }
        let (without, with) = (rates(&without), rates(&with));
        table.row(
            path.name(),
            vec![
                Cell::Number(open as f64, 0),
                Cell::Ratio(Sample::ratio(&with, &without)),
                Cell::Number(Sample::of(&without).median, 0),
                Cell::Number(Sample::of(&with).median, 0),
            ],
        );
    }
    table.note("As many as the limits on open files allow, of 10,000.");
    Ok(table)
}

/// The agent's memory, a connection.
pub(super) fn memory(paths: &Paths<'_>) -> Result<Table> {
    let mut table = Table::new(
        "TLS: memory of open connections",
        &["connections", "open", "agent, KiB a connection", "on their way, KiB a connection", "direct"],
    );
    let agent = &paths.arena.agent;
    let kib = |bytes: u64, count: u64| bytes as f64 / 1_024.0 / count.max(1) as f64;
    // In this order: what the agent needed once is not seen to grow again.
    let before = agent.resident_bytes()?;
    let (through, slow) = unread(paths, Path::Accept)?;
    let grown = agent.resident_bytes()?.saturating_sub(before);
    drop(slow);
    let (direct, _) = unread(paths, Path::Direct)?;
    let cells = [SLOW as f64, kib(grown, SLOW), kib(through, SLOW), kib(direct, SLOW)];
    table.row("accept, the client does not read", cells.map(|number| Cell::Number(number, 1)).to_vec());
    for (path, what) in [(Path::Accept, "accept, idle"), (Path::Verify, "verify, idle")] {
        let before = agent.resident_bytes()?;
        let (held, count) = hold(paths, path, TlsOptions::hello(NAME))?;
        let grown = agent.resident_bytes()?.saturating_sub(before);
        table.row(what, vec![Cell::Number(count as f64, 0), Cell::Number(kib(grown, count), 2)]);
        drop(held.end()?);
    }
    table.note(
        "Resident memory of the agent; sockets and pipes are the kernel's. On their way is what the server could send \
         though nobody read it.",
    );
    Ok(table)
}

/// Asks servers for much and reads nothing; returns how many bytes they could send.
fn unread(paths: &Paths<'_>, path: Path) -> Result<(u64, Probe)> {
    let sent = || paths.arena.transfer.iter().map(weir_tests::tls::server::TlsServer::sent).sum::<u64>();
    let before = sent();
    let (client, to) = paths.client(path, TRANSFER.1);
    let mut slow = client.transfer(&Dial::to(to[0]).speaking(TlsOptions::hello(NAME)), SLOW, 0, ASKED, true)?;
    let report = slow.opened()?;
    ensure!(report.failed_in_all() == 0, "{report:?}");
    let mut last = 0;
    wait::until("servers that can send no more", wait::SOON, || {
        let then = sent() - before;
        thread::sleep(Duration::from_millis(300));
        last = sent() - before;
        (last == then && last > 0).then_some(())
    })?;
    Ok((last, slow))
}
