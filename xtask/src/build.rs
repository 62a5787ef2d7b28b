//! `cargo xtask build`: the `weir` command with the kernel programs inside.

use crate::{
    process,
    setup::{self, Purpose},
    workspace::Workspace,
};
use anyhow::Result;

/// Options of `cargo xtask build`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Optimizes for speed; takes longer.
    #[arg(long)]
    release: bool,
    /// Lets the kernel programs write to the agent's log. Not for production.
    #[arg(long)]
    debug_log: bool,
}

/// Builds, and prints where the command is.
///
/// # Errors
///
/// If a tool is missing or the build fails.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    setup::prepare(Purpose::Build)?;
    let mut cargo = process::cargo();
    cargo.current_dir(workspace.root()).args(["build", "--package", "weir"]);
    if args.release {
        cargo.arg("--release");
    }
    if args.debug_log {
        cargo.args(["--features", "kernel-log"]);
    }
    process::run(&mut cargo)?;
    let profile = if args.release { "release" } else { "debug" };
    println!("{}", workspace.target().join(profile).join("weir").display());
    Ok(())
}
