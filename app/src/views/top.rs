//! The top bar: what is open, which part of it is shown, how the axis counts, theme and help.

use egui::{Align, Layout, Popup, Rect, Response, Role, Sense, Ui, UiBuilder, WidgetInfo, vec2};
use vramscope_model::Lane;

use crate::axis::AxisKind;
use crate::command::Command;
use crate::ctx::Ctx;
use crate::theme::{self, BODY, CONTROL, RADIUS, SMALL, UNIT};
use crate::widgets::icon::{self, Icon};
use crate::widgets::{bytes, controls};

/// Height of the bar in points.
pub const HEIGHT: f32 = 12.0 * UNIT;

/// What the bar shows of the open recordings.
pub struct TopBar<'a> {
    /// All recordings, ranks in order.
    pub runs: Vec<RunEntry<'a>>,
    /// The one that is shown.
    pub run: usize,
    /// Its file.
    pub origin: &'a str,
    /// Bytes read and bytes in all, while it is being read.
    pub loading: Option<(u64, u64)>,
    /// Why it could not be read to its end; goes on after its name.
    pub failed: Option<&'a str>,
}

/// One recording in the list of all.
#[derive(Clone, Copy, Debug)]
pub struct RunEntry<'a> {
    /// Its name.
    pub label: &'a str,
    /// Its highest allocated value in bytes.
    pub peak: u64,
    /// Whether it differs from the others.
    pub odd: bool,
    /// Whether nothing of it could be read.
    pub failed: bool,
}

/// Paints the bar into the whole of `ui`.
pub fn show(ui: &mut Ui, ctx: &Ctx<'_>, bar: &TopBar<'_>) {
    let (all, theme) = (ui.max_rect(), ctx.theme);
    ui.painter().rect_filled(all, 0.0, theme.panel);
    let inner = all.shrink2(vec2(3.0 * UNIT, 0.0));
    let builder = UiBuilder::new().max_rect(inner).layout(Layout::left_to_right(Align::Center));
    let mut child = ui.new_child(builder);
    child.shrink_clip_rect(all);
    child.spacing_mut().item_spacing.x = UNIT;
    left(&mut child, ctx, bar);
    child.with_layout(Layout::right_to_left(Align::Center), |ui| right(ui, ctx));
    if let Some((done, total)) = bar.loading {
        let part = if total > 0 { (done as f64 / total as f64).min(1.0) as f32 } else { 0.0 };
        let line = Rect::from_min_size(all.left_bottom() - vec2(0.0, 2.0), vec2(all.width() * part, 2.0));
        ui.painter().rect_filled(line, 0.0, theme.accent);
    }
}

fn left(ui: &mut Ui, ctx: &Ctx<'_>, bar: &TopBar<'_>) {
    let theme = ctx.theme;
    let (rect, home) = ui.allocate_exact_size(vec2(CONTROL + UNIT, CONTROL), Sense::click());
    let mark = Rect::from_center_size(rect.center(), vec2(20.0, 17.0));
    icon::mark(ui.painter(), mark, [theme.accent, theme.categories[2], theme.line_strong]);
    controls::focus_ring(ui, theme, &home, rect);
    home.widget_info(|| WidgetInfo::labeled(Role::Button, true, "Start page"));
    if home.on_hover_text("Start page").clicked() {
        ctx.commands.send(Command::ShowStart);
    }
    let name = bar.runs.get(bar.run).map_or("", |run| run.label);
    recordings(ui, ctx, bar, name);
    devices(ui, ctx);
    if let Some(sentence) = bar.failed {
        separator(ui, ctx);
        let text = egui::RichText::new("read only in part").font(theme::font(SMALL)).color(theme.danger);
        ui.label(text).on_hover_text(format!("{name} {sentence}."));
    }
    if let Some((done, total)) = bar.loading {
        separator(ui, ctx);
        let total = if total > 0 { format!(" of {}", bytes::text(total)) } else { String::new() };
        ui.label(theme.caption(format!("reading {}{total}", bytes::text(done))));
        if controls::button(ui, theme, "Cancel").clicked() {
            ctx.commands.send(Command::CancelLoading);
        }
    }
}

/// The name of what is shown; of several, a list with the peak of each.
fn recordings(ui: &mut Ui, ctx: &Ctx<'_>, bar: &TopBar<'_>, name: &str) {
    let theme = ctx.theme;
    let picker = picker(ui, ctx, "Recording", name, bar.runs.len() > 1);
    if bar.runs.len() > 1 {
        Popup::menu(&picker).show(|ui| {
            ui.label(theme.hint("highest allocated"));
            egui::ScrollArea::vertical().max_height(100.0 * UNIT).show(ui, |ui| {
                for (index, run) in bar.runs.iter().enumerate() {
                    let odd = if run.odd { "  \u{2022} differs from the others" } else { "" };
                    let figure = if run.failed { "could not be read".to_owned() } else { bytes::text(run.peak) };
                    let mut text = egui::RichText::new(format!("{}   {figure}{odd}", run.label));
                    if run.odd || run.failed {
                        text = text.color(theme.warn);
                    }
                    if ui.selectable_label(index == bar.run, text).clicked() {
                        ctx.commands.send(Command::ShowRun(index));
                    }
                }
            });
        });
        if bar.runs.iter().any(|run| run.odd) {
            let odd = bar.runs.get(bar.run).is_some_and(|run| run.odd);
            let text = if odd { "differs from the others" } else { "one differs" };
            let names: Vec<&str> = bar.runs.iter().filter(|run| run.odd).map(|run| run.label).collect();
            let why = "Peaks that lie more than a tenth away from the median of all: ";
            let text = egui::RichText::new(text).font(theme::font(SMALL)).color(theme.warn);
            ui.label(text).on_hover_text(format!("{why}{}", names.join(", ")));
        }
    }
    picker.on_hover_text(bar.origin);
}

