//! The bar above the map: play, step, pace, and what the colours tell.

use egui::{Align, Layout, Popup, Rect, Response, Role, Sense, Ui, UiBuilder, WidgetInfo, vec2};

use crate::command::Command;
use crate::ctx::{ColorBy, Ctx};
use crate::playback::Pace;
use crate::theme::{self, CONTROL, RADIUS, SMALL, UNIT};
use crate::widgets::icon::{self, Icon};
use crate::widgets::{controls, number, time};

/// Paints the bar.
pub(super) fn show(ui: &mut Ui, ctx: &Ctx<'_>, rect: Rect) {
    let theme = ctx.theme;
    let inner = rect.shrink2(vec2(3.0 * UNIT, 0.0));
    let builder = UiBuilder::new().max_rect(inner).layout(Layout::left_to_right(Align::Center));
    ui.scope_builder(builder, |ui| {
        ui.spacing_mut().item_spacing.x = UNIT;
        buttons(ui, ctx);
        let pace = picker(ui, ctx, "Pace", &ctx.playback.pace.name());
        menu(&pace, &Pace::CHOICES.map(|pace| (pace.name(), pace == ctx.playback.pace)), |index| {
            ctx.commands.send(Command::SetPace(Pace::CHOICES[index]));
        });
        ui.add_space(2.0 * UNIT);
        position(ui, ctx);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let by = picker(ui, ctx, "Colour by", ctx.color_by.name());
            menu(&by, &ColorBy::ALL.map(|by| (by.name().to_owned(), by == ctx.color_by)), |index| {
                ctx.commands.send(Command::ColorBlocks(ColorBy::ALL[index]));
            });
            ui.label(theme.caption("colour by"));
        });
    });
}

fn buttons(ui: &mut Ui, ctx: &Ctx<'_>) {
    let theme = ctx.theme;
    if controls::icon_button(ui, theme, Icon::StepBack, "", "One event back").clicked() {
        ctx.commands.send(Command::StepCursor(-1));
    }
    let (shape, name) = if ctx.playback.playing { (Icon::Pause, "Pause") } else { (Icon::Play, "Play") };
    if controls::icon_button(ui, theme, shape, "", name).clicked() {
        ctx.commands.send(Command::TogglePlay);
    }
    if controls::icon_button(ui, theme, Icon::StepOn, "", "One event on").clicked() {
        ctx.commands.send(Command::StepCursor(1));
    }
}

/// Where the cursor is.
fn position(ui: &mut Ui, ctx: &Ctx<'_>) {
    let theme = ctx.theme;
    let end = ctx.history.end();
    let (at, of) = match (ctx.axis.elapsed(ctx.cursor), ctx.axis.elapsed(end)) {
        (Some(at), Some(of)) => (time::duration(at), time::duration(of)),
        _ => {
            let (before, all) = ctx.entries();
            (number::text(before), number::of(all, "event", "events"))
        }
    };
    ui.label(egui::RichText::new(at).font(theme::mono(SMALL + 1.0)).color(theme.text));
    ui.label(theme.hint(format!("of {of}")));
}

/// A choice that opens a list.
fn picker(ui: &mut Ui, ctx: &Ctx<'_>, what: &str, name: &str) -> Response {
    let theme = ctx.theme;
    let galley = ui.painter().layout_no_wrap(name.to_owned(), theme::font(SMALL + 1.0), theme.text);
    let size = vec2(galley.size().x + 8.0 * UNIT, CONTROL - UNIT);
    let (rect, response) = ui.allocate_exact_size(size, Sense::click());
    let open = Popup::is_id_open(ui.ctx(), Popup::default_response_id(&response));
    let fill = if response.hovered() || open { theme.hover } else { theme.raised };
    let stroke = egui::Stroke::new(1.0, theme.line_strong);
    ui.painter().rect(rect, egui::CornerRadius::same(RADIUS), fill, stroke, egui::StrokeKind::Inside);
    let place = super::paint::at_left(rect.left() + 2.0 * UNIT, rect.center().y, galley.size());
    ui.painter().galley(place, galley, theme.text);
    icon::paint(ui.painter(), rect.right_center() - vec2(3.0 * UNIT, 0.0), Icon::More, theme.muted);
    controls::focus_ring(ui, theme, &response, rect);
    response.widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, format!("{what}: {name}")));
    response
}

/// The list of a choice.
fn menu(picker: &Response, choices: &[(String, bool)], mut chosen: impl FnMut(usize)) {
    Popup::menu(picker).show(|ui| {
        for (index, (name, current)) in choices.iter().enumerate() {
            if ui.selectable_label(*current, name.as_str()).clicked() {
                chosen(index);
            }
        }
    });
}
