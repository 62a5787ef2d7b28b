//! Addresses of the host names that Backends refer to, kept up to date by their TTLs.
//!
//! Each name has a task of its own that asks for A and AAAA records. An answer, also the answer that
//! there is nothing, is believed until its TTL; a failure changes nothing, the last good answer stays.
//! Which names are wanted is for others to say ([`Dns::set_names`]).

mod ask;
mod system;

use ask::Followed;
use hickory_resolver::TokioResolver;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};
use tokio::{
    sync::{mpsc, watch},
    task::{AbortHandle, JoinHandle},
};

/// Answers by name: every address once, in order. A name without any answer so far is absent.
pub type Answers = BTreeMap<String, Vec<IpAddr>>;

/// Keeps names resolved. Stops when dropped.
#[derive(Debug)]
pub struct Dns {
    names: watch::Sender<BTreeSet<String>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Dns {
    /// Starts with the name servers of `/etc/resolv.conf` and the names of `/etc/hosts`, also when they
    /// change later. Must be called in a tokio runtime.
    #[must_use]
    pub fn start() -> (Self, watch::Receiver<Answers>) {
        let (resolvers, task) = system::resolvers();
        let (mut dns, answers) = Self::follow(resolvers);
        dns.tasks.push(task);
        (dns, answers)
    }

    /// Starts with a resolver that never changes. Must be called in a tokio runtime.
    #[must_use]
    pub fn start_with(resolver: TokioResolver) -> (Self, watch::Receiver<Answers>) {
        Self::follow(watch::channel(Some(Arc::new(resolver))).1)
    }

    fn follow(resolvers: Resolvers) -> (Self, watch::Receiver<Answers>) {
        let (names, wanted) = watch::channel(BTreeSet::new());
        let (publish, answers) = watch::channel(Answers::new());
        let task = tokio::spawn(collect(resolvers, wanted, publish));
        (Self { names, tasks: vec![task] }, answers)
    }

    /// Says which names are wanted from now on, in the form of
    /// [`Resources::host_names`](crate::resources::Resources::host_names).
    pub fn set_names(&self, names: BTreeSet<String>) {
        self.names.send_if_modified(|wanted| {
            let changed = *wanted != names;
            *wanted = names;
            changed
        });
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// The resolver to ask; `None` while the machine's configuration cannot be read.
type Resolvers = watch::Receiver<Option<Arc<TokioResolver>>>;

/// Starts and ends the tasks of names, and publishes what they find.
async fn collect(resolvers: Resolvers, mut wanted: watch::Receiver<BTreeSet<String>>, publish: watch::Sender<Answers>) {
    let (found, mut finds) = mpsc::channel::<(String, Vec<IpAddr>)>(64);
    let mut tasks: BTreeMap<String, Task> = BTreeMap::new();
    loop {
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
                let names = wanted.borrow_and_update().clone();
                tasks.retain(|name, _| names.contains(name));
                for name in &names {
                    tasks.entry(name.clone()).or_insert_with(|| {
                        let followed = Followed::new(name.clone(), resolvers.clone(), found.clone());
                        Task(tokio::spawn(followed.follow()).abort_handle())
                    });
                }
                publish.send_if_modified(|answers| {
                    let before = answers.len();
                    answers.retain(|name, _| names.contains(name));
                    answers.len() != before
                });
            }
            Some((name, addresses)) = finds.recv() => {
                // The last find of a task may arrive after its name was dropped.
                if tasks.contains_key(&name) {
                    publish.send_if_modified(|answers| answers.insert(name, addresses.clone()) != Some(addresses));
                }
            }
        }
    }
}

/// Ends with its handle.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests;
