//! Where the parts of the timeline lie.

use egui::{Rect, pos2};

use crate::axis::Span;
use crate::theme::UNIT;

/// Room for byte labels left of the plot, in points. The overview keeps the same, so that both line up.
pub const GUTTER: f32 = 18.0 * UNIT;
/// Room right of the plot, in points.
pub const MARGIN: f32 = 4.0 * UNIT;
/// Height of a row of annotations.
pub(super) const RIBBON_ROW: f32 = 4.0 * UNIT;
const HEADER: f32 = 10.0 * UNIT;
const RULER: f32 = 6.0 * UNIT;

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
    let header = Rect::from_min_max(
        pos2(all.left() + 3.0 * UNIT, all.top()),
        pos2(right, all.top() + HEADER),
    );
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
}
