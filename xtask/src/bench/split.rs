//! `bench split`: how far from the wanted shares the first n connections are, beside random choice.

use super::{
    Plan,
    arena::two_legs,
    table::{Cell, Table},
};
use crate::interrupt;
use anyhow::{Result, bail};
use std::net::{Ipv4Addr, SocketAddr};
use weir_tests::{
    agent::Launch,
    cgroup::Cgroup,
    client::{Client, Dial},
    config::ConfigDir,
    pin_dir::PinDir,
    server::{Behaviour, Server},
    topology::Topology,
};

const SPLITS: [[u32; 2]; 3] = [[99, 1], [70, 30], [1, 1_000_000]];
/// Numbers of connections, and how many times each was tried.
const LENGTHS: [(u64, usize); 3] = [(100, 40), (1_000, 10), (10_000, 3)];

pub(super) fn run(plan: &Plan) -> Result<Vec<Table>> {
    let net = Topology::new(1, &[&["10.201.0.0/16"]])?;
    let cgroup = Cgroup::new("split")?;
    let client = Client::new_in(&plan.binaries, net.client(0), &cgroup);
    let endpoint = |host| SocketAddr::new(Ipv4Addr::new(10, 201, 0, host).into(), 80);
    let _servers = [
        Server::tcp(net.backend(0), endpoint(1), "a", Behaviour::Greet)?,
        Server::tcp(net.backend(0), endpoint(2), "b", Behaviour::Greet)?,
    ];
    let mut table = Table::new(
        "Largest deviation from the wanted share, connections",
        &["weights", "100: Weir", "random", "1,000: Weir", "random", "10,000: Weir", "random"],
    );
    let mut chance = Chance(0x5eed);
    for weights in SPLITS {
        let pins = PinDir::new()?;
        let config = ConfigDir::with(two_legs(weights))?;
        let agent = Launch::new_in(&plan.binaries, &config, &cgroup, &pins)?.start()?;
        let dial = Dial::to(SocketAddr::new(Ipv4Addr::new(10, 96, 0, 10).into(), 80));
        let mut cells = Vec::new();
        for (length, tries) in LENGTHS {
            let (mut weir, mut random) = (0.0_f64, 0.0_f64);
            for _ in 0..tries {
                interrupt::check()?;
                let report = client.connect(&dial, length)?;
                if report.failed_in_all() > 0 {
                    bail!("connections failed: {report:?}");
                }
                weir = weir.max(deviation(weights, length, report.answered("a")));
                random = random.max(deviation(weights, length, chance.split(weights, length)));
            }
            cells.extend([Cell::Number(weir, 2), Cell::Number(random, 2)]);
        }
        drop(agent);
        table.row(&format!("{} : {}", weights[0], weights[1]), cells);
    }
    let tries: Vec<String> = LENGTHS.iter().map(|(length, tries)| format!("{tries} times {length}")).collect();
    table.note(format!("Real connections, one after the other; the largest of {}.", tries.join(", ")));
    Ok(vec![table])
}

/// Returns how far the first leg's count is from its exact share.
fn deviation(weights: [u32; 2], length: u64, got: u64) -> f64 {
    let [a, b] = weights.map(f64::from);
    (got as f64 - length as f64 * a / (a + b)).abs()
}

/// Random choice, the same in each run (splitmix64: Steele, Lea, Flood, 2014).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns how many of some connections the first leg gets.
    fn split(&mut self, [a, b]: [u32; 2], length: u64) -> u64 {
        let total = u64::from(a) + u64::from(b);
        (0..length).filter(|_| self.next() % total < u64::from(a)).count() as u64
    }
}
