//! Who holds the memory: blocks in use by the stack that allocated them.

use std::cmp::Reverse;
use std::sync::atomic::Ordering::Relaxed;

use rustc_hash::FxHashMap;
use vramscope_trace::StackId;

use crate::{History, LaneState};

/// Blocks in use that one stack allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The stack; [`StackId::NONE`] = no stack recorded.
    pub stack: StackId,
    /// Their bytes.
    pub bytes: u64,
    /// How many.
    pub count: u64,
}

/// The largest holders, and all others together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Largest first; equal ones by stack.
    pub largest: Vec<Holder>,
    /// How many stacks are not listed.
    pub other_stacks: u64,
    /// Bytes of their blocks.
    pub other_bytes: u64,
    /// How many blocks they hold.
    pub other_count: u64,
}

/// The `n` stacks that hold most bytes of a lane. All bytes together are the lane's allocated ones. The state must be of
/// this history (or of an earlier view of the same recording).
pub fn holders(history: &History, lane: &LaneState, n: usize) -> Holders {
    let mut by_stack = FxHashMap::<StackId, (u64, u64)>::default();
    let blocks = lane.segments.iter().flat_map(|segment| &segment.blocks).chain(&lane.loose);
    for block in blocks.filter(|block| !block.pending) {
        let row = history.inner.store.blocks.get(block.id.0);
        let stack = row.map_or(StackId::NONE, |row| StackId(row.stack.load(Relaxed)));
        let (bytes, count) = by_stack.entry(stack).or_default();
        *bytes += block.bytes;
        *count += 1;
    }
    let mut largest: Vec<Holder> =
        by_stack.into_iter().map(|(stack, (bytes, count))| Holder { stack, bytes, count }).collect();
    largest.sort_unstable_by_key(|holder| (Reverse(holder.bytes), holder.stack));
    let others = largest.split_off(n.min(largest.len()));
    Holders {
        largest,
        other_stacks: others.len() as u64,
        other_bytes: others.iter().map(|holder| holder.bytes).sum(),
        other_count: others.iter().map(|holder| holder.count).sum(),
    }
}
