//! The stage: namespaces, servers, a copy of the canary example, and the agent.

use super::{dial, phase::Family};
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use std::{
    fs,
    net::SocketAddr,
    process::Command,
    time::{Duration, Instant},
};
use weir_tests::{
    agent::{Agent, Launch},
    binaries::Binaries,
    cgroup::Cgroup,
    client::{Client, Dial, Probe},
    config::ConfigDir,
    pin_dir::PinDir,
    report::Report,
    server::{Behaviour, Server},
    topology::Topology,
    wait,
};

/// The example that is played.
const EXAMPLE: &str = "deploy/examples/canary";
/// The file of the example that has the weights.
const ROUTE: &str = "route.yaml";
const PORT: u16 = 5_432;

/// Pause of each worker of a load, so that connections go on for a while on a fast machine, too.
const PAUSE: Duration = Duration::from_micros(300);

/// Everything that the demo makes. Dropped in this order, and gone then: clients and agent before
/// what they stand on.
pub(super) struct Stage {
    agent: Agent,
    _servers: Vec<Server>,
    config: ConfigDir,
    _pins: PinDir,
    cgroup: Cgroup,
    net: Topology,
    binaries: Binaries,
}

/// Returns the address that clients dial: the Service of the example.
pub(super) fn frontend(family: Family) -> SocketAddr {
    let address = match family {
        Family::V4 => [10, 96, 0, 10].into(),
        Family::V6 => [0xfd00, 0x96, 0, 0, 0, 0, 0, 0x10].into(),
    };
    SocketAddr::new(address, PORT)
}

impl Stage {
    /// Makes everything and waits until the agent is ready.
    pub(super) fn set(binaries: &Binaries, workspace: &Workspace) -> Result<Self> {
        let net = Topology::new(2, &[&["10.201.1.0/24", "fd00:201:1::/64"], &["10.201.2.0/24", "fd00:201:2::/64"]])?;
        let mut servers = Vec::new();
        for (backend, leg, hosts) in [(0, "checkout-v1", 1..=3), (1, "checkout-v2", 1..=1)] {
            for host in hosts {
                for address in [format!("10.201.{}.{host}", backend + 1), format!("fd00:201:{}::{host}", backend + 1)] {
                    let name = format!("{leg}/{address}");
                    let address = SocketAddr::new(address.parse()?, PORT);
                    servers.push(Server::tcp(net.backend(backend), address, &name, Behaviour::Greet)?);
                }
            }
        }
        let cgroup = Cgroup::new("demo")?;
        let pins = PinDir::new()?;
        let config = ConfigDir::copy_of(&workspace.root().join(EXAMPLE))?;
        let agent = Launch::new_in(binaries, &config, &cgroup, &pins)?.start()?;
        Ok(Self { agent, _servers: servers, config, _pins: pins, cgroup, net, binaries: binaries.clone() })
    }

    pub(super) fn agent(&mut self) -> &mut Agent {
        &mut self.agent
    }

    /// Opens connections from both clients at once and adds up what came of them.
    pub(super) fn connect(&self, family: Family, count: u64) -> Result<Report> {
        let half = count / 2;
        let first = self.client(0).start(&dial(family), half)?;
        let second = self.client(1).start(&dial(family), count - half)?;
        Ok(first.end()?.merge(second.end()?))
    }

    /// Opens connections until it is told to end.
    pub(super) fn load(&self, family: Family) -> Result<Probe> {
        self.client(0).load(&Dial { pause: PAUSE, ..dial(family) })
    }

    /// Writes new weights and returns how long it took until they were in force.
    pub(super) fn set_weights(&self, old: [u64; 3], new: [u64; 3]) -> Result<Duration> {
        let text = fs::read_to_string(self.config.path().join(ROUTE))?;
        let text = replace_weights(&text, old, new)?;
        let before = self.agent.generation()?;
        self.config.write(ROUTE, text)?;
        let start = Instant::now();
        wait::until("new weights in force", wait::SOON, || self.agent.generation().ok().filter(|now| *now > before))?;
        Ok(start.elapsed())
    }

    /// Shows `weir top` for some seconds.
    pub(super) fn top(&self, seconds: u32) -> Result<()> {
        let status = Command::new(self.binaries.weir()?)
            .args(["top", "--for", &seconds.to_string(), "--admin", &self.agent.admin().to_string()])
            .status()?;
        if !status.success() {
            bail!("weir top ended with {status}");
        }
        Ok(())
    }

    fn client(&self, number: usize) -> Client<'_> {
        Client::new_in(&self.binaries, self.net.client(number), &self.cgroup)
    }
}

/// Replaces the weights of a route, which must be there as `old` says, in order.
fn replace_weights(text: &str, old: [u64; 3], new: [u64; 3]) -> Result<String> {
    let mut changes = old.iter().zip(new);
    let mut lines = Vec::new();
    for line in text.lines() {
        match line.split_once("weight: ") {
            Some((indent, weight)) if indent.trim().is_empty() => {
                let (expected, new) = changes.next().context("the example has more weights than the demo knows")?;
                if weight.trim().parse::<u64>().ok() != Some(*expected) {
                    bail!("the example's weights are not {old:?} any more: {line}");
                }
                lines.push(format!("{indent}weight: {new}"));
            }
            _ => lines.push(line.to_owned()),
        }
    }
    if changes.next().is_some() {
        bail!("the example has fewer weights than the demo knows");
    }
    lines.push(String::new());
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_weights_can_be_changed() {
        let text = fs::read_to_string(Workspace::find().unwrap().root().join(EXAMPLE).join(ROUTE)).unwrap();
        let changed = replace_weights(&text, [70, 20, 10], [15, 75, 10]).unwrap();
        let weights: Vec<&str> = changed.lines().filter_map(|line| line.trim().strip_prefix("weight: ")).collect();
        assert_eq!(weights, ["15", "75", "10"]);
        assert!(replace_weights(&changed, [70, 20, 10], [1, 1, 1]).is_err());
    }
}
