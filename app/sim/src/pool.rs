//! A pool's free blocks, ordered as the allocator searches them.

use std::collections::BTreeSet;

use vramscope_trace::{Pool as PoolName, StreamId};

use crate::blocks::BlockIndex;

/// Number of a pool in its allocator.
pub(crate) type PoolIndex = u32;

/// Free memory of one pool that serves one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shelf {
    /// Free blocks by (bytes, address): best fit is the first that is large enough, ties go to the lowest address.
    pub(crate) free: BTreeSet<(u64, u64, BlockIndex)>,
    /// Address space without memory, by address.
    pub(crate) unmapped: BTreeSet<(u64, BlockIndex)>,
}

/// A pool: small or large requests of one owner.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) name: PoolName,
    /// Its owner is gone, so that its cached memory can be given back. Always true of the default pools.
    pub(crate) releasable: bool,
    /// How many searches it has seen while garbage collection was on: the clock of ages.
    pub(crate) searches: u64,
    /// By the number of the stream.
    shelves: Vec<Shelf>,
}

impl Pool {
    pub(crate) fn new(name: PoolName) -> Self {
        Self { name, releasable: !name.owner.is_private(), searches: 0, shelves: Vec::new() }
    }

    /// What is free for a stream.
    #[inline]
    pub(crate) fn shelf(&mut self, stream: u32) -> &mut Shelf {
        let index = stream as usize;
        if index >= self.shelves.len() {
            self.shelves.resize_with(index + 1, Shelf::default);
        }
        &mut self.shelves[index]
    }

    /// All free blocks in the allocator's order: by stream handle, size, address.
    pub(crate) fn in_order(&self, streams: &[StreamId]) -> Vec<BlockIndex> {
        let mut order: Vec<usize> = (0..self.shelves.len()).collect();
        order.sort_by_key(|&index| streams.get(index));
        order.into_iter().flat_map(|index| self.shelves[index].free.iter().map(|&(_, _, block)| block)).collect()
    }
}
