//! `bench tls`: connections whose server name is enforced, beside direct ones and beside proxies.

mod arena;
mod cpu_time;
mod held;
mod paths;
mod proxies;

use super::{
    Plan,
    sample::Sample,
    table::{Cell, Table},
    tcp::{Rounds, play, rates},
};
use anyhow::Result;
use arena::{ECHO, HANDSHAKE, ONCE, SINK, SOURCE, WRONG_NAME};
use cpu_time::CpuTime;
use paths::{Path, Paths};
use std::{cell::RefCell, collections::BTreeMap, thread};
use weir_tests::report::Measured;

/// Measures everything.
pub(super) fn run(plan: &Plan) -> Result<Vec<Table>> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    // The last CPU: the first one has the machine's interrupts more often.
    let mut tables = on(plan, Some(cpus - 1), cpus)?;
    if cpus > 1 {
        tables.extend(on(plan, None, cpus)?);
    }
    Ok(tables)
}

fn on(plan: &Plan, cpu: Option<usize>, cpus: usize) -> Result<Vec<Table>> {
    let paths = Paths::new(plan, cpu, cpus)?;
    let place = if cpu.is_some() { "everything on one CPU".to_owned() } else { format!("{cpus} CPUs") };
    // First, as an agent keeps the memory that it once had.
    let memory = if cpu.is_some() { Some(held::memory(&paths)?) } else { None };
    let mut tables = vec![
        connections(&paths, &format!("TLS: new connections, {place}"))?,
        round_trips(&paths, &format!("TLS: established connections, {place}"))?,
        throughput(&paths, &format!("TLS: throughput, {place}"))?,
        wrong_names(&paths, &format!("TLS: a name that nobody has, {place}"))?,
    ];
    if cpu.is_some() {
        tables.push(held::half_hellos(&paths)?);
    }
    tables.extend(memory);
    Ok(tables)
}

/// Plays shorter rounds of every path: there are many.
fn play_all(paths: &Paths<'_>, port: u16, task: &str, options: &str) -> Result<Rounds<Path>> {
    let length = paths.plan.round / 2;
    play(paths.plan.rounds, &paths.all(), |path| paths.measure(path, port, length, task, options))
}

fn to_direct(rounds: &Rounds<Path>, path: Path) -> Cell {
    Cell::Ratio(Sample::ratio(&rates(&rounds[&path]), &rates(&rounds[&Path::Direct])))
}

fn a_second(rounds: &[Measured]) -> f64 {
    Sample::of(&rates(rounds)).median
}

/// Returns the median of a quantile, microseconds.
fn micros(rounds: &[Measured], quantile: impl Fn(&Measured) -> u64) -> Cell {
    let values: Vec<f64> = rounds.iter().map(|measured| quantile(measured) as f64 / 1e3).collect();
    Cell::Number(Sample::of(&values).median, 1)
}

fn connections(paths: &Paths<'_>, title: &str) -> Result<Table> {
    let mut table = Table::new(
        title,
        &[
            "path",
            "hello and answer, 1 client, to direct",
            "a second",
            "p50 µs",
            "p99 µs",
            "4 clients, to direct",
            "a second",
            "handshakes, 1 client, to direct",
            "a second",
        ],
    );
    let one = play_all(paths, ONCE.1, "hello", "")?;
    let four = play_all(paths, ONCE.1, "hello", "--clients=4")?;
    let handshakes = play_all(paths, HANDSHAKE.1, "handshake", "")?;
    for path in paths.all() {
        table.row(
            path.name(),
            vec![
                to_direct(&one, path),
                Cell::Number(a_second(&one[&path]), 0),
                micros(&one[&path], |measured| measured.whole.p50),
                micros(&one[&path], |measured| measured.whole.p99),
                to_direct(&four, path),
                Cell::Number(a_second(&four[&path]), 0),
                to_direct(&handshakes, path),
                Cell::Number(a_second(&handshakes[&path]), 0),
            ],
        );
    }
    for (path, program) in paths.missing() {
        table.row(&format!("{}: not measured, `{program}` is not installed", path.name()), Vec::new());
    }
    let failures: u64 = [&one, &four, &handshakes]
        .into_iter()
        .flat_map(BTreeMap::values)
        .flatten()
        .map(|measured| measured.failures)
        .sum();
    table.note(format!(
        "Connect, a ClientHello of 517 bytes, an answer of 3,000, close; or a whole TLS 1.3 handshake and 64 bytes to \
         and fro. {} rounds of {} ms, alternating; median (least–most) of the rounds' ratios; direct clients dial both \
         endpoints in turn, as often as the weights say. Failed connections: {failures}.",
        paths.plan.rounds,
        (paths.plan.round / 2).as_millis()
    ));
    Ok(table)
}

