//! Segment events of one lane: what is reserved, mapped, unmapped and given back.
//!
//! The later statement is believed: memory that is reserved or mapped over something older ends the older part. Blocks in a
//! segment that ends, or in pages that are unmapped, live on as loose blocks.

use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use vramscope_trace::{EventKind, Pool, ProblemKind, StackId, StreamId};

use crate::store::{Envelope, Op, SegmentFacts, SegmentRow};
use crate::{SegmentId, Subject};

use super::lane::{LaneFold, Step};

/// An expandable segment that is live.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expandable {
    stream: Option<StreamId>,
    pool: Option<Pool>,
    /// The range it ever had.
    start: u64,
    end: u64,
    /// Mapped bytes now.
    mapped: u64,
}

impl LaneFold {
    /// Takes any event that is not about a block.
    pub(crate) fn apply_segment_event(&mut self, step: &mut Step<'_>) -> Subject {
        let segment = match step.event.kind {
            EventKind::SegmentAlloc { address, bytes, pool, stack, at_start } => {
                self.reserve(step, (address, bytes), pool, stack, at_start)
            }
            EventKind::SegmentMap { address, bytes, pool, stack, at_start } => {
                self.map(step, (address, bytes), pool, stack, at_start)
            }
            EventKind::SegmentFree { address, bytes } => self.give_back(step, address, bytes),
            EventKind::SegmentUnmap { address, bytes } => self.unmap(step, address, bytes),
            EventKind::OutOfMemory { .. } => {
                let index = step.store.ooms.len();
                step.store.ooms.push().store(step.seq, Relaxed);
                return Subject::Oom(index);
            }
            EventKind::Other { name, .. } => return Subject::Name(name),
            _ => None,
        };
        segment.map_or(Subject::None, Subject::Segment)
    }

    /// Start and end of a range as told, cut at the end of the address space; `None` if it is empty.
    fn range(step: &mut Step<'_>, address: u64, told: u64) -> Option<(u64, u64)> {
        let end = address.saturating_add(told);
        if end - address < told {
            step.problem(ProblemKind::SizesDisagree, || {
                format!("segment {address:#x} of {told} bytes reaches beyond the address space")
            });
        }
        if end == address {
            step.problem(ProblemKind::SizesDisagree, || format!("segment {address:#x} has no bytes"));
            return None;
        }
        Some((address, end))
    }

    fn reserve(
        &mut self,
        step: &mut Step<'_>,
        (address, bytes): (u64, u64),
        pool: Option<Pool>,
        stack: StackId,
        at_start: bool,
    ) -> Option<SegmentId> {
        let (start, end) = Self::range(step, address, bytes)?;
        self.clear(step, start, end);
        let segment = self.create(step, (start, end), pool, stack, at_start, false);
        self.runs.insert(start, end, segment);
        self.reserved += end - start;
        Some(segment)
    }

    fn map(
        &mut self,
        step: &mut Step<'_>,
        (address, bytes): (u64, u64),
        pool: Option<Pool>,
        stack: StackId,
        at_start: bool,
    ) -> Option<SegmentId> {
        let (start, end) = Self::range(step, address, bytes)?;
        let stream = step.event.stream;
        self.clear(step, start, end);
        let segment = match self.expandable_near(stream, pool, start, end) {
            Some(segment) => segment,
            None => {
                let segment = self.create(step, (start, end), pool, stack, at_start, true);
                self.expandable.insert(segment, Expandable { stream, pool, start, end, mapped: 0 });
                self.by_place.insert((stream, pool, start, segment));
                Arc::make_mut(&mut step.store.envelopes).push(Envelope { segment, start, end });
                segment
            }
        };
        self.runs.insert(start, end, segment);
        self.reserved += end - start;
        self.widen(step, segment, start, end);
        self.write_op(step, segment, start, end, true);
        Some(segment)
    }

    /// The live expandable segment of a stream and pool whose range holds or touches `start..end`; the lower of two.
    fn expandable_near(&self, stream: Option<StreamId>, pool: Option<Pool>, start: u64, end: u64) -> Option<SegmentId> {
        let touches = |key: &(Option<StreamId>, Option<Pool>, u64, SegmentId)| {
            let &(its_stream, its_pool, first, segment) = key;
            let last = self.expandable.get(&segment)?.end;
            (its_stream == stream && its_pool == pool && first <= end && start <= last).then_some(segment)
        };
        let here = (stream, pool, start, SegmentId(u32::MAX));
        let below = self.by_place.range(..=here).next_back().and_then(touches);
        below.or_else(|| self.by_place.range((Excluded(here), Unbounded)).next().and_then(touches))
    }

    /// Takes a range into an expandable segment's own.
    fn widen(&mut self, step: &mut Step<'_>, segment: SegmentId, start: u64, end: u64) {
        let Some(known) = self.expandable.get_mut(&segment) else { return };
        known.mapped += end - start;
        if known.start <= start && end <= known.end {
            return;
        }
        self.by_place.remove(&(known.stream, known.pool, known.start, segment));
        known.start = known.start.min(start);
        known.end = known.end.max(end);
        self.by_place.insert((known.stream, known.pool, known.start, segment));
        let envelopes = Arc::make_mut(&mut step.store.envelopes);
        if let Ok(index) = envelopes.binary_search_by_key(&segment, |envelope| envelope.segment) {
            envelopes[index] = Envelope { segment, start: known.start, end: known.end };
        }
    }

