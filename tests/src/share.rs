//! Exact shares: how many of n connections a leg should have had.

use anyhow::{Result, bail};

/// How far a leg may be from its exact share, connections.
pub const TOLERANCE: u64 = 3;

/// Returns the exact share of a leg, rounded to the nearest connection.
#[must_use]
pub fn of(weight: u64, total: u64, connections: u64) -> u64 {
    if total == 0 { 0 } else { (weight * connections * 2 + total) / (2 * total) }
}

/// Compares what legs got with their weights.
///
/// # Errors
///
/// If a leg is more than [`TOLERANCE`] connections off; the message names all of them.
pub fn check(connections: u64, legs: &[(&str, u64, u64)]) -> Result<()> {
    let total = legs.iter().map(|(_, weight, _)| weight).sum();
    let lines: Vec<String> = legs
        .iter()
        .filter_map(|(name, weight, got)| {
            let wanted = of(*weight, total, connections);
            (wanted.abs_diff(*got) > TOLERANCE).then(|| format!("{name}: {got} instead of {wanted}"))
        })
        .collect();
    if !lines.is_empty() {
        bail!("of {connections} connections: {}", lines.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leg_may_be_three_connections_off() {
        assert!(check(1_000, &[("a", 70, 703), ("b", 30, 297)]).is_ok());
        let error = check(1_000, &[("a", 70, 704), ("b", 30, 296)]).expect_err("too far");
        assert_eq!(error.to_string(), "of 1000 connections: a: 704 instead of 700, b: 296 instead of 300");
        assert!(check(10, &[("a", 0, 0), ("b", 0, 0)]).is_ok());
    }
}
