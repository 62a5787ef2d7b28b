//! `cargo xtask test`: every test, and at the end what was run and what was not.
//!
//! Programs are built as the user; only those that need a kernel run as root.

use crate::{
    built,
    cluster::{self, UpArgs},
    manifests,
    process::{self, Privilege, shown},
    setup::{self, Purpose},
    tally::Tally,
    vm,
    workspace::Workspace,
};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    env, fs,
    io::{self, BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

/// The package whose tests need a kernel.
const KERNEL_TESTS: &str = "weir-tests";

/// The program with the tests that need a cluster, and all others.
const CLUSTER_TESTS: fn(&str) -> bool = |target| target == "cluster";
const OTHERS: fn(&str) -> bool = |target| target != "cluster";

/// Name of the cluster of the tests, which may be there beside one in use.
const CLUSTER: &str = "test";

/// Variables of the user that tests run as root look at.
const HANDED_ON: [&str; 4] = ["CI", "RUST_BACKTRACE", "RUST_LOG", "WEIR_BIN"];

/// Options of `cargo xtask test`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Runs only tests whose name has this in it, and no virtual machines.
    #[arg(long)]
    filter: Option<String>,
    /// Runs the tests on a cluster, and no others: starts one with Weir, and ends it.
    #[arg(long)]
    cluster: bool,
    /// With --cluster: leaves the cluster for another run, or takes the one that an earlier run left.
    #[arg(long, requires = "cluster")]
    keep: bool,
}

/// Runs the tests and prints the counts; returns whether all passed, and in CI none was skipped.
///
/// # Errors
///
/// If something does not build or cannot be started.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<bool> {
    if args.cluster {
        return Ok(on_cluster(workspace, args)?.conclude("not every test on the cluster has passed"));
    }
    setup::prepare(Purpose::Test)?;
    Ok(all(workspace, args)?.conclude("not every test has passed"))
}

/// Runs the tests and counts them.
///
/// # Errors
///
/// If something does not build or cannot be started. A test that fails is counted.
pub(crate) fn all(workspace: &Workspace, args: &Args) -> Result<Tally> {
    let mut tally = host(workspace, args)?;
    tally.add(kernel(workspace, args)?);
    if args.filter.is_none() {
        println!("\nvirtual machines");
        tally.add(vm::check(workspace, false)?);
    }
    Ok(tally)
}

/// The tests that need a cluster.
///
/// # Errors
///
/// If something does not build, or the cluster does not come up. A test that fails is counted.
pub(crate) fn on_cluster(workspace: &Workspace, args: &Args) -> Result<Tally> {
    // Root may have no compiler: it is told what the user has built.
    let list = workspace.target().join("cluster-tests.json");
    if !built::is_second_start() {
        setup::prepare(Purpose::Cluster)?;
        manifests::helm(workspace)?;
        fs::write(&list, serde_json::to_vec(&build_kernel_tests(workspace, CLUSTER_TESTS)?)?)?;
    }
    built::need_root(workspace)?;
    let programs: Vec<PathBuf> = serde_json::from_slice(&fs::read(&list)?)?;
    let helm = manifests::helm(workspace)?;
    let description = cluster::description(workspace, CLUSTER)?;
    if !(args.keep && description.exists()) {
        cluster::up(workspace, CLUSTER, UpArgs { weir: true, ..UpArgs::default() })?;
    }
    let mut tally = Tally::default();
    for program in programs {
        let mut command = Command::new(program);
        // Each of them has the agents, or the API server, to itself.
        command
            .arg("--test-threads=1")
            .args(&args.filter)
            .env(weir_tests::cluster::CLUSTER, &description)
            .env("WEIR_HELM", &helm);
        tally.add(counted(&mut command)?);
    }
    if args.keep {
        println!("the cluster is kept: `cargo xtask cluster --name {CLUSTER} down` ends it");
    } else {
        cluster::down(workspace, CLUSTER)?;
    }
    Ok(tally)
}

