//! A piecewise-constant counter with an append-only index of minima and maxima.
//!
//! Change points are kept in order. Above them stands a forest: every 16 points make a node with their minimum and maximum,
//! every 16 nodes a node of the next level. A node is written once, when its last point arrives, so published views share
//! it. Any range is covered by at most 30 reads a level.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::chunk::Table;
use crate::{Position, Work};

/// Children of a node.
const FAN_OUT: u32 = 16;

/// Minimum and maximum of the points below.
#[derive(Debug, Default)]
struct Node {
    min: AtomicU64,
    max: AtomicU64,
}

/// The change points of one counter. It is 0 before the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    at: Table<AtomicU32>,
    value: Table<AtomicU64>,
    last: u64,
    levels: Vec<Table<Node>>,
    peak: (u64, u32),
}

/// What a range of points holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extremes {
    min: u64,
    max: u64,
    /// The first point with the maximum.
    peak: u32,
}

impl Series {
    /// The counter's value is `value` from position `at` on. Positions must rise.
    pub(crate) fn push(&mut self, at: u32, value: u64) {
        self.at.push().store(at, Relaxed);
        self.value.push().store(value, Relaxed);
        self.last = value;
        if value > self.peak.0 {
            self.peak = (value, at);
        }
        self.grow();
    }

    /// Writes the nodes that the newest point completes.
    fn grow(&mut self) {
        let mut below = self.value.len();
        let mut level = 0;
        while below.is_multiple_of(FAN_OUT) {
            let (mut min, mut max) = (u64::MAX, 0);
            for child in below - FAN_OUT..below {
                let (low, high) = self.read(level as u32, child);
                min = min.min(low);
                max = max.max(high);
            }
            if level == self.levels.len() {
                self.levels.push(Table::default());
            }
            let node = self.levels[level].push();
            node.min.store(min, Relaxed);
            node.max.store(max, Relaxed);
            below = self.levels[level].len();
            level += 1;
        }
    }

    /// Minimum and maximum of a point (level 0) or a node (levels above).
    fn read(&self, level: u32, index: u32) -> (u64, u64) {
        match level.checked_sub(1) {
            None => {
                let value = self.value.get(index).map_or(0, |value| value.load(Relaxed));
                (value, value)
            }
            Some(above) => self
                .levels
                .get(above as usize)
                .and_then(|nodes| nodes.get(index))
                .map_or((0, 0), |node| (node.min.load(Relaxed), node.max.load(Relaxed))),
        }
    }

    /// The newest value.
    #[inline]
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Forgets the peak so far: what counts begins at position `at` with the newest value.
    pub(crate) fn restart_peak(&mut self, at: u32) {
        self.peak = (self.last, at);
    }

    /// The largest value since the last restart and the first position where it held; 0 at 0 if nothing ever rose.
    pub(crate) fn peak(&self) -> (u64, u32) {
        self.peak
    }

    /// The point in force at a position; `None` before the first.
    pub(crate) fn point_at(&self, at: u32, work: &mut Work) -> Option<u32> {
        let after = self.at.partition_point(|point| {
            work.rows += 1;
            point.load(Relaxed) <= at
        });
        after.checked_sub(1)
    }

    /// Position and value of a point.
    pub(crate) fn point(&self, index: u32) -> Option<(u32, u64)> {
        Some((self.at.get(index)?.load(Relaxed), self.value.get(index)?.load(Relaxed)))
    }

    /// The value at a position.
    pub(crate) fn value_at(&self, at: u32, work: &mut Work) -> u64 {
        self.point_at(at, work).map_or(0, |index| self.read(0, index).0)
    }

    /// Minimum, maximum and first maximum of points `start..end`, which must not be empty.
    fn extremes(&self, start: u32, end: u32, work: &mut Work) -> Extremes {
        let mut found = Extremes { min: u64::MAX, max: 0, peak: start };
        let mut peak_level = 0;
        let mut index = start;
        while index < end {
            let (mut level, mut width) = (0, 1_u32);
            while let Some(wider) = width.checked_mul(FAN_OUT)
                && index.is_multiple_of(wider)
                && wider <= end - index
            {
                level += 1;
                width = wider;
            }
            let (min, max) = self.read(level, index / width);
            work.rows += 1;
            found.min = found.min.min(min);
            if max > found.max || index == start {
                found.max = max;
                found.peak = index / width;
                peak_level = level;
            }
            index += width;
        }
        while peak_level > 0 {
            peak_level -= 1;
            found.peak *= FAN_OUT;
            while self.read(peak_level, found.peak).1 != found.max {
                work.rows += 1;
                found.peak += 1;
            }
        }
        found
    }

