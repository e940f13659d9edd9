//! The timeline: memory over time (or over events), with annotations above it, failures marked, and the shared cursor in it.
//!
//! Wheel zooms at the pointer, drag pans, shift-drag measures, a click moves the cursor, dragging the ruler moves it along,
//! double-click shows everything.

mod flags;
mod input;
mod layout;
mod model;
mod notes;
mod paint;
mod plot;
mod readout;

use egui::{Align, Layout, Rect, Role, Sense, Ui, UiBuilder, WidgetInfo, vec2};
use vramscope_model::{Metric, Position};
use vramscope_trace::ProblemKind;

use crate::command::Command;
use crate::ctx::{Ctx, metric_color, metric_meaning, metric_name};
use crate::theme::UNIT;
use crate::widgets::{bytes, controls, time};

pub use layout::{GUTTER, MARGIN};
pub(crate) use model::edges;

/// Narrower than this, in points, the legend leaves out values.
const COMPACT: f32 = 180.0 * UNIT;

/// What the timeline remembers between frames.
#[derive(Default)]
pub struct TimelineView {
    data: model::Cache,
    notes: notes::NotesCache,
    drag: input::Drag,
    capacity: CapacityField,
}

/// The field for the device's capacity.
#[derive(Default)]
struct CapacityField {
    text: String,
    error: Option<String>,
}

impl TimelineView {
    /// Paints the timeline into the whole of `ui`.
    pub fn show(&mut self, ui: &mut Ui, ctx: &Ctx<'_>) {
        let all = ui.max_rect();
        ui.painter().rect_filled(all, 0.0, ctx.theme.canvas);
        let notes = self.notes.get(ctx);
        let areas = layout::areas(all, notes.rows.len());
        self.header(ui, ctx, areas.header);
        if ctx.history.end() == Position::START {
            return controls::empty(ui, ctx.theme, areas.plot, "No events yet");
        }
        let response = ui.interact(areas.sensitive(), ui.scope_id().with("timeline"), Sense::click_and_drag());
        let hovered = input::handle(ui, ctx, &areas, &response, &mut self.drag);
        let data = self.data.get(ctx, &notes.base, areas.plot.width(), ui.pixels_per_point());
        if areas.plot.height() >= 1.0 {
            plot::show(ui, ctx, &areas, data, &notes);
        }
        let canvas = paint::Canvas { ui, ctx, areas: &areas, data, notes: &notes };
        canvas.floor();
        canvas.base();
        canvas.capacity();
        canvas.ribbon(response.hover_pos());
        canvas.marks(response.hover_pos());
        canvas.cursor();
        canvas.ooms();
        canvas.lost(response.hover_pos());
        canvas.measured();
        if ctx.history.end() == ctx.history.recording_start() {
            canvas.note(ProblemKind::NoHistory.explanation());
        }
        if let Some(place) = hovered {
            readout::paint(&canvas, place);
        }
        controls::focus_ring(ui, ctx.theme, &response, areas.plot);
        response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, spoken(ctx)));
    }

    fn header(&mut self, ui: &mut Ui, ctx: &Ctx<'_>, rect: Rect) {
        // A child of its own: what does not fit is cut off instead of widening the panel.
        let builder = UiBuilder::new().max_rect(rect).layout(Layout::left_to_right(Align::Center));
        let mut ui = ui.new_child(builder);
        ui.shrink_clip_rect(rect);
        ui.spacing_mut().item_spacing.x = UNIT;
        let compact = rect.width() < COMPACT;
        for metric in Metric::ALL {
            let value = ctx.history.value_at(ctx.lane, metric, ctx.cursor);
            let text = if compact { String::new() } else { bytes::maybe(value) };
            let (color, name) = (metric_color(ctx.theme, metric), metric_name(metric));
            let chip = controls::legend(&mut ui, ctx.theme, color, name, &text, ctx.shown.has(metric));
            if chip.clicked() {
                ctx.commands.send(Command::ToggleMetric(metric));
            }
            chip.on_hover_ui(|ui| {
                ui.label(metric_meaning(metric));
                let exact = value.map_or_else(|| "Not told by this recording".to_owned(), bytes::exact);
                ui.label(ctx.theme.caption(exact));
            });
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| self.capacity.show(ui, ctx));
    }
}

impl CapacityField {
    /// The field, its label, and what is wrong with its text. Laid out from the right.
    fn show(&mut self, ui: &mut Ui, ctx: &Ctx<'_>) {
        let name = "Device capacity";
        let field = controls::field(ui, ctx.theme, name, "unknown", 18.0 * UNIT, &mut self.text);
        let known = ctx.capacity.map_or_else(String::new, bytes::short);
        if field.lost_focus() {
            match self.text.trim() {
                "" => self.set(ctx, None),
                text => match bytes::parse(text) {
                    Ok(capacity) => self.set(ctx, Some(capacity)),
                    Err(sentence) => self.error = Some(sentence),
                },
            }
        } else if !field.has_focus() && self.error.is_none() && self.text != known {
            self.text = known;
        }
        field.on_hover_text(
            "Recordings do not tell the device\u{2019}s capacity. Type it to see how close the run came.",
        );
        match &self.error {
            Some(sentence) => ui.label(egui::RichText::new(sentence).size(crate::theme::SMALL).color(ctx.theme.danger)),
            None => ui.label(ctx.theme.caption("capacity")),
        };
    }

    fn set(&mut self, ctx: &Ctx<'_>, capacity: Option<u64>) {
        self.error = None;
        if capacity != ctx.capacity {
            ctx.commands.send(Command::SetCapacity(capacity));
        }
        self.text = capacity.map_or_else(String::new, bytes::short);
    }
}

/// What a screen reader says about the picture.
fn spoken(ctx: &Ctx<'_>) -> String {
    if ctx.history.end() == ctx.history.recording_start() {
        return format!("Timeline: {}", ProblemKind::NoHistory.explanation());
    }
    let value = |metric| bytes::maybe(ctx.history.value_at(ctx.lane, metric, ctx.cursor));
    let at = ctx.axis.elapsed(ctx.cursor).map_or_else(|| format!("event {}", ctx.cursor.0), time::duration);
    let (reserved, allocated) = (value(Metric::Reserved), value(Metric::Allocated));
    format!("Timeline: at {at} {reserved} reserved, {allocated} allocated")
}

/// Room for a label beside a line, in points.
const LABEL_GAP: egui::Vec2 = vec2(UNIT, 2.0);