fn round_trips(paths: &Paths<'_>, title: &str) -> Result<Table> {
    let mut table =
        Table::new(title, &["path", "64 B, to direct", "p50 µs", "p99 µs", "1 KiB, to direct", "p50 µs", "p99 µs"]);
    let small = play_all(paths, ECHO.1, "ping-pong", "--bytes=64")?;
    let large = play_all(paths, ECHO.1, "ping-pong", "--bytes=1024")?;
    for path in paths.all() {
        let cells = [&small, &large].into_iter().flat_map(|rounds| {
            let of = &rounds[&path];
            [to_direct(rounds, path), micros(of, |one| one.whole.p50), micros(of, |one| one.whole.p99)]
        });
        table.row(path.name(), cells.collect());
    }
    table.note("Messages to and fro on one connection, another one each round.");
    Ok(table)
}

fn throughput(paths: &Paths<'_>, title: &str) -> Result<Table> {
    const WAYS: [(&str, u16, usize); 4] =
        [("up", SINK.1, 1), ("up", SINK.1, 4), ("down", SOURCE.1, 1), ("down", SOURCE.1, 4)];
    let mut table = Table::new(
        title,
        &[
            "path",
            "up, 1 stream, to direct",
            "Gbit/s",
            "up, 4 streams",
            "Gbit/s",
            "down, 1 stream",
            "Gbit/s",
            "down, 4 streams",
            "Gbit/s",
            "CPUs per Gbit/s, to direct",
            "CPUs per Gbit/s",
        ],
    );
    let spent: RefCell<BTreeMap<Path, Vec<f64>>> = RefCell::default();
    let length = paths.plan.round / 2;
    let mut all = Vec::new();
    for (task, port, streams) in WAYS {
        all.push(play(paths.plan.rounds, &paths.all(), |path| {
            let before = CpuTime::now(paths.cpu)?;
            let measured = paths.measure(path, port, length, task, &format!("--clients={streams}"))?;
            let busy = CpuTime::now(paths.cpu)?.since(before);
            let gigabits = measured.count as f64 * 8.0 / 1e9;
            spent.borrow_mut().entry(path).or_default().push(busy.as_secs_f64() / gigabits.max(f64::EPSILON));
            Ok(measured)
        })?);
    }
    let spent = spent.into_inner();
    for path in paths.all() {
        let mut cells: Vec<Cell> = all
            .iter()
            .flat_map(|rounds| [to_direct(rounds, path), Cell::Number(a_second(&rounds[&path]) * 8.0 / 1e9, 1)])
            .collect();
        cells.push(Cell::Ratio(Sample::ratio(&spent[&path], &spent[&Path::Direct])));
        cells.push(Cell::Number(Sample::of(&spent[&path]).median, 3));
        table.row(path.name(), cells);
    }
    table.note(
        "CPU time is that of the whole machine (or of the one CPU), client, server and kernel included, whoever used it.",
    );
    Ok(table)
}

fn wrong_names(paths: &Paths<'_>, title: &str) -> Result<Table> {
    let mut table =
        Table::new(title, &["path", "a second", "p50 µs", "p99 µs, median of rounds", "p99 µs, worst round"]);
    let options = format!("--task=reject --sni={WRONG_NAME}");
    let ways = [Path::Verify, Path::Accept];
    let length = paths.plan.round / 2;
    let rounds = play(paths.plan.rounds, &ways, |path| paths.measure_name(path, ONCE.1, length, &options))?;
    let mut failures = 0;
    for path in ways {
        let of = &rounds[&path];
        failures += of.iter().map(|measured| measured.failures).sum::<u64>();
        let worst = of.iter().map(|measured| measured.whole.p99).max().unwrap_or_default();
        table.row(
            path.name(),
            vec![
                Cell::Number(a_second(of), 0),
                micros(of, |measured| measured.whole.p50),
                micros(of, |measured| measured.whole.p99),
                Cell::Number(worst as f64 / 1e3, 1),
            ],
        );
    }
    table.note(format!("From connect() to the error, one client. Connections that ended otherwise: {failures}."));
    Ok(table)
}
