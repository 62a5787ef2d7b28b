//! Where TLS is measured: one client, one backend with servers, one agent with both ways to enforce names.

use super::super::{
    Plan,
    arena::{WEIGHTS, endpoint, in_turn},
};
use anyhow::Result;
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use std::net::{Ipv4Addr, SocketAddr};
use weir_tests::{
    agent::{Agent, Launch},
    cgroup::Cgroup,
    client::{Client, Probe},
    config::ConfigDir,
    manifest::{Manifest, Route},
    pin_dir::PinDir,
    tls::{
        options::Speech,
        server::{Conduct, Listen, TlsServer},
    },
    topology::Topology,
};

/// What the probe's servers of a port do, with the port.
pub(super) const ONCE: (&str, u16) = ("hello-once", 443);
pub(super) const HANDSHAKE: (&str, u16) = ("handshake", 444);
pub(super) const ECHO: (&str, u16) = ("hello-echo", 445);
pub(super) const SINK: (&str, u16) = ("hello-sink", 446);
pub(super) const SOURCE: (&str, u16) = ("hello-source", 447);
pub(super) const SERVED: [(&str, u16); 5] = [ONCE, HANDSHAKE, ECHO, SINK, SOURCE];
/// Servers for as many connections as one likes.
pub(super) const HOLD: (&str, u16) = ("hold", 448);
/// Servers that send as much as one likes.
pub(super) const TRANSFER: (&str, u16) = ("transfer", 449);

/// The server name of every connection that is served.
pub(super) const NAME: &str = "shop.example";
/// A name that no route has.
pub(super) const WRONG_NAME: &str = "wrong.example";

/// Cluster addresses: names enforced in the kernel, and by the agent.
pub(super) const VERIFY: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
pub(super) const ACCEPT: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 11);

/// All of it. Dropping it ends and removes it.
pub(super) struct Arena {
    pub(super) agent: Agent,
    _config: ConfigDir,
    _pins: PinDir,
    hooked: Cgroup,
    _served: Vec<Probe>,
    outside: Cgroup,
    _held: Vec<TlsServer>,
    pub(super) transfer: Vec<TlsServer>,
    pub(super) net: Topology,
}

impl Arena {
    /// Sets everything up, on one CPU if one is given.
    pub(super) fn new(plan: &Plan, cpu: Option<usize>) -> Result<Self> {
        let net = Topology::new(1, &[&["10.201.0.0/16"]])?;
        let outside = Cgroup::new("outside")?;
        let server = Client::new_in(&plan.binaries, net.backend(0), &outside).on_cpu(cpu);
        let mut served = Vec::new();
        for (mode, port) in SERVED {
            served.push(server.serve(mode, &[endpoint(0, port), endpoint(1, port)])?);
        }
        let held = listeners(&net, HOLD.1, Conduct::Greet)?;
        let transfer = listeners(&net, TRANSFER.1, Conduct::Transfer)?;
        let (hooked, pins) = (Cgroup::new("bench")?, PinDir::new()?);
        let config = ConfigDir::with(manifest())?;
        let launch = Launch::new_in(&plan.binaries, &config, &hooked, &pins)?.options("--hello-timeout 120s");
        let agent = start_on(cpu, launch)?;
        Ok(Self { agent, _config: config, _pins: pins, hooked, _served: served, outside, _held: held, transfer, net })
    }

    /// Returns clients that no hook sees.
    pub(super) fn unhooked(&self, plan: &Plan, cpu: Option<usize>) -> Client<'_> {
        Client::new_in(&plan.binaries, self.net.client(0), &self.outside).on_cpu(cpu)
    }

    /// Returns clients of Weir.
    pub(super) fn hooked(&self, plan: &Plan, cpu: Option<usize>) -> Client<'_> {
        Client::new_in(&plan.binaries, self.net.client(0), &self.hooked).on_cpu(cpu)
    }
}

/// Returns what a direct client dials.
pub(super) fn direct(port: u16) -> Vec<SocketAddr> {
    in_turn(port)
}

/// Starts an agent that has one CPU only, as on a machine with one.
fn start_on(cpu: Option<usize>, launch: Launch) -> Result<Agent> {
    let Some(cpu) = cpu else { return launch.start() };
    // 0 means the calling thread; what it starts inherits it.
    let this = Pid::from_raw(0);
    let before = sched_getaffinity(this)?;
    let mut one = CpuSet::new();
    one.set(cpu)?;
    sched_setaffinity(this, &one)?;
    let agent = launch.start();
    sched_setaffinity(this, &before)?;
    agent
}

fn listeners(net: &Topology, port: u16, conduct: Conduct) -> Result<Vec<TlsServer>> {
    let start = |(number, name)| {
        Listen::on(net.backend(0), endpoint(number, port), name).speech(Speech::Hello).conduct(conduct).start()
    };
    [(0, "a"), (1, "b")].into_iter().map(start).collect()
}

/// Every port with both frontends: one name, and two names that lead to different backends.
fn manifest() -> Manifest {
    let ports = SERVED.into_iter().chain([HOLD, TRANSFER]);
    ports.fold(Manifest::new(), |manifest, (kind, port)| {
        let [verify, accept, other, a, b] =
            ["", "-accept", "-other", "-a", "-b"].map(|suffix| format!("bench/{kind}{suffix}"));
        let address = |number| endpoint(number, port).ip().to_string();
        let split = [(a.as_str(), port, WEIGHTS[0]), (b.as_str(), port, WEIGHTS[1])];
        manifest
            .service(&verify, &[&VERIFY.to_string()], &[(kind, port)])
            .service(&accept, &[&ACCEPT.to_string()], &[(kind, port)])
            .service(&a, &[], &[(kind, port)])
            .service(&b, &[], &[(kind, port)])
            .endpoints(&a, kind, port, &[&address(0)])
            .endpoints(&b, kind, port, &[&address(1)])
            .route(&Route::tls(&verify, &verify, &[NAME], &split))
            .route(&Route::tls(&accept, &accept, &[NAME], &split))
            .route(&Route::tls(&other, &accept, &["other.example"], &[(&b, port, 1)]))
    })
}
