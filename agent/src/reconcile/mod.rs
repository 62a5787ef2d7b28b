//! The agent's loop, step by step: what was read becomes tables, the tables become operations, the
//! operations reach the kernel. No clock and no waiting here; `cli::run` says when.

mod publish;

use crate::{
    bpf::{self, Kernel},
    clients::{Finder, Found},
    compile::{Compiled, FoundClients, compile, tables::Tables},
    ir::Desired,
    plan::{Retiring, diff},
    provider::file::Reading,
    translate::{Translation, translate},
    view::{Coverage, Notice, Published, Severity},
};
use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::Arc,
    time::{Instant, SystemTime},
};
use tokio::sync::watch;

/// Keeps the kernel's tables in step with what is read.
pub struct Reconciler {
    kernel: Kernel,
    node: String,
    finder: Finder,
    /// What the maps hold, entries on their way out included.
    applied: Tables,
    retiring: Retiring,
    /// Tables of an earlier agent that stay in force beside the wanted ones until the configuration
    /// was read without an error once: what could not be read may be what they came from.
    inherited: Option<Tables>,
    reading: Arc<Reading>,
    resolved: BTreeMap<String, Vec<IpAddr>>,
    translation: Translation,
    found: Vec<Found>,
    wanted: Compiled,
    /// What stands in the way of the wanted state, for people.
    trouble: Vec<Notice>,
    published: watch::Sender<Arc<Published>>,
}

