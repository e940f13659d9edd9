//! Where the parts of the timeline lie.

use egui::emath::GuiRounding as _;
use egui::{Context, Rect, pos2};

use super::flags::Flag;
use crate::axis::Span;
use crate::theme::UNIT;

/// Room for byte labels left of the plot, in points. The overview keeps the same, so that both line up.
pub const GUTTER: f32 = 18.0 * UNIT;
/// Room right of the plot, in points.
pub const MARGIN: f32 = 4.0 * UNIT;
/// Height of a row of annotations.
pub(super) const RIBBON_ROW: f32 = 4.0 * UNIT;
const HEADER: f32 = 10.0 * UNIT;
/// Least width of a band where events are missing: it must be seen however short it was.
const BAND: f32 = 1.5 * UNIT;
/// Height of the ruler below the plot.
pub(super) const RULER: f32 = 7.0 * UNIT;

/// The parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Areas {
    /// Legend and capacity.
    pub header: Rect,
    /// Annotations.
    pub ribbon: Rect,
    /// The curves.
    pub plot: Rect,
    /// Ticks and the cursor's handle.
    pub ruler: Rect,
}

/// Divides the timeline's rectangle.
pub(super) fn areas(all: Rect, ribbon_rows: usize) -> Areas {
    let (left, right) = (all.left() + GUTTER, (all.right() - MARGIN).max(all.left() + GUTTER + 1.0));
    let row = |top: f32, bottom: f32| Rect::from_min_max(pos2(left, top), pos2(right, bottom.max(top)));
    let header = Rect::from_min_max(pos2(all.left() + 3.0 * UNIT, all.top()), pos2(right, all.top() + HEADER));
    let ribbon_top = header.bottom();
    let ribbon_height = if ribbon_rows == 0 { 0.0 } else { ribbon_rows as f32 * RIBBON_ROW + UNIT };
    let ruler_top = all.bottom() - RULER;
    Areas {
        header,
        ribbon: row(ribbon_top, ribbon_top + ribbon_height),
        plot: row(ribbon_top + ribbon_height, ruler_top),
        ruler: row(ruler_top, all.bottom()),
    }
}

impl Areas {
    /// Where the pointer means the timeline.
    pub(super) fn sensitive(&self) -> Rect {
        Rect::from_min_max(self.ribbon.min, self.ruler.max)
    }

    /// The place under a screen position.
    pub(super) fn place(&self, span: Span, x: f32) -> f64 {
        span.at(f64::from(x - self.plot.left()) / f64::from(self.plot.width()))
    }

    /// Where a place is on the screen; may lie outside the plot.
    pub(super) fn x(&self, span: Span, place: f64) -> f32 {
        (f64::from(self.plot.left()) + span.part_of(place) * f64::from(self.plot.width())) as f32
    }

    /// The same, in the middle of a pixel.
    pub(super) fn pixel(&self, ctx: &Context, span: Span, place: f64) -> f32 {
        self.x(span, place).round_to_pixel_center(ctx.pixels_per_point())
    }

    /// Where stretches that are flagged lie in the plot, each wide enough to be seen. Those that touch are one, so there are
    /// never more than would fit.
    pub(super) fn bands<T>(&self, ctx: &Context, span: Span, flags: &[Flag<T>]) -> Vec<Rect> {
        let pixel = |x: f32| x.round_to_pixels(ctx.pixels_per_point());
        let mut bands: Vec<Rect> = Vec::new();
        for flag in flags {
            let (low, high) = (self.x(span, flag.low), self.x(span, flag.high));
            let spare = (BAND - (high - low)).max(0.0) / 2.0;
            let (left, right) = (pixel(low - spare).max(self.plot.left()), pixel(high + spare).min(self.plot.right()));
            if left >= right {
                continue;
            }
            match bands.last_mut() {
                Some(last) if left <= last.right() => *last.right_mut() = last.right().max(right),
                _ => bands.push(Rect::from_x_y_ranges(left..=right, self.plot.y_range())),
            }
        }
        bands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_pixels_agree() {
        let areas = areas(Rect::from_min_max(pos2(10.0, 20.0), pos2(1000.0, 400.0)), 2);
        let span = Span { low: 1e12, high: 1e12 + 5000.0 };
        for x in [areas.plot.left(), 333.0, areas.plot.right()] {
            assert!((areas.x(span, areas.place(span, x)) - x).abs() < 0.01);
        }
        assert_eq!(areas.ribbon.bottom(), areas.plot.top());
        assert_eq!(areas.plot.bottom(), areas.ruler.top());
        assert!(areas.header.bottom() <= areas.ribbon.top());
    }

    #[test]
    fn bands_are_wide_enough_to_be_seen_and_never_overlap() {
        let ctx = Context::default();
        let areas = areas(Rect::from_min_max(pos2(0.0, 0.0), pos2(1000.0, 400.0)), 0);
        let span = Span { low: 0.0, high: 1e6 };
        let flag = |at: u32| Flag { low: f64::from(at) * 100.0, high: f64::from(at) * 100.0, what: 1 };
        let bands = areas.bands(&ctx, span, &(0..20_000).map(flag).collect::<Vec<_>>());
        assert_eq!(bands.len(), 1, "they fill the plot");
        let two = [Flag { low: 1e5, high: 1e5, what: 1 }, Flag { low: 5e5, high: 6e5, what: 2 }];
        let bands = areas.bands(&ctx, span, &two);
        assert!(bands.len() == 2 && bands.iter().all(|band| band.width() >= BAND - 1.0), "{bands:?}");
        assert!((bands[1].left() - areas.x(span, 5e5)).abs() < 1.0, "{bands:?}");
        assert!(areas.bands(&ctx, Span { low: 7e5, high: 8e5 }, &two).is_empty(), "out of sight");
    }
}
