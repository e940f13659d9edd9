//! What happens when the cache cannot serve a request: the ways to more memory, in PyTorch's order.

use vramscope_trace::{Event, EventKind, PoolOwner};

use super::{Allocator, Ask};
use crate::blocks::{Block, BlockIndex, NONE, Use};
use crate::policy::Limit;
use crate::pool::PoolIndex;

/// More than any device has: what an unlimited allocator can reserve, so that sums cannot overflow.
const MOST_MEMORY: u64 = 1 << 50;

impl<S: FnMut(Event)> Allocator<'_, S> {
    /// Gets a block of at least `rounded` bytes by all means there are; `None` if all fail.
    #[cold]
    pub(super) fn make_room(&mut self, ask: &Ask, pool: PoolIndex, stream: u32, rounded: u64) -> Option<BlockIndex> {
        if let Some(threshold) = self.collects_at {
            self.collect_garbage(threshold);
        }
        let found = self.device_block(ask, pool, stream, rounded);
        if found.is_some() || self.throws_at_once(rounded) {
            return found;
        }
        if let Some(block) = self.borrow_cached(ask.owner, pool, stream, rounded) {
            return Some(block);
        }
        if self.release_oversize(pool, stream, rounded)
            && let Some(block) = self.device_block(ask, pool, stream, rounded)
        {
            return Some(block);
        }
        // While a CUDA graph is captured, nothing may wait for the device. Only captures allocate in a graph's own pool.
        if ask.owner.0 != 0 {
            return None;
        }
        self.empty_cache();
        self.totals.retries += 1;
        self.device_block(ask, pool, stream, rounded)
    }

    /// Whether a request that the cap refuses fails without any fallback.
    fn throws_at_once(&self, rounded: u64) -> bool {
        self.policy.throw_at_cap
            && matches!(self.policy.limit, Limit::Fraction(_))
            && self.exceeds_limit(self.policy.segment_bytes(rounded))
    }

    /// Whether `more` bytes would be too many.
    pub(super) fn exceeds_limit(&self, more: u64) -> bool {
        let limit = self.policy.limit.bytes().unwrap_or(MOST_MEMORY);
        self.totals.reserved.saturating_add(more) > limit
    }

    /// A block of new memory: a segment, or pages mapped into an expandable one.
    fn device_block(&mut self, ask: &Ask, pool: PoolIndex, stream: u32, rounded: u64) -> Option<BlockIndex> {
        let bytes = self.policy.segment_bytes(rounded);
        let expands = self.policy.settings.expandable_segments && !self.policy.traits(ask.owner).own_allocator;
        // A device that is full refuses page by page; a cap is asked for the whole segment, whatever will be mapped.
        let asks_for_all = !expands || matches!(self.policy.limit, Limit::Fraction(_));
        if asks_for_all && self.exceeds_limit(bytes) {
            return None;
        }
        if expands {
            return self.expandable_block(ask, pool, stream, rounded);
        }
        let address = self.places.segment(bytes)?;
        self.totals.guessed_places = self.places.guessed();
        let name = Some(self.pools[pool as usize].name);
        self.count_driver_memory(bytes);
        self.tell(
            ask.stream,
            EventKind::SegmentAlloc { address, bytes, pool: name, stack: ask.stack, at_start: self.starting },
        );
        Some(self.blocks.add(Block {
            address,
            bytes,
            before: NONE,
            after: NONE,
            reservation: NONE,
            pool,
            stream,
            state: Use::Free,
            mapped: true,
            born: 0,
            serial: 0,
        }))
    }

    /// Adds memory that the driver gave to the sums.
    pub(super) fn count_driver_memory(&mut self, bytes: u64) {
        self.totals.segment_allocs += 1;
        self.totals.reserved += bytes;
        self.totals.peak_reserved = self.totals.peak_reserved.max(self.totals.reserved);
    }

    /// A cached block of a pool that lends to the default pool when all else fails.
    fn borrow_cached(&mut self, owner: PoolOwner, pool: PoolIndex, stream: u32, rounded: u64) -> Option<BlockIndex> {
        if owner.is_private() {
            return None;
        }
        let class = self.pools[pool as usize].name.class;
        let lenders: Vec<PoolOwner> =
            self.policy.pools.iter().filter(|traits| traits.use_on_oom).map(|traits| traits.owner).collect();
        lenders.into_iter().find_map(|lender| {
            let lending = self.pool_of(lender, class);
            self.search(lending, stream, rounded)
        })
    }
}
