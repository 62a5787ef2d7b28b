//! An agent under test: the built `weir` command as a child process.

use crate::{binaries::Binaries, cgroup::Cgroup, config::ConfigDir, http, pin_dir::PinDir, wait};
use anyhow::{Context as _, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader, Read},
    net::{SocketAddr, TcpListener},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// How to start an agent.
#[derive(Clone, Debug)]
pub struct Launch {
    program: PathBuf,
    config: PathBuf,
    cgroup: PathBuf,
    pins: PathBuf,
    options: Vec<String>,
    user: Option<u32>,
    shows_log: bool,
}

impl Launch {
    /// Describes an agent of the build that this program belongs to.
    ///
    /// # Errors
    ///
    /// If `weir` has not been built.
    pub fn new(config: &ConfigDir, cgroup: &Cgroup, pins: &PinDir) -> Result<Self> {
        Self::new_in(&Binaries::beside_this()?, config, cgroup, pins)
    }

    /// Describes an agent of another build.
    ///
    /// # Errors
    ///
    /// If `weir` has not been built there.
    pub fn new_in(binaries: &Binaries, config: &ConfigDir, cgroup: &Cgroup, pins: &PinDir) -> Result<Self> {
        Ok(Self {
            program: binaries.weir()?,
            config: config.path().to_owned(),
            cgroup: cgroup.path().to_owned(),
            pins: pins.path().to_owned(),
            options: Vec::new(),
            user: None,
            shows_log: false,
        })
    }

    /// Attaches to another cgroup (or what is not one).
    #[must_use]
    pub fn cgroup_root(self, path: &Path) -> Self {
        Self { cgroup: path.to_owned(), ..self }
    }

    /// Pins to another folder.
    #[must_use]
    pub fn pin_dir(self, path: &Path) -> Self {
        Self { pins: path.to_owned(), ..self }
    }

    /// Adds options, separated by spaces.
    #[must_use]
    pub fn options(mut self, options: &str) -> Self {
        self.options.extend(options.split_whitespace().map(str::to_owned));
        self
    }

    /// Runs the agent as an ordinary user.
    #[must_use]
    pub fn as_user(self, id: u32) -> Self {
        Self { user: Some(id), ..self }
    }

    /// Prints the log when the agent is dropped; a test runner shows that if the test has failed.
    #[must_use]
    pub fn shows_log(self) -> Self {
        Self { shows_log: true, ..self }
    }

    /// Starts the agent and waits until it is ready.
    ///
    /// # Errors
    ///
    /// If it ends or is not ready in time; its log is in the message.
    pub fn start(self) -> Result<Agent> {
        let mut agent = Agent { admin: free_port()?, launch: self, child: None, log: Log::default() };
        agent.spawn()?;
        agent.wait_ready()?;
        Ok(agent)
    }

    /// Runs the agent until it ends by itself and returns what it said: for agents that must refuse.
    ///
    /// # Errors
    ///
    /// If it cannot be started, or is still there after the deadline.
    pub fn run_to_end(self) -> Result<(ExitStatus, String)> {
        let mut agent = Agent { admin: free_port()?, launch: self, child: None, log: Log::default() };
        agent.spawn()?;
        let status = agent.wait_end()?;
        Ok((status, agent.log()))
    }

    fn command(&self, admin: SocketAddr) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("run").arg("--config").arg(&self.config).arg("--cgroup-root").arg(&self.cgroup);
        command.arg("--pin-dir").arg(&self.pins).arg("--admin").arg(admin.to_string()).args(&self.options);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }
}

/// A running agent. Dropping it ends it and removes its pins.
#[derive(Debug)]
pub struct Agent {
    launch: Launch,
    admin: SocketAddr,
    child: Option<Child>,
    log: Log,
}

