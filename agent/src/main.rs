//! The `weir` command.

use std::{io, process::ExitCode};

fn main() -> ExitCode {
    match weir::cli::run() {
        Ok(code) => code,
        // Whoever reads has seen enough, as in `weir dump | head`.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir: {}", sentence(&error));
            ExitCode::FAILURE
        }
    }
}

/// Puts an error and its causes into one sentence; a cause that is in it already is not said again.
fn sentence(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |mut text, cause| {
        let cause = cause.to_string();
        if text.is_empty() {
            return cause;
        }
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        text
    })
}

/// Only what came of writing is the command's own error; a pipe that broke elsewhere has a context.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let json = error.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
    io.or(json) == Some(io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn a_cause_is_said_once() {
        let error = Err::<(), _>(io::Error::other("no such place")).context("cannot go (no such place): look again");
        assert_eq!(sentence(&error.unwrap_err()), "cannot go (no such place): look again");
        let error = Err::<(), _>(io::Error::other("no such place")).context("cannot go");
        assert_eq!(sentence(&error.unwrap_err()), "cannot go: no such place");
    }
}
