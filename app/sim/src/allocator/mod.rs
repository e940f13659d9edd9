//! The caching allocator itself: what PyTorch's does with each request, step by step, in the same order.

mod device;
mod expandable;
mod free;
mod release;
mod search;
mod start;
#[cfg(test)]
mod tests;

use rustc_hash::FxHashMap;
use vramscope_trace::{
    AllocatorSettings, DeviceId, DriverPlace, Event, EventKind, Origin, Pool as PoolName, PoolOwner, ProcessId,
    SizeClass, StackId, StreamId, TimeNs,
};

pub(crate) use free::PendingFrees;

use crate::blocks::{Block, BlockIndex, BlockRef, Blocks, NONE, Use};
use crate::places::{Addresses, Places};
use crate::policy::Policy;
use crate::pool::{Pool, PoolIndex};

/// A request for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What the tensor needs.
    pub bytes: u64,
    /// The stream it is for.
    pub stream: StreamId,
    /// The owner of the pool it has to come from.
    pub owner: PoolOwner,
    /// Stack of the call.
    pub stack: StackId,
}

/// Sums over a run. Bytes, unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// From the driver now.
    pub reserved: u64,
    /// In use now.
    pub allocated: u64,
    /// Freed, but waiting for another stream.
    pub pending: u64,
    /// The most ever reserved.
    pub peak_reserved: u64,
    /// The most ever in use.
    pub peak_allocated: u64,
    /// How often the driver gave memory: a segment, or pages.
    pub segment_allocs: u64,
    /// How often memory went back to the driver.
    pub segment_frees: u64,
    /// How often all caches were emptied to make room.
    pub retries: u64,
    /// How often an address decided between blocks of equal size.
    pub ties: u64,
    /// How many segments were placed after the run had left the recorded one: their addresses are no facts.
    pub guessed_places: u64,
}

/// An address range that expandable memory is mapped into.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    /// Memory is mapped in multiples of this, counted from its first byte.
    page: u64,
    start: u64,
}

/// PyTorch's caching allocator for one device. Every change is told to `sink` as an [`Event`].
#[derive(Debug)]
pub struct Allocator<'a, S> {
    policy: Policy,
    /// The policy's threshold of garbage collection in bytes; `None` = off.
    collects_at: Option<u64>,
    max_split: u64,
    blocks: Blocks,
    pools: Vec<Pool>,
    owners: FxHashMap<PoolOwner, PoolIndex>,
    streams: Vec<StreamId>,
    stream_indices: FxHashMap<StreamId, u32>,
    newest_stream: Option<(StreamId, u32)>,
    reservations: Vec<Reservation>,
    places: Places<'a>,
    pending: PendingFrees,
    totals: Totals,
    /// Process, device and time of the events told.
    process: ProcessId,
    device: DeviceId,
    now: Option<TimeNs>,
    /// Whether what happens is told as a fact about the start.
    starting: bool,
    handed_out: u32,
    sink: S,
}

impl<'a, S: FnMut(Event)> Allocator<'a, S> {
    /// An allocator that has not reserved anything. `places` are used as [`Addresses`] says.
    pub fn new(policy: Policy, addresses: Addresses, places: &'a [DriverPlace], sink: S) -> Self {
        let mut allocator = Self {
            collects_at: policy.collects_at(),
            max_split: policy.settings.max_split_size.unwrap_or(u64::MAX),
            policy,
            blocks: Blocks::default(),
            pools: Vec::new(),
            owners: FxHashMap::default(),
            streams: Vec::new(),
            stream_indices: FxHashMap::default(),
            newest_stream: None,
            reservations: Vec::new(),
            places: Places::new(addresses, places),
            pending: PendingFrees::default(),
            totals: Totals::default(),
            process: ProcessId::default(),
            device: DeviceId::default(),
            now: None,
            starting: false,
            handed_out: 0,
            sink,
        };
        allocator.pool_of(PoolOwner::DEFAULT, SizeClass::Large);
        allocator
    }

    /// Sets what the events to come say of their process and device.
    pub fn set_place(&mut self, process: ProcessId, device: DeviceId) {
        (self.process, self.device) = (process, device);
    }

    /// Sets the time of the events to come.
    #[inline]
    pub fn set_time(&mut self, now: Option<TimeNs>) {
        self.now = now;
    }

    /// Sets which recorded event shows the request to come, so that its memory can be placed as recorded.
    #[inline]
    pub fn set_event(&mut self, event: u32) {
        self.places.set_event(event);
    }

    /// The sums so far.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The policy it follows.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// First byte and length of a block; `None` once it is free.
    pub fn block(&self, block: BlockRef) -> Option<(u64, u64)> {
        let found = self.blocks.get(block.index);
        (found.serial == block.serial && found.state != Use::Free).then_some((found.address, found.bytes))
    }

    /// Hands out a block.
    ///
    /// # Errors
    /// The rounded request, if everything was tried in vain. An out-of-memory event has been told.
    pub fn alloc(&mut self, ask: &Ask) -> Result<BlockRef, u64> {
        let rounded = self.policy.settings.round(ask.bytes);
        let pool = self.pool_of(ask.owner, AllocatorSettings::class_of(rounded));
        let stream = self.stream_index(ask.stream);
        let found = match self.search(pool, stream, rounded) {
            Some(block) => block,
            None => match self.make_room(ask, pool, stream, rounded) {
                Some(block) => block,
                None => {
                    self.tell_failure(ask, rounded);
                    return Err(rounded);
                }
            },
        };
        Ok(self.hand_out(found, ask, rounded))
    }

