//! Recordings of GPU memory events on disk, readable by any program that reads Arrow streams, and tables for other programs.
#![doc = include_str!("../FORMAT.md")]

mod anonymous;
mod columns;
mod facts;
mod layout;
mod message;
mod read;
mod row;
mod rows;
mod schema;
mod table;
mod words;
mod write;

pub use anonymous::Anonymizer;
pub use read::{MEMORY_FACTOR, MEMORY_FLOOR, Reader, UNPACK_FACTOR};
pub use schema::VERSION;
pub use table::{Cell, CellType, Format, TableWriter};
pub use write::Writer;

/// The first bytes of every recording: the mark before the first message of an Arrow stream.
pub const MAGIC: [u8; 4] = [0xff; 4];

/// How the names of recording files end.
pub const ENDING: &str = ".vmt";
