//! Sources of GPU memory events: recorded files, and running jobs.
//!
//! A source runs on a thread of its own and says what it finds as [`SourceMessage`]s on a bounded channel. A file waits when the
//! channel is full.

pub mod sources;

mod files;

pub use files::{Recording, find_recordings, read_bytes, read_file, read_stream};
pub use vramscope_trace::SourceMessage;
