//! One ring file on disk, read through plain file reads: a file cut short or damaged by whoever cannot hurt the reader.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use vramscope_wire::{Header, HeaderError, LaneReader, Layout, RECORD_WORDS, Record, Source, Text, TextAssembler};

/// Records read at one go.
const BATCH: usize = 4096;

/// What a lane said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A record without text.
    Record(Record),
    /// A record with its whole text.
    Text(Box<Text>),
    /// Records that were overwritten before they could be read.
    Lost(u64),
    /// The lane's counter went backwards: the file was damaged.
    Damaged,
}

/// Something a lane said, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoken {
    /// Unix time in ns.
    pub unix_ns: i64,
    /// The lane, 0-based.
    pub lane: u32,
    /// What it said.
    pub said: Said,
}

/// An open ring file.
#[derive(Debug)]
pub struct RingFile {
    path: PathBuf,
    words: FileWords,
    header: Header,
    lanes: Vec<Lane>,
    dropped: u64,
    heads: Vec<u64>,
    buffer: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    reader: LaneReader,
    texts: TextAssembler,
    head: u64,
    last_ns: i64,
}

impl RingFile {
    /// Opens a ring file. `Ok(None)` = its writer has not finished making it.
    ///
    /// # Errors
    /// If it cannot be read or is no ring of this version.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let words = FileWords { file: File::open(path)?, bytes: RefCell::default() };
        let mut first = [0; Header::WORDS];
        if !words.read(0, &mut first) {
            return Ok(None);
        }
        let header = match Header::parse(&first) {
            Ok(header) => header,
            Err(HeaderError::NotYet) => return Ok(None),
            Err(HeaderError::NoRing) => return Err(io::Error::other("it is no ring file")),
            Err(HeaderError::Version(version)) => {
                return Err(io::Error::other(format!("it has version {version}, which this program does not read")));
            }
            Err(HeaderError::Shape) => return Err(io::Error::other("its header makes no sense")),
        };
        let lanes = header.layout.lanes() as usize;
        Ok(Some(Self {
            path: path.to_owned(),
            words,
            header,
            lanes: vec![Lane::default(); lanes],
            dropped: 0,
            heads: vec![0; header.layout.head(lanes as u32) - Layout::HEADER_WORDS],
            buffer: vec![0; BATCH * RECORD_WORDS],
        }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says of itself. The rank may become known later, see [`Self::rank`].
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The rank of the process, as far as it is known by now.
    pub fn rank(&self) -> Option<u32> {
        let mut words = [0; Header::WORDS];
        if self.words.read(0, &mut words) { Header::parse(&words).ok().and_then(|header| header.rank) } else { None }
    }

    /// Asks the Python hook of the process for a snapshot, which it makes at the end of its step.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn ask_for_snapshot(&self) -> io::Result<()> {
        let mut word = [0];
        if !self.words.read(Layout::SNAPSHOTS_ASKED, &mut word) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let file = File::options().write(true).open(&self.path)?;
        file.write_all_at(&word[0].wrapping_add(1).to_ne_bytes(), Layout::SNAPSHOTS_ASKED as u64 * 8)
    }

    /// Events that found no lane since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        let mut word = [0];
        let total = if self.words.read(Layout::DROPPED, &mut word) { word[0] } else { self.dropped };
        total.saturating_sub(std::mem::replace(&mut self.dropped, total))
    }

    /// Takes everything new. `false` if the file is shorter than it says, in which case what could be read was taken.
    pub fn drain(&mut self, out: &mut Vec<Spoken>) -> bool {
        let layout = self.header.layout;
        if !self.words.read(Layout::HEADER_WORDS, &mut self.heads) {
            return false;
        }
        let shift = self.header.unix_ns.wrapping_sub(self.header.monotonic_ns) as i64;
        let mut whole = true;
        for number in 0..layout.lanes() {
            let head = self.heads[layout.head(number) - Layout::HEADER_WORDS];
            let lane = &mut self.lanes[number as usize];
            if head == lane.head {
                continue;
            }
            lane.head = head;
            // A lane is at most read once around: what is written meanwhile is for the next call.
            for _ in 0..=layout.records().div_ceil(BATCH as u64) {
                let Some(taken) = lane.reader.read(&self.words, layout, number, &mut self.buffer) else {
                    whole = false;
                    break;
                };
                if taken.is_empty() {
                    break;
                }
                let mut say = |unix_ns, said| out.push(Spoken { unix_ns, lane: number, said });
                if taken.damaged {
                    say(lane.last_ns, Said::Damaged);
                }
                if taken.lost > 0 {
                    say(lane.last_ns, Said::Lost(taken.lost));
                }
                for record in taken.records() {
                    if let Some(text) = lane.texts.push(&record) {
                        lane.last_ns = unix(text.time_ns, shift);
                        say(lane.last_ns, Said::Text(Box::new(text)));
                    }
                    if TextAssembler::concerns(&record) {
                        continue;
                    }
                    lane.last_ns = unix(record.time_ns(), shift);
                    say(lane.last_ns, Said::Record(record));
                }
            }
        }
        whole
    }
}

fn unix(monotonic_ns: u64, shift: i64) -> i64 {
    (monotonic_ns as i64).wrapping_add(shift)
}

/// The words of a file.
#[derive(Debug)]
struct FileWords {
    file: File,
    bytes: RefCell<Vec<u8>>,
}

impl Source for FileWords {
    fn read(&self, at: usize, out: &mut [u64]) -> bool {
        let mut bytes = self.bytes.borrow_mut();
        bytes.resize(out.len() * 8, 0);
        if self.file.read_exact_at(&mut bytes, at as u64 * 8).is_err() {
            return false;
        }
        for (word, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        true
    }
}
