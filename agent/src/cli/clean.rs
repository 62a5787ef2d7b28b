//! `weir clean`: removes the pins, which detaches the programs.

use crate::bpf;
use anyhow::Result;
use clap::Args;
use std::{io::Write, path::PathBuf, process::ExitCode};

/// Arguments of `weir clean`.
#[derive(Clone, Debug, Args)]
pub struct CleanArgs {
    /// Folder of the pins, as given to `weir run`
    #[arg(long, value_name = "DIR", env = "WEIR_PIN_DIR", default_value = super::DEFAULT_PIN_DIR)]
    pin_dir: PathBuf,
}

/// Removes the pins and says which.
///
/// # Errors
///
/// If an agent is running or a pin cannot be removed.
pub fn run(args: &CleanArgs, out: &mut impl Write) -> Result<ExitCode> {
    let removed = bpf::clean(&args.pin_dir)?;
    if removed.is_empty() {
        writeln!(out, "nothing of weir is pinned in {}", args.pin_dir.display())?;
    } else {
        for pin in &removed {
            writeln!(out, "removed {}", pin.display())?;
        }
        writeln!(out, "new connections go where they did before weir; established ones are not touched")?;
    }
    Ok(ExitCode::SUCCESS)
}
