//! A figure measured in several rounds.

use serde::Serialize;

/// Median, smallest and largest of some rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Sample {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Sample {
    /// Summarizes rounds.
    pub(super) fn of(rounds: &[f64]) -> Self {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let Some((least, most)) = sorted.first().zip(sorted.last()) else { return Self::default() };
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Self { median, least: *least, most: *most }
    }

    /// Divides round by round, so that what slows a whole round down does not show.
    pub(super) fn ratio(rounds: &[f64], to: &[f64]) -> Self {
        let ratios: Vec<f64> = rounds.iter().zip(to).filter(|(_, to)| **to > 0.0).map(|(one, to)| one / to).collect();
        Self::of(&ratios)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(Sample::of(&[4.0, 1.0, 3.0, 2.0]), Sample { median: 2.5, least: 1.0, most: 4.0 });
        assert_eq!(Sample::of(&[3.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(Sample::of(&[]), Sample::default());
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let ratio = Sample::ratio(&[50.0, 100.0, 9.0], &[100.0, 200.0, 10.0]);
        assert_eq!(ratio, Sample { median: 0.5, least: 0.5, most: 0.9 });
    }
}