    /// Splits what was found, marks it as live and says so.
    #[inline]
    fn hand_out(&mut self, found: BlockIndex, ask: &Ask, rounded: u64) -> BlockRef {
        let whole = *self.blocks.get(found);
        let pool = &self.pools[whole.pool as usize];
        let rest = whole.bytes - rounded;
        let splits = rest > 0
            && self.policy.settings.splits(rounded, rest, self.policy.settings.expandable_segments)
            && !(pool.name.owner.is_private() && self.policy.traits(pool.name.owner).no_split);
        let block = if splits {
            let front = self.blocks.cut_front(found, rounded);
            // The rest keeps the age of the whole.
            self.shelve(found);
            front
        } else {
            found
        };
        let named = self.name(block);
        let Block { address, bytes, .. } = *self.blocks.get(block);
        self.tell(
            ask.stream,
            EventKind::BlockAlloc {
                address,
                bytes,
                requested: Some(ask.bytes),
                stack: ask.stack,
                at_start: self.starting,
            },
        );
        self.totals.allocated += bytes;
        self.totals.peak_allocated = self.totals.peak_allocated.max(self.totals.allocated);
        named
    }

    /// Marks a block as live and gives it a name.
    #[inline]
    fn name(&mut self, index: BlockIndex) -> BlockRef {
        self.handed_out = self.handed_out.wrapping_add(1);
        let block = self.blocks.get_mut(index);
        block.state = Use::Live;
        block.serial = self.handed_out;
        BlockRef { index, serial: self.handed_out }
    }

    fn tell_failure(&mut self, ask: &Ask, rounded: u64) {
        let left = self.policy.limit.bytes().map(|limit| limit.saturating_sub(self.totals.reserved));
        self.tell(ask.stream, EventKind::OutOfMemory { requested: rounded, device_free: left, stack: ask.stack });
    }

    /// The pool for requests of an owner and class. An owner's pools come in pairs: large, then small.
    #[inline]
    fn pool_of(&mut self, owner: PoolOwner, class: SizeClass) -> PoolIndex {
        let second = PoolIndex::from(class == SizeClass::Small);
        if owner == PoolOwner::DEFAULT && !self.pools.is_empty() {
            return second;
        }
        let first = *self.owners.entry(owner).or_insert_with(|| {
            let first = self.pools.len() as PoolIndex;
            self.pools.push(Pool::new(PoolName { owner, class: SizeClass::Large }));
            self.pools.push(Pool::new(PoolName { owner, class: SizeClass::Small }));
            first
        });
        first + second
    }

    #[inline]
    fn stream_index(&mut self, stream: StreamId) -> u32 {
        if let Some((known, index)) = self.newest_stream
            && known == stream
        {
            return index;
        }
        let index = *self.stream_indices.entry(stream).or_insert_with(|| {
            self.streams.push(stream);
            (self.streams.len() - 1) as u32
        });
        self.newest_stream = Some((stream, index));
        index
    }

    /// Puts a free block where searches find it, without touching its age.
    #[inline]
    fn shelve(&mut self, index: BlockIndex) {
        let Block { pool, stream, bytes, address, .. } = *self.blocks.get(index);
        self.pools[pool as usize].shelf(stream).free.insert((bytes, address, index));
    }

    /// As [`Self::shelve`]; its age begins now.
    #[inline]
    fn shelve_new(&mut self, index: BlockIndex) {
        let pool = self.blocks.get(index).pool;
        self.blocks.get_mut(index).born = self.pools[pool as usize].searches;
        self.shelve(index);
    }

    /// Takes a free block out of its pool.
    #[inline]
    fn unshelve(&mut self, index: BlockIndex) {
        let Block { pool, stream, bytes, address, .. } = *self.blocks.get(index);
        self.pools[pool as usize].shelf(stream).free.remove(&(bytes, address, index));
    }

    fn stream_of(&self, block: &Block) -> StreamId {
        self.streams[block.stream as usize]
    }

    #[inline]
    fn tell(&mut self, stream: StreamId, kind: EventKind) {
        (self.sink)(Event {
            time: self.now,
            process: self.process,
            device: self.device,
            stream: Some(stream),
            origin: Origin::Simulator,
            kind,
        });
    }

    /// Joins a neighbour that is free in the same way (memory, or address space without memory) into a block.
    #[inline]
    fn join_neighbour(&mut self, into: BlockIndex, neighbour: BlockIndex) {
        if neighbour == NONE {
            return;
        }
        let other = *self.blocks.get(neighbour);
        if other.state != Use::Free || other.mapped != self.blocks.get(into).mapped {
            return;
        }
        let shelf = self.pools[other.pool as usize].shelf(other.stream);
        if other.mapped {
            shelf.free.remove(&(other.bytes, other.address, neighbour));
        } else {
            shelf.unmapped.remove(&(other.address, neighbour));
        }
        self.blocks.join(into, neighbour);
    }
}
