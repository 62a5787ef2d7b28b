//! `weir man`: writes the manual page, or one page a subcommand into a folder.

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_mangen::{Man, generate_to};
use std::{io::Write, path::PathBuf, process::ExitCode};

/// Arguments of `weir man`.
#[derive(Clone, Debug, Args)]
pub struct ManArgs {
    /// Write a page for the command and each subcommand into this folder
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Writes the manual of `command`.
///
/// # Errors
///
/// If it cannot be written.
pub fn run(args: &ManArgs, command: Command, out: &mut impl Write) -> Result<ExitCode> {
    match &args.dir {
        None => Man::new(command).render(out)?,
        Some(dir) => generate_to(command, dir)
            .with_context(|| format!("the manual pages cannot be written into {}", dir.display()))?,
    }
    Ok(ExitCode::SUCCESS)
}
