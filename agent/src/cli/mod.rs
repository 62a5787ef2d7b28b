//! The command line: a file a subcommand.

mod asking;
pub mod check;
pub mod clean;
pub mod completions;
pub mod crds;
pub mod dump;
pub mod explain;
mod format;
pub mod man;
pub mod run;
mod tls;
pub mod status;
mod table;
pub mod top;

use crate::{
    bpf::{Probe, run_probe},
    memory, telemetry,
};
use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
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
    /// Run the agent: attach the programs and keep their tables in step with the configuration
    Run(run::RunArgs),
    /// Read a folder, print every object's conditions and every mistake; does not touch the kernel
    Check(check::CheckArgs),
    /// Say where a connection would go, and why
    Explain(explain::ExplainArgs),
    /// Show what the running agent does
    Status(status::StatusArgs),
    /// Watch wanted and actual shares live
    Top(top::TopArgs),
    /// Print the tables of the running agent as JSON
    Dump(dump::DumpArgs),
    /// Remove the programs and tables from the kernel
    Clean(clean::CleanArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Print the man page
    Man(man::ManArgs),
    /// Print the CustomResourceDefinitions of Weir's own kinds
    #[command(hide = true)]
    Crds,
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
    let mut out = std::io::stdout();
    match Cli::parse().command {
        Command::Run(args) => {
            memory::share_one_heap();
            telemetry::start(&args.log)?;
            // Two threads: one for the loop, whose steps block, one for the admin port.
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            runtime.block_on(run::run(args)).map(|()| ExitCode::SUCCESS)
        }
        Command::Check(args) => check::check(&args, &mut out),
        Command::Explain(args) => explain::run(&args, &mut out),
        Command::Status(args) => status::run(&args, &mut out),
        Command::Top(args) => top::run(&args),
        Command::Dump(args) => dump::run(&args, &mut out),
        Command::Clean(args) => clean::run(&args, &mut out),
        Command::Completions(args) => completions::run(&args, &mut Cli::command(), &mut out),
        Command::Man(args) => man::run(&args, Cli::command(), &mut out),
        Command::Crds => crds::run(&mut out),
        Command::SelfTestProbe(probe) => run_probe(&probe).map(|()| ExitCode::SUCCESS),
    }
}
