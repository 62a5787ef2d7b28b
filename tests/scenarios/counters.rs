//! The counters say exactly what happened.

use crate::stage::{ENDPOINT_NET, Family, Stage, WEB_IPS, addresses, families};
use anyhow::Result;
use std::time::Duration;
use weir_tests::{
    client::Dial,
    manifest::{Manifest, Route},
    wait,
};

families!(connections_and_bytes_are_counted_exactly);

fn connections_and_bytes_are_counted_exactly(family: Family) -> Result<()> {
    let stage = Stage::with_options(&manifest(&[("shop/a", 80, 3), ("shop/missing", 80, 1)]), "--eject-failures 0")?;
    let _servers = stage.serve(family, "a", &[1])?;
    let mut held = stage.client(0)?.hold(&family.dial_frontend(), 8)?;
    let open = held.report()?.answered_in_all();
    let report = stage.connect(&Dial { bytes: 10_000, ..family.dial_frontend() }.workers(2), 40)?;
    let counted = |name: &str, labels: &[(&str, &str)]| stage.agent.metric(name, labels);
    expect("opened", || counted("weir_connections_opened_total", &[]), open + report.answered_in_all())?;
    expect("closed", || counted("weir_connections_closed_total", &[]), report.answered_in_all())?;
    expect("active", || counted("weir_connections_active", &[]), open)?;
    let rejected = report.refused() + (8 - open);
    let reason = [("reason", "backend_not_found")];
    expect("rejected", || counted("weir_connections_rejected_total", &reason), rejected)?;
    expect("rejected in all", || counted("weir_connections_rejected_total", &[]), rejected)?;
    expect("sent", || counted("weir_sent_bytes_total", &[]), report.sent)?;
    expect("received", || counted("weir_received_bytes_total", &[]), report.received)?;
    let all = held.end()?;
    expect("closed in the end", || counted("weir_connections_closed_total", &[]), open + report.answered_in_all())?;
    expect("sent in the end", || counted("weir_sent_bytes_total", &[]), report.sent + all.sent)?;
    expect("received in the end", || counted("weir_received_bytes_total", &[]), report.received + all.received)?;
    expect("failed", || counted("weir_connections_failed_total", &[]), 0)
}

families!(failed_connects_are_counted_by_kind);

fn failed_connects_are_counted_by_kind(family: Family) -> Result<()> {
    let stage = Stage::with_options(&manifest(&[("shop/a", 80, 1)]), "--eject-failures 0")?;
    let refused = stage.connect(&family.dial_frontend(), 7)?;
    assert_eq!(refused.refused(), 7);
    let kind = |kind: &'static str| {
        let stage = &stage;
        move || stage.agent.metric("weir_connections_failed_total", &[("reason", kind)])
    };
    expect("refused", kind("refused"), 7)?;
    stage.net.client(0).sysctl(&[("ipv4.tcp_syn_retries", "1")])?;
    stage.net.black_hole(family.address(ENDPOINT_NET, 1))?;
    let timed_out = stage.connect(&family.dial_frontend().workers(3), 3)?;
    assert_eq!(timed_out.failed("ETIMEDOUT"), 3, "{timed_out:?}");
    expect("timed out", kind("timed_out"), 3)?;
    let patient = Dial { patience: Duration::from_millis(50), ..family.dial_frontend() };
    assert_eq!(stage.connect(&patient, 2)?.failed("timeout"), 2);
    expect("aborted", kind("aborted"), 2)?;
    expect("in all", || stage.agent.metric("weir_connections_failed_total", &[]), 12)
}

/// Waits for a count; the kernel counts an end a little after the client saw it.
fn expect(what: &str, read: impl Fn() -> Result<f64>, wanted: u64) -> Result<()> {
    let mut last = None;
    let met = wait::until(what, Duration::from_secs(5), || {
        last = read().ok();
        last.filter(|value| *value == wanted as f64)
    });
    met.map(drop).map_err(|error| error.context(format!("{what}: {last:?} instead of {wanted}")))
}

fn manifest(legs: &[(&str, u16, u32)]) -> Manifest {
    Manifest::new()
        .service("shop/web", &WEB_IPS, &[("http", 80)])
        .service("shop/a", &[], &[("http", 80)])
        .endpoints("shop/a", "http", 80, &addresses(&[1]))
        .route(&Route::new("shop/web", "shop/web", legs))
}
