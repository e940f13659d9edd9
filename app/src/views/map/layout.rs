//! Where the segments lie: lines of equal scale, as many segments on a line as fit, a segment longer than a line on several.
//!
//! All lengths are whole pixels of the map before zooming and scrolling.

use std::ops::Range;

use super::model::{Group, Model};

/// Height of a heading in points.
pub(super) const HEADING: f32 = 22.0;
/// Lowest and highest line in points.
const LINE: (f32, f32) = (8.0, 30.0);
/// Between two lines, in points.
const GAP: f32 = 3.0;
/// A line must be this high, in points, before a long segment is broken into more of them.
const ROOMY: f32 = 18.0;
/// Bytes a point: at a coarser scale, a long segment is broken into several lines where there is room.
const COARSE: u64 = 1 << 20;
/// Most lines for the longest segment.
const MOST_BREAKS: u64 = 16;
/// A line shows at most so many times the longest segment.
const MOST_JOINS: u64 = 64;

/// The room there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Room {
    /// Pixels a line.
    pub width: u32,
    /// Pixels that can be seen at once.
    pub height: u32,
    /// Pixels a point.
    pub scale: f32,
}

impl Room {
    fn pixels(self, points: f32) -> u32 {
        (points * self.scale).round().max(1.0) as u32
    }
}

/// A segment, or the part of one that lies on one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strip {
    /// Its row in the model.
    pub row: usize,
    /// Pixels from the left end of the line.
    pub left: u32,
    /// Pixels.
    pub width: u32,
    /// Pixels of its row on lines before.
    pub from: u32,
}

/// A line of strips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub top: u32,
    pub height: u32,
    pub strips: Range<usize>,
}

/// The name of a group above its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heading {
    pub top: u32,
    pub group: usize,
}

/// Where everything is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Layout {
    pub lines: Vec<Line>,
    pub headings: Vec<Heading>,
    pub strips: Vec<Strip>,
    /// Pixels of each row, over all its lines.
    pub widths: Vec<u32>,
    /// Pixels of the whole.
    pub height: u32,
    /// The scale: bytes a pixel.
    pub bytes_per_pixel: f64,
}

impl Layout {
    /// The line at a height, if there is one.
    pub(super) fn line_at(&self, y: f64) -> Option<usize> {
        let index = self.lines.partition_point(|line| f64::from(line.top + line.height) <= y);
        self.lines.get(index).filter(|line| f64::from(line.top) <= y).map(|_| index)
    }

    /// The lines that reach into a range of heights.
    pub(super) fn lines_in(&self, low: f64, high: f64) -> Range<usize> {
        let first = self.lines.partition_point(|line| f64::from(line.top + line.height) <= low);
        let last = self.lines.partition_point(|line| f64::from(line.top) < high);
        first..last.max(first)
    }

    /// The strip of a line at a place, or the nearest one within `reach` pixels.
    pub(super) fn strip_at(&self, line: usize, x: f64, reach: f64) -> Option<Strip> {
        let strips = &self.strips[self.lines[line].strips.clone()];
        let index = strips.partition_point(|strip| f64::from(strip.left + strip.width) <= x);
        let distance =
            |strip: &Strip| (f64::from(strip.left) - x).max(x - f64::from(strip.left + strip.width)).max(0.0);
        let near = strips[index.saturating_sub(1)..strips.len().min(index + 1)].iter();
        near.min_by(|a, b| distance(a).total_cmp(&distance(b))).filter(|strip| distance(strip) <= reach).copied()
    }

    /// The strips of a row with their lines. Costs a look at the lines, and at the strips of those that can have it.
    pub(super) fn strips_of(&self, row: usize) -> impl Iterator<Item = (&Line, Strip)> {
        // Rows are laid out in order, so lines are sorted by the rows on them.
        let last_row = |line: &Line| self.strips[line.strips.end - 1].row;
        let first = self.lines.partition_point(|line| last_row(line) < row);
        self.lines[first..].iter().take_while(move |line| self.strips[line.strips.start].row <= row).flat_map(
            move |line| {
                let strips = &self.strips[line.strips.clone()];
                let at = strips.partition_point(|strip| strip.row < row);
                strips.get(at).filter(|strip| strip.row == row).map(|strip| (line, *strip))
            },
        )
    }
}

