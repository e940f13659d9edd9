//! Giving memory back to the driver: garbage collection, oversize blocks, everything that is wholly free.

use vramscope_trace::{Event, EventKind, PoolOwner, SizeClass};

use super::Allocator;
use crate::blocks::{Block, BlockIndex};
use crate::pool::PoolIndex;

impl<S: FnMut(Event)> Allocator<'_, S> {
    /// `torch.cuda.empty_cache()`: waits for all streams, then gives back every segment and every page that is wholly free.
    pub fn empty_cache(&mut self) {
        self.complete_all();
        // The default pools: large, then small. Then the pools whose owner is gone, small first.
        self.release_pool(0);
        self.release_pool(1);
        let mut gone: Vec<PoolIndex> = (2..self.pools.len() as PoolIndex).step_by(2).collect();
        gone.retain(|&first| self.pools[first as usize].releasable);
        gone.sort_by_key(|&first| self.pools[first as usize].name.owner);
        for first in gone {
            self.release_pool(first + 1);
            self.release_pool(first);
        }
    }

    /// The owner of a private pool is gone: its cached memory goes back with the next emptying of the cache.
    pub fn retire_pool(&mut self, owner: PoolOwner) {
        for class in [SizeClass::Large, SizeClass::Small] {
            let pool = self.pool_of(owner, class);
            self.pools[pool as usize].releasable = true;
        }
    }

    fn release_pool(&mut self, pool: PoolIndex) {
        let mut expandable = Vec::new();
        for block in self.pools[pool as usize].in_order(&self.streams) {
            if self.blocks.get(block).is_expandable() {
                expandable.push(block);
            } else if self.is_unused_segment(block) {
                self.release_segment(block);
            }
        }
        for block in expandable {
            self.unmap(block);
        }
    }

    /// Whether a free block is the whole of an ordinary segment.
    fn is_unused_segment(&self, block: BlockIndex) -> bool {
        let block = self.blocks.get(block);
        block.is_whole() && !block.is_expandable()
    }

    /// Gives a segment that is one free block back.
    fn release_segment(&mut self, index: BlockIndex) {
        self.unshelve(index);
        let block = *self.blocks.get(index);
        self.tell(self.stream_of(&block), EventKind::SegmentFree { address: block.address, bytes: block.bytes });
        self.totals.reserved -= block.bytes;
        self.totals.segment_frees += 1;
        self.places.give_back(block.address, block.bytes);
        self.blocks.remove(index);
    }

    /// Gives back cached blocks that no splitting may touch: one that is large enough alone, else several from the largest
    /// down. True if they amount to the request.
    pub(super) fn release_oversize(&mut self, pool: PoolIndex, stream: u32, rounded: u64) -> bool {
        if self.max_split == u64::MAX {
            return false;
        }
        let wanted = rounded.max(self.max_split);
        let first = self.pools[pool as usize].shelf(stream).free.range((wanted, 0, 0)..).next().map(|found| found.2);
        if let Some(block) = first.filter(|&block| self.is_unused_segment(block)) {
            self.release_segment(block);
            return true;
        }
        // Downwards from just below. With splitting limited, blocks of this size are whole segments, unless they are
        // expandable or older than the limit.
        let mut released = 0;
        let mut below = self.largest_below(pool, stream, wanted);
        while let Some(index) = below
            && released < wanted
        {
            let Block { bytes, address, .. } = *self.blocks.get(index);
            if bytes < self.max_split {
                break;
            }
            below = {
                let free = &self.pools[pool as usize].shelf(stream).free;
                free.range(..(bytes, address, index)).next_back().map(|found| found.2)
            };
            if self.is_unused_segment(index) {
                released += bytes;
                self.release_segment(index);
            }
        }
        released >= wanted
    }

    /// Gives back segments that have been free for long: round after round those of at least average age, until enough is
    /// reclaimed. Only whole, ordinary segments of the default large pool are considered.
    pub(super) fn collect_garbage(&mut self, threshold: u64) {
        let Some(target) = self.totals.reserved.checked_sub(threshold).filter(|target| *target > 0) else { return };
        let searches = self.pools[0].searches;
        let mut unused: Vec<BlockIndex> = self.pools[0].in_order(&self.streams);
        unused.retain(|&block| self.is_unused_segment(block));
        let age = |blocks: &crate::blocks::Blocks, block: BlockIndex| searches - blocks.get(block).born;
        let mut ages: u64 = unused.iter().map(|&block| age(&self.blocks, block)).sum();
        let mut reclaimed = 0;
        while reclaimed < target && !unused.is_empty() {
            let average = ages as f64 / unused.len() as f64;
            let (old, young): (Vec<_>, Vec<_>) =
                unused.into_iter().partition(|&block| age(&self.blocks, block) as f64 >= average);
            if old.is_empty() {
                break;
            }
            for block in old {
                ages -= age(&self.blocks, block);
                reclaimed += self.blocks.get(block).bytes;
                self.release_segment(block);
            }
            unused = young;
        }
    }
}
