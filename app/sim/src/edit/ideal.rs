//! What no allocator can beat: the bytes in use, without gaps.

use rustc_hash::FxHashMap;
use vramscope_trace::{Action, AllocatorSettings, PoolOwner, Requests, SizeClass};

/// Bytes of each pool's blocks, and what segments for them would take if there were no gaps.
#[derive(Default)]
struct Packed {
    pools: FxHashMap<(PoolOwner, SizeClass), u64>,
    reserved: u64,
    most: u64,
}

impl Packed {
    /// Changes what a pool holds.
    fn set(&mut self, pool: (PoolOwner, SizeClass), change: impl Fn(u64) -> u64) {
        let segments = |bytes: u64| bytes.div_ceil(AllocatorSettings::SMALL_SEGMENT) * AllocatorSettings::SMALL_SEGMENT;
        let held = self.pools.entry(pool).or_default();
        self.reserved -= segments(*held);
        *held = change(*held);
        self.reserved += segments(*held);
        self.most = self.most.max(self.reserved);
    }
}

/// The least that could be reserved at the worst moment, in bytes, by an allocator that rounds as `settings` say but never leaves a
/// gap: blocks in use or pending laid side by side, each pool in segments of its own. A lower bound: blocks cannot be moved.
pub fn defragmented_bytes(requests: &Requests, settings: &AllocatorSettings) -> u64 {
    // Sums of sizes beyond this could overflow; no device has it.
    const MOST: u64 = 1 << 50;
    let mut packed = Packed::default();
    let mut live: Vec<Option<((PoolOwner, SizeClass), u64)>> = Vec::with_capacity(requests.allocations());
    let block = |bytes: u64, owner: PoolOwner| {
        let rounded = settings.round(bytes);
        ((owner, AllocatorSettings::class_of(rounded)), rounded)
    };
    for start in &requests.start.blocks {
        let (pool, bytes) = block(start.requested, start.owner);
        packed.set(pool, |held| held.saturating_add(bytes).min(MOST));
        live.push(Some((pool, bytes)));
    }
    for request in &requests.list {
        match request.action {
            Action::Alloc { bytes, owner, failed, .. } => {
                let (pool, bytes) = block(bytes, owner);
                if !failed {
                    packed.set(pool, |held| held.saturating_add(bytes).min(MOST));
                }
                live.push((!failed).then_some((pool, bytes)));
            }
            Action::FreeCompleted { allocation } => {
                if let Some((pool, bytes)) = live.get_mut(allocation as usize).and_then(Option::take) {
                    packed.set(pool, |held| held.saturating_sub(bytes));
                }
            }
            _ => {}
        }
    }
    packed.most
}
