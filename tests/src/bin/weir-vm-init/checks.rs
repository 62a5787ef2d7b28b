//! What is checked in a virtual machine: every program loads, both families are split.

use crate::Outcome;
use anyhow::{Context as _, Result, bail, ensure};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command},
    thread,
    time::Duration,
};
use weir_tests::{
    http,
    manifest::{Manifest, Route},
    tls::{hello, options::TlsOptions},
    wait,
};

/// Connections of one family. A multiple of the sum of the weights.
const CONNECTIONS: u64 = 80;
/// A leg is exact to within this many connections.
const TOLERANCE: u64 = 2;
const ADMIN: &str = "127.0.0.1:9754";
/// A kernel in a software emulation is slow; so is its verifier.
const READY: Duration = Duration::from_secs(120);

/// What differs between IPv4 and IPv6.
struct Family {
    name: &'static str,
    frontend: &'static str,
    stable: &'static str,
    canary: &'static str,
    verified: &'static str,
    accepted: &'static str,
    tls: &'static str,
}

const FAMILIES: [Family; 2] = [
    Family {
        name: "IPv4",
        frontend: "10.96.0.10:5432",
        stable: "127.0.1.1:7001",
        canary: "127.0.1.2:7002",
        verified: "10.96.0.11:443",
        accepted: "10.96.0.12:443",
        tls: "127.0.1.3:7003",
    },
    Family {
        name: "IPv6",
        frontend: "[fd00:96::10]:5432",
        stable: "[::1]:7001",
        canary: "[::1]:7002",
        verified: "[fd00:96::11]:443",
        accepted: "[fd00:96::12]:443",
        tls: "[::1]:7003",
    },
];

/// The legs, with the weights 2 : 1 : 1; the last one leads to a Service that does not exist.
const STABLE: &str = "stable";
const CANARY: &str = "canary";
const REFUSED: &str = "refused";

/// The server name of the TLSRoutes, and what their server answers.
const NAME: &str = "shop.example";
const GREETING: &str = "welcome";

/// Does every check. A check that the next ones stand on ends the row.
pub(crate) fn all(outcome: &mut Outcome) {
    for family in &FAMILIES {
        for (address, answer) in [(family.stable, STABLE), (family.canary, CANARY)] {
            if let Err(error) = serve(address, answer) {
                return outcome.note(&format!("a server listens at {address}"), Err(error));
            }
        }
        if let Err(error) = serve_tls(family.tls) {
            return outcome.note(&format!("a server listens at {}", family.tls), Err(error));
        }
    }
    let agent = match start_agent() {
        Ok(agent) => agent,
        Err(error) => return outcome.note("the agent starts", Err(error)),
    };
    let ready = wait_for(agent);
    let is_ready = ready.is_ok();
    outcome.note("every program is loaded and attached, the agent is ready", ready);
    if !is_ready {
        return;
    }
    for family in &FAMILIES {
        outcome.note(&format!("{}: connections are split by weight", family.name), split(family));
        outcome.note(&format!("{}: the peer that a client sees is the frontend", family.name), peer(family));
        outcome.note(&format!("{}: a connection to no frontend passes", family.name), foreign(family));
    }
    outcome.note("sockops follows the connections from SYN to end", followed());
    for family in &FAMILIES {
        for (path, frontend) in [("verify", family.verified), ("accept", family.accepted)] {
            let checks = [
                ("a ClientHello with the right name arrives", arrives(frontend, 0)),
                ("so does one that comes in pieces", arrives(frontend, 100)),
                ("one with a wrong name ends the connection", ends(frontend)),
            ];
            for (what, result) in checks {
                outcome.note(&format!("{}, {path} path: {what}", family.name), result);
            }
        }
    }
    outcome.note("each TLSRoute takes the path that it should", paths_are_taken());
}

/// Sends a ClientHello, in pieces if `size` is not 0, and waits for the server's answer.
fn arrives(frontend: &str, size: usize) -> Result<()> {
    let hello = hello::bytes(&TlsOptions::hello(NAME))?;
    let mut stream = TcpStream::connect(frontend)?;
    stream.set_nodelay(true)?;
    for piece in hello.chunks(if size == 0 { hello.len() } else { size }) {
        stream.write_all(piece)?;
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer == GREETING, "the answer is {answer:?}");
    Ok(())
}

fn ends(frontend: &str) -> Result<()> {
    let mut stream = TcpStream::connect(frontend)?;
    stream.set_read_timeout(Some(wait::SOON))?;
    stream.write_all(&hello::bytes(&TlsOptions::hello("wrong.example"))?)?;
    match stream.read(&mut [0; 1]) {
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) => {
            Ok(())
        }
        other => bail!("reading gave {other:?}"),
    }
}

fn paths_are_taken() -> Result<()> {
    let (_, text) = http::get(ADMIN.parse()?, "/metrics")?;
    for path in ["verify", "accept"] {
        let series = format!("weir_tls_frontends{{path=\"{path}\"}} 2");
        ensure!(text.contains(&series), "no line {series}");
    }
    Ok(())
}

/// Answers whoever has sent the beginning of a ClientHello with one word and ends the connection.
fn serve_tls(address: &str) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    let whole = hello::bytes(&TlsOptions::hello(NAME))?.len();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_hello(stream, whole));
        }
    });
    Ok(())
}

