//! The list of keys and gestures, over everything else.

use egui::{Grid, Id, Modal, RichText, ScrollArea, Ui};

use crate::command::{Command, Commands};
use crate::theme::{Theme, UNIT};
use crate::widgets::controls;
use crate::widgets::icon::Icon;

/// Keys with what they do.
const KEYS: [(&[&str], &str); 15] = [
    (&["Space"], "Play or pause"),
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
    (&["1 \u{2013} 4"], "Open a demo, on the start page"),
    (&["Esc"], "Close, end a measurement"),
    (&["?"], "This list"),
];

/// Gestures with what they do.
const GESTURES: [(&str, &str); 6] = [
    ("Wheel", "Zoom at the pointer"),
    ("Drag", "Move the timeline or the map"),
    ("Click", "Put the cursor there; in the map, select a block"),
    ("Drag the ruler", "Move the cursor along"),
    ("Shift + drag", "Measure between two instants"),
    ("Double-click", "Show the whole recording; in the map, a segment"),
];

/// Width of the list in points.
const WIDTH: f32 = 180.0 * UNIT;

/// Shows the list.
pub fn show(ui: &Ui, theme: &Theme, commands: &Commands) {
    let frame = egui::Frame::popup(ui.style()).inner_margin(egui::Margin::same(20));
    let id = Id::unique("help");
    let room = ui.ctx().content_rect().height() - 24.0 * UNIT;
    let area = Modal::default_area(id).default_height(room);
    let modal = Modal::new(id).area(area).frame(frame).show(ui.ctx(), |ui| {
        ui.set_width(WIDTH.min(ui.ctx().content_rect().width() - 20.0 * UNIT));
        ui.horizontal(|ui| {
            ui.label(theme.heading("Keys and gestures"));
            ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
                if controls::icon_button(ui, theme, Icon::Close, "", "Close the list of keys").clicked() {
                    commands.send(Command::ToggleHelp);
                }
            });
        });
        ui.add_space(3.0 * UNIT);
        ScrollArea::vertical().max_height(room - 16.0 * UNIT).show(ui, |ui| {
            ui.horizontal_top(|ui| {
                ui.spacing_mut().interact_size.y = 5.5 * UNIT;
                keys(ui, theme);
                ui.add_space(8.0 * UNIT);
                gestures(ui, theme);
            });
        });
    });
    if modal.backdrop_response.clicked() {
        commands.send(Command::ToggleHelp);
    }
}

fn keys(ui: &mut Ui, theme: &Theme) {
    table(ui, "keys", 24.0 * UNIT, KEYS.len(), |ui, row| {
        let (keys, meaning) = KEYS[row];
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = UNIT;
            for key in keys {
                controls::key_cap(ui, theme, key);
            }
        });
        ui.label(meaning);
    });
}

fn gestures(ui: &mut Ui, theme: &Theme) {
    table(ui, "gestures", 24.0 * UNIT, GESTURES.len(), |ui, row| {
        let (gesture, meaning) = GESTURES[row];
        ui.label(RichText::new(gesture).color(theme.muted));
        ui.label(meaning);
    });
}

fn table(ui: &mut Ui, id: &str, first: f32, rows: usize, mut row: impl FnMut(&mut Ui, usize)) {
    Grid::new(id).num_columns(2).min_col_width(first).spacing([3.0 * UNIT, 1.5 * UNIT]).show(ui, |ui| {
        for index in 0..rows {
            row(ui, index);
            ui.end_row();
        }
    });
}
