//! An immutable view of everything ingested up to its end, and the direct questions asked of it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use vramscope_trace::{Dictionary, EventKind, Problem, RunInfo, StackId, TimeNs};

use crate::chunk::Table;
use crate::forest::Series;
use crate::store::{NO_TIME, NONE, SpanRow, Store, until};
use crate::{
    Block, BlockId, Column, EventSeq, EventView, Lane, LaneId, Lost, Mark, Metric, Oom, Peak, Position, Segment,
    SegmentId, SeriesView, Span, Subject, TimeAxis, Work,
};

/// Everything ingested up to an end. Cloning bumps one reference count; it can be sent to and read by any thread.
#[derive(Clone, Debug)]
pub struct History {
    pub(crate) inner: Arc<Inner>,
}

/// What a history holds.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) lanes: Vec<Lane>,
    /// By lane, then metric.
    pub(crate) series: Vec<[Series; 4]>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) told_problems: Vec<Problem>,
    pub(crate) time_axis: TimeAxis,
    pub(crate) recording_start: Position,
}

/// How much a history stores, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Bytes of all tables, unused rows of their last chunks included.
    pub bytes: u64,
    /// How many checkpoints there are.
    pub checkpoints: u32,
    /// How many blocks, segments and ranges they list together.
    pub checkpoint_rows: u64,
    /// How many change points all series have.
    pub points: u64,
}

impl History {
    /// The number of events: the last position.
    pub fn end(&self) -> Position {
        Position(self.inner.store.events.len())
    }

    /// After the leading events that state what was so before recording began.
    pub fn recording_start(&self) -> Position {
        self.inner.recording_start
    }

    /// Facts about the run; `None` until the source told them.
    pub fn info(&self) -> Option<&RunInfo> {
        self.inner.store.info.as_deref()
    }

    /// Names, frames and stacks.
    pub fn dictionary(&self) -> &Dictionary {
        &self.inner.store.dictionary
    }

    /// What is odd in the data, as source and ingest found it: one entry a kind, in the order of the kinds.
    pub fn problems(&self) -> Vec<Problem> {
        self.inner.problems.clone()
    }

    /// The part of [`Self::problems`] that the source told, by kind in the order of the first telling. The rest follows from
    /// the events.
    pub fn told_problems(&self) -> &[Problem] {
        &self.inner.told_problems
    }

    /// All lanes, by number.
    pub fn lanes(&self) -> &[Lane] {
        &self.inner.lanes
    }

    /// An event as it was told; `None` at or beyond the end.
    pub fn event(&self, seq: EventSeq) -> Option<EventView> {
        let (event, subject, place) = self.inner.store.event(seq.0)?;
        Some(EventView { seq, event, lane: place.lane, subject })
    }

    /// Whether times can serve as an axis.
    pub fn time_axis(&self) -> TimeAxis {
        self.inner.time_axis
    }

    /// The time of the last event applied: the latest so far, where times go back. `None` before the first time.
    /// Annotations and marks do not move it: they may be told late.
    pub fn time_at(&self, at: Position) -> Option<TimeNs> {
        let row = self.inner.store.events.get(at.min(self.end()).last_event()?.0)?;
        Some(row.clock.load(Relaxed)).filter(|time| *time != NO_TIME).map(TimeNs)
    }

    /// How many leading events have times up to `time`: the state at that moment. Events before the first time count.
    pub fn position_at(&self, time: TimeNs) -> Position {
        Position(self.inner.store.events.partition_point(|row| row.clock.load(Relaxed) <= time.0))
    }

