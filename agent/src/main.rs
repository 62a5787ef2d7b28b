//! The `weir` command.

use std::{io, process::ExitCode};

fn main() -> ExitCode {
    match weir::cli::run() {
        Ok(code) => code,
        // Whoever reads has seen enough, as in `weir dump | head`.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Only what came of writing is the command's own error; a pipe that broke elsewhere has a context.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let json = error.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
    io.or(json) == Some(io::ErrorKind::BrokenPipe)
}
