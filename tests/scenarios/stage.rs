//! What the scenarios share: address families, and the usual stage of two clients and some servers.

use anyhow::{Context as _, Result};
use std::net::{IpAddr, SocketAddr};
use weir_tests::{
    agent::{Agent, Launch},
    cgroup::Cgroup,
    client::{Client, Dial},
    config::ConfigDir,
    manifest::{self, Manifest, Route},
    pin_dir::PinDir,
    report::Report,
    server::{Behaviour, Server},
    topology::Topology,
};

/// How a client dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// IPv4 sockets.
    V4,
    /// IPv6 sockets.
    V6,
    /// IPv6 sockets to the v4-mapped form of an IPv4 address.
    Mapped,
}

impl Family {
    /// Returns the n-th address of a network that the scenarios share.
    pub(crate) fn address(self, net: u8, host: u8) -> IpAddr {
        manifest::address(self == Self::V6, net, host)
    }

    /// Dials an address in this way.
    pub(crate) fn dial(self, address: SocketAddr) -> Dial {
        Dial { mapped: self == Self::Mapped, ..Dial::to(address) }
    }

    /// Returns an endpoint's address; `host` is the last part.
    pub(crate) fn endpoint(self, host: u8) -> SocketAddr {
        SocketAddr::new(self.address(ENDPOINT_NET, host), PORT)
    }

    /// Returns an own address of a client in the form that its sockets bind to.
    pub(crate) fn source(self, address: IpAddr) -> IpAddr {
        match (self, address) {
            (Self::Mapped, IpAddr::V4(address)) => address.to_ipv6_mapped().into(),
            (Self::V4 | Self::V6 | Self::Mapped, _) => address,
        }
    }

    /// Returns the address of the frontend `shop/web`.
    pub(crate) fn frontend(self) -> SocketAddr {
        SocketAddr::new(self.address(SERVICE_NET, 10), PORT)
    }

    /// Dials the frontend `shop/web`.
    pub(crate) fn dial_frontend(self) -> Dial {
        self.dial(self.frontend())
    }
}

/// Network of the cluster IPs. Its addresses exist in a namespace of their own, so that a connection
/// which is left alone arrives somewhere.
pub(crate) const SERVICE_NET: u8 = 96;
/// Network of the endpoints.
pub(crate) const ENDPOINT_NET: u8 = 201;
/// Port of frontends and endpoints.
pub(crate) const PORT: u16 = 80;

/// Cluster IPs of `shop/web`.
pub(crate) const WEB_IPS: [&str; 2] = ["10.96.0.10", "fd00:96::10"];

/// The backends that most scenarios use: `shop/a` with the hosts 1 to 3 and `shop/b` with host 11.
pub(crate) fn shop() -> Manifest {
    Manifest::new()
        .service("shop/web", &WEB_IPS, &[("http", PORT)])
        .service("shop/a", &[], &[("http", PORT)])
        .service("shop/b", &[], &[("http", PORT)])
        .endpoints("shop/a", "http", PORT, &addresses(&[1, 2, 3]))
        .endpoints("shop/b", "http", PORT, &addresses(&[11]))
}

/// [`shop`] with one route from `shop/web` to backends of given weights.
pub(crate) fn shop_route(backends: &[(&str, u16, u32)]) -> Manifest {
    shop().route(&Route::new("shop/web", "shop/web", backends))
}

/// Returns the addresses of endpoints in both families.
pub(crate) fn addresses(hosts: &[u8]) -> Vec<&'static str> {
    const V4: [&str; 16] = [
        "10.201.0.0",
        "10.201.0.1",
        "10.201.0.2",
        "10.201.0.3",
        "10.201.0.4",
        "10.201.0.5",
        "10.201.0.6",
        "10.201.0.7",
        "10.201.0.8",
        "10.201.0.9",
        "10.201.0.10",
        "10.201.0.11",
        "10.201.0.12",
        "10.201.0.13",
        "10.201.0.14",
        "10.201.0.15",
    ];
    const V6: [&str; 16] = [
        "fd00:201::0",
        "fd00:201::1",
        "fd00:201::2",
        "fd00:201::3",
        "fd00:201::4",
        "fd00:201::5",
        "fd00:201::6",
        "fd00:201::7",
        "fd00:201::8",
        "fd00:201::9",
        "fd00:201::10",
        "fd00:201::11",
        "fd00:201::12",
        "fd00:201::13",
        "fd00:201::14",
        "fd00:201::15",
    ];
    hosts.iter().flat_map(|host| [V4[usize::from(*host)], V6[usize::from(*host)]]).collect()
}

