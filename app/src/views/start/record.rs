//! The part of the start page that says how to make a recording: three lines of Python, and what to do with the file.

use egui::{CornerRadius, Frame, Margin, Stroke, Ui};

use crate::theme::{self, SMALL, Theme, UNIT};
use crate::widgets::copy;

/// The steps, each with its line of code.
const STEPS: [(&str, &str); 3] = [
    ("Before the part that matters", "torch.cuda.memory._record_memory_history(max_entries=1_000_000)"),
    ("After it, or where it fails", "torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")"),
    ("In a terminal", "vramscope open snapshot.pickle"),
];

/// Paints the steps in one frame of `width` points.
pub(super) fn steps(ui: &mut Ui, theme: &Theme, width: f32) {
    let frame = Frame::new()
        .fill(theme.panel)
        .stroke(Stroke::new(1.0, theme.line))
        .corner_radius(CornerRadius::same(theme::RADIUS))
        .inner_margin(Margin::symmetric(16, 12));
    frame.show(ui, |ui| {
        ui.set_width(width - 34.0);
        ui.spacing_mut().item_spacing.y = 2.0 * UNIT;
        for (index, (when, code)) in STEPS.into_iter().enumerate() {
            ui.horizontal(|ui| {
                ui.spacing_mut().interact_size.y = 5.0 * UNIT;
                let number = egui::RichText::new((index + 1).to_string()).font(theme::mono(SMALL)).color(theme.faint);
                ui.add_sized([3.0 * UNIT, 5.0 * UNIT], egui::Label::new(number));
                let label = egui::Label::new(theme.caption(when)).halign(egui::Align::Min);
                ui.scope(|ui| {
                    ui.set_width(46.0 * UNIT);
                    ui.add(label);
                });
                let rich = egui::RichText::new(code).font(theme::mono(SMALL + 1.0)).color(theme.text);
                ui.add(egui::Label::new(rich).selectable(true));
                copy::button(ui, theme, &format!("Copy line {}", index + 1), code);
            });
        }
    });
}
