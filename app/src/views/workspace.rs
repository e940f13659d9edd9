//! How the views of a recording are arranged: bar, overview, timeline, map, with the side panel and the status line.

use egui::{Frame, Panel, Rect, Ui};
use vramscope_trace::Problem;

use super::overview::{self, OverviewView};
use super::status;
use super::timeline::TimelineView;
use super::top::{self, TopBar};
use crate::ctx::Ctx;
use crate::theme::UNIT;

/// Width of the side panel in points.
const SIDE: f32 = 76.0 * UNIT;

/// A part of the screen that can be painted alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The timeline.
    Timeline,
}

/// The views with what they remember between frames.
#[derive(Default)]
pub struct Workspace {
    overview: OverviewView,
    timeline: TimelineView,
    timeline_area: Option<Rect>,
}

impl Workspace {
    /// Where a part lies, in points; `None` before it was painted.
    pub fn area(&self, part: Part) -> Option<Rect> {
        match part {
            Part::Timeline => self.timeline_area,
        }
    }

    /// Paints all views into the whole of `ui`.
    pub fn show(&mut self, ui: &mut Ui, ctx: &Ctx<'_>, bar: &TopBar<'_>, problems: &[Problem], problems_open: bool) {
        let bare = || Frame::new().fill(ctx.theme.panel);
        let timeline_height = (ui.max_rect().height() * 0.42).round();
        Panel::top("top").exact_size(top::HEIGHT).frame(bare()).resizable(false).show(ui, |ui| top::show(ui, ctx, bar));
        Panel::bottom("status").exact_size(status::HEIGHT).frame(bare()).resizable(false).show(ui, |ui| {
            status::show(ui, ctx, problems, problems_open);
        });
        Panel::right("side").default_size(SIDE).size_range(60.0 * UNIT..=160.0 * UNIT).frame(bare()).show(ui, |_| ());
        Panel::top("overview").exact_size(overview::HEIGHT).frame(bare()).resizable(false).show(ui, |ui| {
            self.overview.show(ui, ctx);
        });
        Panel::top("timeline").default_size(timeline_height).min_size(40.0 * UNIT).frame(bare()).resizable(true).show(
            ui,
            |ui| {
                self.timeline_area = Some(ui.max_rect());
                self.timeline.show(ui, ctx);
                ui.allocate_rect(ui.max_rect(), egui::Sense::hover());
            },
        );
    }
}
