//! Paints the map into an image, pixel by pixel: whatever the number of blocks, the window then shows one textured rectangle.
//!
//! There is no second way for few blocks: filling a million pixels takes a few milliseconds and happens only when something
//! changed, patterns stay sharp, and edges come out the same at every size. Labels and what the pointer touches are drawn over it.

use egui::{Color32, ColorImage};

use super::Frame;
use super::fold::{Item, Work, fold};
use super::layout::Line;
use super::model::What;
use crate::theme::mix;
use crate::widgets::fill::Fill;

/// Blocks this wide, in points, are labelled.
const LABELLED: f32 = 44.0;
/// Lines this high, in points, have room for labels.
const LABEL_HEIGHT: f32 = 10.5;
/// Most labels.
const MOST_LABELS: usize = 400;
/// How much a small block counts at least in a column that it shares with free memory, so that none disappears.
const LEAST_WEIGHT: f32 = 0.45;

/// A wide block that can carry its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Label {
    /// Pixels of the view: left, top, width and height.
    pub left: u32,
    pub top: f64,
    pub width: u32,
    pub height: u32,
    pub piece: usize,
}

/// What to paint.
pub(super) struct Scene<'a> {
    pub frame: &'a Frame<'a>,
}

/// What was painted.
pub(super) struct Painted {
    pub image: ColorImage,
    pub labels: Vec<Label>,
    pub work: Work,
}

