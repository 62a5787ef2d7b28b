//! The live part of `weir top`: asks the agent, listens to keys, draws.

use super::frame::Screen;
use crate::{admin::client, cli::asking::view, view::View};
use anyhow::{Context, Result};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::{
    collections::VecDeque,
    process::ExitCode,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

/// Shares and rates are reckoned over this long: enough for steady figures, short enough to see a
/// change happen.
const WINDOW_NS: u64 = 10_000_000_000;

/// How often keys are looked for; also the longest that a new view waits to be drawn.
const KEYS: Duration = Duration::from_millis(50);

/// What to do.
pub(super) struct Plan<'a> {
    pub(super) admin: &'a str,
    pub(super) interval: Duration,
    pub(super) limit: Option<Duration>,
    pub(super) colours: bool,
}

enum News {
    View(Box<View>),
    Trouble(String),
    Stop,
}

/// Runs until a key, a signal or the time says stop. The terminal is restored in every case, also
/// in a panic (ratatui's hook).
pub(super) fn run(plan: Plan<'_>, first: View) -> Result<ExitCode> {
    let (sender, news) = channel();
    let admin = plan.admin.to_owned();
    thread::Builder::new().name("ask".to_owned()).spawn(move || ask(&admin, plan.interval, &sender))?;
    let mut terminal = ratatui::try_init().context("the terminal cannot be set up")?;
    let outcome = State::new(first).run(&mut terminal, &plan, &news);
    ratatui::restore();
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Asks the agent again and again until nobody listens or a signal comes.
fn ask(admin: &str, every: Duration, news: &Sender<News>) {
    let trouble = |error: &dyn std::fmt::Display| News::Trouble(error.to_string());
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        // Nobody listens any more if this cannot be told.
        Err(error) => return drop(news.send(trouble(&error))),
    };
    let asking = async {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let answer = client::get(admin, "/status").await;
            let next = match answer {
                Ok(page) => view(admin, &page).map_or_else(|error| trouble(&error), |view| News::View(Box::new(view))),
                Err(error) => trouble(&error),
            };
            if news.send(next).is_err() {
                return;
            }
        }
    };
    let stopped = async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok::<(), std::io::Error>(())
    };
    runtime.block_on(async {
        tokio::select! {
            () = asking => {}
            stopped = stopped => {
                let last = stopped.map_or_else(|error| trouble(&error), |()| News::Stop);
                drop(news.send(last));
            }
        }
    });
}

struct State {
    /// Views of the window, the newest at the end; never empty.
    views: VecDeque<View>,
    now: View,
    scroll: usize,
    paused: bool,
    trouble: Option<String>,
}

enum Step {
    Nothing,
    Draw,
    Stop,
}

impl State {
    fn new(first: View) -> Self {
        Self { views: VecDeque::new(), now: first, scroll: 0, paused: false, trouble: None }
    }

    fn run(mut self, terminal: &mut ratatui::DefaultTerminal, plan: &Plan<'_>, news: &Receiver<News>) -> Result<()> {
        let end = plan.limit.map(|limit| Instant::now() + limit);
        let mut most = 0;
        let mut step = Step::Draw;
        loop {
            match step {
                Step::Nothing => {}
                Step::Draw => {
                    terminal.draw(|frame| most = self.screen(plan.colours).draw(frame))?;
                    self.scroll = self.scroll.min(most);
                }
                Step::Stop => return Ok(()),
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(());
            }
            step = Step::Nothing;
            if event::poll(KEYS)? {
                step = self.event(&event::read()?);
            }
            while let Ok(next) = news.try_recv() {
                step = match (step, self.take(next)) {
                    (Step::Stop, _) | (_, Step::Stop) => Step::Stop,
                    (Step::Draw, _) | (_, Step::Draw) => Step::Draw,
                    (Step::Nothing, Step::Nothing) => Step::Nothing,
                };
            }
        }
    }

