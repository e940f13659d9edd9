//! Which blocks hold back most free memory.

use std::cmp::Reverse;

use crate::{BlockId, LaneState, SegmentId, SegmentState};

use super::block_map::{gaps, releasable_part};

/// A block and what it holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The block.
    pub block: BlockId,
    /// Its segment.
    pub segment: SegmentId,
    /// Free bytes (not its own) that would become releasable if this block alone were freed.
    pub pinned_bytes: u64,
    /// The segment's pinned bytes, shared out among its blocks.
    pub shared_bytes: u64,
}

/// The `n` blocks that hold back most, in order: by what freeing each alone would make releasable, then by their share of
/// what their segment's blocks hold back together. Blocks that hold back nothing are left out.
pub fn pinning(lane: &LaneState, n: usize) -> Vec<Pin> {
    let mut pins: Vec<Pin> = lane.segments.iter().flat_map(pins_of).collect();
    pins.sort_unstable_by_key(|pin| (Reverse(pin.pinned_bytes), Reverse(pin.shared_bytes), pin.block));
    pins.truncate(n);
    pins
}

fn pins_of(segment: &SegmentState) -> Vec<Pin> {
    let releasable = |start: u64, end: u64| {
        if start == end { None } else { releasable_part(segment, &(start..end)) }
    };
    let length = |part: Option<std::ops::Range<u64>>| part.map_or(0, |part| part.end - part.start);
    let pinned: u64 = gaps(segment).map(|gap| gap.end - gap.start - length(releasable(gap.start, gap.end))).sum();
    if pinned == 0 || segment.blocks.is_empty() {
        return Vec::new();
    }
    let shared_bytes = pinned / segment.blocks.len() as u64;
    let mut runs = segment.mapped.iter().peekable();
    let mut pins = Vec::with_capacity(segment.blocks.len());
    for (index, block) in segment.blocks.iter().enumerate() {
        while runs.next_if(|run| run.end <= block.address).is_some() {}
        let Some(run) = runs.peek() else { break };
        let (start, end) = (block.address, block.address + block.bytes);
        let before = index.checked_sub(1).map(|index| &segment.blocks[index]);
        let low = before.map_or(run.start, |block| (block.address + block.bytes).max(run.start));
        let high = segment.blocks.get(index + 1).map_or(run.end, |block| block.address.min(run.end));
        let freed = releasable(low, high);
        let own = freed.as_ref().map_or(0, |part| part.end.min(end).saturating_sub(part.start.max(start)));
        let already = length(releasable(low, start)) + length(releasable(end, high));
        let pinned_bytes = length(freed) - own - already;
        if pinned_bytes > 0 || shared_bytes > 0 {
            pins.push(Pin { block: block.id, segment: segment.segment, pinned_bytes, shared_bytes });
        }
    }
    pins
}
