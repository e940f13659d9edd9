//! The allocator's whole state at one position: nearest checkpoint, minus what ended, plus what began since.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use vramscope_trace::{Pool, StreamId};

use super::block_list::BlockList;
use crate::folds::runs::RunMap;
use crate::store::{BlockRow, Checkpoint, NONE, SegmentFacts, Store, UNKNOWN};
use crate::{BlockId, History, LaneId, Position, SegmentId, Work};

/// The allocator's whole state at one position; the same type whether computed, imported or simulated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The position.
    pub at: Position,
    /// Every lane of the history by its number, empty ones included.
    pub lanes: Vec<LaneState>,
}

/// One lane's part of a snapshot. Totals are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneState {
    /// The lane.
    pub lane: LaneId,
    /// Its segments by address.
    pub segments: Vec<SegmentState>,
    /// Its blocks that lie in no known segment (or in a part that was unmapped under them), by address.
    pub loose: Vec<BlockState>,
    /// Blocks in use, loose ones included.
    pub allocated: u64,
    /// Blocks that wait for another stream, loose ones included.
    pub pending: u64,
    /// What the blocks in use asked for; `None` = unknown.
    pub requested: Option<u64>,
    /// Mapped bytes of segments.
    pub reserved: u64,
}

/// Mapped ranges of a segment: one, unless it is expandable and has holes.
pub type MappedRanges = SmallVec<[Range<u64>; 1]>;

/// One segment's part of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentState {
    /// The segment.
    pub segment: SegmentId,
    /// Its lowest mapped byte now.
    pub address: u64,
    /// Pool it serves; `None` = unknown.
    pub pool: Option<Pool>,
    /// Its stream; `None` = unknown.
    pub stream: Option<StreamId>,
    /// Whether it grows and shrinks by mapping.
    pub expandable: bool,
    /// Its mapped ranges: sorted, apart from each other.
    pub mapped: MappedRanges,
    /// Its blocks, in use or pending, by address; each lies inside one mapped range.
    pub blocks: BlockList,
}

impl SegmentState {
    /// Mapped bytes.
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped.iter().map(|range| range.end - range.start).sum()
    }

    /// Length from its lowest to its highest mapped byte, holes included.
    pub fn span_bytes(&self) -> u64 {
        self.mapped.last().map_or(0, |last| last.end - self.address)
    }
}

/// One block's part of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockState {
    /// The block.
    pub id: BlockId,
    /// First byte.
    pub address: u64,
    /// What it takes from its segment.
    pub bytes: u64,
    /// What the tensor asked for; `None` = unknown.
    pub requested: Option<u64>,
    /// True when it was freed but still waits for another stream.
    pub pending: bool,
}

/// What a snapshot needs of a block's row, copied while the row is at hand.
#[derive(Clone, Copy)]
struct Found {
    address: u64,
    bytes: u64,
    /// [`UNKNOWN`] if not told.
    requested: u64,
    id: u32,
    /// [`NONE`] if in no known segment.
    segment: u32,
    lane: u16,
    pending: bool,
    gone: bool,
}

impl Found {
    /// A block that is gone.
    const GONE: Self =
        Self { address: 0, bytes: 0, requested: UNKNOWN, id: NONE, segment: NONE, lane: 0, pending: false, gone: true };

    #[inline]
    fn read(id: u32, row: &BlockRow, at: u32) -> Self {
        Self {
            address: row.address.load(Relaxed),
            bytes: row.bytes.load(Relaxed),
            requested: row.requested.load(Relaxed),
            id,
            segment: row.segment.load(Relaxed),
            lane: row.lane.load(Relaxed),
            pending: row.requested_free(at),
            gone: row.gone(at),
        }
    }

    /// Blocks are answered by lane, then address.
    fn key(&self) -> (u16, u64) {
        (self.lane, self.address)
    }
}

/// A mapped range of a live segment.
struct Run {
    lane: u16,
    start: u64,
    end: u64,
    segment: SegmentId,
}

