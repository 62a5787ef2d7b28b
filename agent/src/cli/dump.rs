//! `weir dump`: prints the tables that the agent wants in the kernel, with names beside ids.

use super::asking::{AdminArgs, page};
use anyhow::Result;
use clap::Args;
use std::{io::Write, process::ExitCode};

/// Arguments of `weir dump`.
#[derive(Clone, Debug, Args)]
pub struct DumpArgs {
    #[command(flatten)]
    admin: AdminArgs,
}

/// Prints the tables as JSON.
///
/// # Errors
///
/// If no agent answers, or not with JSON.
pub fn run(args: &DumpArgs, out: &mut impl Write) -> Result<ExitCode> {
    let page = page(&args.admin.admin, "/tables")?;
    let tables: serde_json::Value = serde_json::from_slice(&page)?;
    serde_json::to_writer_pretty(&mut *out, &tables)?;
    writeln!(out)?;
    Ok(ExitCode::SUCCESS)
}
