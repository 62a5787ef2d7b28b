//! What the hooks cost: nanoseconds in the programs, and connections a second, by number of routes.

use super::{
    Plan,
    arena::{Arena, ONCE, frontend, in_turn, with_kind, with_others},
    paths::Weir,
    sample::Sample,
    table::{Cell, Table},
    tcp::{play, rates},
};
use anyhow::{Context as _, Result};
use std::fs;
use weir_tests::{
    kernel::{self, Hook},
    manifest::Manifest,
};

/// Numbers of routes.
const ROUTES: [usize; 3] = [1, 100, 10_000];

/// Which connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// No hook sees them.
    Unhooked,
    /// To a frontend, with the n-th number of routes.
    Frontend(usize),
    /// To an address that is no frontend, with the n-th number of routes.
    Other(usize),
}

pub(super) fn run(plan: &Plan, cpu: Option<usize>) -> Result<Table> {
    let arena = Arena::new(plan, cpu)?;
    let mut agents = Vec::new();
    for routes in ROUTES {
        let manifest = with_others(with_kind(Manifest::new(), ONCE.0, ONCE.1), routes - 1, 1);
        agents.push(Weir::start(plan, manifest.text())?);
    }
    let measure = |way| {
        let (client, to) = match way {
            Way::Unhooked => (arena.unhooked(plan, cpu), in_turn(ONCE.1)),
            Way::Frontend(at) => (arena.clients(plan, &agents[at].cgroup, cpu), vec![frontend(ONCE.1)]),
            Way::Other(at) => (arena.clients(plan, &agents[at].cgroup, cpu), in_turn(ONCE.1)),
        };
        client.measure("rate", &to, plan.round, 1)
    };
    let mut ways = vec![Way::Unhooked];
    ways.extend((0..ROUTES.len()).flat_map(|at| [Way::Frontend(at), Way::Other(at)]));
    let speeds = play(plan.rounds, &ways, measure)?;

    let mut table = Table::new(
        "Cost of the hooks, by number of routes (one client, one CPU)",
        &[
            "routes",
            "frontend, to unhooked",
            "connect hook, ns",
            "sockops, ns a connection",
            "not a frontend, to unhooked",
            "connect hook, ns",
            "sockops, ns a connection",
        ],
    );
    let unhooked = rates(&speeds[&Way::Unhooked]);
    let statistics = Statistics::on()?;
    for (at, routes) in ROUTES.into_iter().enumerate() {
        let mut cells = Vec::new();
        for way in [Way::Frontend(at), Way::Other(at)] {
            cells.push(Cell::Ratio(Sample::ratio(&rates(&speeds[&way]), &unhooked)));
            let read = || -> Result<_> {
                let cgroup = &agents[at].cgroup;
                Ok((kernel::runs(cgroup, Hook::Connect4)?, kernel::runs(cgroup, Hook::SockOps)?))
            };
            let before = read()?;
            let connections = measure(way)?.count.max(1);
            let after = read()?;
            cells.push(Cell::Number(after.0.since(before.0).mean_ns(), 0));
            cells.push(Cell::Number(after.1.since(before.1).ns as f64 / connections as f64, 0));
        }
        table.row(&routes.to_string(), cells);
    }
    drop(statistics);
    table.note(
        "Nanoseconds are the kernel's own run-time statistics, some 20 ns of measuring a run included; the ratios were \
         measured without them. Sockops runs several times a connection.",
    );
    Ok(table)
}

/// The kernel's run-time statistics, switched back when dropped.
struct Statistics {
    before: String,
}

const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

impl Statistics {
    fn on() -> Result<Self> {
        let before = fs::read_to_string(SWITCH).with_context(|| format!("cannot read {SWITCH}"))?;
        fs::write(SWITCH, "1").with_context(|| format!("cannot write {SWITCH}"))?;
        Ok(Self { before })
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        let _ = fs::write(SWITCH, self.before.trim());
    }
}
