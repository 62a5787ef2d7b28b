//! Developer commands, a file each. Here is only which one was asked for.

mod bench;
mod build;
mod built;
mod ci;
mod cluster;
mod crds;
mod demo;
mod image;
mod interrupt;
mod manifests;
mod process;
mod setup;
mod tally;
mod test;
mod tidy;
mod vm;
mod workspace;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;
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
    /// Runs every test: of the host, of this kernel, of older kernels.
    Test(test::Args),
    /// Checks rules that neither the compiler nor clippy knows.
    Tidy,
    /// Boots older kernels in virtual machines and checks a split there.
    Vm(vm::Args),
    /// Starts a real Kubernetes with two nodes on this machine, ends it, runs its kubectl.
    Cluster(cluster::Args),
    /// Writes the definitions of Weir's own kinds to where they are shipped.
    Crds,
    /// Builds the container image of `weir`.
    Image(image::Args),
    /// Checks that the kustomize base and the Helm chart install the same, and the alert rules.
    Manifests,
    /// Runs everything that must hold before a change is taken.
    Ci,
    /// Shows a split at work: changed weights, a killed agent, rejected connections.
    Demo(demo::Args),
    /// Measures Weir beside a direct connection, nftables and HAProxy.
    Bench(bench::Args),
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        // What is wrong has been printed, and the counts are to be the last line.
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command; returns whether what it checked is right.
fn run(cli: &Cli) -> Result<bool> {
    let workspace = Workspace::find()?;
    match &cli.command {
        Command::Setup(args) => setup::run(args)?,
        Command::Build(args) => build::run(&workspace, args)?,
        Command::Test(args) => return test::run(&workspace, args),
        Command::Tidy => tidy::run(&workspace)?,
        Command::Vm(args) => return vm::run(&workspace, args),
        Command::Cluster(args) => cluster::run(&workspace, args)?,
        Command::Crds => crds::run(&workspace)?,
        Command::Image(args) => image::run(&workspace, args)?,
        Command::Manifests => manifests::run(&workspace)?,
        Command::Ci => return Ok(ci::run(&workspace)),
        Command::Demo(args) => demo::run(&workspace, args)?,
        Command::Bench(args) => bench::run(&workspace, args)?,
    }
    Ok(true)
}
