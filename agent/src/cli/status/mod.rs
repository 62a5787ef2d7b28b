//! `weir status`: where Weir is attached, which routes are in force, and what is not well.

mod tls;

use super::{
    asking::{AdminArgs, Output, OutputArgs, colours, columns, page, view},
    format::{count, latency, percent, span},
    table::{draw, number, text},
};
use crate::view::{BackendView, ConditionView, LegView, RouteView, View};
use anyhow::Result;
use clap::Args;
use std::{
    collections::BTreeMap,
    io::Write,
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};
use weir_common::{abi::stats::Counter, reason::Reason};

/// Arguments of `weir status`.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Prints the status of the agent.
///
/// # Errors
///
/// If no agent answers.
pub fn run(args: &StatusArgs, out: &mut impl Write) -> Result<ExitCode> {
    let page = page(&args.admin.admin, "/status")?;
    let view = view(&args.admin.admin, &page)?;
    match args.output.output {
        Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(&view)?)?,
        Output::Text => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            write!(out, "{}", Screen { view: &view, now, colours: colours(), columns: columns() }.render())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What a person is shown. Pure, given the time and the terminal.
struct Screen<'a> {
    view: &'a View,
    /// Seconds since 1970.
    now: u64,
    colours: bool,
    columns: Option<usize>,
}

#[derive(Clone, Copy)]
enum Style {
    Heading,
    Bad,
    Dim,
}

