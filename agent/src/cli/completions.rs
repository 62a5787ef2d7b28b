//! `weir completions`: writes a completion script for a shell.

use anyhow::Result;
use clap::{Args, Command};
use clap_complete::{Shell, generate};
use std::{io::Write, process::ExitCode};

/// Arguments of `weir completions`.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Writes the script for `command`, to be sourced by the shell.
///
/// # Errors
///
/// If it cannot be written.
pub fn run(args: &CompletionsArgs, command: &mut Command, out: &mut impl Write) -> Result<ExitCode> {
    // Through a buffer: clap panics when it cannot write, as into a closed pipe.
    let mut script = Vec::new();
    generate(args.shell, command, "weir", &mut script);
    out.write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
