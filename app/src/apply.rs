//! The one place where commands change the program's state.

use std::path::PathBuf;

use egui::Context;
use vramscope_model::{Metric, Position};

use crate::app::{App, DialogAnswer, Look, View};
use crate::axis::{AxisKind, Span};
use crate::command::Command;
use crate::demos;
use crate::session::Session;

/// A dialog that is gone sooner than this was never seen: there is none on this machine.
const NEVER_SEEN: std::time::Duration = std::time::Duration::from_millis(300);

impl App {
    /// Carries out one command.
    pub(crate) fn apply(&mut self, ctx: &Context, command: Command) {
        match command {
            Command::ChooseFiles => self.ask(|| rfd::FileDialog::new().set_title("Open a recording").pick_files()),
            Command::ChooseFolder => self.ask(|| rfd::FileDialog::new().set_title("Open a folder").pick_folders()),
            Command::Open(paths) => self.open(&paths),
            Command::OpenDemo(name) => match demos::find(name) {
                Ok(demo) => self.show_session(Session::open_demo(demo, &self.wake)),
                Err(sentence) => self.state.notice = Some(sentence),
            },
            Command::CancelLoading | Command::ShowStart => self.show_session(Session::default()),
            Command::ShowRun(run) => self.state.run = run.min(self.session.runs().len().saturating_sub(1)),
            Command::ShowLane(lane) => {
                self.look(|look| *look = Look { lane: Some(lane), ..Look::default() });
            }
            Command::ToggleMetric(metric) => self.state.shown = self.state.shown.toggled(metric),
            Command::SetCapacity(capacity) => self.state.capacity = capacity,
            Command::HoverBlock(block) => self.state.hovered = block,
            Command::SelectBlock(block) => self.look(|look| look.selected = block),
            Command::ColorBlocks(by) => self.state.color_by = by,
            Command::TogglePlay => self.toggle_play(),
            Command::SetPace(pace) => {
                self.state.playback.set_pace(pace);
                self.state.pace_chosen = true;
            }
            Command::Measure(range) => self.look(|look| look.measured = range),
            Command::ToggleTheme => {
                let dark = ctx.theme() == egui::Theme::Dark;
                ctx.set_theme(if dark { egui::Theme::Light } else { egui::Theme::Dark });
            }
            Command::ToggleHelp => self.state.help = !self.state.help,
            Command::ToggleProblems => self.state.problems = !self.state.problems,
            Command::Dismiss => self.dismiss(),
            Command::NextRun(by) => {
                let last = self.session.runs().len().saturating_sub(1);
                self.state.run = self.state.run.saturating_add_signed(by).min(last);
            }
            Command::MoveCursor(_)
            | Command::StepCursor(_)
            | Command::JumpToPeak
            | Command::JumpToStart
            | Command::JumpToEnd => self.move_cursor(&command),
            Command::ShowSpan(_) | Command::Zoom(_) | Command::Pan(_) | Command::ShowAll => self.move_span(&command),
            Command::SetAxis(kind) => self.set_axis(kind),
            Command::ToggleAxis => self.set_axis(match self.state.axis {
                AxisKind::Time => AxisKind::Events,
                AxisKind::Events => AxisKind::Time,
            }),
        }
    }

    fn open(&mut self, paths: &[PathBuf]) {
        match Session::open(paths, &self.wake) {
            Ok(session) => self.show_session(session),
            Err(sentence) => self.state.notice = Some(sentence),
        }
    }

    /// Asks for paths in a dialog of the system, on a thread of its own: it blocks until it is answered.
    fn ask(&self, dialog: impl FnOnce() -> Option<Vec<PathBuf>> + Send + 'static) {
        let (sender, wake) = (self.answers.0.clone(), std::sync::Arc::clone(&self.wake));
        std::thread::spawn(move || {
            let start = std::time::Instant::now();
            let answer: DialogAnswer = match dialog() {
                Some(paths) => Ok(paths),
                None if start.elapsed() < NEVER_SEEN => Err("There is no file dialog on this system: type the path, \
                                                             or drop the file on this window."
                    .to_owned()),
                None => return,
            };
            // The window may be gone by now; then nobody waits for the answer.
            let _ = sender.send(answer);
            wake();
        });
    }

