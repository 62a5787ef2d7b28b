//! Network namespaces with names, as `ip netns` makes them.

use crate::leftovers;
use anyhow::{Context as _, Result, bail};
use nix::sched::{CloneFlags, setns};
use std::{
    fs::{self, File},
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
};

/// A network namespace. Dropping it removes it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    handle: File,
}

impl Namespace {
    /// Makes a namespace with `lo` up.
    ///
    /// # Errors
    ///
    /// Without root or without the `ip` command (Debian: iproute2).
    pub fn new(label: &str) -> Result<Self> {
        let name = leftovers::name(label);
        ip(&["netns", "add", &name], "")?;
        let handle = File::open(file_of(&name)).with_context(|| format!("cannot open the namespace {name}"))?;
        let namespace = Self { name, handle };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Returns the name that `ip netns` knows.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` commands, one a line, inside the namespace.
    ///
    /// # Errors
    ///
    /// If one fails; the message is `ip`'s.
    pub fn ip(&self, commands: &str) -> Result<()> {
        ip(&["-n", &self.name, "-batch", "-"], commands)
    }

    /// Sets sysctls below `net`, for instance `ipv4.ip_forward`.
    ///
    /// # Errors
    ///
    /// If the kernel has no such setting.
    pub fn sysctl(&self, settings: &[(&str, &str)]) -> Result<()> {
        self.run(|| {
            for (name, value) in settings {
                let path = format!("/proc/sys/net/{}", name.replace('.', "/"));
                fs::write(&path, value).with_context(|| format!("cannot write {value} to {path}"))?;
            }
            Ok(())
        })
    }

    /// Runs a command inside the namespace and returns its output.
    ///
    /// # Errors
    ///
    /// If it cannot be started or fails.
    pub fn command(&self, program: &str, arguments: &[&str], input: &str) -> Result<String> {
        let mut all = vec!["netns", "exec", &self.name, program];
        all.extend(arguments);
        run("ip", &all, input)
    }

    /// Runs a function on a thread inside the namespace. Sockets it makes stay in the namespace.
    ///
    /// # Panics
    ///
    /// If the function does, or if the namespace cannot be entered.
    pub fn run<T: Send>(&self, function: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(&self.handle, CloneFlags::CLONE_NEWNET).expect("cannot enter a namespace: needs root");
                function()
            });
            match inside.join() {
                Ok(value) => value,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = delete(&self.name) {
            eprintln!("{error:#}");
        }
    }
}

fn file_of(name: &str) -> PathBuf {
    PathBuf::from("/run/netns").join(name)
}

pub(crate) fn delete(name: &str) -> Result<()> {
    ip(&["netns", "del", name], "")
}

fn ip(arguments: &[&str], input: &str) -> Result<()> {
    run("ip", arguments, input).map(drop)
}

fn run(program: &str, arguments: &[&str], input: &str) -> Result<String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{program}`: is it installed?"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("`{program} {}` failed: {}\n{input}", arguments.join(" "), message.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
