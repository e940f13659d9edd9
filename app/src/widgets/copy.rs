//! Takes text out of the window: a button beside a line to copy, and a menu on a right click.

use egui::{Response, Sense, Ui};

use super::controls;
use super::icon::Icon;
use crate::theme::Theme;

/// A small button that copies `text`. `name` is its accessible name and its tooltip.
pub fn button(ui: &mut Ui, theme: &Theme, name: &str, text: &str) -> Response {
    let response = controls::icon_button(ui, theme, Icon::Copy, "", name);
    if response.clicked() {
        ui.ctx().copy_text(text.to_owned());
    }
    response
}

/// A menu on a right click that offers each of `texts` for copying. Does not put what it hangs on into the keyboard's round.
pub fn menu(response: &Response, texts: &[&str]) {
    response.interact(Sense::CLICK).context_menu(|ui| {
        for text in texts {
            if ui.button(format!("Copy \u{201c}{text}\u{201d}")).clicked() {
                ui.ctx().copy_text((*text).to_owned());
                ui.close();
            }
        }
    });
}
