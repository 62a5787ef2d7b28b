//! The picture on the terminal: bars of the split beside the wanted shares.

use super::phase::{Leg, Phase, REJECTED};
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

    /// Says what the part on a cluster is about.
    pub(super) fn cluster_title(&self, nodes: &[String]) {
        self.line("");
        self.line(&self.bold("  Weir on a real cluster: one Service, two versions, two namespaces of clients"));
        self.line("");
        self.line("  pods of the shop and of a team       ┌─ checkout-v1   a pod on the first node");
        self.line("  dial checkout, ports 80 and 443    ──┴─ checkout-v2   a pod on the second node");
        self.line(&self.dim(&format!("  nodes: {}", nodes.join(", "))));
    }

    /// Says what the TLS part is about.
    pub(super) fn tls_title(&self) {
        self.line("");
        self.line(&self.bold("  And TLS, by the server name, without opening it"));
        self.line("");
        self.line("  shop/web-tls      web.shop.example    ─┬─ web-v1        verify path: direct, the kernel");
        self.line("                                         └─ web-v2        checks the name as it leaves");
        self.line("  shop/gateway-tls  api.shop.example    ─── api           accept path: the agent reads");
        self.line("                    admin.shop.example  ─── admin         the name, then connects");
        self.line("                    *.shop.example      ─── tenants");
    }

    /// Opens a phase. `what` is what its shares follow from.
    pub(super) fn heading(&self, title: &str, what: &str) {
        self.number.set(self.number.get() + 1);
        self.line("");
        self.line(&self.bold(&format!("  {}. {title} — {what}", self.number.get())));
    }

    pub(super) fn phase(&self, phase: &Phase, legs: &[Leg], report: &Report, notes: &[String]) {
        for (leg, colour) in legs.iter().zip(["32", "36", "34"]) {
            let (wanted, got) = phase.leg(leg.name);
            let total = report.attempts.max(1);
            let bar = self.paint(if leg.rejects() { "31" } else { colour }, &bar(got, total));
            let share = got as f64 * 100.0 / total as f64;
            let (name, got, wanted) = (shown(leg), thousands(got), thousands(wanted));
            self.line(&format!("     {name:<12} {bar} {share:5.1} %  {got:>6}  wanted {wanted:>6}"));
        }
        for note in legs.iter().filter_map(|leg| inside(leg, report)).chain(notes.iter().cloned()) {
            self.line(&self.dim(&format!("     {note}")));
        }
        let mark = if phase.is_right() { self.paint("32", "✓") } else { self.paint("31", "✗") };
        let worst = phase.worst();
        let within = if worst <= TOLERANCE { "at most" } else { "up to" };
        self.line(&format!(
            "   {mark} {within} {worst} of {} connections from the exact share, {} errors; {}",
            thousands(report.attempts),
            phase.errors(),
            times(report),
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

/// Returns what a leg is called on the picture.
fn shown(leg: &Leg) -> &'static str {
    match leg.name {
        REJECTED if leg.is_late() => "ended",
        REJECTED => "refused",
        name => name,
    }
}

/// Says how a leg's connections were shared by its endpoints, if there are several.
fn inside(leg: &Leg, report: &Report) -> Option<String> {
    let endpoints = report.answers.iter().filter_map(|(name, count)| {
        let endpoint = name.strip_prefix(leg.name)?.strip_prefix('/')?;
        Some(format!("{endpoint} {count}"))
    });
    let endpoints: Vec<String> = endpoints.collect();
    (endpoints.len() > 1).then(|| format!("inside {}: {}", leg.name, endpoints.join(", ")))
}

/// Says how long things took, of those that there were.
fn times(report: &Report) -> String {
    let all = [
        ("connect() ", report.connect.p50, " in the median"),
        ("refused in ", report.failure.p50, ""),
        ("ended in ", report.late_failure.p50, ""),
    ];
    let some = all.iter().filter(|(_, ns, _)| *ns > 0);
    some.map(|(before, ns, after)| format!("{before}{}{after}", time(*ns))).collect::<Vec<_>>().join(", ")
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
pub(super) fn time(ns: u64) -> String {
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
