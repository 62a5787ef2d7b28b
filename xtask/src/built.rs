//! The commands that demo and bench run: built as the user, run as root.

use crate::{
    process::{self, Privilege},
    setup::{self, Purpose},
};
use anyhow::{Context as _, Result, bail};
use std::{convert::Infallible, env, path::PathBuf, process::Stdio};
use weir_tests::binaries::Binaries;

/// Set for the second start of this command, as root, when everything is built.
const BUILT: &str = "WEIR_XTASK_BUILT";

/// Prepares the machine, and builds `weir` and `weir-probe`. If this process is not root it starts itself again with sudo and
/// ends as that one ended.
///
/// # Errors
///
/// If a tool is missing, if the build fails, or if there is no sudo.
pub(crate) fn as_root(purpose: Purpose, release: bool) -> Result<Binaries> {
    let profile = if release { "release" } else { "debug" };
    if env::var_os(BUILT).is_none() {
        setup::prepare(purpose)?;
        let mut build = process::cargo();
        build.args(["build", "--quiet", "--package", "weir", "--package", "weir-tests", "--bins"]);
        if release {
            build.arg("--release");
        }
        // Standard output belongs to the result.
        let status = build.stdout(Stdio::null()).status().context("cannot start cargo")?;
        if !status.success() {
            bail!("the build failed");
        }
        if !nix::unistd::geteuid().is_root() {
            again_as_root()?;
        }
    }
    Ok(Binaries::inside(&target()?.join(profile)))
}

fn again_as_root() -> Result<Infallible> {
    let this = env::current_exe().context("cannot find the running program")?;
    let mut again = Privilege::here().command(this, &[(BUILT, "1".to_owned())])?;
    again.args(env::args_os().skip(1));
    eprintln!("everything is built; namespaces, cgroups and BPF need root: {}", process::shown(&again));
    let status = again.status().context("cannot start sudo")?;
    std::process::exit(status.code().unwrap_or(1));
}

/// Returns cargo's folder for what it builds: this program is in a profile's folder inside it.
fn target() -> Result<PathBuf> {
    let this = env::current_exe().context("cannot find the running program")?;
    let target = this.parent().and_then(|profile| profile.parent());
    Ok(target.context("the running program is not where cargo puts it")?.to_owned())
}
