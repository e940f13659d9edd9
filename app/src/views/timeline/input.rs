//! What the mouse does in the timeline.

use egui::{Response, Ui};

use super::layout::Areas;
use crate::command::Command;
use crate::ctx::Ctx;
use vramscope_model::Position;

/// What a drag that is under way does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Drag {
    /// None is.
    #[default]
    Nothing,
    /// It moves what is shown.
    Pan,
    /// It moves the cursor.
    Scrub,
    /// It measures from here.
    Measure(Position),
}

/// Sends what the pointer asks for. Returns the place under the pointer while it hovers.
pub(super) fn handle(ui: &Ui, ctx: &Ctx<'_>, areas: &Areas, response: &Response, drag: &mut Drag) -> Option<f64> {
    let position_at = |x: f32| ctx.axis.position_at(areas.place(ctx.span, x));
    if response.drag_started() {
        let origin = ui.input(|input| input.pointer.press_origin()).unwrap_or_default();
        let on_cursor = (areas.x(ctx.span, ctx.axis.place_of(ctx.cursor)) - origin.x).abs() < 4.0;
        *drag = if ui.input(|input| input.modifiers.shift) {
            Drag::Measure(position_at(origin.x))
        } else if areas.ruler.contains(origin) || on_cursor {
            Drag::Scrub
        } else {
            Drag::Pan
        };
    }
    // A pointer that is held still asks for nothing, so nothing is repainted.
    let moves = response.dragged() && response.drag_delta() != egui::Vec2::ZERO;
    if let Some(pointer) = response.interact_pointer_pos().filter(|_| moves) {
        match *drag {
            Drag::Nothing => {}
            Drag::Pan => {
                let part = -f64::from(response.drag_delta().x) / f64::from(areas.plot.width());
                ctx.commands.send(Command::ShowSpan(ctx.span.moved(part)));
            }
            Drag::Scrub => ctx.commands.send(Command::MoveCursor(position_at(pointer.x))),
            Drag::Measure(from) => ctx.commands.send(Command::Measure(Some((from, position_at(pointer.x))))),
        }
    }
    if response.drag_stopped() {
        *drag = Drag::Nothing;
    }
    if response.double_clicked() {
        ctx.commands.send(Command::ShowAll);
    } else if let Some(pointer) = response.interact_pointer_pos().filter(|_| response.clicked()) {
        ctx.commands.send(Command::MoveCursor(position_at(pointer.x)));
        ctx.commands.send(Command::Measure(None));
    }
    let hover = response.hover_pos()?;
    wheel(ui, ctx, areas, hover.x);
    let scrubs = areas.ruler.contains(hover) || *drag == Drag::Scrub;
    ui.set_cursor_icon(match *drag {
        Drag::Pan => egui::CursorIcon::Grabbing,
        _ if scrubs => egui::CursorIcon::ResizeHorizontal,
        _ => egui::CursorIcon::Crosshair,
    });
    areas.plot.expand2(egui::vec2(0.5, 0.0)).x_range().contains(hover.x).then(|| areas.place(ctx.span, hover.x))
}

/// The wheel zooms at the pointer; sideways, or with shift, it pans.
fn wheel(ui: &Ui, ctx: &Ctx<'_>, areas: &Areas, x: f32) {
    let (scroll, zoom) = ui.input(|input| (input.smooth_scroll_delta(), input.zoom_delta()));
    let factor = f64::from(-scroll.y / 240.0).exp2() / f64::from(zoom);
    let mut span = ctx.span;
    if factor != 1.0 {
        span = span.zoomed(factor, areas.place(span, x));
    }
    if scroll.x != 0.0 {
        span = span.moved(-f64::from(scroll.x) / f64::from(areas.plot.width()));
    }
    if span != ctx.span {
        ctx.commands.send(Command::ShowSpan(span));
    }
}
