//! What is drawn over the picture: names of groups, sizes of segments, names of blocks, what is pointed at and chosen.

use egui::{Align2, Color32, CornerRadius, Painter, Pos2, Rect, Sense, Stroke, StrokeKind, Ui, pos2, vec2};

use super::layout::{HEADING, Line};
use super::model::{Group, What};
use super::picture::Label;
use super::{Frame, Hit, find, fold};
use crate::ctx::ColorBy;
use crate::sites::Sites;
use crate::theme::{self, SMALL, Theme, UNIT, mix};
use crate::widgets::fill::Fill;
use crate::widgets::{bytes, number};

/// Space before the text in a block.
const INSET: f32 = 1.25 * UNIT;

impl Frame<'_> {
    /// The screen height of a height in the layout.
    fn y(&self, pixels: f64) -> f32 {
        self.body.top() + ((pixels - self.top) as f32) / self.scale
    }

    /// The screen position of a place of a line.
    fn x(&self, place: f64) -> f32 {
        self.body.left() + self.window.x(place) as f32 / self.scale
    }

    /// Headings, sizes at the left, and names of wide blocks.
    pub(super) fn text(&self, ui: &Ui, labels: &[Label], room: Rect, sites: &mut Sites) {
        let painter = ui.painter().with_clip_rect(room);
        let seen = |top: f32, height: f32| top + height >= room.top() && top <= room.bottom();
        for heading in &self.layout.headings {
            let top = self.y(f64::from(heading.top));
            if seen(top, HEADING) {
                self.heading(&painter, &self.model.groups[heading.group], top);
            }
        }
        let shown = self.layout.lines_in(self.top, self.top + f64::from(self.body.height() * self.scale));
        for line in &self.layout.lines[shown] {
            self.size(&painter, line);
        }
        let clip = painter.with_clip_rect(self.body);
        for label in labels {
            self.label(&clip, *label, sites);
        }
    }

    fn heading(&self, painter: &Painter, group: &Group, top: f32) {
        let theme = self.ctx.theme;
        let (name, stream) = group_name(group);
        let middle = top + HEADING / 2.0 + 1.0;
        let mut x = self.body.left();
        let mut write = |text: String, font: egui::FontId, color: Color32, space: f32| {
            let galley = painter.layout_no_wrap(text, font, color);
            let width = galley.size().x;
            painter.galley(pos2(x, middle - galley.size().y / 2.0), galley, color);
            x += width + space;
        };
        write(name, theme::strong(SMALL), theme.text, 1.5 * UNIT);
        write(stream, theme::font(SMALL), theme.muted, 4.0 * UNIT);
        let figures = [
            (group.allocated, "in use"),
            (group.pending, "pending"),
            (group.pinned, "pinned"),
            (group.releasable, "releasable"),
        ];
        let of = if group.loose { String::new() } else { format!(" of {}", bytes::text(group.reserved)) };
        for (index, (value, word)) in figures.into_iter().enumerate().filter(|(_, (value, _))| *value > 0) {
            let word = if index == 0 { format!("{word}{of}") } else { word.to_owned() };
            let value = if index == 0 && !group.loose {
                let percent = value as f64 / group.reserved.max(1) as f64 * 100.0;
                format!("{percent:.0} %")
            } else {
                bytes::text(value)
            };
            write(value, theme::mono(SMALL), theme.muted, UNIT);
            write(word, theme::font(SMALL), theme.faint, 3.0 * UNIT);
        }
    }

    /// How large the segments of a line are, at its left.
    fn size(&self, painter: &Painter, line: &Line) {
        let strips = &self.layout.strips[line.strips.clone()];
        let Some(first) = strips.first() else { return };
        let size = |row: usize| self.model.rows[row].bytes;
        let text = if first.from > 0 {
            if strips.len() == 1 { "\u{2026}".to_owned() } else { format!("\u{2026} + {}", strips.len() - 1) }
        } else if strips.len() == 1 {
            bytes::short(size(first.row))
        } else if strips.iter().all(|strip| size(strip.row) == size(first.row)) {
            format!("{} \u{d7} {}", strips.len(), compact(size(first.row)))
        } else {
            let rows = strips.iter().map(|strip| size(strip.row));
            let (least, most) = (rows.clone().min().unwrap_or(0), rows.max().unwrap_or(0));
            let (least, most) = (compact(least), compact(most));
            match (least.split_once(' '), most.split_once(' ')) {
                (Some((low, unit)), Some((high, other))) if unit == other => format!("{low}\u{2013}{high} {unit}"),
                _ => format!("{} segments", number::text(strips.len() as u64)),
            }
        };
        let middle = self.y(f64::from(line.top) + f64::from(line.height) / 2.0);
        let place = pos2(self.body.left() - 2.0 * UNIT, middle);
        painter.text(place, Align2::RIGHT_CENTER, text, theme::font(SMALL - 1.0), self.ctx.theme.muted);
    }

    /// The name of a wide block, as far as it fits.
    fn label(&self, painter: &Painter, label: Label, sites: &mut Sites) {
        let rect = Rect::from_min_size(
            self.body.min + vec2(label.left as f32, label.top as f32) / self.scale,
            vec2(label.width as f32, label.height as f32) / self.scale,
        );
        let piece = &self.model.pieces[label.piece];
        let theme = self.ctx.theme;
        let fill = self.coloring.fills[label.piece];
        let size = compact(piece.length);
        let (name, ink) = match piece.what {
            What::Block { id, pending: false } => {
                let name = if self.ctx.color_by == ColorBy::Stack || rect.width() > 45.0 * UNIT {
                    let stack = self.ctx.history.block(id).map(|block| block.stack).unwrap_or_default();
                    let site = sites.of(self.ctx.history, stack);
                    sites.name(site).to_owned()
                } else {
                    String::new()
                };
                (name, ink_on(theme, fill))
            }
            What::Block { .. } => ("pending".to_owned(), theme.text),
            What::Gap(_) => ("free".to_owned(), theme.text),
            What::Hole => return,
        };
        let font = theme::font(SMALL - 1.0);
        let room = rect.width() - 2.0 * INSET;
        let size = painter.layout_no_wrap(size, font.clone(), ink);
        let name = painter.layout_no_wrap(name, font, ink);
        let free = matches!(piece.what, What::Gap(_));
        let both = name.size().x + 2.0 * UNIT + size.size().x;
        let middle = |height: f32| rect.center().y - height / 2.0;
        if free || matches!(fill, Fill::Pending) {
            // On a pattern, text needs a ground of its own.
            if size.size().x + 2.0 * UNIT <= room {
                let at = pos2(rect.center().x - size.size().x / 2.0, middle(size.size().y));
                let ground = Rect::from_min_size(at, size.size()).expand2(vec2(UNIT, 0.0));
                painter.rect_filled(ground, CornerRadius::same(2), fill.color(theme));
                painter.galley(at, size, ink);
            }
            return;
        }
        if both <= room && name.size().x > 0.0 {
            let at = pos2(rect.right() - INSET - size.size().x, middle(size.size().y));
            painter.galley(at, size, ink.gamma_multiply(0.75));
            painter.galley(pos2(rect.left() + INSET, middle(name.size().y)), name, ink);
        } else if name.size().x > 0.0 && name.size().x <= room {
            painter.galley(pos2(rect.left() + INSET, middle(name.size().y)), name, ink);
        } else if size.size().x <= room {
            painter.galley(pos2(rect.left() + INSET, middle(size.size().y)), size, ink);
        }
    }

    /// Frames around what is chosen and what the pointer is over, here or elsewhere.
    pub(super) fn marks(&self, ui: &Ui, hit: Option<Hit>) {
        let painter = ui.painter().with_clip_rect(self.body.expand(2.0));
        let theme = self.ctx.theme;
        if let Some(hit) = self.ctx.selected.and_then(|block| find(self.ctx, self.model, block)) {
            self.mark(&painter, hit, Stroke::new(2.0, theme.accent), theme.canvas);
        }
        let elsewhere = self.ctx.hovered.and_then(|block| find(self.ctx, self.model, block));
        if let Some(hit) = hit.or(elsewhere) {
            self.mark(&painter, hit, Stroke::new(1.5, theme.text), theme.canvas);
        }
    }

    fn mark(&self, painter: &Painter, hit: Hit, stroke: Stroke, ground: Color32) {
        let piece = self.piece(hit);
        for (line, strip) in self.layout.strips_of(hit.row) {
            let ends = [piece.start, piece.end()].map(|place| fold::offset_of(self.model, self.layout, strip, place));
            if ends[0] >= ends[1] && piece.length > 0 {
                continue;
            }
            let [left, right] = ends.map(|offset| self.x(f64::from(strip.left) + offset));
            let (top, height) = (self.y(f64::from(line.top)), line.height as f32 / self.scale);
            // However small the block, its frame can be seen.
            let width = (right - left).max(3.0);
            let center = f32::midpoint(left, right);
            let rect = Rect::from_min_size(pos2(center - width / 2.0, top), vec2(width, height));
            painter.rect_stroke(
                rect,
                CornerRadius::same(2),
                Stroke::new(stroke.width + 2.0, ground),
                StrokeKind::Outside,
            );
            painter.rect_stroke(rect, CornerRadius::same(2), stroke, StrokeKind::Outside);
        }
    }

    /// A bar at the right where there is more than fits. Returns the pixels above the view, as it was dragged.
    pub(super) fn scrollbar(&self, ui: &Ui, room: Rect, top: f64) -> f64 {
        let height = self.room.height;
        let whole = f64::from(self.layout.height);
        if whole <= f64::from(height) {
            return top;
        }
        let theme = self.ctx.theme;
        let track = Rect::from_min_max(pos2(room.right() - 10.0, room.top()), pos2(room.right() - 4.0, room.bottom()));
        let response = ui.interact(track.expand(3.0), ui.scope_id().with("map scroll"), Sense::drag());
        let part = |value: f64| (value / whole) as f32 * track.height();
        let length = part(f64::from(height)).max(6.0 * UNIT);
        let run = track.height() - length;
        let lowest = whole - f64::from(height);
        let at = track.top() + (top / lowest) as f32 * run;
        let handle = Rect::from_min_size(pos2(track.left(), at), vec2(track.width(), length));
        let color = if response.hovered() || response.dragged() { theme.muted } else { theme.line_strong };
        ui.painter().rect_filled(handle, CornerRadius::same(3), color);
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::ScrollBar, true, "Scroll the block map"));
        if response.dragged() && run > 0.0 {
            let moved = f64::from(response.drag_delta().y / run) * lowest;
            return (top + moved).clamp(0.0, lowest);
        }
        top
    }
}

