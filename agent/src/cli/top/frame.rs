//! Draws one frame of `weir top`: pure, of two views, what the user chose and the room there is.

use super::rates::{LegRates, Rates};
use crate::{
    cli::format::{count, latency, percent, rate, shorten, span},
    view::{LegView, RouteView, View},
};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::Paragraph,
};

/// What is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screen<'a> {
    /// The newest view.
    pub now: &'a View,
    /// The view that rates and shares are reckoned from.
    pub before: Option<&'a View>,
    /// First line shown.
    pub scroll: usize,
    /// Whether the screen stands still.
    pub paused: bool,
    /// Why there is no newer view, if so.
    pub trouble: Option<&'a str>,
    /// Whether to use colours.
    pub colours: bool,
}

/// A column that a wide enough screen has, behind the bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extra {
    Rate,
    Connect,
    Active,
    P99,
}

impl Extra {
    /// The most wanted one first.
    const ALL: [Self; 4] = [Self::Rate, Self::Connect, Self::Active, Self::P99];

    const fn title(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Connect => "connect",
            Self::Active => "active",
            Self::P99 => "p99",
        }
    }

    /// Columns, the blank before included.
    const fn width(self) -> usize {
        match self {
            Self::Rate => 10,
            Self::Connect | Self::Active | Self::P99 => 8,
        }
    }

    fn value(self, leg: &LegView, rates: &LegRates) -> String {
        let time = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), latency);
        match self {
            Self::Rate => rates.per_second.map_or_else(|| "-".to_owned(), rate),
            Self::Connect => time(rates.connect.p50_seconds),
            Self::Active => count(leg.active),
            Self::P99 => time(rates.connect.p99_seconds),
        }
    }
}

/// The columns for a width of the screen.
#[derive(Clone, Copy, Debug)]
struct Columns {
    label: usize,
    bar: usize,
    extras: &'static [Extra],
}

impl Columns {
    /// The bar is what the screen is for: other columns come only where it stays long enough.
    const LEAST_BAR: usize = 16;

    fn new(width: usize, longest: usize) -> Self {
        let label = longest.clamp(8, (width / 4).max(8));
        let mut room = width.saturating_sub(label + 22);
        let mut extras: &[Extra] = &[];
        for n in 1..=Extra::ALL.len() {
            let extra = Extra::ALL[n - 1].width();
            if room < Self::LEAST_BAR + extra {
                break;
            }
            room -= extra;
            extras = &Extra::ALL[..n];
        }
        Self { label, bar: room, extras }
    }
}

