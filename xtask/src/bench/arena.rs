//! Where a path is measured: a client and a backend in namespaces of their own, and servers.

use super::Plan;
use anyhow::Result;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weir_tests::{
    cgroup::Cgroup,
    client::{Client, Probe},
    manifest::{Manifest, Route},
    topology::Topology,
};

/// What the servers of a port do, with the port.
pub(super) const ONCE: (&str, u16) = ("once", 80);
pub(super) const ECHO: (&str, u16) = ("echo", 81);
pub(super) const SINK: (&str, u16) = ("sink", 82);
pub(super) const KINDS: [(&str, u16); 3] = [ONCE, ECHO, SINK];

/// The weights of the two endpoints, for every path that splits.
pub(super) const WEIGHTS: [u32; 2] = [70, 30];

/// Namespaces with servers on both endpoints. Dropping it ends and removes them.
pub(super) struct Arena {
    _servers: Vec<Probe>,
    outside: Cgroup,
    pub(super) net: Topology,
}

impl Arena {
    pub(super) fn new(plan: &Plan, cpu: Option<usize>) -> Result<Self> {
        let net = Topology::new(1, &[&["10.201.0.0/16", "fd00:201::/32"]])?;
        let outside = Cgroup::new("outside")?;
        let server = Client::new_in(&plan.binaries, net.backend(0), &outside).on_cpu(cpu);
        let mut servers = Vec::new();
        for (mode, port) in KINDS {
            servers.push(server.serve(mode, &[endpoint(0, port), endpoint(1, port)])?);
        }
        Ok(Self { _servers: servers, outside, net })
    }

    /// Returns clients that no hook sees.
    pub(super) fn unhooked(&self, plan: &Plan, cpu: Option<usize>) -> Client<'_> {
        self.clients(plan, &self.outside, cpu)
    }

    /// Returns clients in a cgroup.
    pub(super) fn clients<'a>(&'a self, plan: &Plan, cgroup: &'a Cgroup, cpu: Option<usize>) -> Client<'a> {
        Client::new_in(&plan.binaries, self.net.client(0), cgroup).on_cpu(cpu)
    }
}

/// Returns an endpoint's address.
pub(super) fn endpoint(number: u8, port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(10, 201, 0, number + 1).into(), port)
}

/// Returns endpoints to dial in turn, so that each gets as many connections as by [`WEIGHTS`].
pub(super) fn in_turn(port: u16) -> Vec<SocketAddr> {
    let [a, b] = WEIGHTS;
    // The first has its turn as often as its share passes the next whole number.
    let turn = |at: u32| if (at + 1) * a / (a + b) > at * a / (a + b) { 0 } else { 1 };
    (0..a + b).map(|at| endpoint(turn(at), port)).collect()
}

/// Returns the address that the clients of every splitting path dial.
pub(super) fn frontend(port: u16) -> SocketAddr {
    SocketAddr::new(frontend_address(), port)
}

/// See [`frontend`].
pub(super) fn frontend_address() -> IpAddr {
    Ipv4Addr::new(10, 96, 0, 10).into()
}

/// Writes the routes of all ports.
pub(super) fn manifest() -> Manifest {
    KINDS.iter().fold(Manifest::new(), |manifest, (kind, port)| with_kind(manifest, kind, *port))
}

/// Adds a Service with a route and its two backends for one port.
pub(super) fn with_kind(manifest: Manifest, kind: &str, port: u16) -> Manifest {
    let [service, a, b] = ["", "-a", "-b"].map(|suffix| format!("bench/{kind}{suffix}"));
    let address = |number| endpoint(number, port).ip().to_string();
    manifest
        .service(&service, &[&frontend_address().to_string()], &[(kind, port)])
        .service(&a, &[], &[(kind, port)])
        .service(&b, &[], &[(kind, port)])
        .endpoints(&a, kind, port, &[&address(0)])
        .endpoints(&b, kind, port, &[&address(1)])
        .route(&Route::new(&service, &service, &[(&a, port, WEIGHTS[0]), (&b, port, WEIGHTS[1])]))
}

/// One route with two legs of one endpoint each.
pub(super) fn two_legs(weights: [u32; 2]) -> Manifest {
    Manifest::new()
        .service("bench/web", &["10.96.0.10"], &[("tcp", 80)])
        .service("bench/a", &[], &[("tcp", 80)])
        .service("bench/b", &[], &[("tcp", 80)])
        .endpoints("bench/a", "tcp", 80, &["10.201.0.1"])
        .endpoints("bench/b", "tcp", 80, &["10.201.0.2"])
        .route(&Route::new("bench/web", "bench/web", &[("bench/a", 80, weights[0]), ("bench/b", 80, weights[1])]))
}

/// Adds routes that no connection of the bench takes.
pub(super) fn with_others(mut manifest: Manifest, count: usize, endpoints: usize) -> Manifest {
    for number in 0..count {
        let (high, low) = (number / 250, number % 250 + 1);
        let [service, backend] = ["s", "b"].map(|kind| format!("others/{kind}{number}"));
        let addresses: Vec<String> = (0..endpoints).map(|at| format!("10.{}.{high}.{low}", 128 + at)).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        manifest = manifest
            .service(&service, &[&format!("10.97.{high}.{low}")], &[("tcp", 80)])
            .service(&backend, &[], &[("tcp", 80)])
            .endpoints(&backend, "tcp", 80, &addresses)
            .route(&Route::new(&service, &service, &[(&backend, 80, 1)]));
    }
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_connections_take_their_turns_by_the_weights() {
        let turns = in_turn(80);
        let of = |number| turns.iter().filter(|to| **to == endpoint(number, 80)).count() as u32;
        assert_eq!([of(0), of(1)], WEIGHTS);
        assert!(turns.windows(2).all(|two| two.contains(&endpoint(0, 80))), "the lighter one never has two turns");
    }
}
