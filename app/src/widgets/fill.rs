//! What fills a stretch of memory: a category's colour for blocks, a pattern for what is free or waits.
//!
//! Patterns are defined once, by pixel, so that the map's picture and the swatches beside words look the same.

use egui::epaint::Mesh;
use egui::{Color32, Painter, Rect, Shape, pos2};

use crate::theme::{Theme, mix};

/// A fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fill {
    /// One of the theme's eight categories.
    Category(u8),
    /// A weaker shade of a category: what shares a colour with something larger.
    Weak(u8),
    /// A step of an ordered scale, from 0 (cold) to 7 (warm).
    Step(u8),
    /// In no category.
    Plain,
    /// Freed, but another stream still uses it.
    Pending,
    /// Free, held back by blocks beside it.
    Pinned,
    /// Free, and would go back to the driver.
    Releasable,
}

/// The scale's fixed points among the categories: violet, blue, green, yellow, orange.
const SCALE: [usize; 5] = [7, 0, 2, 4, 1];

impl Fill {
    /// The colour of its surface.
    pub fn color(self, theme: &Theme) -> Color32 {
        let block = |color| mix(theme.canvas, color, 0.86);
        match self {
            Self::Category(index) => block(theme.categories[usize::from(index) % 8]),
            Self::Weak(index) => {
                let color = theme.categories[usize::from(index) % 8];
                mix(theme.canvas, mix(theme.reserved, color, 0.45), 0.55)
            }
            Self::Step(step) => {
                let place = f32::from(step.min(7)) / 7.0 * (SCALE.len() - 1) as f32;
                let low = (place as usize).min(SCALE.len() - 2);
                let ends = [low, low + 1].map(|index| theme.categories[SCALE[index]]);
                block(mix(ends[0], ends[1], place - low as f32))
            }
            Self::Plain => mix(theme.canvas, theme.reserved, 0.6),
            Self::Pending => mix(theme.canvas, theme.pending, 0.22),
            Self::Pinned => mix(theme.canvas, theme.danger, if theme.dark { 0.17 } else { 0.12 }),
            Self::Releasable => mix(theme.canvas, theme.reserved, 0.10),
        }
    }

    /// The colour of its pattern; `None` for a plain surface.
    pub fn ink(self, theme: &Theme) -> Option<Color32> {
        match self {
            Self::Pending => Some(mix(theme.canvas, theme.pending, 0.9)),
            Self::Pinned => Some(mix(theme.canvas, theme.danger, if theme.dark { 0.72 } else { 0.62 })),
            Self::Releasable => Some(mix(theme.canvas, theme.reserved, 0.42)),
            Self::Category(_) | Self::Weak(_) | Self::Step(_) | Self::Plain => None,
        }
    }

    /// Whether the pattern covers the pixel, with `scale` pixels a point.
    pub fn inked(self, x: i64, y: i64, scale: f32) -> bool {
        let points = |length: f32| ((length * scale).round() as i64).max(1);
        match self {
            Self::Pending => x.rem_euclid(points(4.0)) < points(2.0),
            Self::Pinned => (x + y).rem_euclid(points(4.0)) < points(1.0),
            Self::Releasable => (x + y).rem_euclid(points(7.0)) < points(1.0),
            Self::Category(_) | Self::Weak(_) | Self::Step(_) | Self::Plain => false,
        }
    }

    /// Fills a small rectangle.
    pub fn paint(self, painter: &Painter, rect: Rect, theme: &Theme) {
        let scale = painter.pixels_per_point();
        let [left, top, right, bottom] =
            [rect.left(), rect.top(), rect.right(), rect.bottom()].map(|edge| (edge * scale).round() as i64);
        let mut mesh = Mesh::default();
        let mut add = |x: i64, y: i64, x_end: i64, y_end: i64, color| {
            let place = |x: i64, y: i64| pos2(x as f32 / scale, y as f32 / scale);
            mesh.add_colored_rect(Rect::from_min_max(place(x, y), place(x_end, y_end)), color);
        };
        add(left, top, right, bottom, self.color(theme));
        if let Some(ink) = self.ink(theme) {
            for y in top..bottom {
                let mut x = left;
                while x < right {
                    let end = (x + 1..right).find(|&next| !self.inked(next, y, scale)).unwrap_or(right);
                    if self.inked(x, y, scale) {
                        add(x, y, end, y + 1, ink);
                        x = end;
                    } else {
                        x += 1;
                    }
                }
            }
        }
        painter.add(Shape::mesh(mesh));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_looks_unlike_any_block_and_pinned_unlike_releasable() {
        for theme in [&Theme::DARK, &Theme::LIGHT] {
            let distance = |a: Color32, b: Color32| (0..3).map(|c| u32::from(a[c].abs_diff(b[c]))).sum::<u32>();
            let blocks = (0..8).flat_map(|index| [Fill::Category(index), Fill::Weak(index), Fill::Step(index)]);
            for block in blocks.chain([Fill::Plain]) {
                for free in [Fill::Pinned, Fill::Releasable, Fill::Pending] {
                    let apart = distance(block.color(theme), free.color(theme));
                    assert!(apart > 60, "{block:?} and {free:?} are {apart} apart");
                }
            }
            assert!(distance(Fill::Pinned.color(theme), Fill::Releasable.color(theme)) > 20);
        }
    }

    #[test]
    fn patterns_cover_the_same_part_at_every_scale() {
        for (fill, part) in [(Fill::Pinned, 0.25), (Fill::Releasable, 1.0 / 7.0), (Fill::Pending, 0.5)] {
            for scale in [1.0, 2.0] {
                let side = (28.0 * scale) as i64;
                let inked = (0..side * side).filter(|index| fill.inked(index % side, index / side, scale)).count();
                assert!((inked as f32 / (side * side) as f32 - part).abs() < 0.01, "{fill:?} at {scale}");
            }
        }
    }
}