    /// First, last and extremes from each edge to the next, both included, and the first position of the maximum.
    /// Edges must not fall.
    pub(crate) fn columns(&self, edges: impl Iterator<Item = u32>, work: &mut Work) -> Vec<Column> {
        let mut columns = Vec::with_capacity(edges.size_hint().0);
        let mut before: Option<(u32, Option<u32>)> = None;
        for edge in edges {
            let point = self.point_at(edge, work);
            if let Some((from, first)) = before {
                columns.push(self.column(from, first, point, work));
            }
            before = Some((edge, point));
        }
        columns
    }

    /// The column from position `from` on, with `first` and `last` the points in force at its ends.
    fn column(&self, from: u32, first: Option<u32>, last: Option<u32>, work: &mut Work) -> Column {
        let before = first.map_or(0, |index| self.read(0, index).0);
        let start = first.map_or(0, |index| index + 1);
        let end = last.map_or(0, |index| index + 1);
        let mut column = Column { first: before, min: before, max: before, last: before, peak_at: Position(from) };
        if start < end {
            let inside = self.extremes(start, end, work);
            column.last = self.read(0, end - 1).0;
            column.min = before.min(inside.min);
            if inside.max > before {
                column.max = inside.max;
                column.peak_at = Position(self.point(inside.peak).map_or(from, |(at, _)| at));
            }
        }
        column
    }

    /// Bytes of the chunks in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.at.bytes() + self.value.bytes() + self.levels.iter().map(Table::bytes).sum::<u64>()
    }
}

/// A series over the positions of one pixel column, both ends included. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Value at the column's first position.
    pub first: u64,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// Value at the column's last position.
    pub last: u64,
    /// First position with the largest value.
    pub peak_at: Position,
}

/// The change points of one lane's counter. Pending leaves out frees that the lane's very next event completes.
#[derive(Clone, Copy, Debug)]
pub struct SeriesView<'a> {
    pub(crate) series: &'a Series,
}

impl<'a> SeriesView<'a> {
    /// How many change points there are.
    pub fn len(self) -> u32 {
        self.series.value.len()
    }

    /// Whether the counter never left 0.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// A change point: the value in bytes holds from the position on.
    pub fn point(self, index: u32) -> Option<(Position, u64)> {
        self.series.point(index).map(|(at, value)| (Position(at), value))
    }

    /// All change points in order.
    pub fn points(self) -> impl Iterator<Item = (Position, u64)> + 'a {
        (0..self.len()).filter_map(move |index| self.point(index))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn columns_equal_a_plain_scan(
            steps in prop::collection::vec((1_u32..4, 0_u64..50), 0..700),
            edges in prop::collection::vec(0_u32..1500, 2..20),
        ) {
            let mut series = Series::default();
            let mut plain = vec![0_u64; 3000];
            let mut at = 0;
            for (gap, value) in steps {
                at += gap;
                series.push(at, value);
                plain[at as usize..].fill(value);
            }
            let mut work = Work::default();
            for pair in edges.windows(2) {
                let (from, to) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
                let values = &plain[from as usize..=to as usize];
                let max = *values.iter().max().unwrap();
                let expected = Column {
                    first: values[0],
                    min: *values.iter().min().unwrap(),
                    max,
                    last: *values.last().unwrap(),
                    peak_at: Position(from + values.iter().position(|value| *value == max).unwrap() as u32),
                };
                prop_assert_eq!(series.columns([from, to].into_iter(), &mut work), vec![expected]);
            }
            let max = *plain.iter().max().unwrap();
            let first = plain.iter().position(|value| *value == max).unwrap() as u32;
            prop_assert_eq!(series.peak(), (max, if max == 0 { 0 } else { first }));
        }
    }

    #[test]
    fn a_column_over_a_million_points_reads_few_rows() {
        let mut series = Series::default();
        for n in 0..1_000_000_u32 {
            series.push(n + 1, u64::from(n.wrapping_mul(2_654_435_761) >> 8));
        }
        for width in [10, 1_000, 100_000, 999_990] {
            let mut work = Work::default();
            series.columns([5, 5 + width].into_iter(), &mut work);
            // Two binary searches of 20 steps, 30 reads a level and a descent of 16 reads a level over 5 levels.
            assert!(work.rows <= 2 * 20 + 5 * (30 + 16), "{} rows for {width} points", work.rows);
        }
    }
}
