//! The program's state and its frame: first *logic* (take news, apply commands), then *ui* (paint what is there now).

use std::path::PathBuf;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use vramscope_model::{BlockId, LaneId, Metric, Position, Snapshot};
use vramscope_trace::Problem;

use crate::axis::{Axis, AxisKind, Span};
use crate::command::{Command, Commands};
use crate::ctx::{ColorBy, Ctx, Revision, Shown};
use crate::demos::DEMOS;
use crate::first_view::first_view;
use crate::jobs::{Jobs, Latest, Wake};
use crate::playback::{Pace, Playback};
use crate::raster::Offscreen;
use crate::session::{Run, RunState, Session};
use crate::theme::Theme;
use crate::views::map::MapWork;
use crate::views::start::{Preview, StartPage, StartView};
use crate::views::status::StatusLine;
use crate::views::top::{RunEntry, TopBar};
use crate::views::workspace::{Part, Workspace};
use crate::views::{help, loading, start};
use crate::{keys, preview, ranks};

/// Threads for slow questions.
const JOB_THREADS: usize = 2;

/// The program.
pub struct App {
    pub(crate) wake: Wake,
    pub(crate) jobs: Jobs,
    pub(crate) commands: Commands,
    pub(crate) session: Session,
    pub(crate) state: State,
    pub(crate) answers: (Sender<DialogAnswer>, Receiver<DialogAnswer>),
    current: Option<Current>,
    previews: [Latest<(), Preview>; DEMOS.len()],
    start: StartView,
    workspace: Workspace,
    quit_when_ready: bool,
}

/// What a file dialog brought: paths, or a sentence about why there was no dialog.
pub(crate) type DialogAnswer = Result<Vec<PathBuf>, String>;

/// What commands change.
#[derive(Default)]
pub struct State {
    /// The recording that is shown, by index.
    pub run: usize,
    /// How each recording is looked at.
    pub looks: Vec<Look>,
    /// What the axis should count.
    pub axis: AxisKind,
    /// Lines of the timeline.
    pub shown: Shown,
    /// The device's capacity in bytes.
    pub capacity: Option<u64>,
    /// What the colours of blocks tell.
    pub color_by: ColorBy,
    /// Whether and how fast the cursor moves by itself.
    pub playback: Playback,
    /// Whether somebody chose its pace; until then it is the one that suits the recording.
    pub pace_chosen: bool,
    /// The block under the pointer.
    pub hovered: Option<BlockId>,
    /// Whether the list of keys is open.
    pub help: bool,
    /// Whether the list of problems is open.
    pub problems: bool,
    /// Why something could not be opened.
    pub notice: Option<String>,
}

/// How one recording is looked at.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// The lane; `None` = the one that reserved most.
    pub lane: Option<LaneId>,
    /// The cursor; `None` = at the peak.
    pub cursor: Option<Position>,
    /// The part of the axis.
    pub view: View,
    /// The measured range.
    pub measured: Option<(Position, Position)>,
    /// The chosen block.
    pub selected: Option<BlockId>,
}

/// Which part of the axis is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum View {
    /// What is shown first: all but idle ends.
    #[default]
    First,
    /// All of it, also while it grows.
    All,
    /// A part of it.
    Part(Span),
}

/// What was worked out for the recording and the cursor that are shown.
pub(crate) struct Current {
    revision: Revision,
    wanted: AxisKind,
    pub(crate) lane: LaneId,
    pub(crate) cursor: Position,
    pub(crate) axis: Axis,
    pub(crate) span: Span,
    first: Span,
    snapshot: Arc<Snapshot>,
    problems: Vec<Problem>,
}

impl App {
    /// The program with nothing open, painting into windows of that context.
    pub fn new(ctx: &egui::Context) -> Self {
        let window = ctx.clone();
        Self::woken_by(ctx, Arc::new(move || window.request_repaint()))
    }

    /// The same, with news told through `wake`, which other threads may hold already.
    pub fn woken_by(ctx: &egui::Context, wake: Wake) -> Self {
        crate::theme::install(ctx);
        Self {
            jobs: Jobs::new(JOB_THREADS, Arc::clone(&wake)),
            wake,
            commands: Commands::default(),
            session: Session::default(),
            state: State::default(),
            answers: unbounded(),
            current: None,
            previews: Default::default(),
            start: StartView::default(),
            workspace: Workspace::default(),
            quit_when_ready: false,
        }
    }

    /// Where wishes can be left from outside, for instance by the command line.
    pub fn commands(&self) -> &Commands {
        &self.commands
    }

    /// What commands have changed so far.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The open recordings.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Puts these recordings in place of what is open.
    pub fn show_session(&mut self, session: Session) {
        self.state.looks = vec![Look::default(); session.runs().len()];
        self.state.run = 0;
        self.state.notice = None;
        self.state.hovered = None;
        self.state.playback.playing = false;
        self.current = None;
        self.session = session;
    }

    /// Whether anything is still being read or worked out.
    pub fn busy(&self) -> bool {
        self.session.is_loading() || self.jobs.busy() || !self.commands.is_empty()
    }

