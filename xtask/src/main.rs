//! Developer commands, a file each. Here is only which one was asked for.

mod build;
mod built;
mod demo;
mod interrupt;
mod process;
mod setup;
mod workspace;

use anyhow::Result;
use clap::{Parser, Subcommand};
use workspace::Workspace;

/// Developer commands of Weir.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Installs the tools that are missing. The other commands do it by themselves.
    Setup(setup::Args),
    /// Builds the `weir` command with the kernel programs inside.
    Build(build::Args),
    /// Shows a split at work: changed weights, a killed agent, rejected connections.
    Demo(demo::Args),
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let workspace = Workspace::find()?;
    match &cli.command {
        Command::Setup(args) => setup::run(args),
        Command::Build(args) => build::run(&workspace, args),
        Command::Demo(args) => demo::run(args),
    }
}
