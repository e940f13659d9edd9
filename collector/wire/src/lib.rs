//! The ring file between a running job and vramscope: its bytes, its one writer a lane, and a reader that trusts nothing.
//!
//! A job under the preloaded shim keeps one file, mapped into its memory and shared with whoever reads it. All numbers are 64-bit
//! words in the machine's byte order; offsets are in bytes.
//!
//! | offset | what |
//! | --- | --- |
//! | 0 | magic, `VRAMRING`, stored last |
//! | 8 | version (1) in the low half, number of lanes in the high half |
//! | 16 | log2 of the records a lane holds in the low half, rank + 1 in the high half (0 = unknown) |
//! | 24 | process id in the low half, parent's id in the high half |
//! | 32 | Unix time in ns, read together with the next word |
//! | 40 | monotonic time in ns at the same moment; records carry monotonic times |
//! | 48 | name of the process, 16 bytes, ended by a zero byte |
//! | 128 | events dropped because no lane could be had |
//! | 256 | number of snapshots asked for, written by the reader, polled by the Python hook |
//! | 4096 + 128 × lane | head: how many records were ever written to this lane |
//! | 4096 + 128 × lane + 8 | thread that owns the lane, 0 = nobody |
//! | 4096 + 128 × lanes | records: lane after lane, [`RECORD_BYTES`] each; record `n` of a lane stands in place `n` modulo its size |
//!
//! **Protocol.** A lane has one writer, which never waits: it writes records over the oldest ones and then stores the head. Up to
//! [`BURST`] records are written between two stores of the head (a long text). A reader copies records below the head and then
//! reads the head again; what the writer may have touched meanwhile it throws away and counts as lost, exactly. A writer killed in
//! the middle of a record has not stored its head, so the record was never there. Nothing a reader does can disturb a writer.
//!
//! **Promise about hostile files.** Whatever the bytes say, [`Header::parse`] and [`LaneReader::read`] neither panic nor loop, and
//! read only inside the file the header describes.

#![no_std]

mod header;
mod lane;
mod record;
mod text;

pub use header::{Header, HeaderError, Layout, MAGIC, VERSION};
pub use lane::{LaneReader, Source, Taken, Words, write_records};
pub use record::{Api, Kind, Meta, Record, UNKNOWN_DEVICE, flags};
pub use text::{TEXT_BYTES, Text, TextAssembler, text_records};

/// Words of a record.
pub const RECORD_WORDS: usize = 8;
/// Bytes of a record.
pub const RECORD_BYTES: u64 = RECORD_WORDS as u64 * 8;
/// The most records that are written between two stores of the head.
pub const BURST: u64 = 5;
