//! The thread that goes into network namespaces, does a short job there and comes back.
//!
//! One thread for all: jobs are a few system calls, and those that have queued up are done without
//! waking it again. It rests at home, because a thread inside a namespace keeps it alive.

use super::Error;
use nix::sched::{CloneFlags, setns};
use std::{
    fs::File,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
};
use tokio::sync::oneshot;

/// Where a job is to be done.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// In the namespace that this process is in, for which no privilege is needed.
    Home,
    /// In the namespace of this file.
    Other(Arc<File>),
}

impl Place {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Home, Self::Home) => true,
            (Self::Other(one), Self::Other(other)) => Arc::ptr_eq(one, other),
            (Self::Home, Self::Other(_)) | (Self::Other(_), Self::Home) => false,
        }
    }
}

/// A job: it is told whether the thread is where it should be.
type Work = Box<dyn FnOnce(io::Result<()>) + Send>;

/// The thread's queue. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Traveller {
    jobs: mpsc::Sender<(Place, Work)>,
}

impl Traveller {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let home = File::open("/proc/thread-self/ns/net")?;
        let (jobs, queue) = mpsc::channel();
        thread::Builder::new().name("netns".to_owned()).spawn(move || work_off(&home, &queue))?;
        Ok(Self { jobs })
    }

    /// Does a job in a namespace and returns its result.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        place: Place,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, result) = oneshot::channel();
        let work = Box::new(move |there: io::Result<()>| {
            // Nobody waits for the answer any more: its value is dropped.
            let _ = answer.send(there.map(|()| job()));
        });
        // If the thread is gone, so is the answer's sender.
        let _ = self.jobs.send((place, work));
        match result.await {
            Ok(result) => result.map_err(Error::Enter),
            Err(_) => Err(Error::Ended),
        }
    }
}

fn work_off(home: &File, queue: &mpsc::Receiver<(Place, Work)>) {
    let mut at = Place::Home;
    while let Ok(job) = queue.recv() {
        let mut next = Some(job);
        while let Some((place, work)) = next {
            let there = go(home, &mut at, place);
            if catch_unwind(AssertUnwindSafe(|| work(there))).is_err() {
                tracing::error!("a job inside a network namespace panicked");
            }
            next = queue.try_recv().ok();
        }
        if let Err(error) = go(home, &mut at, Place::Home) {
            tracing::warn!(%error, "cannot leave a network namespace; trying again after the next job");
        }
    }
}

fn go(home: &File, at: &mut Place, to: Place) -> io::Result<()> {
    if !at.is(&to) {
        match &to {
            Place::Home => setns(home, CloneFlags::CLONE_NEWNET)?,
            Place::Other(file) => setns(&**file, CloneFlags::CLONE_NEWNET)?,
        }
        *at = to;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_job_that_panics_does_not_end_the_thread() {
        let traveller = Traveller::start().unwrap();
        let lost = traveller.run(Place::Home, || panic!("on purpose")).await;
        assert!(matches!(lost, Err(Error::Ended)));
        assert_eq!(traveller.run(Place::Home, || 7).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_file_that_is_no_namespace_is_an_error_of_that_job_only() {
        let traveller = Traveller::start().unwrap();
        let file = Arc::new(File::open("/dev/null").unwrap());
        assert!(matches!(traveller.run(Place::Other(file), || ()).await, Err(Error::Enter(_))));
        traveller.run(Place::Home, || ()).await.unwrap();
    }
}
