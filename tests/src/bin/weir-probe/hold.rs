//! Connections that stay open, and are used whenever a report is asked for.

use crate::{
    connection::{self, Connection, Dial},
    load::{print, take},
    tally::Tally,
};
use anyhow::Result;
use std::{
    io::{self, BufRead as _},
    sync::atomic::AtomicU64,
    thread,
};

/// Bytes that go to and fro on each connection before a report.
const PING: u64 = 64;

pub(crate) fn run(dial: &Dial, count: u64) -> Result<()> {
    let left = AtomicU64::new(count);
    let opened: Vec<(Tally, Vec<Connection>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..dial.workers).map(|_| scope.spawn(|| open(dial, &left))).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker of the probe")).collect()
    });
    let (mut tally, mut open) = (Tally::default(), Vec::new());
    for (theirs, connections) in opened {
        tally.add(theirs);
        open.extend(connections);
    }
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        if line == "report" {
            open.retain_mut(|connection| match connection.exchange(PING) {
                Ok(()) => {
                    tally.moved(PING);
                    true
                }
                Err(error) => {
                    tally.error(&format!("after {}", connection::name(&error)), connection::now_ns());
                    false
                }
            });
            print(&Tally::sum([tally.clone()]));
        }
    }
    drop(open);
    print(&Tally::sum([tally]));
    Ok(())
}

/// Opens connections until as many as wanted have been tried.
fn open(dial: &Dial, left: &AtomicU64) -> (Tally, Vec<Connection>) {
    let (mut tally, mut open) = (Tally::default(), Vec::new());
    while take(left) {
        let start = connection::now_ns();
        let outcome = connection::open(dial);
        tally.count(start, &outcome);
        open.extend(outcome.ok());
    }
    (tally, open)
}
