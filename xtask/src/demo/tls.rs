//! The TLS part: a canary behind one name on the verify path, names with backends of their own on the
//! accept path, and names that nobody has. All handshakes are real ones.

use super::{
    Show,
    phase::{self, Family, Leg},
    picture::time,
    reach,
    tls_stage::{Service, TlsStage},
};
use crate::workspace::Workspace;
use anyhow::Result;
use weir_tests::{binaries::Binaries, report::Report};

/// Connections of a phase.
const CONNECTIONS: u64 = 300;
/// Connections that stay open while an agent takes over from another, for each name.
const HELD: u64 = 5;
/// A name of no route.
const WRONG_NAME: &str = "wrong.example";
/// The canary, as the example has it.
const CANARY: [Leg; 2] = [Leg::backend("web-v1", 90), Leg::backend("web-v2", 10)];
/// Which leg a name must lead to, and how many of [`CONNECTIONS`] name it. The numbers differ, so that
/// names which are mixed up show.
const NAMES: [(&str, &str, u64); 3] = [
    ("api.shop.example", "api", CONNECTIONS / 2),
    ("admin.shop.example", "admin", CONNECTIONS / 6),
    ("eu.acme.shop.example", "tenants", CONNECTIONS / 3),
];

/// Plays the part and removes its stage.
pub(super) fn play(binaries: &Binaries, workspace: &Workspace, show: &mut Show<'_>) -> Result<()> {
    let mut stage = TlsStage::set(binaries, workspace)?;
    show.picture.tls_title();
    verify(&stage, show)?;
    kill_agent(&mut stage, show)?;
    accept(&stage, show)?;
    restart_agent(&mut stage, show)?;
    reject(&stage, show)
}

fn verify(stage: &TlsStage, show: &mut Show<'_>) -> Result<()> {
    show.picture.heading("TLS, one name, IPv4", "verify path, weights 90 : 10");
    let report = stage.connect(Service::Web, Family::V4, Service::WEB_NAME, CONNECTIONS)?;
    show.judge("tls-verify", &CANARY, &report, &[])
}

fn kill_agent(stage: &mut TlsStage, show: &mut Show<'_>) -> Result<()> {
    show.picture.heading("TLS, one name, IPv6, the agent killed with -9 on the way", "weights 90 : 10");
    let mut load = stage.load(Service::Web, Family::V6, Service::WEB_NAME)?;
    let before = reach(&mut load, CONNECTIONS / 3)?;
    stage.agent().kill_9()?;
    reach(&mut load, before + CONNECTIONS)?;
    let report = load.end()?;
    show.outcome.agent_killed_failed_connections += phase::failed(&report, &CANARY);
    let note = format!("{before} connections, then kill -9, then {} more without an agent", report.attempts - before);
    show.judge("tls-verify-agent-killed", &CANARY, &report, &[note])?;
    stage.agent().restart()
}

fn accept(stage: &TlsStage, show: &mut Show<'_>) -> Result<()> {
    show.picture.heading("TLS, two names and a wildcard, IPv6", "accept path, each name to its backend");
    let report = each_name(stage, Family::V6)?;
    show.judge("tls-accept", &gateway(), &report, &[])
}

/// Lets a new agent take over while connections go through the old one.
fn restart_agent(stage: &mut TlsStage, show: &mut Show<'_>) -> Result<()> {
    show.picture.heading("TLS, two names and a wildcard, IPv4, the agent restarted", "open connections drain");
    let mut held = Vec::new();
    for (name, ..) in NAMES {
        let mut probe = stage.hold(Service::Gateway, Family::V4, name, HELD)?;
        probe.report()?;
        held.push(probe);
    }
    let old = stage.agent().replace()?;
    let mut open = Report::default();
    for mut probe in held {
        // Bytes go to and fro once more, through the agent that is about to end.
        probe.report()?;
        open = open.merge(probe.end()?);
    }
    old.wait_end()?;
    let failed = open.failed_in_all();
    show.outcome.agent_killed_failed_connections += failed;
    let note = format!("{} open connections went on through the old agent, {failed} failed", open.attempts);
    let report = each_name(stage, Family::V4)?;
    show.judge("tls-accept-agent-restarted", &gateway(), &report, &[note])
}

fn reject(stage: &TlsStage, show: &mut Show<'_>) -> Result<()> {
    show.picture.heading("TLS, a name that no route has", "both paths end it");
    let mut all = Report::default();
    let mut notes = Vec::new();
    for (service, path) in [(Service::Web, "verify"), (Service::Gateway, "accept")] {
        let report = stage.connect(service, Family::V4, WRONG_NAME, CONNECTIONS / 6)?;
        let errors: Vec<&str> = report.errors.keys().map(|error| error.trim_start_matches("after ")).collect();
        notes.push(format!("{path} path: {} after {}", errors.join(", "), time(report.late_failure.p50)));
        all = all.merge(report);
    }
    show.judge("tls-wrong-name", &[Leg::ended(1)], &all, &notes)
}

fn each_name(stage: &TlsStage, family: Family) -> Result<Report> {
    let connect = |(name, _, count)| stage.connect(Service::Gateway, family, name, count);
    NAMES.into_iter().map(connect).try_fold(Report::default(), |all, report| Ok(all.merge(report?)))
}

fn gateway() -> [Leg; 3] {
    NAMES.map(|(_, leg, count)| Leg::backend(leg, count))
}
