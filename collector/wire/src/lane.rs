//! One lane of a ring: the writer that never waits, and the reader that takes nothing on trust.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use crate::{BURST, Layout, RECORD_WORDS, Record};

/// The words of a ring as its writer sees them. Production uses a mapped file; tests use memory that can be stopped at every store.
pub trait Words {
    /// Reads a word that only this writer writes.
    fn own(&self, at: usize) -> u64;
    /// Stores a word in no particular order.
    fn store(&self, at: usize, value: u64);
    /// Everything stored so far is seen before anything stored from now on.
    fn order(&self);
    /// Stores a word after everything stored so far.
    fn publish(&self, at: usize, value: u64);
}

impl Words for [AtomicU64] {
    #[inline]
    fn own(&self, at: usize) -> u64 {
        self.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    #[inline]
    fn store(&self, at: usize, value: u64) {
        if let Some(word) = self.get(at) {
            word.store(value, Ordering::Relaxed);
        }
    }

    #[inline]
    fn order(&self) {
        fence(Ordering::Release);
    }

    #[inline]
    fn publish(&self, at: usize, value: u64) {
        if let Some(word) = self.get(at) {
            word.store(value, Ordering::Release);
        }
    }
}

/// Writes records to a lane that the caller alone owns, over the oldest ones there. At most [`BURST`] records; the rest is left out.
#[inline]
pub fn write_records<W: Words + ?Sized>(words: &W, layout: Layout, lane: u32, records: &[Record]) {
    let head = words.own(layout.head(lane));
    // A reader that sees any of the stores below must also see a head at least this large, or it could take an overwritten
    // record for a good one.
    words.order();
    let mut next = head;
    for record in records.iter().take(BURST as usize) {
        let at = layout.record(lane, next);
        for (offset, &word) in record.0.iter().enumerate() {
            words.store(at + offset, word);
        }
        next = next.wrapping_add(1);
    }
    words.publish(layout.head(lane), next);
}

/// The words of a ring as a reader sees them.
pub trait Source {
    /// Copies words from the file, starting at word `at`; everything copied is at least as new as what an earlier call saw.
    /// `false` if the file has no such words.
    fn read(&self, at: usize, out: &mut [u64]) -> bool;
}

impl Source for [AtomicU64] {
    fn read(&self, at: usize, out: &mut [u64]) -> bool {
        let Some(from) = self.get(at..).and_then(|rest| rest.get(..out.len())) else { return false };
        for (word, out) in from.iter().zip(&mut *out) {
            *out = word.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        true
    }
}

/// What one call of [`LaneReader::read`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken<'a> {
    /// Words of whole records, in the order they were written.
    words: &'a [u64],
    /// Records that were overwritten before they could be read; they lie before the ones in `words`.
    pub lost: u64,
    /// Whether the head went backwards, which no writer does: the file was damaged or replaced.
    pub damaged: bool,
}

impl<'a> Taken<'a> {
    /// The records, in the order they were written.
    pub fn records(&self) -> impl ExactSizeIterator<Item = Record> + 'a {
        self.words.as_chunks::<RECORD_WORDS>().0.iter().map(|&words| Record(words))
    }

    /// Whether there was nothing new.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.lost == 0 && !self.damaged
    }
}

/// A reader's place in one lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneReader {
    next: u64,
}

impl LaneReader {
    /// Takes the next records, at most as many as fit into `buffer` and at most up to the lane's end; call again until it is empty.
    /// `None` if the file is shorter than its header says.
    pub fn read<'a, S: Source + ?Sized>(
        &mut self,
        source: &S,
        layout: Layout,
        lane: u32,
        buffer: &'a mut [u64],
    ) -> Option<Taken<'a>> {
        let head = read_word(source, layout.head(lane))?;
        let mut taken = Taken { words: &[], lost: 0, damaged: false };
        if head < self.next {
            self.next = head;
            taken.damaged = true;
            return Some(taken);
        }
        taken.lost = self.skip_to(oldest_safe(layout, head));
        let places = layout.records();
        let count =
            (head - self.next).min(places - (self.next & (places - 1))).min((buffer.len() / RECORD_WORDS) as u64);
        if count == 0 {
            return Some(taken);
        }
        let words = count as usize * RECORD_WORDS;
        if !source.read(layout.record(lane, self.next), &mut buffer[..words]) {
            return None;
        }
        // The writer went on meanwhile; what it may have written over is not to be believed.
        let head = read_word(source, layout.head(lane))?;
        let torn = oldest_safe(layout, head).saturating_sub(self.next).min(count);
        taken.lost += torn;
        self.next += count;
        taken.words = &buffer[torn as usize * RECORD_WORDS..words];
        Some(taken)
    }

    /// Moves forward to `position` and says how many records that leaves out.
    fn skip_to(&mut self, position: u64) -> u64 {
        let skipped = position.saturating_sub(self.next);
        self.next += skipped;
        skipped
    }
}

/// The oldest record that a writer whose head is `head` cannot be writing over right now.
fn oldest_safe(layout: Layout, head: u64) -> u64 {
    head.saturating_add(BURST).saturating_sub(layout.records())
}

fn read_word<S: Source + ?Sized>(source: &S, at: usize) -> Option<u64> {
    let mut word = [0];
    source.read(at, &mut word).then_some(word[0])
}