/// The device that is shown, and a list of all there are. Devices that did nothing are listed, but there is nothing to show.
fn devices(ui: &mut Ui, ctx: &Ctx<'_>) {
    let lanes = ctx.history.lanes();
    let Some(lane) = lanes.iter().find(|lane| lane.id == ctx.lane) else { return };
    let visible = ctx.history.info().map_or(0, |info| info.devices_visible);
    let idle: Vec<u16> = (0..visible).filter(|&id| lanes.iter().all(|lane| lane.device.0 != id)).collect();
    separator(ui, ctx);
    let choice = lanes.len() + idle.len() > 1;
    let picker = picker(ui, ctx, "Device", &lane_name(lane), choice);
    if choice {
        Popup::menu(&picker).show(|ui| {
            for lane in lanes {
                if ui.selectable_label(lane.id == ctx.lane, lane_name(lane)).clicked() {
                    ctx.commands.send(Command::ShowLane(lane.id));
                }
            }
            for id in idle {
                ui.add_enabled(false, egui::Button::selectable(false, format!("GPU {id}   no events")));
            }
        });
    }
}

fn right(ui: &mut Ui, ctx: &Ctx<'_>) {
    let theme = ctx.theme;
    if controls::icon_button(ui, theme, Icon::Help, "", "Keys and gestures").clicked() {
        ctx.commands.send(Command::ToggleHelp);
    }
    if controls::icon_button(ui, theme, Icon::Contrast, "", "Dark or light").clicked() {
        ctx.commands.send(Command::ToggleTheme);
    }
    if controls::icon_button(ui, theme, Icon::Open, "", "Open a recording\u{2026}").clicked() {
        ctx.commands.send(Command::ChooseFiles);
    }
    ui.add_space(2.0 * UNIT);
    let kinds = [AxisKind::Time, AxisKind::Events];
    let chosen = kinds.iter().position(|&kind| kind == ctx.axis.kind()).unwrap_or(0);
    if let Some(clicked) = controls::segmented(ui, theme, "Axis", &["Time", "Events"], chosen) {
        ctx.commands.send(Command::SetAxis(kinds[clicked]));
    }
    if let Some(sentence) = ctx.axis.fallback() {
        ui.label(egui::RichText::new(sentence).font(theme::font(SMALL)).color(theme.warn));
    }
}

/// A name that, where there is a choice, opens a list.
fn picker(ui: &mut Ui, ctx: &Ctx<'_>, what: &str, name: &str, choice: bool) -> Response {
    let theme = ctx.theme;
    let galley = ui.painter().layout_no_wrap(name.to_owned(), theme::font(BODY), theme.text);
    let room = if choice { 5.0 * UNIT } else { 0.0 };
    let sense = if choice { Sense::click() } else { Sense::hover() };
    let (rect, response) = ui.allocate_exact_size(vec2(galley.size().x + 4.0 * UNIT + room, CONTROL), sense);
    if choice && (response.hovered() || Popup::is_id_open(ui.ctx(), Popup::default_response_id(&response))) {
        ui.painter().rect_filled(rect, egui::CornerRadius::same(RADIUS), theme.hover);
    }
    ui.painter().galley(rect.left_center() + vec2(2.0 * UNIT, -galley.size().y / 2.0), galley, theme.text);
    if choice {
        icon::paint(ui.painter(), rect.right_center() - vec2(3.0 * UNIT, 0.0), Icon::More, theme.muted);
    }
    controls::focus_ring(ui, theme, &response, rect);
    let role = if choice { Role::ComboBox } else { Role::Label };
    response.widget_info(|| WidgetInfo::labeled(role, true, format!("{what}: {name}")));
    response
}

fn separator(ui: &mut Ui, ctx: &Ctx<'_>) {
    let (rect, _) = ui.allocate_exact_size(vec2(1.0, 5.0 * UNIT), Sense::hover());
    ui.painter().rect_filled(rect, 0.0, ctx.theme.line_strong);
}

/// A lane in words: the device, and the process where it is told.
fn lane_name(lane: &Lane) -> String {
    match lane.process.0 {
        0 => format!("GPU {}", lane.device.0),
        process => format!("GPU {} · process {process}", lane.device.0),
    }
}
