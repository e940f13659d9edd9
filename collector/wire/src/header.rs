//! The head of a ring file: who wrote it, how large it is, and where everything stands.

use crate::{RECORD_BYTES, RECORD_WORDS};

/// First word of a ring file: `VRAMRING` in memory order.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"VRAMRING");
/// Version of the layout this crate writes and reads.
pub const VERSION: u32 = 1;

/// How many lanes a file has and how many records each; every offset follows from these two. Offsets are in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    lanes: u32,
    log2_records: u32,
}

impl Layout {
    /// The most lanes a file may have.
    pub const MOST_LANES: u32 = 1024;
    /// Words of the part before the lanes' heads.
    pub const HEADER_WORDS: usize = 512;
    /// Words from one lane's head to the next one's: a pair of cache lines.
    const LANE_HEAD_WORDS: usize = 16;
    /// Word that counts dropped events.
    pub const DROPPED: usize = 16;
    /// Word that counts the snapshots asked for.
    pub const SNAPSHOTS_ASKED: usize = 32;
    /// Word with the size of a lane and the rank.
    pub const SHAPE: usize = 2;

    /// A layout of `lanes` lanes of 2^`log2_records` records; `None` outside 1 to 1,024 lanes and 2^4 to 2^24 records.
    pub const fn new(lanes: u32, log2_records: u32) -> Option<Self> {
        if lanes == 0 || lanes > Self::MOST_LANES || log2_records < 4 || log2_records > 24 {
            return None;
        }
        Some(Self { lanes, log2_records })
    }

    /// Number of lanes.
    pub const fn lanes(self) -> u32 {
        self.lanes
    }

    /// Records a lane holds; a power of two.
    pub const fn records(self) -> u64 {
        1 << self.log2_records
    }

    /// Word of a lane's head.
    pub const fn head(self, lane: u32) -> usize {
        Self::HEADER_WORDS + lane as usize * Self::LANE_HEAD_WORDS
    }

    /// Word of a lane's owner.
    pub const fn owner(self, lane: u32) -> usize {
        self.head(lane) + 1
    }

    /// First word of a lane's records.
    pub const fn first_record(self, lane: u32) -> usize {
        self.head(self.lanes) + lane as usize * (self.records() as usize * RECORD_WORDS)
    }

    /// First word of record number `position` of a lane.
    pub const fn record(self, lane: u32, position: u64) -> usize {
        self.first_record(lane) + (position & (self.records() - 1)) as usize * RECORD_WORDS
    }

    /// Bytes of the part that must exist before any lane is used.
    pub const fn head_bytes(self) -> u64 {
        self.head(self.lanes) as u64 * 8
    }

    /// Bytes of one lane's records.
    pub const fn lane_bytes(self) -> u64 {
        self.records() * RECORD_BYTES
    }

    /// Bytes of the whole file. Files are sparse: lanes nobody uses take no memory.
    pub const fn file_bytes(self) -> u64 {
        self.head_bytes() + self.lane_bytes() * self.lanes as u64
    }
}

/// What a ring file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its shape.
    pub layout: Layout,
    /// The job's process id, in its own PID namespace.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// Its rank in a distributed job; `None` = unknown.
    pub rank: Option<u32>,
    /// Unix time in ns at one moment.
    pub unix_ns: u64,
    /// Monotonic time in ns at the same moment.
    pub monotonic_ns: u64,
    /// Name of the process as the kernel keeps it, ended by zeros.
    pub name: [u8; 16],
}

/// Why a file is no ring this version can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// It is too short, or its writer has not finished the head yet.
    NotYet,
    /// It does not begin with the magic word.
    NoRing,
    /// It was written by another version, which is given.
    Version(u32),
    /// Its shape is outside what a ring may have.
    Shape,
}

impl Header {
    /// Words to give to [`Header::parse`].
    pub const WORDS: usize = 8;

    /// The first words of a file.
    pub fn words(&self) -> [u64; Self::WORDS] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let half = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&self.name[at..at + 8]);
            u64::from_ne_bytes(bytes)
        };
        [
            MAGIC,
            pair(VERSION, self.layout.lanes),
            Self::shape(self.layout, self.rank),
            pair(self.pid, self.parent),
            self.unix_ns,
            self.monotonic_ns,
            half(0),
            half(8),
        ]
    }

    /// The word at [`Layout::SHAPE`].
    pub fn shape(layout: Layout, rank: Option<u32>) -> u64 {
        u64::from(layout.log2_records) | u64::from(rank.map_or(0, |rank| rank.saturating_add(1))) << 32
    }

    /// Reads the first words of a file.
    ///
    /// # Errors
    /// If they are not those of a ring.
    pub fn parse(words: &[u64]) -> Result<Self, HeaderError> {
        let Some(&[magic, version, shape, ids, unix_ns, monotonic_ns, name0, name1]) = words.first_chunk() else {
            return Err(HeaderError::NotYet);
        };
        match magic {
            MAGIC => {}
            0 => return Err(HeaderError::NotYet),
            _ => return Err(HeaderError::NoRing),
        }
        if version as u32 != VERSION {
            return Err(HeaderError::Version(version as u32));
        }
        let layout = Layout::new((version >> 32) as u32, shape as u32).ok_or(HeaderError::Shape)?;
        let mut name = [0; 16];
        name[..8].copy_from_slice(&name0.to_ne_bytes());
        name[8..].copy_from_slice(&name1.to_ne_bytes());
        Ok(Self {
            layout,
            pid: ids as u32,
            parent: (ids >> 32) as u32,
            rank: ((shape >> 32) as u32).checked_sub(1),
            unix_ns,
            monotonic_ns,
            name,
        })
    }
}
