//! What a history tells about single things: events, blocks, segments, spans, failures. Plain values.

use vramscope_trace::{DeviceId, Event, EventKind, NameId, Pool, ProcessId, StackId, StreamId, TimeNs};

use crate::{BlockId, EventSeq, LaneId, Position, SegmentId};

/// One process's allocator on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its number.
    pub id: LaneId,
    /// The process.
    pub process: ProcessId,
    /// The device.
    pub device: DeviceId,
    /// Memory events (segments, blocks, frees, failures, unknown actions); facts about the start, annotations, marks and
    /// counter samples are not counted.
    pub entries: u64,
    /// Whether every block so far told what was asked for. If not, [`crate::Metric::Requested`] is unknown.
    pub requested_known: bool,
    /// After its first event (a fact about the start included).
    pub first: Position,
    /// After its last event so far.
    pub last: Position,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Nothing this history knows: a failure to place it, a counter sample, lost events.
    None,
    /// A block.
    Block(BlockId),
    /// A segment.
    Segment(SegmentId),
    /// An allocation that failed: its index in [`crate::History::ooms`].
    Oom(u32),
    /// A name: an annotation's, a mark's, or an unknown action's.
    Name(NameId),
}

/// An event as it was told, with its number and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventView {
    /// Its place in the order.
    pub seq: EventSeq,
    /// The event, exactly as its source told it.
    pub event: Event,
    /// Its lane; `None` if its process and device have no memory events.
    pub lane: Option<LaneId>,
    /// What it is about.
    pub subject: Subject,
}

impl EventView {
    /// When; `None` where the source has no clock.
    pub fn time(&self) -> Option<TimeNs> {
        self.event.time
    }

    /// The field's short name of its kind.
    pub fn label(&self) -> &'static str {
        self.event.kind.label()
    }

    /// The address it names.
    pub fn address(&self) -> Option<u64> {
        match self.event.kind {
            EventKind::SegmentAlloc { address, .. }
            | EventKind::SegmentFree { address, .. }
            | EventKind::SegmentMap { address, .. }
            | EventKind::SegmentUnmap { address, .. }
            | EventKind::BlockAlloc { address, .. }
            | EventKind::FreeRequested { address, .. }
            | EventKind::FreeCompleted { address }
            | EventKind::Other { address, .. } => Some(address),
            _ => None,
        }
    }

    /// The bytes it names itself; a free names none (its block has them).
    pub fn bytes(&self) -> Option<u64> {
        match self.event.kind {
            EventKind::SegmentAlloc { bytes, .. }
            | EventKind::SegmentFree { bytes, .. }
            | EventKind::SegmentMap { bytes, .. }
            | EventKind::SegmentUnmap { bytes, .. }
            | EventKind::BlockAlloc { bytes, .. }
            | EventKind::Other { bytes, .. } => Some(bytes),
            EventKind::OutOfMemory { requested, .. } => Some(requested),
            _ => None,
        }
    }
}

/// Whether times can serve as an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeAxis {
    /// Times of memory events never go back in the total order, and they move.
    Usable {
        /// The first.
        first: TimeNs,
        /// The last.
        last: TimeNs,
    },
    /// No memory event has a time.
    Missing,
    /// There is only one time.
    AllEqual,
    /// Times go back somewhere.
    GoesBack,
}

/// A block and its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number.
    pub id: BlockId,
    /// Its lane.
    pub lane: LaneId,
    /// The segment it was placed in; `None` = in no known segment.
    pub segment: Option<SegmentId>,
    /// First byte.
    pub address: u64,
    /// What it takes from its segment.
    pub bytes: u64,
    /// What the tensor asked for; `None` = unknown.
    pub requested: Option<u64>,
    /// Stack of the allocation.
    pub stack: StackId,
    /// Stack of the call that freed it, where the source tells it apart; [`StackId::NONE`] until then.
    pub free_stack: StackId,
    /// Its stream; `None` = unknown.
    pub stream: Option<StreamId>,
    /// Its segment's pool; `None` = unknown.
    pub pool: Option<Pool>,
    /// It is live from this position on.
    pub allocated: Position,
    /// It is pending (or gone) from this position on; `None` = not yet.
    pub free_requested: Option<Position>,
    /// It is gone from this position on; `None` = not yet.
    pub free_completed: Option<Position>,
    /// True when it was allocated before recording began.
    pub at_start: bool,
}

/// A segment and its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number.
    pub id: SegmentId,
    /// Its lane.
    pub lane: LaneId,
    /// The lowest byte it ever had.
    pub address: u64,
    /// Length of the range it ever had; an expandable segment may have holes in it.
    pub bytes: u64,
    /// Pool it serves; `None` = unknown.
    pub pool: Option<Pool>,
    /// Its stream; `None` = unknown.
    pub stream: Option<StreamId>,
    /// Whether it grows and shrinks by mapping.
    pub expandable: bool,
    /// Stack of the call that created it.
    pub stack: StackId,
    /// It exists from this position on.
    pub created: Position,
    /// It is gone from this position on; `None` = not yet.
    pub freed: Option<Position>,
    /// True when it existed before recording began.
    pub at_start: bool,
}

/// A named span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its name.
    pub name: NameId,
    /// The process it was told by.
    pub process: ProcessId,
    /// The device that was current.
    pub device: DeviceId,
    /// When it began; `None` if that was not told.
    pub begin: Option<TimeNs>,
    /// When it ended; `None` if that was not told.
    pub end: Option<TimeNs>,
    /// The event that began it. Annotations may be told after all memory events, so times place them, not numbers.
    pub begin_event: Option<EventSeq>,
    /// The event that ended it.
    pub end_event: Option<EventSeq>,
    /// How many spans of its process and device were open when it began.
    pub depth: u32,
}

/// A named instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its event.
    pub seq: EventSeq,
    /// Its name.
    pub name: NameId,
    /// The process it was told by.
    pub process: ProcessId,
    /// The device that was current.
    pub device: DeviceId,
    /// When.
    pub time: Option<TimeNs>,
}

/// An allocation that failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oom {
    /// The state it failed in: just before its event.
    pub at: Position,
    /// Its event.
    pub seq: EventSeq,
    /// Its lane.
    pub lane: LaneId,
    /// The rounded request in bytes.
    pub requested: u64,
    /// Bytes the driver had free; `None` = unknown.
    pub device_free: Option<u64>,
    /// The stream it was for; `None` = unknown.
    pub stream: Option<StreamId>,
    /// When.
    pub time: Option<TimeNs>,
    /// Stack of the allocation.
    pub stack: StackId,
}

/// A place where the source dropped events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its event.
    pub seq: EventSeq,
    /// Where it happened.
    pub process: ProcessId,
    /// Where it happened.
    pub device: DeviceId,
    /// How many events were dropped.
    pub count: u64,
    /// When.
    pub time: Option<TimeNs>,
}

/// The largest value of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The value in bytes.
    pub bytes: u64,
    /// The first position where it held, not before the recording's start.
    pub at: Position,
}
