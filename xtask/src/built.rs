//! The commands that demo, bench and cluster run: built as the user, run as root.

use crate::{
    process::{self, Privilege},
    setup::{self, Purpose},
    workspace::Workspace,
};
use anyhow::{Context as _, Result};
use std::{convert::Infallible, env, process::Stdio};
use weir_tests::binaries::Binaries;

/// Set for the second start of this command, as root, when everything is built.
const BUILT: &str = "WEIR_XTASK_BUILT";

/// Which build of the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Quickly built.
    Debug,
    /// Fast.
    Release,
}

/// Prepares the machine and builds `weir` and `weir-probe`. If this process is not root it starts
/// itself again with sudo then, and ends as that one ended.
///
/// # Errors
///
/// If the build fails, or if there is no way to become root.
pub(crate) fn as_root(workspace: &Workspace, purpose: Purpose, profile: Profile) -> Result<Binaries> {
    let folder = match profile {
        Profile::Debug => "debug",
        Profile::Release => "release",
    };
    if !is_second_start() {
        setup::prepare(purpose)?;
        let mut build = process::cargo();
        build.current_dir(workspace.root()).args([
            "build",
            "--package",
            "weir",
            "--package",
            "weir-tests",
            "--bin",
            "weir",
            "--bin",
            "weir-probe",
        ]);
        match profile {
            Profile::Debug => {}
            Profile::Release => {
                build.arg("--release");
            }
        }
        // Standard output belongs to the result.
        process::run(build.stdout(Stdio::null()))?;
        need_root(workspace)?;
    }
    Ok(Binaries::inside(&workspace.target().join(folder)))
}

/// Whether this command was started again as root, after everything was built.
pub(crate) fn is_second_start() -> bool {
    env::var_os(BUILT).is_some()
}

/// Goes on only as root: any other process starts itself again with sudo, and ends as that one ended.
///
/// # Errors
///
/// If there is no way to become root.
pub(crate) fn need_root(workspace: &Workspace) -> Result<()> {
    match Privilege::here() {
        Privilege::Root => Ok(()),
        privilege @ (Privilege::Sudo | Privilege::None) => match again(workspace, privilege)? {},
    }
}

fn again(workspace: &Workspace, privilege: Privilege) -> Result<Infallible> {
    let this = env::current_exe().context("cannot find the running program")?;
    let target = workspace.target().display().to_string();
    let mut command = privilege.command(this, &[(BUILT, "1".to_owned()), ("CARGO_TARGET_DIR", target)])?;
    eprintln!("everything is built; namespaces, cgroups and BPF need root: going on with sudo");
    let status = command.current_dir(workspace.root()).args(env::args_os().skip(1)).status();
    let status = status.with_context(|| format!("cannot start {}", process::shown(&command)))?;
    std::process::exit(status.code().unwrap_or(1));
}
