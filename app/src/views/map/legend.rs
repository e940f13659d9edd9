//! The line below the map: what colours and patterns mean, and the scale.

use egui::{Align2, Rect, Response, Sense, Stroke, Ui, pos2, vec2};

use super::Frame;
use crate::glossary::{self, Term};
use crate::theme::{self, SMALL, UNIT};
use crate::widgets::bytes;
use crate::widgets::fill::Fill;

const SWATCH: f32 = 2.5 * UNIT;

/// Paints the line.
pub(super) fn show(ui: &mut Ui, frame: &Frame<'_>, rect: Rect) {
    let theme = frame.ctx.theme;
    let middle = rect.center().y;
    let (left, right) = (frame.body.left(), frame.body.right());
    let mut end = scale(ui, frame, right, middle) - 5.0 * UNIT;
    let sum = |part: fn(&super::model::Group) -> u64| frame.model.groups.iter().map(part).sum::<u64>();
    let free = [
        (Fill::Releasable, glossary::RELEASABLE, sum(|group| group.releasable)),
        (Fill::Pinned, glossary::PINNED, sum(|group| group.pinned)),
        (Fill::Pending, glossary::PENDING, sum(|group| group.pending)),
    ];
    for (fill, term, bytes) in free.into_iter().filter(|(_, _, bytes)| *bytes > 0) {
        let name = if fill == Fill::Pending { term.name.to_owned() } else { format!("free, {}", term.name) };
        let width = entry_width(ui, &name);
        entry(ui, frame, fill, &name, end - width, middle).on_hover_ui(|ui| explain(ui, frame, term, bytes));
        end -= width + 4.0 * UNIT;
    }
    let mut x = left;
    let more = frame.coloring.legend.len();
    for (index, meaning) in frame.coloring.legend.iter().enumerate() {
        let width = entry_width(ui, &meaning.name);
        if x + width + 18.0 * UNIT > end && index + 1 < more || x + width > end {
            let text = format!("+{}", more - index);
            ui.painter().text(pos2(x, middle), Align2::LEFT_CENTER, text, theme::font(SMALL), theme.faint);
            break;
        }
        entry(ui, frame, meaning.fill, &meaning.name, x, middle).on_hover_ui(|ui| {
            ui.label(&meaning.name);
            let blocks = crate::widgets::number::of(meaning.count, "block", "blocks");
            ui.label(theme.caption(format!("{} in {blocks} now", bytes::text(meaning.bytes))));
        });
        x += width + 4.0 * UNIT;
    }
}

fn explain(ui: &mut Ui, frame: &Frame<'_>, term: Term, size: u64) {
    ui.label(term.meaning);
    ui.label(frame.ctx.theme.caption(format!("{} now", bytes::text(size))));
}

fn entry_width(ui: &Ui, name: &str) -> f32 {
    let galley = ui.painter().layout_no_wrap(name.to_owned(), theme::font(SMALL), egui::Color32::WHITE);
    SWATCH + 1.5 * UNIT + galley.size().x
}

fn entry(ui: &Ui, frame: &Frame<'_>, fill: Fill, name: &str, x: f32, middle: f32) -> Response {
    let theme = frame.ctx.theme;
    let swatch = Rect::from_min_size(pos2(x, middle - SWATCH / 2.0), vec2(SWATCH, SWATCH));
    fill.paint(ui.painter(), swatch, theme);
    let galley = ui.painter().layout_no_wrap(name.to_owned(), theme::font(SMALL), theme.muted);
    let at = super::paint::at_left(x + SWATCH + 1.5 * UNIT, middle, galley.size());
    let rect = Rect::from_min_size(at, galley.size()).union(swatch);
    ui.painter().galley(at, galley, theme.muted);
    ui.interact(rect, ui.scope_id().with(("map legend", name)), Sense::hover())
}

/// A length with its bytes, ending at `right`. Returns where it begins.
fn scale(ui: &Ui, frame: &Frame<'_>, right: f32, middle: f32) -> f32 {
    let theme = frame.ctx.theme;
    let per_point = frame.layout.bytes_per_pixel * f64::from(frame.scale) / frame.window.zoom;
    let size = round_below(per_point * f64::from(24.0 * UNIT));
    let width = (size as f64 / per_point) as f32;
    let painter = ui.painter();
    let y = painter.round_to_pixel_center(middle + 3.0);
    let left = painter.round_to_pixel_center(right - width);
    let right = painter.round_to_pixel_center(right);
    let stroke = Stroke::new(1.0, theme.muted);
    painter.hline(left..=right, y, stroke);
    for x in [left, right] {
        painter.vline(x, y - 3.0..=y + 3.0, stroke);
    }
    let text = painter.layout_no_wrap(bytes::short(size), theme::mono(SMALL - 1.0), theme.muted);
    let start = left - text.size().x - 1.5 * UNIT;
    painter.galley(super::paint::at_left(start, middle + 1.0, text.size()), text, theme.muted);
    start
}

/// The largest power of two that is not above a size, at least one byte.
fn round_below(size: f64) -> u64 {
    1 << (size.max(1.0).log2().floor() as u32).min(62)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_scale_is_round() {
        assert_eq!(super::round_below(0.2), 1);
        assert_eq!(super::round_below(1000.0), 512);
        assert_eq!(super::round_below(1e300), 1 << 62);
    }
}