    fn look(&mut self, change: impl FnOnce(&mut Look)) {
        if let Some(look) = self.state.looks.get_mut(self.state.run) {
            change(look);
        }
    }

    fn dismiss(&mut self) {
        if self.state.help {
            self.state.help = false;
        } else if self.state.problems {
            self.state.problems = false;
        } else if self.current().is_none() && !self.session().is_empty() {
            // Loading, or a page that says why nothing can be shown: the way back is the start page.
            self.show_session(Session::default());
        } else if self.state.notice.take().is_none() {
            self.look(|look| {
                if look.measured.take().is_none() {
                    look.selected = None;
                }
            });
        }
    }

    /// Plays or pauses; from the end, playback begins again.
    fn toggle_play(&mut self) {
        self.state.playback.toggle();
        let end = self.session().runs().get(self.state.run).map(|run| run.history.end());
        if self.state.playback.playing && self.cursor() == end {
            self.move_cursor(&Command::JumpToStart);
        }
    }

    fn move_cursor(&mut self, command: &Command) {
        let Some((current, run)) = self.current().zip(self.session().runs().get(self.state.run)) else { return };
        let history = &run.history;
        let (start, end) = (history.recording_start(), history.end());
        let wish = match *command {
            Command::MoveCursor(position) => position,
            Command::StepCursor(by) => {
                let place = i64::from(current.cursor.0).saturating_add(by);
                Position(place.clamp(0, i64::from(u32::MAX)) as u32)
            }
            Command::JumpToPeak => history.peak(current.lane, Metric::Allocated).map_or(end, |peak| peak.at),
            Command::JumpToStart => start,
            _ => end,
        };
        let cursor = wish.clamp(start, end);
        // Where keys led the cursor out of sight, what is shown follows.
        let place = current.axis.place_of(cursor);
        let span = current.span;
        let follow = (place < span.low || place > span.high).then(|| span.moved(span.part_of(place) - 0.5));
        self.look(|look| {
            look.cursor = Some(cursor);
            look.view = follow.map_or(look.view, View::Part);
        });
    }

    fn move_span(&mut self, command: &Command) {
        let Some(current) = self.current() else { return };
        let (span, all, shortest) = (current.span, current.axis.all(), current.axis.shortest());
        let wish = match *command {
            Command::ShowSpan(wish) => wish,
            Command::Zoom(factor) => {
                let cursor = current.axis.place_of(current.cursor);
                let seen = (span.low..=span.high).contains(&cursor);
                span.zoomed(factor, if seen { cursor } else { span.at(0.5) })
            }
            Command::Pan(part) => span.moved(part),
            _ => all,
        };
        let span = wish.within(all, shortest);
        self.look(|look| look.view = if span == all { View::All } else { View::Part(span) });
    }

    /// Changes what the axis counts; the same events stay in view.
    fn set_axis(&mut self, kind: AxisKind) {
        self.state.axis = kind;
        let Some((current, run)) = self.current().zip(self.session().runs().get(self.state.run)) else { return };
        let old = &current.axis;
        let axis = crate::axis::Axis::new(&run.history, kind);
        let view = self.state.looks.get(self.state.run).map_or(View::First, |look| look.view);
        if axis.kind() == old.kind() || !matches!(view, View::Part(_)) {
            return;
        }
        let end = |place: f64| axis.place_of(old.position_at(place));
        let span = Span { low: end(current.span.low), high: end(current.span.high) };
        let span = span.within(axis.all(), axis.shortest());
        for look in &mut self.state.looks {
            look.view = View::First;
        }
        self.look(|look| look.view = View::Part(span));
    }
}
