//! Icons drawn from lines, so that they are sharp at every scale and need no font.

use egui::{Color32, CornerRadius, Painter, Pos2, Rect, Shape, Stroke, vec2};

/// What an icon shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icon {
    /// A folder: open something.
    Open,
    /// A half-filled disc: dark or light.
    Contrast,
    /// A question mark.
    Help,
    /// A cross.
    Close,
    /// A small arrow down: there is a list.
    More,
    /// A triangle with an exclamation mark.
    Warning,
    /// A tick: nothing is wrong.
    Fine,
    /// A sheet of paper: a file.
    File,
    /// Two sheets: copy.
    Copy,
    /// An arrow to the left: back to the start page.
    Back,
    /// A triangle: play.
    Play,
    /// Two bars: pause.
    Pause,
    /// A bar and an arrow to the left: one event back.
    StepBack,
    /// An arrow to the right and a bar: one event on.
    StepOn,
}

/// Paints an icon into a square of 16 points around `center`.
pub fn paint(painter: &Painter, center: Pos2, icon: Icon, color: Color32) {
    let stroke = Stroke::new(1.4, color);
    let at = |x: f32, y: f32| center + vec2(x, y);
    let line = |points: &[(f32, f32)]| {
        painter.add(Shape::line(points.iter().map(|&(x, y)| at(x, y)).collect(), stroke));
    };
    let solid = |points: &[(f32, f32)]| {
        let points = points.iter().map(|&(x, y)| at(x, y)).collect();
        painter.add(Shape::convex_polygon(points, color, Stroke::NONE));
    };
    match icon {
        Icon::Open => {
            line(&[(-6.0, 5.0), (-6.0, -4.5), (-2.5, -4.5), (-1.0, -2.5), (4.5, -2.5), (4.5, -0.5)]);
            line(&[(-6.0, 5.0), (-3.5, -0.5), (6.5, -0.5), (4.5, 5.0), (-6.0, 5.0)]);
        }
        Icon::Contrast => {
            painter.circle_stroke(center, 5.5, stroke);
            let half = (0..=16).map(|i| std::f32::consts::PI * (i as f32 / 16.0 - 0.5));
            let arc = half.map(|angle| at(5.5 * angle.cos(), 5.5 * angle.sin())).collect();
            painter.add(Shape::convex_polygon(arc, color, Stroke::NONE));
        }
        Icon::Help => {
            let font = crate::theme::strong(crate::theme::BODY);
            painter.text(center, egui::Align2::CENTER_CENTER, "?", font, color);
        }
        Icon::Close => {
            line(&[(-4.0, -4.0), (4.0, 4.0)]);
            line(&[(-4.0, 4.0), (4.0, -4.0)]);
        }
        Icon::More => line(&[(-3.0, -1.5), (0.0, 1.5), (3.0, -1.5)]),
        Icon::Warning => {
            line(&[(0.0, -5.5), (6.0, 5.0), (-6.0, 5.0), (0.0, -5.5), (0.6, -4.4)]);
            line(&[(0.0, -2.0), (0.0, 1.5)]);
            painter.circle_filled(at(0.0, 3.3), 0.8, color);
        }
        Icon::Fine => line(&[(-4.5, 0.0), (-1.5, 3.0), (4.5, -3.5)]),
        Icon::File => {
            line(&[(1.0, -6.0), (-4.5, -6.0), (-4.5, 6.0), (4.5, 6.0), (4.5, -2.5), (1.0, -6.0)]);
            line(&[(1.0, -6.0), (1.0, -2.5), (4.5, -2.5)]);
        }
        Icon::Copy => {
            line(&[(-2.0, -2.0), (5.0, -2.0), (5.0, 5.0), (-2.0, 5.0), (-2.0, -2.0), (-1.0, -2.0)]);
            line(&[(-3.5, 2.0), (-5.0, 2.0), (-5.0, -5.0), (2.0, -5.0), (2.0, -3.5)]);
        }
        Icon::Back => {
            line(&[(-1.0, -4.5), (-5.5, 0.0), (-1.0, 4.5)]);
            line(&[(-5.5, 0.0), (5.5, 0.0)]);
        }
        Icon::Play => solid(&[(-3.5, -5.0), (5.0, 0.0), (-3.5, 5.0)]),
        Icon::Pause => {
            solid(&[(-4.0, -5.0), (-1.25, -5.0), (-1.25, 5.0), (-4.0, 5.0)]);
            solid(&[(1.25, -5.0), (4.0, -5.0), (4.0, 5.0), (1.25, 5.0)]);
        }
        Icon::StepBack => {
            line(&[(-4.0, -4.0), (-4.0, 4.0)]);
            solid(&[(4.0, -4.0), (4.0, 4.0), (-2.0, 0.0)]);
        }
        Icon::StepOn => {
            line(&[(4.0, -4.0), (4.0, 4.0)]);
            solid(&[(-4.0, -4.0), (2.0, 0.0), (-4.0, 4.0)]);
        }
    }
}

/// The bars of the program's mark: row, first cell, cells, and which of three colours. A row is eight cells.
const BARS: [(u8, u8, u8, u8); 7] =
    [(0, 0, 5, 0), (0, 5, 3, 2), (1, 0, 2, 1), (1, 3, 5, 0), (2, 0, 3, 0), (2, 3, 2, 1), (2, 6, 2, 2)];

/// The program's mark: a segment with blocks and gaps, as the block map draws them.
pub fn mark(painter: &Painter, rect: Rect, colors: [Color32; 3]) {
    for (bar, color) in bars(rect, 1.5) {
        painter.rect_filled(bar, CornerRadius::same(1), colors[color]);
    }
}

/// The mark as an image for the window's icon, `side` pixels wide and high.
pub fn mark_image(side: usize, colors: [Color32; 3]) -> Vec<u8> {
    let mut pixels = vec![Color32::TRANSPARENT; side * side];
    let all = Rect::from_min_size(Pos2::ZERO, egui::Vec2::splat(side as f32));
    for (bar, color) in bars(all.shrink2(vec2(0.0, side as f32 / 12.0)), side as f32 / 16.0) {
        for y in bar.top().round() as usize..(bar.bottom().round() as usize).min(side) {
            let row = y * side;
            pixels[row + bar.left().round() as usize..row + bar.right().round() as usize].fill(colors[color]);
        }
    }
    pixels.iter().flat_map(Color32::to_array).collect()
}

/// Where the bars of the mark lie, `gap` points between rows, and which colour each has.
fn bars(rect: Rect, gap: f32) -> impl Iterator<Item = (Rect, usize)> {
    let cell = rect.width() / 8.0;
    let height = (rect.height() - 2.0 * gap) / 3.0;
    BARS.into_iter().map(move |(row, from, cells, color)| {
        let min = rect.min + vec2(f32::from(from) * cell, f32::from(row) * (height + gap));
        let size = vec2(f32::from(cells) * cell - gap.min(1.0 + cell / 8.0), height);
        (Rect::from_min_size(min, size), usize::from(color))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_icon_has_all_colours_and_clear_gaps() {
        let colors = [Color32::RED, Color32::GREEN, Color32::BLUE];
        let image = mark_image(64, colors);
        assert_eq!(image.len(), 64 * 64 * 4);
        let count = |color: Color32| image.chunks_exact(4).filter(|pixel| *pixel == color.to_array()).count();
        assert!(colors.into_iter().all(|color| count(color) > 100));
        assert!(count(Color32::TRANSPARENT) > 400);
    }
}