    /// The change points of a lane's counter; `None` for an unknown lane, or where what was requested is unknown.
    pub fn series(&self, lane: LaneId, metric: Metric) -> Option<SeriesView<'_>> {
        self.points(lane, metric).map(|series| SeriesView { series })
    }

    pub(crate) fn points(&self, lane: LaneId, metric: Metric) -> Option<&Series> {
        let facts = self.inner.lanes.get(usize::from(lane.0))?;
        if metric == Metric::Requested && !facts.requested_known {
            return None;
        }
        Some(&self.inner.series[usize::from(lane.0)][metric as usize])
    }

    /// A counter's value in bytes at a position; `None` = unknown.
    pub fn value_at(&self, lane: LaneId, metric: Metric, at: Position) -> Option<u64> {
        let work = &mut Work::default();
        let series = self.points(lane, metric)?;
        let value = series.value_at(at.0, work);
        let passing = if metric == Metric::Pending { self.passing_at(lane, at, work) } else { 0 };
        Some(value + passing)
    }

    /// Bytes pending at a position that the pending series leaves out: those of a free that the lane's next event completes
    /// (or may complete, at the end of the history).
    fn passing_at(&self, lane: LaneId, at: Position, work: &mut Work) -> u64 {
        let [_, allocated, _, pending] = &self.inner.series[usize::from(lane.0)];
        let last_change = |series: &Series, work: &mut Work| {
            series.point_at(at.0, work).and_then(|index| series.point(index)).map(|(changed, _)| changed)
        };
        let Some(changed) = last_change(allocated, work) else { return 0 };
        if last_change(pending, work) >= Some(changed) {
            return 0;
        }
        let store = &self.inner.store;
        let freed = store.event(changed.wrapping_sub(1)).and_then(|(event, subject, _)| match (event.kind, subject) {
            (EventKind::FreeRequested { .. }, Subject::Block(id)) => store.blocks.get(id.0),
            _ => None,
        });
        freed
            .filter(|block| block.free_requested.load(Relaxed) == changed && !block.gone(at.0.min(self.end().0)))
            .map_or(0, |block| block.bytes.load(Relaxed))
    }

    /// A counter over the columns between neighbouring `edges` (which must not fall): exact first, min, max and last value
    /// over the positions from one edge to the next, both included. Empty for an unknown lane or unknown figures.
    /// Pending leaves out frees that the lane's very next event completes. Costs O(log events) a column.
    pub fn columns(&self, lane: LaneId, metric: Metric, edges: &[Position]) -> Vec<Column> {
        self.columns_counted(lane, metric, edges, &mut Work::default())
    }

    /// As [`Self::columns`], adding what was read to `work`.
    pub fn columns_counted(&self, lane: LaneId, metric: Metric, edges: &[Position], work: &mut Work) -> Vec<Column> {
        let Some(series) = self.points(lane, metric) else { return Vec::new() };
        let end = self.end();
        let mut highest = Position::START;
        let rising = edges.iter().map(|edge| {
            highest = highest.max((*edge).min(end));
            highest.0
        });
        series.columns(rising, work)
    }

    /// The largest value of a counter and the first position where it held, the state at the recording's start included.
    /// `None` for an unknown lane or unknown figures. Pending leaves out frees that are completed by the very next event.
    pub fn peak(&self, lane: LaneId, metric: Metric) -> Option<Peak> {
        let (bytes, at) = self.points(lane, metric)?.peak();
        Some(Peak { bytes, at: Position(at).max(self.recording_start()) })
    }

    /// A block; `None` for an id beyond the end.
    pub fn block(&self, id: BlockId) -> Option<Block> {
        let store = &self.inner.store;
        let row = store.blocks.get(id.0)?;
        let end = self.end().0;
        let segment = row.segment();
        let allocated = Position(row.allocated.load(Relaxed));
        let free_requested = until(&row.free_requested, end);
        let allocation = store.events.get(allocated.last_event()?.0)?;
        Some(Block {
            id,
            lane: LaneId(row.lane.load(Relaxed)),
            segment,
            address: row.address.load(Relaxed),
            bytes: row.bytes.load(Relaxed),
            requested: row.requested(),
            stack: StackId(row.stack.load(Relaxed)),
            free_stack: match free_requested {
                Some(_) => StackId(row.free_stack.load(Relaxed)),
                None => StackId::NONE,
            },
            stream: store.stream(row.stream.load(Relaxed)),
            pool: segment.and_then(|id| store.facts(id)).and_then(|facts| facts.pool),
            allocated,
            free_requested,
            free_completed: until(&row.free_completed, end),
            at_start: allocation.at_start(),
        })
    }

    /// How many blocks there are; their ids run from 0.
    pub fn blocks(&self) -> u32 {
        self.inner.store.blocks.len()
    }

    /// A segment; `None` for an id beyond the end.
    pub fn segment(&self, id: SegmentId) -> Option<Segment> {
        let store = &self.inner.store;
        let row = store.segments.get(id.0)?;
        let facts = row.facts.get()?;
        let envelope = store
            .envelopes
            .binary_search_by_key(&id, |envelope| envelope.segment)
            .ok()
            .map(|index| store.envelopes[index]);
        let (start, end) =
            envelope.map_or((facts.address, facts.address + facts.bytes), |envelope| (envelope.start, envelope.end));
        Some(Segment {
            id,
            lane: facts.lane,
            address: start,
            bytes: end - start,
            pool: facts.pool,
            stream: facts.stream,
            expandable: facts.expandable,
            stack: facts.stack,
            created: Position(facts.created),
            freed: until(&row.freed, self.end().0),
            at_start: facts.at_start,
        })
    }

    /// How many segments there are; their ids run from 0.
    pub fn segments(&self) -> u32 {
        self.inner.store.segments.len()
    }

    /// The blocks that the events of a range allocated. Ids are given in the order of allocation.
    pub fn blocks_allocated_in(&self, range: Range<Position>) -> Range<BlockId> {
        let blocks = &self.inner.store.blocks;
        let until = |at: Position| BlockId(blocks.partition_point(|row| row.allocated.load(Relaxed) <= at.0));
        let start = until(range.start);
        start..until(range.end).max(start)
    }

    /// The spans that annotations tell, in the order they began (or, without a beginning, ended).
    pub fn annotations(&self) -> Vec<Span> {
        let store = &self.inner.store;
        let told = |cell: &AtomicU32| {
            let seq = Some(cell.load(Relaxed)).filter(|seq| *seq != NONE)?;
            Some((EventSeq(seq), store.event(seq)?.0))
        };
        let span = |row: &SpanRow| {
            let (begin, end) = (told(&row.begin), told(&row.end));
            let (_, event) = begin.or(end)?;
            let (EventKind::AnnotationBegin { name } | EventKind::AnnotationEnd { name }) = event.kind else {
                return None;
            };
            Some(Span {
                name,
                process: event.process,
                device: event.device,
                begin: begin.and_then(|(_, event)| event.time),
                end: end.and_then(|(_, event)| event.time),
                begin_event: begin.map(|(seq, _)| seq),
                end_event: end.map(|(seq, _)| seq),
                depth: row.depth.load(Relaxed),
            })
        };
        store.spans.iter_from(0).filter_map(span).collect()
    }

    /// The events that a table of event numbers names.
    fn listed(&self, table: &Table<AtomicU32>) -> impl Iterator<Item = EventView> {
        table.iter_from(0).filter_map(|seq| self.event(EventSeq(seq.load(Relaxed))))
    }

    /// Named instants, in order.
    pub fn marks(&self) -> Vec<Mark> {
        self.listed(&self.inner.store.marks)
            .filter_map(|EventView { seq, event, .. }| match event.kind {
                EventKind::Mark { name } => {
                    Some(Mark { seq, name, process: event.process, device: event.device, time: event.time })
                }
                _ => None,
            })
            .collect()
    }

    /// Allocations that failed for good, in order.
    pub fn ooms(&self) -> Vec<Oom> {
        self.listed(&self.inner.store.ooms)
            .filter_map(|EventView { seq, event, lane, .. }| match event.kind {
                EventKind::OutOfMemory { requested, device_free, stack } => Some(Oom {
                    at: seq.before(),
                    seq,
                    lane: lane?,
                    requested,
                    device_free,
                    stream: event.stream,
                    time: event.time,
                    stack,
                }),
                _ => None,
            })
            .collect()
    }

    /// Places where the source dropped events, in order.
    pub fn lost(&self) -> Vec<Lost> {
        self.listed(&self.inner.store.lost)
            .filter_map(|EventView { seq, event, .. }| match event.kind {
                EventKind::LostEvents { count } => {
                    Some(Lost { seq, process: event.process, device: event.device, count, time: event.time })
                }
                _ => None,
            })
            .collect()
    }

    /// How much this history stores.
    pub fn storage(&self) -> Storage {
        let Inner { store, series, .. } = &*self.inner;
        let series = || series.iter().flatten();
        let checkpoints = store.checkpoints.iter_from(0).filter_map(OnceLock::get);
        Storage {
            bytes: store.bytes() + series().map(Series::bytes).sum::<u64>(),
            checkpoints: store.checkpoints.len(),
            checkpoint_rows: checkpoints
                .map(|point| (point.blocks.len() + point.segments.len() + point.runs.len()) as u64)
                .sum(),
            points: series().map(|series| u64::from(SeriesView { series }.len())).sum(),
        }
    }
}
