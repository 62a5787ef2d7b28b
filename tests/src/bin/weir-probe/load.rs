//! Connections one after the other, on several workers: a number of them, or until told to end.

use crate::{
    connection::{self, Dial},
    tally::Tally,
};
use anyhow::Result;
use std::{
    io::{self, BufRead as _},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};
use weir_tests::report::Report;

pub(crate) fn run(dial: &Dial, count: Option<u64>) -> Result<()> {
    let tallies: Vec<Mutex<Tally>> = (0..dial.workers).map(|_| Mutex::default()).collect();
    let left = AtomicU64::new(count.unwrap_or(u64::MAX));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for tally in &tallies {
            scope.spawn(|| work(dial, tally, &left, &stop));
        }
        if count.is_none() {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                if line == "report" {
                    print(&sum(&tallies));
                }
            }
            stop.store(true, Ordering::Relaxed);
        }
    });
    print(&sum(&tallies));
    Ok(())
}

fn work(dial: &Dial, tally: &Mutex<Tally>, left: &AtomicU64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) && take(left) {
        let start = connection::now_ns();
        let outcome = connection::open(dial);
        tally.lock().unwrap_or_else(PoisonError::into_inner).count(start, &outcome);
        drop(outcome);
        if dial.pause_us > 0 {
            thread::sleep(Duration::from_micros(dial.pause_us));
        }
    }
}

pub(crate) fn take(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
}

fn sum(tallies: &[Mutex<Tally>]) -> Report {
    Tally::sum(tallies.iter().map(|tally| tally.lock().unwrap_or_else(PoisonError::into_inner).clone()))
}

pub(crate) fn print(report: &Report) {
    println!("{}", serde_json::to_string(report).expect("maps with string keys"));
}
