//! Typed numbers for places in a history: positions, events, blocks, segments, lanes.

/// How many events have been applied: the state *at* position p is the state after the first p events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u32);

impl Position {
    /// Before any event.
    pub const START: Self = Self(0);

    /// The last event applied; `None` at the start.
    pub fn last_event(self) -> Option<EventSeq> {
        self.0.checked_sub(1).map(EventSeq)
    }

    /// The event that would be applied next.
    pub fn next_event(self) -> EventSeq {
        EventSeq(self.0)
    }
}

/// An event's number in the one total order, from 0. Only [`crate::Ingest`] gives these out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventSeq(pub u32);

impl EventSeq {
    /// The position just before this event.
    pub fn before(self) -> Position {
        Position(self.0)
    }

    /// The position just after this event.
    pub fn after(self) -> Position {
        Position(self.0.saturating_add(1))
    }
}

/// A block's number in order of allocation, over all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// A segment's number in order of creation, over all lanes. An address that is reserved again gets a new number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u32);

/// A lane is one process's allocator on one device; lanes are numbered in order of appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u16);

/// What a lane counts, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Bytes the allocator holds from the driver.
    Reserved,
    /// Bytes of blocks in use, rounding included; falls when a free is requested.
    Allocated,
    /// Bytes that tensors asked for; falls with allocated. Unknown for a lane once one block's is unknown.
    Requested,
    /// Bytes freed by the program that still wait for another stream.
    Pending,
}

impl Metric {
    /// Every metric, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Reserved, Self::Allocated, Self::Requested, Self::Pending];
}

/// How much stored data a query read: exact, so that tests can hold queries to their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Rows read from event, block, segment, checkpoint, series and index tables.
    pub rows: u64,
}
