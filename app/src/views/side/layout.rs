//! How the panel is divided: headings, rows, hairlines.

use egui::{Align2, CornerRadius, Rect, Response, Role, Sense, Ui, WidgetInfo, pos2, vec2};

use crate::glossary::Term;
use crate::theme::{self, SMALL, Theme, UNIT, mix};
use crate::widgets::controls;
use crate::widgets::fill::Fill;

/// Left and right of everything, in points.
pub(super) const PADDING: f32 = 4.0 * UNIT;
/// Height of a row.
pub(super) const ROW: f32 = 5.0 * UNIT;

/// The heading of a section; its meaning on hover. `note` stands at its right.
pub(super) fn heading(ui: &mut Ui, theme: &Theme, term: Term, note: &str) {
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 7.0 * UNIT), Sense::hover());
    let painter = ui.painter();
    painter.text(rect.left_center(), Align2::LEFT_CENTER, term.name, theme::strong(SMALL + 1.0), theme.text);
    painter.text(rect.right_center(), Align2::RIGHT_CENTER, note, theme::font(SMALL), theme.faint);
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, term.name));
    response.on_hover_text(term.meaning);
}

/// A hairline between two sections.
pub(super) fn gap(ui: &mut Ui, theme: &Theme) {
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 3.0 * UNIT), Sense::hover());
    let y = ui.painter().round_to_pixel_center(rect.center().y);
    ui.painter().hline(rect.x_range().expand(PADDING), y, theme.hairline());
}

/// What a row shows.
#[derive(Clone, Copy, Default)]
pub(super) struct Row<'a> {
    pub fill: Option<Fill>,
    pub name: &'a str,
    /// Between name and value, faint.
    pub note: &'a str,
    pub value: &'a str,
    /// Part of the row's width that a bar behind it covers.
    pub bar: f32,
    /// Whether it is part of the row before.
    pub inset: bool,
    /// Whether it can be clicked.
    pub button: bool,
    /// Whether it is the one that is chosen.
    pub chosen: bool,
}

/// A row: a swatch, a name that is cut where it does not fit, a value at the right.
pub(super) fn row(ui: &mut Ui, theme: &Theme, row: Row<'_>) -> Response {
    let sense = if row.button { Sense::click() } else { Sense::hover() };
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), sense);
    let wide = rect.expand2(vec2(1.5 * UNIT, 0.0));
    if row.button && (response.hovered() || row.chosen) {
        ui.painter().rect_filled(wide, CornerRadius::same(4), if row.chosen { theme.pressed } else { theme.hover });
    }
    let painter = ui.painter();
    let mut left = rect.left() + if row.inset { 3.0 * UNIT } else { 0.0 };
    if row.bar > 0.0 {
        let ground = if response.hovered() && row.button { theme.hover } else { theme.panel };
        let color = mix(ground, row.fill.map_or(theme.accent, |fill| fill.color(theme)), 0.22);
        let width = rect.width() * row.bar.clamp(0.0, 1.0);
        let bar = Rect::from_min_size(rect.min + vec2(0.0, 1.0), vec2(width, rect.height() - 2.0));
        painter.rect_filled(bar, CornerRadius::same(2), color);
        left += 1.5 * UNIT;
    }
    if let Some(fill) = row.fill {
        let swatch = Rect::from_min_size(pos2(left, rect.center().y - 1.25 * UNIT), vec2(2.5 * UNIT, 2.5 * UNIT));
        fill.paint(painter, swatch, theme);
        left += 4.0 * UNIT;
    }
    let ink = if row.inset { theme.muted } else { theme.text };
    let value = painter.layout_no_wrap(row.value.to_owned(), theme::mono(SMALL), ink);
    let note = painter.layout_no_wrap(row.note.to_owned(), theme::mono(SMALL - 1.0), theme.faint);
    let value_left = rect.right() - value.size().x;
    let note_left = value_left - if row.note.is_empty() { 0.0 } else { note.size().x + 2.0 * UNIT };
    let middle = rect.center().y;
    painter.galley(pos2(value_left, middle - value.size().y / 2.0), value, ink);
    painter.galley(pos2(note_left, middle - note.size().y / 2.0), note, theme.faint);
    let room = note_left - left - 2.0 * UNIT;
    let name_ink = if row.button { theme.text } else { theme.muted };
    let name = cut(ui, row.name, name_ink, room);
    ui.painter().galley(pos2(left, middle - name.size().y / 2.0), name, name_ink);
    controls::focus_ring(ui, theme, &response, wide);
    let spoken = format!("{}: {}", row.name, row.value);
    let role = if row.button { Role::Button } else { Role::Label };
    response.widget_info(|| WidgetInfo::labeled(role, true, &spoken));
    response
}

/// Text in one line, with dots where it is cut.
fn cut(ui: &Ui, text: &str, color: egui::Color32, width: f32) -> std::sync::Arc<egui::Galley> {
    let mut job = egui::text::LayoutJob::single_section(
        text.to_owned(),
        egui::TextFormat { font_id: theme::font(SMALL + 1.0), color, ..Default::default() },
    );
    job.wrap = egui::text::TextWrapping::truncate_at_width(width.max(8.0));
    ui.painter().layout_job(job)
}

/// A sentence, small and wrapped.
pub(super) fn sentence(ui: &mut Ui, theme: &Theme, text: &str) {
    ui.add(egui::Label::new(theme.caption(text)).wrap());
}
