//! How the timeline looks.

use egui::epaint::{Mesh, Shape};
use egui::{Align2, Color32, CornerRadius, Pos2, Rect, Stroke, Ui, pos2, vec2};
use vramscope_model::Metric;

use super::LABEL_GAP;
use super::layout::{Areas, RIBBON_ROW};
use super::model::{Data, Ribbon, RibbonSpan};
use crate::ctx::{Ctx, metric_color};
use crate::theme::{self, SMALL, UNIT, mix};
use crate::widgets::steps::{StepArea, StepStyle, add};
use crate::widgets::{bytes, number};

/// What is painted, and where.
pub(super) struct Canvas<'a> {
    pub ui: &'a Ui,
    pub ctx: &'a Ctx<'a>,
    pub areas: &'a Areas,
    pub data: &'a Data,
}

impl Canvas<'_> {
    /// Where a value lies in the plot.
    pub(super) fn area(&self) -> StepArea {
        let pixels_per_point = self.ui.pixels_per_point();
        StepArea { rect: self.areas.plot, top: self.data.top, pixels_per_point }
    }

    /// Where a place lies, on a whole pixel.
    pub(super) fn x(&self, place: f64) -> f32 {
        self.ui.painter().round_to_pixel_center(self.areas.x(self.ctx.span, place))
    }

    /// Lines at round values, and their labels.
    pub(super) fn grid(&self) {
        let (painter, theme, plot) = (self.ui.painter(), self.ctx.theme, self.areas.plot);
        let font = theme::mono(SMALL - 1.0);
        for value in byte_ticks(self.data.top, (plot.height() / (11.0 * UNIT)) as u32) {
            let y = painter.round_to_pixel_center(self.area().y(value));
            painter.hline(plot.x_range(), y, theme.hairline());
            let place = pos2(plot.left() - 2.0 * UNIT, y);
            painter.text(place, Align2::RIGHT_CENTER, bytes::short(value), font.clone(), theme.faint);
        }
        let most = (plot.width() / (24.0 * UNIT)) as usize;
        let (places, step) = self.ctx.axis.ticks(self.ctx.span, most);
        for place in places {
            let x = self.x(place);
            painter.vline(x, plot.y_range(), Stroke::new(1.0, mix(theme.canvas, theme.line, 0.55)));
            painter.vline(x, plot.bottom()..=plot.bottom() + UNIT, Stroke::new(1.0, theme.line_strong));
            let text = self.ctx.axis.tick(place, step);
            let galley = painter.layout_no_wrap(text, font.clone(), theme.faint);
            let half = galley.size().x / 2.0;
            let left = x.clamp(plot.left() + half, plot.right() - half) - half;
            painter.galley(pos2(left, self.areas.ruler.top() + 1.75 * UNIT), galley, theme.faint);
        }
        painter.hline(plot.x_range(), painter.round_to_pixel_center(plot.bottom()), Stroke::new(1.0, theme.line_strong));
    }

    /// The curves, reserved lowest.
    pub(super) fn series(&self) {
        let theme = self.ctx.theme;
        let mut mesh = Mesh::default();
        for (metric, columns) in Metric::ALL.into_iter().zip(&self.data.series) {
            let Some(columns) = columns.as_ref().filter(|_| self.ctx.shown.has(metric)) else { continue };
            let color = metric_color(theme, metric);
            let (fill, band, line) = match metric {
                Metric::Reserved => (Some(0.15), 0.42, 0.9),
                Metric::Allocated => (Some(0.30), 0.62, 1.0),
                Metric::Requested => (None, 0.55, 0.9),
                Metric::Pending => (Some(0.35), 0.7, 1.0),
            };
            let shade = |opacity: f32| mix(theme.canvas, color, opacity);
            let style = StepStyle { fill: fill.map(shade), band: shade(band), line: shade(line), thickness: 1.0 };
            add(&mut mesh, &self.area(), columns, style);
        }
        self.ui.painter().add(Shape::mesh(mesh));
    }

    /// The capacity, where it is known: a line, or a note where it lies far above the curves.
    pub(super) fn capacity(&self) {
        let Some(capacity) = self.ctx.capacity else { return };
        let (painter, theme, plot) = (self.ui.painter(), self.ctx.theme, self.areas.plot);
        let inside = capacity as f64 <= self.data.top;
        let y = if inside { painter.round_to_pixel_center(self.area().y(capacity)) } else { plot.top() };
        if inside {
            let line = [pos2(plot.left(), y), pos2(plot.right(), y)];
            painter.extend(Shape::dashed_line(&line, Stroke::new(1.0, theme.danger), 6.0, 4.0));
        }
        let arrow = if inside { "" } else { " \u{2191}" };
        let text = format!("capacity {}{arrow}", bytes::short(capacity));
        let below = y - plot.top() < 5.0 * UNIT;
        let (anchor, gap) = if below { (Align2::RIGHT_TOP, 2.0) } else { (Align2::RIGHT_BOTTOM, -2.0) };
        painter.text(pos2(plot.right() - UNIT, y + gap), anchor, text, theme::font(SMALL), theme.danger);
    }

    /// Allocations that failed: a line and a flag. Flags that would overlap are counted in one.
    pub(super) fn ooms(&self) {
        let (painter, theme, plot) = (self.ui.painter(), self.ctx.theme, self.areas.plot);
        let mut flag: Option<(f32, String, usize)> = None;
        let paint = |flag: Option<(f32, String, usize)>| {
            let Some((x, text, more)) = flag else { return };
            let text = if more == 0 { text } else { format!("{text} and {more} more") };
            self.tag(pos2(x, plot.top()), &text, theme.danger, theme.canvas);
        };
        for oom in &self.data.ooms {
            let x = self.x(self.ctx.axis.place_of(oom.seq.after()));
            if !plot.x_range().contains(x) {
                continue;
            }
            painter.vline(x, plot.y_range(), Stroke::new(1.5, theme.danger));
            match &mut flag {
                Some((first, _, more)) if x - *first < 40.0 * UNIT => *more += 1,
                _ => {
                    let text = format!("Out of memory: {}", bytes::text(oom.requested));
                    paint(flag.replace((x, text, 0)));
                }
            }
        }
        paint(flag);
    }

    /// A label with a background, at the left of `at` where there is no room to its right.
    fn tag(&self, at: Pos2, text: &str, fill: Color32, ink: Color32) {
        let painter = self.ui.painter();
        let galley = painter.layout_no_wrap(text.to_owned(), theme::font(SMALL), ink);
        let size = galley.size() + 2.0 * LABEL_GAP;
        let left = if at.x + size.x > self.areas.plot.right() { at.x - size.x } else { at.x };
        let rect = Rect::from_min_size(pos2(left, at.y), size);
        painter.rect_filled(rect, CornerRadius::same(2), fill);
        painter.galley(rect.min + LABEL_GAP, galley, ink);
    }

    /// Annotations: one quad each, those narrower than a pixel folded into their neighbours.
    pub(super) fn ribbon(&self, ribbon: &Ribbon, pointer: Option<Pos2>) {
        let (span, theme) = (self.ctx.span, self.ctx.theme);
        let clip = self.ui.painter().with_clip_rect(self.areas.ribbon);
        for (index, row) in ribbon.rows.iter().enumerate() {
            let top = self.areas.ribbon.top() + index as f32 * RIBBON_ROW;
            let pixel = span.length() / f64::from(self.areas.plot.width());
            let mut next = row.partition_point(|known| known.high < span.low);
            while let Some(first) = row.get(next).filter(|known| known.low <= span.high) {
                // Everything that ends within the next pixel is drawn as one; the rest of the row is found by bisection.
                let folded = row[next..].partition_point(|known| known.high <= first.low + pixel).max(1);
                let high = row[next + folded - 1].high;
                next += folded;
                let left = self.areas.x(span, first.low).max(self.areas.ribbon.left());
                let right = self.areas.x(span, high).min(self.areas.ribbon.right()).max(left + 1.0);
                let rect = Rect::from_min_max(pos2(left, top), pos2(right, top + RIBBON_ROW - 1.0));
                self.annotation(&clip, rect, first);
                if pointer.is_some_and(|pointer| rect.contains(pointer)) {
                    let name = self.ctx.history.dictionary().name(first.name).to_owned();
                    let length = self.ctx.axis.length(first.high - first.low);
                    let text = if folded == 1 { format!("{name} · {length}") } else { format!("{folded} annotations") };
                    clip.rect_stroke(rect, 2.0, Stroke::new(1.0, theme.text), egui::StrokeKind::Inside);
                    egui::Tooltip::always_open(self.ui.ctx().clone(), self.ui.layer_id(), self.ui.scope_id(), rect)
                        .show(|ui| ui.label(text));
                }
            }
        }
    }

    fn annotation(&self, painter: &egui::Painter, rect: Rect, span: &RibbonSpan) {
        let theme = self.ctx.theme;
        // The first two categories are the colours of allocated and pending.
        let color = theme.categories[(span.category + 2) % theme.categories.len()];
        let rect = if rect.width() > 3.0 { rect.with_max_x(rect.max.x - 1.0) } else { rect };
        painter.rect_filled(rect, CornerRadius::same(2), mix(theme.canvas, color, 0.32));
        if rect.width() < 8.0 * UNIT {
            return;
        }
        let name = self.ctx.history.dictionary().name(span.name).to_owned();
        let ink = mix(theme.text, color, 0.35);
        let galley = painter.layout_no_wrap(name, theme::font(SMALL), ink);
        let place = pos2(rect.left() + UNIT, rect.center().y - galley.size().y / 2.0);
        painter.with_clip_rect(rect.intersect(painter.clip_rect())).galley(place, galley, ink);
    }

    /// The measured range: a tint, and in it what changed between its ends.
    pub(super) fn measured(&self) {
        let Some((from, to)) = self.ctx.measured else { return };
        let (from, to) = (from.min(to), from.max(to));
        let (painter, theme, plot) = (self.ui.painter(), self.ctx.theme, self.areas.plot);
        let axis = self.ctx.axis;
        let (low, high) = (axis.place_of(from), axis.place_of(to));
        let (left, right) = (self.x(low).max(plot.left()), self.x(high).min(plot.right()));
        if left > right {
            return;
        }
        let rect = Rect::from_min_max(pos2(left, plot.top()), pos2(right, plot.bottom()));
        painter.rect_filled(rect, 0.0, theme.accent.gamma_multiply(0.14));
        for x in [left, right] {
            painter.vline(x, plot.y_range(), Stroke::new(1.0, theme.accent));
        }
        let change = |metric| {
            let value = |at| self.ctx.history.value_at(self.ctx.lane, metric, at);
            value(from).zip(value(to)).map_or_else(|| "\u{2013}".to_owned(), |(a, b)| bytes::signed(a, b))
        };
        let events = number::of(u64::from(to.0 - from.0), "event", "events");
        let mut lines = vec![events];
        if axis.kind() == crate::axis::AxisKind::Time {
            lines.insert(0, axis.length(high - low));
        }
        lines.push(format!("{} allocated", change(Metric::Allocated)));
        lines.push(format!("{} reserved", change(Metric::Reserved)));
        super::readout::card(self, pos2(left + 2.0 * UNIT, plot.top() + 2.0 * UNIT), &lines);
    }

    /// The cursor: a line, a handle on the ruler, a dot on every curve.
    pub(super) fn cursor(&self) {
        let place = self.ctx.axis.place_of(self.ctx.cursor);
        let (painter, theme, plot) = (self.ui.painter(), self.ctx.theme, self.areas.plot);
        let x = self.x(place);
        if !plot.expand(1.0).x_range().contains(x) {
            return;
        }
        painter.vline(x, self.areas.ribbon.top()..=plot.bottom(), Stroke::new(1.0, theme.accent));
        for (metric, columns) in Metric::ALL.into_iter().zip(&self.data.series) {
            let value = self.ctx.history.value_at(self.ctx.lane, metric, self.ctx.cursor);
            if let Some(value) = value.filter(|&value| value > 0 && columns.is_some() && self.ctx.shown.has(metric)) {
                let center = pos2(x, self.area().y(value) + 0.5);
                painter.circle(center, 3.0, theme.canvas, Stroke::new(1.5, metric_color(theme, metric)));
            }
        }
        let tip = pos2(x, plot.bottom() + 1.0);
        let handle = [vec2(0.0, 0.0), vec2(5.0, 5.0), vec2(5.0, 10.0), vec2(-5.0, 10.0), vec2(-5.0, 5.0)];
        let points = handle.map(|offset| tip + offset).to_vec();
        painter.add(Shape::convex_polygon(points, theme.accent, Stroke::NONE));
    }
}

/// Round byte values from 0 up to `top`, about `count` of them, a power of two apart.
fn byte_ticks(top: f64, count: u32) -> impl Iterator<Item = u64> {
    let wish = top / f64::from(count.max(1));
    let step = wish.max(1.0).log2().ceil().exp2().min(2f64.powi(62)) as u64;
    (0..).map(move |index| index * step).take_while(move |&value| value as f64 <= top)
}

#[cfg(test)]
mod tests {
    use super::byte_ticks;

    #[test]
    fn byte_ticks_are_round_in_binary() {
        let gib = 1 << 30;
        assert_eq!(byte_ticks(7.9 * gib as f64, 5).collect::<Vec<_>>(), [0, 2 * gib, 4 * gib, 6 * gib]);
        assert_eq!(byte_ticks(1.0, 5).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(byte_ticks(100.0, 0).count(), 1);
    }
}
