//! Does the steps of a plan, and says what it does and why.

use super::{
    plan::{DEBIAN_RUST, Package, Step, System, Toolchain, by_hand},
    probe::{self, LLVM, RUST, version_of},
};
use crate::process::{self, Privilege, answer, shown};
use anyhow::{Context, Result, bail};
use std::{env, process::Command};

/// Installs one thing.
///
/// # Errors
///
/// If the installer fails; the error has its command and what can be done by hand.
pub(super) fn step(step: &Step, system: &System) -> Result<()> {
    match step {
        Step::Packages(packages) => apt(packages),
        Step::RustSource(toolchain) => rust_source(toolchain.as_deref(), system),
        Step::DebianRust => debian_rust(),
        Step::Linker => linker(),
        Step::Deny => cargo_install("cargo-deny", "^0.20", "checks licences and sources of dependencies", &[]),
    }
}

/// Packages are never removed for ours, and the list of packages is fetched only when it is too old.
fn apt(packages: &[Package]) -> Result<()> {
    let privilege = Privilege::here();
    for package in packages {
        say(&format!("{} {}", package.name, package.why));
    }
    let names: Vec<&str> = packages.iter().map(|package| package.name).collect();
    let mut is_fresh = false;
    if names.iter().any(|name| candidate(name).is_none()) {
        update(privilege)?;
        is_fresh = true;
        if let Some(name) = names.iter().find(|name| candidate(name).is_none()) {
            bail!(
                "no package source of this machine has `{name}`: add one to /etc/apt/sources.list.d \
                 (Debian has it in its security archive), or install the program itself"
            );
        }
    }
    match install(privilege, &names) {
        Ok(()) => Ok(()),
        // The list may name versions that are gone.
        Err(_) if !is_fresh => {
            update(privilege)?;
            install(privilege, &names)
        }
        Err(error) => Err(error),
    }
}

fn candidate(package: &str) -> Option<String> {
    let policy = answer(Command::new("apt-cache").env("LC_ALL", "C").args(["policy", package]))?;
    let candidate = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    (candidate != "(none)").then(|| candidate.to_owned())
}

pub(super) fn update(privilege: Privilege) -> Result<()> {
    let mut command = privilege.command("apt-get", &[])?;
    command.args(["-q", "update"]);
    as_root(&mut command)
}

fn install(privilege: Privilege, names: &[&str]) -> Result<()> {
    let mut command = privilege.command("apt-get", &[("DEBIAN_FRONTEND", "noninteractive".to_owned())])?;
    command.args(["-q", "-y", "install", "--no-install-recommends", "--no-remove"]).args(names);
    as_root(&mut command)
}

fn as_root(command: &mut Command) -> Result<()> {
    eprintln!("     as root: {}", shown(command));
    process::run(command)
}

/// Where rustup cannot fetch the source, Debian has a core library that is compiled already.
fn rust_source(toolchain: Option<&str>, system: &System) -> Result<()> {
    say("rust-src has the source of Rust's core library, which is compiled for BPF");
    let mut command = Command::new("rustup");
    command.args(["component", "add", "rust-src"]);
    if let Some(name) = toolchain {
        command.args(["--toolchain", name]);
    }
    let Err(error) = process::run(&mut command) else { return Ok(()) };
    match system.toolchain {
        Toolchain::Own => {}
        Toolchain::Debian | Toolchain::Named(_) => return Err(error),
    }
    say(&format!("rust-src cannot be had ({error}); Debian's compiler takes its place"));
    by_hand(system, &[], &[Step::DebianRust])?;
    debian_rust()
}

fn debian_rust() -> Result<()> {
    let [compiler, _] = &DEBIAN_RUST;
    if candidate(compiler.name).is_none() {
        update(Privilege::here())?;
    }
    let version = candidate(compiler.name);
    if let Some(version) = &version
        && version_of(version).is_none_or(|version| version < RUST)
    {
        bail!("Debian's {} is {version}, and {}.{} is the oldest that will do", compiler.name, RUST.0, RUST.1);
    }
    apt(&DEBIAN_RUST)
}

fn linker() -> Result<()> {
    let prefix = env::var("LLVM_PREFIX").unwrap_or_else(|_| LLVM.to_owned());
    // Without the prefix it takes any LLVM that it finds, and a wrong one fails only when it links.
    cargo_install(
        "bpf-linker",
        "^0.13",
        "links the kernel programs",
        &[("LLVM_PREFIX", &prefix), ("features", "llvm-22")],
    )?;
    if !probe::has_linker() {
        bail!("bpf-linker was installed but does not run: is {prefix} complete, and is its folder on the search path?");
    }
    Ok(())
}

/// Compiles a program from the registry. `settings` are variables, but `features` replaces the defaults.
fn cargo_install(name: &str, version: &str, why: &str, settings: &[(&str, &str)]) -> Result<()> {
    say(&format!("{name} {why}; it is compiled, which takes some minutes"));
    let mut command = process::cargo();
    // Outside of the checkout, whose settings are not meant for it.
    command.current_dir(env::temp_dir());
    command.args(["install", name, "--version", version, "--locked"]);
    for (key, value) in settings {
        if *key == "features" {
            command.args(["--no-default-features", "--features", value]);
        } else {
            command.env(key, value);
        }
    }
    for variable in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        command.env_remove(variable);
    }
    process::run(&mut command).with_context(|| format!("cannot install {name}"))
}

fn say(what: &str) {
    eprintln!("setup: {what}");
}
