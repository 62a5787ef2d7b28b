//! The commands that demo and bench run: built as the user, run as root.

use anyhow::{Context as _, Result, bail};
use std::{
    convert::Infallible,
    env,
    path::PathBuf,
    process::{Command, Stdio},
};
use weir_tests::binaries::Binaries;

/// Set for the second start of this command, as root, when everything is built.
const BUILT: &str = "WEIR_XTASK_BUILT";

/// Builds `weir` and `weir-probe`. If this process is not root it starts itself again with sudo and
/// ends as that one ended.
///
/// # Errors
///
/// If the build fails, or if there is no sudo.
pub(crate) fn as_root(release: bool) -> Result<Binaries> {
    let profile = if release { "release" } else { "debug" };
    if env::var_os(BUILT).is_none() {
        let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
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
    eprintln!("everything is built; namespaces, cgroups and BPF need root: going on with sudo");
    let this = env::current_exe().context("cannot find the running program")?;
    let status = Command::new("sudo")
        .arg("env")
        .arg(format!("{BUILT}=1"))
        .arg(this)
        .args(env::args_os().skip(1))
        .status()
        .context("cannot start sudo: run this command as root")?;
    std::process::exit(status.code().unwrap_or(1));
}

/// Returns cargo's folder for what it builds: this program is in a profile's folder inside it.
fn target() -> Result<PathBuf> {
    let this = env::current_exe().context("cannot find the running program")?;
    let target = this.parent().and_then(|profile| profile.parent());
    Ok(target.context("the running program is not where cargo puts it")?.to_owned())
}
