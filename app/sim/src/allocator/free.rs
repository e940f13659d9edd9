//! Frees: at once, or when the other streams that used a block are done with it.

use std::collections::BTreeMap;

use vramscope_trace::{Event, EventKind, StackId};

use super::Allocator;
use crate::blocks::{BlockIndex, BlockRef, Use};

/// Blocks that wait for other streams, in the order in which they were freed.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingFrees {
    /// The one freed last, kept apart: most frees are completed at once.
    newest: Option<(u64, BlockIndex)>,
    older: BTreeMap<u64, BlockIndex>,
    /// Where a block stands in line.
    places: rustc_hash::FxHashMap<BlockIndex, u64>,
    count: u64,
}

impl PendingFrees {
    #[inline]
    fn push(&mut self, block: BlockIndex) {
        if let Some((place, older)) = self.newest.replace((self.count, block)) {
            self.older.insert(place, older);
            self.places.insert(older, place);
        }
        self.count += 1;
    }

    #[inline]
    fn remove(&mut self, block: BlockIndex) {
        if let Some((_, newest)) = self.newest
            && newest == block
        {
            self.newest = None;
        } else if let Some(place) = self.places.remove(&block) {
            self.older.remove(&place);
        }
    }

    fn first(&self) -> Option<BlockIndex> {
        self.older.values().next().copied().or(self.newest.map(|(_, block)| block))
    }
}

impl<S: FnMut(Event)> Allocator<'_, S> {
    /// The program gives a block up. It is not free before [`Self::complete_free`].
    /// Nothing happens if it is not live.
    pub fn request_free(&mut self, block: BlockRef, stack: StackId) {
        let freed = self.blocks.get_mut(block.index);
        if freed.state != Use::Live || freed.serial != block.serial {
            return;
        }
        freed.state = Use::Pending;
        let freed = *freed;
        self.totals.allocated -= freed.bytes;
        self.totals.pending += freed.bytes;
        self.pending.push(block.index);
        self.tell(
            self.stream_of(&freed),
            EventKind::FreeRequested { address: freed.address, stack, at_start: self.starting },
        );
    }

    /// No stream uses a given-up block any more: it becomes free and joins its free neighbours.
    /// Nothing happens if it is not pending.
    #[inline]
    pub fn complete_free(&mut self, block: BlockRef) {
        let known = self.blocks.get(block.index);
        if known.state == Use::Pending && known.serial == block.serial {
            self.complete(block.index);
        }
    }

    #[inline]
    fn complete(&mut self, block: BlockIndex) {
        let freed = *self.blocks.get(block);
        self.pending.remove(block);
        self.totals.pending -= freed.bytes;
        self.tell(self.stream_of(&freed), EventKind::FreeCompleted { address: freed.address });
        self.blocks.get_mut(block).state = Use::Free;
        self.join_neighbour(block, freed.before);
        self.join_neighbour(block, freed.after);
        self.shelve_new(block);
    }

    /// Waits for all streams. Blocks completed here are told to nobody: they are in the events.
    pub(super) fn complete_all(&mut self) {
        while let Some(block) = self.pending.first() {
            self.complete(block);
        }
    }
}