    /// Whether the window closes by itself once it has painted everything there is to read.
    pub fn quit_when_ready(&mut self, quit: bool) {
        self.quit_when_ready = quit;
    }

    /// Paints the screen without a window, when everything in it has been worked out.
    pub fn picture(&mut self, screen: &mut Offscreen) -> egui::ColorImage {
        screen.picture(|ui| self.frame(ui))
    }

    /// Works everything out that the screen shows, without painting it.
    pub fn settle(&mut self, screen: &mut Offscreen) {
        screen.settle(|ui| self.frame(ui));
    }

    /// One frame without a window. True while more is to come.
    fn frame(&mut self, ui: &mut egui::Ui) -> bool {
        let ctx = ui.ctx().clone();
        self.logic(&ctx);
        self.ui(ui);
        self.busy()
    }

    /// Where a part of the screen lies, in points; `None` while it is not shown.
    pub fn area(&self, part: Part) -> Option<egui::Rect> {
        self.workspace.area(part)
    }

    /// What the block map has worked out so far. Exact, for tests.
    pub fn map_work(&self) -> MapWork {
        self.workspace.map_work()
    }

    /// How often the side panel's answers were worked out. Exact, for tests.
    pub fn side_work(&self) -> u64 {
        self.workspace.side_work()
    }

    /// Tells this program's window that there is news.
    pub fn wake(&self) -> &Wake {
        &self.wake
    }

    /// The cursor of the recording that is shown.
    pub fn cursor(&self) -> Option<Position> {
        self.current.as_ref().map(|current| current.cursor)
    }

    /// The part of the axis that is shown, and what it counts.
    pub fn span(&self) -> Option<(Span, AxisKind)> {
        self.current.as_ref().map(|current| (current.span, current.axis.kind()))
    }

    /// Everything before painting: news from other threads, keys, dropped files, commands.
    pub fn logic(&mut self, ctx: &egui::Context) {
        let dropped: Vec<PathBuf> =
            ctx.input(|input| input.raw.dropped_files.iter().map(|file| file.path().to_owned()).collect());
        if !dropped.is_empty() {
            self.commands.send(Command::Open(dropped));
        }
        while let Ok(answer) = self.answers.1.try_recv() {
            match answer {
                Ok(paths) => self.commands.send(Command::Open(paths)),
                Err(sentence) => self.state.notice = Some(sentence),
            }
        }
        let page = match (&self.current, self.session.is_empty()) {
            (Some(_), _) => keys::Page::Recording,
            (None, true) => keys::Page::Start,
            (None, false) => keys::Page::Loading,
        };
        keys::read(ctx, page, &self.commands);
        self.session.poll();
        self.refresh();
        for command in self.commands.take() {
            self.apply(ctx, command);
            self.refresh();
        }
        self.play(ctx);
    }

    /// Moves the cursor on while the recording plays. The clock is the input's, so whoever feeds the input sets it.
    fn play(&mut self, ctx: &egui::Context) {
        let (Some(current), Some(run)) = (&self.current, self.session.runs().get(self.state.run)) else { return };
        let now = ctx.input(|input| input.time);
        if let Some(position) = self.state.playback.tick(now, &run.history, current.cursor) {
            self.apply(ctx, Command::MoveCursor(position));
            self.refresh();
        }
        if self.state.playback.playing {
            ctx.request_repaint();
        }
    }

    /// Paints the screen into the whole of `ui`.
    pub fn ui(&mut self, ui: &mut egui::Ui) {
        let theme = Theme::of(ui.ctx());
        match self.session.runs().get(self.state.run) {
            None => self.start_page(ui, theme),
            Some(run) if self.current.is_none() => {
                let failed = match &run.state {
                    RunState::Failed(sentence) => Some(sentence.as_str()),
                    RunState::Ready => Some("has no events and no memory in it, so there is nothing to show"),
                    RunState::Loading => None,
                };
                let (label, progress) = (run.label.as_str(), run.progress.get());
                loading::show(ui, &loading::LoadingPage { theme, label, progress, failed, commands: &self.commands });
            }
            Some(_) => self.workspace(ui, theme),
        }
        if self.state.help {
            help::show(ui, theme, &self.commands);
        }
        if ui.input(|input| !input.raw.hovered_files.is_empty()) {
            start::drop_hint(ui, theme);
        }
        if !self.commands.is_empty() {
            ui.ctx().request_repaint();
        }
    }

    fn start_page(&mut self, ui: &mut egui::Ui, theme: &'static Theme) {
        let Self { previews, jobs, start, .. } = self;
        let mut demos = DEMOS.iter();
        let previews = previews.each_mut().map(|latest| {
            let demo = demos.next()?;
            latest.get(jobs, &(), move || preview::of(demo)).map(|(_, preview)| preview)
        });
        let page = StartPage { theme, previews, notice: self.state.notice.as_deref(), commands: &self.commands };
        start.show(ui, &page);
    }

