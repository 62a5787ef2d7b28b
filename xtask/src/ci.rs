//! `cargo xtask ci`: everything that must hold before a change is taken.
//!
//! It goes on after a failure, so that one run shows all of them. The last line has the counts.

use crate::{
    manifests,
    process::{self, answer, shown},
    setup::{self, Purpose},
    tally::Tally,
    test, tidy,
    workspace::Workspace,
};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    env,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// What a step gives: counts of tests, or none if it only passes or fails.
type Outcome = Result<Tally>;
type Step = fn(&Workspace) -> Outcome;

const STEPS: [(&str, Step); 12] = [
    ("format", format),
    ("tidy", rules),
    ("clippy, host", clippy_host),
    ("clippy, kernel programs", clippy_kernel_programs),
    ("dependencies", dependencies),
    ("advisories", advisories),
    ("documentation", documentation),
    ("tests", tests),
    ("demo", demo),
    ("manifests", installation),
    ("tests, cluster", cluster_tests),
    ("demo, cluster", cluster_demo),
];

/// Runs every step; returns whether all of them passed.
pub(crate) fn run(workspace: &Workspace) -> bool {
    let mut tally = Tally::default();
    let mut summary = Vec::new();
    let start = Instant::now();
    println!("==> set-up");
    if let Err(error) = setup::prepare(Purpose::Ci) {
        println!("set-up: {error:#}");
        tally.fail();
        return tally.conclude("nothing can be checked without the tools");
    }
    summary.push(line("set-up", start.elapsed(), true));
    for (name, step) in STEPS {
        println!("\n==> {name}");
        let start = Instant::now();
        let passed = match step(workspace) {
            Ok(counts) => {
                let passed = counts.is_complete();
                tally.add(counts);
                passed
            }
            Err(error) => {
                println!("{name}: {error:#}");
                tally.fail();
                false
            }
        };
        let line = line(name, start.elapsed(), passed);
        println!("<== {line}");
        summary.push(line);
    }
    println!("\n==> summary");
    summary.iter().for_each(|line| println!("{line}"));
    tally.conclude("this change does not pass")
}

fn line(name: &str, took: Duration, passed: bool) -> String {
    format!("{:6.1} s  {}  {name}", took.as_secs_f64(), if passed { "passed" } else { "FAILED" })
}

/// A step that only passes or fails.
fn cargo(workspace: &Workspace, arguments: &str) -> Outcome {
    process::run(process::cargo().current_dir(workspace.root()).args(arguments.split(' ')))?;
    Ok(Tally::default())
}

fn format(workspace: &Workspace) -> Outcome {
    cargo(workspace, "fmt --all --check")
}

fn rules(workspace: &Workspace) -> Outcome {
    tidy::run(workspace)?;
    Ok(Tally::default())
}

fn clippy_host(workspace: &Workspace) -> Outcome {
    cargo(workspace, "clippy --workspace --all-targets -- -D warnings")
}

/// The kernel programs, as `agent/build.rs` compiles them.
fn clippy_kernel_programs(workspace: &Workspace) -> Outcome {
    let sysroot = answer(Command::new("rustc").args(["--print", "sysroot"])).unwrap_or_default();
    if !Path::new(&sysroot).join("lib/rustlib/src/rust/library").is_dir() {
        println!("skipped: the toolchain has no rust-src, and Debian's compiler comes without clippy");
        return Ok(Tally::default());
    }
    let flags =
        [&format!("--cfg=bpf_target_arch=\"{}\"", env::consts::ARCH), "-Ctarget-cpu=v3"].map(ToString::to_string);
    let mut clippy = process::cargo();
    clippy.current_dir(workspace.root().join("ebpf"));
    clippy.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    clippy.args(["clippy", "--release", "--bin", "weir-ebpf", "--features", "kernel,log", "-Z", "build-std=core"]);
    clippy.args(["--target", if cfg!(target_endian = "big") { "bpfeb-unknown-none" } else { "bpfel-unknown-none" }]);
    clippy.arg("--target-dir").arg(workspace.target().join("ebpf-clippy")).args(["--", "-D", "warnings"]);
    process::run(&mut clippy)?;
    Ok(Tally::default())
}

