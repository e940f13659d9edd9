//! Buttons, switches and fields in our look. Each has an accessible name, a keyboard focus ring, and sends nothing itself.

use egui::{
    Align2, Color32, CornerRadius, Id, Rect, Response, Role, Sense, Stroke, StrokeKind, TextEdit, Ui, Vec2, WidgetInfo,
    vec2,
};

use crate::theme::{self, BODY, CONTROL, RADIUS, SMALL, Theme, UNIT};
use crate::widgets::icon::{self, Icon};

/// The one button of a screen that matters most.
pub fn primary(ui: &mut Ui, theme: &Theme, text: &str) -> Response {
    let galley = ui.painter().layout_no_wrap(text.to_owned(), theme::strong(BODY), theme.on_accent);
    let size = vec2(galley.size().x + 8.0 * UNIT, CONTROL + UNIT);
    let (rect, response) = ui.allocate_exact_size(size, Sense::click());
    let fill = if response.hovered() { theme::mix(theme.accent, theme.text, 0.14) } else { theme.accent };
    ui.painter().rect_filled(rect, CornerRadius::same(RADIUS), fill);
    ui.painter().galley(rect.center() - galley.size() / 2.0, galley, theme.on_accent);
    finish(ui, theme, &response, rect, text);
    response
}

/// An ordinary button: a frame, no fill until it is hovered.
pub fn button(ui: &mut Ui, theme: &Theme, text: &str) -> Response {
    let galley = ui.painter().layout_no_wrap(text.to_owned(), theme::font(BODY), theme.text);
    let (rect, response) = ui.allocate_exact_size(vec2(galley.size().x + 6.0 * UNIT, CONTROL), Sense::click());
    let fill = surface(theme, &response, theme.raised);
    let stroke = Stroke::new(1.0, theme.line_strong);
    ui.painter().rect(rect, CornerRadius::same(RADIUS), fill, stroke, StrokeKind::Inside);
    ui.painter().galley(rect.center() - galley.size() / 2.0, galley, theme.text);
    finish(ui, theme, &response, rect, text);
    response
}

/// A button with an icon and, after it, an optional text. `name` is its accessible name and, without a text, its tooltip.
pub fn icon_button(ui: &mut Ui, theme: &Theme, shape: Icon, text: &str, name: &str) -> Response {
    let galley = ui.painter().layout_no_wrap(text.to_owned(), theme::font(BODY), theme.text);
    let width = if text.is_empty() { CONTROL } else { galley.size().x + CONTROL + 2.0 * UNIT };
    let (rect, response) = ui.allocate_exact_size(vec2(width, CONTROL), Sense::click());
    let color = if response.hovered() { theme.text } else { theme.muted };
    ui.painter().rect_filled(rect, CornerRadius::same(RADIUS), surface(theme, &response, Color32::TRANSPARENT));
    icon::paint(ui.painter(), rect.left_center() + vec2(CONTROL / 2.0, 0.0), shape, color);
    let place = rect.left_center() + vec2(CONTROL, -galley.size().y / 2.0);
    ui.painter().galley_with_override_text_color(place, galley, color);
    finish(ui, theme, &response, rect, name);
    if text.is_empty() { response.on_hover_text(name) } else { response }
}

/// One of a few choices that stand side by side. Returns the index of the one that was clicked.
pub fn segmented(ui: &mut Ui, theme: &Theme, name: &str, options: &[&str], chosen: usize) -> Option<usize> {
    let galleys: Vec<_> = options
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let color = if index == chosen { theme.text } else { theme.muted };
            ui.painter().layout_no_wrap((*text).to_owned(), theme::font(BODY), color)
        })
        .collect();
    let width: f32 = galleys.iter().map(|galley| galley.size().x + 5.0 * UNIT).sum();
    let (frame, _) = ui.allocate_exact_size(vec2(width + 4.0, CONTROL), Sense::hover());
    let stroke = Stroke::new(1.0, theme.line_strong);
    ui.painter().rect(frame, CornerRadius::same(RADIUS), theme.canvas, stroke, StrokeKind::Inside);
    let mut clicked = None;
    let mut left = frame.left() + 2.0;
    for (index, galley) in galleys.into_iter().enumerate() {
        let size = vec2(galley.size().x + 5.0 * UNIT, CONTROL - 4.0);
        let rect = Rect::from_min_size(egui::pos2(left, frame.top() + 2.0), size);
        left += size.x;
        let response = ui.interact(rect, Id::unique((name, index)), Sense::click());
        let radius = CornerRadius::same(RADIUS - 2);
        if index == chosen {
            ui.painter().rect_filled(rect, radius, theme.pressed);
        } else if response.hovered() {
            ui.painter().rect_filled(rect, radius, theme.hover);
        }
        ui.painter().galley(rect.center() - galley.size() / 2.0, galley, theme.text);
        focus_ring(ui, theme, &response, rect);
        let label = format!("{name}: {}", options[index]);
        response.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, index == chosen, &label));
        if response.clicked() && index != chosen {
            clicked = Some(index);
        }
    }
    clicked
}

