//! The TLS part of the harness itself: without an agent, clients reach the servers they dial, however
//! they speak.

use crate::stage::{Family, families, scenario};
use anyhow::{Context as _, Result};
use std::net::{IpAddr, SocketAddr};
use weir_tests::{
    cgroup::Cgroup,
    client::{Client, Dial},
    report::Report,
    tls::{
        options::{SocketOptions, Speech, TlsOptions},
        server::{Conduct, Listen},
    },
    topology::Topology,
    wait,
};

const NAME: &str = "a.shop.example";

/// A client's namespace, one of servers, and an address there.
struct Direct {
    cgroup: Cgroup,
    net: Topology,
    address: SocketAddr,
    family: Family,
}

impl Direct {
    fn new(family: Family) -> Result<Self> {
        let net = Topology::new(1, &[&["10.201.0.0/16", "fd00:201::/32"]])?;
        let address = SocketAddr::new(family.address(201, 1), 443);
        Ok(Self { cgroup: Cgroup::new("harness")?, net, address, family })
    }

    fn listen(&self, name: &'static str) -> Listen<'_> {
        Listen::on(self.net.backend(0), self.address, name)
    }

    fn client(&self) -> Result<Client<'_>> {
        Client::new(self.net.client(0), &self.cgroup)
    }

    fn dial(&self, tls: TlsOptions) -> Dial {
        Dial { bytes: 40_000, ..self.family.dial(self.address).speaking(tls) }
    }

    fn connect(&self, dial: &Dial, count: u64) -> Result<Report> {
        self.client()?.connect(dial, count)
    }
}

families!(tls_clients_reach_servers_however_they_cut_the_hello);

fn tls_clients_reach_servers_however_they_cut_the_hello(family: Family) -> Result<()> {
    let direct = Direct::new(family)?;
    let server = direct.listen("one").start()?;
    let full = TlsOptions::full(NAME);
    let ways = [
        full.clone(),
        TlsOptions { tls12: true, ..full.clone() },
        TlsOptions { alpn: vec!["h2".to_owned(), "http/1.1".to_owned()], ..full.clone() },
        TlsOptions { sni: None, ..full.clone() },
        TlsOptions { segment: 1, ..full.clone() },
        TlsOptions { segment: 300, ..full.clone() },
        TlsOptions { record: 100, ..full.clone() },
        TlsOptions { hello_bytes: 9_000, ..full.clone() },
        TlsOptions { hello_bytes: 40_000, segment: 300, ..full },
    ];
    for tls in ways {
        let report = direct.connect(&direct.dial(tls.clone()), 2)?;
        assert_eq!(report.answered("one"), 2, "{tls:?}: {report:?}");
        assert_eq!(report.sources.len(), 1, "{report:?}");
    }
    assert_eq!(server.accepted(), 18);
    wait::until("the end of all connections", wait::SOON, || (server.open() == 0).then_some(()))?;
    assert_eq!(server.greeted(), 18);
    Ok(())
}

families!(bytes_in_the_clear_follow_a_real_hello);

fn bytes_in_the_clear_follow_a_real_hello(family: Family) -> Result<()> {
    let direct = Direct::new(family)?;
    let server = direct.listen("one").speech(Speech::Hello).start()?;
    let hello = TlsOptions::hello(NAME);
    let ways = [
        hello.clone(),
        TlsOptions { segment: 1, ..hello.clone() },
        TlsOptions { record: 1, ..hello.clone() },
        TlsOptions { hello_bytes: 60_000, early: 5_000, ..hello.clone() },
        TlsOptions { early: 3_000, ..hello.clone() },
        TlsOptions { raw: Some("GET / HTTP/1.0\r\n\r\n".to_owned()), ..hello.clone() },
    ];
    for tls in ways {
        let report = direct.connect(&direct.dial(tls.clone()), 2)?;
        assert_eq!(report.answered("one"), 2, "{tls:?}: {report:?}");
        assert_eq!(report.early, if tls.early > 0 { 2 } else { 0 }, "{tls:?}: {report:?}");
    }
    let half = direct.dial(TlsOptions { half: 200, ..hello });
    let mut held = direct.client()?.hold(&half.workers(2), 20)?;
    let report = held.report()?;
    assert_eq!((report.answered("half"), report.failed_in_all()), (20, 0), "{report:?}");
    wait::until("all half hellos", wait::SOON, || (server.open() == 20).then_some(()))?;
    drop(server);
    let broken = wait::until("the end of the server", wait::SOON, || {
        held.report().ok().filter(|report| report.failed("after ECONNRESET") + report.failed("after eof") == 20)
    });
    broken.map(drop)
}

