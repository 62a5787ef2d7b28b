//! Counts of tests over several programs that run them.

use std::{env, fmt};

/// What some tests gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests, and checks, that failed.
    pub(crate) failed: u64,
    /// What was left out, and why.
    pub(crate) skipped: Vec<String>,
}

impl Tally {
    /// Adds the counts of another one.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
    }

    /// Reads a line that a test program prints, and counts what it says.
    pub(crate) fn read_test_line(&mut self, line: &str) {
        // A test writes it past the test runner, which may be in the middle of a line.
        if let Some((_, reason)) = line.split_once("skipped: ") {
            let reason = reason.trim();
            if !self.skipped.iter().any(|known| known == reason) {
                self.skipped.push(reason.to_owned());
            }
            return;
        }
        let Some(counts) = line.trim().strip_prefix("test result: ") else { return };
        self.passed += number_before(counts, "passed").unwrap_or_default();
        self.failed += number_before(counts, "failed").unwrap_or_default();
        let ignored = number_before(counts, "ignored").unwrap_or_default();
        if ignored > 0 {
            self.skipped.push(format!("{ignored} tests that are marked as ignored"));
        }
    }

    /// Counts one check that is not a test of its own; it shows only when it fails.
    pub(crate) fn fail(&mut self) {
        self.failed += 1;
    }

    /// In CI (the variable `CI` is set) what was skipped has failed.
    pub(crate) fn is_complete(&self) -> bool {
        self.failed == 0 && (self.skipped.is_empty() || env::var_os("CI").is_none())
    }

    /// Prints what was skipped, the given words if something failed, and the counts in the last line.
    /// Returns whether all is well.
    pub(crate) fn conclude(&self, problem: &str) -> bool {
        for reason in &self.skipped {
            println!("skipped: {reason}");
        }
        let is_complete = self.is_complete();
        if !is_complete {
            println!("{problem}");
        }
        println!("{self}");
        is_complete
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Finds `3 passed` and the like.
pub(crate) fn number_before(text: &str, word: &str) -> Option<u64> {
    let words: Vec<&str> = text.split([' ', ';', '.', ',']).filter(|word| !word.is_empty()).collect();
    words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_test_programs_add_up() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.02s",
            "test result: FAILED. 4 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.20s",
        ] {
            tally.read_test_line(line);
        }
        assert_eq!((tally.passed, tally.failed), (7, 2));
        assert_eq!(tally.skipped, ["1 tests that are marked as ignored"]);
        assert_eq!(tally.to_string(), "7 passed, 2 failed");
    }

    #[test]
    fn a_reason_to_skip_is_kept_once() {
        let mut tally = Tally::default();
        tally.read_test_line("skipped: needs root");
        tally.read_test_line("test a ... skipped: needs root");
        assert_eq!(tally.skipped, ["needs root"]);
    }
}