    fn create(
        &mut self,
        step: &mut Step<'_>,
        (start, end): (u64, u64),
        pool: Option<Pool>,
        stack: StackId,
        at_start: bool,
        expandable: bool,
    ) -> SegmentId {
        self.had_segments = true;
        let facts = SegmentFacts {
            lane: self.facts.id,
            address: start,
            bytes: end - start,
            pool,
            stream: step.event.stream,
            expandable,
            stack,
            created: step.after(),
            at_start,
        };
        let id = SegmentId(step.store.segments.len());
        let row: &SegmentRow = step.store.segments.push();
        // A fresh cell is empty, so this cannot be refused.
        let _ = row.facts.set(facts);
        id
    }

    /// Ends what older statements say about `start..end`, which is reserved anew.
    fn clear(&mut self, step: &mut Step<'_>, start: u64, end: u64) {
        while let Some((from, to, segment)) = self.runs.first_in(start, end) {
            step.problem(ProblemKind::Overlap, || {
                format!(
                    "segment {start:#x} of {} bytes lies over segment {from:#x}, which is still mapped",
                    end - start
                )
            });
            if self.expandable.contains_key(&segment) {
                self.take_out(step, start, end);
            } else {
                self.end_ordinary(step, from, to, segment);
            }
        }
    }

    /// Ends an ordinary segment.
    fn end_ordinary(&mut self, step: &mut Step<'_>, from: u64, to: u64, segment: SegmentId) {
        self.runs.cut(from, to);
        self.reserved -= to - from;
        let after = step.after();
        if let Some(row) = step.store.segments.get(segment.0) {
            row.freed.store(after, Relaxed);
        }
    }

    /// Unmaps the first mapped piece in `start..end`, which must belong to an expandable segment.
    fn take_out(&mut self, step: &mut Step<'_>, start: u64, end: u64) -> Option<(u64, SegmentId)> {
        let (from, to, segment) = self.runs.first_in(start, end)?;
        let (from, to) = (from.max(start), to.min(end));
        self.runs.cut(from, to);
        self.reserved -= to - from;
        self.write_op(step, segment, from, to, false);
        let known = self.expandable.get_mut(&segment)?;
        known.mapped -= to - from;
        if known.mapped == 0 {
            let key = (known.stream, known.pool, known.start, segment);
            self.by_place.remove(&key);
            self.expandable.remove(&segment);
            let after = step.after();
            if let Some(row) = step.store.segments.get(segment.0) {
                row.freed.store(after, Relaxed);
            }
        }
        Some((to - from, segment))
    }

    fn write_op(&self, step: &mut Step<'_>, segment: SegmentId, start: u64, end: u64, mapped: bool) {
        let at = step.after();
        let cell: &OnceLock<Op> = step.store.ops.push();
        // A fresh cell is empty, so this cannot be refused.
        let _ = cell.set(Op { at, segment, start, end, mapped });
    }

    fn give_back(&mut self, step: &mut Step<'_>, address: u64, bytes: u64) -> Option<SegmentId> {
        let found = self.runs.at(address);
        match found {
            Some((_, _, segment)) if self.expandable.contains_key(&segment) => self.unmap(step, address, bytes),
            Some((from, to, segment)) if from == address => {
                if to - from != bytes {
                    step.problem(ProblemKind::SizesDisagree, || {
                        format!("segment {address:#x} of {} bytes is given back as {bytes} bytes", to - from)
                    });
                }
                self.complain_of_live(step, from, to);
                self.end_ordinary(step, from, to, segment);
                Some(segment)
            }
            _ => {
                step.problem(ProblemKind::UnknownAddress, || {
                    format!("{address:#x} is given back, which is the start of no known segment")
                });
                None
            }
        }
    }

    fn unmap(&mut self, step: &mut Step<'_>, address: u64, bytes: u64) -> Option<SegmentId> {
        let (start, end) = Self::range(step, address, bytes)?;
        let (mut unmapped, mut first) = (0, None);
        self.complain_of_live(step, start, end);
        while let Some((from, to, segment)) = self.runs.first_in(start, end) {
            first = first.or(Some(segment));
            if self.expandable.contains_key(&segment) {
                unmapped += self.take_out(step, start, end).map_or(0, |(bytes, _)| bytes);
            } else {
                step.problem(ProblemKind::SizesDisagree, || {
                    format!("{bytes} bytes are unmapped at {address:#x}, in segment {from:#x}, which is not expandable")
                });
                unmapped += to.min(end) - from.max(start);
                self.end_ordinary(step, from, to, segment);
            }
        }
        if unmapped < end - start {
            step.problem(ProblemKind::UnknownAddress, || {
                format!("{bytes} bytes are unmapped at {address:#x}, but {unmapped} of them were mapped")
            });
        }
        first
    }

    /// Counts a problem if live blocks lose their segment.
    fn complain_of_live(&self, step: &mut Step<'_>, start: u64, end: u64) {
        if let Some((block, _)) = self.live.first_in(start, end) {
            step.problem(ProblemKind::SizesDisagree, || {
                format!("{start:#x} goes back to the driver while block {block:#x} in it is still live")
            });
        }
    }
}
