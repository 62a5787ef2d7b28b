//! Builds programs that need no library of the machine they run on.

use crate::{
    process::{self, answer},
    workspace::Workspace,
};
use anyhow::{Context as _, Result};
use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

/// A static program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// What it is called.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) path: PathBuf,
}

/// Builds programs of a package, with the C library inside and without debug information.
///
/// # Errors
///
/// If they do not build, or there is no static C library (Debian: libc6-dev, a part of every C compiler).
pub(crate) fn build(workspace: &Workspace, package: &str, names: &[&str]) -> Result<Vec<Program>> {
    let target = host_triple()?;
    let mut cargo = process::cargo();
    cargo.current_dir(workspace.root());
    cargo.args(["build", "--release", "--package", package, "--target", &target]);
    names.iter().for_each(|name| {
        cargo.args(["--bin", name]);
    });
    // Flags for the target alone: procedural macros are libraries of the compiler and cannot be static.
    let variable = format!("CARGO_TARGET_{}_RUSTFLAGS", target.to_uppercase().replace('-', "_"));
    cargo.env(variable, "-C target-feature=+crt-static").env_remove("RUSTFLAGS").stdout(Stdio::null());
    process::run(&mut cargo)?;
    let built = workspace.target().join(&target).join("release");
    let folder = super::folder(workspace);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    names
        .iter()
        .map(|name| {
            let path = folder.join(name);
            let mut strip = Command::new("strip");
            strip.arg("-o").arg(&path).arg(built.join(name));
            process::run(&mut strip).context("binutils are needed, they come with every C compiler")?;
            Ok(Program { name: (*name).to_owned(), path })
        })
        .collect()
}

/// Returns the compiler's name for this kind of machine.
fn host_triple() -> Result<String> {
    let version = answer(Command::new("rustc").arg("-vV")).context("`rustc -vV` does not run")?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}
