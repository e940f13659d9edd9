//! A lane's allocations and frees in order, and how long each block lived: what steps and phases are read from.

use std::ops::Range;

use vramscope_trace::StackId;

use crate::{BlockId, History, LaneId, Position};

/// How many blocks are read between two looks at the cancel flag.
const STRIDE: u32 = 1 << 16;

/// One allocation or free.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    /// The state just after it.
    pub(super) at: u32,
    /// Its block: an index of [`Ops::lives`].
    pub(super) life: u32,
    /// Whether it allocates.
    pub(super) allocates: bool,
}

/// A block, seen from the order of operations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    /// The operation that allocated it; 0 for a block that was there before.
    pub(super) birth: u32,
    /// The operation that freed it; the number of operations if none did.
    pub(super) death: u32,
    /// What it takes.
    pub(super) bytes: u64,
    /// Whether it holds a single number.
    pub(super) scalar: bool,
    /// Whether it was there before recording began.
    pub(super) at_start: bool,
    /// Stack of the allocation.
    pub(super) stack: StackId,
    /// Stack of the free, where known.
    pub(super) free_stack: StackId,
}

/// A lane's operations.
#[derive(Clone, Debug, Default)]
pub(super) struct Ops {
    pub(super) ops: Vec<Op>,
    pub(super) lives: Vec<Life>,
}

/// The most a tensor of one number asks for (a double).
const SCALAR: u64 = 8;

impl Ops {
    /// Reads a lane; `None` when cancelled.
    pub(super) fn read(history: &History, lane: LaneId, cancel: &dyn Fn() -> bool) -> Option<Self> {
        let mut keys: Vec<u64> = Vec::new();
        let mut lives = Vec::new();
        for id in 0..history.blocks() {
            if id % STRIDE == 0 && cancel() {
                return None;
            }
            let Some(block) = history.block(BlockId(id)).filter(|block| block.lane == lane) else { continue };
            let index = lives.len() as u64;
            lives.push(Life {
                birth: 0,
                death: 0,
                bytes: block.bytes,
                // Where the request is unknown, the smallest block there is stands for a number.
                scalar: block.requested.map_or(block.bytes <= 512, |requested| requested <= SCALAR),
                at_start: block.at_start,
                stack: block.stack,
                free_stack: block.free_stack,
            });
            // Position, then frees before allocations (they never share one), then the block.
            if !block.at_start {
                keys.push(u64::from(block.allocated.0) << 32 | index << 1 | 1);
            }
            if let Some(freed) = block.free_requested.filter(|freed| *freed > history.recording_start()) {
                keys.push(u64::from(freed.0) << 32 | index << 1);
            }
        }
        if cancel() {
            return None;
        }
        keys.sort_unstable();
        let count = keys.len() as u32;
        for life in &mut lives {
            life.death = count;
        }
        let mut ops = Vec::with_capacity(keys.len());
        for (number, key) in keys.into_iter().enumerate() {
            let op = Op { at: (key >> 32) as u32, life: (key as u32) >> 1, allocates: key & 1 == 1 };
            let life: &mut Life = &mut lives[op.life as usize];
            if op.allocates {
                life.birth = number as u32;
            } else {
                life.death = number as u32;
            }
            ops.push(op);
        }
        Some(Self { ops, lives })
    }

    /// How many operations there are.
    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }

    /// The block of an operation.
    pub(super) fn life(&self, op: usize) -> &Life {
        &self.lives[self.ops[op].life as usize]
    }

    /// The stack that did an operation; none if the source does not tell who freed.
    pub(super) fn stack(&self, op: usize) -> StackId {
        let life = self.life(op);
        if self.ops[op].allocates { life.stack } else { life.free_stack }
    }

    /// The blocks that a range of operations allocated.
    pub(super) fn born_in(&self, range: Range<usize>) -> impl Iterator<Item = &Life> {
        self.ops[range].iter().filter(|op| op.allocates).map(|op| &self.lives[op.life as usize])
    }

    /// The state just before an operation; beyond the last one, `end`.
    pub(super) fn before(&self, op: usize, end: Position) -> Position {
        self.ops.get(op).map_or(end, |op| Position(op.at.saturating_sub(1)))
    }
}