impl Screen<'_> {
    /// Draws the screen, and returns the largest useful `scroll`.
    pub(super) fn draw(&self, frame: &mut Frame<'_>) -> usize {
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(2), Constraint::Min(0), Constraint::Length(1)]).areas(frame.area());
        let rates = Rates::between(self.before, self.now);
        frame.render_widget(Paragraph::new(self.head(&rates, head.width)), head);
        let lines = self.body(&rates, body.width);
        let most = lines.len().saturating_sub(usize::from(body.height));
        let from = self.scroll.min(most);
        let shown: Vec<Line<'_>> = lines.into_iter().skip(from).take(usize::from(body.height)).collect();
        frame.render_widget(Paragraph::new(shown), body);
        frame.render_widget(Paragraph::new(self.foot(most > 0, foot)), foot);
        most
    }

    fn style(&self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    fn dim(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn head(&self, rates: &Rates<'_>, width: u16) -> Vec<Line<'static>> {
        let view = self.now;
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let mut first = vec![Span::styled(format!("weir top  {}", view.node), bold)];
        if self.paused {
            first.push(Span::styled("  PAUSED", self.style(Color::Yellow).add_modifier(Modifier::BOLD)));
        }
        first.push(Span::raw(format!("  state {}", view.generation)));
        if let Some(total) = rates.per_second(None) {
            first.push(Span::raw(format!("  connections {}", rate(total))));
        }
        first.push(Span::raw(format!("  ejections {}", count(view.counters.get("ejected").copied().unwrap_or(0)))));
        let bad = self.style(Color::Red);
        let second = match (self.trouble, view.missing.first(), view.problems.len()) {
            (Some(trouble), _, _) => trouble.to_owned(),
            (None, Some(missing), _) => format!("not ready: {missing}"),
            (None, None, 0) => String::new(),
            (None, None, 1) => "1 problem in the configuration: see weir status".to_owned(),
            (None, None, n) => format!("{n} problems in the configuration: see weir status"),
        };
        let second = Line::styled(shorten(&second, width.into()), bad);
        vec![Line::from(first), second]
    }

    fn foot(&self, scrolls: bool, area: Rect) -> Line<'static> {
        let keys = if scrolls { "q quit  p pause  ↑↓ scroll" } else { "q quit  p pause" };
        let legend = "█ actual share  ┃ wanted share";
        let room = usize::from(area.width);
        let used = keys.chars().count() + legend.chars().count();
        if used + 2 > room {
            return Line::styled(shorten(keys, room), self.dim());
        }
        Line::styled(format!("{keys}{}{legend}", " ".repeat(room - used)), self.dim())
    }

    fn body(&self, rates: &Rates<'_>, width: u16) -> Vec<Line<'static>> {
        let view = self.now;
        if view.routes.is_empty() {
            return vec![Line::raw("no route is in force")];
        }
        let longest = view.routes.iter().flat_map(|r| &r.legs).map(|leg| leg.label.chars().count()).max();
        let columns = Columns::new(width.into(), longest.unwrap_or(0));
        let mut lines = vec![self.titles(columns)];
        for route in &view.routes {
            lines.push(self.route(route, rates, width));
            for leg in &route.legs {
                let rates = rates.leg(&route.name, &leg.label);
                lines.push(self.leg(leg, &rates, columns));
                let trouble = trouble(leg, &rates);
                if !trouble.is_empty() {
                    let text = shorten(&format!("    {trouble}"), width.into());
                    lines.push(Line::styled(text, self.style(Color::Red)));
                }
            }
        }
        lines.extend(self.ejected(width));
        lines
    }

    fn titles(&self, columns: Columns) -> Line<'static> {
        let Columns { label, bar, extras } = columns;
        let mut text = format!("  {:label$} {:>8} {:>8}  {:bar$}", "backendRef", "wanted", "actual", "");
        for extra in extras {
            text += &format!("{:>1$}", extra.title(), extra.width());
        }
        Line::styled(text, self.dim())
    }

    fn route(&self, route: &RouteView, rates: &Rates<'_>, width: u16) -> Line<'static> {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let total = rates.per_second(Some(&route.name)).map_or_else(String::new, |total| format!("  {}", rate(total)));
        let policy = format!("  {}", route.policy);
        let room = usize::from(width).saturating_sub(total.chars().count());
        let name = shorten(&route.name, room);
        let policy = if name.chars().count() + policy.chars().count() > room { String::new() } else { policy };
        Line::from(vec![Span::styled(name, bold), Span::styled(policy, self.dim()), Span::raw(total)])
    }

    fn leg(&self, leg: &LegView, rates: &LegRates, columns: Columns) -> Line<'static> {
        let Columns { label, bar, extras } = columns;
        let mut spans = vec![Span::raw(format!(
            "  {:label$} {:>8} {:>8}  ",
            shorten(&leg.label, label),
            percent(leg.wanted_share),
            rates.share.map_or_else(|| "-".to_owned(), percent)
        ))];
        spans.extend(self.bar(leg, rates.share.unwrap_or(0.0), bar));
        let cells = extras.iter().map(|extra| format!("{:>1$}", extra.value(leg, rates), extra.width()));
        spans.push(Span::raw(cells.collect::<String>()));
        Line::from(spans)
    }

    /// A bar of the actual share with a mark at the wanted one, both on a scale of 0 to 1.
    fn bar(&self, leg: &LegView, share: f64, width: usize) -> Vec<Span<'static>> {
        const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
        if width == 0 {
            return Vec::new();
        }
        let eighths = (share.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
        let mark = ((leg.wanted_share.clamp(0.0, 1.0) * width as f64).round() as usize).min(width - 1);
        let colour = if leg.rejects.is_some() { Color::Red } else { Color::Cyan };
        let cell = |i: usize| match eighths.saturating_sub(i * 8) {
            n @ 0..8 => EIGHTHS[n],
            _ => '█',
        };
        let cells =
            |range: std::ops::Range<usize>| Span::styled(range.map(cell).collect::<String>(), self.style(colour));
        vec![cells(0..mark), Span::styled("┃", self.style(Color::Yellow)), cells(mark + 1..width)]
    }

    fn ejected(&self, width: u16) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for backend in &self.now.backends {
            for endpoint in &backend.endpoints {
                let Some(left) = endpoint.ejected_for_seconds else { continue };
                let left = span(left.ceil() as u64);
                let text = format!("  {} of {} for {left} more", endpoint.address, backend.name);
                lines.push(Line::styled(shorten(&text, width.into()), self.style(Color::Yellow)));
            }
        }
        if !lines.is_empty() {
            lines.insert(0, Line::styled("ejected endpoints", Style::new().add_modifier(Modifier::BOLD)));
        }
        lines
    }
}

