//! How the views of a recording are arranged: bar, overview, timeline, map, with the side panel and the status line.

use egui::{Frame, Panel, Rect, Ui, UiBuilder};

use super::map::{MapView, MapWork};
use super::overview::{self, OverviewView};
use super::side::SideView;
use super::status::{self, StatusLine};
use super::timeline::TimelineView;
use super::top::{self, TopBar};
use crate::ctx::Ctx;
use crate::sites::Sites;
use crate::theme::UNIT;

/// Width of the side panel in points.
const SIDE: f32 = 76.0 * UNIT;

/// A part of the screen that can be painted alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The timeline.
    Timeline,
    /// The block map.
    Map,
}

/// The views with what they remember between frames.
#[derive(Default)]
pub struct Workspace {
    overview: OverviewView,
    timeline: TimelineView,
    timeline_area: Option<Rect>,
    map: MapView,
    map_area: Option<Rect>,
    side: SideView,
    sites: Sites,
}

impl Workspace {
    /// Where a part lies, in points; `None` before it was painted.
    pub fn area(&self, part: Part) -> Option<Rect> {
        match part {
            Part::Timeline => self.timeline_area,
            Part::Map => self.map_area,
        }
    }

    /// What the block map has worked out so far.
    pub(crate) fn map_work(&self) -> MapWork {
        self.map.work()
    }

    /// How often the side panel's answers were worked out.
    pub(crate) fn side_work(&self) -> u64 {
        self.side.worked()
    }

    /// Paints all views into the whole of `ui`.
    pub fn show(&mut self, ui: &mut Ui, ctx: &Ctx<'_>, bar: &TopBar<'_>, line: &StatusLine<'_>) {
        self.sites.prepare(ctx.history, ctx.revision, ctx.lane);
        let bare = || Frame::new().fill(ctx.theme.panel);
        let side = SIDE.min(ui.max_rect().width() * 0.3).round();
        let timeline_height = (ui.max_rect().height() * 0.34).round();
        Panel::top("top").exact_size(top::HEIGHT).frame(bare()).resizable(false).show(ui, |ui| top::show(ui, ctx, bar));
        Panel::bottom("status").exact_size(status::HEIGHT).frame(bare()).resizable(false).show(ui, |ui| {
            status::show(ui, ctx, line);
        });
        Panel::right("side").default_size(side).size_range(48.0 * UNIT..=160.0 * UNIT).frame(bare()).show(ui, |ui| {
            self.side.show(ui, ctx, &mut self.sites);
        });
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
        let rest = ui.available_rect_before_wrap();
        self.map_area = Some(rest);
        ui.scope_builder(UiBuilder::new().max_rect(rest), |ui| self.map.show(ui, ctx, &mut self.sites));
    }
}
