//! Names, stack frames and call stacks, told once and referred to by id.
//!
//! A dictionary is a row of immutable chunks, each with the entries that one batch brought. Cloning one copies a row of
//! pointers, so every published history can hold its own.

use std::sync::Arc;

use crate::{FrameId, NameId, StackId};

/// A stack frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Source file or library.
    pub file: NameId,
    /// Function.
    pub function: NameId,
    /// Line, 0 if unknown.
    pub line: u32,
}

impl Frame {
    /// A frame nothing is known about.
    pub const EMPTY: Self = Self { file: NameId(0), function: NameId(0), line: 0 };
}

/// The entries that one batch brought. Ids go on from where the chunk before ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DictionaryChunk {
    pub(crate) first_name: u32,
    pub(crate) first_frame: u32,
    pub(crate) first_stack: u32,
    pub(crate) text: String,
    pub(crate) name_ends: Vec<u32>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) stack_frames: Vec<FrameId>,
    pub(crate) stack_ends: Vec<u32>,
}

impl DictionaryChunk {
    pub(crate) fn is_empty(&self) -> bool {
        self.name_ends.is_empty() && self.frames.is_empty() && self.stack_ends.is_empty()
    }

    pub(crate) fn next(&self) -> Self {
        Self {
            first_name: self.first_name + self.name_ends.len() as u32,
            first_frame: self.first_frame + self.frames.len() as u32,
            first_stack: self.first_stack + self.stack_ends.len() as u32,
            ..Self::default()
        }
    }

    pub(crate) fn name(&self, id: NameId) -> Option<&str> {
        let index = id.0.checked_sub(self.first_name)? as usize;
        let end = *self.name_ends.get(index)? as usize;
        let start = if index == 0 { 0 } else { self.name_ends[index - 1] as usize };
        self.text.get(start..end)
    }

    pub(crate) fn frame(&self, id: FrameId) -> Option<Frame> {
        self.frames.get(id.0.checked_sub(self.first_frame)? as usize).copied()
    }

    pub(crate) fn stack(&self, id: StackId) -> Option<&[FrameId]> {
        let index = id.0.checked_sub(self.first_stack)? as usize;
        let end = *self.stack_ends.get(index)? as usize;
        let start = if index == 0 { 0 } else { self.stack_ends[index - 1] as usize };
        self.stack_frames.get(start..end)
    }
}

/// All names, frames and stacks of a run so far. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    chunks: Vec<Arc<DictionaryChunk>>,
}

impl Dictionary {
    /// Appends what a batch brought. A chunk that does not continue this dictionary is refused (`false`).
    pub fn push(&mut self, chunk: Arc<DictionaryChunk>) -> bool {
        let continues = match self.chunks.last() {
            Some(last) => {
                let next = last.next();
                (next.first_name, next.first_frame, next.first_stack)
                    == (chunk.first_name, chunk.first_frame, chunk.first_stack)
            }
            None => (chunk.first_name, chunk.first_frame, chunk.first_stack) == (0, 0, 0),
        };
        if continues {
            self.chunks.push(chunk);
        }
        continues
    }

    /// A text; empty for an id this dictionary does not have.
    pub fn name(&self, id: NameId) -> &str {
        self.chunk(|chunk| chunk.first_name <= id.0).and_then(|chunk| chunk.name(id)).unwrap_or("")
    }

    /// A frame; `None` for an id this dictionary does not have.
    pub fn frame(&self, id: FrameId) -> Option<Frame> {
        self.chunk(|chunk| chunk.first_frame <= id.0)?.frame(id)
    }

    /// The frames of a stack, innermost first; empty for [`StackId::NONE`] and unknown ids.
    pub fn stack(&self, id: StackId) -> &[FrameId] {
        self.chunk(|chunk| chunk.first_stack <= id.0).and_then(|chunk| chunk.stack(id)).unwrap_or(&[])
    }

    /// How many names, frames and stacks there are.
    pub fn counts(&self) -> (u32, u32, u32) {
        self.chunks.last().map_or((0, 0, 0), |last| {
            let next = last.next();
            (next.first_name, next.first_frame, next.first_stack)
        })
    }

    /// The last chunk whose first id is not above the wanted one.
    fn chunk(&self, not_above: impl Fn(&DictionaryChunk) -> bool) -> Option<&DictionaryChunk> {
        let after = self.chunks.partition_point(|chunk| not_above(chunk));
        after.checked_sub(1).map(|index| &*self.chunks[index])
    }
}
