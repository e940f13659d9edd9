//! The box beside the pointer: the exact values under it.

use egui::{Align2, CornerRadius, Pos2, Rect, Stroke, StrokeKind, pos2, vec2};
use vramscope_model::Metric;

use super::paint::Canvas;
use crate::axis::AxisKind;
use crate::ctx::{metric_color, metric_name};
use crate::theme::{self, SMALL, UNIT};
use crate::widgets::{bytes, number, time};

const LINE: f32 = 4.25 * UNIT;
const PADDING: f32 = 2.0 * UNIT;
const WIDTH: f32 = 43.0 * UNIT;

/// Paints the pointer's line and the box.
pub(super) fn paint(canvas: &Canvas<'_>, place: f64) {
    let (ctx, plot) = (canvas.ctx, canvas.areas.plot);
    let (painter, theme) = (canvas.ui.painter(), ctx.theme);
    let position = ctx.axis.position_at(place);
    let x = canvas.x(place);
    painter.vline(x, plot.y_range(), Stroke::new(1.0, theme.muted.gamma_multiply(0.6)));
    let rows: Vec<_> = Metric::ALL
        .into_iter()
        .filter(|&metric| ctx.shown.has(metric))
        .filter_map(|metric| ctx.history.value_at(ctx.lane, metric, position).map(|value| (metric, value)))
        .collect();
    for &(metric, value) in rows.iter().filter(|(_, value)| *value > 0) {
        painter.circle_filled(pos2(x, canvas.area().y(value) + 0.5), 2.5, metric_color(theme, metric));
    }
    let base = (canvas.notes.base.bytes() > 0).then(|| canvas.notes.base.at(position));
    let lines = rows.len() + 2 + usize::from(base.is_some());
    let size = vec2(WIDTH, LINE * lines as f32 + 2.0 * PADDING);
    let left = if x + size.x + 4.0 * UNIT > plot.right() { x - size.x - 3.0 * UNIT } else { x + 3.0 * UNIT };
    let rect = Rect::from_min_size(pos2(left, plot.top() + 2.0 * UNIT), size);
    frame(canvas, rect);
    let line = |index: usize, label: &str, value: String, color| {
        let y = rect.top() + PADDING + (index as f32 + 0.5) * LINE;
        let (left, right) = (rect.left() + PADDING, rect.right() - PADDING);
        painter.text(pos2(left, y), Align2::LEFT_CENTER, label, theme::font(SMALL), color);
        painter.text(pos2(right, y), Align2::RIGHT_CENTER, value, theme::mono(SMALL), theme.text);
    };
    let elapsed = match ctx.axis.kind() {
        AxisKind::Time => Some(place),
        AxisKind::Events => ctx.axis.elapsed(position),
    };
    line(0, "time", elapsed.map_or_else(|| "unknown".to_owned(), time::duration), theme.muted);
    line(1, "after event", number::text(u64::from(position.0)), theme.muted);
    for (index, &(metric, value)) in rows.iter().enumerate() {
        line(index + 2, metric_name(metric), bytes::text(value), metric_color(theme, metric));
    }
    if let Some(base) = base {
        line(lines - 1, "before recording", bytes::text(base), theme.muted);
    }
}

/// A small card with lines of text, its upper left corner at `at` where there is room.
pub(super) fn card(canvas: &Canvas<'_>, at: Pos2, lines: &[String]) {
    let (painter, theme) = (canvas.ui.painter(), canvas.ctx.theme);
    let galleys: Vec<_> =
        lines.iter().map(|text| painter.layout_no_wrap(text.clone(), theme::mono(SMALL), theme.text)).collect();
    let width = galleys.iter().map(|galley| galley.size().x).fold(0.0, f32::max) + 2.0 * PADDING;
    let height = galleys.len() as f32 * LINE + 2.0 * PADDING;
    let left = at.x.min(canvas.areas.plot.right() - width);
    let rect = Rect::from_min_size(pos2(left, at.y), vec2(width, height));
    frame(canvas, rect);
    for (index, galley) in galleys.into_iter().enumerate() {
        let y = rect.top() + PADDING + (index as f32 + 0.5) * LINE - galley.size().y / 2.0;
        painter.galley(pos2(rect.left() + PADDING, y), galley, theme.text);
    }
}

fn frame(canvas: &Canvas<'_>, rect: Rect) {
    let theme = canvas.ctx.theme;
    let stroke = Stroke::new(1.0, theme.line_strong);
    canvas.ui.painter().rect(rect, CornerRadius::same(4), theme.raised, stroke, StrokeKind::Inside);
}
