//! The allocator's whole state at one position: nearest checkpoint, minus what ended, plus what began since.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use vramscope_trace::{Pool, StreamId};

use crate::folds::runs::RunMap;
use crate::store::{BlockRow, Checkpoint, SegmentFacts, Store};
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
    pub mapped: Vec<Range<u64>>,
    /// Its blocks, in use or pending, by address; each lies inside one mapped range.
    pub blocks: Vec<BlockState>,
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

/// A live block, in the order of the answer: by lane, then address.
type Key = (u16, u64, u32);

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
        place_blocks(store, at.0, &merge(old, &new), &runs, &places, &mut lanes);
        Snapshot { at, lanes }
    }
}

/// Blocks live at `at`: those of the checkpoint that are not gone, and those allocated since. Both sorted.
fn live_blocks(store: &Store, point: &Checkpoint, at: u32, work: &mut Work) -> (Vec<Key>, Vec<Key>) {
    let key = |id: u32, row: &BlockRow| (row.lane.load(Relaxed), row.address.load(Relaxed), id);
    let mut old = Vec::with_capacity(point.blocks.len());
    old.extend(
        point.blocks.iter().filter_map(|&id| store.blocks.get(id).filter(|row| !row.gone(at)).map(|row| key(id, row))),
    );
    let mut new = Vec::new();
    work.rows += point.blocks.len() as u64;
    for (id, row) in (point.next_block..).zip(store.blocks.iter_from(point.next_block)) {
        work.rows += 1;
        if row.allocated.load(Relaxed) > at {
            break;
        }
        if !row.gone(at) {
            new.push(key(id, row));
        }
    }
    new.sort_unstable();
    (old, new)
}

/// Merges two sorted lists.
fn merge(old: Vec<Key>, new: &[Key]) -> Vec<Key> {
    if new.is_empty() {
        return old;
    }
    let mut merged = Vec::with_capacity(old.len() + new.len());
    let mut rest = new;
    for key in old {
        let before = rest.iter().take_while(|other| **other < key).count();
        merged.extend_from_slice(&rest[..before]);
        rest = &rest[before..];
        merged.push(key);
    }
    merged.extend_from_slice(rest);
    merged
}

/// Mapped ranges at `at`, by lane, then address.
fn live_runs(store: &Store, point: &Checkpoint, at: u32, work: &mut Work) -> Vec<Run> {
    let lane_of = |id: SegmentId| store.facts(id).map_or(0, |facts| facts.lane.0);
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
    let mut expandable = Vec::<(u16, RunMap)>::new();
    let mut map_of = |segment: SegmentId, change: &mut dyn FnMut(&mut RunMap)| {
        let lane = lane_of(segment);
        let slot = expandable.iter().position(|(known, _)| *known == lane).unwrap_or_else(|| {
            expandable.push((lane, RunMap::default()));
            expandable.len() - 1
        });
        change(&mut expandable[slot].1);
    };
    for &(segment, start, end) in &point.runs {
        work.rows += 1;
        map_of(segment, &mut |map| map.insert(start, end, segment));
    }
    for op in store.ops.iter_from(point.next_op).filter_map(OnceLock::get) {
        work.rows += 1;
        if op.at > at {
            break;
        }
        map_of(op.segment, &mut |map| {
            if op.mapped { map.insert(op.start, op.end, op.segment) } else { drop(map.cut(op.start, op.end)) }
        });
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
    let mut slots = rustc_hash::FxHashMap::<SegmentId, usize>::default();
    let mut places = Vec::with_capacity(runs.len());
    for run in runs {
        let (Some(lane), Some(facts)) = (lanes.get_mut(usize::from(run.lane)), store.facts(run.segment)) else {
            places.push(usize::MAX);
            continue;
        };
        lane.reserved += run.end - run.start;
        let slot = if facts.expandable { slots.get(&run.segment).copied() } else { None };
        let slot = slot.unwrap_or_else(|| {
            lane.segments.push(SegmentState {
                segment: run.segment,
                address: run.start,
                pool: facts.pool,
                stream: facts.stream,
                expandable: facts.expandable,
                mapped: Vec::with_capacity(1),
                blocks: Vec::new(),
            });
            slots.insert(run.segment, lane.segments.len() - 1);
            lane.segments.len() - 1
        });
        lane.segments[slot].mapped.push(run.start..run.end);
        places.push(slot);
    }
    places
}

/// Adds the blocks to their segments (or to the loose ones) and to the totals.
fn place_blocks(store: &Store, at: u32, keys: &[Key], runs: &[Run], places: &[usize], lanes: &mut [LaneState]) {
    let mut next = 0;
    for &(lane_number, address, id) in keys {
        let (Some(row), Some(lane)) = (store.blocks.get(id), lanes.get_mut(usize::from(lane_number))) else { continue };
        let bytes = row.bytes.load(Relaxed);
        let pending = row.requested_free(at);
        let block = BlockState { id: BlockId(id), address, bytes, requested: row.requested(), pending };
        if pending {
            lane.pending += bytes;
        } else {
            lane.allocated += bytes;
            lane.requested = lane.requested.zip(block.requested).map(|(sum, more)| sum.saturating_add(more));
        }
        while runs.get(next).is_some_and(|run| (run.lane, run.end) <= (lane_number, address)) {
            next += 1;
        }
        let inside = |run: &&Run| {
            run.lane == lane_number
                && row.segment() == Some(run.segment)
                && run.start <= address
                && bytes <= run.end - address
        };
        match runs.get(next).filter(inside) {
            Some(_) => lane.segments[places[next]].blocks.push(block),
            None => lane.loose.push(block),
        }
    }
}
