//! `cargo xtask demo`: the whole of Weir on one machine, in namespaces that are gone afterwards.
//!
//! Two clients open connections to a Service whose route has a leg with three endpoints, one with a
//! single endpoint and one that leads nowhere. The agent's weights are changed, and the agent is
//! killed and started again, while connections go on. Then the same for TLS, on both paths. Every
//! figure that is shown is checked.

mod cluster;
mod phase;
mod picture;
mod stage;
mod tls;
mod tls_stage;

use crate::{
    built::{self, Profile},
    interrupt,
    setup::Purpose,
    workspace::Workspace,
};
use anyhow::{Result, bail};
use phase::{Family, Leg, Phase};
use picture::Picture;
use serde::Serialize;
use stage::Stage;
use std::{io::IsTerminal as _, time::Duration};
use weir_tests::{
    binaries::Binaries,
    client::{Dial, Probe},
    report::Report,
    wait,
};

/// Options of the demo.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Prints the figures as JSON instead of the picture.
    #[arg(long)]
    json: bool,
    /// Plays on a real cluster with two nodes instead, which it starts and ends.
    #[arg(long)]
    cluster: bool,
    /// Goes on after a phase that is off.
    #[arg(long)]
    keep_going: bool,
}

/// Connections of a phase.
const CONNECTIONS: u64 = 2_000;
/// How long `weir top` is shown, seconds.
const TOP_SECONDS: u32 = 4;
/// The weights at first, as the example has them, and after the change.
const FIRST: [u64; 3] = [70, 20, 10];
const SECOND: [u64; 3] = [15, 75, 10];

/// What `--json` prints.
#[derive(Default, Serialize)]
struct Outcome {
    phases: Vec<Phase>,
    agent_killed_failed_connections: u64,
}

/// Runs the demo.
///
/// # Errors
///
/// If it cannot run here, or if anything is off.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if args.cluster {
        return cluster::run(workspace, args);
    }
    let binaries = built::as_root(workspace, Purpose::Demo, Profile::Debug)?;
    interrupt::watch()?;
    let picture = Picture::new(args.json);
    let mut outcome = Outcome::default();
    let mut show = Show { picture: &picture, outcome: &mut outcome, args };
    let played = play(&binaries, workspace, &mut show);
    finish(&outcome, args, played)?;
    picture.end();
    Ok(())
}

/// Prints the figures if they were asked for, and says what was off.
fn finish(outcome: &Outcome, args: &Args, played: Result<()>) -> Result<()> {
    if interrupt::came() {
        bail!("interrupted; everything that the demo had made is removed");
    }
    if args.json {
        println!("{}", serde_json::to_string(outcome)?);
    }
    played?;
    let off: Vec<&str> = outcome.phases.iter().filter(|phase| !phase.is_right()).map(Phase::name).collect();
    if !off.is_empty() || outcome.agent_killed_failed_connections > 0 {
        bail!(
            "off: {} (failed while the agent was dead or restarting: {})",
            off.join(", "),
            outcome.agent_killed_failed_connections
        );
    }
    Ok(())
}

/// Plays both parts, each on a stage of its own.
fn play(binaries: &Binaries, workspace: &Workspace, show: &mut Show<'_>) -> Result<()> {
    Play { stage: &mut Stage::set(binaries, workspace)?, show }.all()?;
    tls::play(binaries, workspace, show)
}

/// Where the figures of all phases go.
struct Show<'a> {
    picture: &'a Picture,
    outcome: &'a mut Outcome,
    args: &'a Args,
}

impl Show<'_> {
    fn judge(&mut self, name: &str, legs: &[Leg], report: &Report, notes: &[String]) -> Result<()> {
        let phase = Phase::new(name, legs, report);
        self.picture.phase(&phase, legs, report, notes);
        let right = phase.is_right();
        let message = phase.complaint();
        self.outcome.phases.push(phase);
        interrupt::check()?;
        if !right && !self.args.keep_going {
            bail!("{name}: {message}; {:?}", report.errors);
        }
        Ok(())
    }
}

