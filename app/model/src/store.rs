//! The tables of a history: rows that are written once, plus the few cells that are filled in later.
//!
//! | table | row | bytes |
//! | --- | --- | --- |
//! | events | running maximum of times, subject, place, tag | 16 |
//! | blocks | facts, and the positions of its two frees | 64 |
//! | segments | facts, and the position of its end | few rows |
//! | ops | a range mapped into or out of an expandable segment | few rows |
//! | extras | events that do not fit the compact row, word for word | few rows |
//!
//! A cell that is filled in later holds a position. A history that ends before it reads "not yet".

use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use vramscope_trace::{
    DeviceId, Dictionary, Event, EventKind, Origin, Pool, ProcessId, RunInfo, StackId, StreamId, TimeNs,
};

use crate::chunk::Table;
use crate::{BlockId, LaneId, Position, SegmentId, Subject};

/// "Not yet", "none" or "unknown" in a 32-bit cell.
pub(crate) const NONE: u32 = u32::MAX;
/// "Unknown" in a requested-bytes cell.
pub(crate) const UNKNOWN: u64 = u64::MAX;
/// The running maximum of times before any time was told.
pub(crate) const NO_TIME: i64 = i64::MIN;

/// How an event row is to be read. `Extra` rows name a row of `extras`; the others are rebuilt from a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Extra,
    BlockAlloc,
    FreeRequested,
    FreeCompleted,
}

/// One event.
#[derive(Debug, Default)]
pub(crate) struct EventRow {
    /// Running maximum of the times of clocked events up to this one, [`NO_TIME`] before the first.
    pub(crate) clock: AtomicI64,
    /// A block, or a row of `extras`.
    pub(crate) subject: AtomicU32,
    /// Process and device.
    pub(crate) place: AtomicU16,
    /// Form (bits 0–1), at start (2), without a time (3), origin (4–6).
    pub(crate) tag: AtomicU16,
}

const AT_START: u16 = 1 << 2;
const WITHOUT_TIME: u16 = 1 << 3;
const ORIGINS: [Origin; 5] = [Origin::Shim, Origin::Snapshot, Origin::Nvml, Origin::Simulator, Origin::Annotation];

impl EventRow {
    /// The tag of an event in a form.
    #[inline]
    pub(crate) fn tag_of(event: &Event, form: Form) -> u16 {
        let origin = ORIGINS.iter().position(|origin| *origin == event.origin).unwrap_or(0) as u16;
        let without_time = if event.time.is_none() { WITHOUT_TIME } else { 0 };
        let at_start = if event.kind.at_start() { AT_START } else { 0 };
        form as u16 | at_start | without_time | origin << 4
    }

    pub(crate) fn form(&self) -> Form {
        match self.tag.load(Relaxed) & 3 {
            0 => Form::Extra,
            1 => Form::BlockAlloc,
            2 => Form::FreeRequested,
            _ => Form::FreeCompleted,
        }
    }

    fn origin(&self) -> Origin {
        ORIGINS.get(usize::from(self.tag.load(Relaxed) >> 4)).copied().unwrap_or(Origin::Shim)
    }

    fn time(&self) -> Option<TimeNs> {
        (self.tag.load(Relaxed) & WITHOUT_TIME == 0).then(|| TimeNs(self.clock.load(Relaxed)))
    }

    pub(crate) fn at_start(&self) -> bool {
        self.tag.load(Relaxed) & AT_START != 0
    }
}

/// One block. Aligned to a cache line: snapshots visit rows all over the table, each once.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct BlockRow {
    pub(crate) address: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// [`UNKNOWN`] if not told.
    pub(crate) requested: AtomicU64,
    /// [`NONE`] if in no known segment.
    pub(crate) segment: AtomicU32,
    pub(crate) stack: AtomicU32,
    pub(crate) free_stack: AtomicU32,
    /// Index into the list of streams, [`NONE`] if unknown.
    pub(crate) stream: AtomicU32,
    /// Position from which it is live.
    pub(crate) allocated: AtomicU32,
    /// Filled in later.
    pub(crate) free_requested: AtomicU32,
    /// Filled in later.
    pub(crate) free_completed: AtomicU32,
    pub(crate) lane: AtomicU16,
}

