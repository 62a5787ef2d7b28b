//! The `weir` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    match weir::cli::run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("weir: {error:#}");
            ExitCode::FAILURE
        }
    }
}
