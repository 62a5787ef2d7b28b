//! The picture on the terminal: bars of the split beside the wanted shares.

use super::phase::{LEGS, Phase};
use std::io::IsTerminal as _;
use weir_tests::{report::Report, share::TOLERANCE};

/// Columns of a bar that is the whole.
const WIDTH: u64 = 44;

/// Draws, or keeps quiet when the output is for a program.
pub(super) struct Picture {
    quiet: bool,
    colours: bool,
    number: std::cell::Cell<u32>,
}

impl Picture {
    pub(super) fn new(quiet: bool) -> Self {
        let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { quiet, colours, number: 0.into() }
    }

    pub(super) fn title(&self) {
        self.line("");
        self.line(&self.bold("  Weir: one Service, two versions, a kernel that keeps the shares"));
        self.line("");
        self.line("  2 clients dial shop/checkout           ┌─ checkout-v1   3 endpoints");
        self.line("  10.96.0.10:5432, [fd00:96::10]:5432  ──┼─ checkout-v2   1 endpoint");
        self.line("  (no machine has these addresses)       └─ checkout-v3   does not exist: refused at once");
    }

    pub(super) fn heading(&self, title: &str, weights: [u64; 3]) {
        self.number.set(self.number.get() + 1);
        let [a, b, c] = weights;
        self.line("");
        self.line(&self.bold(&format!("  {}. {title} — weights {a} : {b} : {c}", self.number.get())));
    }

    pub(super) fn phase(&self, phase: &Phase, report: &Report, notes: &[String]) {
        let names = ["checkout-v1", "checkout-v2", "refused"];
        let colours = ["32", "36", "31"];
        for ((leg, name), colour) in LEGS.iter().zip(names).zip(colours) {
            let (wanted, got) = phase.leg(leg);
            let total = report.attempts.max(1);
            let bar = self.paint(colour, &bar(got, total));
            let share = got as f64 * 100.0 / total as f64;
            let (got, wanted) = (thousands(got), thousands(wanted));
            self.line(&format!("     {name:<12} {bar} {share:5.1} %  {got:>6}  wanted {wanted:>6}"));
        }
        let endpoints: Vec<String> = report
            .answers
            .iter()
            .filter_map(|(name, count)| Some(format!("{} {count}", name.strip_prefix("checkout-v1/")?)))
            .collect();
        self.line(&self.dim(&format!("     inside checkout-v1: {}", endpoints.join(", "))));
        for note in notes {
            self.line(&self.dim(&format!("     {note}")));
        }
        let mark = if phase.is_right() { self.paint("32", "✓") } else { self.paint("31", "✗") };
        let worst = phase.worst();
        let within = if worst <= TOLERANCE { "at most" } else { "up to" };
        self.line(&format!(
            "   {mark} {within} {worst} of {} connections from the exact share, {} errors; connect() {} in the median, refused in {}",
            thousands(report.attempts),
            phase.errors(),
            time(report.connect.p50),
            time(report.failure.p50),
        ));
    }

    pub(super) fn end(&self) {
        self.line("");
        self.line("  Namespaces, cgroup, pins and agent are gone again.");
        self.line("");
    }

    fn line(&self, text: &str) {
        if !self.quiet {
            println!("{text}");
        }
    }

    fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    fn dim(&self, text: &str) -> String {
        self.paint("2", text)
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Draws a part of a whole in eighths of a column, with dots for the rest.
fn bar(part: u64, whole: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part * WIDTH * 8 + whole / 2) / whole;
    let full = (eighths / 8).min(WIDTH);
    let rest = if full == WIDTH { "" } else { EIGHTHS[(eighths % 8) as usize] };
    let used = full + u64::from(!rest.is_empty());
    format!("{}{rest}{}", "█".repeat(full as usize), "·".repeat((WIDTH - used) as usize))
}

/// Writes a number with commas between its thousands.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a duration given in nanoseconds.
fn time(ns: u64) -> String {
    if ns < 10_000_000 { format!("{} µs", ns / 1_000) } else { format!("{} ms", ns / 1_000_000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_one_width() {
        for part in 0..=1_000 {
            assert_eq!(bar(part, 1_000).chars().count() as u64, WIDTH, "{part}");
        }
        assert_eq!(bar(1, 2), format!("{}{}", "█".repeat(22), "·".repeat(22)));
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
    }
}
