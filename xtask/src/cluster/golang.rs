//! Programs and files that come as Go modules: Kubernetes itself, CoreDNS, the Gateway API's definitions.
//!
//! What is built stays in the checkout's cache under the hash of its sources, so a second cluster starts at once.

use crate::{
    image, interrupt,
    process::{USUAL_GO, find, shown},
    workspace::Workspace,
};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The Gateway API that the test cluster has.
const GATEWAY_API: &str = "sigs.k8s.io/gateway-api@v1.6.3";

/// How often a build says that it is alive.
const SIGN: Duration = Duration::from_secs(30);

/// Builds Kubernetes, or finds it built: control plane, kubelet, kube-proxy and kubectl in one program.
///
/// # Errors
///
/// If it cannot be built.
pub(crate) fn kubebox(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.root().join("tests/cluster/kubebox");
    let sources = fs::read_to_string(folder.join("go.mod")).context("tests/cluster/kubebox/go.mod")?;
    let version = required(&sources, "k8s.io/kubernetes").context("kubebox/go.mod requires no k8s.io/kubernetes")?;
    let minor = version.split('.').nth(1).unwrap_or_default();
    // Without these Kubernetes calls itself v0.0.0, and clients refuse to speak with it.
    let place = "k8s.io/component-base/version";
    let flags = [
        format!("-X {place}.gitVersion={version}"),
        format!("-X {place}.gitMajor=1"),
        format!("-X {place}.gitMinor={minor}"),
        format!("-X {place}.gitTreeState=clean"),
        format!("-X {place}.gitCommit={:040}", 0),
        format!("-X {place}.buildDate=2026-01-01T00:00:00Z"),
    ];
    build(workspace, &folder, "kubebox", &flags.join(" "), "takes 10 to 15 minutes the first time")
}

/// Builds cluster DNS, or finds it built.
///
/// # Errors
///
/// If it cannot be built.
pub(super) fn dns(workspace: &Workspace) -> Result<PathBuf> {
    build(workspace, &workspace.root().join("tests/cluster/dns"), "dns", "", "takes some minutes the first time")
}

/// Returns the folder with the Gateway API's CustomResourceDefinitions of the Standard channel.
///
/// # Errors
///
/// If the module cannot be had.
pub(super) fn gateway_api(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.cache().join(GATEWAY_API.replace('/', "-"));
    if folder.is_dir() {
        return Ok(folder);
    }
    let mut command = go()?;
    command.args(["mod", "download", "-json", GATEWAY_API]).stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("cannot start {}", shown(&command)))?;
    let module: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let (Some(module), None) = (module["Dir"].as_str(), module["Error"].as_str()) else {
        bail!("{} has no folder for it: {}", shown(&command), module["Error"].as_str().unwrap_or("no reason given"));
    };
    // Root, who installs them, has no modules of Go.
    let unfinished = folder.with_extension("unfinished");
    fs::create_dir_all(&unfinished)?;
    for entry in fs::read_dir(Path::new(module).join("config/crd/standard"))? {
        let entry = entry?;
        fs::write(unfinished.join(entry.file_name()), fs::read(entry.path())?)?;
    }
    fs::rename(&unfinished, &folder)?;
    Ok(folder)
}

