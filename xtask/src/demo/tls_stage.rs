//! The stage of the TLS part: namespaces, TLS servers, a copy of the example, and the agent.

use super::phase::Family;
use crate::workspace::Workspace;
use anyhow::Result;
use std::{net::SocketAddr, time::Duration};
use weir_tests::{
    agent::{Agent, Launch},
    binaries::Binaries,
    cgroup::Cgroup,
    client::{Client, Dial, Probe},
    config::ConfigDir,
    pin_dir::PinDir,
    report::Report,
    tls::{
        options::TlsOptions,
        server::{Listen, TlsServer},
    },
    topology::Topology,
};

/// The example that is played.
const EXAMPLE: &str = "deploy/examples/tls";
/// Port of the Services, and of their endpoints.
const PORT: u16 = 443;
const ENDPOINT_PORT: u16 = 8_443;
/// The legs of the example in the order of their networks, and how many endpoints each has.
const LEGS: [(&str, u8); 5] = [("web-v1", 3), ("web-v2", 1), ("api", 2), ("admin", 1), ("tenants", 2)];
/// Pause of each worker of a load, so that connections go on for a while on a fast machine, too.
const PAUSE: Duration = Duration::from_millis(1);

/// What clients dial: a Service of the example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// `shop/web-tls`, on the verify path.
    Web,
    /// `shop/gateway-tls`, on the accept path.
    Gateway,
}

impl Service {
    /// The name of the route of [`Self::Web`].
    pub(super) const WEB_NAME: &str = "web.shop.example";

    fn address(self, family: Family) -> SocketAddr {
        let address = match (self, family) {
            (Self::Web, Family::V4) => [10, 96, 0, 30].into(),
            (Self::Gateway, Family::V4) => [10, 96, 0, 31].into(),
            (Self::Web, Family::V6) => [0xfd00, 0x96, 0, 0, 0, 0, 0, 0x30].into(),
            (Self::Gateway, Family::V6) => [0xfd00, 0x96, 0, 0, 0, 0, 0, 0x31].into(),
        };
        SocketAddr::new(address, PORT)
    }
}

/// Everything that the part makes. Dropped in this order: clients and agent before what they stand on.
pub(super) struct TlsStage {
    agent: Agent,
    _servers: Vec<TlsServer>,
    _config: ConfigDir,
    _pins: PinDir,
    cgroup: Cgroup,
    net: Topology,
    binaries: Binaries,
}

impl TlsStage {
    /// Makes everything and waits until the agent is ready.
    pub(super) fn set(binaries: &Binaries, workspace: &Workspace) -> Result<Self> {
        let net = Topology::new(2, &[&["10.202.0.0/16", "fd00:202::/32"]])?;
        let mut servers = Vec::new();
        for (number, (leg, hosts)) in (1..).zip(LEGS) {
            for host in 1..=hosts {
                for address in [format!("10.202.{number}.{host}"), format!("fd00:202:{number}::{host}")] {
                    let name = format!("{leg}/{address}");
                    let address = SocketAddr::new(address.parse()?, ENDPOINT_PORT);
                    servers.push(Listen::on(net.backend(0), address, &name).start()?);
                }
            }
        }
        let cgroup = Cgroup::new("demo")?;
        let pins = PinDir::new()?;
        let config = ConfigDir::copy_of(&workspace.root().join(EXAMPLE))?;
        let agent = Launch::new_in(binaries, &config, &cgroup, &pins)?.start()?;
        Ok(Self { agent, _servers: servers, _config: config, _pins: pins, cgroup, net, binaries: binaries.clone() })
    }

    pub(super) fn agent(&mut self) -> &mut Agent {
        &mut self.agent
    }

    /// Opens connections from both clients at once and adds up what came of them.
    pub(super) fn connect(&self, to: Service, family: Family, name: &str, count: u64) -> Result<Report> {
        let half = count / 2;
        let dial = dial(to, family, name);
        let first = self.client(0).start(&dial, half)?;
        let second = self.client(1).start(&dial, count - half)?;
        Ok(first.end()?.merge(second.end()?))
    }

    /// Opens connections until it is told to end.
    pub(super) fn load(&self, to: Service, family: Family, name: &str) -> Result<Probe> {
        self.client(0).load(&Dial { pause: PAUSE, ..dial(to, family, name) })
    }

    /// Opens connections and keeps them open.
    pub(super) fn hold(&self, to: Service, family: Family, name: &str, count: u64) -> Result<Probe> {
        self.client(0).hold(&dial(to, family, name), count)
    }

    fn client(&self, number: usize) -> Client<'_> {
        Client::new_in(&self.binaries, self.net.client(number), &self.cgroup)
    }
}

fn dial(to: Service, family: Family, name: &str) -> Dial {
    Dial::to(to.address(family)).workers(2).speaking(TlsOptions::full(name))
}
