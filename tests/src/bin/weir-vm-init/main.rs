//! The first and only program of a virtual machine: starts the agent and checks a split, on a kernel
//! that is not the host's.
//!
//! `cargo xtask vm` boots it and reads what it prints: a line a check, and a last line with the
//! counts. It never returns, because a kernel without its first process panics.

mod checks;
mod machine;

use anyhow::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    if std::process::id() != 1 {
        eprintln!("weir-vm-init is the first process of a virtual machine: run `cargo xtask vm`");
        return ExitCode::FAILURE;
    }
    let mut outcome = Outcome::default();
    match machine::set_up() {
        Ok(()) => checks::all(&mut outcome),
        Err(error) => outcome.note("the machine is set up", Err(error)),
    }
    println!("weir-vm: {} passed, {} failed", outcome.passed, outcome.failed);
    machine::power_off()
}

/// What the checks gave so far.
#[derive(Debug, Default)]
struct Outcome {
    passed: u32,
    failed: u32,
}

impl Outcome {
    /// Counts and prints one check.
    fn note(&mut self, what: &str, result: Result<(), Error>) {
        match result {
            Ok(()) => {
                self.passed += 1;
                println!("weir-vm: ok: {what}");
            }
            Err(error) => {
                self.failed += 1;
                println!("weir-vm: FAILED: {what}: {error:#}");
            }
        }
    }
}
