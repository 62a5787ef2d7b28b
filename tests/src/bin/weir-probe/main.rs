//! The client side of scenarios, demo and bench: opens connections and says what came of them.
//!
//! It enters the cgroup and the network namespace that it is told before it does anything else, so
//! it is a client exactly as the kernel programs see one. It knows nothing of Weir.

mod connection;
mod hold;
mod load;
mod place;
mod tally;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

#[derive(Parser)]
#[command(about = "Opens connections and reports what came of them, as one line of JSON")]
struct Cli {
    /// Cgroup (version 2) to enter.
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// Network namespace to enter, by the name that `ip netns` knows.
    #[arg(long)]
    namespace: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Opens a number of connections.
    Connect {
        #[command(flatten)]
        dial: connection::Dial,
        /// How many connections.
        #[arg(long)]
        count: u64,
    },
    /// Opens connections until standard input ends; reports on each line.
    Load {
        #[command(flatten)]
        dial: connection::Dial,
    },
    /// Opens connections and keeps them until standard input ends; uses and reports them on each line.
    Hold {
        #[command(flatten)]
        dial: connection::Dial,
        /// How many connections.
        #[arg(long)]
        count: u64,
    },
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    if let Some(cgroup) = &cli.cgroup {
        place::enter_cgroup(cgroup)?;
    }
    if let Some(namespace) = &cli.namespace {
        place::enter_namespace(namespace)?;
    }
    match cli.command {
        Command::Connect { dial, count } => load::run(&dial, Some(count)),
        Command::Load { dial } => load::run(&dial, None),
        Command::Hold { dial, count } => hold::run(&dial, count),
    }
}
