//! `cargo xtask crds`: writes the CustomResourceDefinitions of Weir's own kinds to where they are shipped.

use crate::{process, workspace::Workspace};
use anyhow::{Context as _, Result, bail};
use std::{fs, process::Stdio};

/// Where they are shipped. `agent/src/cli/crds.rs` tests both.
const PLACES: [&str; 2] = ["deploy/kubernetes/crds/weir.yaml", "deploy/helm/weir/crds/weir.yaml"];

/// Writes the files.
///
/// # Errors
///
/// If `weir` does not build or a file cannot be written.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut cargo = process::cargo();
    cargo.current_dir(workspace.root()).args(["run", "--quiet", "--package", "weir", "--", "crds"]);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("{} ended with {}", process::shown(&cargo), output.status);
    }
    for place in PLACES {
        let path = workspace.root().join(place);
        fs::write(&path, &output.stdout).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{place}");
    }
    Ok(())
}