impl Agent {
    /// Returns the address of the admin port.
    #[must_use]
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Returns its process id while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Returns how much memory it has in use, bytes.
    ///
    /// # Errors
    ///
    /// If it does not run.
    pub fn resident_bytes(&self) -> Result<u64> {
        let pid = self.pid().context("the agent does not run")?;
        let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1_024)
    }

    /// Returns everything it has logged, earlier lives included.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Fetches a page of the admin port.
    ///
    /// # Errors
    ///
    /// If it does not answer with 200.
    pub fn page(&self, path: &str) -> Result<String> {
        match http::get(self.admin, path)? {
            (200, body) => Ok(body),
            (code, body) => bail!("{path}: {code}: {body}"),
        }
    }

    /// Fetches `/status`.
    ///
    /// # Errors
    ///
    /// If it is not JSON.
    pub fn status(&self) -> Result<Value> {
        Ok(serde_json::from_str(&self.page("/status")?)?)
    }

    /// Returns the number of the state in force; it rises with each applied state.
    ///
    /// # Errors
    ///
    /// If the status has none.
    pub fn generation(&self) -> Result<u64> {
        self.status()?.get("generation").and_then(Value::as_u64).context("/status has no generation")
    }

    /// Waits until a state later than `after` is in force.
    ///
    /// # Errors
    ///
    /// If none is applied in time.
    pub fn wait_generation(&self, after: u64) -> Result<u64> {
        wait::until("a new state of the agent", wait::SOON, || self.generation().ok().filter(|now| *now > after))
    }

    /// Makes a change and waits until it is in force.
    ///
    /// # Errors
    ///
    /// If the change fails or is not applied in time.
    pub fn apply(&self, change: impl FnOnce() -> Result<()>) -> Result<u64> {
        let before = self.generation()?;
        change()?;
        self.wait_generation(before)
    }

    /// Adds up the samples of a metric whose labels all include these.
    ///
    /// # Errors
    ///
    /// If the metrics cannot be fetched.
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Result<f64> {
        Ok(sum_samples(&self.page("/metrics")?, name, labels))
    }

    /// Ends the agent at once, as the kernel would.
    ///
    /// # Errors
    ///
    /// If it does not run.
    pub fn kill_9(&mut self) -> Result<()> {
        self.end(Signal::SIGKILL).map(drop)
    }

    /// Asks the agent to end and waits for it.
    ///
    /// # Errors
    ///
    /// If it does not run or does not end.
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        self.end(Signal::SIGTERM)
    }

    /// Sends a signal.
    ///
    /// # Errors
    ///
    /// If it does not run.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.pid().context("the agent does not run")?;
        Ok(kill(Pid::from_raw(i32::try_from(pid)?), signal)?)
    }

    /// Starts the agent again with the same options and waits until it is ready.
    ///
    /// # Errors
    ///
    /// As [`Launch::start`].
    pub fn restart(&mut self) -> Result<()> {
        if self.child.is_some() {
            self.terminate()?;
        }
        self.spawn()?;
        self.wait_ready()
    }

    /// Asks the agent to end and starts the next one without waiting for that end.
    ///
    /// # Errors
    ///
    /// As [`Launch::start`].
    pub fn replace(&mut self) -> Result<Leaving> {
        self.signal(Signal::SIGTERM)?;
        let child = self.child.take().context("the agent does not run")?;
        let leaving = Leaving { child };
        // Until then it would answer in the next one's place.
        let admin = self.admin;
        wait::until("a free admin port", wait::SOON, || http::get(admin, "/readyz").is_err().then_some(()))?;
        self.spawn()?;
        self.wait_ready()?;
        Ok(leaving)
    }

    /// Runs another subcommand of the same build, `weir clean` for instance.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn run(&self, arguments: &[&str]) -> Result<Output> {
        Ok(Command::new(&self.launch.program).args(arguments).stdin(Stdio::null()).output()?)
    }

    /// Runs `weir clean` for this agent's pins.
    ///
    /// # Errors
    ///
    /// If it fails; the message is its own.
    pub fn clean(&self) -> Result<()> {
        let output = self.run(&["clean", "--pin-dir", &self.launch.pins.display().to_string()])?;
        if !output.status.success() {
            bail!("weir clean: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    fn spawn(&mut self) -> Result<()> {
        let mut child = self.launch.command(self.admin).spawn().context("cannot start weir")?;
        self.log.follow(child.stdout.take());
        self.log.follow(child.stderr.take());
        self.child = Some(child);
        Ok(())
    }

    fn wait_ready(&mut self) -> Result<()> {
        let mut ended = None;
        let admin = self.admin;
        let child = self.child.as_mut().context("the agent does not run")?;
        wait::until("a ready agent", wait::SOON, || {
            ended = child.try_wait().ok().flatten();
            let ready = http::get(admin, "/readyz").is_ok_and(|(code, _)| code == 200);
            (ended.is_some() || ready).then_some(())
        })
        .with_context(|| self.log.text())?;
        match ended {
            Some(status) => {
                self.child = None;
                bail!("the agent ended with {status}:\n{}", self.log.text())
            }
            None => Ok(()),
        }
    }

    fn end(&mut self, signal: Signal) -> Result<ExitStatus> {
        self.signal(signal)?;
        self.wait_end()
    }

    fn wait_end(&mut self) -> Result<ExitStatus> {
        let mut child = self.child.take().context("the agent does not run")?;
        let status = wait::until("the agent's end", wait::SOON, || child.try_wait().ok().flatten());
        if status.is_err() {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.log.finish();
        status.with_context(|| self.log.text())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Err(error) = self.clean() {
            eprintln!("{error:#}");
        }
        if self.launch.shows_log {
            self.log.finish();
            eprintln!("log of the agent:\n{}", self.log.text());
        }
    }
}

/// An agent that has been asked to end and may still serve open connections. Dropping it ends it.
#[derive(Debug)]
pub struct Leaving {
    child: Child,
}

impl Leaving {
    /// Waits until it has ended by itself.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub fn wait_end(mut self) -> Result<()> {
        let child = &mut self.child;
        wait::until("the end of the old agent", wait::SOON, || child.try_wait().ok().flatten()).map(drop)
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the agent wrote, gathered by threads.
#[derive(Debug, Default)]
struct Log {
    text: Arc<Mutex<String>>,
    readers: Vec<thread::JoinHandle<()>>,
}

impl Log {
    fn follow(&mut self, stream: Option<impl Read + Send + 'static>) {
        let Some(stream) = stream else { return };
        let text = Arc::clone(&self.text);
        self.readers.push(thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let _ = writeln!(text.lock().unwrap_or_else(PoisonError::into_inner), "{line}");
            }
        }));
    }

    /// Waits for the last lines of an agent that has ended.
    fn finish(&mut self) {
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }

    fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Finds a port that is free now.
fn free_port() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Adds up samples of a metric in the Prometheus or OpenMetrics text format.
fn sum_samples(text: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let wanted: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
    text.lines()
        .filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let (labels, value) = match rest.strip_prefix('{') {
                Some(rest) => rest.rsplit_once("} ")?,
                None => ("", rest.strip_prefix(' ')?),
            };
            wanted.iter().all(|label| labels.contains(label.as_str())).then(|| value.trim().parse::<f64>().ok())?
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_over_the_labels_that_are_not_named() {
        let text = "# TYPE weir_opened counter\nweir_opened_total{leg=\"a\",route=\"r\"} 3\n\
                    weir_opened_total{leg=\"b\",route=\"r\"} 4\nweir_opened_total_more 100\nup 1\n";
        assert_eq!(sum_samples(text, "weir_opened_total", &[("route", "r")]), 7.0);
        assert_eq!(sum_samples(text, "weir_opened_total", &[("leg", "b")]), 4.0);
        assert_eq!(sum_samples(text, "up", &[]), 1.0);
    }
}
