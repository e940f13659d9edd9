//! Beginning in the middle: a state that recordings found, or its blocks laid out anew.

use vramscope_trace::{Event, EventKind, StackId, StartBlock, StartRun, StartState};

use super::{Allocator, Ask};
use crate::blocks::{Block, BlockIndex, BlockRef, NONE, Use};

impl<S: FnMut(Event)> Allocator<'_, S> {
    /// Takes a state over as it is. Gives the name of each of its blocks; `None` for one that lies in no run or over another.
    pub fn adopt(&mut self, start: &StartState) -> Vec<Option<BlockRef>> {
        let runs = sound_runs(&start.runs);
        for run in &runs {
            self.adopt_run(run);
        }
        let mut numbers = vec![None; start.blocks.len()];
        let mut at = 0;
        for (run, piece) in self.start_pieces(&runs) {
            let mut rest = Some(piece);
            while let Some(block) = start.blocks.get(at)
                && block.address < run.address + run.bytes
            {
                if let Some(piece) = rest
                    && let Some((index, behind)) = self.carve(piece, block)
                {
                    numbers[at] = Some(self.name(index));
                    rest = behind;
                }
                at += 1;
            }
            if let Some(rest) = rest {
                self.shelve_new(rest);
            }
        }
        for (block, name) in start.blocks.iter().zip(&numbers) {
            if let Some(name) = *name {
                self.adopt_block(block, name);
            }
        }
        numbers
    }

    /// Lays the blocks of a state out anew, in the order of their addresses, as if they had been asked for one after another.
    ///
    /// # Errors
    /// The number of the first block that does not fit, and its rounded request.
    pub fn lay_out(&mut self, start: &StartState) -> Result<Vec<Option<BlockRef>>, (usize, u64)> {
        self.starting = true;
        let mut numbers = Vec::with_capacity(start.blocks.len());
        for (number, block) in start.blocks.iter().enumerate() {
            let StartBlock { requested, stream, owner, stack, pending, .. } = *block;
            let index = self.alloc(&Ask { bytes: requested, stream, owner, stack }).map_err(|bytes| (number, bytes))?;
            if pending {
                self.request_free(index, StackId::NONE);
            }
            numbers.push(Some(index));
        }
        self.starting = false;
        Ok(numbers)
    }

    fn adopt_run(&mut self, run: &StartRun) {
        let StartRun { address, bytes, pool, stack, .. } = *run;
        self.places.take(address, bytes);
        self.count_driver_memory(bytes);
        self.totals.segment_allocs -= 1;
        let (pool, at_start) = (Some(pool), true);
        let kind = if run.expandable {
            EventKind::SegmentMap { address, bytes, pool, stack, at_start }
        } else {
            EventKind::SegmentAlloc { address, bytes, pool, stack, at_start }
        };
        self.tell(run.stream, kind);
    }

    /// One free block for each run, by address, known to no pool yet.
    fn start_pieces<'s>(&mut self, runs: &'s [StartRun]) -> Vec<(&'s StartRun, BlockIndex)> {
        let mut pieces = Vec::new();
        let mut spaces: Vec<(&StartRun, Vec<&StartRun>)> = Vec::new();
        for run in runs {
            // Only whole pages are ever mapped. A run of anything else is kept as an ordinary segment.
            let page = self.policy.page(run.pool.class);
            if run.expandable && run.bytes.is_multiple_of(page) {
                let same = |(first, _): &&mut (&StartRun, _)| (first.pool, first.stream) == (run.pool, run.stream);
                match spaces.iter_mut().find(same) {
                    Some((first, runs)) if run.address.abs_diff(first.address).is_multiple_of(page) => {
                        runs.push(run);
                        continue;
                    }
                    None => {
                        spaces.push((run, vec![run]));
                        continue;
                    }
                    Some(_) => {}
                }
            }
            let pool = self.pool_of(run.pool.owner, run.pool.class);
            let stream = self.stream_index(run.stream);
            let piece = self.blocks.add(Block {
                address: run.address,
                bytes: run.bytes,
                before: NONE,
                after: NONE,
                reservation: NONE,
                pool,
                stream,
                state: Use::Free,
                mapped: true,
                born: 0,
                serial: 0,
            });
            pieces.push((run, piece));
        }
        for (first, runs) in spaces {
            let pool = self.pool_of(first.pool.owner, first.pool.class);
            let stream = self.stream_index(first.stream);
            let places: Vec<(u64, u64)> = runs.iter().map(|run| (run.address, run.bytes)).collect();
            pieces.extend(runs.into_iter().zip(self.adopt_space(&places, pool, stream)));
        }
        pieces.sort_by_key(|(run, _)| run.address);
        pieces
    }

    /// Cuts a block of the start out of a free piece: its number, and what is left behind it. What lies before it is shelved.
    /// `None` if it does not lie inside the piece.
    fn carve(&mut self, piece: BlockIndex, block: &StartBlock) -> Option<(BlockIndex, Option<BlockIndex>)> {
        let Block { address, bytes, .. } = *self.blocks.get(piece);
        let before = block.address.checked_sub(address)?;
        let behind = bytes.checked_sub(before)?.checked_sub(block.bytes)?;
        if block.bytes == 0 {
            return None;
        }
        if before > 0 {
            let gap = self.blocks.cut_front(piece, before);
            self.shelve_new(gap);
        }
        Some(if behind == 0 { (piece, None) } else { (self.blocks.cut_front(piece, block.bytes), Some(piece)) })
    }

    fn adopt_block(&mut self, block: &StartBlock, name: BlockRef) {
        let &StartBlock { address, bytes, requested, stream, stack, pending, .. } = block;
        self.totals.allocated += bytes;
        self.tell(stream, EventKind::BlockAlloc { address, bytes, requested: Some(requested), stack, at_start: true });
        if pending {
            self.starting = true;
            self.request_free(name, StackId::NONE);
            self.starting = false;
        }
        self.totals.peak_allocated = self.totals.peak_allocated.max(self.totals.allocated);
    }
}

/// The runs by address, without those that are empty, beyond the address space, or over another.
fn sound_runs(runs: &[StartRun]) -> Vec<StartRun> {
    let mut sound = runs.to_vec();
    sound.sort_by_key(|run| run.address);
    let mut free_from = 0;
    sound.retain(|run| {
        let end = run.address.checked_add(run.bytes).filter(|end| *end > run.address && run.address >= free_from);
        free_from = end.unwrap_or(free_from);
        end.is_some()
    });
    sound
}