impl Default for BlockRow {
    fn default() -> Self {
        Self {
            address: AtomicU64::default(),
            bytes: AtomicU64::default(),
            requested: AtomicU64::default(),
            segment: AtomicU32::default(),
            stack: AtomicU32::default(),
            free_stack: AtomicU32::default(),
            stream: AtomicU32::default(),
            allocated: AtomicU32::default(),
            free_requested: AtomicU32::new(NONE),
            free_completed: AtomicU32::new(NONE),
            lane: AtomicU16::default(),
        }
    }
}

impl BlockRow {
    /// Bytes asked for; `None` = unknown.
    pub(crate) fn requested(&self) -> Option<u64> {
        Some(self.requested.load(Relaxed)).filter(|bytes| *bytes != UNKNOWN)
    }

    /// Its segment.
    pub(crate) fn segment(&self) -> Option<SegmentId> {
        Some(self.segment.load(Relaxed)).filter(|id| *id != NONE).map(SegmentId)
    }

    /// Whether it is gone at a position.
    #[inline]
    pub(crate) fn gone(&self, at: u32) -> bool {
        self.free_completed.load(Relaxed) <= at
    }

    /// Whether its free was requested at a position.
    #[inline]
    pub(crate) fn requested_free(&self, at: u32) -> bool {
        self.free_requested.load(Relaxed) <= at
    }
}

/// What is known of a segment when it is created. For an expandable one, address and bytes are its first range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentFacts {
    pub(crate) lane: LaneId,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) pool: Option<Pool>,
    pub(crate) stream: Option<StreamId>,
    pub(crate) expandable: bool,
    pub(crate) stack: StackId,
    pub(crate) created: u32,
    pub(crate) at_start: bool,
}

/// One segment.
#[derive(Debug)]
pub(crate) struct SegmentRow {
    pub(crate) facts: OnceLock<SegmentFacts>,
    /// Filled in later.
    pub(crate) freed: AtomicU32,
}

impl Default for SegmentRow {
    fn default() -> Self {
        Self { facts: OnceLock::new(), freed: AtomicU32::new(NONE) }
    }
}

/// A range mapped into an expandable segment, or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) at: u32,
    pub(crate) segment: SegmentId,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) mapped: bool,
}

/// An event as told, and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extra {
    pub(crate) event: Event,
    pub(crate) subject: Subject,
}

/// A span by the numbers of its two events.
#[derive(Debug)]
pub(crate) struct SpanRow {
    /// [`NONE`] if only its end was told.
    pub(crate) begin: AtomicU32,
    /// Filled in later.
    pub(crate) end: AtomicU32,
    pub(crate) depth: AtomicU32,
}

impl Default for SpanRow {
    fn default() -> Self {
        Self { begin: AtomicU32::new(NONE), end: AtomicU32::new(NONE), depth: AtomicU32::default() }
    }
}

/// A process and device that events name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) process: ProcessId,
    pub(crate) device: DeviceId,
    /// Its lane, once it had a memory event.
    pub(crate) lane: Option<LaneId>,
}

/// The range that an expandable segment ever had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) segment: SegmentId,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// What lives at a position, so that later positions need not start from nothing. See `folds::checkpoints`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checkpoint {
    pub(crate) at: u32,
    /// Live blocks by lane, then address.
    pub(crate) blocks: Box<[u32]>,
    /// Live segments by number.
    pub(crate) segments: Box<[u32]>,
    /// Mapped ranges of expandable segments: segment, start, end.
    pub(crate) runs: Box<[(SegmentId, u64, u64)]>,
    /// The first block, segment and op that is not covered.
    pub(crate) next_block: u32,
    pub(crate) next_segment: u32,
    pub(crate) next_op: u32,
}

