//! The self-test at start: a child below the cgroup root dials an address that exists in Weir's
//! tables only, and must end at a listener of the agent, with the dialled address as its peer.

use super::{
    CgroupRoot, Error,
    apply::{apply, forget_counts},
    maps::Maps,
};
use crate::plan::{Op, Retired};
use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};
use weir_common::{
    abi::{
        ids::{BackendId, BackendStateId, EndpointId, FrontendId, SequenceId, SplitId, StatsId},
        tables::{Backend, Endpoint, EndpointReadiness, FrontendKey, FrontendValue, Leg, Policy, SlotKey, Target},
    },
    split::build::build,
};

/// Ids of the test's own entries; those of real ones are hashes, which are never this small.
const ID: u64 = 2;
/// How long the child may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Addresses for documentation (RFC 5737, RFC 3849): no route leads there.
const FRONTENDS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];
const LOOPBACKS: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Runs the test for both address families and returns a sentence about it.
pub(super) fn run(maps: &mut Maps, cgroup: &CgroupRoot) -> Result<String, Error> {
    let mut tested = Vec::new();
    for (frontend, loopback) in FRONTENDS.into_iter().zip(LOOPBACKS) {
        let Ok(listener) = TcpListener::bind((loopback, 0)) else {
            continue; // This family is switched off here.
        };
        family(maps, cgroup, &listener, frontend)?;
        tested.push(if frontend.is_ipv4() { "IPv4" } else { "IPv6" });
    }
    if tested.is_empty() {
        return Err(failed(cgroup, "cannot listen on 127.0.0.1 nor ::1: is the loopback device down?"));
    }
    Ok(format!("passed for {}", tested.join(" and ")))
}

fn failed(cgroup: &CgroupRoot, what: impl Into<String>) -> Error {
    Error::SelfTest(what.into(), cgroup.path.clone())
}

fn family(maps: &mut Maps, cgroup: &CgroupRoot, listener: &TcpListener, frontend: IpAddr) -> Result<(), Error> {
    let endpoint = listener.local_addr().map_err(|error| failed(cgroup, error.to_string()))?;
    let frontend = SocketAddr::new(frontend, endpoint.port());
    let key = FrontendKey::tcp(frontend.ip().into(), frontend.port());
    let outcome = put(maps, key, endpoint).and_then(|()| dial(cgroup, frontend));
    take_away(maps, key)?;
    outcome
}

fn put(maps: &mut Maps, key: FrontendKey, endpoint: SocketAddr) -> Result<(), Error> {
    let endpoint = Endpoint::new(EndpointId(ID), endpoint.ip().into(), endpoint.port(), EndpointReadiness::Ready);
    let legs = [Leg::backend(StatsId(ID), 1, BackendId(ID))];
    let Ok(split) = build(&legs, Policy::Random, SequenceId(ID), 0) else { return Ok(()) };
    let target = Target::split(StatsId(ID), SplitId(ID));
    for op in [
        Op::PutEndpoint(SlotKey::new(BackendId(ID), 0), endpoint),
        Op::PutBackend(BackendId(ID), Backend { state: BackendStateId(ID), count: 1, ring: 0 }),
        Op::PutSplit(SplitId(ID), split),
        Op::PutFrontend(key, FrontendValue::new(FrontendId(ID), target, false)),
    ] {
        apply(maps, &op)?;
    }
    Ok(())
}

fn take_away(maps: &mut Maps, key: FrontendKey) -> Result<(), Error> {
    for op in [
        Op::DeleteFrontend(key),
        Op::Retire(Retired::Split(SplitId(ID))),
        Op::Retire(Retired::Backend(BackendId(ID))),
        Op::Retire(Retired::Endpoint(SlotKey::new(BackendId(ID), 0))),
    ] {
        apply(maps, &op)?;
    }
    forget_counts(maps, StatsId(ID))
}

/// Lets a child below the cgroup root dial the frontend.
fn dial(cgroup: &CgroupRoot, frontend: SocketAddr) -> Result<(), Error> {
    let group = TestGroup::make(&cgroup.path)
        .map_err(|error| failed(cgroup, format!("cannot make a cgroup below it: {error}")))?;
    let output = Command::new("/proc/self/exe")
        .args(["self-test-probe", "--to", &frontend.to_string(), "--cgroup"])
        .arg(&group.0)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(cgroup, format!("cannot start the probe: {error}")))?;
    let answer = String::from_utf8_lossy(&output.stdout);
    let answer = answer.trim();
    if answer == frontend.to_string() {
        Ok(())
    } else if answer.is_empty() {
        Err(failed(cgroup, String::from_utf8_lossy(&output.stderr).trim()))
    } else {
        Err(failed(cgroup, format!("getpeername() showed {answer} instead of {frontend}")))
    }
}

/// A cgroup for the length of the test.
struct TestGroup(PathBuf);

impl TestGroup {
    fn make(root: &Path) -> io::Result<Self> {
        let path = root.join(format!("weir-self-test-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for TestGroup {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            tracing::warn!(cgroup = %self.0.display(), %error, "cannot remove the self-test's cgroup");
        }
    }
}

/// Arguments of the child, which is this program itself.
#[derive(Clone, Debug, clap::Args)]
pub struct Probe {
    /// Cgroup to enter first.
    #[arg(long)]
    cgroup: PathBuf,
    /// Address to dial.
    #[arg(long)]
    to: SocketAddr,
}

/// The child: enters the cgroup, dials, and prints whom it reached.
///
/// # Errors
///
/// If it cannot enter or is not answered.
pub fn run_probe(probe: &Probe) -> anyhow::Result<()> {
    use anyhow::Context as _;
    fs::write(probe.cgroup.join("cgroup.procs"), "0").context("cannot enter the cgroup of the self-test")?;
    let stream = TcpStream::connect_timeout(&probe.to, PATIENCE)
        .with_context(|| format!("a connect to {} below the cgroup root was not redirected", probe.to))?;
    println!("{}", stream.peer_addr()?);
    Ok(())
}
