//! The acceptor: takes a TLS connection until its ClientHello is whole, decides, connects to the
//! backend and hands both sockets over.
//!
//! It stands in the client's own network namespace: listeners and backend sockets are opened there.
//! Where a connection leads is decided by the tables and the kernel's hook, never here.

mod maps;

mod bounds;
mod files;
mod metrics;
mod peer;

mod listen;
mod namespaces;

mod dial;
mod hello;
mod serve;

mod hand_over;
mod splice;

pub use bounds::Bound;
pub use maps::{AcceptMaps, Chosen, Connector, Decisions, Hooked, Rejected};
pub use metrics::{Metrics, Reading};

use crate::netns::Registry;
use bounds::Usage;
use files::{Slots, Spare};
use namespaces::Namespaces;
use splice::Pool;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::timeout,
};
use weir_common::abi::tls::Listener;

/// Times and bounds.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a ClientHello may take, from the accept on.
    pub hello_deadline: Duration,
    /// How long one try to connect to an endpoint may take. The kernel, whose timer begins with a
    /// second, sees the failure of its own if it is longer.
    pub connect_timeout: Duration,
    /// Bounds on unfinished ClientHellos of one network namespace.
    pub unfinished_in_namespace: Bound,
    /// Bounds on unfinished ClientHellos of all.
    pub unfinished: Bound,
    /// Empty pipes that are kept for the next connection that moves something.
    pub idle_pipes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hello_deadline: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            unfinished_in_namespace: Bound { count: 16_384, bytes: 32 << 20 },
            unfinished: Bound { count: 65_536, bytes: 128 << 20 },
            idle_pipes: 256,
        }
    }
}

/// The acceptor's borders.
#[derive(Clone)]
pub struct Borders {
    /// Network namespaces.
    pub registry: Arc<Registry>,
    /// The kernel.
    pub maps: Arc<dyn AcceptMaps>,
    /// The current tables.
    pub decisions: Arc<dyn Decisions>,
    /// What is dialled.
    pub connector: Arc<dyn Connector>,
}

/// A network namespace, as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceView {
    /// Name, or the process by which it was found.
    pub name: String,
    /// The kernel's number for it, if it could be entered.
    pub cookie: Option<u64>,
    /// Ports of its listeners, or why there are none; `None` while none are needed.
    pub listener: Option<Result<Listener, String>>,
}

/// Where a listener stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Listening,
    /// No longer announced.
    Withdrawn,
}

/// What all connections share.
struct Shared {
    options: Options,
    registry: Arc<Registry>,
    maps: Arc<dyn AcceptMaps>,
    decisions: Arc<dyn Decisions>,
    connector: Arc<dyn Connector>,
    metrics: Arc<Metrics>,
    unfinished: Arc<Usage>,
    pipes: Pool,
    spare: Spare,
    slots: Arc<Slots>,
    /// Listeners and problems, by cookie of the namespace.
    doors: Mutex<BTreeMap<u64, Result<Listener, String>>>,
    abort: watch::Sender<bool>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The acceptor. It accepts nothing until it is needed.
#[derive(Debug)]
pub struct Acceptor {
    shared: Arc<Shared>,
    needed: watch::Sender<bool>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Acceptor {
    /// Starts it, and raises this process's limit on open files. The registry is run by the caller.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn start(borders: Borders, options: Options) -> Self {
        let Borders { registry, maps, decisions, connector } = borders;
        let (sockets, pipes) = files::divide(files::raise_limit());
        let shared = Arc::new(Shared {
            unfinished: Usage::new(options.unfinished),
            pipes: Pool::new(options.idle_pipes, pipes),
            options,
            registry,
            maps,
            decisions,
            connector,
            metrics: Arc::default(),
            spare: Spare::new(),
            slots: Slots::new(sockets),
            doors: Mutex::default(),
            abort: watch::Sender::default(),
        });
        let (needed, follows) = watch::channel(false);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(Namespaces::new(Arc::clone(&shared)).run(follows, stopped));
        Self { shared, needed, stop, task }
    }

    /// Says whether a frontend is on the accept path. Open connections are not concerned.
    pub fn set_needed(&self, needed: bool) {
        self.shared.registry.set_needed(needed);
        self.needed.send_replace(needed);
    }

    /// Returns the counters.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.shared.metrics)
    }

    /// Returns how many ClientHellos are unfinished now, and the bytes of their buffers.
    #[must_use]
    pub fn unfinished(&self) -> Bound {
        self.shared.unfinished.now()
    }

    /// Returns how many empty pipes are kept now.
    #[must_use]
    pub fn idle_pipes(&self) -> usize {
        self.shared.pipes.len()
    }

    /// Lists the network namespaces and their listeners.
    #[must_use]
    pub fn view(&self) -> Vec<NamespaceView> {
        let doors = self.shared.doors.lock().unwrap_or_else(PoisonError::into_inner);
        let namespaces = self.shared.registry.list().into_iter();
        let view = namespaces.map(|namespace| {
            let listener = match &namespace.cookie {
                Ok(cookie) => doors.get(cookie).cloned(),
                Err(problem) => Some(Err(problem.clone())),
            };
            NamespaceView { name: namespace.origin.to_string(), cookie: namespace.cookie.ok(), listener }
        });
        view.collect()
    }

    /// Stops accepting and lets open connections come to their end until the time is over. Returns
    /// how many were then reset.
    pub async fn shutdown(self, drain: Duration) -> usize {
        let Self { shared, needed: _needed, stop, mut task } = self;
        // The task is there until it is told.
        let _ = stop.send(());
        if timeout(drain, &mut task).await.is_ok() {
            return 0;
        }
        let left = shared.metrics.open();
        shared.abort.send_replace(true);
        // Its result is nothing but a panic, which was told.
        let _ = task.await;
        left
    }
}
