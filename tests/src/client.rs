//! Clients: `weir-probe` processes inside a cgroup and a namespace of the run.

use crate::{
    binaries::Binaries,
    cgroup::Cgroup,
    namespace::Namespace,
    report::{Measured, Report},
    tls::options::{SocketOptions, TlsOptions},
};
use anyhow::{Context as _, Result, bail};
use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{IpAddr, SocketAddr},
    process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio},
    time::Duration,
};

/// Where clients of a run live.
#[derive(Clone, Debug)]
pub struct Client<'a> {
    binaries: Binaries,
    namespace: &'a Namespace,
    cgroup: &'a Cgroup,
    cpu: Option<usize>,
}

/// Which connections to open.
#[derive(Clone, Debug)]
pub struct Dial {
    /// Where to.
    pub to: SocketAddr,
    /// Uses an IPv6 socket and the v4-mapped form of an IPv4 address.
    pub mapped: bool,
    /// How many workers at once.
    pub workers: usize,
    /// Bytes to send and to get back on each connection, after the server's name.
    pub bytes: u64,
    /// Whether the client speaks first.
    pub speaks_first: bool,
    /// Sends one datagram instead of connecting by TCP.
    pub udp: bool,
    /// Pause of each worker between two connections.
    pub pause: Duration,
    /// Gives up a connect after this long; zero leaves that to the kernel.
    pub patience: Duration,
    /// Reads until the server ends instead of ending first.
    pub until_end: bool,
    /// Ends with a reset.
    pub reset: bool,
    /// How TLS is spoken, if it is.
    pub tls: TlsOptions,
    /// What is special about the sockets.
    pub socket: SocketOptions,
}

impl Dial {
    /// Dials an address with one worker; the server speaks first.
    #[must_use]
    pub fn to(address: SocketAddr) -> Self {
        Self {
            to: address,
            mapped: false,
            workers: 1,
            bytes: 0,
            speaks_first: false,
            udp: false,
            pause: Duration::ZERO,
            patience: Duration::ZERO,
            until_end: false,
            reset: false,
            tls: TlsOptions::default(),
            socket: SocketOptions::default(),
        }
    }

    /// Speaks TLS so.
    #[must_use]
    pub fn speaking(self, tls: TlsOptions) -> Self {
        Self { tls, ..self }
    }

    /// Sets how many workers dial at once.
    #[must_use]
    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    fn arguments(&self) -> Vec<String> {
        let to = match (self.mapped, self.to.ip()) {
            (true, IpAddr::V4(address)) => SocketAddr::new(address.to_ipv6_mapped().into(), self.to.port()),
            (true, IpAddr::V6(_)) | (false, _) => self.to,
        };
        let mut arguments = vec![
            format!("--to={to}"),
            format!("--workers={}", self.workers),
            format!("--bytes={}", self.bytes),
            format!("--pause-us={}", self.pause.as_micros()),
            format!("--patience-ms={}", self.patience.as_millis()),
        ];
        arguments.extend(self.speaks_first.then(|| "--speaks-first".to_owned()));
        arguments.extend(self.udp.then(|| "--udp".to_owned()));
        arguments.extend(self.until_end.then(|| "--until-end".to_owned()));
        arguments.extend(self.reset.then(|| "--reset".to_owned()));
        arguments.extend(self.tls.arguments());
        arguments.extend(self.socket.arguments());
        arguments
    }
}

impl<'a> Client<'a> {
    /// Makes clients of a namespace and a cgroup.
    ///
    /// # Errors
    ///
    /// If the running program's path cannot be read.
    pub fn new(namespace: &'a Namespace, cgroup: &'a Cgroup) -> Result<Self> {
        Ok(Self::new_in(&Binaries::beside_this()?, namespace, cgroup))
    }

    /// Makes clients of another build.
    #[must_use]
    pub fn new_in(binaries: &Binaries, namespace: &'a Namespace, cgroup: &'a Cgroup) -> Self {
        Self { binaries: binaries.clone(), namespace, cgroup, cpu: None }
    }

    /// Keeps them on one CPU.
    #[must_use]
    pub fn on_cpu(self, cpu: Option<usize>) -> Self {
        Self { cpu, ..self }
    }

    /// Opens `count` connections, one after the other on each worker, and returns what came of them.
    ///
    /// # Errors
    ///
    /// If the probe cannot run. Failed connections are in the report.
    pub fn connect(&self, dial: &Dial, count: u64) -> Result<Report> {
        self.start(dial, count)?.end()
    }

    /// Begins to open `count` connections. Only the end of the probe gives a report.
    ///
    /// # Errors
    ///
    /// If the probe cannot run.
    pub fn start(&self, dial: &Dial, count: u64) -> Result<Probe> {
        let mut arguments = dial.arguments();
        arguments.push(format!("--count={count}"));
        self.spawn("connect", &arguments)
    }

    /// Opens connections one after the other until it is told to end.
    ///
    /// # Errors
    ///
    /// If the probe cannot run.
    pub fn load(&self, dial: &Dial) -> Result<Probe> {
        self.spawn("load", &dial.arguments())
    }

    /// Opens `count` connections and keeps them open until it is told to end. Each request for a
    /// report exchanges a few bytes on every one of them first.
    ///
    /// # Errors
    ///
    /// If the probe cannot run.
    pub fn hold(&self, dial: &Dial, count: u64) -> Result<Probe> {
        let mut arguments = dial.arguments();
        arguments.push(format!("--count={count}"));
        self.spawn("hold", &arguments)
    }

