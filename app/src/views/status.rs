//! The status line: where the cursor is, what happened there, and what is odd in the data.

use egui::{Align, Id, Layout, Popup, PopupCloseBehavior, RichText, Ui, UiBuilder, vec2};
use vramscope_model::Position;
use vramscope_trace::Problem;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::theme::{self, SMALL, UNIT};
use crate::widgets::icon::{self, Icon};
use crate::widgets::{bytes, number, time};

/// Height of the line in points.
pub const HEIGHT: f32 = 7.0 * UNIT;

/// Room that must be left for the file's format to be named.
const FORMAT_ROOM: f32 = 120.0 * UNIT;

/// What the line shows beside the cursor.
pub struct StatusLine<'a> {
    /// What is odd in the data, one entry a kind.
    pub problems: &'a [Problem],
    /// Whether the list of problems is open.
    pub open: bool,
    /// Why something could not be done, as a sentence.
    pub notice: Option<&'a str>,
}

/// Paints the line into the whole of `ui`.
pub fn show(ui: &mut Ui, ctx: &Ctx<'_>, line: &StatusLine<'_>) {
    let all = ui.max_rect();
    ui.painter().rect_filled(all, 0.0, ctx.theme.panel);
    let room = all.shrink2(vec2(4.0 * UNIT, 0.0));
    let mut ui = ui.new_child(UiBuilder::new().max_rect(room).layout(Layout::left_to_right(Align::Center)));
    ui.shrink_clip_rect(all);
    ui.spacing_mut().item_spacing.x = 5.0 * UNIT;
    ui.spacing_mut().interact_size.y = 5.0 * UNIT;
    position(&mut ui, ctx, line.notice);
    ui.with_layout(Layout::right_to_left(Align::Center), |ui| complaints(ui, ctx, line.problems, line.open));
}

fn position(ui: &mut Ui, ctx: &Ctx<'_>, notice: Option<&str>) {
    let theme = ctx.theme;
    let pair = |ui: &mut Ui, label: &str, value: String| {
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = 1.5 * UNIT;
            ui.label(theme.caption(label));
            ui.label(RichText::new(value).font(theme::mono(SMALL)).color(theme.text));
        })
        .response
    };
    let at = ctx.cursor;
    match ctx.entries() {
        (_, 0) => pair(ui, "no events", String::new()).on_hover_text("Nothing was recorded but the final state"),
        (before, all) => pair(ui, "event", format!("{} of {}", number::text(before), number::text(all)))
            .on_hover_text("Recorded events up to the cursor"),
    };
    if let Some(elapsed) = ctx.axis.elapsed(at) {
        pair(ui, "time", time::duration(elapsed)).on_hover_text("Since the first event of the recording");
    }
    if let Some((label, bytes)) = happened(ctx, at) {
        pair(ui, &label, bytes.map_or_else(String::new, bytes::text)).on_hover_text("The last event before the cursor");
    }
    if let Some(sentence) = notice {
        ui.label(RichText::new(sentence).font(theme::font(SMALL)).color(theme.danger));
    } else if let Some(info) = ctx.history.info().filter(|_| ui.available_width() > FORMAT_ROOM) {
        ui.label(theme.hint(info.format.clone()));
    }
}

/// The last event in words, with the bytes it moved.
fn happened(ctx: &Ctx<'_>, at: Position) -> Option<(String, Option<u64>)> {
    if at <= ctx.history.recording_start() {
        return Some(("start of the recording".to_owned(), None));
    }
    let event = ctx.history.event(at.last_event()?)?;
    let block = match event.subject {
        vramscope_model::Subject::Block(id) => ctx.history.block(id).map(|block| block.bytes),
        _ => None,
    };
    Some((event.label().to_owned(), event.bytes().or(block)))
}

fn complaints(ui: &mut Ui, ctx: &Ctx<'_>, problems: &[Problem], open: bool) {
    let theme = ctx.theme;
    if problems.is_empty() {
        ui.spacing_mut().item_spacing.x = UNIT;
        ui.label(theme.hint("No problems in the data"));
        let (rect, _) = ui.allocate_exact_size(vec2(16.0, 16.0), egui::Sense::hover());
        return icon::paint(ui.painter(), rect.center(), Icon::Fine, theme.categories[2]);
    }
    let text = number::of(problems.len() as u64, "kind of problem", "kinds of problems");
    let button = egui::Button::new(RichText::new(format!("\u{26a0}  {text}")).size(SMALL).color(theme.warn));
    let button = ui.add(button.frame(false).min_size(vec2(0.0, 5.0 * UNIT)));
    if button.clicked() {
        ctx.commands.send(Command::ToggleProblems);
    }
    let mut still_open = open;
    Popup::from_response(&button)
        .id(Id::unique("problems"))
        .open_bool(&mut still_open)
        .align(egui::RectAlign::TOP_END)
        .close_behavior(PopupCloseBehavior::CloseOnClickOutside)
        .show(|ui| list(ui, ctx, problems));
    if open && !still_open && !button.clicked() {
        ctx.commands.send(Command::ToggleProblems);
    }
}

fn list(ui: &mut Ui, ctx: &Ctx<'_>, problems: &[Problem]) {
    let theme = ctx.theme;
    ui.set_width(110.0 * UNIT);
    ui.spacing_mut().item_spacing.y = UNIT;
    egui::Frame::new().inner_margin(egui::Margin::same(8)).show(ui, |ui| {
        ui.label(theme.heading("What is odd in this recording"));
        egui::ScrollArea::vertical().max_height(90.0 * UNIT).show(ui, |ui| {
            for problem in problems {
                ui.add_space(2.0 * UNIT);
                ui.add(egui::Label::new(problem.kind.explanation()).wrap());
                let count = number::of(problem.count, "case", "cases");
                let text = format!("{count}. First: {}", problem.example);
                ui.add(egui::Label::new(theme.caption(text)).wrap());
            }
        });
    });
}
