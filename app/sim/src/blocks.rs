//! Blocks: pieces of memory, each linked to its neighbours in the same segment.

use crate::pool::PoolIndex;

/// Names a block while it exists; numbers are used again.
pub(crate) type BlockIndex = u32;

/// Names a block that was handed out, for good: it never means another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockRef {
    pub(crate) index: BlockIndex,
    pub(crate) serial: u32,
}

/// No block, no reservation.
pub(crate) const NONE: u32 = u32::MAX;

/// Who has a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// The cache.
    Free,
    /// The program.
    Live,
    /// Nobody, but another stream may still work on it.
    Pending,
}

/// A piece of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// Neighbours by address in the same segment, or [`NONE`].
    pub(crate) before: BlockIndex,
    pub(crate) after: BlockIndex,
    /// The expandable segment it is a part of, or [`NONE`] for an ordinary one.
    pub(crate) reservation: u32,
    pub(crate) pool: PoolIndex,
    /// Number of its stream.
    pub(crate) stream: u32,
    pub(crate) state: Use,
    /// False for address space without memory behind it.
    pub(crate) mapped: bool,
    /// How many searches its pool had seen when it became free.
    pub(crate) born: u64,
    /// The how manieth to be handed out it was.
    pub(crate) serial: u32,
}

impl Block {
    /// Whether it is the whole of its segment.
    pub(crate) fn is_whole(&self) -> bool {
        self.before == NONE && self.after == NONE
    }

    /// Past its last byte.
    pub(crate) fn end(&self) -> u64 {
        self.address + self.bytes
    }

    pub(crate) fn is_expandable(&self) -> bool {
        self.reservation != NONE
    }
}

/// All blocks of an allocator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    rows: Vec<Block>,
    spare: Vec<BlockIndex>,
}

impl Blocks {
    #[inline]
    pub(crate) fn get(&self, index: BlockIndex) -> &Block {
        &self.rows[index as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: BlockIndex) -> &mut Block {
        &mut self.rows[index as usize]
    }

    /// Stores a block.
    #[inline]
    pub(crate) fn add(&mut self, block: Block) -> BlockIndex {
        if let Some(index) = self.spare.pop() {
            self.rows[index as usize] = block;
            return index;
        }
        self.rows.push(block);
        (self.rows.len() - 1) as BlockIndex
    }

    /// Forgets a block that no neighbour refers to any more.
    #[inline]
    pub(crate) fn remove(&mut self, index: BlockIndex) {
        self.spare.push(index);
    }

    /// Cuts the first `bytes` off a block: returns the new front part, linked before it. The block keeps its number.
    #[inline]
    pub(crate) fn cut_front(&mut self, index: BlockIndex, bytes: u64) -> BlockIndex {
        let whole = *self.get(index);
        let front = self.add(Block { bytes, after: index, ..whole });
        if whole.before != NONE {
            self.get_mut(whole.before).after = front;
        }
        let rest = self.get_mut(index);
        rest.before = front;
        rest.address += bytes;
        rest.bytes -= bytes;
        front
    }

    /// Cuts everything behind the first `bytes` off a block: returns the new rear part. The block keeps its number.
    pub(crate) fn cut_rear(&mut self, index: BlockIndex, bytes: u64) -> BlockIndex {
        let whole = *self.get(index);
        let rear =
            self.add(Block { address: whole.address + bytes, bytes: whole.bytes - bytes, before: index, ..whole });
        if whole.after != NONE {
            self.get_mut(whole.after).before = rear;
        }
        let front = self.get_mut(index);
        front.after = rear;
        front.bytes = bytes;
        rear
    }

    /// Joins a neighbour into a block, which keeps its number; the neighbour's is forgotten.
    #[inline]
    pub(crate) fn join(&mut self, into: BlockIndex, neighbour: BlockIndex) {
        let other = *self.get(neighbour);
        let block = self.get_mut(into);
        block.bytes += other.bytes;
        if block.before == neighbour {
            block.address = other.address;
            block.before = other.before;
            if other.before != NONE {
                self.get_mut(other.before).after = into;
            }
        } else {
            block.after = other.after;
            if other.after != NONE {
                self.get_mut(other.after).before = into;
            }
        }
        self.remove(neighbour);
    }
}

#[cfg(test)]
impl Blocks {
    /// How many rows there are, forgotten ones included.
    pub(crate) fn count(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Whether a row is forgotten.
    pub(crate) fn is_spare(&self, index: BlockIndex) -> bool {
        self.spare.contains(&index)
    }
}
