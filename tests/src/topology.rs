//! Clients and backends in namespaces of their own, joined by one router.
//!
//! ```text
//!  client 0 ── 10.100.0.0/24 ──┐          ┌── 10.200.0.0/24 ── backend 0: every address of its prefixes
//!  client 1 ── 10.100.1.0/24 ──┤  router  ├── 10.200.1.0/24 ── backend 1
//!              fd00:100:n::/64 ┘          └── fd00:200:n::/64
//! ```

use crate::namespace::Namespace;
use anyhow::Result;
use std::{fmt::Write as _, net::IpAddr};

/// The namespaces. Dropping it removes them.
#[derive(Debug)]
pub struct Topology {
    clients: Vec<Namespace>,
    backends: Vec<Namespace>,
    router: Namespace,
}

impl Topology {
    /// Makes `clients` client namespaces, and a backend namespace for each list of prefixes: every
    /// address in them is local there, so that a server can be started on any of them and all
    /// others refuse.
    ///
    /// # Errors
    ///
    /// Without root, or if a prefix is malformed.
    pub fn new(clients: usize, backends: &[&[&str]]) -> Result<Self> {
        let router = Namespace::new("router")?;
        router.sysctl(&[("ipv4.ip_forward", "1"), ("ipv6.conf.all.forwarding", "1")])?;
        let mut topology = Self { clients: Vec::new(), backends: Vec::new(), router };
        for number in 0..clients {
            let client = topology.join("client", number, 100)?;
            // Many connections in a row must not run out of ports while old ones are in TIME_WAIT.
            client.sysctl(&[("ipv4.ip_local_port_range", "1024 65535"), ("ipv4.tcp_tw_reuse", "1")])?;
            topology.clients.push(client);
        }
        for (number, prefixes) in backends.iter().enumerate() {
            let backend = topology.join("backend", number, 200)?;
            // Addresses from a local route are not on an interface, so binding needs leave to do so.
            backend.sysctl(&[
                ("ipv4.ip_nonlocal_bind", "1"),
                ("ipv6.ip_nonlocal_bind", "1"),
                ("core.somaxconn", "4096"),
            ])?;
            let (mut here, mut there) = (String::new(), String::new());
            for prefix in *prefixes {
                let v6 = prefix.contains(':');
                let via = if v6 { format!("fd00:200:{number}::2") } else { format!("10.200.{number}.2") };
                writeln!(here, "route add local {prefix} dev lo")?;
                writeln!(there, "route add {prefix} via {via}")?;
            }
            backend.ip(&here)?;
            topology.router.ip(&there)?;
            topology.backends.push(backend);
        }
        Ok(topology)
    }

    /// Returns a client namespace.
    #[must_use]
    pub fn client(&self, number: usize) -> &Namespace {
        &self.clients[number]
    }

    /// Makes one more client namespace, beside those of the topology; it goes when it is dropped.
    ///
    /// # Errors
    ///
    /// If there is one with this number.
    pub fn extra_client(&self, number: usize) -> Result<Namespace> {
        self.join("client", number, 100)
    }

    /// Returns a backend namespace.
    #[must_use]
    pub fn backend(&self, number: usize) -> &Namespace {
        &self.backends[number]
    }

    /// Returns the router's namespace: what a node's host is to pods.
    #[must_use]
    pub fn router(&self) -> &Namespace {
        &self.router
    }

    /// Makes the router drop what goes to an address without a word: connects to it time out.
    ///
    /// # Errors
    ///
    /// If there is such a route already.
    pub fn black_hole(&self, address: IpAddr) -> Result<()> {
        self.router.ip(&format!("route add blackhole {address}"))
    }

    /// Lets clients send data in the SYN, and servers take it, without a cookie (ip-sysctl, tcp_fastopen).
    ///
    /// # Errors
    ///
    /// If the kernel has no fast open.
    pub fn allow_fast_open(&self) -> Result<()> {
        const CLIENT: u32 = 0x1 | 0x4;
        const SERVER: u32 = 0x2 | 0x200 | 0x400;
        for client in &self.clients {
            client.sysctl(&[("ipv4.tcp_fastopen", &CLIENT.to_string())])?;
        }
        for backend in &self.backends {
            backend.sysctl(&[("ipv4.tcp_fastopen", &SERVER.to_string())])?;
        }
        Ok(())
    }

    /// Takes an address out of the client's routes: connects to it fail before a packet leaves.
    ///
    /// # Errors
    ///
    /// If there is such a route already.
    pub fn no_route(&self, client: usize, address: IpAddr) -> Result<()> {
        self.clients[client].ip(&format!("route add unreachable {address}"))
    }

    fn join(&self, label: &str, number: usize, net: u32) -> Result<Namespace> {
        let namespace = Namespace::new(&format!("{label}{number}"))?;
        let device = format!("{label}{number}");
        self.router.ip(&format!(
            "link add {device} type veth peer name eth0 netns {}\n\
             address add 10.{net}.{number}.1/24 dev {device}\n\
             address add fd00:{net}:{number}::1/64 dev {device} nodad\n\
             link set {device} up\n",
            namespace.name()
        ))?;
        namespace.ip(&format!(
            "address add 10.{net}.{number}.2/24 dev eth0\n\
             address add fd00:{net}:{number}::2/64 dev eth0 nodad\n\
             link set eth0 up\n\
             route add default via 10.{net}.{number}.1\n\
             route add default via fd00:{net}:{number}::1\n"
        ))?;
        Ok(namespace)
    }
}