    fn screen(&self, colours: bool) -> Screen<'_> {
        Screen {
            now: &self.now,
            before: self.views.front(),
            scroll: self.scroll,
            paused: self.paused,
            trouble: self.trouble.as_deref(),
            colours,
        }
    }

    fn event(&mut self, event: &Event) -> Step {
        if let Event::Key(key) = event
            && key.kind == KeyEventKind::Press
        {
            return self.key(*key);
        }
        if matches!(event, Event::Resize(_, _)) { Step::Draw } else { Step::Nothing }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "all other keys of a keyboard mean nothing here")]
    fn key(&mut self, key: KeyEvent) -> Step {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Step::Stop,
            KeyCode::Char('c') if control => return Step::Stop,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down => self.scroll += 1,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::PageDown => self.scroll += 10,
            _ => return Step::Nothing,
        }
        Step::Draw
    }

    fn take(&mut self, news: News) -> Step {
        match news {
            News::Stop => return Step::Stop,
            News::Trouble(trouble) => self.trouble = Some(trouble),
            News::View(_) if self.paused => return Step::Nothing,
            News::View(view) => {
                self.trouble = None;
                self.advance(*view);
            }
        }
        Step::Draw
    }

    /// Takes a view. What was counted under other weights is left out, so that the bars follow a
    /// change at once.
    fn advance(&mut self, view: View) {
        let changed = weights(&view) != weights(&self.now) || view.started_at != self.now.started_at;
        let old = std::mem::replace(&mut self.now, view);
        if changed {
            // Nobody knows what of the last interval was under which weights: begin with the view itself.
            self.views.clear();
            self.views.push_back(self.now.clone());
            return;
        }
        if self.views.back().is_none_or(|last| last.read_at_ns < old.read_at_ns) {
            self.views.push_back(old);
        }
        let from = self.now.read_at_ns.saturating_sub(WINDOW_NS);
        while self.views.len() > 1 && self.views.front().is_some_and(|view| view.read_at_ns < from) {
            self.views.pop_front();
        }
    }
}

/// Every leg and its weight.
fn weights(view: &View) -> Vec<(&str, &str, u32)> {
    let legs = view.routes.iter().flat_map(|route| route.legs.iter().map(move |leg| (route, leg)));
    legs.map(|(route, leg)| (route.name.as_str(), leg.label.as_str(), leg.weight)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::sample;

    fn at(seconds: u64) -> View {
        let mut snapshot = sample::snapshot();
        snapshot.at_ns = seconds * 1_000_000_000;
        View::new(&sample::published(), &snapshot)
    }

    fn before(state: &State) -> Option<u64> {
        state.screen(false).before.map(|view| view.read_at_ns / 1_000_000_000)
    }

    #[test]
    fn rates_are_reckoned_over_the_last_ten_seconds() {
        let mut state = State::new(at(1));
        assert_eq!(before(&state), None);
        for (second, from) in [(2, 1), (11, 1), (12, 2), (40, 12)] {
            state.advance(at(second));
            assert_eq!(before(&state), Some(from), "at {second}");
        }
    }

    #[test]
    fn a_changed_weight_begins_a_new_window() {
        let mut state = State::new(at(1));
        state.advance(at(2));
        let mut changed = at(3);
        changed.routes[0].legs[0].weight += 1;
        state.advance(changed.clone());
        assert_eq!(before(&state), Some(3));
        changed.read_at_ns += 1_000_000_000;
        state.advance(changed);
        assert_eq!(before(&state), Some(3));
    }

    #[test]
    fn a_paused_screen_stands_still_and_a_stop_ends_it_all_the_same() {
        let mut state = State::new(at(1));
        let key = |code| Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
        assert!(matches!(state.event(&key(KeyCode::Char('p'))), Step::Draw));
        assert!(matches!(state.take(News::View(Box::new(at(2)))), Step::Nothing));
        assert_eq!(state.now, at(1));
        assert!(matches!(state.take(News::Stop), Step::Stop));
    }

    #[test]
    fn q_escape_and_control_c_end_it() {
        let mut state = State::new(at(1));
        let keys = [
            KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE),
            KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE),
            KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
        ];
        for key in keys {
            assert!(matches!(state.event(&Event::Key(key)), Step::Stop), "{key:?}");
        }
        let other = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::NONE);
        assert!(matches!(state.event(&Event::Key(other)), Step::Nothing));
    }

    #[test]
    fn while_the_agent_is_away_the_last_view_stays_with_a_word() {
        let mut state = State::new(at(1));
        state.take(News::Trouble("no agent answers".to_owned()));
        assert_eq!(state.screen(false).trouble, Some("no agent answers"));
        state.take(News::View(Box::new(at(2))));
        assert_eq!(state.screen(false).trouble, None);
    }
}
