//! Builds a dictionary: every text, frame and stack gets one id by its content, however often it is mentioned.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::HashTable;

use crate::{Dictionary, DictionaryChunk, Frame, FrameId, NameId, StackId};

/// The largest number of entries of one kind. Beyond it, ids of the empty text, an empty frame or no stack are given out, and
/// [`Interner::overflowed`] says so.
const MOST: u32 = u32::MAX - 1;

/// The largest total length of the texts of one chunk in bytes; a fuller chunk is closed before the next text.
const CHUNK_TEXT: usize = 1 << 30;

/// Gives out ids by content. Holds one copy of everything; what [`Interner::take_chunks`] hands on is shared, not copied.
#[derive(Debug)]
pub struct Interner {
    known: Dictionary,
    open: DictionaryChunk,
    closed: Vec<Arc<DictionaryChunk>>,
    names: HashTable<u32>,
    frames: HashTable<u32>,
    stacks: HashTable<u32>,
    key: Key,
    overflowed: bool,
}

impl Default for Interner {
    fn default() -> Self {
        Self::new()
    }
}

/// Hashes with a key that no file can know. With a known hash function a file could choose texts or frames that all meet in one
/// place of a table, and reading it would take the square of its size.
#[derive(Clone, Copy, Debug)]
struct Key(u64, u64);

impl Key {
    fn new() -> Self {
        let random = RandomState::new();
        Self(random.hash_one(0), random.hash_one(1) | 1)
    }

    fn mix(self, hash: u64, word: u64) -> u64 {
        let wide = u128::from(hash ^ word) * u128::from(self.1);
        (wide as u64) ^ ((wide >> 64) as u64)
    }