    /// Moves the pattern both ways on each of `count` connections to servers of
    /// [`Conduct::Transfer`](crate::tls::server::Conduct::Transfer). With `waits` the probe reads nothing
    /// until a report is asked for.
    ///
    /// # Errors
    ///
    /// If the probe cannot run.
    pub fn transfer(&self, dial: &Dial, count: u64, up: u64, down: u64, waits: bool) -> Result<Probe> {
        let mut arguments = dial.arguments();
        arguments.extend([format!("--count={count}"), format!("--up={up}"), format!("--down={down}")]);
        arguments.extend(waits.then(|| "--waits".to_owned()));
        self.spawn("transfer", &arguments)
    }

    /// Runs any command inside cgroup and namespace, with `input` on standard input.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn command(&self, program: &str, arguments: &[&str], input: &str) -> Result<Output> {
        let mut all = vec!["--".to_owned(), program.to_owned()];
        all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        let mut child =
            self.program("exec", &all)?.stderr(Stdio::piped()).spawn().context("cannot start weir-probe")?;
        if let Some(mut stdin) = child.stdin.take() {
            // A command that has ended reads nothing more; its status tells.
            let _ = stdin.write_all(input.as_bytes());
        }
        Ok(child.wait_with_output()?)
    }

    /// Runs a measurement of the probe: `rate`, `ping-pong` or `stream`. `rate` dials the addresses in
    /// turn, one a connection; the others use the first.
    ///
    /// # Errors
    ///
    /// If the probe fails.
    pub fn measure(&self, command: &str, to: &[SocketAddr], length: Duration, clients: usize) -> Result<Measured> {
        let mut arguments = vec![format!("--for-ms={}", length.as_millis())];
        let used = if command == "rate" { to.len() } else { 1 };
        arguments.extend(to.iter().take(used).map(|to| format!("--to={to}")));
        if command == "rate" {
            arguments.push(format!("--clients={clients}"));
        }
        let mut probe = self.spawn(command, &arguments)?;
        let line = probe.line()?;
        serde_json::from_str(&line).with_context(|| format!("weir-probe {command} said: {line:?}"))
    }

    /// Runs a measurement with ClientHellos; `what` is the rest of its options, after the addresses and
    /// how long it takes.
    ///
    /// # Errors
    ///
    /// If the probe fails.
    pub fn measure_tls(&self, to: &[SocketAddr], length: Duration, what: &[String]) -> Result<Measured> {
        let mut arguments = vec![format!("--for-ms={}", length.as_millis())];
        arguments.extend(to.iter().map(|to| format!("--to={to}")));
        arguments.extend_from_slice(what);
        let line = self.spawn("measure-tls", &arguments)?.line()?;
        serde_json::from_str(&line).with_context(|| format!("weir-probe measure-tls {what:?} said: {line:?}"))
    }

    /// Starts the servers of the bench: `once`, `echo`, `sink` and the others of `weir-probe serve`. They
    /// end with the value returned.
    ///
    /// # Errors
    ///
    /// If an address is taken.
    pub fn serve(&self, mode: &str, addresses: &[SocketAddr]) -> Result<Probe> {
        let mut arguments: Vec<String> = addresses.iter().map(|address| format!("--listen={address}")).collect();
        arguments.push(format!("--mode={mode}"));
        let mut probe = self.spawn("serve", &arguments)?;
        let line = probe.line()?;
        if line.trim() != "ready" {
            bail!("weir-probe serve said: {line:?}");
        }
        Ok(probe)
    }

    /// Runs a command of the probe inside cgroup and namespace.
    ///
    /// # Errors
    ///
    /// If the probe has not been built.
    pub fn spawn(&self, command: &str, arguments: &[String]) -> Result<Probe> {
        let mut child = self.program(command, arguments)?.spawn().context("cannot start weir-probe")?;
        let requests = child.stdin.take();
        let answers = child.stdout.take().map(BufReader::new);
        Ok(Probe { child, requests, answers })
    }

    fn program(&self, command: &str, arguments: &[String]) -> Result<Command> {
        let mut probe = Command::new(self.binaries.probe()?);
        probe
            .arg(format!("--cgroup={}", self.cgroup.path().display()))
            .arg(format!("--namespace={}", self.namespace.name()))
            .args(self.cpu.map(|cpu| format!("--cpu={cpu}")))
            .arg(command)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        Ok(probe)
    }
}

/// A running probe. Dropping it ends it.
#[derive(Debug)]
pub struct Probe {
    child: Child,
    requests: Option<ChildStdin>,
    answers: Option<BufReader<ChildStdout>>,
}

impl Probe {
    /// Asks what came of the connections so far.
    ///
    /// # Errors
    ///
    /// If the probe has ended.
    pub fn report(&mut self) -> Result<Report> {
        let requests = self.requests.as_mut().context("the probe was ended")?;
        writeln!(requests, "report")?;
        self.read()
    }

    /// Reads the report that a transfer which waits gives before.
    ///
    /// # Errors
    ///
    /// If the probe has ended.
    pub fn opened(&mut self) -> Result<Report> {
        self.read()
    }

    /// Ends the probe and returns its last report.
    ///
    /// # Errors
    ///
    /// If the probe failed.
    pub fn end(mut self) -> Result<Report> {
        self.requests = None;
        let report = self.read()?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("weir-probe ended with {status}");
        }
        Ok(report)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.as_mut().context("the probe has no output")?.read_line(&mut line)?;
        Ok(line)
    }

    fn read(&mut self) -> Result<Report> {
        let line = self.line()?;
        serde_json::from_str(&line).with_context(|| format!("weir-probe said: {line:?}"))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
