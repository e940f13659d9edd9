//! What the mouse does in the map: zoom, move, and tell others what is under the pointer.

use egui::{Rect, Response, Ui};
use vramscope_model::BlockId;

use super::layout::{Layout, Room};
use super::model::Model;
use super::{Hit, View};
use crate::command::Command;
use crate::ctx::Ctx;

/// The finest scale: bytes a pixel.
const FINEST: f64 = 16.0;

/// Keeps a view inside the map.
pub(super) fn within(view: View, layout: &Layout, room: Room) -> View {
    let zoom = view.zoom.clamp(1.0, (layout.bytes_per_pixel / FINEST).max(1.0));
    let width = f64::from(room.width);
    let lowest = (f64::from(layout.height) - f64::from(room.height)).max(0.0);
    View { zoom, left: view.left.clamp(0.0, width * zoom - width), top: view.top.clamp(0.0, lowest) }
}

/// The view after `factor` times more of it is shown, with what is at `x` pixels staying there.
pub(super) fn zoomed(view: View, factor: f64, x: f64, layout: &Layout, room: Room) -> View {
    let zoom = within(View { zoom: view.zoom / factor, ..view }, layout, room).zoom;
    let place = (x + view.left) / view.zoom;
    within(View { zoom, left: place * zoom - x, ..view }, layout, room)
}

/// The view after what the pointer did in this frame.
pub(super) fn navigate(ui: &Ui, response: &Response, mut view: View, layout: &Layout, room: Room, body: Rect) -> View {
    let scale = room.scale;
    if response.dragged() {
        let delta = response.drag_delta() * scale;
        view.left -= f64::from(delta.x);
        view.top -= f64::from(delta.y);
        ui.set_cursor_icon(egui::CursorIcon::Grabbing);
    }
    if let Some(pointer) = response.hover_pos() {
        let (scroll, zoom) = ui.input(|input| (input.smooth_scroll_delta(), input.zoom_delta()));
        let factor = f64::from(-scroll.y / 240.0).exp2() / f64::from(zoom);
        if factor != 1.0 {
            view = zoomed(view, factor, f64::from((pointer.x - body.left()) * scale), layout, room);
        }
        // Sideways, the wheel moves along a line that is zoomed into; otherwise through the lines.
        let sideways = f64::from(scroll.x * scale);
        if view.zoom > 1.0 { view.left -= sideways } else { view.top -= sideways }
    }
    within(view, layout, room)
}

/// Zooms to the segment at a place of the picture in pixels, or back to everything.
pub(super) fn focus(view: View, at: Option<(f64, f64)>, layout: &Layout, room: Room) -> View {
    let everything = View { zoom: 1.0, left: 0.0, ..view };
    let Some((x, y)) = at.filter(|_| view.zoom == 1.0) else { return everything };
    let strip = layout.line_at(y + view.top).and_then(|line| layout.strip_at(line, x, 1.5));
    let Some(strip) = strip else { return everything };
    let zoom = f64::from(room.width) / f64::from(strip.width.max(1));
    if zoom < 1.2 {
        // It fills the line already: look closer at the place itself.
        return zoomed(view, 0.25, x, layout, room);
    }
    within(View { zoom, left: f64::from(strip.left) * zoom, top: view.top }, layout, room)
}

/// Moves the view as little as it takes to see a piece.
pub(super) fn revealed(view: View, model: &Model, layout: &Layout, hit: Hit, room: Room) -> View {
    let piece = &model.pieces[hit.piece];
    let shown = layout.strips_of(hit.row).find_map(|(line, strip)| {
        let ends = [piece.start, piece.end()].map(|place| super::fold::offset_of(model, layout, strip, place));
        (ends[0] < ends[1]).then(|| (line, ends.map(|offset| (f64::from(strip.left) + offset) * view.zoom)))
    });
    let Some((line, [left, right])) = shown else { return view };
    let (top, bottom) = (f64::from(line.top), f64::from(line.top + line.height));
    let mut moved = view;
    if top < view.top || bottom > view.top + f64::from(room.height) {
        moved.top = top - f64::from(room.height) / 3.0;
    }
    if right < view.left || left > view.left + f64::from(room.width) {
        moved.left = f64::midpoint(left, right) - f64::from(room.width) / 2.0;
    }
    within(moved, layout, room)
}

/// Tells others which block the pointer is over, in a view that remembers what it told last. A view never takes back what
/// another one said.
pub(crate) fn hover(ctx: &Ctx<'_>, told: &mut Option<BlockId>, now: Option<BlockId>) {
    let news = match now {
        Some(_) => now != ctx.hovered,
        None => told.is_some() && *told == ctx.hovered,
    };
    if news {
        ctx.commands.send(Command::HoverBlock(now));
    }
    *told = now;
}
