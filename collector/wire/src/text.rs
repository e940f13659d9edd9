//! Texts in a row of records: the first carries 32 bytes, up to four more carry 56 each.

use crate::{Api, BURST, Kind, Meta, RECORD_WORDS, Record, flags};

const FIRST: usize = 4;
const MORE: usize = 1;
const FIRST_BYTES: usize = (RECORD_WORDS - FIRST) * 8;
const MORE_BYTES: usize = (RECORD_WORDS - MORE) * 8;

/// The longest text in bytes; longer ones are cut, and say so.
pub const TEXT_BYTES: usize = FIRST_BYTES + (BURST as usize - 1) * MORE_BYTES;

/// Spreads a text over records. Returns them and how many there are. `meta.kind` says what the text is for; `id` goes with it.
pub fn text_records(mut meta: Meta, time_ns: u64, id: u64, text: &[u8]) -> ([Record; BURST as usize], usize) {
    let mut records = [Record::default(); BURST as usize];
    let length = text.len().min(TEXT_BYTES);
    if length < text.len() {
        meta.flags |= flags::CUT;
    }
    records[0] = Record::new(meta, time_ns, [id, length as u64, 0, 0]);
    let (first, rest) = text[..length].split_at(length.min(FIRST_BYTES));
    put(&mut records[0], FIRST, first);
    let more = Meta { kind: Kind::MoreText, api: Api::None, flags: 0, ..meta };
    let mut count = 1;
    for part in rest.chunks(MORE_BYTES) {
        records[count].0[0] = more.word();
        put(&mut records[count], MORE, part);
        count += 1;
    }
    (records, count)
}

fn put(record: &mut Record, first_word: usize, bytes: &[u8]) {
    for (word, part) in record.0[first_word..].iter_mut().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..part.len()].copy_from_slice(part);
        *word = u64::from_ne_bytes(padded);
    }
}

/// A text that came out of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// The first record's head; its kind says what the text is for.
    pub meta: Meta,
    /// Monotonic time in ns.
    pub time_ns: u64,
    /// The id that goes with it.
    pub id: u64,
    bytes: [u8; TEXT_BYTES],
    length: usize,
    wanted: usize,
}

impl Text {
    /// The text, in whatever encoding the job used; it may be cut.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Whether the end is missing.
    pub fn is_cut(&self) -> bool {
        self.length < self.wanted || self.meta.flags & flags::CUT != 0
    }

    fn add(&mut self, words: &[u64]) {
        for word in words {
            let room = self.wanted.min(self.length + 8) - self.length;
            self.bytes[self.length..self.length + room].copy_from_slice(&word.to_ne_bytes()[..room]);
            self.length += room;
        }
    }
}

/// Puts texts together again. One a lane; feed it every record of the lane in order.
#[derive(Clone, Debug, Default)]
pub struct TextAssembler {
    open: Option<Text>,
}

impl TextAssembler {
    /// Whether a record is part of a text, and so has nothing to say by itself.
    pub fn concerns(record: &Record) -> bool {
        matches!(
            record.meta().map(|meta| meta.kind),
            Some(Kind::Mark | Kind::RangeBegin | Kind::RangeEnd | Kind::Name | Kind::MoreText)
        )
    }

    /// Takes a record. Returns a text that this record completes or shows to be cut; whether
    /// the record itself is the caller's, [`Self::concerns`] tells.
    pub fn push(&mut self, record: &Record) -> Option<Text> {
        let meta = record.meta()?;
        match meta.kind {
            Kind::MoreText => {
                let text = self.open.as_mut()?;
                text.add(&record.0[MORE..]);
                if text.length == text.wanted { self.open.take() } else { None }
            }
            Kind::Mark | Kind::RangeBegin | Kind::RangeEnd | Kind::Name => {
                let [id, length, ..] = record.numbers();
                let wanted = length.min(TEXT_BYTES as u64) as usize;
                let mut text = Text { meta, time_ns: record.time_ns(), id, bytes: [0; TEXT_BYTES], length: 0, wanted };
                text.add(&record.0[FIRST..]);
                // Rows are written at one go, so an open text here lost its end when the writer overtook the reader.
                let cut = self.open.take();
                if text.length < wanted {
                    self.open = Some(text);
                    return cut;
                }
                Some(text)
            }
            _ => self.open.take(),
        }
    }
}
