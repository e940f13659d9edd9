//! Demo recordings as cards: a real picture of the recording, a title, a story of one sentence, its peak.

use egui::epaint::{Mesh, Shape};
use egui::{CornerRadius, Rect, Response, Role, Sense, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};

use super::StartPage;
use crate::command::Command;
use crate::demos::{DEMOS, Demo};
use crate::theme::{self, BODY, RADIUS, SMALL, Theme, UNIT};
use crate::widgets::{bytes, controls, number};

const GAP: f32 = 4.0 * UNIT;
const PICTURE: f32 = 22.0 * UNIT;
const HEIGHT: f32 = 58.0 * UNIT;

/// A recording in small: what a card shows of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// Highest reserved value in bytes.
    pub peak_reserved: u64,
    /// Highest allocated value in bytes.
    pub peak_allocated: u64,
    /// Events in the recording.
    pub entries: u64,
    /// Per column of the picture, left to right: highest reserved and highest allocated value in bytes.
    pub columns: Vec<[u64; 2]>,
    /// Allocations that failed, as parts of the width (0 to 1).
    pub ooms: Vec<f32>,
}

/// Paints all cards side by side.
pub(super) fn row(ui: &mut Ui, page: &StartPage<'_>, width: f32) {
    let count = DEMOS.len() as f32;
    let card = ((width - GAP * (count - 1.0)) / count).floor();
    ui.horizontal_top(|ui| {
        ui.spacing_mut().item_spacing.x = GAP;
        for (index, (demo, preview)) in DEMOS.iter().zip(page.previews).enumerate() {
            if one(ui, page.theme, index + 1, demo, preview, card).clicked() {
                page.commands.send(Command::OpenDemo(demo.name));
            }
        }
    });
}

fn one(ui: &mut Ui, theme: &Theme, key: usize, demo: &Demo, preview: Option<&Preview>, width: f32) -> Response {
    let (rect, response) = ui.allocate_exact_size(vec2(width, HEIGHT), Sense::click());
    let response = response.on_hover_cursor(egui::CursorIcon::PointingHand);
    let hovered = response.hovered();
    let (fill, line) = if hovered { (theme.hover, theme.accent) } else { (theme.panel, theme.line) };
    let radius = CornerRadius::same(RADIUS);
    ui.painter().rect(rect, radius, fill, Stroke::new(1.0, line), StrokeKind::Inside);
    let inner = rect.shrink(3.5 * UNIT);
    let picture = Rect::from_min_size(inner.min, vec2(inner.width(), PICTURE));
    if let Some(preview) = preview {
        sparkline(ui, theme, preview, picture, fill);
    }
    let mut y = picture.max.y + 3.5 * UNIT;
    let corner = pos2(inner.right(), y);
    let mut text = |string: &str, font: egui::FontId, color, gap: f32| {
        let galley = ui.painter().layout(string.to_owned(), font, color, inner.width());
        let height = galley.size().y;
        ui.painter().galley(pos2(inner.left(), y), galley, color);
        y += height + gap;
    };
    text(demo.title, theme::strong(BODY), theme.text, 1.5 * UNIT);
    text(demo.story, theme::font(SMALL + 1.0), theme.muted, 0.0);
    ui.painter().text(corner, egui::Align2::RIGHT_TOP, key, theme::mono(SMALL), theme.faint);
    if let Some(preview) = preview {
        let peak = bytes::text(preview.peak_reserved);
        let painter = ui.painter();
        let low = inner.bottom();
        painter.text(pos2(inner.left(), low), egui::Align2::LEFT_BOTTOM, peak, theme::mono(SMALL), theme.muted);
        let events = number::of(preview.entries, "event", "events");
        painter.text(pos2(inner.right(), low), egui::Align2::RIGHT_BOTTOM, events, theme::font(SMALL), theme.faint);
    }
    controls::focus_ring(ui, theme, &response, rect);
    let label = format!("Open demo: {}", demo.title);
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, &label));
    response
}

/// The picture: reserved behind, allocated before it, one quad a column.
fn sparkline(ui: &Ui, theme: &Theme, preview: &Preview, rect: Rect, under: egui::Color32) {
    let top = preview.peak_reserved.max(1) as f32;
    let step = rect.width() / preview.columns.len().max(1) as f32;
    let mut mesh = Mesh::default();
    let colors = [theme::mix(under, theme.reserved, 0.38), theme.allocated];
    for (index, values) in preview.columns.iter().enumerate() {
        let left = rect.left() + index as f32 * step;
        for (value, color) in values.iter().zip(colors) {
            let height = rect.height() * *value as f32 / top;
            let bar = Rect::from_min_max(pos2(left, rect.bottom() - height), pos2(left + step, rect.bottom()));
            mesh.add_colored_rect(bar, color);
        }
    }
    ui.painter().add(Shape::mesh(mesh));
    for part in &preview.ooms {
        let x = ui.painter().round_to_pixel_center(rect.left() + rect.width() * part);
        ui.painter().vline(x, rect.y_range(), Stroke::new(1.0, theme.danger));
    }
}
