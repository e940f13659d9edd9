//! What must hold in an allocator after every request.

use vramscope_trace::Event;

use crate::allocator::Allocator;
use crate::blocks::{BlockIndex, NONE, Use};

/// Checks that the tables agree with each other and that nothing is lost. Panics with the first thing that is wrong.
pub(super) fn check<S: FnMut(Event)>(allocator: &mut Allocator<'_, S>) {
    let alive = allocator.blocks.alive();
    let (mut reserved, mut live, mut pending) = (0, 0, 0);
    let mut shelved = 0;
    for &index in &alive {
        let block = *allocator.blocks.get(index);
        assert!(block.bytes > 0, "{block:?}");
        assert!(block.mapped || block.state == Use::Free && block.is_expandable(), "{block:?}");
        if block.mapped {
            reserved += block.bytes;
        }
        match block.state {
            Use::Live => live += block.bytes,
            Use::Pending => pending += block.bytes,
            Use::Free => {
                shelved += 1;
                let shelf = allocator.pools[block.pool as usize].shelf(block.stream);
                let known = if block.mapped {
                    shelf.free.contains(&(block.bytes, block.address, index))
                } else {
                    shelf.unmapped.contains(&(block.address, index))
                };
                assert!(known, "no pool knows {block:?}");
            }
        }
        if block.before != NONE {
            let before = *allocator.blocks.get(block.before);
            assert!(alive.contains(&block.before), "{block:?} names a neighbour that is gone");
            assert_eq!((before.after, before.end()), (index, block.address), "{block:?}");
            assert_eq!((before.pool, before.stream, before.reservation), (block.pool, block.stream, block.reservation));
            let both_free = before.state == Use::Free && block.state == Use::Free;
            assert!(!both_free || before.mapped != block.mapped, "{before:?} and {block:?} should be one");
        }
        if block.after != NONE {
            assert_eq!(allocator.blocks.get(block.after).before, index, "{block:?}");
        }
    }
    let totals = *allocator.totals();
    assert_eq!((reserved, live, pending), (totals.reserved, totals.allocated, totals.pending));
    assert!(totals.peak_reserved >= totals.reserved && totals.peak_allocated >= totals.allocated);
    assert!(live + pending <= reserved);
    assert_eq!(shelved, entries(allocator), "pools know blocks that are gone");
    if let Some(limit) = allocator.policy.limit.bytes()
        && !allocator.policy.settings.expandable_segments
    {
        assert!(reserved <= limit, "{reserved} bytes reserved of {limit}");
    }
}

fn entries<S>(allocator: &mut Allocator<'_, S>) -> usize {
    let streams = allocator.streams.len() as u32;
    let pools = allocator.pools.iter_mut();
    pools
        .flat_map(|pool| {
            (0..streams)
                .map(|stream| {
                    let shelf = pool.shelf(stream);
                    shelf.free.len() + shelf.unmapped.len()
                })
                .collect::<Vec<_>>()
        })
        .sum()
}

impl crate::blocks::Blocks {
    /// Every block that exists.
    fn alive(&self) -> Vec<BlockIndex> {
        (0..self.count()).filter(|index| !self.is_spare(*index)).collect()
    }
}