/// The TCP part.
struct Play<'a, 'b> {
    stage: &'a mut Stage,
    show: &'a mut Show<'b>,
}

impl Play<'_, '_> {
    fn all(&mut self) -> Result<()> {
        self.show.picture.title();
        self.split("ipv4", "IPv4", Family::V4, FIRST)?;
        self.split("ipv6", "IPv6", Family::V6, FIRST)?;
        self.change_weights()?;
        self.kill_agent()?;
        self.restart_agent()?;
        self.show_top()
    }

    /// Opens connections and compares their split with the weights.
    fn split(&mut self, name: &str, title: &str, family: Family, weights: [u64; 3]) -> Result<()> {
        self.heading(title, weights);
        let report = self.stage.connect(family, CONNECTIONS)?;
        self.show.judge(name, &canary(weights), &report, &[])
    }

    fn heading(&self, title: &str, [a, b, c]: [u64; 3]) {
        self.show.picture.heading(title, &format!("weights {a} : {b} : {c}"));
    }

    fn change_weights(&mut self) -> Result<()> {
        let followed = self.stage.set_weights(FIRST, SECOND)?;
        self.heading("IPv4, the weights changed in the file", SECOND);
        let report = self.stage.connect(Family::V4, CONNECTIONS)?;
        let note = format!("in force {} ms after the file was written", followed.as_millis());
        self.show.judge("changed_weights", &canary(SECOND), &report, &[note])
    }

    fn kill_agent(&mut self) -> Result<()> {
        self.heading("IPv4, the agent killed with -9 on the way", SECOND);
        let mut load = self.stage.load(Family::V4)?;
        let before = reach(&mut load, CONNECTIONS / 4)?;
        self.stage.agent().kill_9()?;
        reach(&mut load, before + CONNECTIONS)?;
        let report = load.end()?;
        self.show.outcome.agent_killed_failed_connections += phase::failed(&report, &canary(SECOND));
        let note =
            format!("{before} connections, then kill -9, then {} more without an agent", report.attempts - before);
        self.show.judge("agent_killed", &canary(SECOND), &report, &[note])
    }

    fn restart_agent(&mut self) -> Result<()> {
        self.heading("IPv6, the agent started again on the way", SECOND);
        let mut load = self.stage.load(Family::V6)?;
        let before = reach(&mut load, CONNECTIONS / 4)?;
        self.stage.agent().restart()?;
        reach(&mut load, before + CONNECTIONS)?;
        let report = load.end()?;
        self.show.outcome.agent_killed_failed_connections += phase::failed(&report, &canary(SECOND));
        let note = "the new agent took over maps and programs; no connection noticed".to_owned();
        self.show.judge("agent_restarted", &canary(SECOND), &report, &[note])
    }

    fn show_top(&mut self) -> Result<()> {
        if self.show.args.json || !std::io::stdout().is_terminal() {
            return Ok(());
        }
        let mut load = self.stage.load(Family::V4)?;
        self.stage.top(TOP_SECONDS)?;
        load.report()?;
        load.end().map(drop)
    }
}

/// Waits until a load has tried so many connections and returns how many.
fn reach(load: &mut Probe, attempts: u64) -> Result<u64> {
    let mut failure = None;
    let reached = wait::until("connections of the load", Duration::from_secs(60), || {
        if interrupt::came() {
            failure = Some(anyhow::anyhow!("interrupted"));
            return Some(0);
        }
        match load.report() {
            Ok(report) => (report.attempts >= attempts).then_some(report.attempts),
            Err(error) => {
                failure = Some(error);
                Some(0)
            }
        }
    })?;
    failure.map_or(Ok(reached), Err)
}

/// Returns the legs of the canary example.
const fn canary([v1, v2, nowhere]: [u64; 3]) -> [Leg; 3] {
    [Leg::backend("checkout-v1", v1), Leg::backend("checkout-v2", v2), Leg::refused(nowhere)]
}

/// Describes the connections of a phase.
fn dial(family: Family) -> Dial {
    Dial::to(stage::frontend(family)).workers(2)
}
