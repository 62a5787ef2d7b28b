//! What the TLS scenarios share: the two paths, and the usual stage with servers that speak TLS.

use crate::stage::{Family, PORT, Stage, shop};
use anyhow::{Context as _, Result, ensure};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use weir_tests::{
    client::{Dial, Probe},
    manifest::{Manifest, Route},
    report::Report,
    tls::{
        options::{Speech, TlsOptions},
        server::{Conduct, Listen, TlsServer},
    },
    wait,
};

/// A name of the route under test; matched exactly.
pub(crate) const NAME: &str = "shop.example";
/// Another one, by its wildcard.
pub(crate) const WILD_NAME: &str = "a.b.shop.example";
/// The names of the route under test.
pub(crate) const NAMES: [&str; 2] = [NAME, "*.shop.example"];
/// A name that no route has.
pub(crate) const WRONG_NAME: &str = "wrong.example";

/// How long a rejected client may wait for its error. A quiet machine takes a millisecond; this bound is
/// for a busy one, and below what a first retry of anything would take.
pub(crate) const AT_ONCE: Duration = Duration::from_millis(190);

/// How server names are enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// In the kernel, as the ClientHello leaves the client's socket.
    Verify,
    /// By the agent, which takes the connection until it has read the ClientHello.
    Accept,
}

impl Path {
    /// Adds the route under test, and what puts its frontend onto this path: the accept path is taken
    /// where another name leads elsewhere.
    pub(crate) fn route(self, manifest: Manifest, backends: &[(&str, u16, u32)]) -> Manifest {
        let manifest = manifest.route(&Route::tls("shop/web", "shop/web", &NAMES, backends));
        match self {
            Self::Verify => manifest,
            Self::Accept => {
                manifest.route(&Route::tls("shop/other", "shop/web", &["other.example"], &[("shop/other", PORT, 1)]))
            }
        }
    }

    /// Adds the route to [`shop`].
    pub(crate) fn shop(self, backends: &[(&str, u16, u32)]) -> Manifest {
        self.route(shop(), backends)
    }
}

/// Makes a test of a scenario for each path and family.
macro_rules! paths {
    ($name:ident) => {
        mod $name {
            use crate::{
                stage::{Family, play},
                tls_stage::Path,
            };

            #[test]
            fn verify_ipv4() {
                play(|| super::$name(Path::Verify, Family::V4));
            }

            #[test]
            fn verify_ipv6() {
                play(|| super::$name(Path::Verify, Family::V6));
            }

            #[test]
            fn verify_v4_mapped() {
                play(|| super::$name(Path::Verify, Family::Mapped));
            }

            #[test]
            fn accept_ipv4() {
                play(|| super::$name(Path::Accept, Family::V4));
            }

            #[test]
            fn accept_ipv6() {
                play(|| super::$name(Path::Accept, Family::V6));
            }

            #[test]
            fn accept_v4_mapped() {
                play(|| super::$name(Path::Accept, Family::Mapped));
            }
        }
    };
}
pub(crate) use paths;

impl Family {
    /// Dials the frontend `shop/web` and speaks TLS, with a name of the route under test.
    pub(crate) fn dial_tls(self) -> Dial {
        self.dial_frontend().speaking(TlsOptions::full(NAME))
    }

    /// The same with a ClientHello only.
    pub(crate) fn dial_hello(self) -> Dial {
        self.dial_frontend().speaking(TlsOptions::hello(NAME))
    }
}

impl Stage {
    /// Describes a TLS server on an endpoint.
    pub(crate) fn listen<'a>(&'a self, family: Family, name: &'a str, host: u8) -> Listen<'a> {
        Listen::on(self.net.backend(0), family.endpoint(host), name)
    }

    /// Starts a TLS server on an endpoint of `shop/a`.
    pub(crate) fn serve_tls(&self, family: Family) -> Result<TlsServer> {
        self.listen(family, "a/1", 1).start()
    }

    /// Starts the servers of [`shop`].
    pub(crate) fn serve_tls_shop(&self, family: Family, speech: Speech, conduct: Conduct) -> Result<Vec<TlsServer>> {
        let servers = [("a/1", 1), ("a/2", 2), ("a/3", 3), ("b/11", 11)];
        let start = |(name, host)| self.listen(family, name, host).speech(speech).conduct(conduct).start();
        servers.into_iter().map(start).collect()
    }

    /// Waits until a counter of rejections has a value.
    pub(crate) fn expect_rejected(&self, reason: &str, count: u64) -> Result<()> {
        let mut last = None;
        let met = wait::until("rejections in the metrics", wait::SOON, || {
            last = self.agent.metric("weir_connections_rejected_total", &[("reason", reason)]).ok();
            last.filter(|value| *value == count as f64)
        });
        met.map(drop).with_context(|| {
            let all = self.agent.page("/metrics").unwrap_or_default();
            let rejected: Vec<&str> =
                all.lines().filter(|line| line.starts_with("weir_connections_rejected")).collect();
            format!("{reason}: {last:?} instead of {count}: {rejected:#?}")
        })
    }
}

/// Checks that every connection was let in and then ended at once.
pub(crate) fn expect_ended_at_once(report: &Report) -> Result<()> {
    ensure!(report.attempts > 0 && report.failed_in_all() == report.attempts, "some were served: {report:?}");
    let ends = ["after ECONNABORTED", "after ECONNRESET", "after EPIPE"];
    let ended: u64 = ends.iter().map(|end| report.failed(end)).sum();
    ensure!(ended == report.attempts, "not a reset: {report:?}");
    let slowest = Duration::from_nanos(report.late_failure.p99);
    ensure!(slowest < AT_ONCE, "ended after {slowest:?}: {report:?}");
    Ok(())
}

/// Checks that nothing of rejected connections is left at a server, and that it saw resets.
pub(crate) fn expect_reset(server: &TlsServer) -> Result<()> {
    wait::until("the end of what was rejected at the server", wait::SOON, || (server.open() == 0).then_some(()))?;
    ensure!(server.greeted() == 0, "{} hellos arrived", server.greeted());
    ensure!(server.resets() == server.accepted(), "{} resets of {}", server.resets(), server.accepted());
    Ok(())
}

/// Waits for the turn of a scenario with thousands of connections: the servers of two at once would need
/// more open files than a process may have.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until a load has had some answers more.
pub(crate) fn go_on(load: &mut Probe, connections: u64) -> Result<Report> {
    let now = load.report()?.attempts;
    wait::until("more connections", wait::SOON, || {
        load.report().ok().filter(|report| report.attempts > now + connections)
    })
}
