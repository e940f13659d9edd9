//! The mapped address ranges of one lane, each with its segment. Ranges never overlap.

use std::collections::BTreeMap;

use crate::SegmentId;

/// Mapped ranges by address. Neighbouring ranges of one segment are one range.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunMap {
    /// Start → end and segment.
    runs: BTreeMap<u64, (u64, SegmentId)>,
}

impl RunMap {
    /// How many ranges there are.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// All ranges by address: start, end, segment.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64, SegmentId)> {
        self.runs.iter().map(|(&start, &(end, segment))| (start, end, segment))
    }

    /// The range that holds an address.
    pub(crate) fn at(&self, address: u64) -> Option<(u64, u64, SegmentId)> {
        let (&start, &(end, segment)) = self.runs.range(..=address).next_back()?;
        (address < end).then_some((start, end, segment))
    }

    /// The first range that has a byte in `start..end`.
    pub(crate) fn first_in(&self, start: u64, end: u64) -> Option<(u64, u64, SegmentId)> {
        self.at(start).or_else(|| {
            let (&from, &(to, segment)) = self.runs.range(start..end).next()?;
            Some((from, to, segment))
        })
    }

    /// Maps `start..end`, which must be free and not empty.
    pub(crate) fn insert(&mut self, start: u64, end: u64, segment: SegmentId) {
        let (mut from, mut to) = (start, end);
        if let Some((&before, &(before_end, owner))) = self.runs.range(..start).next_back()
            && before_end == start
            && owner == segment
        {
            from = before;
        }
        if let Some(&(after_end, owner)) = self.runs.get(&end)
            && owner == segment
        {
            self.runs.remove(&end);
            to = after_end;
        }
        self.runs.insert(from, (to, segment));
    }

    /// Unmaps whatever is mapped in `start..end`; gives the pieces.
    pub(crate) fn cut(&mut self, start: u64, end: u64) -> Vec<(u64, u64, SegmentId)> {
        let mut pieces = Vec::new();
        while let Some((from, to, segment)) = self.first_in(start, end) {
            self.runs.remove(&from);
            if from < start {
                self.runs.insert(from, (start, segment));
            }
            if to > end {
                self.runs.insert(end, (to, segment));
            }
            pieces.push((from.max(start), to.min(end), segment));
        }
        pieces
    }
}
