//! kubectl of a cluster, from inside of its network.

use super::{network, pki, place::Place};
use crate::process::shown;
use anyhow::{Context as _, Result, bail};
use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// How to call kubectl as the administrator.
#[derive(Clone, Debug)]
pub(super) struct Kubectl {
    kubebox: PathBuf,
    entrance: Vec<String>,
    kubeconfig: PathBuf,
}

impl Kubectl {
    /// Prepares the calls.
    pub(super) fn new(place: &Place, kubebox: &Path) -> Self {
        Self {
            kubebox: kubebox.to_owned(),
            entrance: network::entrance(&place.control()),
            kubeconfig: place.kubeconfig(pki::ADMIN),
        }
    }

    /// Returns a command.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.entrance[0]);
        command.args(&self.entrance[1..]).arg(&self.kubebox).arg("kubectl");
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        command
    }

    /// Runs kubectl and returns what it wrote.
    ///
    /// # Errors
    ///
    /// If it fails; the message is its own.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<String> {
        self.feed(arguments, "")
    }

    /// The same with something to read.
    ///
    /// # Errors
    ///
    /// If it fails; the message is its own.
    pub(super) fn feed(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", shown(&command)))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("kubectl {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Applies a file or folder on the server's side.
    ///
    /// # Errors
    ///
    /// If the server refuses it.
    pub(super) fn apply(&self, path: &Path) -> Result<()> {
        self.run(&["apply", "--server-side", "-f", &path.display().to_string()]).map(drop)
    }

    /// Waits until all Pods of a Deployment or DaemonSet are ready.
    ///
    /// # Errors
    ///
    /// If they are not after two minutes; the error has what the Pods say.
    pub(super) fn rolled_out(&self, namespace: &str, what: &str) -> Result<()> {
        let waited = self.run(&["-n", namespace, "rollout", "status", what, "--timeout=120s"]);
        waited.map(drop).with_context(|| {
            let pods = self.run(&["-n", namespace, "get", "pods", "-o", "wide"]).unwrap_or_default();
            let events = self.run(&["-n", namespace, "events", "--types=Warning"]).unwrap_or_default();
            format!("{what} in namespace {namespace} does not get ready\n{pods}\n{events}\n")
        })
    }
}