/// A colour with a name that can be switched on and off, and a value beside it.
pub fn legend(ui: &mut Ui, theme: &Theme, color: Color32, name: &str, value: &str, on: bool) -> Response {
    let (ink, text) = if on { (color, theme.muted) } else { (theme.line_strong, theme.faint) };
    let label = ui.painter().layout_no_wrap(name.to_owned(), theme::font(SMALL + 1.0), text);
    let number_color = if on { theme.text } else { theme.faint };
    let number = ui.painter().layout_no_wrap(value.to_owned(), theme::mono(SMALL + 1.0), number_color);
    let room = if value.is_empty() { 0.0 } else { number.size().x.max(9.0 * 7.0) };
    let width = 4.0 * UNIT + label.size().x + 2.0 * UNIT + room + 2.0 * UNIT;
    let (rect, response) = ui.allocate_exact_size(vec2(width, CONTROL - UNIT), Sense::click());
    if response.hovered() {
        ui.painter().rect_filled(rect, CornerRadius::same(RADIUS - 2), theme.hover);
    }
    let swatch = Rect::from_center_size(rect.left_center() + vec2(2.5 * UNIT, 0.0), Vec2::splat(2.0 * UNIT));
    if on {
        ui.painter().rect_filled(swatch, CornerRadius::same(2), ink);
    } else {
        ui.painter().rect_stroke(swatch, CornerRadius::same(2), Stroke::new(1.0, ink), StrokeKind::Inside);
    }
    let x = rect.left() + 4.5 * UNIT;
    let middle = rect.center().y;
    let (label_size, number_size) = (label.size(), number.size());
    ui.painter().galley(egui::pos2(x, middle - label_size.y / 2.0), label, text);
    let place = egui::pos2(x + label_size.x + 1.5 * UNIT, middle - number_size.y / 2.0);
    ui.painter().galley(place, number, number_color);
    focus_ring(ui, theme, &response, rect);
    let spoken = format!("Show {name}");
    response.widget_info(|| WidgetInfo::selected(Role::CheckBox, true, on, &spoken));
    response
}

/// A field for one line of text. `name` is its accessible name.
pub fn field(ui: &mut Ui, theme: &Theme, name: &str, hint: &str, width: f32, text: &mut String) -> Response {
    let edit = TextEdit::singleline(text)
        .hint_text(egui::RichText::new(hint).color(theme.faint))
        .font(theme::font(BODY))
        .desired_width(width)
        .min_size(vec2(0.0, CONTROL))
        .align(Align2::LEFT_CENTER)
        .margin(egui::Margin::symmetric(8, 4));
    let response = ui.add(edit);
    response.widget_info(|| WidgetInfo::text_edit(true, "", &*text, name));
    ui.ctx().accesskit_node_builder(response.id, |node| node.set_label(name));
    response
}

/// A key as it is printed on a keyboard.
pub fn key_cap(ui: &mut Ui, theme: &Theme, key: &str) {
    let galley = ui.painter().layout_no_wrap(key.to_owned(), theme::font(SMALL), theme.text);
    let size = vec2((galley.size().x + 3.0 * UNIT).max(5.0 * UNIT), 5.0 * UNIT);
    let (rect, _) = ui.allocate_exact_size(size, Sense::hover());
    let stroke = Stroke::new(1.0, theme.line_strong);
    ui.painter().rect(rect, CornerRadius::same(4), theme.panel, stroke, StrokeKind::Inside);
    ui.painter().galley(rect.center() - galley.size() / 2.0, galley, theme.text);
}

/// A faint sentence in the middle of an empty area: what to do to fill it.
pub fn empty(ui: &Ui, theme: &Theme, rect: Rect, sentence: &str) {
    ui.painter().text(rect.center(), Align2::CENTER_CENTER, sentence, theme::font(BODY), theme.muted);
}

fn surface(theme: &Theme, response: &Response, rest: Color32) -> Color32 {
    if response.is_pointer_button_down_on() {
        theme.pressed
    } else if response.hovered() {
        theme.hover
    } else {
        rest
    }
}

fn finish(ui: &Ui, theme: &Theme, response: &Response, rect: Rect, name: &str) {
    focus_ring(ui, theme, response, rect);
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, name));
}

/// Shows which control the keyboard acts on.
pub fn focus_ring(ui: &Ui, theme: &Theme, response: &Response, rect: Rect) {
    if response.has_focus() {
        let stroke = Stroke::new(1.5, theme.accent);
        ui.painter().rect_stroke(rect.expand(1.0), CornerRadius::same(RADIUS), stroke, StrokeKind::Outside);
    }
}
