//! The paths that are compared: direct, Weir, nftables and HAProxy.

use super::{
    Plan,
    arena::{Arena, KINDS, WEIGHTS, endpoint, frontend, frontend_address, in_turn, manifest},
};
use crate::process;
use anyhow::{Context as _, Result};
use std::{
    fmt::Write as _,
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};
use weir_tests::{
    agent::{Agent, Launch},
    cgroup::Cgroup,
    client::Client,
    config::ConfigDir,
    leftovers,
    pin_dir::PinDir,
    report::Measured,
    wait,
};

/// Everything that the paths need. Dropping it ends and removes all of it.
pub(super) struct Paths<'a> {
    plan: &'a Plan,
    cpu: Option<usize>,
    weir: Weir,
    direct: Arena,
    nftables: Option<Arena>,
    haproxy: Option<(HaProxy, Arena)>,
    missing: Vec<&'static str>,
}

/// An agent with a cgroup for its clients.
pub(super) struct Weir {
    _agent: Agent,
    _config: ConfigDir,
    _pins: PinDir,
    pub(super) cgroup: Cgroup,
}

impl Weir {
    pub(super) fn start(plan: &Plan, manifest: &str) -> Result<Self> {
        let cgroup = Cgroup::new("bench")?;
        let pins = PinDir::new()?;
        let config = ConfigDir::with(manifest)?;
        let agent = Launch::new_in(&plan.binaries, &config, &cgroup, &pins)?.start()?;
        Ok(Self { _agent: agent, _config: config, _pins: pins, cgroup })
    }
}

/// One way from a client to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Path {
    /// The client dials the endpoints in turn, and no program sees it.
    Direct,
    /// The client dials the endpoints in turn, and Weir's programs see that it is not theirs.
    NotFrontend,
    /// The client dials a frontend of Weir.
    Weir,
    /// The client dials an address that the host translates.
    Nftables,
    /// The client dials a proxy of the host.
    HaProxy,
}

impl Path {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::NotFrontend => "not a frontend, hooks attached",
            Self::Weir => "Weir",
            Self::Nftables => "nftables DNAT, numgen",
            Self::HaProxy => "HAProxy, mode tcp",
        }
    }
}

impl<'a> Paths<'a> {
    /// Sets everything up, on one CPU if one is given.
    pub(super) fn new(plan: &'a Plan, cpu: Option<usize>) -> Result<Self> {
        let mut missing = Vec::new();
        let direct = Arena::new(plan, cpu)?;
        let weir = Weir::start(plan, manifest().text())?;
        let nftables = if process::find("nft").is_some() {
            let arena = Arena::new(plan, cpu)?;
            arena.net.router().command("nft", &["-f", "-"], &ruleset()?).context("nftables")?;
            Some(arena)
        } else {
            missing.push("nftables was not measured: `nft` is not installed.");
            None
        };
        let haproxy = if process::find("haproxy").is_some() {
            let arena = Arena::new(plan, cpu)?;
            Some((HaProxy::start(&arena, cpu)?, arena))
        } else {
            missing.push("HAProxy was not measured: `haproxy` is not installed.");
            None
        };
        let paths = Self { plan, cpu, weir, direct, nftables, haproxy, missing };
        paths.wait_until_ready()?;
        Ok(paths)
    }

    /// Lists the paths that can be measured, in the order of a round.
    pub(super) fn all(&self) -> Vec<Path> {
        let others = [self.nftables.as_ref().map(|_| Path::Nftables), self.haproxy.as_ref().map(|_| Path::HaProxy)];
        [Path::Direct, Path::NotFrontend, Path::Weir].into_iter().chain(others.into_iter().flatten()).collect()
    }

    /// Says what could not be measured.
    pub(super) fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// Measures one round of a path.
    pub(super) fn measure(&self, path: Path, command: &str, port: u16, clients: usize) -> Result<Measured> {
        self.measure_for(path, command, port, clients, self.plan.round)
    }

    fn measure_for(&self, path: Path, command: &str, port: u16, clients: usize, length: Duration) -> Result<Measured> {
        let (client, to) = self.client(path, port).context("this path is not there")?;
        client.measure(command, &to, length, clients).with_context(|| format!("{}: {command}", path.name()))
    }

    fn client(&self, path: Path, port: u16) -> Option<(Client<'_>, Vec<SocketAddr>)> {
        match path {
            Path::Direct => Some((self.direct.unhooked(self.plan, self.cpu), in_turn(port))),
            Path::NotFrontend => Some((self.direct.clients(self.plan, &self.weir.cgroup, self.cpu), in_turn(port))),
            Path::Weir => Some((self.direct.clients(self.plan, &self.weir.cgroup, self.cpu), vec![frontend(port)])),
            Path::Nftables => Some((self.nftables.as_ref()?.unhooked(self.plan, self.cpu), vec![frontend(port)])),
            Path::HaProxy => Some((self.haproxy.as_ref()?.1.unhooked(self.plan, self.cpu), vec![frontend(port)])),
        }
    }

    /// Waits until every path carries connections.
    fn wait_until_ready(&self) -> Result<()> {
        for path in self.all() {
            wait::until(path.name(), wait::SOON, || {
                let measured = self.measure_for(path, "rate", KINDS[0].1, 1, Duration::from_millis(20)).ok()?;
                (measured.count > 0 && measured.failures == 0).then_some(())
            })?;
        }
        Ok(())
    }
}

/// The rules of kube-proxy's kind: one translation of the destination where the host forwards.
fn ruleset() -> Result<String> {
    let mut rules =
        String::from("table ip bench {\n  chain prerouting {\n    type nat hook prerouting priority -100;\n");
    let [a, b] = WEIGHTS;
    for (_, port) in KINDS {
        writeln!(
            rules,
            "    ip daddr {} tcp dport {port} dnat to numgen random mod {} map {{ 0-{} : {}, {}-{} : {} }}",
            frontend_address(),
            a + b,
            a - 1,
            endpoint(0, port).ip(),
            a,
            a + b - 1,
            endpoint(1, port).ip(),
        )?;
    }
    rules.push_str("  }\n}\n");
    Ok(rules)
}

/// A proxy in the router's namespace.
struct HaProxy {
    process: Child,
    config: PathBuf,
}

impl HaProxy {
    fn start(arena: &Arena, cpu: Option<usize>) -> Result<Self> {
        let router = arena.net.router();
        router.ip(&format!("address add {}/32 dev lo", frontend_address()))?;
        let config = leftovers::folder("haproxy.cfg");
        let threads = if cpu.is_some() { 1 } else { 2 };
        fs::write(&config, settings(threads)?)?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", router.name()]);
        if let Some(cpu) = cpu {
            command.args(["taskset", "--cpu-list", &cpu.to_string()]);
        }
        let process = command
            .args(["haproxy", "-db", "-q", "-f"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start HAProxy")?;
        Ok(Self { process, config })
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        // `ip netns exec` and taskset replace themselves, so this is HAProxy.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(&self.config);
    }
}

fn settings(threads: usize) -> Result<String> {
    let mut text = format!(
        "global\n  nbthread {threads}\n  maxconn 4000\n\
         defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n"
    );
    for (kind, port) in KINDS {
        let [a, b] = WEIGHTS;
        write!(
            text,
            "listen {kind}\n  bind {}\n  balance roundrobin\n  server a {} weight {a}\n  server b {} weight {b}\n",
            frontend(port),
            endpoint(0, port),
            endpoint(1, port),
        )?;
    }
    Ok(text)
}
