//! The parts of a running agent that TLS needs, put together: namespaces, acceptor, requests.

use crate::{
    accept::{self, Acceptor, Borders, Chosen, Decisions, Hooked, Rejected},
    bpf::{Choosing, Kernel},
    compile::{hello_outcome, path::Capabilities, tables::Demand},
    netns::{self, Registry},
    reconcile::{Doors, InForce},
    requests::{self, Answered, Requests},
    view::{AcceptorView, NamespaceView},
};
use anyhow::{Context as _, Result};
use std::{
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::watch,
    task::JoinHandle,
    time::{interval, timeout},
};
use weir_common::{
    abi::{tables::FrontendKey, tls::AcceptRecord},
    hello::{Found, Records},
    reason::Reason,
};

/// How long an apply waits for the listeners in all network namespaces. Clients of one that takes longer
/// are refused until it is open.
const DOORS_PATIENCE: Duration = Duration::from_secs(2);

/// How TLS connections are treated.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TlsArgs {
    /// Folder of named network namespaces
    #[arg(long, value_name = "DIR", env = "WEIR_NETNS_DIR", default_value = "/run/netns")]
    netns_dir: PathBuf,
    /// How long a client may take to send its ClientHello, where the agent reads it, seconds
    #[arg(long, value_name = "SECONDS", env = "WEIR_HELLO_TIMEOUT", default_value = "10", value_parser = crate::time::seconds)]
    hello_timeout: Duration,
    /// How long the agent tries to connect to an endpoint, seconds
    #[arg(long, value_name = "SECONDS", env = "WEIR_CONNECT_TIMEOUT", default_value = "5", value_parser = crate::time::seconds)]
    connect_timeout: Duration,
    /// How long connections through the agent may go on when it is told to stop, seconds
    #[arg(long, value_name = "SECONDS", env = "WEIR_DRAIN_TIMEOUT", default_value = "30", value_parser = crate::time::seconds)]
    pub(super) drain_timeout: Duration,
}

/// What runs for TLS.
pub(super) struct Tls {
    acceptor: Arc<Acceptor>,
    registry: Arc<Registry>,
    looking: JoinHandle<()>,
    answering: JoinHandle<()>,
    answered: Arc<Answered>,
    _choosing: Choosing,
}

impl Tls {
    /// Starts what runs for TLS. Nothing is done until a frontend needs it.
    ///
    /// # Errors
    ///
    /// If the kernel refuses what the acceptor needs.
    pub(super) fn start(args: &TlsArgs, kernel: &mut Kernel, in_force: watch::Receiver<InForce>) -> Result<Self> {
        let registry = Registry::new(netns::Options { names_dir: args.netns_dir.clone(), ..netns::Options::default() })
            .context("cannot look for network namespaces")?;
        let looking = {
            let registry = Arc::clone(&registry);
            tokio::spawn(async move { registry.run().await })
        };
        let border = Arc::new(kernel.border()?);
        let requests = Requests::new(Arc::clone(&border), Arc::clone(&registry), in_force.clone());
        let answered = requests.answered();
        let ring = kernel.requests()?;
        let answering = tokio::spawn(async move {
            if let Err(error) = requests.run(ring).await {
                tracing::error!(%error, "cannot wait for requests of the kernel programs");
            }
        });
        let choosing = kernel.choose_for_acceptor()?;
        let borders = Borders {
            registry: Arc::clone(&registry),
            maps: border,
            decisions: Arc::new(ByTables(in_force)),
            connector: Arc::new(Hooked),
        };
        let options = accept::Options {
            hello_deadline: args.hello_timeout,
            connect_timeout: args.connect_timeout,
            ..accept::Options::default()
        };
        let acceptor = Arc::new(Acceptor::start(borders, options));
        Ok(Self { acceptor, registry, looking, answering, answered, _choosing: choosing })
    }

    /// Returns what applying needs.
    pub(super) fn doors(&self) -> Box<dyn Doors> {
        Box::new(Listeners {
            acceptor: Arc::downgrade(&self.acceptor),
            registry: Arc::clone(&self.registry),
            open: AtomicBool::new(false),
        })
    }