/// The tests that need nothing but a compiler.
fn host(workspace: &Workspace, args: &Args) -> Result<Tally> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace.root());
    cargo.args(["test", "--workspace", "--exclude", KERNEL_TESTS, "--no-fail-fast"]);
    if let Some(filter) = &args.filter {
        cargo.args(["--", filter]);
    }
    counted(&mut cargo)
}

/// The tests that need a kernel: built here, run as root.
fn kernel(workspace: &Workspace, args: &Args) -> Result<Tally> {
    let programs = build_kernel_tests(workspace, OTHERS)?;
    let privilege = Privilege::here();
    if privilege == Privilege::None {
        let reason = "tests that need a kernel: this is not root, and there is no sudo".to_owned();
        return Ok(Tally { skipped: vec![reason], ..Tally::default() });
    }
    let variables: Vec<(&str, String)> =
        HANDED_ON.into_iter().filter_map(|name| Some((name, env::var(name).ok()?))).collect();
    let mut tally = Tally::default();
    for program in programs {
        let mut command = privilege.command(program, &variables)?;
        command.current_dir(workspace.root().join("tests")).args(&args.filter);
        println!("\nas root: {}", shown(&command));
        tally.add(counted(&mut command)?);
    }
    Ok(tally)
}

/// Builds the tests, the agent and the other programs that they start.
fn build_kernel_tests(workspace: &Workspace, wanted: fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace.root());
    cargo.args(["build", "--package", "weir", "--package", KERNEL_TESTS, "--bins"]);
    process::run(&mut cargo)?;
    let mut cargo = process::cargo();
    cargo.current_dir(workspace.root());
    cargo.args(["test", "--package", KERNEL_TESTS, "--lib", "--tests", "--no-run"]);
    cargo.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped()).stderr(Stdio::inherit());
    let output = cargo.output().with_context(|| format!("cannot start {}", shown(&cargo)))?;
    if !output.status.success() {
        bail!("{} ended with {}", shown(&cargo), output.status);
    }
    let programs = programs(&String::from_utf8_lossy(&output.stdout), wanted);
    if programs.is_empty() {
        bail!("{KERNEL_TESTS} has no tests");
    }
    Ok(programs)
}

/// Reads from cargo's messages which test programs it made, of those wanted by name.
fn programs(messages: &str, wanted: fn(&str) -> bool) -> Vec<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let tests = messages.filter(|message| message["profile"]["test"] == Value::Bool(true));
    let tests = tests.filter(|message| wanted(message["target"]["name"].as_str().unwrap_or_default()));
    tests.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).collect()
}

/// Runs a command whose output is shown, and counted.
///
/// # Errors
///
/// If it cannot be started. If it fails, that is counted.
pub(crate) fn counted(command: &mut Command) -> Result<Tally> {
    let (output, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", shown(command)))?;
    // The command holds the writing ends: with them the pipe would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut tally = Tally::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        tally.read_test_line(&line);
    }
    let status = child.wait()?;
    if !status.success() && tally.failed == 0 {
        // It did not build, or was killed before it could count.
        println!("{} ended with {status}", shown(command));
        tally.fail();
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_among_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","profile":{"test":false},"executable":"/t/debug/weir-probe"}
{"reason":"compiler-artifact","target":{"name":"scenarios"},"profile":{"test":true},"executable":"/t/debug/deps/scenarios-1"}
{"reason":"compiler-artifact","target":{"name":"cluster"},"profile":{"test":true},"executable":"/t/debug/deps/cluster-1"}
{"reason":"compiler-artifact","profile":{"test":false},"executable":null}
not json
{"reason":"build-finished","success":true}"#;
        assert_eq!(programs(messages, OTHERS), [PathBuf::from("/t/debug/deps/scenarios-1")]);
        assert_eq!(programs(messages, CLUSTER_TESTS), [PathBuf::from("/t/debug/deps/cluster-1")]);
    }

    #[test]
    fn output_is_counted_and_a_failure_without_a_count_is_one() {
        let line = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        let tally = counted(Command::new("echo").arg(line)).unwrap();
        assert_eq!((tally.passed, tally.failed), (2, 0));
        let tally = counted(&mut Command::new("false")).unwrap();
        assert_eq!((tally.passed, tally.failed), (0, 1));
    }
}
