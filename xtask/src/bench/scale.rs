//! `bench scale`: ten thousand routes with ten endpoints each.

use super::{
    Plan,
    arena::{two_legs, with_others},
    sample::Sample,
    table::{Cell, Table},
};
use crate::interrupt;
use anyhow::{Context as _, Result};
use nix::time::{ClockId, clock_gettime};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};
use weir_tests::{
    agent::Launch,
    cgroup::Cgroup,
    client::{Client, Dial},
    config::ConfigDir,
    kernel,
    manifest::Manifest,
    pin_dir::PinDir,
    server::{Behaviour, Server},
    topology::Topology,
    wait,
};

const ROUTES: usize = 10_000;
const ENDPOINTS: usize = 10;
/// Name of the small file with the route that changes.
const OWN: &str = "own.yaml";

pub(super) fn run(plan: &Plan) -> Result<Vec<Table>> {
    let net = Topology::new(1, &[&["10.201.0.0/16"]])?;
    let cgroup = Cgroup::new("scale")?;
    let pins = PinDir::new()?;
    let client = Client::new_in(&plan.binaries, net.client(0), &cgroup);
    let endpoint = |host| SocketAddr::new(Ipv4Addr::new(10, 201, 0, host).into(), 80);
    let _servers = [
        Server::tcp(net.backend(0), endpoint(1), "a", Behaviour::Greet)?,
        Server::tcp(net.backend(0), endpoint(2), "b", Behaviour::Greet)?,
    ];
    let config = ConfigDir::new()?;
    let mut yaml = 0;
    for (number, text) in others().into_iter().enumerate() {
        yaml += text.len();
        config.write(&format!("others-{number}.yaml"), &text)?;
    }
    config.write(OWN, two_legs([1, 0]))?;

    let launch = Launch::new_in(&plan.binaries, &config, &cgroup, &pins)?;
    let start = Instant::now();
    let mut agent = launch.start()?;
    let loaded = start.elapsed();
    let first_apply = agent.metric("weir_last_apply_duration_seconds", &[])?;
    let memory = resident(agent.pid().context("the agent has ended")?)?;
    let maps = kernel::map_memory(pins.path())?;

    let followed = follow_often(plan, &client, &config)?;
    let after = resident(agent.pid().context("the agent has ended")?)?.now;
    let start = Instant::now();
    agent.restart()?;
    let restarted = start.elapsed();

    let alone = follow_alone(plan, &net)?;

    let mut table = Table::new(&format!("{ROUTES} routes with {ENDPOINTS} endpoints each"), &["what", "figure"]);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    table.row("first load, from the start of the process to ready, s", vec![Cell::Number(loaded.as_secs_f64(), 2)]);
    table.row("of that, writing the tables, s", vec![Cell::Number(first_apply, 2)]);
    table.row("restart with everything in place, s", vec![Cell::Number(restarted.as_secs_f64(), 2)]);
    table.row(
        "one changed weight, from the write to the first connection that follows, ms",
        vec![Cell::Figure(Sample::of(&followed), 1)],
    );
    table.row("the same where that is the only route, ms", vec![Cell::Figure(Sample::of(&alone), 1)]);
    table.row("agent memory when loaded, MiB", vec![Cell::Number(mib(memory.now), 0)]);
    table.row("its peak while loading, MiB", vec![Cell::Number(mib(memory.peak), 0)]);
    table.row("agent memory after the changes, MiB", vec![Cell::Number(mib(after), 0)]);
    table.row("map memory, MiB", vec![Cell::Number(mib(maps), 0)]);
    table.row("YAML read, MiB", vec![Cell::Number(mib(yaml as u64), 1)]);
    table.note("The agent waits a moment after a write for more of them; that is part of the time to follow.");
    Ok(vec![table])
}

/// Follows changes of an agent that has one route only.
fn follow_alone(plan: &Plan, net: &Topology) -> Result<Vec<f64>> {
    let cgroup = Cgroup::new("alone")?;
    let pins = PinDir::new()?;
    let config = ConfigDir::new()?;
    config.write(OWN, two_legs([1, 0]))?;
    let _agent = Launch::new_in(&plan.binaries, &config, &cgroup, &pins)?.start()?;
    follow_often(plan, &Client::new_in(&plan.binaries, net.client(0), &cgroup), &config)
}

fn follow_often(plan: &Plan, client: &Client<'_>, config: &ConfigDir) -> Result<Vec<f64>> {
    let mut followed = Vec::new();
    for round in 0..plan.rounds {
        interrupt::check()?;
        let (weights, server) = if round % 2 == 0 { ([0, 1], "b") } else { ([1, 0], "a") };
        followed.push(follow(client, config, weights, server)?);
    }
    Ok(followed)
}

/// Changes the weights and returns the time until the first connection that follows, milliseconds.
fn follow(client: &Client<'_>, config: &ConfigDir, weights: [u32; 2], server: &str) -> Result<f64> {
    let dial = Dial {
        pause: Duration::from_micros(100),
        ..Dial::to(SocketAddr::new(Ipv4Addr::new(10, 96, 0, 10).into(), 80))
    };
    let mut load = client.load(&dial)?;
    wait::until("the first connection", wait::SOON, || load.report().ok().filter(|report| report.attempts > 10))?;
    let written = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
    config.write(OWN, two_legs(weights))?;
    wait::until("a connection that follows", wait::SOON, || {
        load.report().ok().filter(|report| report.answered(server) > 0)
    })?;
    let report = load.end()?;
    let first = report.first_ns.get(server).copied().context("no connection followed")?;
    Ok(Duration::from_nanos(first).saturating_sub(written).as_secs_f64() * 1e3)
}

/// The other routes, in some files.
fn others() -> Vec<String> {
    const FILES: usize = 20;
    let all = with_others(Manifest::new(), ROUTES - 1, ENDPOINTS);
    let documents: Vec<&str> = all.text().split("---\n").filter(|document| !document.is_empty()).collect();
    documents.chunks(documents.len().div_ceil(FILES)).map(|chunk| chunk.join("---\n")).collect()
}

/// Resident memory of a process, bytes.
struct Resident {
    now: u64,
    peak: u64,
}

fn resident(pid: u32) -> Result<Resident> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path)?;
    let field = |name: &str| -> Result<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib =
            line.and_then(|line| line.trim().strip_suffix(" kB")).with_context(|| format!("{path}: no {name}"))?;
        Ok(kib.trim().parse::<u64>()? * 1_024)
    };
    Ok(Resident { now: field("VmRSS:")?, peak: field("VmHWM:")? })
}
