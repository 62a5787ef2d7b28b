//! `cargo xtask vm`: the agent and a split on older kernels, in virtual machines.
//!
//! The machine is emulated in software, so it needs no rights and no hardware. Its only program is
//! `weir-vm-init` of the test crate, which says on the serial line what it saw.

mod initrd;
mod kernel;

use crate::{
    process::{self, shown},
    setup::{self, Purpose},
    tally::{Tally, number_before},
    workspace::Workspace,
};
use anyhow::{Context, Result};
use initrd::Initrd;
use kernel::Kernel;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

/// The kernels that Weir supports and that are not the host's.
const SERIES: [&str; 1] = ["6.1"];

/// A machine that needs longer hangs.
const LIMIT: Duration = Duration::from_secs(300);

/// What `weir-vm-init` puts before its lines.
const MARK: &str = "weir-vm: ";

/// Options of `cargo xtask vm`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shows everything that the machine prints, not only the checks.
    #[arg(long)]
    verbose: bool,
}

/// Boots every kernel and prints the counts; returns whether every check passed.
///
/// # Errors
///
/// If something cannot be built or started.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<bool> {
    setup::prepare(Purpose::Test)?;
    let tally = check(workspace, args.verbose)?;
    Ok(tally.conclude("Weir does not work on every kernel"))
}

/// Builds what the machines run, boots every kernel and counts the checks.
///
/// # Errors
///
/// If something cannot be built or started. A check that fails is counted.
pub(crate) fn check(workspace: &Workspace, verbose: bool) -> Result<Tally> {
    let mut tally = Tally::default();
    if !cfg!(target_arch = "x86_64") {
        tally.skipped.push("other kernels: their packages are for x86_64 only".to_owned());
        return Ok(tally);
    }
    build(workspace)?;
    for series in SERIES {
        match kernel::get(series, &workspace.cache())? {
            Some(kernel) => {
                let initrd = pack(workspace, &kernel)?;
                tally.add(boot(&kernel, &initrd, verbose)?);
            }
            None => tally.skipped.push(format!("kernel {series}: no package source of this machine has it")),
        }
    }
    Ok(tally)
}

/// Builds both programs.
fn build(workspace: &Workspace) -> Result<()> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace.root());
    cargo.args(["build", "--package", "weir", "--package", "weir-tests", "--bins"]);
    process::run(cargo.stdout(Stdio::null()))
}

/// Packs both programs, and the modules of a kernel.
fn pack(workspace: &Workspace, kernel: &Kernel) -> Result<PathBuf> {
    let built = workspace.target().join("debug");
    let scratch = workspace.target().join("vm");
    fs::create_dir_all(&scratch)?;
    let mut initrd = Initrd::new();
    initrd.add_program("init", &built.join("weir-vm-init"), &scratch)?;
    initrd.add_program("bin/weir", &built.join("weir"), &scratch)?;
    for (number, module) in kernel.modules.iter().enumerate() {
        // Loaded in the order of their names.
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        initrd.insert_file(&format!("modules/{number}-{name}"), module)?;
    }
    let path = scratch.join("initrd.cpio");
    fs::write(&path, initrd.archive()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn boot(kernel: &Kernel, initrd: &Path, verbose: bool) -> Result<Tally> {
    println!("kernel {}", kernel.release);
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "1024"]);
    qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot"]);
    qemu.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(initrd);
    // A panic ends the machine at once, because it may not reboot.
    qemu.args(["-append", "console=ttyS0 quiet panic=-1"]);
    qemu.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut machine = qemu.spawn().with_context(|| format!("cannot start {}", shown(&qemu)))?;
    let serial = machine.stdout.take().context("the machine has no serial line")?;
    let log = watch(&mut machine, &read_lines(serial), verbose);
    // It has ended, or it is ended here.
    let _ = machine.kill();
    machine.wait()?;
    let (tally, problem) = judge(&log);
    if let Some(problem) = problem {
        if !verbose {
            log.iter().for_each(|line| println!("  | {line}"));
        }
        println!("kernel {}: {problem}", kernel.release);
    }
    Ok(tally)
}

/// Reads lines in a thread, so that a machine that says nothing can be given up.
fn read_lines(serial: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(serial).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

fn watch(machine: &mut Child, serial: &Receiver<String>, verbose: bool) -> Vec<String> {
    let end = Instant::now() + LIMIT;
    let mut log = Vec::new();
    loop {
        match serial.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if verbose {
                    println!("  | {line}");
                } else if let Some((_, said)) = line.split_once(MARK) {
                    println!("  {said}");
                }
                log.push(line);
            }
            Err(RecvTimeoutError::Disconnected) => return log,
            Err(RecvTimeoutError::Timeout) => {
                println!("  the machine (process {}) is ended after {LIMIT:?}", machine.id());
                return log;
            }
        }
    }
}

/// Reads the counts in the last line; says what is wrong if there is no such line or a check failed.
fn judge(log: &[String]) -> (Tally, Option<&'static str>) {
    let counts = log.iter().rev().find_map(|line| {
        let (_, said) = line.split_once(MARK)?;
        Some((number_before(said, "passed")?, number_before(said, "failed")?))
    });
    let (tally, problem) = match counts {
        None => (Tally { failed: 1, ..Tally::default() }, Some("the machine ended before its checks did")),
        Some((0, 0)) => (Tally { failed: 1, ..Tally::default() }, Some("the machine has checked nothing")),
        Some((passed, failed)) => {
            (Tally { passed, failed, skipped: Vec::new() }, (failed > 0).then_some("a check failed"))
        }
    };
    (tally, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn the_last_line_has_the_counts() {
        let (tally, problem) = judge(&log(&["weir-vm: ok: this", "[ 3.1] noise", "weir-vm: 7 passed, 0 failed", "x"]));
        assert_eq!((tally.passed, tally.failed, problem), (7, 0, None));
    }

    #[test]
    fn a_failed_check_is_counted() {
        let (tally, problem) = judge(&log(&["weir-vm: FAILED: this: why", "weir-vm: 6 passed, 1 failed"]));
        assert_eq!((tally.passed, tally.failed, problem), (6, 1, Some("a check failed")));
    }

    #[test]
    fn a_machine_that_does_not_come_to_its_end_has_failed() {
        for lines in [&["Kernel panic - not syncing"][..], &["weir-vm: ok: one"], &["weir-vm: 0 passed, 0 failed"]] {
            let (tally, problem) = judge(&log(lines));
            assert_eq!((tally.passed, tally.failed), (0, 1), "{lines:?}");
            assert!(problem.is_some());
        }
    }

    #[test]
    fn lines_of_a_serial_line_end_in_carriage_returns() {
        let lines: Vec<String> = read_lines(&b"one\r\ntwo\xff\r\n"[..]).iter().collect();
        assert_eq!(lines, ["one", "two\u{fffd}"]);
    }
}
