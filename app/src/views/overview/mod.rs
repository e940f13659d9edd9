//! The overview strip: the whole recording in small, with the part that the timeline shows as a brush.

mod brush;

use egui::epaint::{Mesh, Shape};
use egui::{CornerRadius, Rect, Role, Sense, Stroke, StrokeKind, Ui, WidgetInfo, pos2};
use vramscope_model::{Column, LaneId, Metric};

use super::timeline::{GUTTER, MARGIN, edges};
use crate::axis::AxisKind;
use crate::ctx::{Ctx, Revision, metric_color};
use crate::theme::{SMALL, UNIT, font, mix};
use crate::widgets::controls;
use crate::widgets::steps::{StepArea, StepStyle, add};

/// Height of the strip in points.
pub const HEIGHT: f32 = 14.0 * UNIT;

/// What the strip remembers between frames.
#[derive(Default)]
pub struct OverviewView {
    known: Option<(Key, Picture)>,
    brush: brush::Brush,
}

#[derive(Clone, Copy, PartialEq)]
struct Key {
    revision: Revision,
    lane: LaneId,
    axis: AxisKind,
    columns: usize,
}

struct Picture {
    /// Reserved and allocated.
    columns: [Vec<Column>; 2],
    /// Places of allocations that failed.
    ooms: Vec<f64>,
}

const METRICS: [Metric; 2] = [Metric::Reserved, Metric::Allocated];

impl OverviewView {
    /// Paints the strip into the whole of `ui`.
    pub fn show(&mut self, ui: &mut Ui, ctx: &Ctx<'_>) {
        let (all, theme) = (ui.max_rect(), ctx.theme);
        ui.painter().rect_filled(all, 0.0, theme.panel);
        let low = pos2(all.left() + GUTTER, all.top() + 2.0 * UNIT);
        let strip = Rect::from_min_max(low, pos2(all.right() - MARGIN, all.bottom() - 2.0 * UNIT));
        let label = pos2(all.left() + 3.0 * UNIT, strip.center().y);
        ui.painter().text(label, egui::Align2::LEFT_CENTER, "Overview", font(SMALL), theme.faint);
        if ctx.history.end() == vramscope_model::Position::START || strip.width() < 1.0 {
            return;
        }
        let pixels_per_point = ui.pixels_per_point();
        ui.painter().rect_filled(strip, CornerRadius::same(2), theme.canvas);
        let peak = |metric| ctx.history.peak(ctx.lane, metric).map_or(1, |peak| peak.bytes.max(1));
        let peak = METRICS.into_iter().map(peak).fold(1, u64::max);
        let area = StepArea { rect: strip, top: peak as f64 * 1.08, pixels_per_point };
        let picture = self.picture(ctx, (strip.width() * pixels_per_point).round() as usize);
        let mut mesh = Mesh::default();
        for (columns, (metric, opacity)) in picture.columns.iter().zip(METRICS.into_iter().zip([0.45, 0.85])) {
            let fill = mix(theme.canvas, metric_color(theme, metric), opacity);
            add(&mut mesh, &area, columns, StepStyle { fill: Some(fill), edge: Some((fill, fill)) });
        }
        let all = ctx.axis.all();
        let x = |place: f64| (f64::from(strip.left()) + all.part_of(place) * f64::from(strip.width())) as f32;
        ui.painter().add(Shape::mesh(mesh));
        for &place in &picture.ooms {
            let x = ui.painter().round_to_pixel_center(x(place));
            ui.painter().vline(x, strip.y_range(), Stroke::new(1.5, theme.danger));
        }
        self.brush(ui, ctx, strip, x);
    }

    fn brush(&mut self, ui: &Ui, ctx: &Ctx<'_>, strip: Rect, x: impl Fn(f64) -> f32) {
        let theme = ctx.theme;
        let painter = ui.painter().with_clip_rect(strip.expand(1.0));
        let response = ui.interact(strip, ui.scope_id().with("overview"), Sense::click_and_drag());
        self.brush.handle(ui, ctx, strip, &response);
        let (left, right) = (x(ctx.span.low), x(ctx.span.high).max(x(ctx.span.low) + 2.0));
        if ctx.span != ctx.axis.all() {
            let veil = theme.panel.gamma_multiply(0.72);
            painter.rect_filled(strip.with_max_x(left), 0.0, veil);
            painter.rect_filled(strip.with_min_x(right), 0.0, veil);
        }
        let brush = Rect::from_min_max(pos2(left, strip.top()), pos2(right, strip.bottom()));
        let ink = if response.hovered() || response.dragged() { theme.muted } else { theme.line_strong };
        painter.rect_stroke(brush, CornerRadius::same(2), Stroke::new(1.0, ink), StrokeKind::Inside);
        let cursor = painter.round_to_pixel_center(x(ctx.axis.place_of(ctx.cursor)));
        painter.vline(cursor, strip.y_range(), Stroke::new(1.0, theme.accent));
        controls::focus_ring(ui, theme, &response, strip);
        response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Overview: drag to choose what is shown"));
    }

    fn picture(&mut self, ctx: &Ctx<'_>, columns: usize) -> &Picture {
        let key =
            Key { revision: ctx.revision, lane: ctx.lane, axis: ctx.axis.kind(), columns: columns.clamp(1, 16_384) };
        let known = self.known.take().filter(|(known, _)| *known == key);
        let (_, picture) = self.known.insert(known.unwrap_or_else(|| {
            let edges = edges(ctx.axis, ctx.axis.all(), key.columns);
            let columns = METRICS.map(|metric| ctx.history.columns(ctx.lane, metric, &edges));
            let ooms = ctx.history.ooms().into_iter().filter(|oom| oom.lane == ctx.lane);
            let ooms = ooms.map(|oom| ctx.axis.place_of(oom.seq.after())).collect();
            (key, Picture { columns, ooms })
        }));
        picture
    }
}
