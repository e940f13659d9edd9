//! Where reserved memory goes: in use, pending, free but pinned, free and releasable; in all and by pool and stream.

use std::collections::BTreeMap;

use vramscope_trace::{Pool, StreamId};

use crate::{LaneState, SegmentState};

use super::block_map::{gaps, releasable_part};

/// Where a lane's memory goes, in bytes. `reserved == allocated + pending + releasable + pinned`.
///
/// Blocks in no known segment are left out of all figures but `loose` and `loose_blocks`. Whether a private pool's free
/// segments can be released depends on its graph or `MemPool`, which no source tells; they count as releasable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragmentation {
    /// Mapped bytes of segments.
    pub reserved: u64,
    /// Blocks in use.
    pub allocated: u64,
    /// Blocks that wait for another stream.
    pub pending: u64,
    /// `allocated + pending`.
    pub active: u64,
    /// What the blocks in use asked for; `None` = unknown.
    pub requested: Option<u64>,
    /// `allocated - requested`; `None` = unknown.
    pub rounding: Option<u64>,
    /// What emptying the cache would return now.
    pub releasable: u64,
    /// Free pieces that it would not.
    pub pinned: u64,
    /// How many segments there are, an expandable one counted once for each mapped range, as PyTorch's own snapshots list them.
    pub segments: u64,
    /// How many blocks are in use or pending.
    pub blocks: u64,
    /// The longest contiguous free stretch, over all pools and streams.
    pub largest_free: u64,
    /// Bytes of blocks in no known segment, in use or pending.
    pub loose: u64,
    /// How many blocks are in no known segment.
    pub loose_blocks: u64,
    /// The same by pool and stream, in their order.
    pub by_pool: Vec<PoolFigures>,
}

/// Where the memory of one pool and stream goes, in bytes. Free memory of one never serves another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFigures {
    /// The pool; `None` = unknown.
    pub pool: Option<Pool>,
    /// The stream; `None` = unknown.
    pub stream: Option<StreamId>,
    /// Mapped bytes.
    pub reserved: u64,
    /// Blocks in use.
    pub allocated: u64,
    /// Blocks that wait for another stream.
    pub pending: u64,
    /// What emptying the cache would return now.
    pub releasable: u64,
    /// Free pieces that it would not.
    pub pinned: u64,
    /// The longest contiguous free stretch.
    pub largest_free: u64,
    /// How many segments (mapped ranges) there are.
    pub segments: u64,
}

/// Where a lane's memory goes.
pub fn fragmentation(lane: &LaneState) -> Fragmentation {
    let mut pools = BTreeMap::<(Option<Pool>, Option<StreamId>), PoolFigures>::new();
    let mut total = Fragmentation { requested: Some(0), ..Fragmentation::default() };
    for segment in &lane.segments {
        let figures = pools.entry((segment.pool, segment.stream)).or_insert(PoolFigures {
            pool: segment.pool,
            stream: segment.stream,
            reserved: 0,
            allocated: 0,
            pending: 0,
            releasable: 0,
            pinned: 0,
            largest_free: 0,
            segments: 0,
        });
        add_segment(figures, segment);
        total.blocks += segment.blocks.len() as u64;
        for block in segment.blocks.iter().filter(|block| !block.pending) {
            total.requested = total.requested.zip(block.requested).map(|(sum, more)| sum.saturating_add(more));
        }
    }
    for pool in pools.values() {
        total.reserved += pool.reserved;
        total.allocated += pool.allocated;
        total.pending += pool.pending;
        total.releasable += pool.releasable;
        total.pinned += pool.pinned;
        total.segments += pool.segments;
        total.largest_free = total.largest_free.max(pool.largest_free);
    }
    total.active = total.allocated + total.pending;
    total.requested = lane.requested.and(total.requested);
    total.rounding = total.requested.map(|requested| total.allocated.saturating_sub(requested));
    total.loose = lane.loose.iter().map(|block| block.bytes).sum();
    total.loose_blocks = lane.loose.len() as u64;
    total.by_pool = pools.into_values().collect();
    total
}

fn add_segment(figures: &mut PoolFigures, segment: &SegmentState) {
    figures.reserved += segment.mapped_bytes();
    figures.segments += segment.mapped.len() as u64;
    for block in &segment.blocks {
        *(if block.pending { &mut figures.pending } else { &mut figures.allocated }) += block.bytes;
    }
    for gap in gaps(segment) {
        let bytes = gap.end - gap.start;
        let releasable = releasable_part(segment, &gap).map_or(0, |part| part.end - part.start);
        figures.releasable += releasable;
        figures.pinned += bytes - releasable;
        figures.largest_free = figures.largest_free.max(bytes);
    }
}
