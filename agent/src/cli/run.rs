//! `weir run`: the agent.

use super::tls::{self, Tls, TlsArgs};
use crate::{
    admin::{self, Admin},
    bpf::{Kernel, Options},
    events,
    provider::{
        dns::{Answers, Dns},
        file::{FileProvider, Reading},
    },
    reconcile::{InForce, Reconciler, Surroundings, coverage},
    telemetry::LogArgs,
    time::seconds,
    view::Published,
};
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{
    net::TcpListener,
    select,
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};
use weir_common::abi::settings::{Ejection, OnAgentLoss, Settings, SockOffsets};

/// How often the agent gives a sign of life.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How often processes of ClientGroups are looked for.
const LOOK_FOR_CLIENTS: Duration = Duration::from_secs(1);
/// How long no further change must come before the whole state follows a part of it.
const REST: Duration = Duration::from_millis(150);
/// How long the whole state may be behind a part of it.
const MOST_BEHIND: Duration = Duration::from_secs(2);
/// How long unwanted entries stay, and how often attachments are checked.
const GRACE: Duration = Duration::from_secs(5);

/// Arguments of `weir run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Folder of YAML or JSON files with Services, EndpointSlices, TCPRoutes, TLSRoutes and so on
    #[arg(long, value_name = "DIR", env = "WEIR_CONFIG")]
    config: PathBuf,
    /// Cgroup whose processes are covered [default: the root of the cgroup2 hierarchy]
    #[arg(long, value_name = "PATH", env = "WEIR_CGROUP_ROOT")]
    cgroup_root: Option<PathBuf>,
    /// Folder on bpffs for maps and links, which outlive the agent
    #[arg(long, value_name = "DIR", env = "WEIR_PIN_DIR", default_value = super::DEFAULT_PIN_DIR)]
    pin_dir: PathBuf,
    /// Address of metrics, health and status
    #[arg(long, value_name = "ADDR:PORT", env = "WEIR_ADMIN", default_value = admin::DEFAULT_ADDRESS)]
    admin: SocketAddr,
    /// Name of this node [default: the host name]
    #[arg(long, value_name = "NAME", env = "WEIR_NODE_NAME")]
    node_name: Option<String>,
    /// What the kernel does with new connections when the agent has been gone for a while
    #[arg(long, value_enum, env = "WEIR_ON_AGENT_LOSS", default_value = "freeze")]
    on_agent_loss: Loss,
    /// How long the agent must be silent to count as gone, seconds
    #[arg(long, value_name = "SECONDS", env = "WEIR_AGENT_LOST_AFTER", default_value = "10", value_parser = seconds)]
    agent_lost_after: Duration,
    #[command(flatten)]
    ejection: EjectionArgs,
    #[command(flatten)]
    tls: TlsArgs,
    /// Start without proving that the hooks act on this machine's connections
    #[arg(long, env = "WEIR_SKIP_SELF_TEST")]
    skip_self_test: bool,
    /// How the agent logs.
    #[command(flatten)]
    pub log: LogArgs,
}

/// Passive ejection of endpoints whose connects fail.
#[derive(Clone, Debug, Args)]
struct EjectionArgs {
    /// Connect failures in a row that eject an endpoint for a while; 0 never ejects
    #[arg(long, value_name = "N", env = "WEIR_EJECT_FAILURES", default_value = "3")]
    eject_failures: u32,
    /// The failures must lie within this time, seconds
    #[arg(long, value_name = "SECONDS", env = "WEIR_EJECT_WINDOW", default_value = "10", value_parser = seconds)]
    eject_window: Duration,
    /// How long the first ejection lasts, seconds; each further one in a row lasts twice as long
    #[arg(long, value_name = "SECONDS", env = "WEIR_EJECT_BASE", default_value = "5", value_parser = seconds)]
    eject_base: Duration,
    /// How long an ejection lasts at most, seconds
    #[arg(long, value_name = "SECONDS", env = "WEIR_EJECT_MAX", default_value = "120", value_parser = seconds)]
    eject_max: Duration,
}

/// Spelling of [`OnAgentLoss`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Loss {
    /// Go on with the last state
    Freeze,
    /// Leave connections alone, as if Weir were not there
    Bypass,
    /// Refuse connections to frontends
    Reject,
}

impl From<Loss> for OnAgentLoss {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::Freeze => Self::Freeze,
            Loss::Bypass => Self::Bypass,
            Loss::Reject => Self::Reject,
        }
    }
}

impl RunArgs {
    fn ejection(&self) -> Ejection {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Ejection {
            failures: self.ejection.eject_failures.into(),
            window_ns: ns(self.ejection.eject_window),
            base_ns: ns(self.ejection.eject_base),
            max_ns: ns(self.ejection.eject_max.max(self.ejection.eject_base)),
        }
    }

    fn settings(&self, sock: SockOffsets) -> Settings {
        let lost_after = u64::try_from(self.agent_lost_after.as_nanos()).unwrap_or(u64::MAX);
        Settings::new(self.on_agent_loss.into(), lost_after, self.ejection(), sock)
    }

    fn node(&self) -> String {
        self.node_name.clone().unwrap_or_else(|| {
            nix::unistd::gethostname().map_or_else(|_| "node".to_owned(), |name| name.to_string_lossy().into_owned())
        })
    }
}

