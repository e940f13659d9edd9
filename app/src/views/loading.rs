//! What is seen while nothing of a recording has arrived yet, and where it could not be read: how far it is, or why it failed.

use egui::{Align2, CornerRadius, Rect, Role, Sense, Ui, UiBuilder, WidgetInfo, pos2, vec2};

use crate::command::{Command, Commands};
use crate::theme::{self, BODY, Theme, UNIT};
use crate::widgets::{bytes, controls};

const WIDTH: f32 = 90.0 * UNIT;

/// What is being read.
pub struct LoadingPage<'a> {
    /// The colours.
    pub theme: &'a Theme,
    /// The recording's short name.
    pub label: &'a str,
    /// Bytes read, and bytes in all; 0 in all = unknown.
    pub progress: (u64, u64),
    /// Why it failed; goes on after the label.
    pub failed: Option<&'a str>,
    /// Where wishes go.
    pub commands: &'a Commands,
}

/// Paints the page into the whole of `ui`.
pub fn show(ui: &mut Ui, page: &LoadingPage<'_>) {
    let (all, theme) = (ui.max_rect(), page.theme);
    ui.painter().rect_filled(all, 0.0, theme.canvas);
    let top = all.center().y - 16.0 * UNIT;
    let width = WIDTH.min(all.width() - 8.0 * UNIT);
    let column = Rect::from_min_size(pos2(all.center().x - width / 2.0, top), vec2(width, 40.0 * UNIT));
    let layout = egui::Layout::top_down(egui::Align::Center);
    ui.scope_builder(UiBuilder::new().max_rect(column).layout(layout), |ui| {
        match page.failed {
            None => reading(ui, page, width),
            Some(sentence) => failed(ui, page, sentence),
        };
    });
}

fn reading(ui: &mut Ui, page: &LoadingPage<'_>, width: f32) {
    let theme = page.theme;
    ui.label(theme.heading(format!("Reading {}", page.label)));
    ui.add_space(3.0 * UNIT);
    let (done, total) = page.progress;
    let part = if total > 0 { (done as f64 / total as f64).min(1.0) as f32 } else { 0.0 };
    let (bar, response) = ui.allocate_exact_size(vec2(width, UNIT), Sense::hover());
    ui.painter().rect_filled(bar, CornerRadius::same(2), theme.raised);
    let filled = Rect::from_min_size(bar.min, vec2(bar.width() * part, bar.height()));
    ui.painter().rect_filled(filled, CornerRadius::same(2), theme.accent);
    response.widget_info(|| WidgetInfo::labeled(Role::ProgressIndicator, true, format!("{:.0} percent", part * 100.0)));
    ui.add_space(2.0 * UNIT);
    let text = if total > 0 {
        format!("{} of {}", bytes::text(done), bytes::text(total))
    } else {
        format!("{} so far", bytes::text(done))
    };
    ui.label(theme.caption(text));
    ui.add_space(5.0 * UNIT);
    if controls::button(ui, theme, "Cancel").clicked() {
        page.commands.send(Command::CancelLoading);
    }
}

fn failed(ui: &mut Ui, page: &LoadingPage<'_>, sentence: &str) {
    let theme = page.theme;
    let title = "This recording cannot be shown".to_owned();
    let galley = ui.painter().layout_no_wrap(title, theme::strong(BODY), theme.danger);
    let (rect, _) = ui.allocate_exact_size(galley.size(), Sense::hover());
    ui.painter().galley(Align2::CENTER_CENTER.anchor_size(rect.center(), galley.size()).min, galley, theme.danger);
    ui.add_space(2.0 * UNIT);
    let sentence = format!("{} {sentence}.", page.label);
    ui.add(egui::Label::new(egui::RichText::new(sentence).color(theme.text)).wrap().halign(egui::Align::Center));
    ui.add_space(5.0 * UNIT);
    if controls::button(ui, theme, "Back to the start page").clicked() {
        page.commands.send(Command::ShowStart);
    }
}
