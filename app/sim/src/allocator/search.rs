//! The search for a cached block: best fit, with PyTorch's exceptions.

use std::ops::Bound;

use vramscope_trace::Event;

use super::Allocator;
use crate::blocks::{BlockIndex, Blocks, NONE};
use crate::pool::PoolIndex;

impl<S: FnMut(Event)> Allocator<'_, S> {
    /// Takes the cached block that serves a rounded request out of its pool; `None` if the cache cannot serve it.
    #[inline]
    pub(super) fn search(&mut self, pool: PoolIndex, stream: u32, rounded: u64) -> Option<BlockIndex> {
        let searched = &mut self.pools[pool as usize];
        if self.collects_at.is_some() {
            searched.searches += 1;
        }
        let free = &mut searched.shelf(stream).free;
        let mut larger = free.range((rounded, 0, 0)..);
        let mut best = *larger.next()?;
        let mut next = larger.next().copied();
        if self.blocks.get(best.2).is_expandable() {
            if self.policy.settings.expandable_segments {
                // A block counts as what it could grow to, so a larger one that grows less may be the better fit.
                while let Some(other) = next
                    && self.blocks.get(best.2).is_expandable()
                    && could_be(&self.blocks, other.2) < could_be(&self.blocks, best.2)
                {
                    best = other;
                    next = larger.next().copied();
                }
            } else {
                best = next?;
                while self.blocks.get(best.2).is_expandable() {
                    best = *larger.next()?;
                }
                next = larger.next().copied();
            }
        }
        let refused = if rounded < self.max_split {
            best.0 >= self.max_split
        } else {
            best.0 >= rounded.saturating_add(self.policy.max_non_split_rounding)
        };
        if refused {
            return None;
        }
        self.totals.ties += u64::from(next.is_some_and(|other| other.0 == best.0));
        free.remove(&best);
        Some(best.2)
    }

    /// The largest free block of a pool and stream that is smaller than `bytes`.
    pub(super) fn largest_below(&mut self, pool: PoolIndex, stream: u32, bytes: u64) -> Option<BlockIndex> {
        let free = &self.pools[pool as usize].shelf(stream).free;
        free.range((Bound::Unbounded, Bound::Excluded((bytes, 0, 0)))).next_back().map(|found| found.2)
    }
}

/// The size of a block and of the address space behind it that has no memory yet.
fn could_be(blocks: &Blocks, index: BlockIndex) -> u64 {
    let block = blocks.get(index);
    let behind = if block.after == NONE { None } else { Some(blocks.get(block.after)) };
    block.bytes + behind.filter(|behind| !behind.mapped).map_or(0, |behind| behind.bytes)
}