impl Screen<'_> {
    fn render(&self) -> String {
        let sections = [
            self.agent(),
            self.frontends(),
            self.paths(),
            self.routes(),
            self.superseded(),
            self.ejected(),
            self.clients(),
            self.acceptor(),
            self.counters(),
            self.problems(),
            self.notes(),
        ];
        let shown: Vec<String> = sections.into_iter().filter(|lines| !lines.is_empty()).map(|l| l.join("\n")).collect();
        shown.join("\n\n") + "\n"
    }

    fn paint(&self, style: Style, text: &str) -> String {
        if !self.colours {
            return text.to_owned();
        }
        let code = match style {
            Style::Heading => "1",
            Style::Bad => "31",
            Style::Dim => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    fn heading(&self, text: &str) -> String {
        self.paint(Style::Heading, text)
    }

    fn agent(&self) -> Vec<String> {
        let view = self.view;
        let ago = |then: u64| span(self.now.saturating_sub(then));
        let applied = view
            .applied_at
            .map_or_else(String::new, |at| format!(", state {} applied {} ago", view.generation, ago(at)));
        let first = format!("weir {} on {}, up {}{applied}", view.version, view.node, ago(view.started_at));
        let mut lines = vec![self.heading(&first)];
        for missing in &view.missing {
            lines.push(self.paint(Style::Bad, &format!("  NOT READY    {missing}")));
        }
        let coverage = &view.coverage;
        let programs: Vec<&str> = coverage.programs.iter().map(|program| program.name.as_str()).collect();
        let attached = match programs.as_slice() {
            [] => "nothing".to_owned(),
            names => format!("{} ({})", coverage.cgroup_root.display(), names.join(", ")),
        };
        lines.push(format!("  attached to  {attached}"));
        lines.extend(coverage.covers.iter().map(|what| format!("  covers       {what}")));
        lines.extend(coverage.not_covered.iter().map(|what| format!("  not covered  {what}")));
        if !coverage.self_test.is_empty() {
            lines.push(format!("  self-test    {}", coverage.self_test));
        }
        let settings = &view.settings;
        lines.push(format!("  agent loss   {}", settings.on_agent_loss));
        lines.push(format!(
            "  ejection     {}",
            match settings.eject_after_failures {
                0 => "off".to_owned(),
                failures => format!(
                    "after {failures} failed connects in a row within {}, for {} up to {}",
                    seconds(settings.eject_window_seconds),
                    seconds(settings.eject_base_seconds),
                    seconds(settings.eject_max_seconds)
                ),
            }
        ));
        lines
    }

    fn frontends(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for frontend in &self.view.frontends {
            let everyone = frontend.everyone.as_deref().unwrap_or("none: left alone");
            rows.push(vec![
                frontend.address.clone(),
                frontend.service.clone(),
                "everyone".to_owned(),
                tls::routes(everyone),
            ]);
            for (namespace, route) in &frontend.namespaces {
                rows.push(vec![String::new(), String::new(), namespace.clone(), tls::routes(route)]);
            }
        }
        let columns = [text("FRONTEND", 0), text("SERVICE", 1), text("CLIENTS", 0), text("ROUTE", 0)];
        if rows.is_empty() {
            return vec![self.heading("FRONTENDS"), "  none: no route is attached to a Service".to_owned()];
        }
        self.headed(draw(&columns, &rows, "", self.columns))
    }

    fn headed(&self, mut lines: Vec<String>) -> Vec<String> {
        if let Some(first) = lines.first_mut() {
            *first = self.heading(first);
        }
        lines
    }

    fn routes(&self) -> Vec<String> {
        let backends: BTreeMap<&str, &BackendView> =
            self.view.backends.iter().map(|backend| (backend.name.as_str(), backend)).collect();
        let mut lines = Vec::new();
        for route in &self.view.routes {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.push(format!("{}  {}", self.heading(&route.name), self.paint(Style::Dim, &route.policy)));
            lines.extend(route.tls.as_ref().map(tls::matches));
            lines.extend(self.legs(route, &backends));
            for (reason, n) in &route.rejected {
                let sentence = sentence(reason);
                lines.push(format!("  rejected before a backendRef was chosen: {} ({sentence})", count(*n)));
            }
        }
        lines
    }

    fn legs(&self, route: &RouteView, backends: &BTreeMap<&str, &BackendView>) -> Vec<String> {
        let columns = [
            text("BACKENDREF", 0),
            number("WEIGHT", 2),
            number("WANTED", 0),
            number("SO FAR", 0),
            number("FORWARDED", 3),
            number("REJECTED", 4),
            number("FAILED", 1),
            number("ACTIVE", 6),
            number("CONNECT", 5),
            text("STATE", 0),
        ];
        let row = |leg: &LegView| {
            vec![
                leg.label.clone(),
                count(leg.weight.into()),
                percent(leg.wanted_share),
                leg.share.map_or_else(|| "-".to_owned(), percent),
                count(leg.forwarded),
                count(leg.decided() - leg.forwarded),
                count(leg.failures()),
                count(leg.active),
                leg.connect.p50_seconds.map_or_else(|| "-".to_owned(), latency),
                state(leg, backends),
            ]
        };
        let rows: Vec<Vec<String>> = route.legs.iter().map(row).collect();
        let mut lines = draw(&columns, &rows, "  ", self.columns);
        for (line, leg) in lines.iter_mut().skip(1).zip(&route.legs) {
            if leg.rejects.is_some() && leg.weight > 0 {
                *line = self.paint(Style::Bad, line);
            }
        }
        if let Some(first) = lines.first_mut() {
            *first = self.paint(Style::Dim, first);
        }
        lines
    }

    fn superseded(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for object in &self.view.objects {
            for condition in &object.conditions {
                if condition.kind == ConditionView::SUPERSEDED && condition.status {
                    let at = object.parent.as_ref().map_or_else(String::new, |parent| format!(" at {parent}"));
                    lines.push(format!("  {}{at}: {}", object.object, condition.message));
                }
            }
        }
        self.section("SUPERSEDED ROUTES", lines)
    }

    fn ejected(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for backend in &self.view.backends {
            for endpoint in &backend.endpoints {
                let Some(left) = endpoint.ejected_for_seconds else { continue };
                let (address, name, times) = (&endpoint.address, &backend.name, endpoint.ejections);
                lines.push(format!("  {address} of {name}: for {} more, ejection {times} in a row", seconds(left)));
            }
        }
        self.section("EJECTED ENDPOINTS", lines)
    }

    fn clients(&self) -> Vec<String> {
        let line = |client: &crate::view::ClientView| {
            let found = match client.found {
                0 => "none found yet".to_owned(),
                n => format!("{n} found"),
            };
            format!("  {}: {} ({found})", client.namespace, client.selector)
        };
        self.section("CLIENTS OF NAMESPACES", self.view.clients.iter().map(line).collect())
    }

    fn counters(&self) -> Vec<String> {
        // Each ClientHello on the verify path moves these, and nothing is wrong then.
        let ordinary = [Counter::VerifyBegan.label(), Counter::VerifyEnded.label()];
        let shown = self.view.counters.iter().filter(|(name, n)| **n > 0 && !ordinary.contains(&name.as_str()));
        self.section(
            "COUNTERS",
            shown.map(|(name, n)| format!("  {}: {}", name.replace('_', " "), count(*n))).collect(),
        )
    }

    fn problems(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for problem in &self.view.problems {
            let object = if problem.object.is_empty() { String::new() } else { format!("{}: ", problem.object) };
            let severity = self.paint(Style::Bad, problem.severity.label());
            lines.push(format!("  {severity}: {object}{}", problem.message));
            if !problem.place.is_empty() {
                lines.push(format!("    {}", self.paint(Style::Dim, &problem.place)));
            }
        }
        for object in &self.view.objects {
            let bad = object.conditions.iter().filter(|c| c.is_bad() && c.kind != ConditionView::SUPERSEDED);
            for condition in bad {
                let at = object.parent.as_ref().map_or_else(String::new, |parent| format!(" at {parent}"));
                let kind = self.paint(Style::Bad, &format!("not {}", condition.kind));
                lines.push(format!("  {kind}: {}{at}: {} ({})", object.object, condition.message, condition.reason));
            }
        }
        self.section("PROBLEMS", lines)
    }

    fn notes(&self) -> Vec<String> {
        let notes = self.view.objects.iter().flat_map(|object| object.notes.iter().map(move |note| (object, note)));
        self.section("NOTES", notes.map(|(object, note)| format!("  {}: {note}", object.object)).collect())
    }

    fn section(&self, title: &str, lines: Vec<String>) -> Vec<String> {
        if lines.is_empty() { lines } else { std::iter::once(self.heading(title)).chain(lines).collect() }
    }
}

/// Seconds with at most one digit behind the point.
fn seconds(seconds: f64) -> String {
    if seconds >= 60.0 || seconds == seconds.trunc() { span(seconds as u64) } else { format!("{seconds:.1}s") }
}

/// The sentence of a reason, or its label if a newer agent knows more reasons.
fn sentence(label: &str) -> &str {
    Reason::ALL.iter().find(|reason| reason.label() == label).map_or(label, |reason| reason.text())
}

fn state(leg: &LegView, backends: &BTreeMap<&str, &BackendView>) -> String {
    if let Some(reason) = &leg.rejects {
        return format!("rejects: {}", reason.replace('_', " "));
    }
    let Some(backend) = leg.backend.as_deref().and_then(|name| backends.get(name)) else {
        return String::new();
    };
    let n = backend.endpoints.len();
    let ejected = backend.endpoints.iter().filter(|endpoint| endpoint.ejected_for_seconds.is_some()).count();
    let noun = if n == 1 { "endpoint" } else { "endpoints" };
    if ejected == 0 { format!("{n} {noun}") } else { format!("{n} {noun}, {ejected} ejected") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Published, sample};

    fn render(view: &View, colours: bool, columns: Option<usize>) -> String {
        Screen { view, now: 1_700_000_360, colours, columns }.render()
    }

    fn sample() -> View {
        View::new(&sample::published(), &sample::snapshot())
    }

    #[test]
    fn everything_that_matters_is_on_the_screen() {
        insta::assert_snapshot!(render(&sample(), false, None));
    }

    #[test]
    fn a_terminal_of_eighty_columns_is_enough_for_the_tables() {
        let text = render(&sample(), false, Some(80));
        insta::assert_snapshot!(text);
        let table = text.lines().filter(|line| line.contains("web-v"));
        for line in table.filter(|line| line.contains('%')) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn an_agent_that_has_not_begun_says_what_is_missing() {
        let published = Published::starting("0.1.0", "node-1".to_owned(), UNIX_EPOCH);
        let text = render(&View::new(&published, &Default::default()), false, None);
        assert!(text.contains("NOT READY    no state has been applied yet"), "{text}");
        assert!(text.contains("attached to  nothing"), "{text}");
    }

    #[test]
    fn colours_come_only_when_asked_for() {
        assert!(!render(&sample(), false, None).contains('\x1b'));
        assert!(render(&sample(), true, None).contains('\x1b'));
    }
}