impl Scene<'_> {
    /// Paints everything in view.
    pub(super) fn paint(&self) -> Painted {
        let size = [self.frame.window.width.max(1) as usize, self.frame.room.height.max(1) as usize];
        let mut image = ColorImage::filled(size, self.frame.ctx.theme.canvas);
        let (mut labels, mut work, mut items) = (Vec::new(), Work::default(), Vec::new());
        for index in self.frame.layout.lines_in(self.frame.top, self.frame.top + f64::from(self.frame.room.height)) {
            let line = &self.frame.layout.lines[index];
            for strip in &self.frame.layout.strips[line.strips.clone()] {
                items.clear();
                fold(self.frame.model, self.frame.layout, *strip, self.frame.window, &mut items, &mut work);
                for item in &items {
                    self.item(&mut image, line, item);
                }
                self.labels(line, &items, &mut labels);
            }
        }
        Painted { image, labels, work }
    }

    /// The pixel rows of a line that are in view, with where they are in the line.
    fn rows(&self, line: &Line) -> impl Iterator<Item = (usize, u32)> + use<> {
        let top = (f64::from(line.top) - self.frame.top).round() as i64;
        let (low, high) = (top.max(0), (top + i64::from(line.height)).min(i64::from(self.frame.room.height)));
        (low..high.max(low)).map(move |y| (y as usize, (y - top) as u32))
    }

    fn item(&self, image: &mut ColorImage, line: &Line, item: &Item) {
        let width = image.width();
        let columns = item.columns.start as usize..item.columns.end as usize;
        if item.pieces.len() > 1 {
            let color = self.blend(item);
            for (y, _) in self.rows(line) {
                image.pixels[y * width + columns.start] = color;
            }
            return;
        }
        let piece = &self.frame.model.pieces[item.pieces.start];
        let fill = self.frame.coloring.fills[item.pieces.start];
        let frame = self.frame.ctx.theme.line_strong;
        let edge = (self.frame.scale.round() as u32).max(1);
        let (color, ink) = (fill.color(self.frame.ctx.theme), fill.ink(self.frame.ctx.theme));
        let separated = self.begins_beside_block(item);
        for (y, row) in self.rows(line) {
            let border = row < edge || row + edge >= line.height;
            let pixels = &mut image.pixels[y * width + columns.start..y * width + columns.end];
            match piece.what {
                What::Hole => {
                    for (x, pixel) in columns.clone().zip(pixels.iter_mut()) {
                        let dash = (x as u32 / edge) % 6 < 3;
                        *pixel = if border && dash { frame } else { self.frame.ctx.theme.canvas };
                    }
                }
                What::Gap(_) if border => pixels.fill(mix(self.frame.ctx.theme.canvas, ink.unwrap_or(frame), 0.7)),
                _ => match ink {
                    Some(ink) => {
                        // The pattern belongs to the memory, not to the window: it moves along.
                        let (dx, dy) = (self.frame.window.left.round() as i64, self.frame.top.round() as i64);
                        for (x, pixel) in columns.clone().zip(pixels.iter_mut()) {
                            let inked = fill.inked(x as i64 + dx, y as i64 + dy, self.frame.scale);
                            *pixel = if inked { ink } else { color };
                        }
                    }
                    None => pixels.fill(color),
                },
            }
            if separated {
                pixels[0] = mix(self.frame.ctx.theme.canvas, color, 0.35);
            }
        }
    }

    /// Whether an item is a wide block whose neighbour on the left ends exactly at its first column.
    fn begins_beside_block(&self, item: &Item) -> bool {
        let piece = &self.frame.model.pieces[item.pieces.start];
        let block = |what: What| matches!(what, What::Block { .. });
        let begins = item.places.start == piece.start && piece.start > 0;
        begins
            && item.columns.len() > 2
            && block(piece.what)
            && block(self.frame.model.pieces[item.pieces.start - 1].what)
    }

    /// The colour of a column that several pieces share: by their bytes, but small blocks beside free memory are not lost.
    fn blend(&self, item: &Item) -> Color32 {
        let pieces = &self.frame.model.pieces[item.pieces.clone()];
        let fills = &self.frame.coloring.fills[item.pieces.clone()];
        let mut sum = [0.0_f32; 3];
        let mut all = 0.0;
        let mut used = 0.0;
        let mut free = [0.0_f32; 3];
        let mut free_bytes = 0.0;
        for (piece, fill) in pieces.iter().zip(fills) {
            let bytes = (piece.end().min(item.places.end).saturating_sub(piece.start.max(item.places.start))) as f32;
            let surface = match (piece.what, fill) {
                (What::Hole, _) => self.frame.ctx.theme.canvas,
                (_, Fill::Pinned | Fill::Releasable | Fill::Pending) => mix(
                    fill.color(self.frame.ctx.theme),
                    fill.ink(self.frame.ctx.theme).unwrap_or(self.frame.ctx.theme.canvas),
                    0.3,
                ),
                _ => fill.color(self.frame.ctx.theme),
            };
            let (into, weight) = match piece.what {
                What::Block { .. } => (&mut sum, &mut used),
                _ => (&mut free, &mut free_bytes),
            };
            for (channel, value) in into.iter_mut().enumerate() {
                *value += bytes * f32::from(surface[channel]);
            }
            *weight += bytes;
            all += bytes;
        }
        let average = |sum: [f32; 3], weight: f32| {
            let [r, g, b] = sum.map(|value| (value / weight.max(f32::MIN_POSITIVE)).round().clamp(0.0, 255.0) as u8);
            Color32::from_rgb(r, g, b)
        };
        match (used > 0.0, free_bytes > 0.0) {
            (true, true) => mix(average(free, free_bytes), average(sum, used), (used / all).max(LEAST_WEIGHT)),
            // Where exactly two blocks meet, a hairline parts them.
            (true, false) if pieces.len() == 2 => mix(self.frame.ctx.theme.canvas, average(sum, used), 0.35),
            (true, false) => average(sum, used),
            (false, _) => average(free, free_bytes),
        }
    }

    fn labels(&self, line: &Line, items: &[Item], labels: &mut Vec<Label>) {
        if (line.height as f32) < LABEL_HEIGHT * self.frame.scale {
            return;
        }
        for item in items {
            let wide = item.columns.len() as f32 >= LABELLED * self.frame.scale;
            let block =
                item.pieces.len() == 1 && !matches!(self.frame.model.pieces[item.pieces.start].what, What::Hole);
            if wide && block && labels.len() < MOST_LABELS {
                labels.push(Label {
                    left: item.columns.start,
                    top: (f64::from(line.top) - self.frame.top).round(),
                    width: item.columns.len() as u32,
                    height: line.height,
                    piece: item.pieces.start,
                });
            }
        }
    }
}
