//! One fact about GPU memory: what happened, when, where, and who says so.

use crate::{Counter, DeviceId, NameId, Pool, ProcessId, StackId, StreamId, TimeNs};

/// Who said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The library preloaded into the job.
    Shim,
    /// A PyTorch memory snapshot.
    Snapshot,
    /// NVIDIA's management library.
    Nvml,
    /// The allocator model.
    Simulator,
    /// A user annotation or mark.
    Annotation,
}

/// One fact with its time, place and origin.
///
/// Order matters more than time: within one process and device, events stand in the allocator's own order, and times may be
/// equal, missing or (in odd files) go backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When; `None` where the source has no clock.
    pub time: Option<TimeNs>,
    /// The process it happened in.
    pub process: ProcessId,
    /// The device it concerns.
    pub device: DeviceId,
    /// The stream it belongs to; `None` = unknown.
    pub stream: Option<StreamId>,
    /// Who said it.
    pub origin: Origin,
    /// What happened.
    pub kind: EventKind,
}

/// What happened. Sizes are bytes, addresses are device virtual addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The allocator reserved `bytes` from the driver (`cudaMalloc`).
    SegmentAlloc {
        /// First byte.
        address: u64,
        /// Length.
        bytes: u64,
        /// Pool it serves; `None` = unknown.
        pool: Option<Pool>,
        /// Stack of the call that needed it.
        stack: StackId,
        /// True when it existed before recording began: a fact about the start, not an event of the run.
        at_start: bool,
    },
    /// The allocator gave a segment back to the driver.
    SegmentFree {
        /// First byte.
        address: u64,
        /// Length.
        bytes: u64,
    },
    /// An expandable segment grew: `bytes` of physical memory were mapped at `address`.
    SegmentMap {
        /// First newly mapped byte.
        address: u64,
        /// Length.
        bytes: u64,
        /// Pool it serves; `None` = unknown.
        pool: Option<Pool>,
        /// Stack of the call that needed it.
        stack: StackId,
        /// True when it was mapped before recording began.
        at_start: bool,
    },
    /// An expandable segment shrank.
    SegmentUnmap {
        /// First unmapped byte.
        address: u64,
        /// Length.
        bytes: u64,
    },
    /// A block was handed out.
    BlockAlloc {
        /// First byte.
        address: u64,
        /// Block size: what it takes from its segment, rounding and slack included.
        bytes: u64,
        /// What the tensor asked for; `None` = unknown.
        requested: Option<u64>,
        /// Stack of the allocation.
        stack: StackId,
        /// True when it was allocated before recording began.
        at_start: bool,
    },
    /// The program freed a block; it may still wait for other streams.
    FreeRequested {
        /// First byte of the block.
        address: u64,
        /// Stack of the call that freed it, where the source tells it apart.
        stack: StackId,
        /// True when it had been freed before recording began and was still waiting.
        at_start: bool,
    },
    /// A freed block went back to its pool.
    FreeCompleted {
        /// First byte of the block.
        address: u64,
    },
    /// An allocation failed for good.
    OutOfMemory {
        /// The rounded request in bytes.
        requested: u64,
        /// Bytes the driver had free then; `None` = unknown.
        device_free: Option<u64>,
        /// Stack of the allocation that failed.
        stack: StackId,
    },
    /// A named span began.
    AnnotationBegin {
        /// Its name.
        name: NameId,
    },
    /// A named span ended.
    AnnotationEnd {
        /// Its name.
        name: NameId,
    },
    /// A named instant.
    Mark {
        /// Its name.
        name: NameId,
    },
    /// A counter had this value.
    CounterSample {
        /// What was counted.
        counter: Counter,
        /// Its value.
        value: u64,
    },
    /// The source had to drop `count` events here.
    LostEvents {
        /// How many.
        count: u64,
    },
    /// Something the source said that this version has no meaning for: kept and shown as it was written.
    Other {
        /// The action's own name.
        name: NameId,
        /// Its address, 0 if none.
        address: u64,
        /// Its size, 0 if none.
        bytes: u64,
    },
}

impl EventKind {
    /// The field's short name of this kind, for text dumps and lists.
    pub fn label(&self) -> &'static str {
        match self {
            Self::SegmentAlloc { .. } => "segment alloc",
            Self::SegmentFree { .. } => "segment free",
            Self::SegmentMap { .. } => "segment map",
            Self::SegmentUnmap { .. } => "segment unmap",
            Self::BlockAlloc { .. } => "block alloc",
            Self::FreeRequested { .. } => "free requested",
            Self::FreeCompleted { .. } => "free completed",
            Self::OutOfMemory { .. } => "out of memory",
            Self::AnnotationBegin { .. } => "annotation begin",
            Self::AnnotationEnd { .. } => "annotation end",
            Self::Mark { .. } => "mark",
            Self::CounterSample { .. } => "counter sample",
            Self::LostEvents { .. } => "lost events",
            Self::Other { .. } => "other",
        }
    }

    /// Whether this states something that was so before recording began.
    pub fn at_start(&self) -> bool {
        matches!(
            self,
            Self::SegmentAlloc { at_start: true, .. }
                | Self::SegmentMap { at_start: true, .. }
                | Self::BlockAlloc { at_start: true, .. }
                | Self::FreeRequested { at_start: true, .. }
        )
    }
}
