//! Rows a snapshot is folded into while it is read: trace entries, segments, blocks and annotations.

use std::sync::Arc;

use vramscope_trace::{DictionaryChunk, NameId, PoolOwner, SizeClass, StackId};

/// No time was written.
pub(super) const NO_TIME: i64 = i64::MIN;

/// How many entries travel together from the reader to the placer.
pub(super) const CHUNK_ROWS: usize = 4096;

/// What a trace entry says happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Action {
    Alloc,
    /// `free` of torch 2.0 development builds: requested and completed at once.
    Free,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    SegmentMap,
    SegmentUnmap,
    Oom,
    /// `user_defined` markers of one release window.
    UserDefined,
    /// Known to change nothing: `snapshot`, `annotate`, `workspace_snapshot`.
    Note,
    /// A name this reader does not know.
    #[default]
    Unknown,
}

/// A value that was written but cannot be one: larger than 64 bits, negative, or of another type.
pub(super) mod odd {
    pub(in super::super) const ADDRESS: u8 = 1;
    pub(in super::super) const SIZE: u8 = 2;
    pub(in super::super) const STREAM: u8 = 4;
}

/// One trace entry. 48 bytes: the reader keeps every entry until the file has been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryRow {
    /// Address; for an OOM the driver's free bytes.
    pub address: u64,
    pub size: u64,
    /// Unix microseconds or [`NO_TIME`].
    pub time: i64,
    pub stream: u64,
    pub stack: StackId,
    /// The action's own name.
    pub action_name: NameId,
    pub action: Action,
    /// Bits of [`odd`].
    pub odd: u8,
    /// Whether the address (for an OOM: the free bytes) was written.
    pub has_address: bool,
    pub has_stream: bool,
    /// Index into the reader's pool table plus 1; 0 = not written.
    pub pool: u16,
}

impl Default for EntryRow {
    fn default() -> Self {
        Self {
            address: 0,
            size: 0,
            time: NO_TIME,
            stream: 0,
            stack: StackId::NONE,
            action_name: NameId(0),
            action: Action::Unknown,
            odd: 0,
            has_address: false,
            has_stream: false,
            pool: 0,
        }
    }
}

/// State of a block in the file's final segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BlockState {
    Active,
    Pending,
    #[default]
    Inactive,
}

/// A block of a final segment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlockRow {
    /// `None` in files before torch 2.1: the running sum of sizes.
    pub address: Option<u64>,
    pub size: u64,
    pub requested: Option<u64>,
    pub state: BlockState,
    pub stack: StackId,
}

/// A segment as the file's end states it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SegmentRow {
    pub device: u16,
    pub address: u64,
    pub total: u64,
    pub allocated: Option<u64>,
    pub stream: Option<u64>,
    pub class: Option<SizeClass>,
    pub owner: PoolOwner,
    pub expandable: bool,
    pub stack: StackId,
    /// Its blocks: a range of block rows.
    pub first_block: u32,
    pub blocks: u32,
}

/// An annotation record.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnnotationRow {
    pub name: NameId,
    pub begins: bool,
    pub device: u16,
    pub time: i64,
}

impl Default for AnnotationRow {
    fn default() -> Self {
        Self { name: NameId(0), begins: true, device: 0, time: NO_TIME }
    }
}

/// Entries in file order, with the names they mention for the first time.
#[derive(Clone, Debug)]
pub(super) struct EntryChunk {
    pub rows: Arc<Vec<EntryRow>>,
    pub dictionary: Vec<Arc<DictionaryChunk>>,
}
