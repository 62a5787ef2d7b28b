//! The agent's loop, step by step: what was read becomes tables, the tables become operations, the
//! operations reach the kernel. No clock and no waiting here; `cli::run` says when.

mod publish;

pub use publish::coverage;

use crate::{
    bpf::{self, Kernel},
    clients::{Finder, Found},
    compile::{
        Compiled, FoundClients, compile,
        path::Capabilities,
        tables::{Demand, Names, Tables},
    },
    ir::Desired,
    memory,
    plan::{Applied, Op, Retired, Retiring, diff},
    provider::file::Reading,
    resources::Resources,
    translate::{Translation, express, translate},
    view::{AcceptorView, Notice, Published, Severity},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use tokio::sync::watch;

/// Where the whole state takes at least this long, changed weights are sent ahead of it.
const LONG: Duration = Duration::from_millis(10);

/// The tables that decide, for those who decide beside the kernel: the acceptor, and the reader of long
/// ClientHellos. They change once the kernel has everything that is new, and before it uses it.
#[derive(Clone, Debug, Default)]
pub struct InForce {
    /// The tables.
    pub tables: Arc<Tables>,
    /// What their ids mean.
    pub names: Arc<Names>,
}

/// What runs beside the kernel for TLS, as far as applying needs it.
pub trait Doors: Send {
    /// Opens the acceptor's listeners in all network namespaces, if they are needed, and waits for them:
    /// clients are about to come. Takes nothing away.
    fn open(&self, demand: Demand);
    /// Closes what is not needed any more.
    fn close(&self, demand: Demand);
}

/// The surroundings of the loop.
pub struct Surroundings {
    /// Name of this node.
    pub node: String,
    /// What the running kernel can do.
    pub capabilities: Capabilities,
    /// The listeners.
    pub doors: Box<dyn Doors>,
    /// For those who decide beside the kernel.
    pub in_force: watch::Sender<InForce>,
    /// For those who show the state.
    pub published: watch::Sender<Arc<Published>>,
}

/// Keeps the kernel's tables in step with what is read.
pub struct Reconciler {
    kernel: Kernel,
    node: String,
    capabilities: Capabilities,
    doors: Box<dyn Doors>,
    in_force: watch::Sender<InForce>,
    finder: Finder,
    applied: Applied,
    retiring: Retiring,
    /// Tables of an earlier agent that stay in force beside the wanted ones until the configuration
    /// was read without an error once: what could not be read may be what they came from.
    inherited: Option<Tables>,
    reading: Arc<Reading>,
    resolved: BTreeMap<String, Vec<IpAddr>>,
    /// The last reading that was translated as a whole, and how long that took until it was applied.
    whole: Arc<Reading>,
    took: Duration,
    /// Whether only a part of `reading` is in force.
    behind: bool,
    /// What the state in force needed when it was last looked at.
    demand: Demand,
    desired: Arc<Desired>,
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
    pub fn new(kernel: Kernel, surroundings: Surroundings) -> Result<Self, bpf::Error> {
        let Surroundings { node, capabilities, doors, in_force, published } = surroundings;
        let applied = kernel.tables()?;
        let retiring = Retiring::new(kernel.found()?);
        let finder = Finder::new(&kernel.cgroup().mount);
        let inherited = (!applied.frontends.is_empty()).then(|| applied.clone());
        Ok(Self {
            kernel,
            node,
            capabilities,
            doors,
            in_force,
            finder,
            applied: Applied::new(applied),
            retiring,
            inherited,
            reading: Arc::new(Reading::empty()),
            resolved: BTreeMap::new(),
            whole: Arc::new(Reading::empty()),
            took: Duration::ZERO,
            behind: false,
            demand: Demand::default(),
            desired: Arc::default(),
            found: Vec::new(),
            wanted: Compiled::default(),
            trouble: Vec::new(),
            published,
        })
    }

    /// Publishes how the acceptor does.
    pub fn show_acceptor(&self, acceptor: AcceptorView) {
        self.published.send_if_modified(|published| {
            let changed = published.acceptor != acceptor;
            if changed {
                Arc::make_mut(published).acceptor = acceptor;
            }
            changed
        });
    }

    /// Takes a new reading of the configuration, or new DNS answers, and applies what follows.
    pub fn take(&mut self, reading: Arc<Reading>, resolved: BTreeMap<String, Vec<IpAddr>>) {
        let started = Instant::now();
        let known: BTreeSet<_> = self.reading.problems.iter().collect();
        for problem in reading.problems.iter().filter(|problem| !known.contains(problem)) {
            publish::log(problem);
        }
        self.reading = reading;
        self.resolved = resolved;
        if self.send_ahead() {
            self.behind = true;
        } else {
            self.take_whole(started);
        }
    }

    /// Translates and applies the whole state, if only a part of it was sent ahead so far.
    pub fn catch_up(&mut self) {
        if self.behind {
            self.take_whole(Instant::now());
        }
    }

    /// Whether only a part of the last reading is in force.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.behind
    }

    fn take_whole(&mut self, started: Instant) {
        self.behind = false;
        self.whole = Arc::clone(&self.reading);
        // Where no Backend has a host name, the reading can be used as it is.
        let mut translation = if self.reading.resources.resolved == self.resolved {
            translate(&self.reading.resources)
        } else {
            let resolved = self.resolved.clone();
            translate(&Resources { resolved, ..self.reading.resources.clone() })
        };
        tracing::debug!(milliseconds = started.elapsed().as_secs_f64() * 1e3, "translated");
        self.desired = Arc::new(std::mem::take(&mut translation.desired));
        self.found = self.finder.find(&self.desired.clients);
        // The conditions can wait until the kernel has the new state.
        self.apply(started, Some(&translation));
    }

    /// Applies changed weights at once, ahead of the translation of everything else, where that takes
    /// long. Returns whether it did.
    fn send_ahead(&mut self) -> bool {
        // Only from a state that is in force as a whole, and whose Backends need no host names.
        let can = self.resolved.is_empty() && self.inherited.is_none() && self.trouble.is_empty();
        if !can || self.took < LONG || self.reading.problems != self.whole.problems {
            return false;
        }
        let Some(part) = express(&self.whole.resources, &self.reading.resources, &self.desired) else {
            return false;
        };
        let part = compile(&part, &FoundClients::new(), &self.node, &self.capabilities).tables;
        if self.prepare(&part).is_err() {
            return false;
        }
        self.retiring.save(&part);
        let ops = diff(&Tables::default(), &part);
        // An error shows again when the whole state is applied, right after this.
        let done = self.carry_out(&ops).map_or_else(|(done, _)| done, |()| ops.len());
        self.applied.partly(&ops[..done]);
        tracing::info!(operations = done, "changed weights are in force; the rest follows");
        true
    }

    /// Looks again for the processes of ClientGroups, and applies what has changed.
    pub fn refresh_clients(&mut self) {
        let started = Instant::now();
        let found = self.finder.find(&self.desired.clients);
        if found != self.found {
            self.found = found;
            self.apply_again(started);
        }
    }

    /// Tries again what could not be applied, if anything.
    pub fn retry(&mut self) {
        if self.trouble.iter().any(|notice| notice.severity == Severity::Error) {
            self.apply_again(Instant::now());
        }
    }

    /// Applies the last reading once more.
    fn apply_again(&mut self, started: Instant) {
        // What was sent ahead is not in the translation: without it the old weights would come back.
        if self.behind { self.take_whole(started) } else { self.apply(started, None) }
    }

    /// Removes what has not been wanted for a whole grace period.
    pub fn retire(&mut self) {
        let mut endpoints_gone = false;
        for op in self.retiring.tick(self.applied.stale(), self.applied.current()) {
            endpoints_gone |= matches!(op, Op::Retire(Retired::EndpointState(_)));
            match self.kernel.apply(&op) {
                Ok(()) => self.applied.retired(&op),
                Err(error) => tracing::warn!(%error, "cannot remove an entry that is not needed any more"),
            }
        }
        self.step_back();
        if endpoints_gone && let Err(error) = self.kernel.recount_ejected(self.applied.current()) {
            tracing::warn!(%error, "cannot count the ejected endpoints anew");
        }
    }

    /// Checks that the programs are still attached, and publishes when that changes.
    pub fn check_attachments(&mut self) {
        let lost: Vec<String> = self.kernel.check_attachments().err().into_iter().collect();
        let programs = publish::programs(&self.kernel);
        self.published.send_if_modified(|published| {
            if published.coverage.lost == lost && published.coverage.programs == programs {
                return false;
            }
            for what in &lost {
                tracing::error!("{what}: connections may not be split any more; restart the agent");
            }
            let coverage = &mut Arc::make_mut(published).coverage;
            (coverage.lost, coverage.programs) = (lost, programs);
            true
        });
    }

    /// Prepares what frontends on the paths of TLS need before they lead there.
    fn prepare(&mut self, wanted: &Tables) -> Result<(), bpf::Error> {
        let demand = wanted.demand();
        if demand.verify {
            self.kernel.set_verifying(true)?;
        }
        self.doors.open(demand);
        Ok(())
    }

    /// Takes away what no frontend on the paths of TLS has needed for a grace period.
    fn step_back(&mut self) {
        let demand = self.applied.current().demand();
        if std::mem::replace(&mut self.demand, demand) != demand {
            return;
        }
        self.doors.close(demand);
        // Connections that were begun under an earlier state may still wait for their hello's judgement.
        if !demand.verify && self.kernel.is_verifying() {
            match self.kernel.pending_hellos() {
                Ok(0) => {
                    if let Err(error) = self.kernel.set_verifying(false) {
                        tracing::warn!(%error, "cannot take off the program that reads ClientHellos");
                    }
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "cannot count the ClientHellos that are on their way"),
            }
        }
    }

    /// The wanted tables, over the inherited ones while they are kept.
    fn wanted_in_force(&self) -> Arc<Tables> {
        match &self.inherited {
            Some(inherited) => Arc::new(over(inherited, &self.wanted.tables)),
            None => Arc::clone(&self.wanted.tables),
        }
    }

    fn apply(&mut self, started: Instant, translation: Option<&Translation>) {
        let mut clients = FoundClients::new();
        for found in &self.found {
            for key in &found.keys {
                clients.entry(*key).or_insert_with(|| found.client.namespace.clone());
            }
        }
        self.trouble.clear();
        let compiled = compile(&self.desired, &clients, &self.node, &self.capabilities);
        if let Err(full) = compiled.tables.check_capacity() {
            tracing::error!(%full, "the new state is not applied; the last one stays in force");
            self.trouble.push(trouble(Severity::Error, full.to_string()));
            self.publish(None, translation);
            return;
        }
        self.wanted = compiled;
        if !self.reading.has_errors() {
            self.inherited = None;
        }
        let wanted = self.wanted_in_force();
        if let Err(error) = self.prepare(&wanted) {
            tracing::error!(%error, "the new state is not applied; the last one stays in force");
            self.trouble.push(trouble(Severity::Error, error.to_string()));
            self.publish(None, translation);
            return;
        }
        self.retiring.keep(self.applied.current(), &wanted);
        let ops = self.applied.plan(&wanted);
        let flip = ops.iter().position(Op::is_flip).unwrap_or(ops.len());
        let (make, rest) = ops.split_at(flip);
        let carried_out = self.carry_out(make).and_then(|()| {
            self.in_force.send_replace(InForce { tables: Arc::clone(&wanted), names: Arc::clone(&self.wanted.names) });
            self.carry_out(rest).map_err(|(done, error)| (flip + done, error))
        });
        match carried_out {
            Ok(()) => self.applied.done(wanted),
            Err((done, error)) => {
                // Every prefix of the operations is a good state, so what is done can stay.
                tracing::error!(%error, "the new state is applied in part only; it is tried again");
                self.trouble.push(trouble(Severity::Error, error.to_string()));
                self.applied.partly(&ops[..done]);
            }
        }
        let took = started.elapsed();
        if translation.is_some() {
            self.took = took;
        }
        if self.inherited.is_some() {
            let message = "routes of the agent before this one stay in force until all files can be read";
            self.trouble.push(trouble(Severity::Warning, message.to_owned()));
        }
        tracing::info!(
            routes = self.desired.routes.len(),
            frontends = self.wanted.tables.frontends.len(),
            operations = ops.len(),
            milliseconds = took.as_secs_f64() * 1e3,
            "applied"
        );
        self.publish(Some(took), translation);
        memory::give_back();
    }

    /// Carries out operations; at an error says how many were.
    fn carry_out(&mut self, ops: &[Op]) -> Result<(), (usize, bpf::Error)> {
        ops.iter().enumerate().try_for_each(|(i, op)| self.kernel.apply(op).map_err(|error| (i, error)))
    }

    /// Publishes the state; `applied_in` says that it was applied just now.
    fn publish(&self, applied_in: Option<Duration>, translation: Option<&Translation>) {
        self.published.send_modify(|published| {
            let published = Arc::make_mut(published);
            published.problems = publish::notices(&self.reading);
            published.problems.extend(self.trouble.iter().cloned());
            if let Some(translation) = translation {
                published.objects = publish::objects(translation);
            }
            published.clients = publish::clients(&self.found);
            published.coverage.programs = publish::programs(&self.kernel);
            published.readings += 1;
            if let Some(took) = applied_in {
                published.generation += 1;
                published.applied_at = Some(SystemTime::now());
                published.applied_in = took;
                published.desired = Arc::clone(&self.desired);
                published.tables = Arc::clone(&self.wanted.tables);
                published.names = Arc::clone(&self.wanted.names);
            }
        });
    }
}

fn trouble(severity: Severity, message: String) -> Notice {
    Notice { severity, object: String::new(), place: String::new(), message }
}

/// Lays `upper` over `lower`: what only the lower one has stays.
fn over(lower: &Tables, upper: &Tables) -> Tables {
    let mut tables = lower.clone();
    tables.frontends.extend(&upper.frontends);
    // A frontend of the upper tables has only their scopes.
    let replaced: BTreeSet<_> = lower
        .frontends
        .iter()
        .filter(|(key, _)| upper.frontends.contains_key(key))
        .map(|(_, value)| value.id)
        .collect();
    tables.scoped.retain(|key, _| !replaced.contains(&key.frontend));
    tables.scoped.extend(&upper.scoped);
    tables.splits.extend(&upper.splits);
    tables.names.extend(&upper.names);
    tables.alpns.extend(upper.alpns.iter().map(|(set, routes)| (*set, routes.clone())));
    tables.backends.extend(&upper.backends);
    tables.endpoints.extend(&upper.endpoints);
    tables.rings.extend(&upper.rings);
    tables.clients.extend(&upper.clients);
    tables
}