impl History {
    /// The allocator's whole state at a position; positions beyond the end mean the end.
    /// Costs O(live blocks and segments), whatever the length of the history.
    pub fn snapshot_at(&self, at: Position) -> Snapshot {
        self.snapshot_counted(at, &mut Work::default())
    }

    /// As [`Self::snapshot_at`], adding what was read to `work`.
    pub fn snapshot_counted(&self, at: Position, work: &mut Work) -> Snapshot {
        let at = at.min(self.end());
        let store = &self.inner.store;
        let index = store.checkpoints.partition_point(|point| point.get().is_some_and(|point| point.at <= at.0));
        let empty = Checkpoint::default();
        let point = index.checked_sub(1).and_then(|index| store.checkpoints.get(index)).and_then(OnceLock::get);
        let point = point.unwrap_or(&empty);

        let (old, new) = live_blocks(store, point, at.0, work);
        let runs = live_runs(store, point, at.0, work);
        let mut lanes: Vec<LaneState> = self
            .lanes()
            .iter()
            .map(|lane| LaneState {
                lane: lane.id,
                segments: Vec::new(),
                loose: Vec::new(),
                allocated: 0,
                pending: 0,
                requested: lane.requested_known.then_some(0),
                reserved: 0,
            })
            .collect();
        let places = place_segments(store, &runs, &mut lanes);
        place_blocks(&old, &new, &runs, &places, &mut lanes);
        Snapshot { at, lanes }
    }
}

/// The checkpoint's blocks, gone ones included, and the live ones allocated since. Both by lane, then address.
fn live_blocks(store: &Store, point: &Checkpoint, at: u32, work: &mut Work) -> (Vec<Found>, Vec<Found>) {
    // Rows lie all over memory. Copying them without asking anything lets the processor fetch many at a time.
    let read = |&id: &u32| store.blocks.get(id).map_or(Found::GONE, |row| Found::read(id, row, at));
    let old: Vec<Found> = point.blocks.iter().map(read).collect();
    work.rows += point.blocks.len() as u64;
    let mut new = Vec::new();
    for (id, row) in (point.next_block..).zip(store.blocks.iter_from(point.next_block)) {
        work.rows += 1;
        if row.allocated.load(Relaxed) > at {
            break;
        }
        if !row.gone(at) {
            new.push(Found::read(id, row, at));
        }
    }
    // One number sorts faster than a tuple: lane, address, place in the list.
    let number =
        |(n, found): (usize, &Found)| u128::from(found.lane) << 96 | u128::from(found.address) << 32 | n as u128;
    let mut order: Vec<u128> = new.iter().enumerate().map(number).collect();
    order.sort_unstable();
    (old, order.into_iter().map(|number| new[number as u32 as usize]).collect())
}

/// Mapped ranges at `at`, by lane, then address.
fn live_runs(store: &Store, point: &Checkpoint, at: u32, work: &mut Work) -> Vec<Run> {
    let mut runs = Vec::with_capacity(point.segments.len());
    let mut ordinary = |id: u32, facts: &SegmentFacts| {
        let gone = store.segments.get(id).is_none_or(|row| row.freed.load(Relaxed) <= at);
        if !gone && !facts.expandable {
            let (start, end) = (facts.address, facts.address + facts.bytes);
            runs.push(Run { lane: facts.lane.0, start, end, segment: SegmentId(id) });
        }
    };
    for &id in &point.segments {
        work.rows += 1;
        if let Some(facts) = store.facts(SegmentId(id)) {
            ordinary(id, facts);
        }
    }
    for (id, row) in (point.next_segment..).zip(store.segments.iter_from(point.next_segment)) {
        work.rows += 1;
        match row.facts.get() {
            Some(facts) if facts.created <= at => ordinary(id, facts),
            _ => break,
        }
    }
    let mut expandable = BTreeMap::<u16, RunMap>::new();
    let lane_of = |segment: SegmentId| store.facts(segment).map_or(0, |facts| facts.lane.0);
    for &(segment, start, end) in &point.runs {
        work.rows += 1;
        expandable.entry(lane_of(segment)).or_default().insert(start, end, segment);
    }
    for op in store.ops.iter_from(point.next_op).filter_map(OnceLock::get) {
        work.rows += 1;
        if op.at > at {
            break;
        }
        let map = expandable.entry(lane_of(op.segment)).or_default();
        if op.mapped {
            map.insert(op.start, op.end, op.segment);
        } else {
            map.cut(op.start, op.end);
        }
    }
    for (lane, map) in expandable {
        runs.extend(map.iter().map(|(start, end, segment)| Run { lane, start, end, segment }));
    }
    runs.sort_unstable_by_key(|run| (run.lane, run.start));
    runs
}

