//! `cargo xtask setup`: installs what is missing, prints each thing, and does nothing the second time.
//!
//! The other commands call it first. It never removes or replaces what is there.

mod install;
mod plan;
mod probe;

use crate::process::Privilege;
use anyhow::Result;
pub(crate) use plan::Purpose;

/// Options of `cargo xtask setup`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The command that the machine is prepared for.
    #[arg(long = "for", value_enum, default_value_t = Purpose::Test)]
    purpose: Purpose,
}

/// Prepares the machine and says that it is ready.
///
/// # Errors
///
/// If something is missing that cannot be installed here.
pub(crate) fn run(args: &Args) -> Result<()> {
    prepare(args.purpose)?;
    eprintln!("setup: everything is here");
    Ok(())
}

/// Prepares the machine; silent if there is nothing to do.
///
/// # Errors
///
/// If something is missing that cannot be installed here.
pub(crate) fn prepare(purpose: Purpose) -> Result<()> {
    let system = probe::system();
    for step in plan::plan(purpose, &system)? {
        install::step(&step, &system)?;
    }
    Ok(())
}

/// Fetches the distribution's lists of packages anew.
///
/// # Errors
///
/// If that fails, or needs root and there is no way to become it.
pub(crate) fn update_package_lists() -> Result<()> {
    install::update(Privilege::here())
}