/// Lines without heights.
struct Placed {
    strips: Vec<Strip>,
    /// Where each line ends in `strips`, with its group.
    line_ends: Vec<(usize, usize)>,
    widths: Vec<u32>,
}

/// Lays the map out. The longest segment fills a line, unless there is room to break it into several, or so much memory that
/// only a coarser scale shows it whole. Costs what is shown: segments and lines.
pub(super) fn layout(model: &Model, room: Room) -> Layout {
    let longest = model.longest.max(1);
    let headings = model.groups.len() as u32 * room.pixels(HEADING);
    let height = |placed: &Placed, line: f32| placed.line_ends.len() as u32 * room.pixels(line + GAP) + headings;
    let (mut per_line, mut placed) = (longest, place(model, longest, room));
    let coarse = COARSE * u64::from(room.width) / u64::from(room.pixels(1.0));
    let mut breaks = 1;
    while breaks < MOST_BREAKS && per_line > coarse {
        breaks += 1;
        let shorter = longest.div_ceil(breaks);
        let finer = place(model, shorter, room);
        if height(&finer, ROOMY) > room.height {
            break;
        }
        (per_line, placed) = (shorter, finer);
    }
    let mut joins = 1;
    while joins < MOST_JOINS && height(&placed, LINE.0) > room.height {
        joins += joins.div_ceil(2);
        per_line = longest.saturating_mul(joins);
        placed = place(model, per_line, room);
    }
    stack(&model.groups, placed, room, per_line as f64 / f64::from(room.width.max(1)))
}

/// Puts the rows on lines that are `per_line` bytes long.
fn place(model: &Model, per_line: u64, room: Room) -> Placed {
    let width = room.width.max(1);
    let mut placed = Placed { strips: Vec::new(), line_ends: Vec::new(), widths: Vec::with_capacity(model.rows.len()) };
    let per_pixel = per_line as f64 / f64::from(width);
    for (group, facts) in model.groups.iter().enumerate() {
        let mut left = 0;
        for row in facts.rows.clone() {
            let pixels = (model.rows[row].length as f64 / per_pixel).round().clamp(1.0, f64::from(u32::MAX / 4)) as u32;
            placed.widths.push(pixels);
            if left > 0 && left + pixels > width {
                placed.line_ends.push((placed.strips.len(), group));
                left = 0;
            }
            let mut from = 0;
            while pixels - from > width {
                placed.strips.push(Strip { row, left: 0, width, from });
                placed.line_ends.push((placed.strips.len(), group));
                from += width;
            }
            placed.strips.push(Strip { row, left, width: pixels - from, from });
            left += pixels - from + space_after(pixels, room);
        }
        placed.line_ends.push((placed.strips.len(), group));
    }
    placed
}

/// Pixels between two segments on a line: less beside narrow ones, so that thousands of them still show.
fn space_after(pixels: u32, room: Room) -> u32 {
    if pixels >= room.pixels(6.0) { room.pixels(2.0) } else { u32::from(pixels >= 2) }
}

/// Gives the lines their heights: as high as the room allows.
fn stack(groups: &[Group], placed: Placed, room: Room, bytes_per_pixel: f64) -> Layout {
    let Placed { strips, line_ends, widths } = placed;
    let lines = line_ends.len() as u32;
    let heading = room.pixels(HEADING);
    let gap = room.pixels(GAP);
    let free = room.height.saturating_sub(groups.len() as u32 * heading + lines * gap);
    let height = (free / lines.max(1)).clamp(room.pixels(LINE.0), room.pixels(LINE.1));
    let mut layout = Layout { widths, bytes_per_pixel, ..Layout::default() };
    let (mut top, mut start, mut shown) = (0, 0, None);
    for (end, group) in line_ends {
        if shown != Some(group) {
            layout.headings.push(Heading { top, group });
            top += heading;
            shown = Some(group);
        }
        layout.lines.push(Line { top, height, strips: start..end });
        start = end;
        top += height + gap;
    }
    layout.strips = strips;
    layout.height = top;
    layout
}
