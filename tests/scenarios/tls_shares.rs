//! Shares, rejection by leg and endpoints: what a TLSRoute has in common with a TCPRoute.

use crate::{
    stage::{ENDPOINT_NET, Family, PORT, Stage},
    tls_stage::{NAME, Path, WILD_NAME, expect_ended_at_once, paths},
};
use anyhow::{Result, ensure};
use weir_tests::{
    report::Report,
    share,
    tls::{
        options::{Speech, TlsOptions},
        server::Conduct,
    },
    wait,
};

paths!(each_leg_gets_its_exact_share_whatever_the_name);

fn each_leg_gets_its_exact_share_whatever_the_name(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/a", PORT, 70), ("shop/b", PORT, 20), ("shop/missing", PORT, 10)]))?;
    let _servers = stage.serve_tls_shop(family, Speech::Hello, Conduct::Greet)?;
    let mut all = Report::default();
    for name in [NAME, WILD_NAME] {
        let dial = family.dial_frontend().speaking(TlsOptions::hello(name)).workers(4);
        all = all.merge(stage.connect(&dial, 500)?);
    }
    let rejected = all.failed_in_all();
    let legs = [("a", 70, all.answered_by("a/")), ("b", 20, all.answered_by("b/")), ("rejected", 10, rejected)];
    share::check(1_000, &legs)?;
    stage.expect_rejected("backend_not_found", rejected)?;
    let opened = || stage.agent.metric("weir_connections_opened_total", &[("route_name", "web")]);
    let wanted = (1_000 - rejected) as f64;
    wait::until("every connection in the counters", wait::SOON, || opened().ok().filter(|now| *now == wanted)).map(drop)
}

paths!(a_route_without_endpoints_rejects_at_once);

fn a_route_without_endpoints_rejects_at_once(path: Path, family: Family) -> Result<()> {
    let manifest =
        path.route(crate::stage::shop().service("shop/empty", &[], &[("http", PORT)]), &[("shop/empty", PORT, 1)]);
    let stage = Stage::set(&manifest)?;
    let report = stage.connect(&family.dial_tls(), 20)?;
    match path {
        // Chosen at connect(): nothing is ever sent.
        Path::Verify => ensure!(report.refused() == 20, "{report:?}"),
        Path::Accept => expect_ended_at_once(&report)?,
    }
    stage.expect_rejected("no_endpoints", 20)
}

paths!(an_endpoint_that_refuses_is_an_error_at_once_and_ejected);

fn an_endpoint_that_refuses_is_an_error_at_once_and_ejected(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/a", PORT, 1)]))?;
    // Hosts 2 and 3 have no server.
    let _server = stage.serve_tls(family)?;
    let report = stage.connect(&family.dial_tls(), 100)?;
    ensure!(report.answered("a/1") + report.failed_in_all() == 100, "{report:?}");
    // At most half of the endpoints are ejected, so every second try may still meet the other one. The
    // accept path tries another endpoint before it gives up.
    ensure!(report.answered("a/1") >= if path == Path::Accept { 60 } else { 30 }, "{report:?}");
    let failed = stage.agent.metric("weir_connections_failed_total", &[("reason", "refused")])?;
    ensure!(failed >= 3.0, "{failed} failures counted");
    let ejected = stage.agent.metric("weir_ejections_total", &[])?;
    ensure!(ejected >= 1.0, "no ejection");
    Ok(())
}

paths!(an_endpoint_that_is_not_there_is_an_error_in_time);

fn an_endpoint_that_is_not_there_is_an_error_in_time(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    stage.net.client(0).sysctl(&[("ipv4.tcp_syn_retries", "1")])?;
    stage.net.black_hole(family.address(ENDPOINT_NET, 11))?;
    let report = stage.connect(&family.dial_tls(), 1)?;
    ensure!(report.failed_in_all() == 1, "{report:?}");
    ensure!(report.failed("ETIMEDOUT") + report.failed("after ECONNRESET") == 1, "{report:?}");
    Ok(())
}
