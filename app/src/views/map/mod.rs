//! The block map: the allocator's whole state at the cursor, every segment to scale, with its blocks and its free pieces.
//!
//! Wheel zooms at the pointer, drag moves, a click selects a block, double-click zooms to a segment and back.

mod coloring;
mod fold;
mod input;
mod layout;
mod legend;
mod model;
mod paint;
mod picture;
mod tooltip;
mod transport;

use std::sync::Arc;

use egui::{Rect, Role, Sense, TextureHandle, TextureOptions, Ui, WidgetInfo, pos2, vec2};
use vramscope_model::{BlockId, LaneId, LaneState, Position};

use crate::command::Command;
use crate::ctx::{ColorBy, Ctx, Revision};
use crate::jobs::Latest;
use crate::sites::Sites;
use crate::theme::UNIT;
use crate::views::timeline::{GUTTER, MARGIN};
use crate::widgets::{bytes, controls};

use coloring::{Coloring, Phases};
use fold::{Window, Work};
use layout::{Layout, Room};
use model::{Model, Piece, What};
use picture::Label;

pub(crate) use input::hover;
pub(crate) use paint::pool_name;

/// Height of the transport bar in points.
const TRANSPORT: f32 = 10.0 * UNIT;
/// Height of the legend in points.
const LEGEND: f32 = 7.0 * UNIT;

/// Which part of the map is in view, in pixels after zooming.
#[derive(Clone, Copy, Debug, PartialEq)]
struct View {
    zoom: f64,
    left: f64,
    top: f64,
}

impl Default for View {
    fn default() -> Self {
        Self { zoom: 1.0, left: 0.0, top: 0.0 }
    }
}

/// What the map remembers between frames.
#[derive(Default)]
pub struct MapView {
    steps: Steps,
    picture: Step<PictureKey, Picture>,
    tiles: Vec<Tile>,
    view: View,
    hovered: Option<BlockId>,
    selected: Option<BlockId>,
}

/// The last answer of each step on the way to the picture, and what it depends on.
#[derive(Default)]
struct Steps {
    model: Step<(Revision, LaneId, Position), Model>,
    phases: Latest<(Revision, LaneId), Arc<Phases>>,
    coloring: Step<ColorKey, Coloring>,
    layout: Step<LayoutKey, Layout>,
}

/// A step's last answer, the question it answers, and how many answers there have been.
struct Step<K, T> {
    known: Option<(K, T)>,
    serial: u64,
}

impl<K, T> Default for Step<K, T> {
    fn default() -> Self {
        Self { known: None, serial: 0 }
    }
}

impl<K: PartialEq, T> Step<K, T> {
    /// The answer to `key`, worked out if it is not the last one's, and its number.
    fn get(&mut self, key: K, answer: impl FnOnce() -> T) -> (&T, u64) {
        let known = self.known.take().filter(|(known, _)| *known == key);
        let (_, answer) = self.known.insert(known.unwrap_or_else(|| {
            self.serial += 1;
            (key, answer())
        }));
        (answer, self.serial)
    }
}

#[derive(Clone, PartialEq)]
struct ColorKey {
    model: u64,
    by: ColorBy,
    phases: Option<(Revision, LaneId)>,
}

#[derive(Clone, PartialEq)]
struct LayoutKey {
    model: u64,
    room: Room,
}

#[derive(Clone, PartialEq)]
struct PictureKey {
    layout: u64,
    coloring: u64,
    window: Window,
    top: f64,
    height: u32,
    dark: bool,
}

/// What was painted last.
struct Picture {
    labels: Vec<Label>,
    work: Work,
}

/// A part of the picture, no larger than textures may be.
struct Tile {
    /// Pixels from the picture's corner, and pixels of it.
    left: usize,
    top: usize,
    width: usize,
    height: usize,
    texture: TextureHandle,
}

/// How often each step was worked out, and what the last picture cost. Exact, for tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapWork {
    /// Times the state was cut into pieces.
    pub models: u64,
    /// Times blocks were coloured.
    pub colorings: u64,
    /// Times segments were laid out.
    pub layouts: u64,
    /// Times the picture was painted.
    pub pictures: u64,
    /// Pieces there are.
    pub pieces: u64,
    /// Items of the last picture: at most its pixels.
    pub items: u64,
    /// Columns of the last picture times the lines in it.
    pub columns: u64,
}

/// What is shown, with the numbers of the answers it was made of.
struct Shown<'a> {
    model: &'a Model,
    layout: &'a Layout,
    coloring: &'a Coloring,
    phases: Arc<Phases>,
    serials: (u64, u64),
}

/// Everything the parts of the map need for a frame.
struct Frame<'a> {
    ctx: &'a Ctx<'a>,
    model: &'a Model,
    layout: &'a Layout,
    coloring: &'a Coloring,
    phases: &'a Phases,
    window: Window,
    /// Pixels above the view.
    top: f64,
    room: Room,
    /// Where the picture is, on whole pixels.
    body: Rect,
    scale: f32,
}

/// What is under the pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hit {
    row: usize,
    piece: usize,
}

