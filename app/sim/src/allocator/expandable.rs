//! Expandable segments: address space that memory is mapped into, page by page, as requests need it.

use vramscope_trace::{Event, EventKind};

use super::{Allocator, Ask, Reservation};
use crate::blocks::{Block, BlockIndex, NONE, Use};
use crate::places::WIDE;
use crate::policy::Limit;
use crate::pool::PoolIndex;

impl<S: FnMut(Event)> Allocator<'_, S> {
    /// A block of at least `rounded` bytes, with memory mapped where it lacked; `None` if the device or the address space
    /// does not suffice. What was mapped until then stays, free.
    pub(super) fn expandable_block(
        &mut self,
        ask: &Ask,
        pool: PoolIndex,
        stream: u32,
        rounded: u64,
    ) -> Option<BlockIndex> {
        let mut block = self.room(pool, stream, rounded)?;
        let Block { mapped, bytes, .. } = *self.blocks.get(block);
        if !mapped {
            self.map(ask, block, bytes.min(rounded))?;
        }
        while self.blocks.get(block).bytes < rounded {
            // The address space behind takes in the free block before it, and goes on under its own number.
            let Block { bytes, after, .. } = *self.blocks.get(block);
            let space = self.blocks.get(after).bytes;
            self.map(ask, after, space.min(rounded - bytes))?;
            block = after;
        }
        self.unshelve(block);
        Some(block)
    }

    /// The first run of free blocks and empty address space that is long enough, by address; else new address space.
    fn room(&mut self, pool: PoolIndex, stream: u32, rounded: u64) -> Option<BlockIndex> {
        let is_free = |index: BlockIndex| index != NONE && self.blocks.get(index).state == Use::Free;
        let holds = |from: BlockIndex| {
            let (mut at, mut bytes) = (from, 0);
            while bytes < rounded && is_free(at) {
                bytes += self.blocks.get(at).bytes;
                at = self.blocks.get(at).after;
            }
            bytes >= rounded
        };
        let candidates = self.pools[pool as usize].shelf(stream).unmapped.iter().map(|&(_, index)| {
            let before = self.blocks.get(index).before;
            if is_free(before) { before } else { index }
        });
        if let Some(found) = candidates.into_iter().find(|&from| holds(from)) {
            return Some(found);
        }
        let page = self.policy.page(self.pools[pool as usize].name.class);
        let space = self.policy.reservation.unwrap_or(WIDE).checked_next_multiple_of(page)?;
        let first = rounded.checked_next_multiple_of(page)?;
        if first > space {
            return None;
        }
        let start = self.places.reservation(space, first)?;
        self.reservations.push(Reservation { page, start });
        Some(self.add_space(start, space, pool, stream))
    }

    /// Adds a reservation's whole address space, without memory.
    fn add_space(&mut self, address: u64, bytes: u64, pool: PoolIndex, stream: u32) -> BlockIndex {
        let index = self.blocks.add(Block {
            address,
            bytes,
            before: NONE,
            after: NONE,
            reservation: (self.reservations.len() - 1) as u32,
            pool,
            stream,
            state: Use::Free,
            mapped: false,
            born: 0,
            serial: 0,
        });
        self.pools[pool as usize].shelf(stream).unmapped.insert((address, index));
        index
    }

    /// Maps at least `bytes` at the start of empty address space and joins what is free around it.
    fn map(&mut self, ask: &Ask, index: BlockIndex, bytes: u64) -> Option<()> {
        let Block { address, bytes: space, pool, stream, reservation, .. } = *self.blocks.get(index);
        let page = self.reservations[reservation as usize].page;
        let bytes = bytes.checked_next_multiple_of(page)?.min(space);
        if self.refuses_page(bytes) {
            return None;
        }
        self.pools[pool as usize].shelf(stream).unmapped.remove(&(address, index));
        if bytes < space {
            let rest = self.blocks.cut_rear(index, bytes);
            self.pools[pool as usize].shelf(stream).unmapped.insert((address + bytes, rest));
        }
        let block = self.blocks.get_mut(index);
        block.mapped = true;
        let (before, after) = (block.before, block.after);
        self.join_neighbour(index, before);
        self.join_neighbour(index, after);
        self.shelve_new(index);
        self.count_driver_memory(bytes);
        let name = Some(self.pools[pool as usize].name);
        self.tell(
            ask.stream,
            EventKind::SegmentMap { address, bytes, pool: name, stack: ask.stack, at_start: self.starting },
        );
        Some(())
    }

    /// Whether there are no `bytes` left to map. A cap has been asked before, for a whole segment.
    fn refuses_page(&self, bytes: u64) -> bool {
        !matches!(self.policy.limit, Limit::Fraction(_)) && self.exceeds_limit(bytes)
    }

    /// Gives the whole pages inside a free block back; the rest of it stays, free.
    pub(super) fn unmap(&mut self, index: BlockIndex) {
        let block = *self.blocks.get(index);
        let Reservation { page, start } = self.reservations[block.reservation as usize];
        let first = (block.address - start).div_ceil(page).saturating_mul(page).saturating_add(start);
        let end = (block.end() - start) / page * page + start;
        if first >= end {
            return;
        }
        self.unshelve(index);
        if first > block.address {
            let front = self.blocks.cut_front(index, first - block.address);
            self.shelve_new(front);
        }
        if end < block.end() {
            let rear = self.blocks.cut_rear(index, end - first);
            self.shelve_new(rear);
        }
        let unmapped = self.blocks.get_mut(index);
        unmapped.mapped = false;
        let (before, after) = (unmapped.before, unmapped.after);
        self.join_neighbour(index, before);
        self.join_neighbour(index, after);
        let joined = *self.blocks.get(index);
        self.totals.reserved -= end - first;
        self.totals.segment_frees += 1;
        self.tell(self.stream_of(&joined), EventKind::SegmentUnmap { address: first, bytes: end - first });
        if joined.is_whole() {
            self.blocks.remove(index);
        } else {
            self.pools[joined.pool as usize].shelf(joined.stream).unmapped.insert((joined.address, index));
        }
    }

    /// Makes an expandable segment of the start: address space with the mapped runs that lie in it, by address. The runs come
    /// back as free blocks that no pool knows yet.
    pub(super) fn adopt_space(&mut self, runs: &[(u64, u64)], pool: PoolIndex, stream: u32) -> Vec<BlockIndex> {
        let Some((&(start, _), &(last, bytes))) = runs.first().zip(runs.last()) else { return Vec::new() };
        let page = self.policy.page(self.pools[pool as usize].name.class);
        let known = last + bytes - start;
        let space = self.policy.reservation.unwrap_or(WIDE).max(known);
        let fits = |space: &u64| start.checked_add(*space).is_some();
        let space = space.checked_next_multiple_of(page).filter(fits).unwrap_or(known);
        self.reservations.push(Reservation { page, start });
        self.places.keep_clear(start + space);
        let rest = self.add_space(start, space, pool, stream);
        let mut made = Vec::new();
        for &(address, bytes) in runs {
            let here = *self.blocks.get(rest);
            self.pools[pool as usize].shelf(stream).unmapped.remove(&(here.address, rest));
            if here.address < address {
                let gap = self.blocks.cut_front(rest, address - here.address);
                self.pools[pool as usize].shelf(stream).unmapped.insert((here.address, gap));
            }
            if bytes >= self.blocks.get(rest).bytes {
                self.blocks.get_mut(rest).mapped = true;
                made.push(rest);
                break;
            }
            let run = self.blocks.cut_front(rest, bytes);
            self.blocks.get_mut(run).mapped = true;
            made.push(run);
            self.pools[pool as usize].shelf(stream).unmapped.insert((address + bytes, rest));
        }
        made
    }
}
