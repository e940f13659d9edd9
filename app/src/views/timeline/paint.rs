//! What is painted over and around the chart: annotations, flags, the cursor's dots and handle, the measured range.

use egui::epaint::Shape;
use egui::{Align2, Color32, CornerRadius, Pos2, Rect, Stroke, Ui, pos2, vec2};
use vramscope_model::Metric;

use super::LABEL_GAP;
use super::layout::{Areas, RIBBON_ROW};
use super::model::Data;
use super::notes::{Notes, RibbonSpan};
use crate::ctx::{Ctx, metric_color};
use crate::theme::{self, SMALL, UNIT, mix};
use crate::widgets::steps::StepArea;
use crate::widgets::{bytes, number};

/// What is painted, and where.
pub(super) struct Canvas<'a> {
    pub ui: &'a Ui,
    pub ctx: &'a Ctx<'a>,
    pub areas: &'a Areas,
    pub data: &'a Data,
    pub notes: &'a Notes,
}

impl Canvas<'_> {
    /// Where a value lies in the plot.
    pub(super) fn area(&self) -> StepArea {
        let pixels_per_point = self.ui.pixels_per_point();
        StepArea { rect: self.areas.plot, top: self.data.top, pixels_per_point }
    }

    /// Where a place lies, on a whole pixel.
    pub(super) fn x(&self, place: f64) -> f32 {
        self.areas.pixel(self.ui.ctx(), self.ctx.span, place)
    }

    /// A line under the plot, where the numbers of the axis hang.
    pub(super) fn floor(&self) {
        let (painter, plot) = (self.ui.painter(), self.areas.plot);
        let y = painter.round_to_pixel_center(plot.bottom());
        painter.hline(plot.x_range(), y, Stroke::new(1.0, self.ctx.theme.line_strong));
    }

    /// What the capacity's line means; a note at the top where it lies far above the curves.
    pub(super) fn capacity(&self) {
        let Some(capacity) = self.ctx.capacity else { return };
        let (painter, theme, plot) = (self.ui.painter(), self.ctx.theme, self.areas.plot);
        let inside = capacity as f64 <= self.data.top;
        let y = if inside { self.area().y(capacity) } else { plot.top() };
        let arrow = if inside { "" } else { " \u{2191}" };
        let text = format!("capacity {}{arrow}", bytes::short(capacity));
        let below = y - plot.top() < 5.0 * UNIT;
        let (anchor, gap) = if below { (Align2::RIGHT_TOP, 2.0) } else { (Align2::RIGHT_BOTTOM, -2.0) };
        painter.text(pos2(plot.right() - UNIT, y + gap), anchor, text, theme::font(SMALL), theme.danger);
    }

    /// What the lowest layer is, and how much of the peak it makes up. Left out where there is no room for the words.
    pub(super) fn base(&self) {
        let (ctx, plot) = (self.ctx, self.areas.plot);
        let bytes = self.notes.base.bytes();
        if self.data.base.is_empty() || !ctx.shown.has(Metric::Allocated) {
            return;
        }
        let peak = ctx.history.peak(ctx.lane, Metric::Allocated).map_or(bytes, |peak| peak.bytes.max(1));
        let share = bytes as f64 / peak as f64 * 100.0;
        let text = format!("allocated before recording: {} \u{b7} {share:.0} % of the peak", bytes::text(bytes));
        let galley = self.ui.painter().layout_no_wrap(text, theme::font(SMALL), ctx.theme.text);
        let columns = (galley.size().x + 4.0 * UNIT) * self.ui.pixels_per_point();
        // The words stand in the layer, below its lowest part beside them.
        let lowest = self.data.base.iter().take(columns as usize).map(|column| column.min).min().unwrap_or(0);
        let top = self.area().y(lowest);
        if plot.bottom() - top < galley.size().y + UNIT || galley.size().x + 4.0 * UNIT > plot.width() {
            return;
        }
        self.ui.painter().galley(pos2(plot.left() + 2.0 * UNIT, top + 0.5 * UNIT), galley, ctx.theme.text);
    }

    /// What the lines of failed allocations mean. Flags that would overlap are counted in one.
    pub(super) fn ooms(&self) {
        let (theme, plot) = (self.ctx.theme, self.areas.plot);
        let mut flag: Option<(f32, String, usize)> = None;
        let paint = |flag: Option<(f32, String, usize)>| {
            let Some((x, text, more)) = flag else { return };
            let text = if more == 0 { text } else { format!("{text} and {more} more") };
            self.tag(pos2(x, plot.top()), &text, theme.danger, theme.canvas);
        };
        for oom in &self.notes.ooms {
            let x = self.x(oom.low);
            if !plot.x_range().contains(x) {
                continue;
            }
            match &mut flag {
                Some((first, _, more)) if x - *first < 40.0 * UNIT => *more += 1,
                _ => {
                    let text = format!("Out of memory: {}", bytes::text(oom.what));
                    paint(flag.replace((x, text, 0)));
                }
            }
        }
        paint(flag);
    }

    /// Pennants of named instants, one a pixel at most; the one under the pointer says what it is.
    pub(super) fn marks(&self, pointer: Option<Pos2>) {
        let (painter, theme, plot) = (self.ui.painter(), self.ctx.theme, self.areas.plot);
        let mut last = f32::NEG_INFINITY;
        let mut hovered: Vec<&str> = Vec::new();
        for mark in &self.notes.marks {
            let x = self.x(mark.low);
            if !plot.x_range().contains(x) {
                continue;
            }
            if pointer.is_some_and(|pointer| plot.contains(pointer) && (pointer.x - x).abs() < 3.0) {
                hovered.push(self.ctx.history.dictionary().name(mark.what));
            }
            if x > last {
                last = x;
                let points = [vec2(0.0, 0.0), vec2(7.0, 3.0), vec2(0.0, 6.0)]
                    .map(|offset| pos2(x, plot.bottom() - 12.0) + offset);
                painter.add(Shape::convex_polygon(points.to_vec(), theme.muted, Stroke::NONE));
            }
        }
        if let (Some(first), Some(pointer)) = (hovered.first(), pointer) {
            let more = number::of(hovered.len() as u64 - 1, "more mark", "more marks");
            let text = if hovered.len() == 1 { format!("Mark: {first}") } else { format!("Mark: {first}, and {more}") };
            self.tip(Rect::from_center_size(pointer, vec2(6.0, 6.0)), "mark", &text);
        }
    }

    /// Says how many events are missing where the pointer is over a hatched band.
    pub(super) fn lost(&self, pointer: Option<Pos2>) {
        let span = self.ctx.span;
        let Some(pointer) = pointer.filter(|_| !self.notes.lost.is_empty()) else { return };
        let bands = self.areas.bands(self.ui.ctx(), span, &self.notes.lost);
        let Some(band) = bands.into_iter().find(|band| band.contains(pointer)) else { return };
        let inside = |place: f64| band.expand(UNIT).x_range().contains(self.areas.x(span, place));
        let lost = self.notes.lost.iter().filter(|lost| inside(f64::midpoint(lost.low, lost.high)));
        let count = number::of(lost.map(|lost| lost.what).sum(), "event was", "events were");
        self.tip(
            band,
            "lost",
            &format!("{count} lost here: the source could not keep up, so figures may be wrong from here on"),
        );
    }

    /// A tooltip beside something that is painted and no widget.
    fn tip(&self, rect: Rect, name: &str, text: &str) {
        egui::Tooltip::always_open(self.ui.ctx().clone(), self.ui.layer_id(), self.ui.scope_id().with(name), rect)
            .show(|ui| ui.label(text));
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
    pub(super) fn ribbon(&self, pointer: Option<Pos2>) {
        let (span, theme) = (self.ctx.span, self.ctx.theme);
        let clip = self.ui.painter().with_clip_rect(self.areas.ribbon);
        for (index, row) in self.notes.rows.iter().enumerate() {
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
                    let text =
                        if folded == 1 { format!("{name} · {length}") } else { format!("{folded} annotations") };
                    clip.rect_stroke(rect, 2.0, Stroke::new(1.0, theme.text), egui::StrokeKind::Inside);
                    self.tip(rect, "annotation", &text);
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
        if rect.width() < 5.0 * UNIT {
            return;
        }
        let name = self.ctx.history.dictionary().name(span.name).to_owned();
        let ink = mix(theme.text, color, 0.35);
        let galley = painter.layout_no_wrap(name, theme::font(SMALL - 1.0), ink);
        // A cut name says less than the colour alone.
        if galley.size().x + 2.0 * UNIT <= rect.width() {
            painter.galley(pos2(rect.left() + UNIT, rect.center().y - galley.size().y / 2.0), galley, ink);
        }
    }

    /// A sentence in the middle of the plot, for what a picture cannot say.
    pub(super) fn note(&self, sentence: &str) {
        let (painter, theme, plot) = (self.ui.painter(), self.ctx.theme, self.areas.plot);
        let width = (plot.width() * 0.7).min(120.0 * UNIT);
        let galley = painter.layout(sentence.to_owned(), theme::font(theme::BODY), theme.text, width);
        let card = Rect::from_center_size(plot.center(), galley.size()).expand2(vec2(4.0 * UNIT, 3.0 * UNIT));
        painter.rect(card, CornerRadius::same(theme::RADIUS), theme.raised, theme.hairline(), egui::StrokeKind::Inside);
        painter.galley(card.min + vec2(4.0 * UNIT, 3.0 * UNIT), galley, theme.text);
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

    /// The cursor's line through the annotations, its handle on the ruler, and a dot on every curve.
    pub(super) fn cursor(&self) {
        let place = self.ctx.axis.place_of(self.ctx.cursor);
        let (painter, theme, plot) = (self.ui.painter(), self.ctx.theme, self.areas.plot);
        let x = self.x(place);
        if !plot.expand(1.0).x_range().contains(x) {
            return;
        }
        painter.vline(x, self.areas.ribbon.top()..=plot.top(), Stroke::new(1.0, theme.accent));
        for (metric, columns) in Metric::ALL.into_iter().zip(&self.data.series) {
            let value = self.ctx.history.value_at(self.ctx.lane, metric, self.ctx.cursor);
            if let Some(value) = value.filter(|&value| value > 0 && columns.is_some() && self.ctx.shown.has(metric)) {
                let center = pos2(x, self.area().y(value) + 0.5);
                painter.circle(center, 3.0, theme.canvas, Stroke::new(1.5, metric_color(theme, metric)));
            }
        }
        let tip = pos2(x, plot.bottom() + 1.0);
        let handle = [vec2(0.0, 0.0), vec2(5.0, 5.0), vec2(5.0, 8.0), vec2(-5.0, 8.0), vec2(-5.0, 5.0)];
        let points = handle.map(|offset| tip + offset).to_vec();
        painter.add(Shape::convex_polygon(points, theme.accent, Stroke::NONE));
    }
}
