//! `bench tcp`: connections through Weir beside direct ones and beside other ways to split.

use super::{
    Plan,
    arena::{ECHO, ONCE, SINK},
    hooks,
    paths::{Path, Paths},
    sample::Sample,
    table::{Cell, Table},
};
use crate::interrupt;
use anyhow::Result;
use std::{collections::BTreeMap, thread};
use weir_tests::report::Measured;

/// Measures everything.
pub(super) fn run(plan: &Plan) -> Result<Vec<Table>> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let mut tables = Vec::new();
    // The last CPU: the first one has the machine's interrupts more often.
    let one = Paths::new(plan, Some(cpus - 1))?;
    tables.push(connections(plan, &one, "New connections, everything on one CPU")?);
    tables.push(established(plan, &one)?);
    drop(one);
    if cpus > 1 {
        let all = Paths::new(plan, None)?;
        tables.push(connections(plan, &all, &format!("New connections, {cpus} CPUs"))?);
    }
    tables.push(hooks::run(plan, Some(cpus - 1))?);
    Ok(tables)
}

/// Rounds of each path, all paths in each round.
pub(super) type Rounds<K> = BTreeMap<K, Vec<Measured>>;

/// Plays rounds, each with every path once, and always in another order.
pub(super) fn play<K: Copy + Ord>(
    rounds: usize,
    paths: &[K],
    mut measure: impl FnMut(K) -> Result<Measured>,
) -> Result<Rounds<K>> {
    let mut all: Rounds<K> = BTreeMap::new();
    for round in 0..rounds {
        for at in 0..paths.len() {
            interrupt::check()?;
            let path = paths[(at + round) % paths.len()];
            all.entry(path).or_default().push(measure(path)?);
        }
    }
    Ok(all)
}

fn connections(plan: &Plan, paths: &Paths<'_>, title: &str) -> Result<Table> {
    let mut table = Table::new(
        title,
        &[
            "path",
            "1 client, to direct",
            "a second",
            "p50 µs",
            "p99 µs",
            "4 clients, to direct",
            "a second",
            "p50 µs",
            "p99 µs",
        ],
    );
    let all = paths.all();
    let [one, four] =
        [1, 4].map(|clients| play(plan.rounds, &all, |path| paths.measure(path, "rate", ONCE.1, clients)));
    let (one, four) = (one?, four?);
    let mut failures = 0;
    for path in all {
        let mut cells = Vec::new();
        for rounds in [&one, &four] {
            let measured = &rounds[&path];
            failures += measured.iter().map(|measured| measured.failures).sum::<u64>();
            let rate = rates(measured);
            cells.push(Cell::Ratio(Sample::ratio(&rate, &rates(&rounds[&Path::Direct]))));
            cells.push(Cell::Number(Sample::of(&rate).median, 0));
            for quantile in [|measured: &Measured| measured.whole.p50, |measured: &Measured| measured.whole.p99] {
                let values: Vec<f64> = measured.iter().map(|measured| quantile(measured) as f64 / 1e3).collect();
                cells.push(Cell::Number(Sample::of(&values).median, 1));
            }
        }
        table.row(path.name(), cells);
    }
    table.note(format!(
        "Connect, 64 bytes to and fro, close; the direct rows dial both endpoints in turn, as often as the weights \
         say; {} rounds of {} ms, alternating; median (least–most) of the rounds' \
         ratios. Failed connections: {failures}.",
        plan.rounds,
        plan.round.as_millis()
    ));
    for missing in paths.missing() {
        table.note(*missing);
    }
    Ok(table)
}

fn established(plan: &Plan, paths: &Paths<'_>) -> Result<Table> {
    let mut table = Table::new(
        "Established connections, everything on one CPU",
        &["path", "ping-pong 64 B, to direct", "round trips a second", "p99 µs", "upload, to direct", "Gbit/s"],
    );
    let all = paths.all();
    let ping_pong = play(plan.rounds, &all, |path| paths.measure(path, "ping-pong", ECHO.1, 1))?;
    let upload = play(plan.rounds, &all, |path| paths.measure(path, "stream", SINK.1, 1))?;
    for path in all {
        let (trips, bytes) = (rates(&ping_pong[&path]), rates(&upload[&path]));
        let p99: Vec<f64> = ping_pong[&path].iter().map(|measured| measured.whole.p99 as f64 / 1e3).collect();
        table.row(
            path.name(),
            vec![
                Cell::Ratio(Sample::ratio(&trips, &rates(&ping_pong[&Path::Direct]))),
                Cell::Number(Sample::of(&trips).median, 0),
                Cell::Number(Sample::of(&p99).median, 1),
                Cell::Ratio(Sample::ratio(&bytes, &rates(&upload[&Path::Direct]))),
                Cell::Number(Sample::of(&bytes).median * 8.0 / 1e9, 1),
            ],
        );
    }
    table.note("One connection each round.");
    Ok(table)
}

pub(super) fn rates(rounds: &[Measured]) -> Vec<f64> {
    rounds.iter().map(Measured::per_second).collect()
}