    /// Describes the acceptor.
    pub(super) fn view(&self) -> AcceptorView {
        let (read, unfinished) = (self.acceptor.metrics().read(), self.acceptor.unfinished());
        let namespaces = self.acceptor.view().into_iter().filter_map(|namespace| {
            let listener = namespace.listener?;
            Some(NamespaceView {
                name: namespace.name,
                cookie: namespace.cookie.unwrap_or(0),
                listening: listener.is_ok(),
                problem: listener.err(),
            })
        });
        AcceptorView {
            namespaces: namespaces.collect(),
            open_connections: read.open as u64,
            unfinished_hellos: unfinished.count as u64,
            hello_bytes: unfinished.bytes as u64,
            accepted: read.accepted,
            retried: read.retried,
            refused_strangers: read.strangers,
            aborted: self.answered.aborted.load(Ordering::Relaxed),
            not_aborted: self.answered.not_aborted.load(Ordering::Relaxed),
            hello_pieces: self.answered.read.load(Ordering::Relaxed),
        }
    }

    /// Stops taking connections, and waits until those that go through the agent are over, or for the drain
    /// timeout. The kernel must be free for another agent by now.
    pub(super) async fn drain(self, patience: Duration) {
        // The requests are the next agent's.
        self.answering.abort();
        self.looking.abort();
        let open = self.acceptor.metrics().read().open;
        if open > 0 {
            tracing::info!(connections = open, timeout = ?patience, "waiting for connections through the agent to end");
        }
        if let Some(acceptor) = Arc::into_inner(self.acceptor) {
            let reset = acceptor.shutdown(patience).await;
            if reset > 0 {
                tracing::warn!(connections = reset, "reset what was still open at the drain timeout");
            }
        }
    }
}

/// Says what the running kernel can do for TLS.
pub(super) fn capabilities(kernel: &Kernel) -> Capabilities {
    let verify = kernel.can_verify().map_err(|error| format!("refuses the program that reads ClientHellos ({error})"));
    let verify = verify.and_then(|()| requests::probe());
    if let Err(why) = &verify {
        tracing::warn!("this kernel {why}: all TLSRoutes take the way through the agent");
    }
    Capabilities { verify }
}

/// Decides by the tables in force.
struct ByTables(watch::Receiver<InForce>);

impl Decisions for ByTables {
    fn decide(&self, record: &AcceptRecord, hello: &Records<'_>, found: &Found) -> Result<Chosen, Rejected> {
        let InForce { tables, names } = self.0.borrow().clone();
        let frontend = FrontendKey::tcp(record.frontend_address, record.frontend_port);
        let rejected = |reason| Rejected { stats: record.route_stats, reason };
        let target = tables.scope_target(&frontend, record.namespace).ok_or(rejected(Reason::NotFrontend))?;
        let matched = hello_outcome(&tables, &target, hello, found).map_err(rejected)?;
        Ok(Chosen {
            split: matched.split,
            route_stats: matched.route_stats,
            idle_timeout: names.idle_timeouts.get(&matched.route_stats).copied(),
        })
    }
}

/// The acceptor's listeners, for who applies.
struct Listeners {
    acceptor: Weak<Acceptor>,
    registry: Arc<Registry>,
    open: AtomicBool,
}

impl Doors for Listeners {
    fn open(&self, demand: Demand) {
        let Some(acceptor) = self.acceptor.upgrade() else { return };
        // Also for the verify path: clients by MPTCP are sent to the acceptor there.
        if (demand.accept || demand.verify) && !self.open.swap(true, Ordering::Relaxed) {
            acceptor.set_needed(true);
            let opened = timeout(DOORS_PATIENCE, all_open(&acceptor, &self.registry));
            if Handle::current().block_on(opened).is_err() {
                tracing::warn!("some network namespaces have no listener yet: their clients are refused until then");
            }
        }
    }

    fn close(&self, demand: Demand) {
        let Some(acceptor) = self.acceptor.upgrade() else { return };
        if !demand.accept && !demand.verify && self.open.swap(false, Ordering::Relaxed) {
            acceptor.set_needed(false);
        }
    }
}

/// Waits until every namespace has its listeners, or a reason why not.
async fn all_open(acceptor: &Acceptor, registry: &Registry) {
    if let Err(error) = registry.look().await {
        tracing::warn!(%error, "cannot look for network namespaces");
    }
    let mut look = interval(Duration::from_millis(2));
    while acceptor.view().iter().any(|namespace| namespace.listener.is_none()) {
        look.tick().await;
    }
}