/// All tables. A clone is a view: it shares the rows and keeps its own ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    pub(crate) events: Table<EventRow>,
    pub(crate) blocks: Table<BlockRow>,
    pub(crate) segments: Table<SegmentRow>,
    pub(crate) ops: Table<OnceLock<Op>>,
    pub(crate) extras: Table<OnceLock<Extra>>,
    pub(crate) checkpoints: Table<OnceLock<Checkpoint>>,
    pub(crate) spans: Table<SpanRow>,
    /// Numbers of the events that are marks, failures, and notes of lost events.
    pub(crate) marks: Table<AtomicU32>,
    pub(crate) ooms: Table<AtomicU32>,
    pub(crate) lost: Table<AtomicU32>,
    pub(crate) places: Arc<Vec<Place>>,
    pub(crate) streams: Arc<Vec<StreamId>>,
    /// By segment number.
    pub(crate) envelopes: Arc<Vec<Envelope>>,
    pub(crate) dictionary: Dictionary,
    pub(crate) info: Option<Arc<RunInfo>>,
}

impl Store {
    /// A stream by its index.
    pub(crate) fn stream(&self, index: u32) -> Option<StreamId> {
        self.streams.get(index as usize).copied()
    }

    /// The facts of a segment.
    pub(crate) fn facts(&self, id: SegmentId) -> Option<&SegmentFacts> {
        self.segments.get(id.0)?.facts.get()
    }

    /// The event of a row and what it is about.
    pub(crate) fn event(&self, seq: u32) -> Option<(Event, Subject, Place)> {
        let row = self.events.get(seq)?;
        let place = *self.places.get(usize::from(row.place.load(Relaxed)))?;
        let subject = row.subject.load(Relaxed);
        let form = row.form();
        if form == Form::Extra {
            let extra = self.extras.get(subject)?.get()?;
            return Some((extra.event, extra.subject, place));
        }
        let block = self.blocks.get(subject)?;
        let address = block.address.load(Relaxed);
        let kind = match form {
            Form::FreeRequested => EventKind::FreeRequested {
                address,
                stack: StackId(block.free_stack.load(Relaxed)),
                at_start: row.at_start(),
            },
            Form::FreeCompleted => EventKind::FreeCompleted { address },
            Form::BlockAlloc | Form::Extra => EventKind::BlockAlloc {
                address,
                bytes: block.bytes.load(Relaxed),
                requested: block.requested(),
                stack: StackId(block.stack.load(Relaxed)),
                at_start: row.at_start(),
            },
        };
        let event = Event {
            time: row.time(),
            process: place.process,
            device: place.device,
            stream: self.stream(block.stream.load(Relaxed)),
            origin: row.origin(),
            kind,
        };
        Some((event, Subject::Block(BlockId(subject)), place))
    }

    /// Bytes of all chunks in use.
    pub(crate) fn bytes(&self) -> u64 {
        let checkpoints: u64 = self
            .checkpoints
            .iter_from(0)
            .filter_map(OnceLock::get)
            .map(|point| {
                (size_of_val(&*point.blocks) + size_of_val(&*point.segments) + size_of_val(&*point.runs)) as u64
            })
            .sum();
        checkpoints
            + self.events.bytes()
            + self.blocks.bytes()
            + self.segments.bytes()
            + self.ops.bytes()
            + self.extras.bytes()
            + self.checkpoints.bytes()
            + self.spans.bytes()
            + self.marks.bytes()
            + self.ooms.bytes()
            + self.lost.bytes()
    }
}

/// A cell that is filled in later, as a history sees it that ends at `end`.
#[inline]
pub(crate) fn until(cell: &AtomicU32, end: u32) -> Option<Position> {
    Some(cell.load(Relaxed)).filter(|at| *at <= end).map(Position)
}
