//! How long CPUs were busy.

use anyhow::{Context as _, Result};
use std::{fs, time::Duration};

/// Length of the kernel's units in /proc/stat (proc(5): USER_HZ, 100 a second on every architecture Weir is for).
const TICK: Duration = Duration::from_millis(10);

/// Busy time since the machine's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuTime(u64);

impl CpuTime {
    /// Reads the time of one CPU, or of all together.
    pub(super) fn now(cpu: Option<usize>) -> Result<Self> {
        let table = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        busy(&table, cpu).map(Self).context("/proc/stat has no such CPU")
    }

    /// Returns how long they were busy since then.
    pub(super) fn since(self, before: Self) -> Duration {
        TICK.saturating_mul(u32::try_from(self.0.saturating_sub(before.0)).unwrap_or(u32::MAX))
    }
}

/// Adds up what is neither idle (4th) nor waiting (5th), without what guests had (8th and later).
fn busy(table: &str, cpu: Option<usize>) -> Option<u64> {
    let name = cpu.map_or_else(|| "cpu".to_owned(), |cpu| format!("cpu{cpu}"));
    let line = table.lines().find_map(|line| line.strip_prefix(&name)?.strip_prefix(' '))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    Some(ticks.iter().take(7).enumerate().filter(|(at, _)| !matches!(at, 3 | 4)).map(|(_, ticks)| ticks).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_stolen_time_is_not_busy() {
        let table = "cpu  10 1 20 1000 500 3 4 900 0 0\ncpu0 5 0 6 500 250 1 2 450 0 0\nintr 1\n";
        assert_eq!(busy(table, None), Some(38));
        assert_eq!(busy(table, Some(0)), Some(14));
        assert_eq!(busy(table, Some(1)), None);
    }
}
