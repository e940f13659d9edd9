//! The list of keys and gestures, over everything else.

use egui::{Grid, Id, Modal, RichText, Ui};

use crate::command::{Command, Commands};
use crate::theme::{self, Theme, UNIT};
use crate::widgets::controls;
use crate::widgets::icon::Icon;

/// Keys with what they do.
const KEYS: [(&[&str], &str); 13] = [
    (&["\u{2190}", "\u{2192}"], "Previous or next event"),
    (&["Shift", "\u{2190} \u{2192}"], "A hundred events back or on"),
    (&["Home", "End"], "First or last event"),
    (&["P"], "Peak of allocated memory"),
    (&["W", "S"], "Zoom in or out around the cursor"),
    (&["A", "D"], "Move left or right"),
    (&["0"], "Show the whole recording"),
    (&["T"], "Time or events on the axis"),
    (&["["], "Previous rank or file"),
    (&["]"], "Next rank or file"),
    (&["Ctrl", "O"], "Open a recording"),
    (&["Esc"], "Close what lies on top, end a measurement"),
    (&["?"], "This list"),
];

/// Gestures with what they do.
const GESTURES: [(&str, &str); 6] = [
    ("Wheel", "Zoom at the pointer"),
    ("Drag", "Move the timeline"),
    ("Click", "Put the cursor there"),
    ("Drag the ruler", "Move the cursor along"),
    ("Shift + drag", "Measure between two instants"),
    ("Double-click", "Show the whole recording"),
];

/// Shows the list.
pub fn show(ui: &Ui, theme: &Theme, commands: &Commands) {
    let modal = Modal::new(Id::unique("help")).show(ui.ctx(), |ui| {
        ui.set_width(110.0 * UNIT);
        ui.horizontal(|ui| {
            ui.label(theme.heading("Keys and gestures"));
            ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
                if controls::icon_button(ui, theme, Icon::Close, "", "Close the list of keys").clicked() {
                    commands.send(Command::ToggleHelp);
                }
            });
        });
        ui.add_space(2.0 * UNIT);
        table(ui, "keys", KEYS.len(), |ui, row| {
            let (keys, meaning) = KEYS[row];
            ui.horizontal(|ui| {
                ui.spacing_mut().item_spacing.x = UNIT;
                for key in keys {
                    controls::key_cap(ui, theme, key);
                }
            });
            ui.label(meaning);
        });
        ui.add_space(4.0 * UNIT);
        table(ui, "gestures", GESTURES.len(), |ui, row| {
            let (gesture, meaning) = GESTURES[row];
            ui.label(RichText::new(gesture).font(theme::font(theme::BODY)).color(theme.muted));
            ui.label(meaning);
        });
    });
    if modal.backdrop_response.clicked() {
        commands.send(Command::ToggleHelp);
    }
}

fn table(ui: &mut Ui, id: &str, rows: usize, mut row: impl FnMut(&mut Ui, usize)) {
    ui.spacing_mut().interact_size.y = 5.5 * UNIT;
    Grid::new(id).num_columns(2).min_col_width(34.0 * UNIT).spacing([4.0 * UNIT, 1.5 * UNIT]).show(ui, |ui| {
        for index in 0..rows {
            row(ui, index);
            ui.end_row();
        }
    });
}
