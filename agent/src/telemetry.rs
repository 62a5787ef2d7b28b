//! Logs: what the agent does, as text or JSON lines on stderr.

use std::io::{self, IsTerminal};
use tracing_subscriber::{EnvFilter, filter, fmt};

/// How log lines are written (`--log-format`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What is logged, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct LogArgs {
    /// What to log: error, warn, info, debug or trace, or a filter as `info,weir::bpf=debug`.
    #[arg(long = "log", env = "RUST_LOG", value_name = "LEVEL", global = true, default_value = "info")]
    pub level: String,
    /// How to write log lines.
    #[arg(long, value_name = "FORMAT", global = true, value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// Why logging cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter cannot be read.
    #[error("--log {level:?}: {cause}; give error, warn, info, debug or trace, or target=level, separated by commas")]
    Filter {
        /// What was given.
        level: String,
        /// What is wrong with it.
        cause: filter::ParseError,
    },
    /// Somebody else set logging up.
    #[error("logging was set up already: {0}")]
    Twice(Box<dyn std::error::Error + Send + Sync>),
}

/// Sends log lines to stderr from here on.
///
/// # Errors
///
/// If the level cannot be read, or logging was set up before.
pub fn start(args: &LogArgs) -> Result<(), TelemetryError> {
    let filter = filter(&args.level)?;
    let lines = fmt().with_env_filter(filter).with_writer(io::stderr);
    match args.log_format {
        LogFormat::Text => {
            let colours = colours(io::stderr().is_terminal(), std::env::var("NO_COLOR").ok().as_deref());
            lines.with_ansi(colours).try_init()
        }
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    }
    .map_err(TelemetryError::Twice)
}

fn filter(level: &str) -> Result<EnvFilter, TelemetryError> {
    EnvFilter::try_new(level).map_err(|cause| TelemetryError::Filter { level: level.to_owned(), cause })
}

/// Whether to write colours: only to a terminal, and not if `NO_COLOR` holds anything
/// (no-color.org).
#[must_use]
pub fn colours(terminal: bool, no_color: Option<&str>) -> bool {
    terminal && no_color.is_none_or(str::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_and_a_list_of_targets_are_filters() {
        for good in ["info", "warn,weir::bpf=debug"] {
            assert!(filter(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn a_bad_level_is_named_with_what_is_allowed() {
        let message = filter("weir=loud").expect_err("no such level").to_string();
        assert!(message.starts_with("--log \"weir=loud\": "), "{message}");
        assert!(message.contains("debug"), "{message}");
    }

    #[test]
    fn colours_need_a_terminal_and_no_no_color() {
        assert!(colours(true, None));
        assert!(colours(true, Some("")));
        assert!(!colours(true, Some("1")));
        assert!(!colours(false, None));
    }
}