fn answer_hello(mut stream: TcpStream, whole: usize) {
    // A connection whose hello does not arrive is ended by the agent; the client counts.
    if stream.read_exact(&mut vec![0; whole]).is_ok() {
        let _ = stream.write_all(GREETING.as_bytes());
    }
}

/// Answers each connection with one word and ends it.
fn serve(address: &str, answer: &'static str) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that is gone already has been counted by the client.
            let _ = stream.and_then(|mut stream| stream.write_all(answer.as_bytes()));
        }
    });
    Ok(())
}

fn start_agent() -> Result<Child> {
    let config = Path::new("/etc/weir");
    fs::create_dir_all(config)?;
    let manifest = Manifest::new()
        .service("shop/checkout", &["10.96.0.10", "fd00:96::10"], &[("db", 5432)])
        .service("shop/stable", &[], &[("db", 5432)])
        .endpoints("shop/stable", "db", 7001, &["127.0.1.1", "::1"])
        .service("shop/canary", &[], &[("db", 5432)])
        .endpoints("shop/canary", "db", 7002, &["127.0.1.2", "::1"])
        .service("shop/tls", &[], &[("tls", 443)])
        .endpoints("shop/tls", "tls", 7003, &["127.0.1.3", "::1"])
        .service("shop/verified", &["10.96.0.11", "fd00:96::11"], &[("tls", 443)])
        .service("shop/accepted", &["10.96.0.12", "fd00:96::12"], &[("tls", 443)])
        .route(&Route::tls("shop/verified", "shop/verified", &[NAME], &[("shop/tls", 443, 1)]))
        .route(&Route::tls("shop/accepted", "shop/accepted", &[NAME], &[("shop/tls", 443, 1)]))
        .route(&Route::tls("shop/other", "shop/accepted", &["other.example"], &[("shop/stable", 5432, 1)]))
        .route(&Route::new(
            "shop/checkout",
            "shop/checkout",
            &[("shop/stable", 5432, 2), ("shop/canary", 5432, 1), ("shop/missing", 5432, 1)],
        ));
    fs::write(config.join("shop.yaml"), manifest.text())?;
    let mut command = Command::new("/bin/weir");
    command.args(["run", "--config", "/etc/weir", "--cgroup-root", "/sys/fs/cgroup"]);
    command.args(["--pin-dir", "/sys/fs/bpf/weir", "--admin", ADMIN]);
    command.spawn().context("cannot start /bin/weir")
}

fn wait_for(mut agent: Child) -> Result<()> {
    let admin: SocketAddr = ADMIN.parse()?;
    let state = wait::until("the agent is ready", READY, || {
        if let Ok(Some(status)) = agent.try_wait() {
            return Some(Err(status));
        }
        http::get(admin, "/readyz").is_ok_and(|(status, _)| status == 200).then_some(Ok(()))
    })?;
    match state {
        Ok(()) => Ok(()),
        Err(status) => bail!("the agent ended with {status}; its log is above"),
    }
}

/// Connects to the frontend again and again and counts who answers.
fn split(family: &Family) -> Result<()> {
    let mut got = BTreeMap::<String, u64>::new();
    for _ in 0..CONNECTIONS {
        *got.entry(dial(family.frontend)?).or_default() += 1;
    }
    for (leg, weight) in [(STABLE, 2), (CANARY, 1), (REFUSED, 1)] {
        let wanted = CONNECTIONS * weight / 4;
        let count = got.get(leg).copied().unwrap_or_default();
        ensure!(count.abs_diff(wanted) <= TOLERANCE, "{leg} got {count} of {CONNECTIONS}, wanted {wanted}: {got:?}");
    }
    Ok(())
}

fn dial(address: &str) -> Result<String> {
    let mut stream = match TcpStream::connect(address) {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(REFUSED.to_owned()),
        Err(error) => return Err(error).with_context(|| format!("cannot connect to {address}")),
    };
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn peer(family: &Family) -> Result<()> {
    // One in four is rejected, so a few attempts are enough.
    for _ in 0..4 {
        let Ok(stream) = TcpStream::connect(family.frontend) else { continue };
        let peer = stream.peer_addr()?;
        ensure!(peer == family.frontend.parse()?, "getpeername() gave {peer}, not {}", family.frontend);
        return Ok(());
    }
    bail!("no connection to {} was opened", family.frontend)
}

fn foreign(family: &Family) -> Result<()> {
    let stream = TcpStream::connect(family.canary)?;
    let peer = stream.peer_addr()?;
    ensure!(peer == family.canary.parse()?, "getpeername() gave {peer}, not {}", family.canary);
    Ok(())
}

/// As many connections end as begin, and they are those of the checks before.
fn followed() -> Result<()> {
    let least = (CONNECTIONS * 3 / 4 - TOLERANCE) * 2;
    let admin = ADMIN.parse()?;
    let counts = || -> Option<(u64, u64)> {
        let (_, text) = http::get(admin, "/metrics").ok()?;
        Some((sum(&text, "weir_connections_opened_total"), sum(&text, "weir_connections_closed_total")))
    };
    let settled = |(opened, closed): &(u64, u64)| *opened >= least && opened == closed;
    wait::until("opened and closed connections are equal", wait::SOON, || counts().filter(settled))
        .map(drop)
        .with_context(|| format!("at least {least} wanted, the last counts are {:?}", counts()))
}

/// Adds up the series of a metric.
fn sum(exposition: &str, name: &str) -> u64 {
    let series = exposition.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
    series.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}
