//! What is known about a request that failed or would fail: the input of the decision tree, whoever tells it.

use vramscope_trace::{AllocatorSettings, PoolOwner, StreamId};

use super::{Asked, Capacity, CapacitySource};
use crate::queries::block_map::gaps;
use crate::{LaneState, PoolFigures, fit, fragmentation};

/// How a request would be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// A cached block takes it.
    FromCache,
    /// The driver has room for a new segment.
    ByDriver,
    /// The driver has room once cached segments have gone back to it.
    AfterEmptying,
}

/// What is known. Bytes; `None` = unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// It was not made: what the driver has free is what it would have after the cache has been emptied.
    pub(super) hypothetical: bool,
    /// How it would be served, where it would.
    pub(super) served: Option<Served>,
    /// What was asked for, rounded.
    pub(super) request: Option<u64>,
    /// What the driver was asked for.
    pub(super) segment: Option<u64>,
    /// The size asked for is beyond all sense.
    pub(super) absurd: bool,
    /// The allocator turned it down by its limit alone.
    pub(super) rejected: bool,
    /// The allocator said that the address range of its expandable segments is too short.
    pub(super) beyond_range: bool,
    /// The card's memory.
    pub(super) card: Option<u64>,
    /// The program's own limit.
    pub(super) allowed: Option<u64>,
    /// It is known that there is no such limit.
    pub(super) unlimited: bool,
    /// What the driver had free.
    pub(super) device_free: Option<u64>,
    /// Segments of this process.
    pub(super) reserved: Option<u64>,
    /// Blocks in use of this process.
    pub(super) allocated: Option<u64>,
    /// What other processes hold.
    pub(super) other_processes: Option<u64>,
    /// What this process holds outside its segments.
    pub(super) non_framework: Option<u64>,
    /// Free inside segments that may serve the request (or whose pool is unknown), in pieces.
    pub(super) free_inside: Option<u64>,
    /// How many pieces that is.
    pub(super) pieces: Option<usize>,
    /// The largest of them that could serve it.
    pub(super) largest: Option<u64>,
    /// Free in other owners' pools.
    pub(super) private_free: Option<u64>,
    /// Free with other streams.
    pub(super) other_stream_free: Option<u64>,
    /// The largest reserved total that is known to have been possible.
    pub(super) most_reserved: Option<u64>,
}

impl Facts {
    /// How much is missing; `None` = unknown.
    pub(super) fn shortage(&self) -> Option<u64> {
        Some(self.segment?.saturating_sub(self.device_free?))
    }

    /// What a lane's state and the capacity tell about a request.
    pub(super) fn of_state(
        state: &LaneState,
        asked: &Asked,
        capacity: &Capacity,
        settings: &AllocatorSettings,
    ) -> Self {
        let (bytes, owner, stream) = match asked {
            Asked::Failure(oom) => (oom.requested, PoolOwner::DEFAULT, oom.stream.unwrap_or_default()),
            Asked::Request { bytes, owner, stream, .. } => (*bytes, *owner, *stream),
        };
        let fit = fit(state, bytes, owner, stream, settings);
        let mut facts = Self {
            hypothetical: matches!(asked, Asked::Request { .. }),
            request: Some(fit.rounded),
            segment: Some(fit.segment_bytes),
            card: capacity.card,
            reserved: Some(state.reserved),
            allocated: Some(state.allocated),
            other_processes: capacity.other_processes,
            non_framework: capacity.non_framework,
            largest: Some(fit.largest_free_here),
            most_reserved: capacity.bytes.filter(|_| capacity.source == CapacitySource::MemoryFraction),
            ..Self::default()
        };
        facts.count_free(state, owner, stream);
        let room = facts.room(capacity);
        match asked {
            Asked::Failure(oom) => {
                // On a card that the user made smaller, less would have been free.
                let room =
                    room.filter(|room| capacity.card.is_some() && *room < oom.device_free.unwrap_or(fit.segment_bytes));
                facts.device_free = room.or(oom.device_free);
            }
            Asked::Request { .. } => {
                let releasable = facts.leave_pinned(state, owner, stream);
                facts.device_free = room.map(|room| room.saturating_add(releasable));
                facts.allowed = capacity.bytes.filter(|_| capacity.source == CapacitySource::MemoryFraction);
                facts.served = if fit.from_cache.is_some() {
                    Some(Served::FromCache)
                } else if room.is_some_and(|room| room >= fit.segment_bytes) {
                    Some(Served::ByDriver)
                } else if facts.device_free.is_some_and(|free| free >= fit.segment_bytes) {
                    Some(Served::AfterEmptying)
                } else {
                    None
                };
            }
        }
        facts
    }

    /// What the capacity leaves beside what is held.
    fn room(&self, capacity: &Capacity) -> Option<u64> {
        let of_card = matches!(capacity.source, CapacitySource::User | CapacitySource::Card);
        let shared = if of_card { self.other_processes.unwrap_or(0) + self.non_framework.unwrap_or(0) } else { 0 };
        Some(capacity.bytes?.saturating_sub(self.reserved?).saturating_sub(shared))
    }

    /// Sorts free space by whether it may serve a request.
    fn count_free(&mut self, state: &LaneState, owner: PoolOwner, stream: StreamId) {
        let (mut inside, mut private, mut streams) = (0, 0, 0);
        for pool in &fragmentation(state).by_pool {
            let free = pool.releasable + pool.pinned;
            *(match place_of(pool, owner, stream) {
                Place::Inside => &mut inside,
                Place::OtherOwner => &mut private,
                Place::OtherStream => &mut streams,
            }) += free;
        }
        let mine = state.segments.iter().filter(|segment| {
            segment.pool.is_none_or(|pool| pool.owner == owner) && segment.stream.is_none_or(|its| its == stream)
        });
        self.pieces = Some(mine.map(|segment| gaps(segment).count()).sum());
        self.free_inside = Some(inside);
        self.private_free = Some(private);
        self.other_stream_free = Some(streams);
    }

    /// Takes what emptying the cache would return out of the free space, and says how much that is. A private pool's stays:
    /// its owner is still there.
    fn leave_pinned(&mut self, state: &LaneState, owner: PoolOwner, stream: StreamId) -> u64 {
        let mut released = 0;
        for pool in &fragmentation(state).by_pool {
            let free = match place_of(pool, owner, stream) {
                Place::Inside => &mut self.free_inside,
                Place::OtherStream => &mut self.other_stream_free,
                Place::OtherOwner => &mut self.private_free,
            };
            if pool.pool.is_some_and(|pool| pool.owner.is_private()) {
                continue;
            }
            *free = free.map(|free| free.saturating_sub(pool.releasable));
            released += pool.releasable;
        }
        released
    }
}

/// Where free space lies, seen from a request.
enum Place {
    Inside,
    OtherOwner,
    OtherStream,
}

fn place_of(pool: &PoolFigures, owner: PoolOwner, stream: StreamId) -> Place {
    if pool.pool.is_some_and(|pool| pool.owner != owner) {
        Place::OtherOwner
    } else if pool.stream.is_some_and(|its| its != stream) {
        Place::OtherStream
    } else {
        Place::Inside
    }
}