families!(early_data_is_taken_when_a_session_is_resumed);

fn early_data_is_taken_when_a_session_is_resumed(family: Family) -> Result<()> {
    let direct = Direct::new(family)?;
    let _server = direct.listen("one").start()?;
    let tls = TlsOptions { resume: true, early: 2_000, ..TlsOptions::full(NAME) };
    let report = direct.connect(&direct.dial(tls), 5)?;
    assert_eq!((report.answered("one"), report.early), (5, 4), "{report:?}");
    Ok(())
}

families!(the_pattern_goes_both_ways_with_half_close);

fn the_pattern_goes_both_ways_with_half_close(family: Family) -> Result<()> {
    let direct = Direct::new(family)?;
    for speech in [Speech::Full, Speech::Hello] {
        let server = direct.listen("one").speech(speech).conduct(Conduct::Transfer).start()?;
        let dial = direct.dial(TlsOptions { speech, ..TlsOptions::full(NAME) });
        let mut probe = direct.client()?.transfer(&dial, 3, 3_000_000, 2_000_000, true)?;
        let opened = probe.report()?;
        assert_eq!(opened.failed_in_all(), 0, "{opened:?}");
        let report = probe.end()?;
        assert_eq!(report.answered("one"), 3, "{speech:?}: {report:?}");
        assert_eq!(server.sent(), 6_000_000);
    }
    Ok(())
}

families!(ends_of_either_side_show_as_what_they_are);

fn ends_of_either_side_show_as_what_they_are(family: Family) -> Result<()> {
    let direct = Direct::new(family)?;
    let full = || TlsOptions::full(NAME);
    let server = direct.listen("first").conduct(Conduct::CloseFirst).start()?;
    let until_end = Dial { bytes: 0, until_end: true, ..direct.dial(full()) };
    assert_eq!(direct.connect(&until_end, 3)?.answered("first"), 3);
    drop(server);
    let server = direct.listen("rude").conduct(Conduct::Reset).start()?;
    let report = direct.connect(&direct.dial(full()), 3)?;
    // The second of two errors of a reset connection, where the client was still writing.
    assert_eq!(report.failed("after ECONNRESET") + report.failed("after EPIPE"), 3, "{report:?}");
    drop(server);
    let server = direct.listen("one").start()?;
    let reset = Dial { reset: true, ..direct.dial(full()) };
    assert_eq!(direct.connect(&reset, 3)?.answered("one"), 3);
    wait::until("three resets", wait::SOON, || (server.resets() == 3).then_some(()))
}

families!(special_sockets_connect);

fn special_sockets_connect(family: Family) -> Result<()> {
    let direct = Direct::new(family)?;
    direct.net.allow_fast_open()?;
    let _server = direct.listen("one").mptcp().start()?;
    let source: IpAddr = if family == Family::V6 { "fd00:100:0::2" } else { "10.100.0.2" }.parse()?;
    let bound = family.source(source);
    let ways = [
        SocketOptions { device: Some("eth0".to_owned()), ..SocketOptions::default() },
        SocketOptions { source: Some(bound), ..SocketOptions::default() },
        SocketOptions { fast_open: true, ..SocketOptions::default() },
        SocketOptions { mptcp: true, ..SocketOptions::default() },
    ];
    for socket in ways {
        let dial = Dial { socket: socket.clone(), ..direct.dial(TlsOptions::full(NAME)) };
        let report = direct.connect(&dial, 2)?;
        assert_eq!(report.answered("one"), 2, "{socket:?}: {report:?}");
        assert_eq!(report.sources.keys().collect::<Vec<_>>(), [&source.to_string()]);
    }
    Ok(())
}

scenario!(commands_run_where_clients_run);

fn commands_run_where_clients_run() -> Result<()> {
    let direct = Direct::new(Family::V4)?;
    let output = direct.client()?.command("cat", &["-", "/proc/self/cgroup"], "input\n")?;
    let text = String::from_utf8(output.stdout)?;
    assert!(text.starts_with("input\n"), "{text}");
    assert!(text.contains(&direct.cgroup.below_root()?), "{text}");
    let addresses = direct.client()?.command("ip", &["-o", "address"], "")?;
    assert!(String::from_utf8(addresses.stdout).context("ip")?.contains("10.100.0.2"));
    Ok(())
}