/// Adds the segments to their lanes; gives the place of each run's segment in its lane's list.
fn place_segments(store: &Store, runs: &[Run], lanes: &mut [LaneState]) -> Vec<usize> {
    // Only expandable segments have several runs, and those of two may interleave: remember where each one went.
    let mut slots = FxHashMap::<SegmentId, usize>::default();
    let mut places = Vec::with_capacity(runs.len());
    for run in runs {
        let (Some(lane), Some(facts)) = (lanes.get_mut(usize::from(run.lane)), store.facts(run.segment)) else {
            places.push(usize::MAX);
            continue;
        };
        lane.reserved += run.end - run.start;
        let known = slots.get(&run.segment).copied();
        let slot = known.unwrap_or_else(|| {
            lane.segments.push(SegmentState {
                segment: run.segment,
                address: run.start,
                pool: facts.pool,
                stream: facts.stream,
                expandable: facts.expandable,
                mapped: MappedRanges::new(),
                blocks: BlockList::default(),
            });
            lane.segments.len() - 1
        });
        if facts.expandable {
            slots.insert(run.segment, slot);
        }
        lane.segments[slot].mapped.push(run.start..run.end);
        places.push(slot);
    }
    places
}

/// Adds the blocks of two sorted lists to their segments (or to the loose ones) and to the totals.
fn place_blocks(old: &[Found], new: &[Found], runs: &[Run], places: &[usize], lanes: &mut [LaneState]) {
    let mut all = Vec::with_capacity(old.len() + new.len());
    // What each run holds of `all`; blocks come in the order of runs.
    let mut spans: Vec<Range<u32>> = vec![0..0; runs.len()];
    let mut next = 0;
    let mut place = |found: &Found| {
        let Some(lane) = lanes.get_mut(usize::from(found.lane)) else { return };
        let &Found { address, bytes, pending, .. } = found;
        let requested = Some(found.requested).filter(|requested| *requested != UNKNOWN);
        if pending {
            lane.pending += bytes;
        } else {
            lane.allocated += bytes;
            lane.requested = lane.requested.zip(requested).map(|(sum, more)| sum.saturating_add(more));
        }
        while runs.get(next).is_some_and(|run| (run.lane, run.end) <= found.key()) {
            next += 1;
        }
        let inside = runs.get(next).is_some_and(|run| {
            run.lane == found.lane
                && run.segment.0 == found.segment
                && run.start <= address
                && bytes <= run.end - address
        });
        let block = BlockState { id: BlockId(found.id), address, bytes, requested, pending };
        if inside {
            let count = all.len() as u32;
            let span = &mut spans[next];
            *span = if span.start == span.end { count..count + 1 } else { span.start..count + 1 };
            all.push(block);
        } else {
            lane.loose.push(block);
        }
    };
    let mut rest = new.iter().peekable();
    for found in old.iter().filter(|found| !found.gone) {
        while let Some(before) = rest.next_if(|before| before.key() < found.key()) {
            place(before);
        }
        place(found);
    }
    rest.for_each(place);
    let all = Arc::new(all);
    for ((run, &slot), span) in runs.iter().zip(places).zip(spans) {
        let segment = lanes.get_mut(usize::from(run.lane)).and_then(|lane| lane.segments.get_mut(slot));
        if let Some(segment) = segment.filter(|_| span.start < span.end) {
            segment.blocks.extend_within(&all, span);
        }
    }
}
