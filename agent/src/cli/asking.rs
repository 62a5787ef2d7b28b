//! Arguments that several commands share, and asking the agent from a command.

use crate::{
    admin::{DEFAULT_ADDRESS, client},
    view::View,
};
use anyhow::{Context, Result};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use std::io::{self, IsTerminal};

/// Where the agent is.
#[derive(Clone, Debug, Args)]
pub(super) struct AdminArgs {
    /// Admin address of the agent
    #[arg(long, value_name = "ADDRESS:PORT", env = "WEIR_ADMIN", default_value = DEFAULT_ADDRESS)]
    pub(super) admin: String,
}

/// How a command answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// For people
    #[default]
    Text,
    /// For scripts
    Json,
}

/// How to answer.
#[derive(Clone, Debug, Args)]
pub(super) struct OutputArgs {
    /// How to answer
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    pub(super) output: Output,
}

/// Gets a page from the agent.
pub(super) fn page(admin: &str, path: &str) -> Result<Bytes> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(client::get(admin, path))?)
}

/// Reads a view out of the agent's answer.
pub(super) fn view(admin: &str, page: &[u8]) -> Result<View> {
    serde_json::from_slice(page)
        .with_context(|| format!("the agent on {admin} is of another version than this command: restart it"))
}

/// Whether stdout takes colours.
pub(super) fn colours() -> bool {
    crate::telemetry::colours(io::stdout().is_terminal(), std::env::var("NO_COLOR").ok().as_deref())
}

/// Returns the columns of the terminal; none if stdout is no terminal and lines may be long.
pub(super) fn columns() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    ratatui::crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns))
}