/// Runs the agent until SIGTERM or SIGINT. The programs stay attached and go on splitting.
///
/// # Errors
///
/// If the agent cannot start. What an earlier one left then goes on as before.
pub async fn run(args: RunArgs) -> Result<()> {
    let listener = TcpListener::bind(args.admin)
        .await
        .with_context(|| format!("cannot listen on --admin {}: is another agent running?", args.admin))?;
    let (files, mut readings) = FileProvider::start(args.config.clone())?;
    let options = Options { pin_dir: args.pin_dir.clone(), cgroup_root: args.cgroup_root.clone() };
    let mut kernel = Kernel::open(&options, |sock| args.settings(sock))?;
    let self_test = if args.skip_self_test { "skipped".to_owned() } else { kernel.self_test()? };
    let coverage = coverage(&kernel, self_test);
    tracing::info!(
        cgroup = %coverage.cgroup_root.display(),
        covers = coverage.covers.join("; "),
        not_covered = coverage.not_covered.join("; "),
        self_test = coverage.self_test,
        "attached"
    );
    let mut state = Published::starting(env!("CARGO_PKG_VERSION"), args.node(), SystemTime::now());
    state.coverage = coverage;
    state.on_agent_loss = args.on_agent_loss.into();
    state.ejection = args.ejection();
    let (published, watched) = watch::channel(Arc::new(state));

    beat(&kernel)?;
    let stats = Arc::new(kernel.stats_reader()?);
    if let Some(ring) = kernel.take_events() {
        tokio::spawn(events::log(ring, watched.clone()));
    }
    let (stop, mut stopped) = watch::channel(false);
    let server = tokio::spawn(admin::serve(listener, Admin { published: watched, stats }, async move {
        let _ = stopped.wait_for(|stop| *stop).await;
    }));

    let (in_force, deciding) = watch::channel(InForce::default());
    let tls = Tls::start(&args.tls, &mut kernel, deciding)?;
    let surroundings = Surroundings {
        node: args.node(),
        capabilities: tls::capabilities(&kernel),
        doors: tls.doors(),
        in_force,
        published,
    };
    let mut reconciler = Reconciler::new(kernel, surroundings)?;
    let (dns, mut answers) = Dns::start();
    let mut clients = every(LOOK_FOR_CLIENTS);
    let mut grace = every(GRACE);
    let (mut terminate, mut interrupt, mut hangup) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?);
    let step = |reconciler: &mut Reconciler,
                readings: &mut watch::Receiver<Arc<Reading>>,
                answers: &mut watch::Receiver<Answers>| {
        let reading = readings.borrow_and_update().clone();
        dns.set_names(reading.resources.host_names());
        let resolved = answers.borrow_and_update().clone();
        tokio::task::block_in_place(|| reconciler.take(reading, resolved));
    };
    step(&mut reconciler, &mut readings, &mut answers);
    let mut behind_since = None;
    loop {
        // A part was sent ahead: the whole follows once no further change comes, or after a while.
        let whole_at = reconciler.is_behind().then(|| catch_up_at(&mut behind_since));
        select! {
            Ok(()) = readings.changed() => step(&mut reconciler, &mut readings, &mut answers),
            Ok(()) = answers.changed() => step(&mut reconciler, &mut readings, &mut answers),
            () = sleep_until(whole_at.unwrap_or_else(Instant::now)), if whole_at.is_some() => {
                behind_since = None;
                tokio::task::block_in_place(|| reconciler.catch_up());
            }
            _ = clients.tick() => {
                tokio::task::block_in_place(|| reconciler.refresh_clients());
                reconciler.show_acceptor(tls.view());
            }
            _ = grace.tick() => tokio::task::block_in_place(|| {
                reconciler.retire();
                reconciler.retry();
                reconciler.check_attachments();
            }),
            _ = hangup.recv() => {
                tracing::info!("SIGHUP: reading the configuration again");
                files.reload();
            }
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    tracing::info!("stopping; the programs stay attached and go on splitting (`weir clean` removes them)");
    let _ = stop.send(true);
    let _ = tokio::time::timeout(Duration::from_secs(2), server).await;
    // Frees the pins and the admin port for the next agent, which can start while this one drains.
    drop(reconciler);
    select! {
        () = tls.drain(args.tls.drain_timeout) => {}
        _ = terminate.recv() => tracing::info!("told to stop again: connections through the agent end now"),
        _ = interrupt.recv() => tracing::info!("told to stop again: connections through the agent end now"),
    }
    Ok(())
}

/// When to translate the whole state: soon after the last part that was sent ahead, and not much later
/// than the first.
fn catch_up_at(behind_since: &mut Option<Instant>) -> Instant {
    let now = Instant::now();
    (now + REST).min(*behind_since.get_or_insert(now) + MOST_BEHIND)
}

/// Gives signs of life from a thread of its own, so that a long apply does not look like a death.
fn beat(kernel: &Kernel) -> Result<()> {
    let mut heart = kernel.heart()?;
    std::thread::Builder::new().name("heartbeat".to_owned()).spawn(move || {
        loop {
            if let Err(error) = heart.beat() {
                tracing::error!(%error, "cannot write the heartbeat");
            }
            std::thread::sleep(HEARTBEAT);
        }
    })?;
    Ok(())
}

fn every(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
