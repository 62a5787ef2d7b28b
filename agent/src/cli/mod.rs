//! The command line: a file a subcommand.

pub mod clean;

use crate::bpf::{Probe, run_probe};
use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Where pins are unless told otherwise.
pub const DEFAULT_PIN_DIR: &str = "/sys/fs/bpf/weir";

/// Splits TCP connections among weighted backends in the Linux kernel.
#[derive(Debug, Parser)]
#[command(name = "weir", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Remove the programs and tables from the kernel
    Clean(clean::CleanArgs),
    /// Dial an address from a cgroup; the agent's self-test runs this
    #[command(hide = true)]
    SelfTestProbe(Probe),
}

/// Runs the command that the arguments ask for.
///
/// # Errors
///
/// If the command fails; the message says what to do.
pub fn run() -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match Cli::parse().command {
        Command::Clean(args) => clean::run(&args, &mut out),
        Command::SelfTestProbe(probe) => run_probe(&probe).map(|()| ExitCode::SUCCESS),
    }
}
