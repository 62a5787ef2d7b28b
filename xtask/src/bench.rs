//! `cargo xtask bench`: what a split in the kernel costs, beside not splitting and beside others.
//!
//! Everything that is compared is measured in one run, in alternating rounds, and shown as medians
//! with the smallest and largest round. Absolute figures say something about the machine only.

mod arena;
mod hooks;
mod paths;
mod sample;
mod scale;
mod split;
mod table;
mod tcp;
mod tls;

use crate::{
    built::{self, Profile},
    interrupt,
    setup::Purpose,
    workspace::Workspace,
};
use anyhow::{Result, bail};
use std::time::Duration;
use table::Results;
use weir_tests::binaries::Binaries;

/// Options of the bench.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    /// Prints JSON instead of Markdown.
    #[arg(long, global = true)]
    json: bool,
    /// Rounds of each measurement.
    #[arg(long, global = true, default_value_t = 5)]
    rounds: usize,
    /// Length of a round, milliseconds.
    #[arg(long, global = true, default_value_t = 500)]
    round_ms: u64,
}

#[derive(Clone, Copy, Debug, clap::Subcommand)]
enum What {
    /// New connections, established ones, and the cost of the hooks.
    Tcp,
    /// TLS: new connections, established ones, throughput, wrong names, memory; beside proxies.
    Tls,
    /// How far from the wanted shares a number of connections is.
    Split,
    /// Ten thousand routes: loading, following a change, memory.
    Scale,
}

/// How to measure.
struct Plan {
    binaries: Binaries,
    rounds: usize,
    round: Duration,
}

/// Runs a bench and prints its tables.
///
/// # Errors
///
/// If something cannot be built, started or measured.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let binaries = built::as_root(workspace, Purpose::Bench, Profile::Release)?;
    interrupt::watch()?;
    let plan = Plan { binaries, rounds: args.rounds.max(1), round: Duration::from_millis(args.round_ms.max(10)) };
    let tables = match args.what {
        What::Tcp => tcp::run(&plan),
        What::Tls => tls::run(&plan),
        What::Split => split::run(&plan),
        What::Scale => scale::run(&plan),
    };
    if interrupt::came() {
        bail!("interrupted; everything that the bench had made is removed");
    }
    let results = Results::of_this_machine(tables?);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&results)?);
    } else {
        print!("{}", results.markdown());
    }
    Ok(())
}