/// The usual stage. Parts are dropped in this order: what uses others goes before them.
pub(crate) struct Stage {
    pub(crate) agent: Agent,
    pub(crate) config: ConfigDir,
    pub(crate) pins: PinDir,
    pub(crate) cgroup: Cgroup,
    pub(crate) net: Topology,
}

impl Stage {
    /// Starts an agent on a manifest.
    pub(crate) fn set(manifest: &Manifest) -> Result<Self> {
        Self::with_options(manifest, "")
    }

    /// Starts an agent with options on a manifest.
    pub(crate) fn with_options(manifest: &Manifest, options: &str) -> Result<Self> {
        let net = network(2)?;
        Self::on(net, manifest, options)
    }

    /// Starts an agent beside namespaces that a manifest speaks of.
    pub(crate) fn on(net: Topology, manifest: &Manifest, options: &str) -> Result<Self> {
        let cgroup = Cgroup::new("clients")?;
        let pins = PinDir::new()?;
        let config = ConfigDir::with(manifest)?;
        let agent = Launch::new(&config, &cgroup, &pins)?.options(options).shows_log().start()?;
        Ok(Self { agent, config, pins, cgroup, net })
    }

    /// Returns the clients of a client namespace.
    pub(crate) fn client(&self, number: usize) -> Result<Client<'_>> {
        Client::new(self.net.client(number), &self.cgroup)
    }

    /// Opens connections from the first client namespace.
    pub(crate) fn connect(&self, dial: &Dial, count: u64) -> Result<Report> {
        self.client(0)?.connect(dial, count)
    }

    /// Starts servers that greet with `prefix/host`, one a host.
    pub(crate) fn serve(&self, family: Family, prefix: &str, hosts: &[u8]) -> Result<Vec<Server>> {
        let serve = |host: &u8| {
            let name = format!("{prefix}/{host}");
            Server::tcp(self.net.backend(0), family.endpoint(*host), &name, Behaviour::Greet)
        };
        hosts.iter().map(serve).collect()
    }

    /// Starts the servers of [`shop`].
    pub(crate) fn serve_shop(&self, family: Family) -> Result<Vec<Server>> {
        let mut servers = self.serve(family, "a", &[1, 2, 3])?;
        servers.extend(self.serve(family, "b", &[11])?);
        Ok(servers)
    }

    /// Starts a server on a cluster IP, called `untouched`: who arrives there was left alone.
    pub(crate) fn serve_untouched(&self, address: SocketAddr) -> Result<Server> {
        Server::tcp(self.net.backend(1), address, "untouched", Behaviour::Greet)
    }

    /// Replaces the manifest and waits until it is in force.
    pub(crate) fn apply(&self, manifest: &Manifest) -> Result<()> {
        self.agent.apply(|| self.config.write("main.yaml", manifest)).context("new manifest").map(drop)
    }
}

/// Makes the usual namespaces: some clients, the endpoints, the cluster IPs.
pub(crate) fn network(clients: usize) -> Result<Topology> {
    Topology::new(clients, &[&["10.201.0.0/16", "fd00:201::/32"], &["10.96.0.0/16", "fd00:96::/32"]])
}

/// Makes a test of a scenario for each family.
macro_rules! families {
    ($name:ident) => {
        mod $name {
            use crate::stage::{Family, play};

            #[test]
            fn ipv4() {
                play(|| super::$name(Family::V4));
            }

            #[test]
            fn ipv6() {
                play(|| super::$name(Family::V6));
            }

            #[test]
            fn v4_mapped() {
                play(|| super::$name(Family::Mapped));
            }
        }
    };
}
pub(crate) use families;

/// Makes a test of a scenario that has no family.
macro_rules! scenario {
    ($name:ident) => {
        mod $name {
            #[test]
            fn plays() {
                crate::stage::play(super::$name);
            }
        }
    };
}
pub(crate) use scenario;

/// Runs a scenario if this machine can.
pub(crate) fn play(scenario: impl FnOnce() -> Result<()>) {
    if !weir_tests::host::is_ready() {
        return;
    }
    if let Err(error) = scenario() {
        panic!("{error:?}");
    }
}
