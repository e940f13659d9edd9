//! Turns a strip into what can be seen of it: at most one item a pixel column, and not a byte lost.
//!
//! Every column covers a whole number of bytes, and columns share none. A run of columns inside one piece is one item; a
//! column that several pieces share is an item of its own, which knows them all.

use std::ops::Range;

use super::layout::{Layout, Strip};
use super::model::Model;

/// Which part of the layout is in view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    /// How much wider than laid out; 1 or more.
    pub zoom: f64,
    /// Pixels, after zooming, that lie left of the view.
    pub left: f64,
    /// Pixels of the view.
    pub width: u32,
}

impl Window {
    /// Where a place of a line is in the view.
    pub(super) fn x(&self, place: f64) -> f64 {
        place * self.zoom - self.left
    }

    /// The place of a line at a position in the view.
    pub(super) fn place(&self, x: f64) -> f64 {
        (x + self.left) / self.zoom
    }
}

/// What one or several columns show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Columns of the view.
    pub columns: Range<u32>,
    /// Bytes of its row that it covers, holes shortened.
    pub places: Range<u64>,
    /// The pieces in it, as indices of the model: one, or several in a single column.
    pub pieces: Range<usize>,
}

/// What making items cost, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Strips looked at.
    pub strips: u64,
    /// Pieces looked at.
    pub pieces: u64,
    /// Items made.
    pub items: u64,
}

/// Where in its row a strip's place lies that is `offset` pixels from the strip's left end.
pub(super) fn place_in_row(model: &Model, layout: &Layout, strip: Strip, offset: f64) -> u64 {
    let length = model.rows[strip.row].length;
    let all = f64::from(layout.widths[strip.row]);
    let at = f64::from(strip.from) + offset.clamp(0.0, f64::from(strip.width));
    if at >= all { length } else { ((at * (length as f64 / all)) as u64).min(length) }
}

/// Where on the screen, in pixels from the strip's left end before zooming, a place of its row lies.
pub(super) fn offset_of(model: &Model, layout: &Layout, strip: Strip, place: u64) -> f64 {
    let length = model.rows[strip.row].length.max(1);
    let at = place as f64 / length as f64 * f64::from(layout.widths[strip.row]);
    (at - f64::from(strip.from)).clamp(0.0, f64::from(strip.width))
}

/// Appends the items of a strip that are in view, by column.
pub(super) fn fold(
    model: &Model,
    layout: &Layout,
    strip: Strip,
    window: Window,
    items: &mut Vec<Item>,
    work: &mut Work,
) {
    work.strips += 1;
    let ends = [strip.left, strip.left + strip.width].map(|end| window.x(f64::from(end)));
    let columns = ends[0].floor().max(0.0) as u32..(ends[1].ceil().max(0.0) as u32).min(window.width);
    let bound =
        |column: u32| place_in_row(model, layout, strip, window.place(f64::from(column)) - f64::from(strip.left));
    let last = model.rows[strip.row].pieces.end;
    let mut column = columns.start;
    let mut low = bound(column);
    let Some(mut piece) = model.piece_at(strip.row, low.min(model.rows[strip.row].length.saturating_sub(1))) else {
        return;
    };
    while column < columns.end {
        while piece + 1 < last && model.pieces[piece].end() <= low {
            piece += 1;
            work.pieces += 1;
        }
        let end = model.pieces[piece].end();
        let mut high = bound(column + 1);
        let (first_column, first_piece, first_place) = (column, piece, low);
        column += 1;
        if high <= end {
            // The piece fills this column; see how many more.
            while column < columns.end {
                let next = bound(column + 1);
                if next > end {
                    break;
                }
                (high, column) = (next, column + 1);
            }
        } else {
            while piece + 1 < last && model.pieces[piece].end() < high {
                piece += 1;
                work.pieces += 1;
            }
        }
        low = high;
        work.items += 1;
        items.push(Item { columns: first_column..column, places: first_place..high, pieces: first_piece..piece + 1 });
    }
}
