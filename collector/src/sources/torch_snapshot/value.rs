//! Values on the reader's stack: one machine word each, never owning what they stand for.

use vramscope_trace::{FrameId, NameId, StackId};

/// A value in 8 bytes: a tag of 8 bits and 56 of content. Millions of them are pushed, copied and remembered, so they are plain
/// words; [`Value`] is what one means. Numbers of more than 56 bits stand in a table beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(u64);

const TAG_SHIFT: u32 = 56;
const CONTENT: u64 = (1 << TAG_SHIFT) - 1;

/// What the upper 8 bits of a word say; 0 stands for "never set" in the memo.
mod tag {
    pub(super) const INT: u64 = 1;
    pub(super) const NAME: u64 = 2;
    pub(super) const LIST: u64 = 3;
    pub(super) const DICT: u64 = 4;
    pub(super) const WIDE: u64 = 5;
    pub(super) const BOOL: u64 = 6;
    pub(super) const NONE: u64 = 7;
    pub(super) const OPAQUE: u64 = 8;
}

impl Word {
    pub(super) const NONE: Self = Self(tag::NONE << TAG_SHIFT);
    pub(super) const OPAQUE: Self = Self(tag::OPAQUE << TAG_SHIFT);
    pub(super) const TRUE: Self = Self(tag::BOOL << TAG_SHIFT | 1);
    pub(super) const FALSE: Self = Self(tag::BOOL << TAG_SHIFT);
    const UNSET: Self = Self(0);

    /// An integer, if 56 bits hold it.
    #[inline]
    pub(super) fn int(value: i64) -> Option<Self> {
        (value << 8 >> 8 == value).then_some(Self(tag::INT << TAG_SHIFT | (value as u64 & CONTENT)))
    }

    #[inline]
    pub(super) const fn name(name: NameId) -> Self {
        Self(tag::NAME << TAG_SHIFT | name.0 as u64)
    }

    #[inline]
    pub(super) fn list(id: u32) -> Self {
        Self(tag::LIST << TAG_SHIFT | u64::from(id))
    }

    #[inline]
    pub(super) fn dict(id: u32) -> Self {
        Self(tag::DICT << TAG_SHIFT | u64::from(id))
    }

    /// A value of the machine's table of wide ones.
    pub(super) fn wide(index: usize) -> Self {
        Self(tag::WIDE << TAG_SHIFT | (index as u64 & CONTENT))
    }

    #[inline]
    fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }

    #[inline]
    fn signed_content(self) -> i64 {
        (self.0 as i64) << 8 >> 8
    }

    /// The integer, if the word itself holds one.
    #[inline]
    pub(super) fn as_int(self) -> Option<i64> {
        (self.tag() == tag::INT).then(|| self.signed_content())
    }

    #[inline]
    pub(super) fn as_name(self) -> Option<NameId> {
        (self.tag() == tag::NAME).then_some(NameId(self.0 as u32))
    }

    #[inline]
    pub(super) fn as_list(self) -> Option<u32> {
        (self.tag() == tag::LIST).then_some(self.0 as u32)
    }

    #[inline]
    pub(super) fn as_dict(self) -> Option<u32> {
        (self.tag() == tag::DICT).then_some(self.0 as u32)
    }

    /// What the word means; `wide` is the table of numbers that do not fit into one.
    pub(super) fn decode(self, wide: &[Value]) -> Value {
        match self.tag() {
            tag::INT => Value::Int(self.signed_content()),
            tag::NAME => Value::Name(NameId(self.0 as u32)),
            tag::LIST => Value::List(self.0 as u32),
            tag::DICT => Value::Dict(self.0 as u32),
            tag::BOOL => Value::Bool(self.0 & 1 == 1),
            tag::WIDE => wide.get((self.0 & CONTENT) as usize).copied().unwrap_or(Value::Opaque),
            tag::OPAQUE => Value::Opaque,
            _ => Value::None,
        }
    }
}

/// What a word means. Lists and dictionaries are references into the machine's tables, so sharing costs nothing and cycles are harmless.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    /// An integer that fits into 64 bits, either signed or unsigned: between -2^63 and 2^64 - 1.
    Int(i64),
    /// An integer from 2^63 to 2^64 - 1.
    Big(u64),
    /// An integer of more than 64 bits.
    OddInt,
    Float(f64),
    Name(NameId),
    /// Two small integers in a tuple: how pool ids are written.
    Pair(u32, u32),
    List(u32),
    Dict(u32),
    /// Something that has no meaning in a snapshot (bytes, sets).
    Opaque,
}

impl Value {
    /// As an unsigned 64-bit number: an address, a size, a stream handle. `None` for everything else.
    #[inline]
    pub(super) fn unsigned(self) -> Option<u64> {
        match self {
            Self::Int(value) => u64::try_from(value).ok(),
            Self::Big(value) => Some(value),
            Self::Bool(value) => Some(u64::from(value)),
            // JSON writers of other languages may turn integers into floats.
            Self::Float(value) if (0.0..9.007_199_254_740_992e15).contains(&value) && value.fract() == 0.0 => {
                Some(value as u64)
            }
            _ => None,
        }
    }

    /// As a signed 64-bit number: a time.
    #[inline]
    pub(super) fn signed(self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(value),
            Self::Float(value) if value.abs() < 9.0e18 => Some(value as i64),
            _ => None,
        }
    }
}

/// What a list holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum ListSlot {
    Empty,
    /// Rows of one kind that follow one another.
    Rows {
        kind: RowKind,
        first: u32,
        count: u32,
    },
    /// A call stack; the list's own items are gone.
    Stack(StackId),
    /// Anything else: an index into the machine's item vectors.
    Items(u32),
}

/// What a dictionary was folded into.
#[derive(Clone, Copy, Debug)]
pub(super) enum DictSlot {
    Empty,
    Row {
        kind: RowKind,
        row: u32,
    },
    Frame(FrameId),
    /// Anything else: an index into the machine's pair vectors.
    Pairs(u32),
}

/// The tables that dictionaries are folded into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowKind {
    Entry,
    Segment,
    Block,
    Annotation,
}

/// Remembered words by number. Writers number them from 0 without gaps; others are kept in a map, so that a hostile number costs
/// no more than itself.
#[derive(Debug, Default)]
pub(super) struct Memo {
    dense: Vec<Word>,
    sparse: rustc_hash::FxHashMap<u32, Word>,
}

impl Memo {
    /// Remembers `word` under the number after the last.
    #[inline]
    pub(super) fn push(&mut self, word: Word) {
        self.dense.push(word);
    }

    /// Remembers `word` under `number`.
    pub(super) fn put(&mut self, number: u32, word: Word) {
        let index = number as usize;
        let length = self.dense.len();
        if index < length {
            self.dense[index] = word;
        } else if index == length {
            self.dense.push(word);
        } else if index == length + 1 {
            // Python numbers from 0, other writers from 1.
            self.dense.extend([Word::UNSET, word]);
        } else {
            self.sparse.insert(number, word);
        }
    }

    /// What was remembered under `number`.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<Word> {
        match self.dense.get(number as usize) {
            Some(&word) if word != Word::UNSET => Some(word),
            _ => self.sparse.get(&number).copied(),
        }
    }
}
