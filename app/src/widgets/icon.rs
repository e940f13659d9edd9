//! Icons drawn from lines, so that they are sharp at every scale and need no font.

use egui::{Color32, CornerRadius, Painter, Pos2, Rect, Shape, Stroke, pos2, vec2};

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
    /// An arrow to the left: back to the start page.
    Back,
}

/// Paints an icon into a square of 16 points around `center`.
pub fn paint(painter: &Painter, center: Pos2, icon: Icon, color: Color32) {
    let stroke = Stroke::new(1.4, color);
    let at = |x: f32, y: f32| center + vec2(x, y);
    let line = |points: &[(f32, f32)]| {
        painter.add(Shape::line(points.iter().map(|&(x, y)| at(x, y)).collect(), stroke));
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
        Icon::Back => {
            line(&[(-1.0, -4.5), (-5.5, 0.0), (-1.0, 4.5)]);
            line(&[(-5.5, 0.0), (5.5, 0.0)]);
        }
    }
}

/// The program's mark: a segment with blocks and gaps, as the block map draws them.
pub fn mark(painter: &Painter, rect: Rect, colors: [Color32; 3]) {
    let cell = rect.width() / 8.0;
    let height = rect.height() / 3.0 - 1.0;
    let bar = |row: f32, from: f32, cells: f32, color: Color32| {
        let min = pos2(rect.min.x + from * cell, rect.min.y + row * (height + 1.5));
        painter.rect_filled(Rect::from_min_size(min, vec2(cells * cell - 1.0, height)), CornerRadius::same(1), color);
    };
    let [strong, middle, weak] = colors;
    bar(0.0, 0.0, 5.0, strong);
    bar(0.0, 5.0, 3.0, weak);
    bar(1.0, 0.0, 2.0, middle);
    bar(1.0, 3.0, 5.0, strong);
    bar(2.0, 0.0, 3.0, strong);
    bar(2.0, 3.0, 2.0, middle);
    bar(2.0, 6.0, 2.0, weak);
}