/// Dark text on light fills, light text on dark ones.
fn ink_on(theme: &Theme, fill: Fill) -> Color32 {
    match fill {
        Fill::Category(_) | Fill::Step(_) => theme.on_accent,
        _ => mix(fill.color(theme), theme.text, 0.9),
    }
}

/// A size in two or three digits.
fn compact(size: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")].map(|(exponent, name)| (f64::from(exponent).exp2(), name));
    // What would read 1024 is one of the next unit.
    let fitting = units.into_iter().find(|(unit, _)| size as f64 >= unit * 1023.5 / 1024.0);
    let Some((unit, name)) = fitting else { return format!("{size} B") };
    let value = size as f64 / unit;
    let tenths = (value * 10.0).round();
    if tenths >= 100.0 || tenths % 10.0 == 0.0 { format!("{value:.0} {name}") } else { format!("{value:.1} {name}") }
}

/// A group's name: its pool, and its stream.
pub(crate) fn pool_name(pool: Option<vramscope_trace::Pool>) -> String {
    match pool {
        Some(pool) if pool.owner.is_private() => {
            let class = if pool.class == vramscope_trace::SizeClass::Small { "small" } else { "large" };
            format!("Private pool ({}, {}), {class}", pool.owner.0, pool.owner.1)
        }
        Some(pool) if pool.class == vramscope_trace::SizeClass::Small => "Small pool".to_owned(),
        Some(_) => "Large pool".to_owned(),
        None => "Unknown pool".to_owned(),
    }
}

fn group_name(group: &Group) -> (String, String) {
    if group.loose {
        return ("In no known segment".to_owned(), String::new());
    }
    (pool_name(group.pool), group.stream.map_or_else(|| "unknown stream".to_owned(), |stream| stream.to_string()))
}

/// The upper left corner of a text of that size, centred on a height.
pub(super) fn at_left(x: f32, middle: f32, size: egui::Vec2) -> Pos2 {
    pos2(x, middle - size.y / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short_but_not_wrong() {
        const MIB: u64 = 1 << 20;
        assert_eq!(compact(57 * MIB + 500_000), "57 MiB");
        assert_eq!(compact(2 * MIB), "2 MiB");
        assert_eq!(compact((5 << 30) / 2), "2.5 GiB");
        assert_eq!(compact(700), "700 B");
        assert_eq!(compact(1536), "1.5 KiB");
        assert_eq!(compact(1023 * MIB + 900_000), "1 GiB");
        assert_eq!(compact(9 * MIB + 1_040_000), "10 MiB");
    }
}