fn dependencies(workspace: &Workspace) -> Outcome {
    cargo(workspace, "deny --all-features check licenses bans sources")
}

/// The list of advisories comes from one host, which is not within reach everywhere.
fn advisories(workspace: &Workspace) -> Outcome {
    let mut deny = process::cargo();
    deny.current_dir(workspace.root()).args(["deny", "--all-features", "check", "advisories"]);
    let output = deny.output().with_context(|| format!("cannot start {}", shown(&deny)))?;
    let words = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(Tally::default());
    }
    if is_out_of_reach(&words) {
        println!("skipped: the list of advisories is out of reach");
        return Ok(Tally::default());
    }
    bail!("{} ended with {}:\n{words}", shown(&deny), output.status)
}

fn is_out_of_reach(words: &str) -> bool {
    words.contains("failed to fetch advisory database")
}

fn documentation(workspace: &Workspace) -> Outcome {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace.root()).env("RUSTDOCFLAGS", "-D warnings");
    cargo.args(["doc", "--workspace", "--no-deps", "--document-private-items"]);
    process::run(&mut cargo)?;
    Ok(Tally::default())
}

fn tests(workspace: &Workspace) -> Outcome {
    test::all(workspace, &test::Args::default())
}

/// The manifests and the chart.
fn installation(workspace: &Workspace) -> Outcome {
    manifests::run(workspace)?;
    Ok(Tally::default())
}

fn demo(workspace: &Workspace) -> Outcome {
    play(workspace, &["demo", "--json"])
}

fn cluster_demo(workspace: &Workspace) -> Outcome {
    play(workspace, &["demo", "--cluster", "--json"])
}

fn cluster_tests(workspace: &Workspace) -> Outcome {
    test::counted(this(workspace)?.args(["test", "--cluster"]))
}

/// A process of its own, because it may start itself again as root.
fn this(workspace: &Workspace) -> Result<Command> {
    let mut command = Command::new(env::current_exe().context("cannot find this program")?);
    command.current_dir(workspace.root());
    Ok(command)
}

fn play(workspace: &Workspace, arguments: &[&str]) -> Outcome {
    let mut demo = this(workspace)?;
    demo.args(arguments).stderr(Stdio::inherit());
    let output = demo.output().with_context(|| format!("cannot start {}", shown(&demo)))?;
    let words = String::from_utf8_lossy(&output.stdout);
    println!("{}", words.trim_end());
    Ok(count_phases(&words, output.status.success()))
}

/// Counts phases as tests. A demo that is off has at least one that failed, and it says which.
fn count_phases(json: &str, is_right: bool) -> Tally {
    let phases = serde_json::from_str::<Value>(json).ok();
    let n_phases = phases.and_then(|value| Some(value["phases"].as_array()?.len() as u64)).unwrap_or_default();
    let is_right = is_right && n_phases > 0;
    let failed = u64::from(!is_right);
    Tally { passed: n_phases.saturating_sub(failed), failed, skipped: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_of_the_demo_count_as_tests() {
        let json = r#"{"phases":[{"name":"a"},{"name":"b"}],"agent_killed_failed_connections":0}"#;
        assert_eq!(count_phases(json, true).to_string(), "2 passed, 0 failed");
        assert_eq!(count_phases(json, false).to_string(), "1 passed, 1 failed");
    }

    #[test]
    fn a_demo_without_phases_has_failed() {
        assert_eq!(count_phases("", true).to_string(), "0 passed, 1 failed");
        assert_eq!(count_phases("{\"phases\":[]}", true).to_string(), "0 passed, 1 failed");
    }

    #[test]
    fn only_a_failed_download_excuses_the_advisories() {
        assert!(is_out_of_reach("2026-01-01 [ERROR] failed to fetch advisory database https://x"));
        assert!(!is_out_of_reach("error[vulnerability]: a crate has one"));
    }
}
