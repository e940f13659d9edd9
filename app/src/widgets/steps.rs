//! Paints a series as filled steps from one summary a pixel column, so that no peak is lost however long the recording.

use egui::epaint::Mesh;
use egui::{Color32, Rect, pos2};
use vramscope_model::Column;

/// How a series looks.
#[derive(Clone, Copy, Debug)]
pub struct StepStyle {
    /// From the base up to the lowest value of a column; `None` = not filled.
    pub fill: Option<Color32>,
    /// Between the lowest and the highest value of a column, and the upper edge itself; `None` = neither is drawn.
    pub edge: Option<(Color32, Color32)>,
}

/// Thickness of the upper edge in points.
const THICKNESS: f32 = 1.0;

/// The area a series is painted into: bytes 0 at its bottom, `top` bytes at its upper edge.
#[derive(Clone, Copy, Debug)]
pub struct StepArea {
    /// Where.
    pub rect: Rect,
    /// Bytes at the upper edge, above 0.
    pub top: f64,
    /// Pixels a point: edges lie on whole pixels.
    pub pixels_per_point: f32,
}

impl StepArea {
    /// Height of a value on the screen, in points, on a whole pixel.
    pub fn y(&self, bytes: u64) -> f32 {
        let part = (bytes as f64 / self.top).clamp(0.0, 1.0) as f32;
        let y = self.rect.bottom() - self.rect.height() * part;
        (y * self.pixels_per_point).round() / self.pixels_per_point
    }
}

/// Adds a series to a mesh. Neighbouring columns that look alike become one quad; at most three quads a column are added.
pub fn add(mesh: &mut Mesh, area: &StepArea, columns: &[Column], style: StepStyle) {
    let step = area.rect.width() / columns.len().max(1) as f32;
    let x = |index: usize| area.rect.left() + index as f32 * step;
    let heights = |column: &Column| (area.y(column.max), area.y(column.min));
    let mut start = 0;
    while start < columns.len() {
        let (high, low) = heights(&columns[start]);
        let mut end = start + 1;
        while end < columns.len() && heights(&columns[end]) == (high, low) {
            end += 1;
        }
        let (left, right) = (x(start), x(end));
        let quad = |top: f32, bottom: f32| Rect::from_min_max(pos2(left, top), pos2(right, bottom));
        if let Some(fill) = style.fill {
            mesh.add_colored_rect(quad(low, area.rect.bottom()), fill);
        }
        if let Some((band, line)) = style.edge {
            if low > high {
                mesh.add_colored_rect(quad(high, low), band);
            }
            // The edge lies inside the value's own height, so that 0 bytes draw nothing below the base.
            if high < area.rect.bottom() {
                mesh.add_colored_rect(quad(high, (high + THICKNESS).min(area.rect.bottom())), line);
            }
        }
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vramscope_model::Position;

    fn column(min: u64, max: u64) -> Column {
        Column { first: min, min, max, last: max, peak_at: Position(0) }
    }

    fn painted(columns: &[Column]) -> Mesh {
        let rect = Rect::from_min_max(pos2(0.0, 0.0), pos2(columns.len() as f32, 100.0));
        let area = StepArea { rect, top: 100.0, pixels_per_point: 1.0 };
        let (fill, edge) = (Some(Color32::DARK_GRAY), Some((Color32::GRAY, Color32::WHITE)));
        let mut mesh = Mesh::default();
        add(&mut mesh, &area, columns, StepStyle { fill, edge });
        mesh
    }

    #[test]
    fn a_peak_of_one_event_in_one_column_keeps_its_height() {
        let mut columns = vec![column(10, 10); 1000];
        columns[500] = column(10, 97);
        let mesh = painted(&columns);
        let highest = mesh.vertices.iter().map(|vertex| vertex.pos.y).fold(f32::MAX, f32::min);
        assert_eq!(highest, 3.0);
    }

    #[test]
    fn columns_that_look_alike_are_one_quad() {
        assert_eq!(painted(&vec![column(10, 10); 1000]).indices.len(), 2 * 6);
        let wild: Vec<_> = (0..1000).map(|i| column(i % 7, 50 + i % 3)).collect();
        assert!(painted(&wild).indices.len() <= 3 * 6 * 1000);
        assert_eq!(painted(&[column(0, 0)]).indices.len(), 6, "an empty series has no edge");
    }
}
