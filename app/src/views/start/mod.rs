//! The start page: open a recording, try one that comes with the program, or learn how to make one.

mod card;
mod record;

use std::path::PathBuf;

use egui::{Align, Layout, Rect, ScrollArea, Ui, UiBuilder, vec2};

use crate::command::{Command, Commands};
use crate::demos::DEMOS;
use crate::theme::{CONTROL, Theme, UNIT};
use crate::widgets::controls;
use crate::widgets::icon;

pub use card::Preview;

/// Width of the page's column in points.
const COLUMN: f32 = 928.0;

/// What the page remembers between frames.
#[derive(Default)]
pub struct StartView {
    path: String,
}

/// What the page shows beside itself.
pub struct StartPage<'a> {
    /// The colours.
    pub theme: &'a Theme,
    /// A picture of each demo in the order of [`DEMOS`]; `None` while it is being made.
    pub previews: [Option<&'a Preview>; DEMOS.len()],
    /// Why the last attempt to open something failed, as a sentence.
    pub notice: Option<&'a str>,
    /// Where wishes go.
    pub commands: &'a Commands,
}

impl StartView {
    /// Paints the page into the whole of `ui`.
    pub fn show(&mut self, ui: &mut Ui, page: &StartPage<'_>) {
        let all = ui.max_rect();
        ui.painter().rect_filled(all, 0.0, page.theme.canvas);
        ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
            let width = COLUMN.min(all.width() - 12.0 * UNIT);
            let top = ((all.height() - 640.0) / 2.4).max(6.0 * UNIT);
            let left = ((all.width() - width) / 2.0).round();
            let place = Rect::from_min_size(ui.min_rect().min + vec2(left, top.round()), vec2(width, 0.0));
            let builder = UiBuilder::new().max_rect(place).layout(Layout::top_down(Align::Min));
            let used = ui.scope_builder(builder, |ui| self.column(ui, page, width)).response.rect;
            ui.allocate_rect(used.expand2(vec2(0.0, 6.0 * UNIT)), egui::Sense::hover());
        });
    }

    fn column(&mut self, ui: &mut Ui, page: &StartPage<'_>, width: f32) {
        let theme = page.theme;
        ui.horizontal(|ui| {
            let (rect, _) = ui.allocate_exact_size(vec2(32.0, 28.0), egui::Sense::hover());
            icon::mark(ui.painter(), rect, [theme.accent, theme.categories[2], theme.line_strong]);
            ui.add_space(UNIT);
            ui.label(theme.title("vramscope"));
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                if controls::icon_button(ui, theme, icon::Icon::Contrast, "", "Dark or light").clicked() {
                    page.commands.send(Command::ToggleTheme);
                }
                if controls::icon_button(ui, theme, icon::Icon::Help, "", "Keys and gestures").clicked() {
                    page.commands.send(Command::ToggleHelp);
                }
            });
        });
        ui.add_space(UNIT);
        ui.label(
            egui::RichText::new("See where a training job\u{2019}s GPU memory goes: every block, at every instant.")
                .color(theme.muted),
        );
        ui.add_space(8.0 * UNIT);
        self.open(ui, page, width);
        ui.add_space(8.0 * UNIT);
        ui.horizontal(|ui| {
            ui.label(theme.heading("Demo recordings"));
            ui.label(theme.hint("keys 1 to 4"));
        });
        ui.add_space(2.0 * UNIT);
        card::row(ui, page, width);
        ui.add_space(8.0 * UNIT);
        ui.label(theme.heading("Record your own"));
        ui.add_space(2.0 * UNIT);
        record::steps(ui, theme, width);
    }

    fn open(&mut self, ui: &mut Ui, page: &StartPage<'_>, width: f32) {
        let theme = page.theme;
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = 2.0 * UNIT;
            if controls::primary(ui, theme, "Open recording\u{2026}").clicked() {
                page.commands.send(Command::ChooseFiles);
            }
            if controls::button(ui, theme, "Folder of ranks\u{2026}").clicked() {
                page.commands.send(Command::ChooseFolder);
            }
            ui.add_space(2.0 * UNIT);
            let right = Layout::right_to_left(Align::Center);
            let room = vec2(width - (ui.cursor().left() - ui.min_rect().left()), CONTROL + UNIT);
            ui.allocate_ui_with_layout(room, right, |ui| {
                let clicked = controls::button(ui, theme, "Open").clicked();
                let room = ui.available_width() - 4.0 * UNIT - 2.0;
                let field = controls::field(ui, theme, "Path of a recording", "or type a path", room, &mut self.path);
                let entered = field.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
                if (entered || clicked) && !self.path.trim().is_empty() {
                    page.commands.send(Command::Open(vec![PathBuf::from(self.path.trim())]));
                }
            });
        });
        ui.add_space(2.0 * UNIT);
        match page.notice {
            Some(sentence) => {
                ui.horizontal_top(|ui| {
                    let (rect, _) = ui.allocate_exact_size(vec2(16.0, 16.0), egui::Sense::hover());
                    icon::paint(ui.painter(), rect.center(), icon::Icon::Warning, theme.danger);
                    ui.add(egui::Label::new(egui::RichText::new(sentence).color(theme.danger)).wrap());
                });
            }
            None => {
                let hint = "A PyTorch memory snapshot: .pickle, .pickle.gz, .json, or the HTML page that shows one. \
                            Several files, or a folder, are ranks of one job. Or drop them on this window.";
                ui.label(theme.caption(hint));
            }
        }
    }
}

/// Says, over everything else, that files held over the window can be dropped.
pub fn drop_hint(ui: &Ui, theme: &Theme) {
    let all = ui.ctx().content_rect();
    let painter = ui.ctx().layer_painter(egui::LayerId::new(egui::Order::Foreground, egui::Id::unique("drop")));
    painter.rect_filled(all, 0.0, theme.canvas.gamma_multiply(0.85));
    let frame = egui::Stroke::new(2.0, theme.accent);
    painter.rect_stroke(all.shrink(3.0 * UNIT), 8.0, frame, egui::StrokeKind::Inside);
    let font = crate::theme::strong(crate::theme::TITLE);
    painter.text(all.center(), egui::Align2::CENTER_CENTER, "Drop to open", font, theme.text);
}