    fn bytes(self, bytes: &[u8]) -> u64 {
        let (words, rest) = bytes.as_chunks::<8>();
        let hash = words.iter().fold(self.0, |hash, word| self.mix(hash, u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(self.mix(hash, u64::from_le_bytes(last)), bytes.len() as u64)
    }

    fn frame(self, frame: Frame) -> u64 {
        let names = u64::from(frame.file.0) << 32 | u64::from(frame.function.0);
        self.mix(self.mix(self.0, names), frame.line.into())
    }

    fn stack(self, frames: &[FrameId]) -> u64 {
        let hash = frames.iter().fold(self.0, |hash, frame| self.mix(hash, frame.0.into()));
        self.mix(hash, frames.len() as u64)
    }
}

impl Interner {
    /// An interner that knows the empty text (id 0) and the empty stack (id 0).
    pub fn new() -> Self {
        let mut interner = Self {
            known: Dictionary::default(),
            open: DictionaryChunk::default(),
            closed: Vec::new(),
            names: HashTable::new(),
            frames: HashTable::new(),
            stacks: HashTable::new(),
            key: Key::new(),
            overflowed: false,
        };
        interner.name("");
        interner.stack(&[]);
        interner
    }

    /// The id of a text.
    pub fn name(&mut self, text: &str) -> NameId {
        let key = self.key;
        let hash = key.bytes(text.as_bytes());
        let (known, open) = (&self.known, &self.open);
        let lookup = |id: u32| open.name(NameId(id)).unwrap_or_else(|| known.name(NameId(id)));
        if let Some(&id) = self.names.find(hash, |&id| lookup(id) == text) {
            return NameId(id);
        }
        if self.open.text.len() + text.len() > CHUNK_TEXT {
            self.close_chunk();
        }
        let id = self.open.first_name + self.open.name_ends.len() as u32;
        if id >= MOST || text.len() > CHUNK_TEXT {
            self.overflowed = true;
            return NameId(0);
        }
        self.open.text.push_str(text);
        self.open.name_ends.push(self.open.text.len() as u32);
        let (known, open) = (&self.known, &self.open);
        let lookup = |id: u32| open.name(NameId(id)).unwrap_or_else(|| known.name(NameId(id)));
        self.names.insert_unique(hash, id, |&id| key.bytes(lookup(id).as_bytes()));
        NameId(id)
    }

    /// The id of a frame.
    pub fn frame(&mut self, frame: Frame) -> FrameId {
        let key = self.key;
        let hash = key.frame(frame);
        let (known, open) = (&self.known, &self.open);
        let lookup = |id: u32| open.frame(FrameId(id)).or_else(|| known.frame(FrameId(id)));
        if let Some(&id) = self.frames.find(hash, |&id| lookup(id) == Some(frame)) {
            return FrameId(id);
        }
        let id = self.open.first_frame + self.open.frames.len() as u32;
        if id >= MOST {
            self.overflowed = true;
            return FrameId(0);
        }
        self.open.frames.push(frame);
        let (known, open) = (&self.known, &self.open);
        let lookup = |id: u32| open.frame(FrameId(id)).or_else(|| known.frame(FrameId(id)));
        self.frames.insert_unique(hash, id, |&id| lookup(id).map_or(0, |frame| key.frame(frame)));
        FrameId(id)
    }

    /// The id of a stack, frames innermost first.
    pub fn stack(&mut self, frames: &[FrameId]) -> StackId {
        let key = self.key;
        let hash = key.stack(frames);
        let (known, open) = (&self.known, &self.open);
        let lookup = |id: u32| open.stack(StackId(id)).unwrap_or_else(|| known.stack(StackId(id)));
        if let Some(&id) = self.stacks.find(hash, |&id| lookup(id) == frames) {
            return StackId(id);
        }
        let id = self.open.first_stack + self.open.stack_ends.len() as u32;
        let end = self.open.stack_frames.len() + frames.len();
        let Ok(end) = u32::try_from(end) else {
            self.close_chunk();
            return if frames.len() < u32::MAX as usize { self.stack(frames) } else { StackId::NONE };
        };
        if id >= MOST {
            self.overflowed = true;
            return StackId::NONE;
        }
        self.open.stack_frames.extend_from_slice(frames);
        self.open.stack_ends.push(end);
        let (known, open) = (&self.known, &self.open);
        let lookup = |id: u32| open.stack(StackId(id)).unwrap_or_else(|| known.stack(StackId(id)));
        self.stacks.insert_unique(hash, id, |&id| key.stack(lookup(id)));
        StackId(id)
    }

    /// The text of an id; empty if this interner did not give it out.
    pub fn text(&self, id: NameId) -> &str {
        self.open.name(id).unwrap_or_else(|| self.known.name(id))
    }

    /// The content of a frame id; `None` if this interner did not give it out.
    pub fn frame_by_id(&self, id: FrameId) -> Option<Frame> {
        self.open.frame(id).or_else(|| self.known.frame(id))
    }

    /// Whether more entries came than ids exist.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// What was added since the last call, in chunks to be read in order; usually none or one.
    pub fn take_chunks(&mut self) -> Vec<Arc<DictionaryChunk>> {
        self.close_chunk();
        std::mem::take(&mut self.closed)
    }

    /// Everything so far, as a dictionary of its own.
    pub fn dictionary(&mut self) -> Dictionary {
        self.close_chunk();
        self.known.clone()
    }

    fn close_chunk(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let next = self.open.next();
        let chunk = Arc::new(std::mem::replace(&mut self.open, next));
        self.known.push(Arc::clone(&chunk));
        self.closed.push(chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_content_has_the_same_id_across_chunks() {
        let mut interner = Interner::new();
        let mut other_side = Dictionary::default();
        let mut ids = Vec::new();
        for round in 0..3 {
            for n in 0..50 {
                let file = interner.name(&format!("file{}.py", n % 7));
                let function = interner.name(&format!("f{n}"));
                let frame = interner.frame(Frame { file, function, line: n });
                let stack = interner.stack(&[frame, FrameId(0)]);
                if round == 0 {
                    ids.push((file, function, frame, stack));
                } else {
                    assert_eq!(ids[n as usize], (file, function, frame, stack));
                }
                if n % 13 == 0 {
                    for chunk in interner.take_chunks() {
                        assert!(other_side.push(chunk));
                    }
                }
            }
        }
        for chunk in interner.take_chunks() {
            assert!(other_side.push(chunk));
        }
        assert_eq!(other_side.counts(), (1 + 7 + 50, 50, 1 + 50));
        for (n, (file, function, frame, stack)) in ids.into_iter().enumerate() {
            assert_eq!(other_side.name(file), format!("file{}.py", n % 7));
            assert_eq!(other_side.name(function), format!("f{n}"));
            assert_eq!(other_side.frame(frame), Some(Frame { file, function, line: n as u32 }));
            assert_eq!(other_side.stack(stack), &[frame, FrameId(0)]);
        }
    }

    #[test]
    fn a_chunk_that_leaves_a_gap_is_refused() {
        let mut interner = Interner::new();
        let first = interner.take_chunks();
        interner.name("a");
        let second = interner.take_chunks();
        let mut dictionary = Dictionary::default();
        assert!(!dictionary.push(Arc::clone(&second[0])));
        assert!(dictionary.push(Arc::clone(&first[0])));
        assert!(dictionary.push(Arc::clone(&second[0])));
        assert!(!dictionary.push(Arc::clone(&second[0])));
    }
}