    fn workspace(&mut self, ui: &mut egui::Ui, theme: &'static Theme) {
        let (Some(current), Some(run)) = (&self.current, self.session.runs().get(self.state.run)) else { return };
        let look = self.state.looks.get(self.state.run).cloned().unwrap_or_default();
        let ctx = Ctx {
            theme,
            history: &run.history,
            revision: run.revision,
            lane: current.lane,
            axis: &current.axis,
            span: current.span,
            cursor: current.cursor,
            snapshot: &current.snapshot,
            measured: look.measured,
            hovered: self.state.hovered,
            selected: look.selected,
            capacity: self.state.capacity,
            shown: self.state.shown,
            color_by: self.state.color_by,
            playback: self.state.playback,
            jobs: &self.jobs,
            commands: &self.commands,
        };
        let bar = TopBar {
            runs: entries(self.session.runs()),
            run: self.state.run,
            origin: &run.origin,
            loading: (run.state == RunState::Loading).then(|| run.progress.get()),
            failed: match &run.state {
                RunState::Failed(sentence) => Some(sentence),
                RunState::Loading | RunState::Ready => None,
            },
        };
        let status =
            StatusLine { problems: &current.problems, open: self.state.problems, notice: self.state.notice.as_deref() };
        self.workspace.show(ui, &ctx, &bar, &status);
    }

    /// Brings [`Current`] up to date with the recording, the look at it and the axis that is wanted.
    fn refresh(&mut self) {
        let run = self.session.runs().get(self.state.run);
        let Some((run, lane)) = run.and_then(|run| Some((run, main_lane(run)?))) else {
            self.current = None;
            return;
        };
        let look = self.state.looks.get(self.state.run).cloned().unwrap_or_default();
        let lane = look.lane.unwrap_or(lane);
        let peak = || run.history.peak(lane, Metric::Allocated).map(|peak| peak.at);
        let cursor = look.cursor.or_else(peak).unwrap_or(run.history.end());
        let cursor = cursor.clamp(run.history.recording_start(), run.history.end());
        let old = self.current.take();
        let same = |old: &Current| old.revision == run.revision;
        let fresh = !old.as_ref().is_some_and(same);
        let axis = match &old {
            Some(old) if same(old) && old.wanted == self.state.axis => old.axis.clone(),
            _ => Axis::new(&run.history, self.state.axis),
        };
        let snapshot = match &old {
            Some(old) if same(old) && old.cursor == cursor => Arc::clone(&old.snapshot),
            _ => Arc::new(run.history.snapshot_at(cursor)),
        };
        let first = match &old {
            Some(old) if same(old) && old.lane == lane && old.wanted == self.state.axis => old.first,
            _ => first_view(&run.history, &axis, lane),
        };
        let problems = match old {
            Some(old) if same(&old) => old.problems,
            _ => run.history.problems(),
        };
        let span = match look.view {
            View::First => first,
            View::All => axis.all(),
            View::Part(span) => span.within(axis.all(), axis.shortest()),
        };
        let (revision, wanted) = (run.revision, self.state.axis);
        if fresh && !self.state.pace_chosen && !self.state.playback.playing {
            self.state.playback.set_pace(Pace::suited_to(&run.history));
        }
        self.current = Some(Current { revision, wanted, lane, cursor, axis, span, first, snapshot, problems });
    }

    pub(crate) fn current(&self) -> Option<&Current> {
        self.current.as_ref()
    }
}

/// What the list of recordings shows of each. Only what has been read to its end can differ from the others.
fn entries(runs: &[Run]) -> Vec<RunEntry<'_>> {
    // What could not be read has no peak to compare.
    let read = |run: &Run| !matches!(run.state, RunState::Failed(_)) || run.peak() > 0;
    let done = runs.iter().all(|run| run.state != RunState::Loading);
    let peaks: Vec<u64> = runs.iter().filter(|run| done && read(run)).map(Run::peak).collect();
    let mut odd = ranks::odd(&peaks).into_iter();
    let entry = |run| {
        let failed = !read(run);
        RunEntry { label: &run.label, peak: run.peak(), odd: done && !failed && odd.next().unwrap_or(false), failed }
    };
    runs.iter().map(entry).collect()
}

/// The lane that reserved most; `None` while there is none.
fn main_lane(run: &Run) -> Option<LaneId> {
    let peak = |lane: LaneId| run.history.peak(lane, Metric::Reserved).map_or(0, |peak| peak.bytes);
    let lanes = run.history.lanes().iter().map(|lane| lane.id);
    lanes.max_by_key(|&lane| (peak(lane), std::cmp::Reverse(lane)))
}

impl eframe::App for App {
    fn logic(&mut self, ctx: &egui::Context, _frame: &mut eframe::Frame) {
        Self::logic(self, ctx);
    }

    fn ui(&mut self, ui: &mut egui::Ui, _frame: &mut eframe::Frame) {
        Self::ui(self, ui);
        // An answer that came after it was asked for in this frame is not in the picture yet, but has asked for another.
        if self.quit_when_ready && !self.busy() && !ui.ctx().has_requested_repaint() {
            ui.ctx().send_viewport_cmd(egui::ViewportCommand::Close);
        }
    }
}