impl Reconciler {
    /// Starts from the tables that the kernel holds.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn new(kernel: Kernel, node: String, published: watch::Sender<Arc<Published>>) -> Result<Self, bpf::Error> {
        let applied = kernel.tables()?;
        let retiring = Retiring::new(kernel.found()?);
        let finder = Finder::new(&kernel.cgroup().mount);
        let inherited = (!applied.frontends.is_empty()).then(|| applied.clone());
        Ok(Self {
            kernel,
            node,
            finder,
            applied,
            retiring,
            inherited,
            reading: Arc::new(Reading::empty()),
            resolved: BTreeMap::new(),
            translation: Translation::default(),
            found: Vec::new(),
            wanted: Compiled::default(),
            trouble: Vec::new(),
            published,
        })
    }

    /// Returns the wanted state by names.
    #[must_use]
    pub fn desired(&self) -> &Desired {
        &self.translation.desired
    }

    /// Takes a new reading of the configuration, or new DNS answers, and applies what follows.
    pub fn take(&mut self, reading: Arc<Reading>, resolved: BTreeMap<String, Vec<IpAddr>>) {
        let started = Instant::now();
        for problem in reading.problems.iter().filter(|problem| !self.reading.problems.contains(problem)) {
            publish::log(problem);
        }
        let mut resources = reading.resources.clone();
        resources.resolved.clone_from(&resolved);
        self.reading = reading;
        self.resolved = resolved;
        self.translation = translate(&resources);
        self.found = self.finder.find(&self.translation.desired.clients);
        self.apply(started);
    }

    /// Looks again for the processes of ClientGroups, and applies what has changed.
    pub fn refresh_clients(&mut self) {
        let started = Instant::now();
        let found = self.finder.find(&self.translation.desired.clients);
        if found != self.found {
            self.found = found;
            self.apply(started);
        }
    }

    /// Tries again what could not be applied, if anything.
    pub fn retry(&mut self) {
        if !self.trouble.is_empty() {
            self.apply(Instant::now());
        }
    }

    /// Removes what has not been wanted for a whole grace period.
    pub fn retire(&mut self) {
        let wanted = self.in_force();
        for op in self.retiring.tick(&self.applied, &wanted) {
            match self.kernel.apply(&op) {
                Ok(()) => self.applied.follow(&op),
                Err(error) => tracing::warn!(%error, "cannot remove an entry that is not needed any more"),
            }
        }
    }

    /// Checks that the programs are still attached, and publishes when that changes.
    pub fn check_attachments(&mut self) {
        let lost: Vec<String> = self.kernel.check_attachments().err().into_iter().collect();
        self.published.send_if_modified(|published| {
            if published.coverage.lost == lost {
                return false;
            }
            for what in &lost {
                tracing::error!("{what}: connections may not be split any more; restart the agent");
            }
            Arc::make_mut(published).coverage.lost = lost;
            true
        });
    }

    /// The wanted tables, over the inherited ones while they are kept.
    fn in_force(&self) -> Tables {
        match &self.inherited {
            Some(inherited) => over(inherited, &self.wanted.tables),
            None => self.wanted.tables.clone(),
        }
    }

    fn apply(&mut self, started: Instant) {
        let mut clients = FoundClients::new();
        for found in &self.found {
            for key in &found.keys {
                clients.entry(*key).or_insert_with(|| found.client.namespace.clone());
            }
        }
        self.trouble.clear();
        let compiled = compile(&self.translation.desired, &clients, &self.node);
        if let Err(full) = compiled.tables.check_capacity() {
            tracing::error!(%full, "the new state is not applied; the last one stays in force");
            self.trouble.push(trouble(full.to_string()));
            self.publish(None);
            return;
        }
        self.wanted = compiled;
        if !self.reading.has_errors() {
            self.inherited = None;
        }
        let wanted = self.in_force();
        self.retiring.keep(&wanted);
        let ops = diff(&self.applied, &wanted);
        for op in &ops {
            if let Err(error) = self.kernel.apply(op) {
                // Every prefix of the operations is a good state, so what is done can stay.
                tracing::error!(%error, "the new state is applied in part only; it is tried again");
                self.trouble.push(trouble(error.to_string()));
                break;
            }
            self.applied.follow(op);
        }
        let took = started.elapsed();
        if self.inherited.is_some() {
            self.trouble.push(Notice {
                severity: Severity::Warning,
                object: String::new(),
                place: String::new(),
                message: "routes of the agent before this one stay in force until all files can be read".to_owned(),
            });
        }
        tracing::info!(
            routes = self.translation.desired.routes.len(),
            frontends = self.wanted.tables.frontends.len(),
            operations = ops.len(),
            milliseconds = took.as_secs_f64() * 1e3,
            "applied"
        );
        self.publish(Some(took));
    }

    /// Publishes the state; `applied_in` says that it was applied just now.
    fn publish(&self, applied_in: Option<std::time::Duration>) {
        self.published.send_modify(|published| {
            let published = Arc::make_mut(published);
            published.problems = publish::notices(&self.reading);
            published.problems.extend(self.trouble.iter().cloned());
            published.objects = publish::objects(&self.translation);
            published.clients = publish::clients(&self.found);
            published.readings += 1;
            if let Some(took) = applied_in {
                published.generation += 1;
                published.applied_at = Some(SystemTime::now());
                published.applied_in = took;
                published.desired = Arc::new(self.translation.desired.clone());
                published.tables = Arc::new(self.wanted.tables.clone());
                published.names = Arc::new(self.wanted.names.clone());
            }
        });
    }
}

/// Describes where the programs hang.
#[must_use]
pub fn coverage(kernel: &Kernel, self_test: String) -> Coverage {
    publish::coverage(kernel, self_test)
}

fn trouble(message: String) -> Notice {
    Notice { severity: Severity::Error, object: String::new(), place: String::new(), message }
}

/// Lays `upper` over `lower`: what only the lower one has stays.
fn over(lower: &Tables, upper: &Tables) -> Tables {
    let mut tables = lower.clone();
    tables.frontends.extend(&upper.frontends);
    // A frontend of the upper tables has only their scopes.
    let replaced: std::collections::BTreeSet<_> = lower
        .frontends
        .iter()
        .filter(|(key, _)| upper.frontends.contains_key(key))
        .map(|(_, value)| value.id)
        .collect();
    tables.scoped.retain(|key, _| !replaced.contains(&key.frontend));
    tables.scoped.extend(&upper.scoped);
    tables.splits.extend(&upper.splits);
    tables.backends.extend(&upper.backends);
    tables.endpoints.extend(&upper.endpoints);
    tables.rings.extend(&upper.rings);
    tables.clients.extend(&upper.clients);
    tables
}