/// Builds a command of a Go module at a version, or finds it built.
///
/// # Errors
///
/// If it cannot be built.
pub(crate) fn tool(workspace: &Workspace, package: &str, version: &str) -> Result<PathBuf> {
    let name = package.rsplit('/').next().unwrap_or(package);
    let folder = workspace.cache().join(format!("{name}-{version}"));
    let built = folder.join(name);
    if !built.is_file() {
        eprintln!("{name} {version} is built from its Go modules, which takes some minutes the first time");
        let mut command = go()?;
        // Outside of the checkout, whose modules are not meant for it. Go puts it there when it is whole.
        command.current_dir(std::env::temp_dir()).env("GOBIN", &folder).env("CGO_ENABLED", "0");
        command.args(["install", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", &format!("{package}@{version}")]);
        patiently(&mut command, name)?;
    }
    Ok(built)
}

/// Returns a command for Go.
///
/// # Errors
///
/// If there is none.
pub(super) fn go() -> Result<Command> {
    let path = find("go").or_else(|| Some(PathBuf::from(USUAL_GO)).filter(|path| path.is_file()));
    Ok(Command::new(path.context("there is no `go`: install it (https://go.dev/dl), 1.21 or newer")?))
}

fn build(workspace: &Workspace, folder: &Path, name: &str, flags: &str, patience: &str) -> Result<PathBuf> {
    let built = built(workspace, folder, name)?;
    if built.is_file() {
        return Ok(built);
    }
    fs::create_dir_all(workspace.cache())?;
    let lock = File::create(workspace.cache().join(format!("{name}.lock")))?;
    lock.lock().with_context(|| format!("cannot lock the build of {name}"))?;
    // Another command may have built it while this one waited.
    if built.is_file() {
        return Ok(built);
    }
    eprintln!("cluster: {name} is built from its Go modules, which {patience}");
    let unfinished = built.with_extension("unfinished");
    let mut command = go()?;
    command.current_dir(folder).env("CGO_ENABLED", "0");
    command.args(["build", "-trimpath", "-buildvcs=false", "-ldflags", &format!("-s -w {flags}"), "-o"]);
    command.arg(&unfinished).arg(".").stdout(Stdio::null());
    patiently(&mut command, name)?;
    // Whole or not at all.
    fs::rename(&unfinished, &built)?;
    Ok(built)
}

/// Returns where a program of these sources is, once it is built.
fn built(workspace: &Workspace, folder: &Path, name: &str) -> Result<PathBuf> {
    let mut sources = Vec::new();
    for file in ["go.mod", "go.sum", "main.go"] {
        let path = folder.join(file);
        sources.extend(fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
    }
    Ok(workspace.cache().join(format!("{name}-{}", &image::digest(&sources)[..16])))
}

/// Runs a command that takes minutes, and says so from time to time.
fn patiently(command: &mut Command, name: &str) -> Result<()> {
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot start {}", shown(command)))?;
    let mut said = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if interrupt::came() {
            let _ = child.kill();
            let _ = child.wait();
            interrupt::check()?;
        }
        let signs = start.elapsed().as_secs() / SIGN.as_secs();
        if signs > said {
            said = signs;
            eprintln!("{name} is still being built, after {} s", start.elapsed().as_secs());
        }
        thread::sleep(Duration::from_millis(100));
    };
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    eprintln!("{name} is built, after {} s", start.elapsed().as_secs());
    Ok(())
}

/// Reads the version that a go.mod requires of a module.
fn required(sources: &str, module: &str) -> Option<String> {
    sources.lines().find_map(|line| {
        let line = line.trim().trim_start_matches("require ");
        let version = line.strip_prefix(module)?.strip_prefix(' ')?;
        version.starts_with('v').then(|| version.split_whitespace().next().map(str::to_owned))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_as_go_writes_it() {
        let sources = "module m\n\nrequire (\n\tk8s.io/kubernetes/x v9\n\tk8s.io/kubernetes v1.37.2 // indirect\n)\n\
                       replace k8s.io/api => k8s.io/api v0.37.2\n";
        assert_eq!(required(sources, "k8s.io/kubernetes").as_deref(), Some("v1.37.2"));
        assert_eq!(required("require k8s.io/kubernetes v1.37.2\n", "k8s.io/kubernetes").as_deref(), Some("v1.37.2"));
        assert_eq!(required(sources, "k8s.io/api"), None);
    }

    #[test]
    fn other_sources_are_another_program() {
        let workspace = Workspace::find().unwrap();
        let folder = tempfile::tempdir().unwrap();
        for file in ["go.mod", "go.sum", "main.go"] {
            fs::write(folder.path().join(file), "one").unwrap();
        }
        let one = built(&workspace, folder.path(), "x").unwrap();
        fs::write(folder.path().join("main.go"), "two").unwrap();
        assert_ne!(one, built(&workspace, folder.path(), "x").unwrap());
    }
}
