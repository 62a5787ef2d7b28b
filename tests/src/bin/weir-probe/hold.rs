//! Connections that stay open, and are used whenever a report is asked for.

use crate::{
    connection::{self, Connection, Dial},
    load::print,
    tally::Tally,
};
use anyhow::Result;
use std::io::{self, BufRead as _};

/// Bytes that go to and fro on each connection before a report.
const PING: u64 = 64;

pub(crate) fn run(dial: &Dial, count: u64) -> Result<()> {
    let mut tally = Tally::default();
    let mut open: Vec<Connection> = Vec::new();
    for _ in 0..count {
        let start = connection::now_ns();
        let outcome = connection::open(dial);
        tally.count(start, &outcome);
        open.extend(outcome.ok());
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
