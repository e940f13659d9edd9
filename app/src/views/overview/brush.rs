//! What the mouse does in the overview: drag the brush or its ends, draw a new one, click to centre it.

use egui::{CursorIcon, Rect, Response, Ui};

use crate::axis::Span;
use crate::command::Command;
use crate::ctx::Ctx;

/// How near to an end of the brush the pointer takes hold of it, in points.
const GRIP: f32 = 5.0;

/// What a drag does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Brush {
    #[default]
    Nothing,
    /// Moves the brush; the pointer holds it at this distance from its left end.
    Move { hold: f64 },
    /// Stretches the brush from this fixed end.
    Stretch { from: f64 },
}

impl Brush {
    /// Sends what the pointer asks for.
    pub(super) fn handle(&mut self, ui: &Ui, ctx: &Ctx<'_>, strip: Rect, response: &Response) {
        let all = ctx.axis.all();
        let place = |x: f32| all.at(f64::from((x - strip.left()) / strip.width()).clamp(0.0, 1.0));
        let x = |place: f64| strip.left() + strip.width() * all.part_of(place) as f32;
        let at = |pointer: f32| {
            if (pointer - x(ctx.span.low)).abs() < GRIP {
                Self::Stretch { from: ctx.span.high }
            } else if (pointer - x(ctx.span.high)).abs() < GRIP {
                Self::Stretch { from: ctx.span.low }
            } else if ctx.span != all && (ctx.span.low..ctx.span.high).contains(&place(pointer)) {
                Self::Move { hold: place(pointer) - ctx.span.low }
            } else {
                Self::Stretch { from: place(pointer) }
            }
        };
        if response.drag_started() {
            let origin = ui.input(|input| input.pointer.press_origin()).unwrap_or_default();
            *self = at(origin.x);
        }
        let moves = response.dragged() && response.drag_delta() != egui::Vec2::ZERO;
        if let Some(pointer) = response.interact_pointer_pos().filter(|_| moves) {
            let here = place(pointer.x);
            let span = match *self {
                Self::Nothing => ctx.span,
                Self::Move { hold } => Span { low: here - hold, high: here - hold + ctx.span.length() },
                Self::Stretch { from } => Span { low: here.min(from), high: here.max(from) },
            };
            if span.length() > 0.0 {
                ctx.commands.send(Command::ShowSpan(span));
            }
        }
        if response.drag_stopped() {
            *self = Self::Nothing;
        }
        if response.double_clicked() {
            ctx.commands.send(Command::ShowAll);
        } else if let Some(pointer) = response.interact_pointer_pos().filter(|_| response.clicked()) {
            let low = place(pointer.x) - ctx.span.length() / 2.0;
            ctx.commands.send(Command::ShowSpan(Span { low, high: low + ctx.span.length() }));
        }
        if let Some(pointer) = response.hover_pos() {
            let held = if *self == Self::Nothing { at(pointer.x) } else { *self };
            ui.set_cursor_icon(match held {
                Self::Move { .. } if response.dragged() => CursorIcon::Grabbing,
                Self::Move { .. } => CursorIcon::Grab,
                _ => CursorIcon::ResizeHorizontal,
            });
        }
    }
}