impl Steps {
    fn get(&mut self, ctx: &Ctx<'_>, state: &LaneState, room: Room, sites: &mut Sites) -> Shown<'_> {
        let (model, serial) = self.model.get((ctx.revision, ctx.lane, ctx.cursor), || model::build(state));
        let (history, lane) = (Arc::clone(ctx.history), ctx.lane);
        let phases = self.phases.get(ctx.jobs, &(ctx.revision, lane), move || Arc::new(Phases::read(&history, lane)));
        let (known, phases) = match phases.filter(|(known, _)| known.1 == lane) {
            Some((known, phases)) => (Some(*known), Arc::clone(phases)),
            None => (None, Arc::default()),
        };
        let key = ColorKey { model: serial, by: ctx.color_by, phases: known };
        let (coloring, colors) = self.coloring.get(key, || coloring::color(ctx, model, sites, &phases));
        let (layout, places) = self.layout.get(LayoutKey { model: serial, room }, || layout::layout(model, room));
        Shown { model, layout, coloring, phases, serials: (places, colors) }
    }
}

impl MapView {
    /// How often each step was worked out.
    pub fn work(&self) -> MapWork {
        let (steps, picture) = (&self.steps, self.picture.known.as_ref());
        let lines = match (&steps.layout.known, picture) {
            (Some((_, layout)), Some((key, _))) => {
                layout.lines_in(key.top, key.top + f64::from(key.height)).len() as u64
            }
            _ => 0,
        };
        MapWork {
            models: steps.model.serial,
            colorings: steps.coloring.serial,
            layouts: steps.layout.serial,
            pictures: self.picture.serial,
            pieces: steps.model.known.as_ref().map_or(0, |(_, model)| model.pieces.len() as u64),
            items: picture.map_or(0, |(_, picture)| picture.work.items),
            columns: picture.map_or(0, |(key, _)| u64::from(key.window.width) * lines),
        }
    }

    /// Paints the map into the whole of `ui`. `sites` must be prepared for this lane.
    pub fn show(&mut self, ui: &mut Ui, ctx: &Ctx<'_>, sites: &mut Sites) {
        let all = ui.max_rect();
        ui.painter().rect_filled(all, 0.0, ctx.theme.canvas);
        let strip = |top: f32, bottom: f32| Rect::from_min_max(pos2(all.left(), top), pos2(all.right(), bottom));
        transport::show(ui, ctx, strip(all.top(), all.top() + TRANSPORT));
        let legend_top = (all.bottom() - LEGEND).max(all.top() + TRANSPORT);
        let area = strip(all.top() + TRANSPORT, legend_top);
        let Some(state) = ctx.lane_state().filter(|state| !state.segments.is_empty() || !state.loose.is_empty()) else {
            let sentence =
                "No memory is reserved at this instant: move the cursor in the timeline, or press P for the peak";
            return controls::empty(ui, ctx.theme, area, sentence);
        };
        let (body, room) = body(area, ui.pixels_per_point());
        let shown = self.steps.get(ctx, state, room, sites);
        let (model, layout) = (shown.model, shown.layout);
        let id = ui.scope_id().with("map");
        let response = ui.interact(area, id, Sense::click_and_drag());
        if self.selected != ctx.selected {
            self.selected = ctx.selected;
            if let Some(hit) = ctx.selected.and_then(|block| find(ctx, model, block)) {
                self.view = input::revealed(self.view, model, layout, hit, room);
            }
        }
        self.view = input::navigate(ui, &response, self.view, layout, room, body);
        let View { zoom, left, top } = self.view;
        let window = Window { zoom, left, width: room.width };
        let (coloring, phases) = (shown.coloring, &*shown.phases);
        let frame = Frame { ctx, model, layout, coloring, phases, window, top, room, body, scale: room.scale };
        let picture = frame.picture(ui, &mut self.picture, &mut self.tiles, shown.serials);
        let hit = response.hover_pos().filter(|_| !response.dragged()).and_then(|pointer| frame.hit(pointer));
        frame.text(ui, &picture.labels, area, sites);
        frame.marks(ui, hit);
        controls::focus_ring(ui, ctx.theme, &response, body);
        self.view.top = frame.scrollbar(ui, area, top);
        legend::show(ui, &frame, strip(legend_top, all.bottom()));
        if let Some(hit) = hit {
            tooltip::show(ui, &frame, hit, sites, response.id);
        }
        let own = hit.and_then(|hit| frame.block(hit));
        hover(ctx, &mut self.hovered, own);
        if response.clicked() && ctx.selected != own {
            ctx.commands.send(Command::SelectBlock(own));
        }
        if response.double_clicked() {
            let at = hit.and(response.interact_pointer_pos()).map(|at| frame.local(at));
            self.view = input::focus(self.view, at, layout, room);
            ui.ctx().request_repaint();
        }
        response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, spoken(model)));
    }
}

