//! What a source knows about a run as a whole, beside its events.

use crate::AllocatorSettings;

/// What a source knows about a run as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunInfo {
    /// The format, in words: "PyTorch memory snapshot (pickle, gzip)".
    pub format: String,
    /// Settings of the allocator; `None` if the source does not tell.
    pub settings: Option<AllocatorSettings>,
    /// How many devices the process could see, with or without events.
    pub devices_visible: u16,
    /// Devices (by ordinal) whose history does not begin at their first allocation.
    pub truncated_devices: Vec<u16>,
    /// Events of the source by device ordinal, as the file counts them (base state excluded).
    pub entries_by_device: Vec<(u16, u64)>,
    /// How many annotation records the source has.
    pub annotations: u64,
    /// Bytes of pinned host memory the file lists apart; `None` if it has no such list.
    pub host_bytes: Option<u64>,
    /// Events about pinned host memory that the file lists apart.
    pub host_entries: u64,
}