/// What goes wrong on a leg now, the worst first.
fn trouble(leg: &LegView, rates: &LegRates) -> String {
    let mut parts = Vec::new();
    if let Some(reason) = &leg.rejects {
        parts.push(format!("rejects: {}", reason.replace('_', " ")));
    } else if rates.rejected > 0.0 {
        parts.push(format!("rejected {}", rate(rates.rejected)));
    }
    parts.extend(rates.failed.iter().map(|(kind, &n)| format!("{} {}", kind.replace('_', " "), rate(n))));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{sample, sample_tls};
    use ratatui::{Terminal, backend::TestBackend};

    fn views() -> (View, View) {
        let published = sample::published();
        let before = View::new(&published, &sample::snapshot());
        let mut later = sample::snapshot();
        later.at_ns += 1_000_000_000;
        for stats in later.legs.values_mut() {
            stats.forwarded += stats.forwarded / 4;
            stats.failed[0] += 2;
        }
        (before, View::new(&published, &later))
    }

    fn draw(screen: Screen<'_>, width: u16, height: u16) -> (String, usize) {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let mut most = 0;
        terminal.draw(|frame| most = screen.draw(frame)).expect("a frame");
        (terminal.backend().to_string(), most)
    }

    fn screen<'a>(before: Option<&'a View>, now: &'a View) -> Screen<'a> {
        Screen { now, before, scroll: 0, paused: false, trouble: None, colours: true }
    }

    #[test]
    fn a_wide_terminal_shows_everything() {
        let (before, now) = views();
        insta::assert_snapshot!(draw(screen(Some(&before), &now), 120, 14).0);
    }

    #[test]
    fn eighty_columns_are_enough() {
        let (before, now) = views();
        insta::assert_snapshot!(draw(screen(Some(&before), &now), 80, 14).0);
    }

    #[test]
    fn a_narrow_terminal_keeps_the_shares() {
        let (before, now) = views();
        insta::assert_snapshot!(draw(Screen { paused: true, ..screen(Some(&before), &now) }, 46, 12).0);
    }

    #[test]
    fn tls_routes_are_shown_as_tcp_routes_are() {
        let view = View::new(&sample_tls::published(), &sample::snapshot());
        let (text, _) = draw(screen(None, &view), 80, 24);
        for wanted in ["TLSRoute shop/blog", "TLSRoute team/api", "shop/web-v2:443"] {
            assert!(text.contains(wanted), "no {wanted} in {text}");
        }
    }

    #[test]
    fn no_size_is_too_small() {
        let (before, now) = views();
        for width in 1..140 {
            for height in [1, 2, 3, 5, 40] {
                draw(screen(Some(&before), &now), width, height);
            }
        }
    }

    #[test]
    fn the_bar_is_as_long_as_the_share_and_marks_the_wanted_one() {
        let (_, now) = views();
        let shown = screen(None, &now);
        let leg = &now.routes[1].legs[0];
        let text: String = shown.bar(leg, 0.5, 20).iter().map(|span| span.content.to_string()).collect();
        assert_eq!(text, "██████████        ┃ ");
        let text: String = shown.bar(leg, 1.0, 20).iter().map(|span| span.content.to_string()).collect();
        assert_eq!(text, "██████████████████┃█");
    }

    #[test]
    fn scrolling_ends_at_the_last_line() {
        let (before, now) = views();
        let (_, most) = draw(screen(Some(&before), &now), 80, 8);
        assert_eq!(most, 8);
        let (text, _) = draw(Screen { scroll: 1_000, ..screen(Some(&before), &now) }, 80, 8);
        assert!(text.contains("10.0.0.12:8080 of shop/web-v1:80"), "{text}");
    }

    #[test]
    fn trouble_stands_before_everything_else() {
        let (before, now) = views();
        let trouble = Some("no agent answers on 127.0.0.1:9754");
        let (text, _) = draw(Screen { trouble, ..screen(Some(&before), &now) }, 80, 8);
        assert!(text.contains("no agent answers on 127.0.0.1:9754"), "{text}");
    }
}
