//! The words a PyTorch memory snapshot is written in: the keys of its dictionaries and the names of its actions.
//!
//! They are interned before anything else, so that each has a fixed [`NameId`] and reading a key is one comparison.

use vramscope_trace::{Interner, NameId};

/// Declares the words once: a constant for each, and the list that interns them in the same order.
macro_rules! words {
    ($($constant:ident = $text:literal),+ $(,)?) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "positions in the list below, never used as values")]
        enum Position { EMPTY_TEXT, $($constant),+ }
        $(pub(super) const $constant: NameId = NameId(Position::$constant as u32);)+
        const TEXTS: &[&str] = &[$($text),+];
    };
}

words! {
    // Top level.
    SEGMENTS = "segments",
    DEVICE_TRACES = "device_traces",
    ALLOCATOR_SETTINGS = "allocator_settings",
    EXTERNAL_ANNOTATIONS = "external_annotations",
    HOST_SEGMENTS = "host_segments",
    HOST_TRACES = "host_traces",
    // Trace entries.
    ACTION = "action",
    ADDR = "addr",
    DEVICE_FREE = "device_free",
    SIZE = "size",
    STREAM = "stream",
    TIME_US = "time_us",
    COMPILE_CONTEXT = "compile_context",
    USER_METADATA = "user_metadata",
    INTERNAL_METADATA = "internal_metadata",
    POOL_ID = "pool_id",
    FRAMES = "frames",
    FORWARD_FRAMES = "forward_frames",
    CPP_FRAMES = "cpp_frames",
    CATEGORY = "category",
    // Segments.
    DEVICE = "device",
    ADDRESS = "address",
    TOTAL_SIZE = "total_size",
    ALLOCATED_SIZE = "allocated_size",
    ACTIVE_SIZE = "active_size",
    REQUESTED_SIZE = "requested_size",
    SEGMENT_TYPE = "segment_type",
    SEGMENT_POOL_ID = "segment_pool_id",
    IS_EXPANDABLE = "is_expandable",
    BLOCKS = "blocks",
    // Blocks.
    STATE = "state",
    HISTORY = "history",
    REAL_SIZE = "real_size",
    VERSION = "version",
    // Frames.
    FILENAME = "filename",
    LINE = "line",
    NAME = "name",
    // Annotations.
    STAGE = "stage",
    // Settings.
    CONF = "PYTORCH_CUDA_ALLOC_CONF",
    MAX_SPLIT_SIZE = "max_split_size",
    GC_THRESHOLD = "garbage_collection_threshold",
    EXPANDABLE_SEGMENTS = "expandable_segments",
    ROUNDUP_DIVISIONS = "roundup_power2_divisions",
    // Values.
    ACTIVE_ALLOCATED = "active_allocated",
    ACTIVE_PENDING_FREE = "active_pending_free",
    ACTIVE_AWAITING_FREE = "active_awaiting_free",
    INACTIVE = "inactive",
    SMALL = "small",
    LARGE = "large",
    START = "START",
    END = "END",
    // Actions.
    ALLOC = "alloc",
    FREE = "free",
    FREE_REQUESTED = "free_requested",
    FREE_COMPLETED = "free_completed",
    SEGMENT_ALLOC = "segment_alloc",
    SEGMENT_FREE = "segment_free",
    SEGMENT_MAP = "segment_map",
    SEGMENT_UNMAP = "segment_unmap",
    SNAPSHOT = "snapshot",
    OOM = "oom",
    ANNOTATE = "annotate",
    USER_DEFINED = "user_defined",
    WORKSPACE_SNAPSHOT = "workspace_snapshot",
    // Words of other formats that share this one's syntax.
    TRACE_EVENTS = "traceEvents",
    SCHEMA_VERSION = "schemaVersion",
}

/// An interner in which every word has its constant.
pub(super) fn interner() -> Interner {
    let mut interner = Interner::new();
    let _ = Position::EMPTY_TEXT;
    for text in TEXTS {
        interner.name(text);
    }
    interner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_name_their_texts() {
        let interner = interner();
        assert_eq!(interner.text(SEGMENTS), "segments");
        assert_eq!(interner.text(OOM), "oom");
        assert_eq!(interner.text(SCHEMA_VERSION), "schemaVersion");
        assert_eq!(interner.text(NameId(0)), "");
        assert_eq!(SCHEMA_VERSION.0 as usize, TEXTS.len(), "a word stands twice in the list");
    }
}
