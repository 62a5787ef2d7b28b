//! The client side of scenarios, demo and bench: opens connections and says what came of them.
//!
//! It enters the cgroup and the network namespace that it is told before it does anything else, so
//! it is a client exactly as the kernel programs see one. It knows nothing of Weir.

mod connection;
mod hold;
mod load;
mod measure;
mod measure_tls;
mod place;
mod serve;
mod socket;
mod speech;
mod tally;
mod transfer;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use std::{net::SocketAddr, path::PathBuf, time::Duration};
use weir_tests::{host, report::Measured};

#[derive(Parser)]
#[command(about = "Opens connections and reports what came of them, as one line of JSON")]
struct Cli {
    /// Cgroup (version 2) to enter.
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// Network namespace to enter, by the name that `ip netns` knows.
    #[arg(long)]
    namespace: Option<String>,
    /// CPU to run on.
    #[arg(long)]
    cpu: Option<usize>,
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
    /// Moves bytes both ways on some connections and compares them.
    Transfer {
        #[command(flatten)]
        dial: connection::Dial,
        /// How many connections at once.
        #[arg(long, default_value_t = 1)]
        count: u64,
        /// Bytes to send on each.
        #[arg(long)]
        up: u64,
        /// Bytes to receive on each.
        #[arg(long)]
        down: u64,
        /// Opens the connections, reports, and reads nothing until there is a line on standard input.
        #[arg(long)]
        waits: bool,
    },
    /// Becomes another program.
    Exec {
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Serves connections until standard input ends.
    Serve {
        /// Addresses to listen on.
        #[arg(long, required = true)]
        listen: Vec<SocketAddr>,
        /// What to do with connections.
        #[arg(long, value_enum)]
        mode: serve::Mode,
        /// Connections served at once on each address.
        #[arg(long, default_value_t = 8)]
        threads: usize,
    },
    /// Measures connections: opened, a message echoed, closed.
    Rate {
        /// Addresses and ports, dialled in turn.
        #[arg(long, required = true)]
        to: Vec<SocketAddr>,
        /// How long, milliseconds.
        #[arg(long)]
        for_ms: u64,
        /// Clients at once.
        #[arg(long, default_value_t = 1)]
        clients: usize,
    },
    /// Measures messages to and fro on one connection.
    PingPong {
        #[command(flatten)]
        bench: Bench,
    },
    /// Measures connections that begin with a ClientHello.
    MeasureTls(measure_tls::Options),
    /// Measures bytes sent on one connection.
    Stream {
        #[command(flatten)]
        bench: Bench,
    },
}

#[derive(Args)]
struct Bench {
    /// Address and port.
    #[arg(long)]
    to: SocketAddr,
    /// How long, milliseconds.
    #[arg(long)]
    for_ms: u64,
}

impl Bench {
    fn length(&self) -> Duration {
        Duration::from_millis(self.for_ms)
    }
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    host::raise_file_limit();
    if let Some(cgroup) = &cli.cgroup {
        place::enter_cgroup(cgroup)?;
    }
    if let Some(namespace) = &cli.namespace {
        place::enter_namespace(namespace)?;
    }
    if let Some(cpu) = cli.cpu {
        place::stay_on(cpu)?;
    }
    match cli.command {
        Command::Connect { dial, count } => dial.prepare().and_then(|()| load::run(&dial, Some(count))),
        Command::Load { dial } => dial.prepare().and_then(|()| load::run(&dial, None)),
        Command::Hold { dial, count } => dial.prepare().and_then(|()| hold::run(&dial, count)),
        Command::Transfer { dial, count, up, down, waits } => {
            dial.prepare().and_then(|()| transfer::run(&dial, count, up, down, waits))
        }
        Command::Exec { command } => place::become_program(&command[0], &command[1..]),
        Command::Serve { listen, mode, threads } => serve::run(&listen, mode, threads),
        Command::Rate { to, for_ms, clients } => {
            print(&measure::rate(&to, clients, Duration::from_millis(for_ms), measure::round)?)
        }
        Command::PingPong { bench } => print(&measure::ping_pong(bench.to, bench.length())?),
        Command::MeasureTls(options) => print(&measure_tls::run(&options)?),
        Command::Stream { bench } => print(&measure::stream(bench.to, bench.length())?),
    }
}

fn print(measured: &Measured) -> Result<()> {
    println!("{}", serde_json::to_string(measured)?);
    Ok(())
}
