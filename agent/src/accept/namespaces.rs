//! Which network namespaces have listeners: all that are known, while a frontend needs them.

use super::{
    Phase, Shared,
    bounds::Usage,
    listen::{self, Pair},
    serve::Door,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, PoisonError},
};
use tokio::{
    sync::{oneshot, watch},
    task::JoinSet,
};
use weir_common::abi::tls::Listener;

/// A namespace with listeners.
#[derive(Debug)]
struct Open {
    ports: Listener,
    phase: watch::Sender<Phase>,
}

/// Opens and closes listeners. Owns all connections.
#[derive(Debug)]
pub(super) struct Namespaces {
    shared: Arc<Shared>,
    open: BTreeMap<u64, Open>,
    tasks: JoinSet<io::Result<()>>,
}

impl Namespaces {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, open: BTreeMap::new(), tasks: JoinSet::new() }
    }

    /// Follows the registry until it is told to stop; then stays until all connections are over.
    pub(super) async fn run(mut self, mut needed: watch::Receiver<bool>, mut stop: oneshot::Receiver<()>) {
        let mut looks = self.shared.registry.looks();
        self.forget_earlier();
        loop {
            if *needed.borrow_and_update() {
                self.follow().await;
            } else {
                self.close_all();
            }
            tokio::select! {
                _ = needed.changed() => {}
                _ = looks.changed() => {}
                Some(ended) = self.tasks.join_next() => report(ended),
                // Also when nobody is left who could say it.
                _ = &mut stop => break,
            }
        }
        self.close_all();
        while let Some(ended) = self.tasks.join_next().await {
            report(ended);
        }
    }

    /// Withdraws what an earlier agent announced in namespaces that are gone. In the others its
    /// listeners are in use until ours take their place.
    fn forget_earlier(&self) {
        let here: BTreeSet<u64> =
            self.shared.registry.list().into_iter().filter_map(|namespace| namespace.cookie.ok()).collect();
        if here.is_empty() {
            return;
        }
        for (cookie, _) in self.announced() {
            if !here.contains(&cookie) {
                self.remove(cookie);
            }
        }
    }

    /// Opens what is missing and closes what is gone.
    async fn follow(&mut self) {
        let listed = self.shared.registry.list();
        let here: BTreeSet<u64> = listed.into_iter().filter_map(|namespace| namespace.cookie.ok()).collect();
        let gone: Vec<u64> = self.open.keys().filter(|cookie| !here.contains(cookie)).copied().collect();
        for cookie in gone {
            self.remove(cookie);
            self.close(cookie);
        }
        for cookie in &here {
            if !self.open.contains_key(cookie) {
                let result = self.open(*cookie).await;
                self.note(*cookie, result);
            }
        }
        self.shared.doors.lock().unwrap_or_else(PoisonError::into_inner).retain(|cookie, _| here.contains(cookie));
    }

    /// Opens the listeners of a namespace, and announces them when both are there.
    async fn open(&mut self, cookie: u64) -> Result<Listener, String> {
        let pair = match self.shared.registry.enter(cookie, Pair::open).await {
            Ok(pair) => pair.map_err(|error| format!("cannot listen there: {error}"))?,
            Err(error) => return Err(error.to_string()),
        };
        let ports = pair.ports().map_err(|error| error.to_string())?;
        let (phase, receiver) = watch::channel(Phase::Listening);
        let door = Door { netns: cookie, unfinished: Usage::new(self.shared.options.unfinished_in_namespace) };
        self.shared.maps.set_listener(cookie, ports).map_err(|error| error.to_string())?;
        self.tasks.spawn(listen::run(Arc::clone(&self.shared), door, pair, ports, receiver));
        self.open.insert(cookie, Open { ports, phase });
        Ok(ports)
    }

    fn note(&self, cookie: u64, result: Result<Listener, String>) {
        let mut doors = self.shared.doors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(problem) = &result
            && doors.get(&cookie) != Some(&result)
        {
            tracing::warn!(netns = cookie, %problem, "no listener in a network namespace; trying again");
        }
        doors.insert(cookie, result);
    }

    /// Withdraws and closes all listeners. One that another agent has replaced stays announced.
    fn close_all(&mut self) {
        if self.open.is_empty() {
            return;
        }
        for (cookie, ports) in self.announced() {
            if self.open.get(&cookie).is_some_and(|open| open.ports == ports) {
                self.remove(cookie);
            }
        }
        for cookie in self.open.keys().copied().collect::<Vec<_>>() {
            self.close(cookie);
        }
    }

    /// Lets a listener's task accept what was sent to it already, and then close it.
    fn close(&mut self, cookie: u64) {
        if let Some(open) = self.open.remove(&cookie) {
            open.phase.send_replace(Phase::Withdrawn);
        }
        self.shared.doors.lock().unwrap_or_else(PoisonError::into_inner).remove(&cookie);
    }

    fn announced(&self) -> Vec<(u64, Listener)> {
        self.shared.maps.listeners().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot list the announced listeners");
            Vec::new()
        })
    }

    fn remove(&self, cookie: u64) {
        if let Err(error) = self.shared.maps.remove_listener(cookie) {
            tracing::warn!(netns = cookie, %error, "cannot withdraw a listener");
        }
    }
}

fn report(ended: Result<io::Result<()>, tokio::task::JoinError>) {
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "a listener could not be used"),
        Err(error) => tracing::error!(%error, "a listener's task ended early"),
    }
}