/// Where the picture is, on whole pixels, and how many it has.
fn body(area: Rect, scale: f32) -> (Rect, Room) {
    let pixel = |value: f32| (value * scale).round() / scale;
    let right = (area.right() - MARGIN).max(area.left() + GUTTER + 8.0);
    let body = Rect::from_min_max(
        pos2(pixel(area.left() + GUTTER), pixel(area.top())),
        pos2(pixel(right), pixel(area.bottom())),
    );
    let pixels = |length: f32| (length * scale).round().clamp(1.0, 16_384.0) as u32;
    (body, Room { width: pixels(body.width()), height: pixels(body.height()), scale })
}

impl Frame<'_> {
    /// Puts the picture on screen, painted anew if anything in it changed.
    fn picture<'p>(
        &self,
        ui: &Ui,
        last: &'p mut Step<PictureKey, Picture>,
        tiles: &mut Vec<Tile>,
        (layout, coloring): (u64, u64),
    ) -> &'p Picture {
        let key = PictureKey {
            layout,
            coloring,
            window: self.window,
            top: self.top,
            height: self.room.height,
            dark: self.ctx.theme.dark,
        };
        let (picture, _) = last.get(key, || {
            let painted = picture::Scene { frame: self }.paint();
            upload(ui, tiles, &painted.image);
            Picture { labels: painted.labels, work: painted.work }
        });
        let whole = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
        for tile in tiles {
            let corner = self.body.min + vec2(tile.left as f32, tile.top as f32) / self.scale;
            let rect = Rect::from_min_size(corner, vec2(tile.width as f32, tile.height as f32) / self.scale);
            ui.painter().image(tile.texture.id(), rect, whole, egui::Color32::WHITE);
        }
        picture
    }

    /// Pixels from the picture's corner.
    fn local(&self, pointer: egui::Pos2) -> (f64, f64) {
        let at = (pointer - self.body.min) * self.scale;
        (f64::from(at.x), f64::from(at.y))
    }

    /// What is under a position of the screen.
    fn hit(&self, pointer: egui::Pos2) -> Option<Hit> {
        if !self.body.contains(pointer) {
            return None;
        }
        let (x, y) = self.local(pointer);
        let line = self.layout.line_at(y + self.top)?;
        let place = self.window.place(x);
        let strip = self.layout.strip_at(line, place, 1.5 / self.window.zoom)?;
        let at = fold::place_in_row(self.model, self.layout, strip, place - f64::from(strip.left));
        let last = self.model.rows[strip.row].length.saturating_sub(1);
        let piece = self.model.piece_at(strip.row, at.min(last))?;
        Some(Hit { row: strip.row, piece })
    }

    /// The block that was hit.
    fn block(&self, hit: Hit) -> Option<BlockId> {
        match self.model.pieces[hit.piece].what {
            What::Block { id, .. } => Some(id),
            What::Gap(_) | What::Hole => None,
        }
    }

    fn piece(&self, hit: Hit) -> &Piece {
        &self.model.pieces[hit.piece]
    }
}

/// Cuts an image into tiles and hands them to the graphics card.
fn upload(ui: &Ui, tiles: &mut Vec<Tile>, image: &egui::ColorImage) {
    let most = ui.input(|input| input.max_texture_side).max(1);
    let cuts = |length: usize| (0..length).step_by(most).map(move |from| (from, most.min(length - from)));
    let mut old = std::mem::take(tiles).into_iter();
    for (top, height) in cuts(image.height()) {
        for (left, width) in cuts(image.width()) {
            let part = image.region_by_pixels([left, top], [width, height]);
            let texture = match old.next() {
                Some(Tile { mut texture, .. }) => {
                    texture.set(part, TextureOptions::NEAREST);
                    texture
                }
                None => ui.ctx().load_texture("map", part, TextureOptions::NEAREST),
            };
            tiles.push(Tile { left, top, width, height, texture });
        }
    }
}

/// Where a block is in the map; `None` if it is not live at the cursor.
fn find(ctx: &Ctx<'_>, model: &Model, block: BlockId) -> Option<Hit> {
    let facts = ctx.history.block(block)?;
    let is_it = |piece: &Piece| matches!(piece.what, What::Block { id, .. } if id == block);
    if let Some(row) = facts.segment.and_then(|segment| model.row_of(segment)) {
        let pieces = model.pieces_of(row);
        let index = pieces.partition_point(|piece| piece.address < facts.address);
        if pieces.get(index).is_some_and(is_it) {
            return Some(Hit { row, piece: model.rows[row].pieces.start + index });
        }
    }
    // A block that lost its segment is a row of its own.
    let loose = model.groups.iter().find(|group| group.loose)?;
    let row = loose.rows.clone().find(|row| is_it(&model.pieces[model.rows[*row].pieces.start]))?;
    Some(Hit { row, piece: model.rows[row].pieces.start })
}

/// What a screen reader says about the picture.
fn spoken(model: &Model) -> String {
    let (used, all) = model.totals();
    let segments = crate::widgets::number::of(model.rows.len() as u64, "segment", "segments");
    format!("Block map: {segments}, {} of {} in use", bytes::text(used), bytes::text(all))
}

#[cfg(test)]
mod tests;
