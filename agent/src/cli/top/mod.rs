//! `weir top`: wanted against actual shares of every leg, live on the terminal.

mod frame;
mod live;
mod rates;

use super::asking::{AdminArgs, colours, page, view};
use anyhow::{Result, bail};
use clap::Args;
use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    time::Duration,
};

/// Arguments of `weir top`.
#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// Seconds between two readings, at least 0.1
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// End by itself after this many seconds
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    limit: Option<Duration>,
}

/// Shows the screen until the user has seen enough.
///
/// # Errors
///
/// If stdout is no terminal, or if no agent answers at the start.
pub fn run(args: &TopArgs) -> Result<ExitCode> {
    if !io::stdout().is_terminal() {
        bail!("weir top draws on a terminal and stdout is none: use `weir status`, or `weir status --output json`");
    }
    let admin = &args.admin.admin;
    let first = view(admin, &page(admin, "/status")?)?;
    live::run(live::Plan { admin, interval: args.interval, limit: args.limit, colours: colours() }, first)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a number of seconds from 0.1 to 86400");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if (0.1..=86_400.0).contains(&seconds) { Ok(Duration::from_secs_f64(seconds)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_bounds_and_an_error_names_them() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "nan", "inf", "1s", "100000"] {
            assert!(seconds(wrong).is_err_and(|text| text.contains("0.1")), "{wrong}");
        }
    }
}
