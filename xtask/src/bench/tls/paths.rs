//! The ways of a TLS connection that are compared.

use super::{
    super::Plan,
    arena::{ACCEPT, Arena, NAME, ONCE, VERIFY, direct},
    proxies::{Kind, Proxy},
};
use crate::interrupt;
use anyhow::{Context as _, Result};
use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};
use weir_tests::{client::Client, report::Measured, wait};

/// One way from a client to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Path {
    /// The client dials the endpoints in turn, and no program sees it.
    Direct,
    /// The client dials the endpoints in turn, and Weir's programs see that it is not theirs.
    Others,
    /// Weir, names enforced in the kernel.
    Verify,
    /// Weir, names enforced by the agent.
    Accept,
    HaProxy,
    HaProxySplice,
    Nginx,
    Envoy,
}

const ALL: [Path; 8] = [
    Path::Direct,
    Path::Others,
    Path::Verify,
    Path::Accept,
    Path::HaProxy,
    Path::HaProxySplice,
    Path::Nginx,
    Path::Envoy,
];

impl Path {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Others => "not a frontend, hooks attached",
            Self::Verify => "Weir, verify",
            Self::Accept => "Weir, accept",
            Self::HaProxy => "HAProxy, req.ssl_sni",
            Self::HaProxySplice => "the same, splice-auto",
            Self::Nginx => "nginx stream, ssl_preread",
            Self::Envoy => "Envoy, tls_inspector",
        }
    }

    /// Returns which proxy it goes through.
    const fn proxy(self) -> Option<Kind> {
        match self {
            Self::Direct | Self::Others | Self::Verify | Self::Accept => None,
            Self::HaProxy | Self::HaProxySplice => Some(Kind::HaProxy),
            Self::Nginx => Some(Kind::Nginx),
            Self::Envoy => Some(Kind::Envoy),
        }
    }

    /// Returns the address to dial; none where the endpoints are dialled.
    const fn address(self) -> Option<Ipv4Addr> {
        match self {
            Self::Direct | Self::Others => None,
            Self::Verify => Some(VERIFY),
            Self::Accept => Some(ACCEPT),
            // As in the proxies' configurations.
            Self::HaProxy => Some(Ipv4Addr::new(10, 96, 0, 20)),
            Self::HaProxySplice => Some(Ipv4Addr::new(10, 96, 0, 21)),
            Self::Nginx => Some(Ipv4Addr::new(10, 96, 0, 22)),
            Self::Envoy => Some(Ipv4Addr::new(10, 96, 0, 23)),
        }
    }
}

/// Everything that the paths need. Dropping it ends and removes all of it.
pub(super) struct Paths<'a> {
    pub(super) plan: &'a Plan,
    pub(super) cpu: Option<usize>,
    // Before the namespaces that they are in.
    proxies: Vec<(Kind, Proxy)>,
    pub(super) arena: Arena,
}

impl<'a> Paths<'a> {
    /// Sets everything up, on one CPU if one is given.
    pub(super) fn new(plan: &'a Plan, cpu: Option<usize>, cpus: usize) -> Result<Self> {
        let arena = Arena::new(plan, cpu)?;
        let addresses = ALL.iter().filter(|path| path.proxy().is_some()).filter_map(|path| path.address());
        let commands: String = addresses.map(|address| format!("address add {address}/32 dev lo\n")).collect();
        arena.net.router().ip(&commands)?;
        let mut proxies = Vec::new();
        for kind in [Kind::HaProxy, Kind::Nginx, Kind::Envoy] {
            proxies.extend(Proxy::start(kind, &arena, cpu, cpus)?.map(|proxy| (kind, proxy)));
        }
        let paths = Self { plan, cpu, proxies, arena };
        for path in paths.all() {
            wait::until(path.name(), wait::SOON, || {
                let measured = paths.measure(path, ONCE.1, Duration::from_millis(20), "hello", "").ok()?;
                (measured.count > 0 && measured.failures == 0).then_some(())
            })?;
        }
        Ok(paths)
    }

    /// Lists the paths that can be measured.
    pub(super) fn all(&self) -> Vec<Path> {
        let is_there =
            |path: &Path| path.proxy().is_none_or(|kind| self.proxies.iter().any(|(there, _)| *there == kind));
        ALL.into_iter().filter(is_there).collect()
    }

    /// Lists those whose program is not there.
    pub(super) fn missing(&self) -> impl Iterator<Item = (Path, &'static str)> {
        let all = self.all();
        ALL.into_iter().filter(move |path| !all.contains(path)).filter_map(|path| Some((path, path.proxy()?.program())))
    }

    /// Returns a client for a path, and what it dials.
    pub(super) fn client(&self, path: Path, port: u16) -> (Client<'_>, Vec<SocketAddr>) {
        let client = match path {
            Path::Others | Path::Verify | Path::Accept => self.arena.hooked(self.plan, self.cpu),
            Path::Direct | Path::HaProxy | Path::HaProxySplice | Path::Nginx | Path::Envoy => {
                self.arena.unhooked(self.plan, self.cpu)
            }
        };
        let to = path.address().map_or_else(|| direct(port), |address| vec![SocketAddr::new(address.into(), port)]);
        (client, to)
    }

    /// Measures a path once with the right name; `options` are more of the probe's, separated by spaces.
    pub(super) fn measure(
        &self,
        path: Path,
        port: u16,
        length: Duration,
        task: &str,
        options: &str,
    ) -> Result<Measured> {
        self.measure_name(path, port, length, &format!("--task={task} --sni={NAME} {options}"))
    }

    /// The same with any name.
    pub(super) fn measure_name(&self, path: Path, port: u16, length: Duration, options: &str) -> Result<Measured> {
        interrupt::check()?;
        let (client, to) = self.client(path, port);
        let options: Vec<String> = options.split_whitespace().map(str::to_owned).collect();
        client.measure_tls(&to, length, &options).with_context(|| path.name().to_owned())
    }
}
